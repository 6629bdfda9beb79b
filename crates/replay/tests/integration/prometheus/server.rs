// SPDX-License-Identifier: MIT OR Apache-2.0
//! A Prometheus server of our own: on a loopback port, with a data folder that
//! goes with it.

use super::{http, wait_for};
use metrale_telemetry::Snapshot;
use serde_json::Value;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};

/// A running server; it ends with this.
pub(crate) struct Prometheus {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    /// One that scrapes these ports twice a second.
    pub(crate) fn start(ports: &[u16], flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let targets: Vec<String> = ports.iter().map(|port| format!("'127.0.0.1:{port}'")).collect();
        let config = format!(
            "global: {{scrape_interval: 500ms, scrape_timeout: 500ms}}\n\
             scrape_configs:\n- job_name: metrale\n  static_configs: [{{targets: [{}]}}]\n",
            targets.join(", ")
        );
        let path = folder.path().join("prometheus.yml");
        std::fs::write(&path, config).expect("written");
        let port = {
            // Free now; nothing else here asks for one.
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
            free.local_addr().expect("an address").port()
        };
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", path.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg("--log.level=error")
            .args(flags)
            .stdin(Stdio::null())
            .spawn()
            .expect("prometheus; `.ci/install` installs it");
        Self { child, port, _folder: folder }
    }

    pub(crate) fn wait_until_it_is_ready(&self) {
        wait_for("a server", || http::try_get(self.port, "/-/ready", "*/*"));
    }

    /// What PromQL makes of the expression at this moment, or a range of raw
    /// samples.
    pub(crate) fn query(&self, expression: &str) -> Vec<Value> {
        let path = format!("/api/v1/query?query={}", http::encode(expression));
        let body = http::try_get(self.port, &path, "*/*");
        let body = body.unwrap_or_else(|| panic!("refused: {expression}"));
        let answer: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        match answer["data"]["result"].as_array() {
            Some(result) => result.clone(),
            None => panic!("{expression}: {answer}"),
        }
    }

    /// Value of each series, by one of its labels.
    pub(crate) fn values(&self, expression: &str, label: &str) -> Vec<(String, f64)> {
        let result = self.query(expression);
        let value = |series: &Value| {
            let name = series["metric"][label].as_str().unwrap_or_default();
            (name.to_owned(), number(&series["value"][1]))
        };
        let mut values: Vec<_> = result.iter().map(value).collect();
        values.sort_by(|a, b| a.0.cmp(&b.0));
        values
    }

    /// Waits until the newest samples are those of `exact`, by port.
    pub(crate) fn wait_until_it_has(&self, ports: &[u16], exact: &[Snapshot]) {
        for (port, snapshot) in ports.iter().zip(exact) {
            // Samples of one scrape come together.
            let landed = format!(
                "metrale_span_outcomes_total{{instance=\"127.0.0.1:{port}\", outcome=\"landed\"}}"
            );
            let (lanes, kernels) = snapshot.ledgers();
            let expected = [("kernels", kernels.landed), ("lanes", lanes.landed)];
            let expected = expected.map(|(ring, landed)| (ring.to_owned(), landed as f64));
            wait_for("the last scrape", || {
                (self.values(&landed, "ring") == expected).then_some(())
            });
        }
    }
}

/// Numbers come as text.
pub(crate) fn number(value: &Value) -> f64 {
    let text = value.as_str().unwrap_or_else(|| panic!("{value} is no number"));
    text.parse().expect("a number")
}
