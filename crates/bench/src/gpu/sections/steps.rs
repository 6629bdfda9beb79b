// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the recorder adds to a step, at each level, against the same loop
//! without a recorder.

use super::{Body, Section};
use crate::gpu::Failure;
use crate::gpu::cuda::Stream;
use crate::gpu::page::figure;
use crate::gpu::rig::{self, WATCHES, Work};
use crate::gpu::run::Bench;
use crate::gpu::stats::summary;
use metrale_gpu_runtime::timing::RecorderConfig;
use metrale_telemetry::Telemetry;
use serde_json::{Value, json};
use std::time::Instant;

pub(super) const EAGER: Section = Section {
    id: "eager-steps",
    title: "Eager steps",
    about: "Steps of three lanes that launch kernels of 2 µs, in blocks of 64 steps or a multiple: one of 64 is \
            armed where N = 64. Host: from the step's first call to its last, without waiting for the GPU. GPU: \
            between two events of the bench around the step. Every kind of recorder has its block in every \
            round, harvested by its own thread; ratios are of means, to the block without a recorder in the \
            same round: their median with the least and the most.",
    seconds: 100,
    body: Body::OnDevice(eager),
};

pub(super) const GRAPH: Section = Section {
    id: "graph-steps",
    title: "Graph steps",
    about: "As above, but a step launches one graph of so many kernels, in its last lane.",
    seconds: 45,
    body: Body::OnDevice(graphs),
};

/// Launches of a step, and steps of a block: in whole 64s, of which one each is
/// armed, and so many that a block takes some time.
const SIZES: [(usize, usize); 4] = [(50, 512), (200, 256), (1_000, 64), (4_000, 64)];
/// Where only a look is asked for.
const QUICK: [(usize, usize); 2] = [(50, 64), (200, 64)];
const KERNEL_NS: u64 = 2_000;
/// Bare steps before a block.
const WARM: usize = 2;
const ROUNDS: u32 = 9;

const COLUMNS: [&str; 12] = [
    "launches",
    "recorder",
    "rounds",
    "host, µs/step",
    "host, to none",
    "least host, to none",
    "most host, to none",
    "GPU, µs/step",
    "GPU, to none",
    "host, median step, µs",
    "host, p99 step, µs",
    "spans dropped",
];

fn eager(bench: &Bench) -> Result<(), Failure> {
    let work = |_, launches| Ok(Work::Eager { launches, ns: KERNEL_NS });
    measure(bench, "Kernels launched one by one.", work)
}

fn graphs(bench: &Bench) -> Result<(), Failure> {
    let work = |stream, nodes| Ok(Work::Graph(bench.gpu.chain(stream, nodes, KERNEL_NS)?.ready));
    measure(bench, "One graph a step.", work)
}

fn measure(
    bench: &Bench,
    title: &str,
    work: impl Fn(Stream, usize) -> Result<Work, Failure>,
) -> Result<(), Failure> {
    let table = bench.page.table("steps", title, &COLUMNS);
    let stream = bench.gpu.stream()?;
    let sizes = if bench.budget.quick { &QUICK[..] } else { &SIZES[..] };
    let telemetries: Vec<_> = WATCHES
        .iter()
        .map(|(_, config)| config.map(rig::telemetry).transpose())
        .collect::<Result<_, _>>()?;
    for (at, &(launches, steps)) in sizes.iter().enumerate() {
        let budget = bench.budget.part((sizes.len() - at) as u32);
        let work = work(stream, launches)?;
        let mut told: Vec<Vec<Block>> = vec![Vec::new(); WATCHES.len()];
        // The first round warms up.
        for round in budget.rounds(2, ROUNDS + 1) {
            for turn in 0..WATCHES.len() {
                // Nobody is always the first after the bare step.
                let at = (turn + round as usize) % WATCHES.len();
                let block = block(bench, stream, work, (launches, steps), telemetries[at])?;
                if round > 0 {
                    told[at].push(block);
                }
            }
        }
        for ((name, _), blocks) in WATCHES.iter().zip(&told) {
            row(launches, name, blocks, &told[0]).into_iter().for_each(|cells| table.row(cells));
        }
    }
    Ok(())
}

