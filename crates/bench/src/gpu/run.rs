// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole run, and the part of it that one process has.

use super::budget::Budget;
use super::cuda::Functions;
use super::device::Gpu;
use super::driver::NoDriver;
use super::item::{Item, Table};
use super::page::{FILES, Page, Section, State};
use super::parent::MARK;
use super::sections::{self, Body};
use super::{Failure, Options, parent, refuse};
use metrale_gpu_sys::cuda::Driver;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// No section begins or goes on after this; what ends a section takes a few
/// seconds more.
const WHOLE: Duration = Duration::from_secs(450);

/// The process of a section: the device, its time, and where to tell.
pub(crate) struct Bench {
    pub(crate) gpu: Gpu,
    pub(crate) budget: Budget,
    pub(crate) tell: Tell,
}

/// Tells the process that writes the page.
#[derive(Clone, Debug)]
pub(crate) struct Tell {
    pub(crate) options: Options,
}

impl Tell {
    pub(crate) fn item(&self, item: &Item) {
        let line = serde_json::to_string(item).unwrap_or_default();
        let mut out = std::io::stdout().lock();
        // Where nobody listens any more, nobody misses it.
        let _ = writeln!(out, "{MARK}{line}");
        let _ = out.flush();
    }

    pub(crate) fn note(&self, note: impl Into<String>) {
        self.item(&Item::Note(note.into()));
    }

    pub(crate) fn table(&self, table: &Table) {
        self.item(&Item::Table(table.clone()));
    }

    pub(crate) fn trying(&self, what: impl Into<String>) {
        self.item(&Item::Trying(what.into()));
    }
}

/// Measures every section, or those that are asked for.
pub(crate) fn all(driver: &Driver, options: &Options) -> ExitCode {
    let machine = match machine(driver, options.device) {
        Ok(machine) => machine,
        Err(error) => return refuse(error),
    };
    for (name, value) in &machine {
        println!("{name}: {value}");
    }
    let mut page = Page { machine, is_simulated: driver.is_simulated(), sections: Vec::new() };
    let asked = |id: &str| options.only.is_empty() || options.only.iter().any(|only| only == id);
    let wanted: Vec<_> = sections::ALL.iter().filter(|section| asked(section.id)).collect();
    let new = |section: &&sections::Section| Section::new(section.id, section.title, section.about);
    page.sections = wanted.iter().map(new).collect();
    let kept = || std::fs::create_dir_all(&options.out).and_then(|()| page.write(&options.out));
    if let Err(error) = kept() {
        return refuse(format!("{}: {error}", options.out.display()));
    }
    let began = Instant::now();
    let mut failed = false;
    for (at, section) in wanted.iter().enumerate() {
        let start = Instant::now();
        let left = WHOLE.saturating_sub(began.elapsed());
        let time = Duration::from_secs(section.seconds).min(left);
        let state = if time < Duration::from_secs(1) {
            State::Skipped("the run's time was used up".to_owned())
        } else {
            let end = parent::run(options, section.id, time, &mut |item| {
                if page.sections[at].take(item) {
                    keep(&page, options);
                }
            });
            end.failure().map_or(State::Measured, State::Failed)
        };
        failed |= state != State::Measured;
        page.sections[at].took = start.elapsed();
        page.sections[at].state = state.clone();
        keep(&page, options);
        let seconds = start.elapsed().as_secs_f64();
        match state {
            State::Failed(why) | State::Skipped(why) => println!("{}: {why}", section.id),
            State::Measured | State::Unfinished => println!("{}: {seconds:.1} s", section.id),
        }
    }
    for file in FILES {
        println!("{}", options.out.join(file).display());
    }
    println!("{:.0} s", began.elapsed().as_secs_f64());
    ExitCode::from(u8::from(failed))
}

/// A page that cannot be written now may be the next time.
fn keep(page: &Page, options: &Options) {
    if let Err(error) = page.write(&options.out) {
        eprintln!("metrale-gpu-bench: {}: {error}", options.out.display());
    }
}

