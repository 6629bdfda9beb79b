// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the machine says of itself.

use super::Failure;
use super::cuda::Functions;
use metrale_gpu_sys::cuda::Driver;
use std::ffi::CStr;

/// `CU_DEVICE_ATTRIBUTE_*` that the page tells.
const MULTIPROCESSORS: u32 = 16;
const MAJOR: u32 = 75;
const MINOR: u32 = 76;

/// Names and values for the page. `cuInit` is called here, and no context made.
pub(super) fn machine(driver: &Driver, device: u32) -> Result<Vec<(String, String)>, Failure> {
    let path = driver.origin().path();
    let cuda = Functions::load(driver)?;
    cuda.init(0)?;
    let found = driver.device_count()?;
    if device >= found {
        return Err(Failure::NoDevice { asked: device, found });
    }
    let ordinal = i32::try_from(device).unwrap_or(i32::MAX);
    let attribute = |number| {
        let told = cuda.attribute(number, ordinal);
        told.map_or("not told".to_owned(), |value| value.to_string())
    };
    let mut name = [0; 256];
    let device_name = match cuda.device_name(&mut name, 256, ordinal) {
        Ok(()) => CStr::from_bytes_until_nul(&name).unwrap_or_default().to_string_lossy().into(),
        Err(failure) => format!("not told: {failure}"),
    };
    let file = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let version = driver.version();
    let capability = [MAJOR, MINOR].map(attribute);
    let told = [
        ("driver", path.display().to_string()),
        ("driver file", file.display().to_string()),
        ("kernel module", kernel_module(driver.is_simulated())),
        ("driver's CUDA version", format!("{}.{}", version / 1000, version % 1000 / 10)),
        ("device", device_name),
        ("compute capability", capability.join(".")),
        ("multiprocessors", attribute(MULTIPROCESSORS)),
        ("devices", found.to_string()),
        ("host", host()),
        ("metrale", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    Ok(told.map(|(name, value)| (name.to_owned(), value)).into())
}

/// The kernel's half of the driver, as it says itself.
fn kernel_module(is_simulated: bool) -> String {
    if is_simulated {
        return "none: simulated".to_owned();
    }
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
    let line = text.lines().next().and_then(|line| line.split_once(':'));
    line.map_or("not told".to_owned(), |(_, version)| version.trim().to_owned())
}

/// The processor and how many of it this process may use.
fn host() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown processor", |name| name.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{model}, {cores} processors")
}
