// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel launches.
#![allow(non_snake_case, reason = "the driver's own names")]

use std::ffi::{c_uint, c_void};
use std::sync::Arc;

use metrale_gpu_sys::cuda::Status;

use crate::capture::Target;
use crate::config::Config;
use crate::graph::Kind;
use crate::kernel::{Arguments, Kernel};
use crate::module::Function;
use crate::ptx::Entry;
use crate::symbols::Symbol;
use crate::thread::Thread;
use crate::user_object::Callback;
use crate::world::{Outcome, World};

/// Threads a block has at most.
const MAX_THREADS: u64 = 1_024;

/// What a launch is made of.
pub(super) struct Launch {
    pub(super) function: u64,
    pub(super) grid: [c_uint; 3],
    pub(super) block: [c_uint; 3],
    pub(super) shared_bytes: c_uint,
    pub(super) stream: (u64, bool),
    pub(super) parameters: *mut *mut c_void,
    pub(super) extra: *mut *mut c_void,
}

/// A copy of an argument's bytes: 1 if a pointer on the way is NULL.
///
/// # Safety
/// `parameters` is NULL or has more than `place` pointers, and that one is NULL
/// or good for `bytes`.
unsafe fn argument(
    parameters: *mut *mut c_void,
    place: usize,
    bytes: usize,
) -> Result<Vec<u8>, Status> {
    if parameters.is_null() {
        return Err(Status::ERROR_INVALID_VALUE);
    }
    // SAFETY: this function's contract.
    let pointer = unsafe { parameters.add(place) };
    // SAFETY: this function's contract.
    let value = unsafe { pointer.read() };
    if value.is_null() {
        return Err(Status::ERROR_INVALID_VALUE);
    }
    // SAFETY: this function's contract.
    Ok(unsafe { std::slice::from_raw_parts(value.cast::<u8>(), bytes) }.to_vec())
}

