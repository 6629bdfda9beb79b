// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page of numbers: `gpu-bench.json`, and `gpu-bench.md`, which is made of it.
//! The process that measures a section rewrites both with each row.
//!
//! Invariant: each file holds what it held before or all of the new text, so a
//! run that is cut keeps what it had.

use super::run::End;
use super::sections::Section;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::cell::RefCell;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

/// Changes whenever a reader of the JSON would have to.
const SCHEMA: u32 = 2;

/// The files in the folder of the results.
pub(crate) const FILES: [&str; 2] = ["gpu-bench.md", "gpu-bench.json"];

/// The whole page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Page {
    schema: u32,
    simulated: bool,
    /// What the machine says of itself: name and value.
    machine: Vec<(String, String)>,
    pub(crate) sections: Vec<Results>,
}

/// What a section measured so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    id: String,
    title: String,
    about: String,
    #[serde(flatten)]
    pub(crate) state: State,
    pub(crate) took_s: f64,
    /// What was about to be tried, for the case that nothing came after.
    pub(crate) trying: Option<String>,
    notes: Vec<String>,
    tables: Vec<Table>,
}

/// How far a section is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "state", content = "why")]
pub(crate) enum State {
    /// Not begun, or not ended: the run was cut.
    Unfinished,
    Measured,
    Failed(String),
    Skipped(String),
}

/// A table. A column of figures has its unit in its name, if it has one; a cell
/// is a number, or words where there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Table {
    key: String,
    title: String,
    columns: Vec<String>,
    /// Arrays, as long as the columns.
    rows: Vec<Value>,
}

/// The page as the process of one section has it: written with every change.
#[derive(Debug)]
pub(crate) struct Keeper {
    folder: PathBuf,
    page: RefCell<Page>,
    /// The section's place on it.
    at: usize,
}

/// A table that is being filled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<'k> {
    keeper: &'k Keeper,
    at: usize,
}

impl Keeper {
    /// The page in `folder`, to fill in the section of that name.
    pub(crate) fn new(folder: &Path, id: &str) -> io::Result<Self> {
        let page = Page::read(folder)?;
        let at = page.sections.iter().position(|section| section.id == id);
        let at = at.ok_or_else(|| io::Error::other(format!("no section {id} on the page")))?;
        Ok(Self { folder: folder.to_owned(), page: RefCell::new(page), at })
    }

    fn change(&self, change: impl FnOnce(&mut Results)) {
        let mut page = self.page.borrow_mut();
        change(&mut page.sections[self.at]);
        page.keep(&self.folder);
    }

    pub(crate) fn note(&self, note: impl Into<String>) {
        self.change(|section| section.notes.push(note.into()));
    }

    pub(crate) fn trying(&self, what: impl Into<String>) {
        self.change(|section| section.trying = Some(what.into()));
    }

    pub(crate) fn end(&self, state: State) {
        self.change(|section| section.state = state);
    }

    /// An empty table: its name in the JSON, what stands above it, its columns.
    pub(crate) fn table(&self, key: &str, title: &str, columns: &[&str]) -> Rows<'_> {
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        let table = Table { key: key.into(), title: title.into(), columns, rows: Vec::new() };
        let at = self.page.borrow().sections[self.at].tables.len();
        self.change(|section| section.tables.push(table));
        Rows { keeper: self, at }
    }
}

impl Rows<'_> {
    /// Adds a row: an array of cells.
    pub(crate) fn row(&self, cells: Value) {
        self.keeper.change(|section| section.tables[self.at].rows.push(cells));
    }
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
    /// A page on which nothing is measured yet.
    pub(crate) fn new(
        simulated: bool,
        machine: Vec<(String, String)>,
        sections: &[&Section],
    ) -> Self {
        let unfinished = |section: &&Section| Results {
            id: section.id.to_owned(),
            title: section.title.to_owned(),
            about: section.about.to_owned(),
            state: State::Unfinished,
            took_s: 0.0,
            trying: None,
            notes: Vec::new(),
            tables: Vec::new(),
        };
        let sections = sections.iter().map(unfinished).collect();
        Self { schema: SCHEMA, simulated, machine, sections }
    }

    /// The page that stands in `folder`.
    pub(crate) fn read(folder: &Path) -> io::Result<Self> {
        Ok(serde_json::from_str(&std::fs::read_to_string(folder.join(FILES[1]))?)?)
    }

    /// Writes both files into `folder`.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        let json = serde_json::to_string_pretty(self)?;
        replace(&folder.join(FILES[0]), &self.markdown())?;
        replace(&folder.join(FILES[1]), &format!("{json}\n"))
    }

    /// Writes it; a page that cannot be written now may be the next time.
    pub(crate) fn keep(&self, folder: &Path) {
        if let Err(error) = self.write(folder) {
            eprintln!("metrale-gpu-bench: {}: {error}", folder.display());
        }
    }

    fn markdown(&self) -> String {
        let mut text = String::from("# metrale on a GPU\n\n");
        if self.simulated {
            let _ = writeln!(text, "{SIMULATED}\n");
        }
        let _ = writeln!(text, "{ABOUT}\n\n| machine | |\n|---|---|");
        for (name, value) in &self.machine {
            let _ = writeln!(text, "| {name} | {} |", escaped(value));
        }
        for section in &self.sections {
            let _ = writeln!(text, "\n{}", section.markdown().trim_end());
        }
        text
    }
}

