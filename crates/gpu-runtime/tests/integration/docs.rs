// SPDX-License-Identifier: MIT OR Apache-2.0
//! The documents keep their word: code in them is code of the example, which
//! runs, and tests that they name exist.

use metrale_gpu_sim::child::over_simulator;
use metrale_telemetry::kernel::LANE_DECODE;
use std::path::{Path, PathBuf};

#[path = "../../examples/graphs.rs"]
mod graphs;
#[path = "../../examples/own_lanes.rs"]
mod own_lanes;
#[path = "../../examples/readme.rs"]
mod readme;
#[path = "../../examples/serve.rs"]
mod serve;
#[path = "../../examples/serve_async.rs"]
mod serve_async;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn document(name: &str) -> String {
    let path = root().join("docs").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The lines without indentation and without blank ones.
fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}

/// The fenced blocks of that language.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<Vec<&'a str>> {
    let fence = format!("```{language}\n");
    let starts = text.match_indices(&fence);
    starts
        .map(|(at, fence)| {
            let block = &text[at + fence.len()..];
            lines(&block[..block.find("```").expect("a block ends")])
        })
        .collect()
}

/// The words between backticks.
fn code_words(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn code_in_the_documents_is_the_examples() {
    let mut examples = lines(include_str!("../../examples/serve.rs"));
    examples.extend(lines(include_str!("../../examples/serve_async.rs")));
    let graphs = lines(include_str!("../../examples/graphs.rs"));
    check(&document("graphs.md"), &graphs, 2);
    examples.extend(lines(include_str!("../../examples/own_lanes.rs")));
    check(&document("integration.md"), &examples, 9);
    let readme = std::fs::read_to_string(root().join("README.md")).expect("a README");
    check(&readme, &lines(include_str!("../../examples/readme.rs")), 1);
}

fn check(text: &str, example: &[&str], least: usize) {
    let blocks = blocks(text, "rust");
    assert!(blocks.len() >= least, "{}", blocks.len());
    for block in blocks {
        // A line `…` stands for what is left out.
        for part in block.split(|line| *line == "…").filter(|part| !part.is_empty()) {
            let found = squeezed(example).contains(&squeezed(part));
            assert!(found, "in no example:\n{}", part.join("\n"));
        }
    }
}

/// A page's lines are shorter than code's: the layout may differ.
fn squeezed(lines: &[&str]) -> String {
    let text: String = lines.concat().split_whitespace().collect();
    text.replace(",}", "}").replace(",)", ")")
}

#[test]
fn every_test_that_the_rules_name_exists() {
    let text = document("cuda-rules.md");
    let named: Vec<_> = code_words(&text)
        .filter_map(|word| word.split_once("::"))
        .filter(|(module, _)| module.chars().all(|c| c.is_ascii_lowercase()))
        .collect();
    assert!(named.len() >= 30, "{}", named.len());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    for (module, test) in named {
        let alone = folder.join(module).with_extension("rs");
        let file = if alone.exists() {
            alone
        } else {
            folder.join("integration").join(module).with_extension("rs")
        };
        let source = std::fs::read_to_string(&file)
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let is_test = source.contains(&format!("#[test]\nfn {test}() {{"));
        assert!(is_test, "no test {module}::{test}");
    }
}

/// And every test of a rule is named: a new one has to find its promise.
#[test]
fn every_rule_of_the_library_has_its_number() {
    let text = document("cuda-rules.md");
    let numbers: Vec<usize> = text
        .lines()
        .filter_map(|line| line.strip_prefix("### ")?.split_once('.')?.0.parse().ok())
        .collect();
    assert_eq!(numbers, (1..=numbers.len()).collect::<Vec<_>>());
    for section in text.split("### ").skip(1) {
        let title = section.lines().next().unwrap_or_default();
        assert!(code_words(section).any(|word| word.contains("::")), "{title}: proven by what?");
    }
}

#[test]
fn the_example_serves_on_the_simulated_driver() {
    over_simulator("docs::the_example_serves_on_the_simulated_driver", || {
        // Two lanes a step; on six of 384 steps up to two prompts, a graph, and a
        // region with a launch.
        let ledgers = serve::serve(384).unwrap();
        let [ledger] = ledgers[..] else {
            panic!("the simulator has one GPU");
        };
        assert!(ledger.closes(), "{ledger:?}");
        assert_eq!(ledger.landed, ledger.attempts, "{ledger:?}");
        assert!((2 * 384 + 6 * 3..=2 * 384 + 6 * 5).contains(&ledger.landed), "{ledger:?}");
        serve::main().unwrap();
        let lane = metrale_telemetry::global().instruments().lane[LANE_DECODE].snapshot();
        assert_eq!(lane.count(), 100, "what the explicit harvests landed");
    });
}

#[test]
fn the_readmes_program_lands_all_of_its_spans() {
    over_simulator("docs::the_readmes_program_lands_all_of_its_spans", || {
        readme::main().unwrap();
        let instruments = metrale_telemetry::global().instruments();
        assert_eq!(instruments.lane[LANE_DECODE].count(), 1_000);
        let samples: Vec<u64> = instruments.kernels().iter().map(|row| row.samples).collect();
        assert_eq!(samples, [16], "one step in 64");
    });
}

#[test]
fn async_steps_are_served_by_several_threads() {
    over_simulator("docs::async_steps_are_served_by_several_threads", || {
        serve_async::main().unwrap();
        let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build();
        let ledger = threads.unwrap().block_on(serve_async::serve(8, 40)).unwrap();
        // 320 lanes, and three launches on one step in four.
        assert!(ledger.closes() && ledger.landed == 320 + 240, "{ledger:?}");
    });
}

#[test]
fn the_kernels_of_a_cudarc_graph_have_rows() {
    over_simulator("docs::the_kernels_of_a_cudarc_graph_have_rows", || {
        graphs::main().unwrap();
        let snapshot = graphs::serve(400).unwrap();
        let [graph] = &snapshot.graphs[..] else {
            panic!("{:?}", snapshot.graphs);
        };
        let replays = snapshot.recorders[0].replays;
        assert!(replays.read > 20 && replays.by_turn > 20, "{replays:?}");
        let row = |row: &metrale_telemetry::snapshot::GraphRow| {
            let name = row.name.clone().unwrap();
            (name, row.nodes, row.sampled_ns / row.samples)
        };
        let rows: Vec<_> = graph.figures.rows.iter().map(row).collect();
        let expected = [("_Z3mlpy", 12, 21_000), ("_Z9attentiony", 12, 9_000)];
        let expected = expected.map(|(name, nodes, ns)| (name.to_owned(), nodes, ns));
        assert_eq!(rows, expected);
    });
}

/// Name and GPU time of the lanes that have any.
fn lane_times(snapshot: &metrale_telemetry::Snapshot) -> Vec<(&str, u64)> {
    let lanes = snapshot.lanes.iter();
    let lanes = lanes.filter(|lane| lane.gpu.count() > 0);
    lanes.map(|lane| (&*lane.lane, lane.gpu.sum_ns())).collect()
}

#[test]
fn a_server_names_the_lanes_that_its_steps_have() {
    over_simulator("docs::a_server_names_the_lanes_that_its_steps_have", || {
        own_lanes::main().unwrap();
        // What was launched takes so long in each; an honest span may read more.
        let sglang = own_lanes::sglang().unwrap();
        let times = lane_times(&sglang);
        let names: Vec<_> = times.iter().map(|(name, _)| *name).collect();
        let modes = "decode extend mixed idle target_verify draft_extend draft_extend_v2 prebuilt \
                     split_prefill";
        assert_eq!(names, modes.split_whitespace().collect::<Vec<_>>());
        let numbers = (1..=8).chain([9]).map(|number| number * 1_000);
        let sum: u64 = times.iter().map(|(_, ns)| ns).sum();
        assert_eq!(sum, numbers.sum::<u64>());
        let slowest = &sglang.slowest_steps[0];
        assert_eq!((&*slowest.lanes[0].lane, slowest.gpu_ns), ("decode", 9_000));
        assert_eq!(slowest.shape.map(|shape| shape.decode_tokens), Some(9));
        let mixed = sglang.lanes.iter().find(|lane| lane.lane == "mixed").unwrap();
        let shapes: Vec<_> = mixed.shapes.iter().map(|times| (times.mixed, times.tokens)).collect();
        assert_eq!(shapes, [(true, 202)]);

        let vllm = own_lanes::vllm().unwrap();
        let each = (1..=100u64).sum::<u64>();
        let expected =
            [("preprocess", 2_000), ("forward", 900_000), ("sample", 30_000), ("draft", 80_000)];
        assert_eq!(lane_times(&vllm), expected.map(|(name, ns)| (name, ns * 100 + each)));
        let slowest = &vllm.slowest_steps[0];
        assert_eq!((slowest.number, slowest.lanes.len()), (99, 4));
    });
}
