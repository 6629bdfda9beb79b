// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does not compile: the guard of a step in a task of a runtime with several threads.

use metrale_gpu_runtime::timing::Recorder;

fn spawn(_: impl Future + Send + 'static) {}

fn main() {
    let recorder: &'static Recorder = Box::leak(Box::default());
    spawn(async {
        let step = recorder.step();
        std::future::ready(()).await;
        drop(step);
    });
}
