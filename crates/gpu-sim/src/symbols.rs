// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver functions that the simulator exports, by name.
//!
//! Each has the CUDA version that brought it, so that an older driver can be
//! simulated. Versions: NVIDIA's driver API reference, and the exported names
//! of real drivers 11.0 to 12.5.

use std::ffi::{CStr, c_void};

use crate::abi;

macro_rules! symbols {
    ($($module:ident::$name:ident $since:literal;)*) => {
        /// An exported driver function.
        #[allow(non_camel_case_types, reason = "the driver's own names")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Symbol {
            $($name,)*
        }

        impl Symbol {
            /// Every exported function.
            pub(crate) const ALL: &'static [Symbol] = &[$(Symbol::$name,)*];

            /// The exported name.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Symbol::$name => stringify!($name),)*
                }
            }

            /// The exported name, for C.
            pub(crate) const fn c_name(self) -> &'static CStr {
                match self {
                    $(Symbol::$name => {
                        match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                            Ok(name) => name,
                            Err(_) => c"",
                        }
                    })*
                }
            }

            /// The CUDA version that brought it, as `cuDriverGetVersion` counts (11040 = 11.4).
            pub(crate) const fn since(self) -> u32 {
                match self {
                    $(Symbol::$name => $since,)*
                }
            }

            /// Where the function lies in this process.
            pub(crate) fn address(self) -> *const c_void {
                match self {
                    $(Symbol::$name => abi::$module::$name as *const c_void,)*
                }
            }
        }
    };
}

