// SPDX-License-Identifier: MIT OR Apache-2.0
//! The controls of the simulated driver that runs this process: its clock, its
//! costs and its counts, by the `sim_*` functions that the library exports.

use std::ffi::{CStr, c_char};
use std::path::Path;
use std::sync::OnceLock;

use libloading::Library;
use metrale_telemetry::clock::monotonic_ns;

/// Host cost of the driver calls that a replay makes, in nanoseconds. Records:
/// the middle of what is published for timing records (1.1 to 2.5 us on an
/// uncontended thread). Launches: the usual span of `cudaLaunchKernel` and
/// `cudaGraphLaunch` in recorded traces. The rest are small driver calls that
/// nobody publishes; a tenth of a record is assumed.
const COSTS: [(&CStr, u64); 8] = [
    (c"cuEventRecord", 1_500),
    (c"cuLaunchKernel", 4_500),
    (c"cuGraphLaunch", 9_000),
    (c"cuEventQuery", 500),
    (c"cuEventElapsedTime", 500),
    (c"cuEventElapsedTime_v2", 500),
    (c"cuStreamIsCapturing", 150),
    (c"cuThreadExchangeStreamCaptureMode", 50),
];

/// What a mark in a graph takes, and instantiating a node, nanoseconds: the middle of
/// what is published.
const MARK_NS: u64 = 1_200;
const INSTANTIATE_NS: u64 = 1_500;

type Clock = unsafe extern "C" fn() -> u64;

/// The controls, each by its C signature and name.
macro_rules! controls {
    ($($control:ident: $signature:ty = $name:literal),* $(,)?) => {
        /// The simulated driver, by its controls.
        #[derive(Debug)]
        pub struct Simulator {
            $($control: $signature,)*
            _library: Library,
        }

        impl Simulator {
            /// The controls of the simulated driver at `path`, which is loaded.
            ///
            /// # Errors
            /// Where it lacks one of them: it is of another version than this program.
            pub fn of(path: &Path) -> Result<Self, libloading::Error> {
                // SAFETY: the library is loaded already; no initialiser runs.
                let library = unsafe { Library::new(path) }?;
                $(
                    // SAFETY: the simulator gives each of these names this signature.
                    let $control = *unsafe { library.get::<$signature>($name) }?;
                )*
                let simulator = Self { $($control,)* _library: library };
                // The driver's own references keep the library loaded for good.
                let _ = TIME.set(simulator.now_ns);
                Ok(simulator)
            }
        }
    };
}

controls! {
    now_ns: Clock = b"sim_now_ns\0",
    advance_to_ns: unsafe extern "C" fn(u64) = b"sim_advance_to_ns\0",
    set_call_cost: unsafe extern "C" fn(*const c_char, u64) -> u32 = b"sim_set_call_cost\0",
    set_mark: unsafe extern "C" fn(u64) = b"sim_set_graph_mark\0",
    set_instantiation: unsafe extern "C" fn(u64) = b"sim_set_graph_instantiation\0",
    call_name: unsafe extern "C" fn(u64) -> *const c_char = b"sim_call_name\0",
    call_count: unsafe extern "C" fn(*const c_char) -> u64 = b"sim_call_count\0",
    set_device_count: unsafe extern "C" fn(u32) = b"sim_set_device_count\0",
}

/// The simulator that gives this process its time, once there is one.
static TIME: OnceLock<Clock> = OnceLock::new();

/// The virtual clock, for a recorder that takes its clock as a function; the
/// monotonic one where no simulator runs the process.
pub fn clock_ns() -> u64 {
    match TIME.get() {
        // SAFETY: takes nothing, and the simulator's library stays loaded.
        Some(now_ns) => unsafe { now_ns() },
        None => monotonic_ns(),
    }
}

impl Simulator {
    /// The virtual clock, nanoseconds.
    pub fn now_ns(&self) -> u64 {
        // SAFETY: takes nothing, and the library stays loaded.
        unsafe { (self.now_ns)() }
    }

    /// Moves the clock on; never back.
    pub fn advance_to_ns(&self, ns: u64) {
        // SAFETY: takes a number, and the library stays loaded.
        unsafe { (self.advance_to_ns)(ns) };
    }

    /// Gives the machine so many devices; before `cuInit`.
    pub fn set_device_count(&self, devices: u32) {
        // SAFETY: takes a number, and the library stays loaded.
        unsafe { (self.set_device_count)(devices) };
    }

    /// From now on a driver call costs its host what a real one does.
    pub fn cost_as_a_real_driver(&self) {
        for (name, ns) in COSTS {
            // SAFETY: a C string that lives for ever, and a number.
            let _ = unsafe { (self.set_call_cost)(name.as_ptr(), ns) };
        }
        // SAFETY: takes a number, and the library stays loaded.
        unsafe { (self.set_mark)(MARK_NS) };
        // SAFETY: as above.
        unsafe { (self.set_instantiation)(INSTANTIATE_NS) };
    }

    /// How often each driver function was called, by name; those never called
    /// are left out.
    pub fn calls(&self) -> Vec<(String, u64)> {
        (0..)
            .map_while(|index| {
                // SAFETY: takes a number, and the library stays loaded.
                let name = unsafe { (self.call_name)(index) };
                (!name.is_null()).then(|| {
                    // SAFETY: a C string that lives as long as the library.
                    let count = unsafe { (self.call_count)(name) };
                    // SAFETY: as above.
                    let name = unsafe { CStr::from_ptr(name) };
                    (name.to_string_lossy().into_owned(), count)
                })
            })
            .filter(|(_, count)| *count > 0)
            .collect()
    }
}
