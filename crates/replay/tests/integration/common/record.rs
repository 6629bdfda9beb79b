// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of a small recording. Times are whole microseconds.

use metrale_replay::trace::Trace;

/// Names of steps.
pub(crate) const PREFILL: &str = "execute_8_context_1(8)_generation_0(0)";
pub(crate) const DECODE: &str = "execute_1_context_0(0)_generation_1(1)";

/// A host annotation from `ts`, `dur` long.
pub(crate) fn step(name: &str, ts: u32, dur: u32) -> String {
    format!(
        r#"{{"ph":"X","cat":"user_annotation","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":{dur}}}"#
    )
}

/// A host call that launches a kernel.
pub(crate) fn launch(correlation: u32, ts: u32) -> String {
    call("cudaLaunchKernel", correlation, ts)
}

/// A host call that launches a graph.
pub(crate) fn launch_graph(correlation: u32, ts: u32) -> String {
    call("cudaGraphLaunch", correlation, ts)
}

fn call(name: &str, correlation: u32, ts: u32) -> String {
    format!(
        r#"{{"ph":"X","cat":"cuda_runtime","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":1,"args":{{"correlation":{correlation}}}}}"#
    )
}

/// A kernel on a stream of device 0.
pub(crate) fn kernel(name: &str, stream: u32, correlation: u32, ts: u32, dur: u32) -> String {
    kernel_on(0, name, stream, correlation, ts, dur)
}

/// A copy on a stream of device 0.
pub(crate) fn copy(name: &str, stream: u32, correlation: u32, ts: u32, dur: u32) -> String {
    work("gpu_memcpy", 0, name, stream, correlation, (ts, dur))
}

/// A kernel on a stream of a device.
pub(crate) fn kernel_on(
    device: u32,
    name: &str,
    stream: u32,
    correlation: u32,
    ts: u32,
    dur: u32,
) -> String {
    work("kernel", device, name, stream, correlation, (ts, dur))
}

fn work(
    category: &str,
    device: u32,
    name: &str,
    stream: u32,
    correlation: u32,
    (ts, dur): (u32, u32),
) -> String {
    format!(
        r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":{device},"tid":{stream},"ts":{ts},"dur":{dur},"args":{{"device":{device},"stream":{stream},"correlation":{correlation}}}}}"#
    )
}

/// A step whose side stream outlives its lane stream, into the next step.
pub(crate) fn overlapping_steps() -> Vec<String> {
    vec![
        step(PREFILL, 10, 20),
        launch(1, 12),
        launch(2, 14),
        step(DECODE, 40, 20),
        launch(3, 42),
        launch(4, 44),
        kernel("prefill", 7, 1, 100, 100),
        kernel("decode", 7, 3, 200, 20),
        kernel("side", 20, 2, 210, 5),
        kernel("decode", 7, 4, 220, 40),
    ]
}

/// The text of a recording.
pub(crate) fn document(events: &[String]) -> String {
    format!("{{\"traceEvents\":[\n{}\n]}}", events.join(",\n"))
}

/// A file with a recording; it goes with this.
pub(crate) struct RecordFile {
    pub(crate) path: String,
    _file: tempfile::NamedTempFile,
}

pub(crate) fn file(events: &[String]) -> RecordFile {
    let file = tempfile::NamedTempFile::with_suffix(".json").expect("a file");
    std::fs::write(file.path(), document(events)).expect("written");
    RecordFile { path: file.path().to_str().expect("UTF-8").to_owned(), _file: file }
}

/// The recording as it is read.
pub(crate) fn read(events: &[String]) -> Trace {
    super::bytes::read(document(events)).expect("a good trace")
}
