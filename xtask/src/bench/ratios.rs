// SPDX-License-Identifier: MIT OR Apache-2.0
//! The short form of every criterion group, and ratios between what it ran side
//! by side. The ratios that have a goal are measured in several rounds, ours and
//! the other in turn, and the median is told: other work on the machine disturbs
//! both sides of a round alike.

use std::{ffi::OsStr, fs, path::Path};

use xshell::cmd;

use super::{
    PACKAGE, folder,
    results::{Id, Medians, read},
};
use crate::{
    cargo,
    error::{Context, Error, Result},
};

const OURS: &str = "metrale";
const NAIVE: &str = "naive";

/// A ratio that has a goal.
struct Reach {
    group: &'static str,
    parameter: &'static str,
    what: &'static str,
    /// What ours is held against: the group and the function.
    other: (&'static str, &'static str),
    goal: f64,
}

const ONE: &str = "1 threads";

const fn reach(
    what: &'static str,
    (group, parameter): (&'static str, &'static str),
    other: (&'static str, &'static str),
    goal: f64,
) -> Reach {
    Reach { group, parameter, what, other, goal }
}

#[rustfmt::skip]
const REACH: &[Reach] = &[
    reach("begin and end", ("begin_end", "4096 slots, 1 threads"), ("begin_end", NAIVE), 1.7),
    reach("harvest, a landed span", ("harvest_landed", "4096 of 4096 slots"), ("harvest_landed", NAIVE), 1.0),
    reach("harvest, idle ring of 4,096 slots", ("harvest_idle", "4096 slots"), ("harvest_idle", NAIVE), 0.01),
    reach("harvest, 1,000 pending spans of one stream", ("harvest_pending", "1000 of 4096 slots, 1 streams"), ("harvest_pending", NAIVE), 1.3),
    reach("observe, to three read-modify-writes", ("observe", ONE), ("observe", NAIVE), 0.4),
    reach("observe, to prometheus-client classic", ("observe", ONE), ("observe", "prometheus-client classic"), 0.4),
    reach("observe, to prometheus-client native", ("observe", ONE), ("observe", "prometheus-client native"), 0.3),
    reach("table hit at half load, to papaya", ("table_hit", ONE), ("table_hit", "papaya"), 0.4),
    reach("table miss when full, to a hit", ("table_miss", ONE), ("table_hit", OURS), 10.0),
];

/// Rounds of the ratios with a goal; odd, so that one is the median.
const ROUNDS: usize = 7;

/// Runs every group once and the ratios with a goal [`ROUNDS`] times, or only
/// the benchmarks that the criterion filter selects.
pub(super) fn run(filter: Option<&OsStr>) -> Result<()> {
    let home = folder()?.join("criterion");
    println!("measuring; this takes a minute or two");
    let all = measure(&home, &[], filter)?;
    println!("\n{}", table(&all));
    if filter.is_some() {
        return Ok(());
    }
    let ids = REACH.iter().map(|reach| format!("{}/.*/{}", reach.group, reach.parameter));
    let filter = format!("^({})$", ids.collect::<Vec<_>>().join("|"));
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let which = ["--bench", "ring", "--bench", "instruments"];
        rounds.push(measure(&home, &which, Some(filter.as_ref()))?);
    }
    println!("\n{}", reach_table(&rounds));
    Ok(())
}

/// Runs the benchmarks that `filter` selects, and forgets those of before.
fn measure(home: &Path, which: &[&str], filter: Option<&OsStr>) -> Result<Medians> {
    if home.exists() {
        fs::remove_dir_all(home).context(|| format!("clear {}", home.display()))?;
    }
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
    let out = run.env("CRITERION_HOME", home).quiet().ignore_status().output()?;
    if !out.status.success() {
        eprint!("{}", String::from_utf8_lossy(&out.stderr));
        return Err(Error::Bench(format!("the benchmarks ended with {}", out.status)));
    }
    read(home)
}

fn table(medians: &Medians) -> String {
    let mut lines =
        vec![format!("{:<20}{:<34}{:<26}{:>12}{:>8}", "group", "case", "what", "ns", "ours /")];
    for (id, ns) in medians {
        let other = |function: &str| {
            let function = function.to_owned();
            medians.get(&Id { function, ..id.clone() })
        };
        let ratio = match (other(OURS), other("bare")) {
            _ if id.function == OURS || id.function == "bare" => String::new(),
            (Some(ours), _) => format!("{:.2}", ours / ns),
            (None, Some(bare)) => format!("{:.2}", ns / bare),
            (None, None) => String::new(),
        };
        lines.push(format!(
            "{:<20}{:<34}{:<26}{ns:>12.1}{ratio:>8}",
            id.group, id.parameter, id.function
        ));
    }
    lines.push(
        "The last column: our time to this one's; of a step, its time to the bare one's.".into(),
    );
    lines.join("\n")
}

fn reach_table(rounds: &[Medians]) -> String {
    let mut lines = vec![format!(
        "{:<44}{:>8}{:>16}{:>8}",
        "ours to the other", "median", "least..most", "goal"
    )];
    for reach in REACH {
        let mut ratios: Vec<f64> = rounds.iter().filter_map(|round| ratio(round, reach)).collect();
        ratios.sort_by(f64::total_cmp);
        let (Some(least), Some(most)) = (ratios.first(), ratios.last()) else {
            continue;
        };
        let median = ratios[ratios.len() / 2];
        let spread = format!("{least:.3}..{most:.3}");
        let missed = if median > reach.goal { "  missed" } else { "" };
        lines.push(format!("{:<44}{median:>8.3}{spread:>16}{:>8}{missed}", reach.what, reach.goal));
    }
    lines.join("\n")
}

fn ratio(round: &Medians, reach: &Reach) -> Option<f64> {
    let of = |(group, function): (&str, &str)| {
        round.get(&Id {
            group: group.to_owned(),
            parameter: reach.parameter.to_owned(),
            function: function.to_owned(),
        })
    };
    Some(of((reach.group, OURS))? / of(reach.other)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(reach: &Reach, ours: f64, naive: f64) -> Medians {
        let id = |function: &str| Id {
            group: reach.group.to_owned(),
            parameter: reach.parameter.to_owned(),
            function: function.to_owned(),
        };
        Medians::from([(id(OURS), ours), (id(NAIVE), naive)])
    }

    #[test]
    fn the_median_of_the_rounds_is_held_against_the_goal() {
        let rounds = [(16.0, 10.0), (90.0, 10.0), (30.0, 20.0)]
            .map(|(ours, naive)| round(&REACH[0], ours, naive));
        let table = reach_table(&rounds);
        let line = table.lines().nth(1).expect("a row");
        assert!(line.contains("1.600") && line.contains("1.500..9.000"), "{table}");
        assert!(!line.contains("missed"), "{table}");
        let table = reach_table(&rounds[1..2]);
        assert!(table.contains("missed"), "{table}");
    }

    #[test]
    fn each_row_has_our_time_to_its_own() {
        let table = table(&round(&REACH[0], 5.0, 10.0));
        let line = table.lines().find(|line| line.contains(NAIVE)).expect("a row");
        assert!(line.ends_with("0.50"), "{table}");
    }
}
