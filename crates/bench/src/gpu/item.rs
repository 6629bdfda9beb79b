// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a section hands over: notes and tables, as lines of JSON from the
//! process that measures to the one that writes the page.
//!
//! Invariant: page and JSON are made from the same cells, so they cannot
//! differ; every column of figures has a unit.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// A line from the process of a section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Item {
    /// A sentence for the page.
    Note(String),
    /// Takes the place of an earlier table of the same key.
    Table(Table),
    /// What is about to be tried, for the case that nothing comes after.
    Trying(String),
    /// Why there is no more.
    Failed(String),
    /// There is no more.
    Done,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Table {
    /// Its name in the JSON.
    pub(crate) key: String,
    /// What stands above it.
    pub(crate) title: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

/// A column's heading.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// Empty for words.
    pub(crate) unit: String,
}

/// A cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Cell {
    Text(String),
    /// A figure, told with so many decimals.
    Number(f64, u8),
    /// There is no figure, and this is why.
    None(String),
}

impl Column {
    /// The column's name in the JSON.
    fn key(&self) -> String {
        let both = format!("{} {}", self.name, self.unit.replace('µ', "u"));
        let parts = both.split(|c: char| !c.is_ascii_alphanumeric());
        let parts: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
        parts.join("_").to_lowercase()
    }
}

impl Cell {
    /// A figure; what is no number (a ratio to nothing) is none.
    pub(crate) fn number(value: f64, decimals: u8) -> Self {
        Self::or_none(Some(value), decimals, "-")
    }

    /// A count.
    pub(crate) fn count(value: u64) -> Self {
        Self::Number(value as f64, 0)
    }

    /// The figure if there is one.
    pub(crate) fn or_none(value: Option<f64>, decimals: u8, why: &str) -> Self {
        // JSON knows no other numbers.
        match value.filter(|value| value.is_finite()) {
            Some(value) => Self::Number(value, decimals),
            None => Self::None(why.to_owned()),
        }
    }

    fn text(&self) -> String {
        match self {
            // A bar would end the cell, a line break the row.
            Self::Text(text) | Self::None(text) => text.replace('|', "\\|").replace('\n', " "),
            Self::Number(value, decimals) => grouped(*value, usize::from(*decimals)),
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Number(value, decimals) => {
                let scale = 10f64.powi(i32::from(*decimals));
                json!((value * scale).round() / scale)
            }
            Self::None(why) => json!({ "none": why }),
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::Text(text.into())
    }
}

/// With thousands apart.
fn grouped(value: f64, decimals: usize) -> String {
    let plain = format!("{:.decimals$}", value.abs());
    let (whole, rest) = plain.split_at(plain.find('.').unwrap_or(plain.len()));
    let mut text = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    let is_zero = plain.chars().all(|c| matches!(c, '0' | '.'));
    let sign = if value < 0.0 && !is_zero { "-" } else { "" };
    format!("{sign}{text}{rest}")
}

impl Table {
    /// An empty table; a column is a name with its unit, empty for words.
    pub(crate) fn new(key: &str, title: &str, columns: &[(&str, &str)]) -> Self {
        let column = |(name, unit): &(&str, &str)| Column {
            name: (*name).to_owned(),
            unit: (*unit).to_owned(),
        };
        Self {
            key: key.to_owned(),
            title: title.to_owned(),
            columns: columns.iter().map(column).collect(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// As a table of Markdown, with its title above.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("{}\n\n|", self.title);
        for column in &self.columns {
            let comma = if column.unit.is_empty() { "" } else { ", " };
            let _ = write!(text, " {}{comma}{} |", column.name, column.unit);
        }
        text.push_str("\n|");
        for column in &self.columns {
            let is_number = !column.unit.is_empty();
            text.push_str(if is_number { "---:|" } else { "---|" });
        }
        text.push('\n');
        for row in &self.rows {
            text.push('|');
            for cell in row {
                let _ = write!(text, " {} |", cell.text());
            }
            text.push('\n');
        }
        text
    }

    /// As an object with an array of rows.
    pub(crate) fn json(&self) -> Value {
        let row = |cells: &Vec<Cell>| {
            let named = self.columns.iter().zip(cells);
            let object: Map<String, Value> =
                named.map(|(column, cell)| (column.key(), cell.json())).collect();
            Value::Object(object)
        };
        let rows: Vec<Value> = self.rows.iter().map(row).collect();
        json!({ "key": self.key, "title": self.title, "rows": rows })
    }
}

#[cfg(test)]
mod tests {
    use super::{Cell, Item, Table, grouped};
    use serde_json::json;

    fn table() -> Table {
        let columns = [("call", ""), ("median", "ns"), ("step", "µs/step")];
        let mut table = Table::new("cost", "What a call costs.", &columns);
        table.row(["a|b".into(), Cell::number(1234.56, 1), Cell::None("not measurable".into())]);
        table
    }

    #[test]
    fn page_and_json_are_of_the_same_cells() {
        let text = "What a call costs.\n\n| call | median, ns | step, µs/step |\n\
                    |---|---:|---:|\n| a\\|b | 1,234.6 | not measurable |\n";
        assert_eq!(table().markdown(), text);
        let rows = json!([{ "call": "a|b", "median_ns": 1234.6,
                            "step_us_step": { "none": "not measurable" } }]);
        assert_eq!(table().json()["rows"], rows);
    }

    #[test]
    fn an_item_is_one_line_that_reads_back() {
        for item in [Item::Note("two\nlines".into()), Item::Table(table()), Item::Done] {
            let line = serde_json::to_string(&item).expect("JSON");
            assert!(!line.contains('\n'));
            assert_eq!(serde_json::from_str::<Item>(&line).expect("an item"), item);
        }
    }

    #[test]
    fn what_is_no_number_is_no_figure() {
        for value in [f64::NAN, f64::INFINITY] {
            assert_eq!(Cell::number(value, 1), Cell::None("-".to_owned()));
        }
        assert_eq!(Cell::or_none(None, 0, "why"), Cell::None("why".to_owned()));
    }

    #[test]
    fn figures_are_grouped() {
        assert_eq!(grouped(1_234_567.0, 0), "1,234,567");
        assert_eq!(grouped(-1_234.5, 1), "-1,234.5");
        assert_eq!(grouped(123.0, 0), "123");
        assert_eq!(grouped(-0.01, 1), "0.0");
    }
}
