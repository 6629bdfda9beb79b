// SPDX-License-Identifier: MIT OR Apache-2.0
//! The built-in workload: a decode-heavy server, made up but of real sizes.
//!
//! Requests arrive, are admitted (copies and small kernels outside any step),
//! prefilled eagerly and decoded by graphs, one graph per batch size.
//! Invariants: the same timeline on every machine; the sums are kept by the
//! generator as it goes, so that they can be held against a replay; no span of
//! a kernel or lane is as long as 16 ms, up to which f32 milliseconds round to
//! the right nanosecond.

use std::collections::BTreeMap;
use std::num::NonZeroI64;

use crate::steps::Lane;
use crate::trace::{Annotation, Call, CallKind, StreamId, Trace, Work, WorkKind};

/// A generated timeline and what it adds up to.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// The timeline.
    pub trace: Trace,
    /// Launches and nanoseconds of each kernel launched one by one.
    pub eager: BTreeMap<String, (u64, u64)>,
    /// Lane and span in nanoseconds of each step, in order.
    pub steps: Vec<(Lane, u64)>,
    /// Graph launches, and the kernels in them.
    pub graphs: (u64, u64),
}

/// Steps of the built-in workload: of each lane 30 and more are armed by one in
/// 64, so that errors can be told.
pub const STEPS: usize = 8_192;

const LAYERS: usize = 28;
/// Kernels of one layer: name, and nanoseconds in a decode step of batch 32.
/// A layer has 15 of them, so a step of 28 layers 420.
const LAYER: [(&str, u64); 15] = [
    (
        "void serve::norm::rms_norm_kernel<bf16, 8>(bf16*, bf16 const*, bf16 const*, float, int)",
        3_100,
    ),
    ("serve_gemm_bf16_bf16_f32_tn_128x64x64_stages4_qkv", 28_400),
    (
        "void serve::rope::rotary_embedding_kernel<bf16, true>(long const*, bf16*, bf16*, bf16 const*, int, long, long)",
        2_900,
    ),
    (
        "void serve::cache::reshape_and_cache_kernel<bf16, (serve::cache::Layout)0, 16>(bf16 const*, bf16 const*, bf16*, bf16*, long const*)",
        2_600,
    ),
    (
        "void serve::attn::paged_decode_kernel<serve::attn::Traits<bf16, 128, 16, false>, serve::attn::SplitKV<true> >(serve::attn::Params)",
        61_200,
    ),
    (
        "void serve::attn::paged_decode_kernel<serve::attn::Traits<bf16, 128, 16, false>, serve::attn::SplitKV<false> >(serve::attn::Params)",
        9_300,
    ),
    ("void serve::attn::combine_partials_kernel<bf16, 128>(serve::attn::Params)", 4_700),
    ("serve_gemm_bf16_bf16_f32_tn_128x64x64_stages4_out", 22_600),
    (
        "void serve::comm::one_shot_all_reduce_kernel<bf16, 8>(serve::comm::Ranks, bf16*, int)",
        12_100,
    ),
    (
        "void serve::norm::fused_add_rms_norm_kernel<bf16, 8>(bf16*, bf16*, bf16 const*, float, int)",
        3_600,
    ),
    ("serve_gemm_bf16_bf16_f32_tn_128x128x64_stages3_gate_up", 97_800),
    ("void serve::act::silu_and_mul_kernel<bf16>(bf16*, bf16 const*, int)", 4_200),
    ("serve_gemm_bf16_bf16_f32_tn_128x128x64_stages3_down", 52_300),
    (
        "void serve::quant::dynamic_scale_kernel<bf16, fp8_e4m3>(bf16 const*, fp8_e4m3*, float*, int)",
        2_400,
    ),
    (
        "void serve::comm::one_shot_all_reduce_kernel<bf16, 4>(serve::comm::Ranks, bf16*, int)",
        11_800,
    ),
];
const BEFORE: [(&str, u64); 3] = [
    ("void serve::sched::gather_slots_kernel<int, 32>(int const*, int*, int)", 2_200),
    ("void serve::embed::lookup_kernel<bf16, long>(bf16 const*, long const*, bf16*, int)", 4_900),
    ("void serve::attn::plan_kernel(int const*, int const*, serve::attn::Plan*, int)", 3_300),
];
const AFTER: [(&str, u64); 4] = [
    ("serve_gemm_bf16_bf16_f32_tn_256x128x64_stages4_lm_head", 312_000),
    ("void serve::sample::softmax_kernel<float, 1024>(float const*, float*, int)", 41_500),
    (
        "void serve::sample::top_p_kernel<float, 1024>(float const*, float const*, int*, unsigned long)",
        66_700,
    ),
    ("void serve::sched::append_token_kernel<int>(int const*, int*, int)", 2_100),
];
const ADMIT: [(&str, u64); 2] = [
    ("void serve::sched::claim_slot_kernel<int>(int*, int const*, int)", 2_500),
    ("void serve::cache::clear_blocks_kernel<bf16, 16>(bf16*, long const*, int)", 18_400),
];

