// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernels of the measurements, as PTX.
//!
//! Each is run by one thread. A parameter whose name ends in `duration_ns` is
//! what the simulated driver goes by; a GPU runs the code.

/// - `empty`: does nothing; its argument is 0.
/// - `spin`: runs for as long as its argument says.
/// - `stamp`: as `spin`, and writes the time of `%globaltimer` at its start and
///   at its end to `out`: 16 bytes.
/// - `ticks`: writes `count` times that follow each other and differ to `out`.
///
/// A driver compiles PTX 6.0 for `sm_50`, the oldest that today's take, for any
/// newer device.
pub(crate) const KERNELS: &str = "
.version 6.0
.target sm_50
.address_size 64

.visible .entry empty(.param .u64 empty_duration_ns)
{
    ret;
}

.visible .entry spin(.param .u64 spin_duration_ns)
{
    .reg .pred %p;
    .reg .u64 %duration, %start, %now;
    ld.param.u64 %duration, [spin_duration_ns];
    mov.u64 %start, %globaltimer;
AGAIN:
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %start;
    setp.lt.u64 %p, %now, %duration;
    @%p bra AGAIN;
    ret;
}

.visible .entry stamp(.param .u64 stamp_out, .param .u64 stamp_duration_ns)
{
    .reg .pred %p;
    .reg .u64 %out, %duration, %start, %now, %passed;
    ld.param.u64 %out, [stamp_out];
    ld.param.u64 %duration, [stamp_duration_ns];
    cvta.to.global.u64 %out, %out;
    mov.u64 %start, %globaltimer;
AGAIN:
    mov.u64 %now, %globaltimer;
    sub.u64 %passed, %now, %start;
    setp.lt.u64 %p, %passed, %duration;
    @%p bra AGAIN;
    st.global.u64 [%out], %start;
    st.global.u64 [%out+8], %now;
    ret;
}

.visible .entry ticks(.param .u64 ticks_out, .param .u64 ticks_count)
{
    .reg .pred %p;
    .reg .u64 %out, %left, %last, %now;
    ld.param.u64 %out, [ticks_out];
    ld.param.u64 %left, [ticks_count];
    cvta.to.global.u64 %out, %out;
    mov.u64 %last, %globaltimer;
AGAIN:
    mov.u64 %now, %globaltimer;
    setp.eq.u64 %p, %now, %last;
    @%p bra AGAIN;
    mov.u64 %last, %now;
    st.global.u64 [%out], %now;
    add.u64 %out, %out, 8;
    sub.u64 %left, %left, 1;
    setp.ne.u64 %p, %left, 0;
    @%p bra AGAIN;
    ret;
}
";

#[cfg(test)]
mod tests {
    use super::KERNELS;

    #[test]
    fn the_text_is_plain_and_each_parameter_is_read() {
        assert!(KERNELS.is_ascii() && !KERNELS.contains('\0'));
        assert_eq!(KERNELS.matches('{').count(), KERNELS.matches('}').count());
        let declared: Vec<&str> = KERNELS
            .split(".param .u64 ")
            .skip(1)
            .map(|rest| rest.split([',', ')']).next().expect("a name"))
            .collect();
        assert_eq!(declared.len(), 6);
        for name in declared.iter().filter(|name| !name.starts_with("empty")) {
            assert!(KERNELS.contains(&format!("[{name}]")), "{name}");
        }
    }
}
