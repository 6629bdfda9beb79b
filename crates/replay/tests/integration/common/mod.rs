// SPDX-License-Identifier: MIT OR Apache-2.0
//! What several tests need: the recorded traces, the sums that another
//! tool made of them, and the simulated driver.

pub(crate) mod bytes;
pub(crate) mod http;
pub(crate) mod program;
pub(crate) mod record;

use std::collections::BTreeMap;
use std::path::PathBuf;

use metrale_replay::plan::{self, Plan, Timing};
use metrale_replay::steps::Patterns;
use metrale_replay::trace::{self, Limits, Trace};

/// Launches and nanoseconds of each kernel.
pub(crate) type Sums = BTreeMap<String, (u64, u64)>;

/// A trace that was recorded on a GPU, with the sums that another tool made of it.
pub(crate) struct Recorded {
    folder: PathBuf,
    pub(crate) name: &'static str,
}

/// The recorded traces; none, with a message, where they are absent.
pub(crate) fn recorded() -> Vec<Recorded> {
    let names = [
        "vllm-decode-graph",
        "vllm-prefill-decode-piecewise",
        "sglang-decode-graph",
        "h100-qwen-eager",
        "ddp-five-steps",
    ];
    let of = |folder: PathBuf| names.map(|name| Recorded { folder: folder.clone(), name });
    folder().map(of).into_iter().flatten().collect()
}

/// The folder of the traces, see CONTRIBUTING.md.
fn folder() -> Option<PathBuf> {
    let named = std::env::var_os("METRALE_TRACES");
    if named.as_deref().is_some_and(|named| named == "skip") {
        println!("skipped: METRALE_TRACES=skip");
        return None;
    }
    let must = named.is_some() || std::env::var_os("CI").is_some_and(|ci| ci == "true");
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = root.join(named.unwrap_or_else(|| "../shared/traces".into()));
    if folder.is_dir() {
        return Some(folder);
    }
    assert!(!must, "{} is absent", folder.display());
    println!("skipped: {} is absent", folder.display());
    None
}

impl Recorded {
    pub(crate) fn path(&self) -> String {
        let path = self.folder.join(format!("{}.json.gz", self.name));
        path.into_os_string().into_string().expect("UTF-8")
    }

    pub(crate) fn trace(&self) -> Trace {
        let path = self.path();
        trace::read(path.as_ref(), &Limits::default(), &mut |_, _| {}).expect("a good trace")
    }

    /// The rows of the other tool's table `X.what.csv`, without its header.
    pub(crate) fn table(&self, what: &str) -> Vec<Vec<String>> {
        let path = self.folder.join(format!("{}.{what}.csv", self.name));
        let rows = csv::Reader::from_path(path).expect("a table").into_deserialize();
        rows.map(|row| row.expect("a row")).collect()
    }

    /// Every kernel, by the other tool.
    pub(crate) fn kernels(&self) -> Sums {
        self.sums("kernels", [8, 2, 1])
    }

    /// Those that no graph launched.
    pub(crate) fn eager(&self) -> Sums {
        self.sums("eager", [2, 0, 1])
    }

    fn sums(&self, what: &str, [name, launches, ns]: [usize; 3]) -> Sums {
        let sum = |row: Vec<String>| {
            let number = |column: usize| row[column].parse().expect("a number");
            (row[name].clone(), (number(launches), number(ns)))
        };
        self.table(what).into_iter().map(sum).collect()
    }
}

pub(crate) fn planned(trace: &Trace, timing: Timing) -> Plan {
    plan::build(trace, &Patterns::default(), timing)
}

/// What an in-order device makes of a plan's kernels that no graph launches.
pub(crate) fn modelled(plan: &Plan) -> Sums {
    let outcome = metrale_replay::model::run(plan);
    let sums = plan.kernels.iter().zip(&outcome.kernels).filter(|(_, sum)| sum.launches > 0);
    sums.map(|(name, sum)| (name.clone(), (sum.launches, sum.total_ns))).collect()
}

/// # Panics
/// Where nobody says where the simulated driver is.
pub(crate) fn needs_simulator() {
    assert!(
        std::env::var_os("METRALE_SIM_DIR").is_some(),
        "METRALE_SIM_DIR is not set, and this test needs the simulated driver: run `cargo xtask \
         test`, or set it to the folder that `cargo xtask sim` prints"
    );
}