symbols! {
    device::cuInit 2000;
    device::cuDriverGetVersion 2020;
    device::cuGetErrorName 6000;
    device::cuGetErrorString 6000;
    device::cuDeviceGet 2000;
    device::cuDeviceGetCount 2000;
    device::cuDeviceGetName 2000;
    device::cuDeviceGetUuid 9020;
    device::cuDeviceGetUuid_v2 11040;
    device::cuDeviceTotalMem_v2 3020;
    device::cuDeviceGetAttribute 2000;
    lookup::cuGetProcAddress 11030;
    lookup::cuGetProcAddress_v2 12000;
    context::cuDevicePrimaryCtxRetain 7000;
    context::cuDevicePrimaryCtxRelease_v2 11000;
    context::cuDevicePrimaryCtxReset_v2 11000;
    context::cuCtxCreate_v2 3020;
    context::cuCtxCreate_v4 12050;
    context::cuCtxDestroy_v2 4000;
    context::cuCtxGetCurrent 4000;
    context::cuCtxSetCurrent 4000;
    context::cuCtxPushCurrent_v2 4000;
    context::cuCtxPopCurrent_v2 4000;
    context::cuCtxGetDevice 2000;
    context::cuCtxSynchronize 2000;
    context::cuCtxGetId 12000;
    context::cuCtxGetStreamPriorityRange 5050;
    stream::cuStreamCreate 2000;
    stream::cuStreamCreateWithPriority 5050;
    stream::cuStreamDestroy_v2 4000;
    stream::cuStreamSynchronize 2000;
    stream::cuStreamQuery 2000;
    stream::cuStreamWaitEvent 3020;
    stream::cuStreamWaitEvent_ptsz 7000;
    stream::cuStreamGetCtx 9020;
    stream::cuStreamGetCtx_ptsz 9020;
    stream::cuStreamGetId 12000;
    stream::cuStreamGetDevice 13000;
    stream::cuStreamGetFlags 5050;
    stream::cuStreamGetPriority 5050;
    event::cuEventCreate 2000;
    event::cuEventRecord 2000;
    event::cuEventRecord_ptsz 7000;
    event::cuEventRecordWithFlags 11010;
    event::cuEventRecordWithFlags_ptsz 11010;
    event::cuEventQuery 2000;
    event::cuEventSynchronize 2000;
    event::cuEventElapsedTime 2000;
    event::cuEventElapsedTime_v2 12080;
    event::cuEventDestroy_v2 4000;
    capture::cuStreamBeginCapture_v2 10010;
    capture::cuStreamEndCapture 10000;
    capture::cuStreamIsCapturing 10000;
    capture::cuStreamIsCapturing_ptsz 10000;
    capture::cuStreamGetCaptureInfo 10010;
    capture::cuStreamGetCaptureInfo_v2 11030;
    capture::cuStreamGetCaptureInfo_v3 12030;
    capture::cuThreadExchangeStreamCaptureMode 10010;
    graph::cuGraphCreate 10000;
    graph::cuGraphClone 10000;
    graph::cuGraphNodeFindInClone 10000;
    graph::cuGraphDestroy 10000;
    graph::cuGraphGetNodes 10000;
    graph::cuGraphGetRootNodes 10000;
    graph_edges::cuGraphGetEdges 10000;
    graph_edges::cuGraphGetEdges_v2 12030;
    graph_edges::cuGraphNodeGetDependencies 10000;
    graph_edges::cuGraphNodeGetDependencies_v2 12030;
    graph_edges::cuGraphNodeGetDependentNodes 10000;
    graph_edges::cuGraphNodeGetDependentNodes_v2 12030;
    graph_edges::cuGraphAddDependencies 10000;
    graph_edges::cuGraphAddDependencies_v2 12030;
    graph_edges::cuGraphRemoveDependencies 10000;
    graph_edges::cuGraphRemoveDependencies_v2 12030;
    graph_nodes::cuGraphAddEmptyNode 10000;
    graph_nodes::cuGraphAddEventRecordNode 11010;
    graph_nodes::cuGraphAddEventWaitNode 11010;
    graph_nodes::cuGraphAddChildGraphNode 10000;
    graph_nodes::cuGraphAddKernelNode 10000;
    graph_nodes::cuGraphAddKernelNode_v2 12000;
    graph_nodes::cuGraphAddHostNode 10000;
    graph_nodes::cuGraphNodeGetType 10000;
    graph_nodes::cuGraphDestroyNode 10000;
    graph_nodes::cuGraphChildGraphNodeGetGraph 10000;
    graph_nodes::cuGraphKernelNodeGetParams 10000;
    graph_nodes::cuGraphKernelNodeGetParams_v2 12000;
    graph_nodes::cuGraphKernelNodeSetParams 10000;
    graph_nodes::cuGraphKernelNodeSetParams_v2 12000;
    graph_nodes::cuGraphEventRecordNodeGetEvent 11010;
    graph_nodes::cuGraphEventRecordNodeSetEvent 11010;
    graph_nodes::cuGraphEventWaitNodeGetEvent 11010;
    graph_nodes::cuGraphEventWaitNodeSetEvent 11010;
    exec::cuGraphInstantiate 10000;
    exec::cuGraphInstantiate_v2 11000;
    exec::cuGraphInstantiateWithFlags 11040;
    exec::cuGraphInstantiateWithParams 12000;
    exec::cuGraphLaunch 10000;
    exec::cuGraphLaunch_ptsz 10000;
    exec::cuGraphUpload 11010;
    exec::cuGraphUpload_ptsz 11010;
    exec::cuGraphExecDestroy 10000;
    exec::cuGraphExecGetFlags 12000;
    exec_update::cuGraphExecUpdate 10020;
    exec_update::cuGraphExecUpdate_v2 12000;
    exec_update::cuGraphExecKernelNodeSetParams 10010;
    exec_update::cuGraphExecKernelNodeSetParams_v2 12000;
    exec_update::cuGraphExecEventRecordNodeSetEvent 11010;
    exec_update::cuGraphExecEventWaitNodeSetEvent 11010;
    exec_update::cuGraphExecChildGraphNodeSetParams 11010;
    exec_update::cuGraphNodeSetEnabled 11060;
    exec_update::cuGraphNodeGetEnabled 11060;
    user_object::cuUserObjectCreate 11030;
    user_object::cuUserObjectRetain 11030;
    user_object::cuUserObjectRelease 11030;
    user_object::cuGraphRetainUserObject 11030;
    user_object::cuGraphReleaseUserObject 11030;
    module::cuModuleLoad 2000;
    module::cuModuleLoadData 2000;
    module::cuModuleLoadDataEx 2010;
    module::cuModuleUnload 2000;
    module::cuModuleGetFunction 2000;
    module::cuModuleGetFunctionCount 12040;
    module::cuModuleEnumerateFunctions 12040;
    module::cuFuncGetName 12030;
    module::cuFuncGetModule 11000;
    module::cuModuleGetGlobal_v2 3020;
    function::cuFuncGetAttribute 2020;
    function::cuFuncSetAttribute 9000;
    library::cuLibraryLoadData 12000;
    library::cuLibraryUnload 12000;
    library::cuLibraryGetKernel 12000;
    library::cuLibraryGetKernelCount 12040;
    library::cuLibraryEnumerateKernels 12040;
    library::cuLibraryGetModule 12000;
    library::cuKernelGetFunction 12000;
    library::cuKernelGetName 12030;
    launch::cuLaunchKernel 4000;
    launch::cuLaunchKernel_ptsz 7000;
    launch::cuLaunchKernelEx 11060;
    launch::cuLaunchKernelEx_ptsz 11060;
    launch::cuLaunchHostFunc 10000;
    launch::cuLaunchHostFunc_ptsz 10000;
    memory::cuMemGetInfo_v2 3020;
    memory::cuMemAlloc_v2 3020;
    memory::cuMemFree_v2 3020;
    memory::cuMemAllocAsync 11020;
    memory::cuMemFreeAsync 11020;
    memory::cuMemAllocManaged 6000;
    memory::cuStreamAttachMemAsync 6000;
    memory::cuMemAllocHost_v2 3020;
    memory::cuMemHostAlloc 2020;
    memory::cuMemFreeHost 2000;
    memory::cuMemsetD8_v2 3020;
    memory::cuMemsetD8Async 3020;
    memory::cuMemcpyHtoD_v2 3020;
    memory::cuMemcpyHtoDAsync_v2 3020;
    memory::cuMemcpyDtoH_v2 3020;
    memory::cuMemcpyDtoHAsync_v2 3020;
    memory::cuMemcpyDtoD_v2 3020;
    memory::cuMemcpyDtoDAsync_v2 3020;
}

