//! The result of the experiment, shown as a table and saved as numbers and a picture.

use serde::Serialize;

use super::row::Row;
use crate::machine::Machine;

#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) machine: Machine,
    /// The largest share of the machine that other programs used during any cell.
    pub(super) others: f64,
    /// The cells that were not measured, and why.
    pub(super) skipped: Vec<String>,
    /// The cells whose measurement failed, and why.
    pub(super) broken: Vec<String>,
    pub(super) rows: Vec<Row>,
}

impl Report {
    /// The cells in which more was admitted than the bound allows.
    pub(super) fn exceeded(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.is_exceeded)
    }
}