/// What the steps of a block took.
#[derive(Clone, Debug, Default)]
struct Block {
    /// Mean of a step, ns.
    host_ns: f64,
    gpu_ns: f64,
    /// Of each step.
    hosts_ns: Vec<f64>,
    dropped: u64,
}

fn block(
    bench: &Bench,
    stream: Stream,
    work: Work,
    (launches, steps): (usize, usize),
    telemetry: Option<&'static Telemetry>,
) -> Result<Block, Failure> {
    let gpu = &bench.gpu;
    let recorder = telemetry
        .map(|telemetry| rig::recorder(gpu, telemetry, RecorderConfig::default()))
        .transpose()?;
    let named = recorder.as_ref().map(|recorder| (recorder, recorder.graph("graph")));
    let [from, to] = [gpu.event()?, gpu.event()?];
    let mut block = Block::default();
    for _ in 0..WARM {
        rig::step(gpu, stream, work, None)?;
    }
    gpu.cuda.sync(stream)?;
    for _ in 0..steps {
        if let Some(recorder) = &recorder {
            rig::make_room(recorder, launches);
        }
        let took = rig::between(gpu, stream, [from, to], || {
            let began = Instant::now();
            rig::step(gpu, stream, work, named)?;
            Ok(began.elapsed().as_nanos() as f64)
        })?;
        gpu.cuda.sync(stream)?;
        block.host_ns += took / steps as f64;
        block.gpu_ns += gpu.elapsed(from, to)? / steps as f64;
        block.hosts_ns.push(took);
    }
    if let Some(recorder) = recorder {
        block.dropped = recorder.kernel_ledger().dropped + recorder.lane_ledger().dropped;
        recorder.close();
    }
    Ok(block)
}

/// The row of one kind of recorder; `bare` are the blocks of the same rounds
/// without one.
fn row(launches: usize, name: &str, blocks: &[Block], bare: &[Block]) -> Option<Value> {
    let all = |time: fn(&Block) -> f64| summary(blocks.iter().map(time).collect());
    let ratios = |time: fn(&Block) -> f64| {
        let pairs = blocks.iter().zip(bare);
        summary(pairs.map(|(ours, none)| time(ours) / time(none)).collect())
    };
    let (host, gpu) = (all(|block| block.host_ns)?, all(|block| block.gpu_ns)?);
    let host_ratio = ratios(|block| block.host_ns)?;
    let gpu_ratio = ratios(|block| block.gpu_ns)?;
    let each = summary(blocks.iter().flat_map(|block| block.hosts_ns.clone()).collect())?;
    Some(json!([
        launches,
        name,
        host.count,
        figure(host.median / 1e3, 1),
        figure(host_ratio.median, 3),
        figure(host_ratio.least, 3),
        figure(host_ratio.most, 3),
        figure(gpu.median / 1e3, 1),
        figure(gpu_ratio.median, 3),
        figure(each.median / 1e3, 1),
        figure(each.p99 / 1e3, 1),
        blocks.iter().map(|block| block.dropped).sum::<u64>(),
    ]))
}

#[cfg(test)]
mod tests {
    use super::{Block, row};
    use serde_json::json;

    fn block(host_ns: f64, gpu_ns: f64) -> Block {
        Block { host_ns, gpu_ns, hosts_ns: vec![host_ns, 3.0 * host_ns], dropped: 1 }
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let bare = [block(1e6, 2e6), block(2e6, 2e6), block(4e6, 2e6)];
        let ours = [block(2e6, 2e6), block(2e6, 3e6), block(6e6, 2e6)];
        // The last two times are of the six steps of 2, 2, 6, 6, 6 and 18 ms.
        let cells = json!([50, "Off", 3, 2e3, 1.5, 1.0, 2.0, 2e3, 1.0, 6e3, 18e3, 3]);
        assert_eq!(row(50, "Off", &ours, &bare), Some(cells));
        assert_eq!(row(50, "Off", &[], &[]), None);
    }
}
