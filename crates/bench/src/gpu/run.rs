// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole run: a process for each section, so that one that fails, crashes or
//! hangs, or that breaks its context, takes nothing else with it.
//!
//! Invariant: a run ends within its time and a few seconds, whatever the driver
//! does.

use super::budget::Budget;
use super::device::Gpu;
use super::machine::machine;
use super::options::{MetraleGpuBench, Which};
use super::page::{FILES, Keeper, Page, State};
use super::refuse;
use super::sections::{self, Body, Section};
use metrale_gpu_sys::cuda::Driver;
use std::io;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// No section begins or goes on after this; what ends a section takes a few
/// seconds more.
const WHOLE: Duration = Duration::from_secs(450);

/// How much longer than its budget a section may take: rounds are not cut.
const GRACE: Duration = Duration::from_secs(12);

/// The process of a section: the device, its time, and where to tell.
pub(crate) struct Bench<'p> {
    pub(crate) gpu: Gpu,
    pub(crate) budget: Budget,
    pub(crate) page: &'p Keeper,
}

/// Measures every section, or those that are asked for.
pub(crate) fn all(driver: &Driver, flags: &MetraleGpuBench) -> ExitCode {
    let machine = match machine(driver, flags.device.unwrap_or(0)) {
        Ok(machine) => machine,
        Err(error) => {
            return refuse(format!("{}: {error}", driver.origin().path().display()));
        }
    };
    for (name, value) in &machine {
        println!("{name}: {value}");
    }
    let asked = |id: &str| flags.only.is_empty() || flags.only.iter().any(|only| only == id);
    let wanted: Vec<_> = sections::ALL.iter().filter(|section| asked(section.id)).collect();
    match each(flags, &Page::new(driver.is_simulated(), machine, &wanted), &wanted) {
        Ok(failed) => ExitCode::from(u8::from(failed)),
        Err(error) => refuse(format!("{}: {error}", flags.folder().display())),
    }
}

/// Measures the sections of an empty page; whether one failed.
fn each(flags: &MetraleGpuBench, empty: &Page, wanted: &[&Section]) -> io::Result<bool> {
    let folder = flags.folder();
    std::fs::create_dir_all(folder)?;
    empty.write(folder)?;
    let began = Instant::now();
    let mut failed = false;
    for (at, section) in wanted.iter().enumerate() {
        let start = Instant::now();
        let left = WHOLE.saturating_sub(began.elapsed());
        let time = Duration::from_secs(section.seconds).min(left);
        let end = (time.as_secs() > 0).then(|| apart(flags, section.id, time));
        let mut page = Page::read(folder)?;
        let results = &mut page.sections[at];
        results.took_s = (start.elapsed().as_secs_f64() * 10.0).round() / 10.0;
        results.close(end);
        match &results.state {
            State::Failed(why) | State::Skipped(why) => println!("{}: {why}", section.id),
            _ => println!("{}: {} s", section.id, results.took_s),
        }
        failed |= results.state != State::Measured;
        page.keep(folder);
    }
    for file in FILES {
        println!("{}", folder.join(file).display());
    }
    println!("{:.0} s", began.elapsed().as_secs_f64());
    Ok(failed)
}

/// How the process of a section ended.
pub(crate) type End = io::Result<Option<ExitStatus>>;

/// Measures a section in a process that has `time`; `None`: it did not end in time.
fn apart(flags: &MetraleGpuBench, id: &str, time: Duration) -> End {
    let sim = flags.driver == Some(Which::Sim);
    let child = Command::new(std::env::current_exe()?)
        .args(["--section", id, "--seconds", &time.as_secs().to_string()])
        .args(["--driver", if sim { "sim" } else { "cuda" }])
        .args(["--device", &flags.device.unwrap_or(0).to_string()])
        .args(flags.quick.then_some("--quick"))
        .arg("--out")
        .arg(flags.folder())
        .stdin(Stdio::null())
        // A driver may print, too.
        .stdout(Stdio::null())
        .spawn()?;
    attend(child, time + GRACE)
}

/// Waits for the child, for so long; then it is killed.
fn attend(mut child: Child, time: Duration) -> End {
    let began = Instant::now();
    while began.elapsed() < time {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

/// Measures a section, in the process that is for it alone.
pub(crate) fn section(driver: Driver, flags: &MetraleGpuBench, id: &str) -> ExitCode {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: takes two numbers: this process ends with the one that started
        // it. The thread that did is its main one, which does not end before it.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    }
    let Some(section) = sections::ALL.iter().find(|section| section.id == id) else {
        return refuse(format!("--section {id:?}: no such section"));
    };
    let page = match Keeper::new(flags.folder(), id) {
        Ok(page) => page,
        Err(error) => return refuse(format!("{}: {error}", flags.folder().display())),
    };
    let seconds = flags.seconds.unwrap_or(60).into();
    let budget = Budget::new(Duration::from_secs(seconds), flags.quick);
    let device = flags.device.unwrap_or(0);
    let measured = match section.body {
        Body::OnDevice(measure) => Gpu::open(Arc::new(driver), device)
            .and_then(|gpu| measure(&Bench { gpu, budget, page: &page })),
        Body::OnDriver(measure) => measure(&driver, device, &page),
    };
    page.end(match measured {
        Ok(()) => State::Measured,
        Err(failure) => State::Failed(failure.to_string()),
    });
    // SAFETY: ends the process at once: a driver may hang on its way out.
    unsafe { libc::_exit(0) }
}

#[cfg(test)]
mod tests {
    use super::attend;
    use std::process::Command;
    use std::time::Duration;

    #[test]
    fn one_that_hangs_is_killed() {
        let child = Command::new("sleep").arg("600").spawn().expect("started");
        assert!(attend(child, Duration::from_millis(100)).expect("waited for").is_none());
    }

    #[test]
    fn how_one_ended_is_told() {
        let child = Command::new("sh").args(["-c", "exit 3"]).spawn().expect("a shell");
        let status = attend(child, Duration::from_secs(600)).expect("waited for");
        assert_eq!(status.and_then(|status| status.code()), Some(3));
    }
}
