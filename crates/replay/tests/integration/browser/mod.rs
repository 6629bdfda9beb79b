// SPDX-License-Identifier: MIT OR Apache-2.0
//! The live page in a real browser: what it shows, what it says where something
//! is wrong, and whether everybody can use it. Skipped, with a message, where
//! there is no browser; an error with `CI=true`.

mod charts;
mod devtools;
mod everybody;
mod figures;
mod hours;
mod inside;
mod wrong;

use crate::common::http;
use crate::common::program::Serving;
use devtools::{Browser, browser, wait_for};

/// The demo, serving on a port; 0: a free one.
fn demo(port: u16) -> Serving {
    Serving::start_on(port, ["--for", "600"])
}

fn address(demo: &Serving) -> String {
    format!("http://127.0.0.1:{}/", demo.port)
}

const STATE: &str = "document.body.dataset.state";

#[test]
fn it_shows_the_snapshot_goes_on_and_outlives_the_server() {
    let Some(mut browser) = browser() else { return };
    let mut demo = demo(0);
    browser.open(&address(&demo));
    browser.wait(&format!("{STATE} === 'live'"));
    browser.eval("document.querySelector('input[value=all]').click()");
    let steps = figures::hold(&mut browser, demo.port);
    wait_for("it goes on", || figures::hold(&mut browser, demo.port) > steps);
    assert_eq!(browser.complaints(), [] as [&str; 0]);

    let port = demo.port;
    drop(demo);
    browser.wait(&format!("{STATE} === 'stale'"));
    let alarm = browser.text("document.getElementById('alarms').textContent");
    assert!(alarm.contains("it cannot be reached") && alarm.contains("Figures are of"), "{alarm}");
    demo = self::demo(port);
    browser.wait(&format!(
        "{STATE} === 'live' && document.getElementById('alarms').children.length === 0"
    ));
    figures::hold(&mut browser, demo.port);
    // The browser itself notes a request that no one answered.
    let mut complaints = browser.complaints().into_iter();
    let other = complaints.find(|complaint| !complaint.contains("net::ERR_"));
    assert_eq!(other, None);
    let address = address(&demo);
    let mut requests = browser.requests().into_iter();
    let elsewhere = requests.find(|to| !to.starts_with(&address) && !to.starts_with("data:"));
    assert_eq!(elsewhere, None);
}
