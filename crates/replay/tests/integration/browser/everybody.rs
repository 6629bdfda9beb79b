// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page by keyboard, mouse and touch, and for who does not see it: axe-core
//! looks at it in both themes, wide and narrow, with everything open.

use super::{Browser, Serving, address, browser, demo, wait_for};
use serde_json::json;

const AXE: &str = include_str!("axe.min.js");
const READY: &str = "document.body.dataset.state === 'live' \
    && [...document.querySelectorAll('figure:not([hidden]) .plot')].every((plot) => plot.querySelector('canvas'))\
    && !document.getElementById('timeline-chart').hidden";
/// All that a key can reach; of a group of radio buttons the one that is chosen.
const REACHABLE: &str = "[...document.querySelectorAll('a[href], button, input:checked, select, summary, [tabindex]')]\
    .filter((one) => one.checkVisibility())";

fn ready(width: u32, theme: &str) -> Option<(Browser, Serving)> {
    let mut browser = browser()?;
    let demo = demo(0);
    browser.show(width, theme);
    browser.open(&address(&demo));
    browser.wait(READY);
    Some((browser, demo))
}

#[test]
fn axe_finds_nothing() {
    let Some((mut browser, _demo)) = ready(1280, "light") else {
        return;
    };
    axe_finds_nothing_in(&mut browser);
    assert_eq!(browser.complaints(), [] as [&str; 0]);
}

/// In both themes, wide and narrow, with everything open.
pub(crate) fn axe_finds_nothing_in(browser: &mut Browser) {
    browser.eval(AXE);
    browser.eval("document.querySelectorAll('details').forEach((one) => { one.open = true; })");
    for (width, theme) in [(1280, "light"), (1280, "dark"), (360, "light"), (360, "dark")] {
        browser.show(width, theme);
        let found = browser.text("axe.run().then(({ violations }) => violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html)}`).join('\\n'))");
        assert_eq!(found, "", "{width} {theme}");
        let overflow = browser
            .eval("document.documentElement.scrollWidth - document.documentElement.clientWidth");
        assert_eq!(overflow, 0, "{width} {theme}: it is too wide");
    }
}

#[test]
fn the_keyboard_reaches_everything() {
    let Some((mut browser, _demo)) = ready(1280, "light") else {
        return;
    };
    let count = browser
        .eval(&format!("window.wanted = {REACHABLE}; window.reached = new Set(); wanted.length"));
    let count = count.as_u64().expect("a number");
    assert!(count > 20, "only {count}");
    for _ in 0..count + 5 {
        browser.press("Tab");
        browser.eval("void reached.add(document.activeElement)");
    }
    let missed = browser.text("wanted.filter((one) => !reached.has(one)).map((one) => one.outerHTML.slice(0, 80)).join('\\n')");
    assert_eq!(missed, "");

    for chart in ["gpu-chart", "steps-chart", "timeline-chart", "distributions figure"] {
        let chart = format!("document.querySelector('#{chart}')");
        browser.eval(&format!("{chart}.querySelector('.plot').focus()"));
        let readout = format!("{chart}.querySelector('.readout').textContent");
        let is_zoomed = format!("!{chart}.querySelector('figcaption button').hidden");
        // A young chart has few data, or one, between which no cursor moves: more come.
        wait_for("a cursor", || {
            browser.press("ArrowRight");
            browser.eval(&format!("{readout} !== ''")) == true
        });
        let first = browser.text(&readout);
        wait_for("the cursor moves", || {
            browser.press("End");
            browser.press("ArrowLeft");
            browser.eval(&format!("{readout} !== '' && {readout} !== {first:?}")) == true
        });
        assert_eq!(browser.eval(&is_zoomed), false, "{chart}");
        browser.press("+");
        browser.wait(&is_zoomed);
        let label =
            browser.text(&format!("{chart}.querySelector('.plot').getAttribute('aria-label')"));
        assert!(label.len() > 30, "{label}");
        browser.press("0");
        browser.wait(&format!("!({is_zoomed})"));
    }
    assert_eq!(browser.complaints(), [] as [&str; 0]);
}

#[test]
fn mouse_and_touch_move_the_cursor_and_zoom() {
    let Some((mut browser, _demo)) = ready(1280, "dark") else {
        return;
    };
    let steps = "() => document.querySelector('#sound-facts div:nth-child(3) dd').textContent";
    browser.eval(&format!("void (window.STEPS = {steps})"));
    for chart in ["steps-chart", "timeline-chart"] {
        let is_zoomed = format!("!document.querySelector('#{chart} figcaption button').hidden");
        let readout = format!("document.querySelector('#{chart} .readout').textContent !== ''");
        browser.eval(&format!(
            "document.querySelector('#{chart} .u-over').scrollIntoView({{ block: 'center' }})"
        ));
        let at = browser.text(&format!("(({{ left, top, width, height }}) => `${{left + width / 3}} ${{top + 0.6 * height}} ${{width / 3}}`)(document.querySelector('#{chart} .u-over').getBoundingClientRect())"));
        let at: Vec<f64> = at.split(' ').map(|part| part.parse().expect("a number")).collect();
        let (x, y, by) = (at[0], at[1], at[2]);
        let reset = format!("document.querySelector('#{chart} figcaption button').click()");

        let mouse = |browser: &mut Browser, kind: &str, x: f64| {
            let buttons = u8::from(kind != "mouseReleased");
            browser.call("Input.dispatchMouseEvent", json!({"type": kind, "x": x, "y": y, "button": "left", "buttons": buttons, "clickCount": 1}));
            browser.frame();
        };
        browser.call("Input.dispatchMouseEvent", json!({"type": "mouseMoved", "x": x, "y": y}));
        browser.wait(&readout);
        mouse(&mut browser, "mousePressed", x);
        mouse(&mut browser, "mouseMoved", x + by / 2.0);
        mouse(&mut browser, "mouseMoved", x + by);
        mouse(&mut browser, "mouseReleased", x + by);
        browser.wait(&is_zoomed);
        browser.eval(&reset);
        browser.wait(&format!("!({is_zoomed})"));

        let wheel = json!({"type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": -200, "modifiers": 2});
        browser.call("Input.dispatchMouseEvent", wheel);
        browser.wait(&is_zoomed);
        browser.eval(&reset);
        browser.wait(&format!("!({is_zoomed})"));

        let touch = |browser: &mut Browser, kind: &str, xs: &[f64]| {
            let points: Vec<_> =
                (0..).zip(xs).map(|(id, x)| json!({"x": x, "y": y, "id": id})).collect();
            browser.call("Input.dispatchTouchEvent", json!({"type": kind, "touchPoints": points}));
            browser.frame();
        };
        touch(&mut browser, "touchStart", &[x, x + by / 2.0]);
        touch(&mut browser, "touchMove", &[x - by / 4.0, x + by * 0.75]);
        touch(&mut browser, "touchMove", &[x - by / 2.0, x + by]);
        touch(&mut browser, "touchEnd", &[]);
        browser.wait(&is_zoomed);
        // It keeps its data while the page goes on, and takes new ones afterwards.
        let label = format!("document.querySelector('#{chart} .plot').ariaLabel");
        let before = browser.text(&label);
        browser.wait("(window.met ??= STEPS()) !== STEPS()");
        browser.eval("delete window.met");
        assert_eq!(browser.text(&label), before);
        browser.eval(&reset);
        browser.wait(&format!("{label} !== {before:?}"));
    }
    assert_eq!(browser.complaints(), [] as [&str; 0]);
}