impl Launch {
    /// 1 for a shape that no device runs, 801 for the `extra` form.
    fn check(&self) -> Outcome {
        let threads = self.block.iter().map(|n| u64::from(*n)).product::<u64>();
        if self.grid.contains(&0) || threads == 0 || threads > MAX_THREADS {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        if self.extra.is_null() { Ok(()) } else { Err(Status::ERROR_NOT_SUPPORTED) }
    }

    /// The kernel with copies of its arguments, as a graph keeps it.
    ///
    /// # Safety
    /// The parameters are as `cuLaunchKernel` wants them: a pointer to each
    /// argument of the function, each good for the size that the PTX declares.
    pub(super) unsafe fn kernel(&self, world: &mut World) -> Result<Kernel, Status> {
        self.check()?;
        let (config, null) = (&world.config, Status::ERROR_INVALID_HANDLE);
        let found = world.functions.find(self.function, null, &mut world.stale_uses)?;
        let entry = &found.entry;
        let mut values = Vec::with_capacity(entry.params.len());
        for (place, bytes) in entry.params.iter().enumerate() {
            // SAFETY: this function's contract.
            values.push(unsafe { argument(self.parameters, place, *bytes) }?);
        }
        let told = entry.duration.and_then(|place| values.get(place));
        let (told, name) = (told.and_then(|told| nanoseconds(told)), &entry.name);
        Ok(Kernel {
            function: self.function,
            grid: self.grid,
            block: self.block,
            shared_bytes: self.shared_bytes,
            ns: told.unwrap_or_else(|| config.kernel_duration(name)),
            arguments: Arc::new(Arguments::new(&values)),
        })
    }

    /// How long the kernel runs, of which only the argument for it is read.
    ///
    /// # Safety
    /// As for [`Launch::kernel`].
    unsafe fn duration(&self, config: &Config, entry: &Entry) -> Result<u64, Status> {
        if self.parameters.is_null() && !entry.params.is_empty() {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let told = match entry.duration {
            // SAFETY: this function's contract; a duration has eight bytes.
            Some(place) => nanoseconds(&unsafe { argument(self.parameters, place, 8) }?),
            None => None,
        };
        Ok(told.unwrap_or_else(|| config.kernel_duration(&entry.name)))
    }
}

fn nanoseconds(argument: &[u8]) -> Option<u64> {
    argument.last_chunk().copied().map(u64::from_ne_bytes)
}

/// A live function: NULL and dead handles give 400.
pub(super) fn live(world: &mut World, function: u64) -> Result<&mut Function, Status> {
    world.functions.find(function, Status::ERROR_INVALID_HANDLE, &mut world.stale_uses)
}

/// A library's kernel stands for its function in the stream's context.
///
/// # Safety
/// As for [`Launch::kernel`].
unsafe fn launch(world: &mut World, thread: Thread, mut launch: Launch) -> Outcome {
    world.ready()?;
    if world.kernels.get(launch.function).is_some() {
        let key = world.stream_key(thread, launch.stream.0, launch.stream.1)?;
        let context = world.stream(key)?.context;
        launch.function = world.function_of(launch.function, context)?;
    }
    let found = live(world, launch.function)?;
    let (context, is_loaded) = (found.context, found.is_loaded);
    let key = world.stream_key(thread, launch.stream.0, launch.stream.1)?;
    if world.stream(key)?.context != context {
        return Err(Status::ERROR_INVALID_HANDLE);
    }
    launch.check()?;
    if !is_loaded {
        world.unsafe_call(thread)?;
    }
    let (target, config) = (world.target(key)?, &world.config);
    let null = Status::ERROR_INVALID_HANDLE;
    let found = world.functions.find(launch.function, null, &mut world.stale_uses)?;
    found.is_loaded = true;
    match target {
        Target::Device => {
            // SAFETY: this function's contract.
            let ns = unsafe { launch.duration(config, &found.entry) }?;
            world.submit(key, ns).map(|_| ())
        }
        Target::Capture(id) => {
            // SAFETY: this function's contract.
            let kernel = unsafe { launch.kernel(world) }?;
            world.add_node(id, key, Kind::Kernel(kernel))
        }
    }
}

exports! {
    /// # Safety
    /// `parameters` points to a pointer to each argument of the function, each good for the
    /// size that the PTX declares.
    unsafe fn cuLaunchKernel / cuLaunchKernel_ptsz(
        function: u64,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: u64,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) in call(function, stream) |world, thread, is_twin| {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let stream = (stream, is_twin);
        let asked = Launch { function, grid, block, shared_bytes, stream, parameters, extra };
        // SAFETY: this function's contract.
        unsafe { launch(world, thread, asked) }
    }

    /// # Safety
    /// As for `cuLaunchKernel`.
    unsafe fn cuLaunchKernelEx / cuLaunchKernelEx_ptsz(
        config: Option<&LaunchConfig>,
        function: u64,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) in call(function, config.map_or(0, |config| config.stream)) |world, thread, is_twin| {
        let config = config.ok_or(Status::ERROR_INVALID_VALUE)?;
        let LaunchConfig { grid, block, shared_bytes, stream, .. } = *config;
        let stream = (stream, is_twin);
        let asked = Launch { function, grid, block, shared_bytes, stream, parameters, extra };
        // SAFETY: this function's contract.
        unsafe { launch(world, thread, asked) }
    }

    /// In a capture the function is a node.
    fn cuLaunchHostFunc / cuLaunchHostFunc_ptsz(
        stream: u64,
        function: Option<extern "C" fn(*mut c_void)>,
        data: *mut c_void,
    ) in call(0, stream) |world, thread, is_twin| {
        let data = data.expose_provenance();
        let function = function.ok_or(Status::ERROR_INVALID_VALUE)?;
        let key = world.stream_key(thread, stream, is_twin)?;
        let callback = Callback { function, data };
        match world.target(key)? {
            Target::Device => {
                let (start, context) = (world.start_time(key), world.stream(key)?.context);
                let end = world.call_host(context, start, callback)?;
                world.stream(key)?.busy_until = end;
                Ok(())
            }
            Target::Capture(id) => world.add_node(id, key, Kind::Host(callback)),
        }
    }
}

/// `CUlaunchConfig`. Attributes are ignored.
#[repr(C)]
pub(crate) struct LaunchConfig {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared_bytes: c_uint,
    stream: u64,
    attributes: *mut c_void,
    attribute_count: c_uint,
}
