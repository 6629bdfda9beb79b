// SPDX-License-Identifier: MIT OR Apache-2.0
//! Timelines as a Chrome trace in the dialect of the PyTorch profiler, which
//! <https://ui.perfetto.dev> opens and tools for that profiler read.
//!
//! 1. Kernels stand by device and stream at their GPU times, to the nanosecond.
//!    So do the ranges of lanes and regions (`gpu_user_annotation`).
//!    Parts of graphs that ran as twins (`graph_node`) lie in their graph's kernel.
//! 2. When the host launched is not measured. Launches and the host's side of
//!    lanes stand where the GPU's work does, for readers that join the two;
//!    there too each moment is in one lane, and lanes are in their step.
//! 3. A step stands at its begin on the host where that is known, and after all
//!    of the step before it: the time between steps is not measured either.
//! 4. It is written as it goes: memory is that of one step.

mod layout;

use crate::kernel::{LaneFigures, MAX_LANES, StepRecord, StepShape, Timeline, TimelineSpan};
use crate::rows::KernelName;
use crate::snapshot::RowKind;
use crate::telemetry::Telemetry;
use layout::Layout;
use serde::Serialize;
use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};
use std::ops::Range;

/// A device's host process has the device's number and this.
const HOST: u32 = 1_000;
/// The one thread of a host process.
const HOST_THREAD: usize = 1;
/// The first event's time. A time of 0 is to readers one that was not measured.
const FIRST_NS: i64 = 1_000_000;

/// The timelines of one device.
#[derive(Clone, Copy, Debug)]
pub struct DeviceTimelines<'a> {
    /// The device's number.
    pub device: u32,
    /// Whose they are: it knows the names of rows and lanes.
    pub telemetry: &'a Telemetry,
    /// [`Telemetry::timelines`], or those of a
    /// [`Recording`](crate::kernel::Recording).
    pub timelines: &'a [Timeline],
}

/// Writes timelines as JSON.
///
/// # Errors
/// As `out` fails.
///
/// ```
/// use metrale_telemetry::global;
/// use metrale_telemetry::trace::{DeviceTimelines, write_trace};
///
/// let device = DeviceTimelines {
///     device: 0,
///     telemetry: global(),
///     timelines: &global().timelines(),
/// };
/// let mut json = Vec::new();
/// write_trace(&mut json, &[device])?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn write_trace(out: &mut impl Write, devices: &[DeviceTimelines<'_>]) -> io::Result<()> {
    let begins = devices.iter().flat_map(|device| device.timelines);
    let first = begins.filter_map(began_ns).min().unwrap_or(0);
    out.write_all(b"{\"schemaVersion\":1,\"producer\":\"metrale\",\"displayTimeUnit\":\"ns\",\n")?;
    out.write_all(b"\"distributedInfo\":{\"rank\":0},\n\"traceEvents\":[")?;
    let mut trace = Trace { out, is_first: true, last_id: 0 };
    for device in devices {
        trace.device(device, first)?;
    }
    trace.out.write_all(b"\n]}\n")
}

/// When a step began on the host, by the telemetry's clock.
fn began_ns(timeline: &Timeline) -> Option<i64> {
    let record = timeline.record.as_ref()?;
    let began_ns = record.ended_ns?.checked_sub(record.wall_ns?)?;
    i64::try_from(began_ns).ok()
}

/// An event but for its arguments.
struct Event<'a> {
    category: &'a str,
    name: &'a str,
    process: u32,
    thread: usize,
    start_ns: i64,
    ns: u64,
}

#[derive(Serialize)]
struct StepArguments<'a> {
    step: u64,
    #[serde(flatten)]
    record: Option<RecordArguments>,
    #[serde(flatten)]
    device: &'a LaneFigures,
}

#[derive(Serialize)]
struct RecordArguments {
    #[serde(flatten)]
    shape: Option<StepShape>,
    wall_ns: Option<u64>,
}

#[derive(Serialize)]
struct LaneArguments<'a> {
    #[serde(rename = "External id")]
    id: u64,
    #[serde(flatten)]
    figures: Option<&'a LaneFigures>,
}

#[derive(Serialize)]
struct LaunchArguments {
    correlation: u64,
}

#[derive(Serialize)]
struct KernelArguments<'a> {
    device: u32,
    stream: usize,
    correlation: u64,
    kind: RowKind,
    lane: Option<&'a str>,
}

