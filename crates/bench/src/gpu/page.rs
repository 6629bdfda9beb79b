// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page of numbers: one file of Markdown and one of JSON, both rewritten
//! whenever something was measured.
//!
//! Invariant: each file holds what it held before or all of the new text, so a
//! run that is cut keeps what it had.

use super::item::{Item, Table};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Changes whenever a reader of the JSON would have to.
pub(crate) const SCHEMA: u32 = 1;

/// The files in the folder of the results.
pub(crate) const FILES: [&str; 2] = ["gpu-bench.md", "gpu-bench.json"];

/// How far a section is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Not begun, or not ended: the run was cut.
    Unfinished,
    Measured,
    Failed(String),
    Skipped(String),
}

/// A section as measured so far.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    /// How to read it.
    pub(crate) about: &'static str,
    pub(crate) state: State,
    pub(crate) took: Duration,
    notes: Vec<String>,
    tables: Vec<Table>,
}

impl Section {
    pub(crate) fn new(id: &'static str, title: &'static str, about: &'static str) -> Self {
        Self {
            id,
            title,
            about,
            state: State::Unfinished,
            took: Duration::ZERO,
            notes: Vec::new(),
            tables: Vec::new(),
        }
    }

    /// Takes in a note or a table; whether it was one.
    pub(crate) fn take(&mut self, item: Item) -> bool {
        match item {
            Item::Note(note) => self.notes.push(note),
            Item::Table(table) => {
                match self.tables.iter_mut().find(|known| known.key == table.key) {
                    Some(known) => *known = table,
                    None => self.tables.push(table),
                }
            }
            _ => return false,
        }
        true
    }

    fn markdown(&self) -> String {
        let mut text = format!("## {}\n\n{}\n\n", self.title, self.about);
        let state = match &self.state {
            State::Measured => None,
            State::Unfinished => {
                Some("**Not finished**: what stands here is what there was.".into())
            }
            State::Failed(why) => Some(format!("**Failed**: {why}")),
            State::Skipped(why) => Some(format!("**Skipped**: {why}")),
        };
        for line in state.iter().chain(&self.notes) {
            let _ = writeln!(text, "{line}\n");
        }
        for table in &self.tables {
            let _ = writeln!(text, "{}", table.markdown());
        }
        text
    }

    fn json(&self) -> Value {
        let (state, why) = match &self.state {
            State::Unfinished => ("unfinished", None),
            State::Measured => ("measured", None),
            State::Failed(why) => ("failed", Some(why)),
            State::Skipped(why) => ("skipped", Some(why)),
        };
        let tables: Vec<Value> = self.tables.iter().map(Table::json).collect();
        json!({
            "id": self.id,
            "title": self.title,
            "state": state,
            "why": why,
            "took_s": (self.took.as_secs_f64() * 10.0).round() / 10.0,
            "notes": self.notes,
            "tables": tables,
        })
    }
}

/// The whole page.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// What the machine says of itself: name and value.
    pub(crate) machine: Vec<(&'static str, String)>,
    pub(crate) is_simulated: bool,
    pub(crate) sections: Vec<Section>,
}

/// How to read the page.
const ABOUT: &str = "\
Figures are of this machine and this driver. Host times are by the host's clock; GPU times are what the \
driver's events say, unless a kernel's own clock is named. `median`, `p99`: of all readings, by nearest \
rank. A ratio of 1.05 is 5 % more than the same without a recorder, measured in turn in one run. Where \
no figure could be had, the cell says why.";

/// Shown above all else where no GPU was there.
const SIMULATED: &str = "\
**Simulated driver.** GPU times are virtual and follow from the simulator's rules: they say nothing of \
any GPU. Host times are real, and those of the simulator.";

impl Page {
    pub(crate) fn markdown(&self) -> String {
        let mut text = String::from("# metrale on a GPU\n\n");
        if self.is_simulated {
            let _ = writeln!(text, "{SIMULATED}\n");
        }
        let _ = writeln!(text, "{ABOUT}\n\n| machine | |\n|---|---|");
        for (name, value) in &self.machine {
            let _ = writeln!(text, "| {name} | {} |", value.replace('|', "\\|"));
        }
        for section in &self.sections {
            let _ = write!(text, "\n{}", section.markdown().trim_end());
            text.push('\n');
        }
        text
    }