/// Measures one section and tells it on standard output.
pub(crate) fn part(driver: Driver, options: &Options) -> ExitCode {
    let tell = Tell { options: options.clone() };
    let Some(part) = &options.part else {
        return ExitCode::from(2);
    };
    parent::go_with_it();
    let Some(body) = sections::body(&part.id) else {
        return refuse(format!("--section {}: no such section", part.id));
    };
    let budget = Budget::new(Duration::from_secs(part.seconds.into()), options.quick);
    let measured = catch_unwind(AssertUnwindSafe(|| match body {
        Body::OnDevice(measure) => {
            let gpu = Gpu::open(Arc::new(driver), options.device)?;
            let bench = Bench { gpu, budget, tell: tell.clone() };
            measure(&bench)
        }
        Body::OnDriver(measure) => measure(&driver, &tell),
    }));
    let item = match measured {
        Ok(Ok(())) => Item::Done,
        Ok(Err(failure)) => Item::Failed(failure.to_string()),
        Err(panic) => {
            let words = panic.downcast_ref::<String>().map(String::as_str);
            let words = words.or(panic.downcast_ref::<&str>().copied());
            Item::Failed(format!("it panicked: {}", words.unwrap_or("no message")))
        }
    };
    tell.item(&item);
    ExitCode::SUCCESS
}

/// `CU_DEVICE_ATTRIBUTE_*` that the page tells.
const MULTIPROCESSORS: u32 = 16;
const MAJOR: u32 = 75;
const MINOR: u32 = 76;

/// What the machine says of itself. `cuInit` is called here, and no context
/// made.
fn machine(driver: &Driver, device: u32) -> Result<Vec<(&'static str, String)>, NoDriver> {
    let path = driver.origin().path().to_owned();
    let unusable =
        |failure: Failure| NoDriver::Unusable { path: path.clone(), why: failure.to_string() };
    let cuda = Functions::load(driver).map_err(unusable)?;
    cuda.init(0).map_err(unusable)?;
    let found = driver.device_count()?;
    if device >= found {
        return Err(NoDriver::NoDevice { asked: device, found });
    }
    let ordinal = i32::try_from(device).unwrap_or(i32::MAX);
    let attribute = |number| {
        let mut value = 0;
        let told = cuda.attribute(&mut value, number, ordinal);
        told.map_or("not told".to_owned(), |()| value.to_string())
    };
    let file = std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
    let version = driver.version();
    let capability = [MAJOR, MINOR].map(attribute);
    Ok(vec![
        ("driver", path.display().to_string()),
        ("driver file", file.display().to_string()),
        ("kernel module", kernel_module(driver.is_simulated())),
        ("driver's CUDA version", format!("{}.{}", version / 1000, version % 1000 / 10)),
        ("device", device_name(driver, ordinal)),
        ("compute capability", capability.join(".")),
        ("multiprocessors", attribute(MULTIPROCESSORS)),
        ("devices", found.to_string()),
        ("host", host()),
        ("metrale", env!("CARGO_PKG_VERSION").to_owned()),
    ])
}

pub(crate) fn device_name(driver: &Driver, ordinal: i32) -> String {
    let mut name = [0u8; 256];
    let call = driver.api().device_get_name;
    // SAFETY: a live buffer, one byte longer than told.
    let status = unsafe { call(name.as_mut_ptr().cast(), 255, ordinal) };
    let name = std::ffi::CStr::from_bytes_until_nul(&name).unwrap_or_default();
    match status.ok() {
        Ok(()) => name.to_string_lossy().into_owned(),
        Err(status) => format!("not told: {status}"),
    }
}

/// The kernel's half of the driver, as it says itself.
fn kernel_module(is_simulated: bool) -> String {
    if is_simulated {
        return "none: simulated".to_owned();
    }
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
    let line = text.lines().next().and_then(|line| line.split_once(':'));
    line.map_or("not told".to_owned(), |(_, version)| version.trim().to_owned())
}

/// The processor and how many of it this process may use.
fn host() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown processor", |name| name.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{model}, {cores} processors")
}

/// As a function that a section is.
pub(crate) type Measure = fn(&Bench) -> Result<(), Failure>;
