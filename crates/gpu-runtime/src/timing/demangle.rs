// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel names for people. What identifies a kernel is its whole mangled name:
//! two kernels may look alike once demangled.

use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};
use std::borrow::Cow;
use std::fmt::{self, Write as _};

/// Longer names stay mangled. The longest of real kernels have some thousands
/// of bytes; demangling takes stack and time by the length.
const LONGEST: usize = 16 << 10;
/// Longer results are given up: a short name can stand for a huge one.
const LONGEST_RESULT: usize = 64 << 10;
/// Deeper names stay mangled. Templates nested 25 deep are within it, and half a
/// megabyte of stack is enough for it.
const DEEPEST: u32 = 256;

/// A kernel's name as its source spells it, by the rules of C++ and Rust. What
/// follows neither, or is too long (16 KiB) or too deep to be one, comes back
/// as it is. It allocates: for reports, not for a launch path.
#[must_use]
pub fn demangle(name: &str) -> Cow<'_, str> {
    if name.len() > LONGEST {
        return name.into();
    }
    let mut out = Bounded(String::new());
    let readable = if let Ok(rust) = rustc_demangle::try_demangle(name) {
        write!(out, "{rust:#}").is_ok()
    } else if name.starts_with("_Z") {
        cpp(name, &mut out)
    } else {
        false
    };
    if readable && !out.0.is_empty() { out.0.into() } else { name.into() }
}

fn cpp(name: &str, out: &mut Bounded) -> bool {
    let parsing = ParseOptions::default().recursion_limit(DEEPEST);
    let printing = DemangleOptions::new().recursion_limit(DEEPEST);
    let Ok(symbol) = Symbol::new_with_options(name, &parsing) else {
        return false;
    };
    symbol.structured_demangle(out, &printing).is_ok()
}

/// A string that refuses to grow beyond [`LONGEST_RESULT`].
struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > LONGEST_RESULT {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_RESULT, demangle};

    #[test]
    fn names_read_as_their_source_spells_them() {
        for (mangled, readable) in [
            ("_Z6vecAddPfS_S_i", "vecAdd(float*, float*, float*, int)"),
            ("_ZN7cutlass6KernelI4GemmLi128EEEvT_", "void cutlass::Kernel<Gemm, 128>(Gemm)"),
            ("_RNvC6_123foo3bar", "123foo::bar"),
            ("_ZN4core3fmt5Write9write_str17h0123456789abcdefE", "core::fmt::Write::write_str"),
        ] {
            assert_eq!(demangle(mangled), readable);
        }
        let depth = 25;
        let mangled = format!("_Z1fI{}i{}Evv", "1AI".repeat(depth), "E".repeat(depth));
        let readable = format!("void f<{}int{} >()", "A<".repeat(depth), "> ".repeat(depth));
        let without_spaces = |text: &str| text.replace(' ', "");
        assert_eq!(without_spaces(&demangle(&mangled)), without_spaces(&readable));
    }

    #[test]
    fn what_is_no_mangled_name_stays() {
        for name in [
            "",
            "attention",
            "_Z",
            "_R",
            "_ZN",
            "triton_poi_fused_0",
            "_Z\\xff",
            "_ZNK",
            "_Z6vecAddPfS_S_i trailing",
        ] {
            assert_eq!(demangle(name), name);
        }
    }

    /// Doubling by substitution, depth, and sheer length.
    #[test]
    fn hostile_names_end() {
        let doubling = format!("_Z1fI{}E", "S_IS0_S0_E".repeat(900));
        let deep = format!("_Z1f{}i", "P".repeat(9_000));
        let nested = format!("_Z1fI{}i{}Evv", "1AI".repeat(5_000), "E".repeat(5_000));
        let mut bomb = "_Z1fI1AIiiE".to_owned();
        for level in 0..60 {
            let digit = char::from_digit(level % 36, 36).unwrap_or('0').to_ascii_uppercase();
            bomb.push_str(&format!("1BIS{digit}_S{digit}_E"));
        }
        bomb.push_str("Evv");
        let long = format!("_Z70000{}v", "x".repeat(70_000));
        let all = move || {
            for name in [doubling, deep, nested, bomb, long] {
                assert!(demangle(&name).len() <= LONGEST_RESULT.max(name.len()));
            }
        };
        let small = std::thread::Builder::new().stack_size(512 << 10);
        small.spawn(all).unwrap().join().unwrap();
    }
}