impl Results {
    /// Takes note of how the section's process ended; `None`: it never began.
    pub(crate) fn close(&mut self, end: Option<End>) {
        let how = match end {
            None => {
                self.state = State::Skipped("the run's time was used up".to_owned());
                return;
            }
            Some(Ok(None)) => "it did not end in time".to_owned(),
            Some(Ok(Some(status))) => format!("its process ended with {status}"),
            Some(Err(error)) => format!("its process: {error}"),
        };
        let trying = self.trying.take().map_or(String::new(), |what| format!(" in: {what}"));
        if self.state == State::Unfinished {
            self.state = State::Failed(how + &trying);
        }
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
}

impl Table {
    fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let decimals: Vec<Option<usize>> =
            (0..self.columns.len()).map(|column| self.decimals(column)).collect();
        let rule = decimals.iter().map(|figures| figures.map_or("---", |_| "---:").to_owned());
        let mut text = format!("{}\n\n{}", self.title, line(self.columns.clone()));
        text += &line(rule.collect());
        for row in &self.rows {
            let cell = |(column, decimals): (usize, &Option<usize>)| match row[column].as_f64() {
                Some(figure) => grouped(figure, decimals.unwrap_or(0)),
                None => escaped(row[column].as_str().unwrap_or_default()),
            };
            text += &line(decimals.iter().enumerate().map(cell).collect());
        }
        text
    }

    /// The most decimals of a figure in that column; `None` in one of words.
    fn decimals(&self, column: usize) -> Option<usize> {
        let figures = self.rows.iter().filter_map(|row| row[column].as_f64());
        let decimals = |figure: f64| {
            figure.to_string().split_once('.').map_or(0, |(_, decimals)| decimals.len())
        };
        figures.map(decimals).max()
    }
}

/// A bar would end the cell, a line break the row.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// With thousands apart.
fn grouped(value: f64, decimals: usize) -> String {
    let mut text = format!("{value:.decimals$}");
    let digits = usize::from(value < 0.0);
    let mut at = text.find('.').unwrap_or(text.len());
    while at > digits + 3 {
        at -= 3;
        text.insert(at, ',');
    }
    text
}

/// A cell with so many decimals; words for what is no number, as a ratio to
/// nothing.
pub(crate) fn figure(value: f64, decimals: i32) -> Value {
    figure_or(Some(value), decimals, "-")
}

/// The same, or why there is no figure.
pub(crate) fn figure_or(value: Option<f64>, decimals: i32, why: &str) -> Value {
    let scale = 10f64.powi(decimals);
    // JSON knows no other numbers, and nobody needs a -0.
    let finite = value.filter(|value| value.is_finite());
    finite.map_or(why.into(), |value| ((value * scale).round() / scale + 0.0).into())
}