    pub(crate) fn json(&self) -> Value {
        let machine: Map<String, Value> =
            self.machine.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        let sections: Vec<Value> = self.sections.iter().map(Section::json).collect();
        json!({
            "schema": SCHEMA,
            "simulated": self.is_simulated,
            "machine": machine,
            "sections": sections,
        })
    }

    /// Writes both files into `folder`.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        let json = serde_json::to_string_pretty(&self.json())?;
        let [page, data] = FILES.map(|name| folder.join(name));
        replace(&page, &self.markdown())?;
        replace(&data, &format!("{json}\n"))
    }
}

/// Puts a whole new file in the place of `path`, by one rename.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut new = path.to_owned().into_os_string();
    new.push(".part");
    let new = PathBuf::from(new);
    std::fs::write(&new, text)?;
    std::fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::{FILES, Page, Section, State, replace};
    use crate::gpu::item::{Cell, Item, Table};

    fn page() -> Page {
        Page {
            machine: vec![("driver", "a|b".to_owned())],
            is_simulated: true,
            sections: vec![
                Section::new("one", "One", "First."),
                Section::new("two", "Two", "Second."),
            ],
        }
    }

    fn table(ns: f64) -> Item {
        let mut table = Table::new("t", "T.", &[("median", "ns")]);
        table.row([Cell::number(ns, 0)]);
        Item::Table(table)
    }

    #[test]
    fn a_later_table_takes_the_place_of_its_earlier_self() {
        let mut page = page();
        assert!(page.sections[0].take(table(1.0)));
        assert!(page.sections[0].take(table(2.0)));
        assert!(!page.sections[0].take(Item::Done));
        let json = page.json();
        assert_eq!(json["sections"][0]["tables"].as_array().map(Vec::len), Some(1));
        assert_eq!(json["sections"][0]["tables"][0]["rows"][0]["median_ns"], 2.0);
        assert_eq!(json["schema"], super::SCHEMA);
    }

    #[test]
    fn a_page_says_of_each_section_how_far_it_is() {
        let mut page = page();
        page.sections[0].state = State::Failed("no such call".into());
        let text = page.markdown();
        assert!(text.contains("## One\n\nFirst.\n\n**Failed**: no such call"));
        assert!(text.contains("## Two\n\nSecond.\n\n**Not finished**"));
        assert!(text.contains("**Simulated driver.**") && text.contains("a\\|b"));
        assert_eq!(page.json()["sections"][0]["why"], "no such call");
    }

    #[test]
    fn both_files_are_replaced_whole_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut page = page();
        page.write(folder.path()).expect("written");
        let old = std::fs::File::open(folder.path().join(FILES[0])).expect("there");
        page.sections[0].state = State::Measured;
        page.write(folder.path()).expect("written again");
        // A reader of the old file still has all of it.
        let old = std::io::read_to_string(old).expect("text");
        assert!(old.contains("## Two") && old.contains("First.\n\n**Not finished**"));
        let new = std::fs::read_to_string(folder.path().join(FILES[0])).expect("text");
        assert_eq!(new, page.markdown());
        let mut names: Vec<_> = std::fs::read_dir(folder.path())
            .expect("listed")
            .map(|entry| entry.expect("entry").file_name().into_string().expect("UTF-8"))
            .collect();
        names.sort();
        assert_eq!(names, [FILES[1], FILES[0]]);
    }

    #[test]
    fn a_file_that_cannot_be_replaced_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("page");
        std::fs::write(&path, "before").expect("written");
        std::fs::create_dir(folder.path().join("page.part")).expect("in the way");
        assert!(replace(&path, "after").is_err());
        assert_eq!(std::fs::read_to_string(&path).expect("text"), "before");
    }
}