#[derive(Serialize)]
struct RegionArguments<'a> {
    kind: RowKind,
    lane: Option<&'a str>,
}

#[derive(Serialize)]
struct PartArguments {
    nodes: u32,
}

#[derive(Serialize)]
struct Name<'a> {
    name: &'a str,
}

struct Trace<'w, W> {
    out: &'w mut W,
    is_first: bool,
    /// The last number that joins two events.
    last_id: u64,
}

/// What is known of a device while its steps are written.
struct Device<'a> {
    number: u32,
    telemetry: &'a Telemetry,
    /// By handle, as they are met.
    names: HashMap<u64, Option<KernelName>>,
    /// Streams are numbered from 1 as they are met.
    streams: HashMap<u64, usize>,
}

impl<W: Write> Trace<'_, W> {
    fn device(&mut self, of: &DeviceTimelines<'_>, first_ns: i64) -> io::Result<()> {
        let mut device = Device {
            number: of.device,
            telemetry: of.telemetry,
            names: HashMap::new(),
            streams: HashMap::new(),
        };
        let host = format!("host of GPU {}: when it launched is not measured", of.device);
        self.name_process(of.device, &format!("GPU {}", of.device))?;
        self.name_process(HOST + of.device, &host)?;
        let mut free_ns = FIRST_NS;
        for timeline in of.timelines {
            let began_ns = began_ns(timeline).map_or(free_ns, |began| began - first_ns + FIRST_NS);
            if let Some(layout) = Layout::new(timeline, began_ns.max(free_ns)) {
                self.step(&mut device, timeline, &layout)?;
                free_ns = layout.end_ns;
            }
        }
        Ok(())
    }

    fn step(
        &mut self,
        device: &mut Device<'_>,
        timeline: &Timeline,
        layout: &Layout,
    ) -> io::Result<()> {
        let name = format!("ProfilerStep#{}", timeline.step);
        let range = layout.begin_ns..layout.end_ns;
        let record = timeline.record.as_ref();
        let arguments = StepArguments {
            step: timeline.step,
            record: record.map(|record: &StepRecord| RecordArguments {
                shape: record.shape,
                wall_ns: record.wall_ns,
            }),
            device: &timeline.device,
        };
        self.event(&device.on_host("user_annotation", &name, range), &arguments)?;
        for (span, range) in timeline.lanes.iter().zip(&layout.lanes) {
            let lane = span.lane.unwrap_or(MAX_LANES);
            if let Some(lane_name) = device.telemetry.lane_name(lane) {
                let name = format!("lane[{lane_name}]");
                let id = self.next_id();
                let mut arguments = LaneArguments { id, figures: None };
                let event = device.on_host("user_annotation", &name, range.clone());
                self.event(&event, &arguments)?;
                arguments.figures = timeline.figures.get(lane);
                let stream = self.stream(device, span)?;
                let event = device.on_gpu("gpu_user_annotation", &name, stream, layout, span);
                self.event(&event, &arguments)?;
            }
        }
        for part in &timeline.parts {
            let name = match part.span.func {
                Some(_) => device.row(&part.span).0,
                None if part.nodes == 1 => "a node without a kernel".to_owned(),
                None => format!("{} nodes", part.nodes),
            };
            let stream = self.stream(device, &part.span)?;
            let event = device.on_gpu("graph_node", &name, stream, layout, &part.span);
            self.event(&event, &PartArguments { nodes: part.nodes })?;
        }
        for span in timeline.launches.iter().chain(&timeline.regions) {
            let (name, kind) = device.row(span);
            let row = (&*name, kind);
            if kind == RowKind::Region {
                self.region(device, span, row, layout)?;
            } else {
                let at_ns = layout.launched_at(timeline, span);
                self.launch(device, span, row, layout, at_ns)?;
            }
        }
        Ok(())
    }

    fn region(
        &mut self,
        device: &mut Device<'_>,
        span: &TimelineSpan,
        (name, kind): (&str, RowKind),
        layout: &Layout,
    ) -> io::Result<()> {
        let stream = self.stream(device, span)?;
        let lane = device.lane(span);
        let event = device.on_gpu("gpu_user_annotation", name, stream, layout, span);
        self.event(&event, &RegionArguments { kind, lane })
    }

    /// A launch or a copy, and the call that made it.
    fn launch(
        &mut self,
        device: &mut Device<'_>,
        span: &TimelineSpan,
        (name, kind): (&str, RowKind),
        layout: &Layout,
        at_ns: i64,
    ) -> io::Result<()> {
        let correlation = self.next_id();
        let stream = self.stream(device, span)?;
        let (category, call) = match kind {
            RowKind::Kernel | RowKind::Region => ("kernel", "cuLaunchKernel"),
            RowKind::Graph => ("kernel", "cuGraphLaunch"),
            RowKind::Copy => ("gpu_memcpy", "cuMemcpyAsync"),
        };
        let event = device.on_host("cuda_driver", call, at_ns..at_ns);
        self.event(&event, &LaunchArguments { correlation })?;
        let lane = device.lane(span);
        let arguments = KernelArguments { device: device.number, stream, correlation, kind, lane };
        let event = device.on_gpu(category, name, stream, layout, span);
        self.event(&event, &arguments)
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// The number of a span's stream; a new one is named.
    fn stream(&mut self, device: &mut Device<'_>, span: &TimelineSpan) -> io::Result<usize> {
        let next = device.streams.len() + 1;
        let number = *device.streams.entry(span.stream).or_insert(next);
        if number == next {
            let name = format!("stream {:#x}", span.stream);
            self.name("thread_name", device.number, number, &name)?;
        }
        Ok(number)
    }

    fn name_process(&mut self, process: u32, name: &str) -> io::Result<()> {
        self.name("process_name", process, 0, name)
    }

    fn name(&mut self, what: &str, process: u32, thread: usize, name: &str) -> io::Result<()> {
        self.begin_event()?;
        let out = &mut *self.out;
        write!(out, "{{\"ph\":\"M\",\"name\":\"{what}\",\"pid\":{process},\"tid\":{thread}")?;
        self.arguments(&Name { name })
    }

    fn event(&mut self, event: &Event<'_>, arguments: &impl Serialize) -> io::Result<()> {
        self.begin_event()?;
        let out = &mut *self.out;
        write!(out, "{{\"ph\":\"X\",\"cat\":\"{}\",\"name\":", event.category)?;
        serde_json::to_writer(&mut *out, event.name)?;
        write!(out, ",\"pid\":{},\"tid\":{}", event.process, event.thread)?;
        let (start, length) = (Microseconds(event.start_ns.into()), Microseconds(event.ns.into()));
        write!(out, ",\"ts\":{start},\"dur\":{length}")?;
        self.arguments(arguments)
    }

    fn begin_event(&mut self) -> io::Result<()> {
        let separator: &[u8] = if self.is_first { b"\n" } else { b",\n" };
        self.is_first = false;
        self.out.write_all(separator)
    }

    fn arguments(&mut self, arguments: &impl Serialize) -> io::Result<()> {
        self.out.write_all(b",\"args\":")?;
        serde_json::to_writer(&mut *self.out, arguments)?;
        self.out.write_all(b"}")
    }
}

