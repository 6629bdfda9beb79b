// SPDX-License-Identifier: MIT OR Apache-2.0
//! The application's side of the simulated driver: its functions by name, with
//! the signatures that they have.

use metrale_gpu_sys::cuda::Status;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::LazyLock;

/// A driver function.
#[derive(Clone, Copy)]
pub(crate) struct Function<F> {
    pub(crate) name: &'static str,
    pub(crate) call: F,
}

macro_rules! functions {
    ({$($field:ident = $name:ident($($kind:ty),*);)*}
     dangerous {$($danger:ident = $danger_name:ident($($danger_kind:ty),*);)*}) => {
        /// Every function that applications call.
        pub(crate) struct Cuda {
            $(pub(crate) $field: Function<extern "C" fn($($kind),*) -> Status>,)*
            $(pub(crate) $danger: Function<unsafe extern "C" fn($($danger_kind),*) -> Status>,)*
        }

        pub(crate) static CUDA: LazyLock<Cuda> = LazyLock::new(|| Cuda {
            $($field: Function {
                name: stringify!($name),
                // SAFETY: the simulator's function of that name takes these; a
                // reference is a pointer that is good.
                call: unsafe { std::mem::transmute::<*const c_void, extern "C" fn($($kind),*) -> Status>(address(stringify!($name))) },
            },)*
            $($danger: Function {
                name: stringify!($danger_name),
                // SAFETY: the simulator's function of that name takes these.
                call: unsafe { std::mem::transmute::<*const c_void, unsafe extern "C" fn($($danger_kind),*) -> Status>(address(stringify!($danger_name))) },
            },)*
        });
    };
}

fn address(name: &str) -> *const c_void {
    metrale_gpu_sim::symbol(name).expect("the simulator exports what is named here")
}

type Arguments = *mut *mut c_void;

functions! {
{
    init = cuInit(c_uint);
    primary_retain = cuDevicePrimaryCtxRetain(&mut u64, c_int);
    ctx_create = cuCtxCreate_v2(&mut u64, c_uint, c_int);
    ctx_destroy = cuCtxDestroy_v2(u64);
    ctx_current = cuCtxGetCurrent(&mut u64);
    ctx_set = cuCtxSetCurrent(u64);
    ctx_push = cuCtxPushCurrent_v2(u64);
    ctx_pop = cuCtxPopCurrent_v2(&mut u64);
    ctx_synchronize = cuCtxSynchronize();
    mode = cuThreadExchangeStreamCaptureMode(&mut u32);
    stream_create = cuStreamCreate(&mut u64, c_uint);
    stream_destroy = cuStreamDestroy_v2(u64);
    stream_query = cuStreamQuery(u64);
    stream_synchronize = cuStreamSynchronize(u64);
    stream_wait = cuStreamWaitEvent(u64, u64, c_uint);
    stream_ctx = cuStreamGetCtx(u64, &mut u64);
    stream_id = cuStreamGetId(u64, &mut u64);
    is_capturing = cuStreamIsCapturing(u64, &mut u32);
    capture_info = cuStreamGetCaptureInfo_v2(u64, &mut u32, Option<&mut u64>, Option<&mut u64>, Option<&mut *const u64>, &mut usize);
    event_create = cuEventCreate(&mut u64, c_uint);
    event_destroy = cuEventDestroy_v2(u64);
    event_record = cuEventRecord(u64, u64);
    event_record_ptsz = cuEventRecord_ptsz(u64, u64);
    event_record_flags = cuEventRecordWithFlags(u64, u64, c_uint);
    event_query = cuEventQuery(u64);
    event_synchronize = cuEventSynchronize(u64);
    elapsed = cuEventElapsedTime(&mut f32, u64, u64);
    module_unload = cuModuleUnload(u64);
    capture_begin = cuStreamBeginCapture_v2(u64, c_uint);
    capture_end = cuStreamEndCapture(u64, &mut u64);
    instantiate = cuGraphInstantiateWithFlags(&mut u64, u64, u64);
    graph_destroy = cuGraphDestroy(u64);
    exec_destroy = cuGraphExecDestroy(u64);
    graph_launch = cuGraphLaunch(u64, u64);
    mem_alloc = cuMemAlloc_v2(&mut u64, usize);
    mem_alloc_async = cuMemAllocAsync(&mut u64, usize, u64);
    mem_free = cuMemFree_v2(u64);
    mem_free_async = cuMemFreeAsync(u64, u64);
    memset = cuMemsetD8_v2(u64, u8, usize);
    memset_async = cuMemsetD8Async(u64, u8, usize, u64);
    copy_within = cuMemcpyDtoD_v2(u64, u64, usize);
    copy_within_async = cuMemcpyDtoDAsync_v2(u64, u64, usize, u64);
}
dangerous {
    module_load = cuModuleLoadData(&mut u64, *const c_char);
    module_function = cuModuleGetFunction(&mut u64, u64, *const c_char);
    func_name = cuFuncGetName(&mut *const c_char, u64);
    graph_nodes = cuGraphGetNodes(u64, *mut u64, &mut usize);
    launch = cuLaunchKernel(u64, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, u64, Arguments, Arguments);
    launch_ptsz = cuLaunchKernel_ptsz(u64, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, u64, Arguments, Arguments);
    copy_in = cuMemcpyHtoD_v2(u64, *const c_void, usize);
    copy_in_async = cuMemcpyHtoDAsync_v2(u64, *const c_void, usize, u64);
    copy_out = cuMemcpyDtoH_v2(*mut c_void, u64, usize);
    copy_out_async = cuMemcpyDtoHAsync_v2(*mut c_void, u64, usize, u64);
}
}