/// Puts a whole new file in the place of `path`, by one rename.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_added_extension("part");
    std::fs::write(&new, text)?;
    std::fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::{FILES, Keeper, Page, State, Table, figure, figure_or, grouped};
    use crate::gpu::sections::ALL;
    use serde_json::json;
    use std::collections::BTreeSet;
    use std::os::unix::process::ExitStatusExt as _;

    fn page() -> Page {
        let machine = vec![("driver".to_owned(), "a|b".to_owned())];
        Page::new(true, machine, &[&ALL[0], &ALL[1]])
    }

    #[test]
    fn what_a_section_tells_is_on_the_page_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        page().write(folder.path()).expect("written");
        let keeper = Keeper::new(folder.path(), ALL[1].id).expect("on the page");
        let rows = keeper.table("cost", "What a call costs.", &["call", "median, ns"]);
        rows.row(json!(["a|b", figure(1234.56, 1)]));
        rows.row(json!(["c", figure(2.0, 1)]));
        rows.row(json!(["d", figure_or(None, 1, "not measurable")]));
        keeper.note("A note.");
        let read = Page::read(folder.path()).expect("there");
        assert_eq!(read, *keeper.page.borrow());
        let text = std::fs::read_to_string(folder.path().join(FILES[0])).expect("there");
        assert_eq!(text, read.markdown());
        let table = "A note.\n\nWhat a call costs.\n\n| call | median, ns |\n| --- | ---: |\n\
                     | a\\|b | 1,234.6 |\n| c | 2.0 |\n| d | not measurable |\n";
        assert!(text.ends_with(table), "{text}");
        let rows = json!([["a|b", 1234.6], ["c", 2.0], ["d", "not measurable"]]);
        assert_eq!(json!(read)["sections"][1]["tables"][0]["rows"], rows);
        let why = Keeper::new(folder.path(), "none").expect_err("not there").to_string();
        assert!(why.contains("no section none"), "{why}");
    }

    #[test]
    fn a_page_says_of_each_section_how_far_it_is() {
        let mut page = page();
        page.sections[0].state = State::Failed("no such call".into());
        let [one, two] = [&ALL[0], &ALL[1]].map(|section| (section.title, section.about));
        let text = page.markdown();
        assert!(text.contains(&format!("## {}\n\n{}\n\n**Failed**: no such call", one.0, one.1)));
        assert!(text.contains(&format!("## {}\n\n{}\n\n**Not finished**", two.0, two.1)));
        assert!(text.contains("**Simulated driver.**") && text.contains("a\\|b"));
        let json = json!(page);
        assert_eq!(json["sections"][0]["why"], "no such call");
        assert_eq!((&json["schema"], &json["simulated"]), (&2.into(), &true.into()));
    }

    #[test]
    fn what_was_told_stands_however_the_process_ended() {
        let status = |raw| Ok(Some(std::process::ExitStatus::from_raw(raw)));
        let mut page = page();
        let results = &mut page.sections[0];
        for (end, why) in [
            (Some(Ok(None)), "it did not end in time in: a call"),
            (Some(status(11)), "its process ended with signal: 11 (SIGSEGV) in: a call"),
            (Some(status(2 << 8)), "its process ended with exit status: 2 in: a call"),
        ] {
            (results.state, results.trying) = (State::Unfinished, Some("a call".to_owned()));
            results.close(end);
            assert_eq!(results.state, State::Failed(why.to_owned()));
        }
        for told in [State::Measured, State::Failed("why".to_owned())] {
            results.state = told.clone();
            results.close(Some(Ok(None)));
            assert_eq!(results.state, told);
        }
        results.close(None);
        assert!(matches!(results.state, State::Skipped(_)));
    }

    #[test]
    fn both_files_are_replaced_whole_or_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let [path, json] = FILES.map(|name| folder.path().join(name));
        let mut new = page();
        new.write(folder.path()).expect("written");
        let (old, before) = (std::fs::File::open(&path).expect("there"), new.markdown());
        new.sections[0].state = State::Measured;
        new.write(folder.path()).expect("written again");
        // A reader of the old file still has all of it.
        assert_eq!(std::io::read_to_string(old).expect("text"), before);
        let files = std::fs::read_dir(folder.path()).expect("listed");
        let files: BTreeSet<_> = files.map(|entry| entry.expect("entry").path()).collect();
        assert_eq!(files, BTreeSet::from([path.clone(), json]), "nothing else is left");
        std::fs::create_dir(folder.path().join("gpu-bench.md.part")).expect("in the way");
        assert!(page().write(folder.path()).is_err());
        assert_eq!(std::fs::read_to_string(&path).expect("text"), new.markdown());
    }

    #[test]
    fn what_is_no_number_is_no_figure() {
        for value in [f64::NAN, f64::INFINITY] {
            assert_eq!(figure(value, 1), "-");
        }
        assert_eq!(figure(-0.01, 1).to_string(), "0.0");
    }

    #[test]
    fn figures_are_grouped_and_a_column_has_its_decimals() {
        assert_eq!(grouped(1_234_567.0, 0), "1,234,567");
        assert_eq!(grouped(-1_234.5, 1), "-1,234.5");
        assert_eq!(grouped(-123.0, 0), "-123");
        let rows = vec![json!(["a", 1, 1.5]), json!(["b", 2, 1.25]), json!(["c", "-", "-"])];
        let table = Table { key: String::new(), title: String::new(), columns: vec![], rows };
        assert_eq!([0, 1, 2].map(|column| table.decimals(column)), [None, Some(0), Some(2)]);
    }
}
