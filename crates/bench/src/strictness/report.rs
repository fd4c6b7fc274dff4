//! The result: one value, shown as a table and saved as numbers and a picture.

use serde::Serialize;

use super::row::Row;
use crate::machine::Machine;

#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) machine: Machine,
    /// The largest part of the machine that other programs took during any cell.
    pub(super) others: f64,
    /// What was not measured, and why.
    pub(super) skipped: Vec<String>,
    /// What could not be measured to its end, and why.
    pub(super) broken: Vec<String>,
    pub(super) rows: Vec<Row>,
}

impl Report {
    /// The cells in which more was let through than the bound allows.
    pub(super) fn exceeded(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.is_exceeded)
    }
}
