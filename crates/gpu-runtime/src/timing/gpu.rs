// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which GPU a context is on, as its maker's tools name it.

use super::process::unless_exiting;
use metrale_gpu_sys::cuda::{CUdevice, CUuuid, Driver, Status};
use std::ffi::{CStr, c_char, c_int};

/// Where the driver does not tell.
pub(super) const UNKNOWN: &str = "unknown";

/// A GPU, or a MIG instance of one.
#[derive(Debug)]
pub(super) struct Gpu {
    /// `GPU-` or `MIG-` and the UUID; [`UNKNOWN`].
    pub(super) id: String,
    /// The model.
    pub(super) name: Option<String>,
}

/// The GPU of the current context. A call that fails costs its answer only.
pub(super) fn of_current_context(driver: &Driver) -> Gpu {
    let device = device(driver);
    Gpu {
        id: device.and_then(|device| id(driver, device)).unwrap_or_else(|| UNKNOWN.to_owned()),
        name: device.and_then(|device| name(driver, device)),
    }
}

fn device(driver: &Driver) -> Option<CUdevice> {
    let mut device: CUdevice = 0;
    let status = unless_exiting(|| {
        // SAFETY: the pointer is to a live integer.
        unsafe { (driver.api().ctx_get_device)(&raw mut device) }
    });
    status.is_success().then_some(device)
}

/// The second version tells the instance's own UUID, the first one that of the
/// GPU under it: it is an instance where they differ.
fn id(driver: &Driver, device: CUdevice) -> Option<String> {
    let api = driver.api();
    let ask = |call: unsafe extern "C" fn(*mut CUuuid, CUdevice) -> Status| {
        let mut uuid = CUuuid::default();
        let status = unless_exiting(|| {
            // SAFETY: the pointer is to a live UUID; the device is the context's.
            unsafe { call(&raw mut uuid, device) }
        });
        status.is_success().then_some(uuid)
    };
    let whole = ask(api.device_get_uuid);
    let own = api.device_get_uuid_v2.and_then(ask).or(whole)?;
    let kind = match whole {
        Some(whole) if whole != own => "MIG",
        _ => "GPU",
    };
    Some(format!("{kind}-{}", text(own)))
}

/// As `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`.
fn text(uuid: CUuuid) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in uuid.bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

fn name(driver: &Driver, device: CUdevice) -> Option<String> {
    let mut bytes = [0u8; 256];
    let room = c_int::try_from(bytes.len()).ok()?;
    let start = bytes.as_mut_ptr().cast::<c_char>();
    let status = unless_exiting(|| {
        // SAFETY: the pointer is to so many live bytes; the device is the context's.
        unsafe { (driver.api().device_get_name)(start, room, device) }
    });
    status.ok().ok()?;
    let name = CStr::from_bytes_until_nul(&bytes).ok()?.to_string_lossy();
    (!name.is_empty()).then(|| name.into_owned())
}

#[cfg(test)]
mod tests {
    use super::{CUuuid, text};

    #[test]
    fn a_uuid_reads_as_the_makers_tools_write_it() {
        let bytes = [
            0x00, 0x01, 0x02, 0x0a, 0xb0, 0xc1, 0xd2, 0xe3, 0xf4, 0x05, 0x16, 0x27, 0x38, 0x49,
            0x5a, 0xff,
        ];
        assert_eq!(text(CUuuid { bytes }), "0001020a-b0c1-d2e3-f405-162738495aff");
    }
}
