// SPDX-License-Identifier: MIT OR Apache-2.0
//! The application's graph, as cudarc's object or as raw handles.

use metrale_gpu_sys::cuda::Status;
use std::ffi::c_void;

/// The application's `cuGraphLaunch(exec, stream)`.
pub type GraphLaunch = unsafe extern "C" fn(*mut c_void, *mut c_void) -> Status;

/// A graph with its executable, by their handles.
///
/// ```
/// use metrale_gpu_runtime::timing::{GraphLaunch, RawGraph};
/// # fn example(cu_graph_launch: GraphLaunch) {
/// let graph = RawGraph { graph: 0x7f40, exec: 0x7f60, flags: Some(0), launch: cu_graph_launch };
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RawGraph {
    /// The `CUgraph` that the executable was made of, or was last updated by as a
    /// whole; neither was changed since.
    pub graph: u64,
    /// The `CUgraphExec`.
    pub exec: u64,
    /// The flags that it was instantiated with, for drivers before CUDA 12.0; later
    /// ones are asked.
    pub flags: Option<u64>,
    /// What launches it: of a program with per-thread default streams the
    /// `cuGraphLaunch_ptsz`.
    pub launch: GraphLaunch,
}

#[cfg(feature = "cudarc-graph")]
mod of_cudarc {
    use super::{RawGraph, Status, c_void};
    use cudarc::driver::{CudaGraph, sys};

    impl From<&CudaGraph> for RawGraph {
        /// Its flags are not known.
        fn from(graph: &CudaGraph) -> Self {
            Self {
                graph: graph.cu_graph() as u64,
                exec: graph.cu_graph_exec() as u64,
                flags: None,
                launch,
            }
        }
    }

    /// Not cudarc's method, which takes errors that belong to the application.
    unsafe extern "C" fn launch(exec: *mut c_void, stream: *mut c_void) -> Status {
        // SAFETY: promised by the caller.
        let result = unsafe { sys::cuGraphLaunch(exec.cast(), stream.cast()) };
        Status(result as u32)
    }
}