/// The built-in workload.
pub fn builtin() -> Workload {
    generate(STEPS, 0x6d65_7472)
}

/// A workload of `steps` steps.
pub fn generate(steps: usize, seed: u64) -> Workload {
    let mut generator = Generator { random: seed, ..Generator::default() };
    let process = generator.out.trace.ids.intern(b"server");
    let device = generator.out.trace.ids.intern(b"0");
    for stream in [&b"7"[..], b"13"] {
        let stream = generator.out.trace.ids.intern(stream);
        generator.out.trace.streams.push(StreamId { device, stream });
    }
    generator.process = process;
    let (mut running, mut waiting) = (24u64, 2u64);
    for _ in 0..steps {
        // A request comes every four steps; the more there are, the sooner one goes.
        if waiting > 0 {
            generator.admit(waiting);
            generator.step(Lane::Prefill, running, waiting);
            running = (running + waiting).min(32);
            waiting = 0;
        } else {
            generator.step(Lane::Decode, running, 0);
        }
        waiting += u64::from(generator.next(4) == 0);
        running -= u64::from(running > 8 && generator.next(96) < running);
    }
    generator.out.trace.events =
        (generator.out.trace.work.len() + generator.out.trace.calls.len()) as u64;
    generator.out.trace.rebase();
    generator.out
}

#[derive(Default)]
struct Generator {
    out: Workload,
    random: u64,
    process: u32,
    host_ns: i64,
    /// When each stream is free.
    free_ns: [i64; 2],
    correlation: u32,
    /// First start and last end on the compute stream since the step began.
    extent: Option<(i64, i64)>,
}

const COMPUTE: usize = 0;
const COPIES: usize = 1;
const TO_DEVICE: &str = "Memcpy HtoD (Pinned -> Device)";
const TO_HOST: &str = "Memcpy DtoH (Device -> Pinned)";
/// From a launch call to the earliest start on the GPU.
const LATENCY_NS: i64 = 4_200;

