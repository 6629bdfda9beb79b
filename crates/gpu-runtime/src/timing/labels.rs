// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel names as values of a metric's label.

use super::demangle::demangle;

/// The most bytes of a label.
const LONGEST: usize = 96;
/// Bytes of the mark behind a name that was cut.
const MARK: usize = 9;

/// A kernel's name as its source spells it, at most 96 bytes. What does not fit
/// is cut, and a hash of the whole name put behind it: `gemm<float, …~1a2b3c4d`.
/// The same name gives the same label in every process. It allocates.
#[must_use]
pub fn kernel_label(name: &str) -> String {
    let readable = demangle(name);
    let readable = readable.strip_prefix("void ").unwrap_or(&readable);
    if readable.len() <= LONGEST {
        return readable.to_owned();
    }
    let cut = readable.floor_char_boundary(LONGEST - MARK);
    format!("{}~{:08x}", &readable[..cut], hash(name.as_bytes()))
}

/// FNV-1a, 64 bits folded to 32: the same in every version and on every machine.
fn hash(bytes: &[u8]) -> u32 {
    let fnv = bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (fnv ^ (fnv >> 32)) as u32
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, kernel_label};

    #[test]
    fn short_names_are_whole_and_long_ones_stay_apart() {
        assert_eq!(kernel_label("_Z6vecAddPfS_S_i"), "vecAdd(float*, float*, float*, int)");
        assert_eq!(kernel_label("_ZN1k1fILi1EEEvv"), "k::f<1>()");
        assert_eq!(kernel_label(""), "");
        let long = |end| format!("{}{end}", "äß".repeat(60));
        let (one, other) = (kernel_label(&long("1")), kernel_label(&long("2")));
        assert_ne!(one, other);
        for label in [&one, &other] {
            assert!(label.len() <= LONGEST && label.len() > LONGEST - 4, "{label}");
        }
        assert_eq!(one[..LONGEST - 12], other[..LONGEST - 12]);
    }

    #[test]
    fn a_label_is_the_same_for_ever() {
        let name = "x".repeat(200);
        assert_eq!(kernel_label(&name), format!("{}~c02c10c9", "x".repeat(87)));
    }
}
