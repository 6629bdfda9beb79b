// SPDX-License-Identifier: MIT OR Apache-2.0
//! One device of a replay, as a serving stack would hold it: cudarc's context,
//! streams, functions and graphs, and the recorder beside them.

use std::collections::HashMap;
use std::sync::Arc;

use cudarc::driver::{
    CudaContext, CudaFunction, CudaStream, DriverError, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;
use metrale_gpu_runtime::timing::{
    Harvest, Recorder, RecorderConfig, RegionRef, Twin, TwinState, TwinsConfig,
};
use metrale_telemetry::Telemetry;

use crate::graphs;
use crate::plan::Plan;
use crate::play::PlayError;
use crate::ptx;
use crate::simulator::clock_ns;

const ONE_THREAD: LaunchConfig =
    LaunchConfig { grid_dim: (1, 1, 1), block_dim: (1, 1, 1), shared_mem_bytes: 0 };

/// What nodes of a graph are called that are no recorded kernels. No kernel can be.
pub(crate) const COPIES: &str = "(copies and sets)";
pub(crate) const GAPS: &str = "(recorded gaps)";

/// A device and all that a plan needs on it.
pub(crate) struct Device {
    /// By index into [`Plan::graphs`]. Before the recorder: a twin needs one to go.
    pub(crate) graphs: HashMap<u32, Twin<'static>>,
    pub(crate) recorder: Recorder,
    pub(crate) name: String,
    /// By index into [`Plan::streams`]; those of other devices are absent.
    streams: HashMap<u32, Arc<CudaStream>>,
    /// By index into [`Plan::kernels`].
    functions: Vec<CudaFunction>,
    copy: CudaFunction,
    /// By index into [`Plan::copies`].
    copies: Vec<RegionRef>,
    /// Stands for recorded gaps in graphs.
    pub(crate) gap: CudaFunction,
}

/// The context of the CUDA device `ordinal`, and its recorder.
pub(crate) fn install(
    ordinal: usize,
    telemetry: &'static Telemetry,
    twins: Option<TwinsConfig>,
) -> Result<(Arc<CudaContext>, Recorder), PlayError> {
    let context = CudaContext::new(ordinal)?;
    // SAFETY: no memory is shared between streams here; cudarc's events
    // would only add waits that the recorded program did not have.
    unsafe { context.disable_event_tracking() };
    let config = RecorderConfig {
        harvest: Harvest::Explicit,
        // One clock for host and GPU: a poll takes no time on a simulator.
        clock: clock_ns,
        label: ordinal.to_string(),
        twins,
        ..RecorderConfig::default()
    };
    let recorder = Recorder::new(&context, telemetry, config)?;
    Ok((context, recorder))
}

impl Device {
    /// Device number `number` of `plan`, which [`install`] made. The recorder
    /// comes before any capture.
    pub(crate) fn new(
        plan: &Plan,
        number: u32,
        (context, recorder): (Arc<CudaContext>, Recorder),
    ) -> Result<Self, PlayError> {
        let module = context.load_module(Ptx::from_src(ptx::module(plan.kernels.len())))?;
        let functions = (0..plan.kernels.len())
            .map(|kernel| module.load_function(&ptx::entry(kernel)))
            .collect::<Result<Vec<_>, _>>()?;
        for (function, name) in functions.iter().zip(&plan.kernels) {
            // The driver only knows the names of the PTX.
            recorder.name(function, name);
        }
        let (copy, gap) = (module.load_function(ptx::COPY)?, module.load_function(ptx::GAP)?);
        recorder.name(&copy, COPIES);
        recorder.name(&gap, GAPS);
        let copies = plan.copies.iter().map(|name| recorder.copy(name));
        let copies = copies.collect();
        let streams = (0u32..)
            .zip(&plan.streams)
            .filter(|(_, stream)| stream.device == number)
            .map(|(index, _)| Ok((index, context.new_stream()?)))
            .collect::<Result<_, DriverError>>()?;
        let mut device = Self {
            graphs: HashMap::new(),
            recorder,
            name: context.name()?,
            streams,
            functions,
            copy,
            copies,
            gap,
        };
        device.graphs = graphs::capture(plan, number, &device, &context)?;
        if device.graphs.values().any(|twin| twin.state() == TwinState::Ready) {
            // So that the first launches find their twins on the device.
            context.synchronize()?;
            device.recorder.harvest();
        }
        Ok(device)
    }

    pub(crate) fn stream(&self, stream: u32) -> Result<&Arc<CudaStream>, PlayError> {
        self.streams.get(&stream).ok_or(PlayError::Plan("a stream of no device"))
    }

    /// The function of a kernel, or with none that of copies and sets.
    pub(crate) fn function(&self, kernel: Option<u32>) -> Result<&CudaFunction, PlayError> {
        match kernel {
            None => Ok(&self.copy),
            Some(kernel) => {
                let function = self.functions.get(kernel as usize);
                function.ok_or(PlayError::Plan("a kernel without a function"))
            }
        }
    }

    /// The row of a copy.
    pub(crate) fn copy(&self, copy: u32) -> Result<RegionRef, PlayError> {
        let row = self.copies.get(copy as usize).copied();
        row.ok_or(PlayError::Plan("a copy without a row"))
    }

    /// Launches a spin of `duration_ns`.
    pub(crate) fn launch(
        &self,
        stream: &CudaStream,
        function: &CudaFunction,
        duration_ns: u64,
    ) -> Result<(), DriverError> {
        let mut launch = stream.launch_builder(function);
        launch.arg(&duration_ns);
        // SAFETY: the entry takes one u64 and touches no memory.
        unsafe { launch.launch(ONE_THREAD) }.map(drop)
    }

    /// Waits for all work: the application may, the recorder never does.
    pub(crate) fn synchronize(&self) -> Result<(), DriverError> {
        self.streams.values().try_for_each(|stream| stream.synchronize())
    }
}