impl Generator {
    /// A number below `bound`, by splitmix64.
    fn next(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    /// The id of the latest host call.
    fn id(&self) -> NonZeroI64 {
        NonZeroI64::new(self.correlation.into()).unwrap_or(NonZeroI64::MAX)
    }

    /// One host call of `cost_ns`, and the earliest start of its work.
    fn call(&mut self, kind: CallKind, cost_ns: u64) -> i64 {
        self.correlation += 1;
        self.out.trace.calls.push(Call {
            at_ns: self.host_ns,
            correlation: self.id(),
            process: self.process,
            kind,
        });
        let start = self.host_ns + LATENCY_NS;
        self.host_ns += cost_ns as i64;
        start
    }

    fn work(&mut self, stream: usize, kind: WorkKind, earliest: i64, duration_ns: u64) {
        let start_ns = earliest.max(self.free_ns[stream]);
        let end_ns = start_ns + duration_ns as i64;
        self.free_ns[stream] = end_ns;
        if stream == COMPUTE {
            let first = self.extent.map_or(start_ns, |(first, _)| first);
            self.extent = Some((first, end_ns));
        }
        self.out.trace.work.push(Work {
            start_ns,
            duration_ns,
            stream: stream as u32,
            correlation: Some(self.id()),
            kind,
        });
    }

    /// Launches one kernel, its time varied by up to a sixteenth.
    fn kernel(&mut self, name: &str, duration_ns: u64) {
        let duration_ns = duration_ns + self.next(duration_ns / 16 + 1);
        let cost = 4_000 + self.next(2_000);
        // The gap a GPU leaves between two kernels of a stream.
        let gap = 700 + self.next(500) as i64;
        let earliest = self.call(CallKind::Launch, cost).max(self.free_ns[COMPUTE] + gap);
        let kind = WorkKind::Kernel(self.out.trace.names.intern(name.as_bytes()));
        self.work(COMPUTE, kind, earliest, duration_ns);
        let sum = self.out.eager.entry(name.to_owned()).or_default();
        *sum = (sum.0 + 1, sum.1 + duration_ns);
    }

    fn copy(&mut self, stream: usize, name: &str, duration_ns: u64) {
        let cost = 5_000 + self.next(3_000);
        let earliest = self.call(CallKind::Launch, cost);
        let kind = WorkKind::Copy(self.out.trace.names.intern(name.as_bytes()));
        self.work(stream, kind, earliest, duration_ns);
    }

    /// Uploads the prompts on the copy stream, then claims their slots.
    fn admit(&mut self, requests: u64) {
        for _ in 0..requests {
            let upload = 9_000 + self.next(6_000);
            self.copy(COPIES, TO_DEVICE, upload);
        }
        for _ in 0..requests {
            for (name, ns) in ADMIT {
                self.kernel(name, ns);
            }
        }
        // The batch is put together while the GPU is done with them.
        self.host_ns = self.host_ns.max(self.free_ns[COMPUTE]) + 40_000;
    }

    fn step(&mut self, lane: Lane, running: u64, prompts: u64) {
        let begun = self.host_ns;
        self.extent = None;
        let tokens = prompts * (900 + self.next(900));
        self.copy(COMPUTE, TO_DEVICE, 2_400);
        for (name, ns) in BEFORE {
            self.kernel(name, ns);
        }
        match lane {
            Lane::Prefill => {
                for _ in 0..LAYERS {
                    for (name, ns) in LAYER {
                        // Work grows with the tokens in the batch.
                        self.kernel(name, ns / 2 + ns * tokens / 8_000);
                    }
                }
            }
            _ => self.graph(running.div_ceil(8) * 8),
        }
        for (name, ns) in AFTER {
            self.kernel(name, ns);
        }
        self.copy(COMPUTE, TO_HOST, 1_700);
        let (first, last) = self.extent.unwrap_or_default();
        self.out.steps.push((lane, (last - first) as u64));
        let name = format!(
            "execute_{}_context_{prompts}({tokens})_generation_{running}({running})",
            tokens + running
        );
        let name = self.out.trace.names.intern(name.as_bytes());
        self.out.trace.annotations.push(Annotation {
            start_ns: begun,
            end_ns: self.host_ns,
            process: self.process,
            name,
            id: None,
        });
        // The host waits for the tokens, then schedules the next step.
        self.host_ns = self.host_ns.max(last) + 180_000 + self.next(120_000) as i64;
    }

    /// One graph launch. The times depend on the batch only: it is the same
    /// graph each time.
    fn graph(&mut self, batch: u64) {
        let launch = self.call(CallKind::Graph, 290_000);
        let mut start = launch.max(self.free_ns[COMPUTE] + 1_300);
        for node in 0..LAYERS * LAYER.len() {
            let (name, ns) = LAYER[node % LAYER.len()];
            let duration_ns = ns * (32 + batch) / 64 + (node as u64 * 37) % 101;
            let kind = WorkKind::Kernel(self.out.trace.names.intern(name.as_bytes()));
            self.work(COMPUTE, kind, start, duration_ns);
            start = self.free_ns[COMPUTE] + 250 + (node as i64 * 53) % 97;
        }
        self.out.graphs.0 += 1;
        self.out.graphs.1 += (LAYERS * LAYER.len()) as u64;
    }
}
