// SPDX-License-Identifier: MIT OR Apache-2.0
//! One device of a replay, as a serving stack would hold it: cudarc's context,
//! streams, functions and graphs, and the recorder beside them.

use std::collections::HashMap;
use std::sync::Arc;

use cudarc::driver::{
    CudaContext, CudaEvent, CudaFunction, CudaGraph, CudaStream, DriverError, LaunchConfig,
    PushKernelArg, sys,
};
use cudarc::nvrtc::Ptx;
use metrale_gpu_runtime::timing::{GraphRef, Harvest, Recorder, RecorderConfig, RegionRef};
use metrale_telemetry::Telemetry;

use crate::plan::{Chain, Graph, Plan};
use crate::play::PlayError;
use crate::ptx;
use crate::simulator::clock_ns;

const ONE_THREAD: LaunchConfig =
    LaunchConfig { grid_dim: (1, 1, 1), block_dim: (1, 1, 1), shared_mem_bytes: 0 };

/// A device and all that a plan needs on it.
pub(crate) struct Device {
    pub(crate) recorder: Recorder,
    pub(crate) name: String,
    /// By index into [`Plan::streams`]; those of other devices are absent.
    streams: HashMap<u32, Arc<CudaStream>>,
    /// By index into [`Plan::kernels`].
    functions: Vec<CudaFunction>,
    copy: CudaFunction,
    /// By index into [`Plan::copies`].
    copies: Vec<RegionRef>,
    /// By index into [`Plan::graphs`].
    graphs: HashMap<u32, (GraphRef, CudaGraph)>,
    context: Arc<CudaContext>,
}

/// The context of the CUDA device `ordinal`, and its recorder.
pub(crate) fn install(
    ordinal: usize,
    telemetry: &'static Telemetry,
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
        let copies = plan.copies.iter().map(|name| recorder.copy(name));
        let copies = copies.collect();
        let streams = (0u32..)
            .zip(&plan.streams)
            .filter(|(_, stream)| stream.device == number)
            .map(|(index, _)| Ok((index, context.new_stream()?)))
            .collect::<Result<_, DriverError>>()?;
        let mut device = Self {
            recorder,
            name: context.name()?,
            streams,
            functions,
            copy: module.load_function(ptx::COPY)?,
            copies,
            graphs: HashMap::new(),
            context,
        };
        for (index, graph) in (0u32..).zip(&plan.graphs) {
            if device.streams.contains_key(&graph.stream()) {
                let captured = device.capture(graph)?;
                let row = device.recorder.graph(&graph.row_name(&plan.kernels));
                device.graphs.insert(index, (row, captured));
            }
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

    /// A graph, and its row in the recorder.
    pub(crate) fn graph(&self, graph: u32) -> Result<&(GraphRef, CudaGraph), PlayError> {
        self.graphs.get(&graph).ok_or(PlayError::Plan("a graph of no device"))
    }

    /// Waits for all work: the application may, the recorder never does.
    pub(crate) fn synchronize(&self) -> Result<(), DriverError> {
        self.streams.values().try_for_each(|stream| stream.synchronize())
    }

    /// Captures a graph: its first chain on the stream that launches it, the
    /// others forked from there and joined again.
    fn capture(&self, graph: &Graph) -> Result<CudaGraph, PlayError> {
        let origin = self.stream(graph.stream())?;
        origin.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL)?;
        let forked = graph.chains.get(1..).unwrap_or_default();
        let mut joins = Vec::with_capacity(forked.len());
        if !forked.is_empty() {
            let fork = self.mark(origin)?;
            for chain in forked {
                let stream = self.stream(chain.stream)?;
                stream.wait(&fork)?;
                self.capture_chain(chain)?;
                joins.push(self.mark(stream)?);
            }
        }
        if let Some(first) = graph.chains.first() {
            self.capture_chain(first)?;
        }
        for join in &joins {
            origin.wait(join)?;
        }
        let captured = origin.end_capture(sys::CUgraphInstantiate_flags(0))?;
        captured.ok_or(PlayError::Plan("a graph without nodes"))
    }

    fn capture_chain(&self, chain: &Chain) -> Result<(), PlayError> {
        let stream = self.stream(chain.stream)?;
        for node in &chain.nodes {
            // A node spins through the recorded gap before it, too.
            let duration_ns = node.gap_ns + node.duration_ns;
            self.launch(stream, self.function(node.kernel)?, duration_ns)?;
        }
        Ok(())
    }

    fn mark(&self, stream: &CudaStream) -> Result<CudaEvent, DriverError> {
        let event = self.context.new_event(None)?;
        event.record(stream)?;
        Ok(event)
    }
}