impl<'d> Device<'d> {
    fn lane(&self, span: &TimelineSpan) -> Option<&'d str> {
        self.telemetry.lane_name(span.lane?)
    }

    fn on_host<'a>(&self, category: &'a str, name: &'a str, range: Range<i64>) -> Event<'a> {
        Event {
            category,
            name,
            process: HOST + self.number,
            thread: HOST_THREAD,
            start_ns: range.start,
            ns: range.end.abs_diff(range.start),
        }
    }

    fn on_gpu<'a>(
        &self,
        category: &'a str,
        name: &'a str,
        stream: usize,
        layout: &Layout,
        span: &TimelineSpan,
    ) -> Event<'a> {
        Event {
            category,
            name,
            process: self.number,
            thread: stream,
            start_ns: layout.place(span),
            ns: span.ns,
        }
    }

    /// The name and the kind of a launch's row.
    fn row(&mut self, span: &TimelineSpan) -> (String, RowKind) {
        let Some(func) = span.func else {
            return ("(no row)".to_owned(), RowKind::Kernel);
        };
        let telemetry = self.telemetry;
        match self.names.entry(func).or_insert_with(|| telemetry.row_name(func)) {
            Some(name) => (name.text.to_string(), name.kind),
            None => (format!("{func:#x}"), RowKind::Kernel),
        }
    }
}

/// Nanoseconds, printed as microseconds with all of their digits.
struct Microseconds(i128);

impl fmt::Display for Microseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let ns = self.0.unsigned_abs();
        write!(f, "{sign}{}.{:03}", ns / 1_000, ns % 1_000)
    }
}
