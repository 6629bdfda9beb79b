// SPDX-License-Identifier: MIT OR Apache-2.0
//! Timelines of armed steps, of all devices, as a trace for Perfetto.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use metrale_telemetry::Telemetry;
use metrale_telemetry::kernel::{Timeline, TooManyStepsError};
use metrale_telemetry::trace::{DeviceTimelines, write_trace};

/// Which timelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Of the last armed steps.
    Last,
    /// Those that were recorded.
    Recorded,
}

/// Records the next `steps` armed steps of each device.
///
/// # Errors
/// As [`Telemetry::record_steps`].
pub fn record(telemetry: &[&'static Telemetry], steps: usize) -> Result<(), TooManyStepsError> {
    telemetry
        .iter()
        .try_for_each(|device| device.record_steps(steps))
}

/// Writes timelines of all devices; whether there are any to write: nobody may
/// have asked for a recording.
///
/// # Errors
/// As `out` fails.
pub fn write(
    out: &mut impl Write,
    telemetry: &[&'static Telemetry],
    which: Which,
) -> io::Result<bool> {
    let timelines = |device: &&'static Telemetry| match which {
        Which::Last => Some(device.timelines()),
        Which::Recorded => Some(device.recording()?.timelines),
    };
    let Some(timelines) = telemetry.iter().map(timelines).collect::<Option<Vec<_>>>() else {
        return Ok(false);
    };
    let devices = (0..).zip(telemetry).zip(&timelines);
    let devices: Vec<_> = devices
        .map(
            |((device, telemetry), timelines): (_, &Vec<Timeline>)| DeviceTimelines {
                device,
                telemetry,
                timelines,
            },
        )
        .collect();
    write_trace(out, &devices).map(|()| true)
}

/// The same to a file, which is overwritten.
///
/// # Errors
/// Where it cannot be written.
pub fn write_file(path: &Path, telemetry: &[&'static Telemetry], which: Which) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    write(&mut out, telemetry, which)?;
    out.flush()
}
