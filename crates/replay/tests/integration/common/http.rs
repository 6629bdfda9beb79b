// SPDX-License-Identifier: MIT OR Apache-2.0
//! As much HTTP as the tests need.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use serde::de::DeserializeOwned;

/// Head and body of an answer; `None` where nobody answers.
pub(crate) fn answer(port: u16, path: &str, accept: &str) -> Option<(String, Vec<u8>)> {
    ask("GET", port, path, accept)
}

/// The status with which a POST is answered.
pub(crate) fn post(port: u16, path: &str) -> String {
    let (head, _) = ask("POST", port, path, "*/*").expect("an answer");
    head.split(' ').nth(1).expect("a status").to_owned()
}

fn ask(method: &str, port: u16, path: &str, accept: &str) -> Option<(String, Vec<u8>)> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
    // 1.0: the body ends with the connection, and comes in one piece.
    let request =
        format!("{method} {path} HTTP/1.0\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let body = answer.split_off(end + 4);
    Some((String::from_utf8_lossy(&answer).into_owned(), body))
}

/// The body of a page; `None` where nobody answers, or not with 200.
pub(crate) fn try_get(port: u16, path: &str, accept: &str) -> Option<Vec<u8>> {
    let (head, body) = answer(port, path, accept)?;
    (head.split(' ').nth(1) == Some("200")).then_some(body)
}

/// As [`try_get`], where an answer is certain.
pub(crate) fn get(port: u16, path: &str, accept: &str) -> Vec<u8> {
    try_get(port, path, accept).unwrap_or_else(|| panic!("no answer to {path}"))
}

/// What a page of JSON says.
pub(crate) fn json<T: DeserializeOwned>(port: u16, path: &str) -> T {
    serde_json::from_slice(&get(port, path, "*/*")).expect("as it is served")
}

/// A text as part of a query.
pub(crate) fn encode(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("a String");
        }
    }
    out
}
