// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a section in a process of its own, so that one that fails, crashes or
//! hangs, or that breaks its context, takes nothing else with it.
//!
//! Invariant: a run ends within its time and a few seconds, whatever the driver
//! does.

use super::item::Item;
use super::options::Options;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How a process of a section ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It told everything.
    Done,
    /// It says why it could not.
    Failed(String),
    /// It is gone: how, and what it tried last.
    Died { how: String, trying: Option<String> },
    /// It did not end in time: what it tried last.
    Late { trying: Option<String> },
}

impl End {
    /// Why not everything was measured.
    pub(crate) fn failure(self) -> Option<String> {
        let at =
            |trying: Option<String>| trying.map_or(String::new(), |what| format!(" in: {what}"));
        match self {
            Self::Done => None,
            Self::Failed(why) => Some(why),
            Self::Died { how, trying } => Some(format!("its process {how}{}", at(trying))),
            Self::Late { trying } => Some(format!("it did not end in time{}", at(trying))),
        }
    }
}

/// How much longer than its budget a section may take: rounds are not cut, and
/// a driver takes its time to go.
const GRACE: Duration = Duration::from_secs(12);

/// Begins each line that is an item: a driver may print, too.
pub(crate) const MARK: &str = "metrale-gpu-bench: ";

/// Ends this process, one of a section, with the one that started it.
pub(crate) fn go_with_it() {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: takes two numbers. The thread that started this process is
        // its parent's main one, which does not end before it.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    }
}

/// Measures section `id` in a process that has `time`; gives each note and table
/// to `take` as it comes.
pub(crate) fn run(options: &Options, id: &str, time: Duration, take: &mut dyn FnMut(Item)) -> End {
    let died = |how: String| End::Died { how, trying: None };
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return died(format!("cannot be started: {error}")),
    };
    let mut command = Command::new(program);
    command
        .args(["--section", id, "--driver", options.driver.as_str()])
        .args(["--seconds", &time.as_secs().to_string()])
        .args(["--device", &options.device.to_string()])
        .args(options.quick.then_some("--quick"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    match command.spawn() {
        Ok(child) => attend(child, time + GRACE, take),
        Err(error) => died(format!("cannot be started: {error}")),
    }
}

fn attend(mut child: Child, time: Duration, take: &mut dyn FnMut(Item)) -> End {
    let until = Instant::now() + time;
    let lines = lines(&mut child);
    let (mut trying, mut end) = (None, None);
    while end.is_none() {
        let left = until.saturating_duration_since(Instant::now());
        match lines.recv_timeout(left) {
            Ok(Item::Trying(what)) => trying = Some(what),
            Ok(Item::Failed(why)) => end = Some(End::Failed(why)),
            Ok(Item::Done) => end = Some(End::Done),
            Ok(item) => take(item),
            Err(RecvTimeoutError::Timeout) => end = Some(End::Late { trying: trying.take() }),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    // One that told everything may hang in the driver on its way out.
    let _ = (end.is_some()).then(|| child.kill());
    let status = child.wait();
    end.unwrap_or_else(|| {
        let how = status.map_or_else(|error| error.to_string(), how);
        End::Died { how, trying }
    })
}

/// The items that the child tells, until it is gone.
fn lines(child: &mut Child) -> Receiver<Item> {
    let (told, items) = channel();
    let stdout = child.stdout.take();
    // Ends when the child's output is closed, at the latest when it is killed.
    std::thread::spawn(move || {
        let lines = stdout.into_iter().flat_map(|pipe| BufReader::new(pipe).lines());
        for line in lines.map_while(Result::ok) {
            let Some(line) = line.strip_prefix(MARK) else {
                continue;
            };
            let unread = |error| Item::Failed(format!("an item that cannot be read: {error}"));
            let item = serde_json::from_str(line).unwrap_or_else(unread);
            if told.send(item).is_err() {
                return;
            }
        }
    });
    items
}

fn how(status: ExitStatus) -> String {
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt as _;
        if let Some(signal) = status.signal() {
            return format!("died of signal {signal}");
        }
    }
    format!("ended with {status}")
}

#[cfg(test)]
mod tests {
    use super::{End, attend};
    use crate::gpu::item::Item;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    fn of(script: &str, time: Duration) -> (End, Vec<Item>) {
        let script = script.replace("tell ", "echo metrale-gpu-bench: ");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).stdout(Stdio::piped());
        let child = command.spawn().expect("a shell");
        let mut taken = Vec::new();
        let end = attend(child, time, &mut |item| taken.push(item));
        (end, taken)
    }

    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn what_was_told_is_kept_however_it_ends() {
        let note = Item::Note("n".to_owned());
        let told = r#"tell '{"Note":"n"}'; echo noise; tell '{"Trying":"a call"}'; "#;
        for (rest, expected) in [
            (r#"tell '"Done"'; exec sleep 600"#, End::Done),
            (r#"tell '{"Failed":"why"}'"#, End::Failed("why".into())),
            (
                "kill -SEGV $$",
                End::Died { how: "died of signal 11".into(), trying: Some("a call".into()) },
            ),
        ] {
            let (end, taken) = of(&format!("{told}{rest}"), LONG);
            assert_eq!((end, taken), (expected, vec![note.clone()]), "{rest}");
        }
    }

    #[test]
    fn one_that_hangs_is_killed_and_named() {
        let script = r#"tell '{"Trying":"a call"}'; exec sleep 600"#;
        let (end, _) = of(script, Duration::from_secs(1));
        // A slow machine may not have told in time what it tries.
        assert!(matches!(end, End::Late { .. }), "{end:?}");
        let late = End::Late { trying: Some("a call".into()) };
        let why = late.failure().expect("a failure");
        assert_eq!(why, "it did not end in time in: a call");
    }

    #[test]
    fn an_item_that_cannot_be_read_is_a_failure() {
        let why = of(r#"tell '{"Note":'"#, LONG).0.failure().expect("a failure");
        assert!(why.contains("cannot be read"), "{why}");
    }

    #[test]
    fn one_that_ends_too_early_is_a_failure() {
        let (end, _) = of("exit 3", LONG);
        let why = end.failure().expect("a failure");
        assert!(why.contains("exit status: 3"), "{why}");
    }
}
