// SPDX-License-Identifier: MIT OR Apache-2.0
//! The short form of every criterion group, and ratios between what it ran side
//! by side. The ratios that have a goal are measured in several rounds, ours and
//! the other in turn, and the median is told: other work on the machine disturbs
//! both sides of a round alike.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use xshell::cmd;

use super::PACKAGE;
use crate::{
    cargo,
    error::{Context, Error, Result, failed},
};

const OURS: &str = "metrale";
const NAIVE: &str = "naive";
const BARE: &str = "bare";

const ONE: &str = "1 threads";

/// A ratio that has a goal: what it is called, group and case, the group and the
/// function that ours is held against, and the most that it should be.
type Reach = (&'static str, [&'static str; 2], [&'static str; 2], f64);

#[rustfmt::skip]
const REACH: [Reach; 9] = [
    ("begin and end", ["begin_end", "4096 slots, 1 threads"], ["begin_end", NAIVE], 1.7),
    ("harvest, a landed span", ["harvest_landed", "4096 of 4096 slots"], ["harvest_landed", NAIVE], 1.0),
    ("harvest, idle ring of 4,096 slots", ["harvest_idle", "4096 slots"], ["harvest_idle", NAIVE], 0.01),
    ("harvest, 1,000 pending spans of one stream", ["harvest_pending", "1000 of 4096 slots, 1 streams"], ["harvest_pending", NAIVE], 1.3),
    ("observe, to three read-modify-writes", ["observe", ONE], ["observe", NAIVE], 0.4),
    ("observe, to prometheus-client classic", ["observe", ONE], ["observe", "prometheus-client classic"], 0.4),
    ("observe, to prometheus-client native", ["observe", ONE], ["observe", "prometheus-client native"], 0.3),
    ("table hit at half load, to papaya", ["table_hit", ONE], ["table_hit", "papaya"], 0.4),
    ("table miss when full, to a hit", ["table_miss", ONE], ["table_hit", OURS], 10.0),
];

/// Rounds of the ratios with a goal; odd, so that one is the median.
const ROUNDS: usize = 7;

/// Runs every group once and the ratios with a goal [`ROUNDS`] times, or only
/// the benchmarks that the criterion filter selects.
pub(super) fn run(filter: Option<&OsStr>) -> Result<()> {
    println!("measuring; this takes a minute or two");
    println!("\n{}", table(&measure(&[], filter)?));
    if filter.is_some() {
        return Ok(());
    }
    let ids = REACH.map(|(_, [group, case], _, _)| format!("{group}/.*/{case}"));
    let filter = format!("^({})$", ids.join("|"));
    let which = ["--bench", "ring", "--bench", "instruments"];
    let round = |_| measure(&which, Some(filter.as_ref()));
    let rounds = (0..ROUNDS).map(round).collect::<Result<Vec<_>>>()?;
    println!("\n{}", reach_table(&rounds));
    Ok(())
}

/// Median time in nanoseconds by group, case and function.
#[derive(Debug, Default, PartialEq)]
struct Medians(BTreeMap<[String; 3], f64>);

impl Medians {
    fn get(&self, group: &str, case: &str, function: &str) -> Option<f64> {
        self.0.get(&[group, case, function].map(str::to_owned)).copied()
    }

    /// Reads what criterion left below a folder: a `new/benchmark.json` and a
    /// `new/estimates.json` for each benchmark.
    fn read(&mut self, folder: &Path) -> Result<()> {
        let what = || format!("read {}", folder.display());
        for entry in fs::read_dir(folder).context(what)? {
            let path = entry.context(what)?.path();
            if path.is_dir() {
                self.read(&path)?;
            }
        }
        if folder.ends_with("new") {
            let about = json(folder.join("benchmark.json"))?;
            let id = ["group_id", "value_str", "function_id"];
            let id = id.map(|name| about[name].as_str().unwrap_or_default().to_owned());
            let median = json(folder.join("estimates.json"))?["median"]["point_estimate"].as_f64();
            let none = || Error::Failed(format!("no median in {}", folder.display()));
            self.0.insert(id, median.ok_or_else(none)?);
        }
        Ok(())
    }
}

fn json(path: PathBuf) -> Result<Value> {
    let text = fs::read_to_string(&path).context(|| format!("read {}", path.display()))?;
    serde_json::from_str(&text)
        .map_err(|problem| Error::Failed(format!("{}: {problem}", path.display())))
}

/// Runs the benchmarks that `filter` selects.
fn measure(which: &[&str], filter: Option<&OsStr>) -> Result<Medians> {
    let home = tempfile::tempdir().context(|| "make a temporary folder".to_owned())?;
    let sh = cargo::shell()?;
    let short = [
        "--quiet",
        "--noplot",
        "--sample-size=10",
        "--nresamples=1000",
        "--warm-up-time=0.1",
        "--measurement-time=0.2",
    ];
    // Criterion tells its progress on stderr: worth reading only where it fails.
    let run =
        cmd!(sh, "cargo bench --quiet --package {PACKAGE} {which...} -- {short...} {filter...}");
    let out = run.env("CRITERION_HOME", home.path()).quiet().ignore_status().output()?;
    if !out.status.success() {
        eprint!("{}", String::from_utf8_lossy(&out.stderr));
        return failed(format!("the benchmarks ended with {}", out.status));
    }
    let mut medians = Medians::default();
    medians.read(home.path())?;
    Ok(medians)
}

fn table(medians: &Medians) -> String {
    let mut text =
        format!("{:<20}{:<34}{:<26}{:>12}{:>8}\n", "group", "case", "what", "ns", "ours /");
    for ([group, case, function], ns) in &medians.0 {
        let other = |function| medians.get(group, case, function);
        let ratio = match (other(OURS), other(BARE)) {
            _ if [OURS, BARE].contains(&function.as_str()) => String::new(),
            (Some(ours), _) => format!("{:.2}", ours / ns),
            (None, Some(bare)) => format!("{:.2}", ns / bare),
            (None, None) => String::new(),
        };
        text += &format!("{group:<20}{case:<34}{function:<26}{ns:>12.1}{ratio:>8}\n");
    }
    text + "The last column: our time to this one's; of a step, its time to the bare one's."
}

fn reach_table(rounds: &[Medians]) -> String {
    let mut lines = vec![format!(
        "{:<44}{:>8}{:>16}{:>8}",
        "ours to the other", "median", "least..most", "goal"
    )];
    for (what, [group, case], [beside, other], goal) in REACH {
        let ratio =
            |round: &Medians| Some(round.get(group, case, OURS)? / round.get(beside, case, other)?);
        let mut ratios: Vec<f64> = rounds.iter().filter_map(ratio).collect();
        ratios.sort_by(f64::total_cmp);
        let (Some(least), Some(most)) = (ratios.first(), ratios.last()) else {
            continue;
        };
        let median = ratios[ratios.len() / 2];
        let spread = format!("{least:.3}..{most:.3}");
        let missed = if median > goal { "  missed" } else { "" };
        lines.push(format!("{what:<44}{median:>8.3}{spread:>16}{goal:>8}{missed}"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASE: [&str; 2] = REACH[0].1;

    fn round(ours: f64, naive: f64) -> Medians {
        let id = |function| [CASE[0], CASE[1], function].map(str::to_owned);
        Medians(BTreeMap::from([(id(OURS), ours), (id(NAIVE), naive)]))
    }

    #[test]
    fn reads_medians_by_group_case_and_function() {
        let tree = tempfile::tempdir().expect("a folder");
        for (function, median) in [(OURS, 1.5), (NAIVE, 3.0)] {
            let new = tree.path().join("g").join(function).join("4 slots/new");
            fs::create_dir_all(&new).expect("folders");
            let [group, case] = CASE;
            let about = format!(
                r#"{{"group_id":"{group}","function_id":"{function}","value_str":"{case}"}}"#
            );
            fs::write(new.join("benchmark.json"), about).expect("a file");
            let median = format!(r#"{{"median":{{"point_estimate":{median}}}}}"#);
            fs::write(new.join("estimates.json"), median).expect("a file");
        }
        let mut medians = Medians::default();
        medians.read(tree.path()).expect("both");
        assert_eq!(medians, round(1.5, 3.0));
        fs::write(tree.path().join("g/naive/4 slots/new/estimates.json"), "{}").expect("a file");
        let error = medians.read(tree.path()).expect_err("no median").to_string();
        assert!(error.contains("no median in"), "{error}");
    }

    #[test]
    fn the_median_of_the_rounds_is_held_against_the_goal() {
        let rounds = [round(16.0, 10.0), round(90.0, 10.0), round(30.0, 20.0)];
        let table = reach_table(&rounds);
        let line = table.lines().nth(1).expect("a row");
        assert!(line.contains("1.600") && line.contains("1.500..9.000"), "{table}");
        assert!(!line.contains("missed"), "{table}");
        let table = reach_table(&rounds[1..2]);
        assert!(table.contains("missed"), "{table}");
    }

    #[test]
    fn each_row_has_our_time_to_its_own() {
        let table = table(&round(5.0, 10.0));
        let line = table.lines().find(|line| line.contains(NAIVE)).expect("a row");
        assert!(line.ends_with("0.50"), "{table}");
    }
}
