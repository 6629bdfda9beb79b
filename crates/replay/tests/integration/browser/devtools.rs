// SPDX-License-Identifier: MIT OR Apache-2.0
//! As much of the DevTools protocol as the tests need: JSON over the pipe that a
//! browser reads on descriptor 3 and writes on 4, each message ended by a 0.

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Names under which there may be one.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// How long something may take until the page shows it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one page; it ends with this.
pub(crate) struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: Option<String>,
    last_id: u64,
    /// What the browser told meanwhile.
    pub(crate) events: Vec<Value>,
    _profile: tempfile::TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A browser; `None`, with a message, where there is none. An error with
/// `CI=true`, where `.ci/install` installs one.
pub(crate) fn browser() -> Option<Browser> {
    let is_there = |name: &&&str| {
        let version = Command::new(name).arg("--version").output();
        version.is_ok_and(|output| output.status.success())
    };
    let found = BROWSERS.iter().find(is_there);
    if found.is_none() {
        let must = std::env::var_os("CI").is_some_and(|ci| ci == "true");
        assert!(!must, "no browser: none of {BROWSERS:?} is installed");
        println!("skipped: none of {BROWSERS:?} is installed");
    }
    found.map(|name| Browser::start(name))
}

impl Browser {
    fn start(name: &str) -> Self {
        let profile = tempfile::tempdir().expect("a folder");
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null", "sh", name])
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"])
            .args(["--disable-dev-shm-usage", "--js-flags=--expose-gc", "--no-first-run"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("started");
        let mut browser = Self {
            to: child.stdin.take().expect("piped"),
            from: BufReader::new(child.stdout.take().expect("piped")),
            child,
            session: None,
            last_id: 0,
            events: Vec::new(),
            _profile: profile,
        };
        let page = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": page["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network", "Performance"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method, and waits for its result.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let mut message = json!({"id": self.last_id, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let mut line = message.to_string().into_bytes();
        line.push(0);
        self.to.write_all(&line).expect("the browser reads");
        loop {
            let mut answer = Vec::new();
            self.from.read_until(0, &mut answer).expect("the browser writes");
            assert_eq!(answer.pop(), Some(0), "the browser ended");
            let mut answer: Value = serde_json::from_slice(&answer).expect("JSON");
            if answer["id"] != self.last_id {
                self.events.push(answer);
            } else if answer["error"].is_null() {
                return answer["result"].take();
            } else {
                panic!("{method}: {}", answer["error"]);
            }
        }
    }

    /// The value of an expression in the page.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let mut answer = self.call("Runtime.evaluate", asked);
        let failed = &answer["exceptionDetails"];
        assert!(failed.is_null(), "{expression}: {failed}");
        answer["result"]["value"].take()
    }

    /// Its text.
    pub(crate) fn text(&mut self, expression: &str) -> String {
        let value = self.eval(expression);
        value.as_str().unwrap_or_else(|| panic!("{expression}: {value}")).to_owned()
    }

    /// Waits until an expression is true.
    pub(crate) fn wait(&mut self, expression: &str) {
        wait_for(expression, || self.eval(expression) == Value::Bool(true));
    }

    /// Opens a page.
    pub(crate) fn open(&mut self, address: &str) {
        self.call("Page.navigate", json!({"url": address}));
        self.wait("document.readyState === 'complete'");
    }

    /// The width and the theme that the page is shown in.
    pub(crate) fn show(&mut self, width: u32, theme: &str) {
        let size =
            json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500});
        self.call("Emulation.setDeviceMetricsOverride", size);
        let theme = json!({"features": [{"name": "prefers-color-scheme", "value": theme}]});
        self.call("Emulation.setEmulatedMedia", theme);
        self.frame();
    }

    /// Presses a key.
    pub(crate) fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            _ => 0,
        };
        let text = if key.chars().count() == 1 { key } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let press =
                json!({"type": kind, "key": key, "text": text, "windowsVirtualKeyCode": code});
            self.call("Input.dispatchKeyEvent", press);
        }
        self.frame();
    }

    /// Waits until what was asked for is drawn.
    pub(crate) fn frame(&mut self) {
        self.eval("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))");
    }

    /// Bytes that the page's objects take, without those that nobody has.
    pub(crate) fn memory(&mut self) -> u64 {
        self.call("HeapProfiler.collectGarbage", json!({}));
        let usage = self.call("Runtime.getHeapUsage", json!({}));
        usage["usedSize"].as_f64().expect("a number") as u64
    }

    /// Nodes of the page's document.
    pub(crate) fn nodes(&mut self) -> u64 {
        let count = self.eval("document.getElementsByTagName('*').length");
        count.as_u64().expect("a number")
    }

    /// What the page said on its console, and what went wrong in it.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let kinds = ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"];
        let said = |event: &&Value| kinds.iter().any(|kind| event["method"] == *kind);
        self.events.iter().filter(said).map(Value::to_string).collect()
    }

    /// Where the page's requests went.
    pub(crate) fn requests(&self) -> Vec<&str> {
        let sent = |event: &&Value| event["method"] == "Network.requestWillBeSent";
        let addresses = self.events.iter().filter(sent);
        addresses.filter_map(|event| event["params"]["request"]["url"].as_str()).collect()
    }
}

/// Asks again and again until it is so.
pub(crate) fn wait_for(what: &str, mut ask: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !ask() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Asks again and again until what is shown is what is expected.
pub(crate) fn wait_for_the_same<T: PartialEq + std::fmt::Debug>(mut ask: impl FnMut() -> (T, T)) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (shown, expected) = ask();
        if shown == expected {
            return;
        }
        if Instant::now() > deadline {
            assert_eq!(shown, expected);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
