// SPDX-License-Identifier: MIT OR Apache-2.0
//! What criterion measured, read from the files that it leaves: one
//! `new/benchmark.json` and `new/estimates.json` for each benchmark.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::error::{Context, Error, Result};

/// A benchmark: group, parameter and what was measured.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id {
    pub(super) group: String,
    pub(super) parameter: String,
    pub(super) function: String,
}

/// Median time in nanoseconds of each benchmark.
pub(super) type Medians = BTreeMap<Id, f64>;

/// Reads everything below `folder`.
pub(super) fn read(folder: &Path) -> Result<Medians> {
    let mut medians = Medians::new();
    walk(folder, &mut medians)?;
    Ok(medians)
}

fn walk(folder: &Path, medians: &mut Medians) -> Result<()> {
    let what = || format!("read {}", folder.display());
    for entry in fs::read_dir(folder).context(what)? {
        let path = entry.context(what)?.path();
        if path.is_dir() {
            walk(&path, medians)?;
        }
    }
    if folder.ends_with("new") {
        let about = json(folder.join("benchmark.json"))?;
        let estimates = json(folder.join("estimates.json"))?;
        let text = |name: &str| about[name].as_str().unwrap_or_default().to_owned();
        let median = estimates["median"]["point_estimate"].as_f64();
        let median =
            median.ok_or_else(|| Error::Bench(format!("no median in {}", folder.display())))?;
        let id = Id {
            group: text("group_id"),
            parameter: text("value_str"),
            function: text("function_id"),
        };
        medians.insert(id, median);
    }
    Ok(())
}

fn json(path: PathBuf) -> Result<Value> {
    let text = fs::read_to_string(&path).context(|| format!("read {}", path.display()))?;
    serde_json::from_str(&text)
        .map_err(|problem| Error::Bench(format!("{}: {problem}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_medians_by_group_parameter_and_function() {
        let tree = tempfile::tempdir().expect("a folder");
        for (function, median) in [("metrale", 1.5), ("naive", 3.0)] {
            let new = tree.path().join("g").join(function).join("4 slots/new");
            fs::create_dir_all(&new).expect("folders");
            let about =
                format!(r#"{{"group_id":"g","function_id":"{function}","value_str":"4 slots"}}"#);
            fs::write(new.join("benchmark.json"), about).expect("a file");
            let median = format!(r#"{{"median":{{"point_estimate":{median}}}}}"#);
            fs::write(new.join("estimates.json"), median).expect("a file");
        }
        let medians = read(tree.path()).expect("both");
        let id = |function: &str| Id {
            group: "g".into(),
            parameter: "4 slots".into(),
            function: function.into(),
        };
        let expected = [(id("metrale"), 1.5), (id("naive"), 3.0)];
        assert_eq!(medians, Medians::from(expected));
        fs::write(tree.path().join("g/naive/4 slots/new/estimates.json"), "{}").expect("a file");
        let error = read(tree.path()).expect_err("no median").to_string();
        assert!(error.contains("no median in"), "{error}");
    }
}