impl Symbol {
    /// How many there are.
    pub(crate) const COUNT: usize = Self::ALL.len();

    /// Its place in [`Symbol::ALL`].
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// The function exported under that name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|symbol| symbol.name() == name)
    }

    /// The name without version and stream suffix, and whether it is the
    /// per-thread twin: what `cuGetProcAddress` goes by.
    pub(crate) fn base(self) -> (&'static str, bool) {
        let (name, per_thread) = match self.name().strip_suffix("_ptsz") {
            Some(name) => (name, true),
            None => (self.name(), false),
        };
        let base = name
            .rsplit_once("_v")
            .filter(|(_, version)| version.parse::<u32>().is_ok())
            .map_or(name, |(base, _)| base);
        (base, per_thread)
    }
}

#[cfg(test)]
mod tests {
    use super::Symbol;

    #[test]
    fn names_are_unique_and_found() {
        for (index, symbol) in Symbol::ALL.iter().enumerate() {
            assert_eq!(symbol.index(), index);
            assert_eq!(Symbol::named(symbol.name()), Some(*symbol));
            assert_eq!(symbol.c_name().to_str(), Ok(symbol.name()));
            assert!(!symbol.address().is_null());
        }
        assert_eq!(Symbol::named("cuArray3DCreate_v2"), None);
    }

    #[test]
    fn base_names_drop_version_and_twin() {
        assert_eq!(Symbol::cuEventElapsedTime_v2.base(), ("cuEventElapsedTime", false));
        assert_eq!(Symbol::cuEventRecord_ptsz.base(), ("cuEventRecord", true));
        assert_eq!(Symbol::cuInit.base(), ("cuInit", false));
    }
}
