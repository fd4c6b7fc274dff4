//! The result of a benchmark: numbers for a file, tables for people.

use std::fmt;
use std::fs;
use std::thread::available_parallelism;
use std::time::Duration;

use serde::Serialize;

use super::panels::{Panel, Picture};
use super::ratio::{Goal, Ratio, RatioOf};
use super::row::Row;
use super::server::field;
use super::text::{Table, counted};

/// If other programs used a larger share of the machine, or threads waited for a core for a larger
/// share of their time than this, the numbers are not reliable.
const BUSY: f64 = 0.05;

#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    machine: Machine,
    /// The servers and programs that took part, with their versions.
    pub(crate) programs: Vec<String>,
    rounds: usize,
    /// The length of a round; 0 if it is as long as the work takes.
    round_ms: u128,
    /// The largest share of the machine that other programs used in any case.
    pub(crate) others: f64,
    /// The largest share of their time that threads waited for a core, where that is measured.
    pub(crate) waited: f64,
    pub(crate) ratios: Vec<Ratio>,
    /// What is wrong: subjects that were not measured, and why; bounds that were exceeded.
    pub(crate) remarks: Vec<String>,
    pub(crate) rows: Vec<Row>,
    #[serde(skip)]
    pub(crate) tables: Vec<Table>,
    #[serde(skip)]
    pub(crate) picture: Picture,
    /// What a reader needs to know to interpret the numbers: a list, whose items continue in
    /// indented lines.
    #[serde(skip)]
    pub(crate) notes: &'static str,
}

/// The machine on which a benchmark ran, without which its numbers mean nothing.
#[derive(Debug, Default, Serialize)]
struct Machine {
    cores: usize,
    cpu: String,
}

impl Machine {
    fn this() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Self {
            cores: available_parallelism().map_or(1, Into::into),
            cpu: model_name(&cpuinfo).unwrap_or("unknown").to_owned(),
        }
    }
}

fn model_name(cpuinfo: &str) -> Option<&str> {
    let name = field(cpuinfo, "model name")?;
    name.strip_prefix(": ")
}

impl Report {
    /// An empty report of rounds with this length.
    pub(crate) fn new(rounds: usize, length: Duration) -> Self {
        Self {
            machine: Machine::this(),
            rounds,
            round_ms: length.as_millis(),
            ..Self::default()
        }
    }

    /// The rows of a case, in the order in which they were measured.
    pub(crate) fn case(&self, case: &str) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.case == case)
    }

    pub(crate) fn row(&self, case: &str, load: &str, subject: &str) -> Option<&Row> {
        self.case(case)
            .find(|row| row.load == load && row.subject == subject)
    }

    /// Adds the ratio of two subjects in a case, each with its load, if both were measured.
    pub(crate) fn compare(
        &mut self,
        of: RatioOf,
        figure: &'static str,
        case: &str,
        [ours, theirs]: [(&str, &str); 2],
        goal: Option<Goal>,
    ) {
        let row = |(load, subject)| self.row(case, load, subject);
        let rows = row(ours).zip(row(theirs));
        let ratio = rows.map(|(ours, theirs)| Ratio::new(of, figure, ours, theirs, goal));
        self.ratios.extend(ratio);
    }

    /// Draws a panel for each title and figure.
    pub(crate) fn draw(&mut self, title: &str, panels: &[(&str, &str)]) {
        let subtitle = format!("Median of {} rounds.", self.rounds);
        let panel = |(title, figure): &(&str, &str)| Panel::from_rows(title, figure, &self.rows);
        self.draw_panels(title, &subtitle, panels.iter().map(panel).collect());
    }

    /// Draws these panels. The subtitle ends with the machine.
    pub(crate) fn draw_panels(&mut self, title: &str, subtitle: &str, panels: Vec<Panel>) {
        self.picture = Picture {
            title: title.to_owned(),
            subtitle: format!("{subtitle} {}.", self.place()),
            panels,
        };
    }

    /// The machine and the programs that took part.
    fn place(&self) -> String {
        let Machine { cpu, cores } = &self.machine;
        let machine = vec![cpu.clone(), format!("{cores} cores")];
        [machine, self.programs.clone()].concat().join(", ")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}", self.place())?;
        write!(out, "{}", counted(self.rounds, "round"))?;
        if self.round_ms > 0 {
            write!(out, " of {} ms", self.round_ms)?;
        }
        writeln!(out, "{}", if self.rounds > 1 { ", medians" } else { "" })?;

        for (share, what) in [
            (self.others, "other programs took {} % of it"),
            (self.waited, "threads waited {} % of their time for a core"),
        ] {
            if share > BUSY {
                let what = what.replace("{}", &format!("{:.0}", share * 100.0));
                writeln!(out, "BUSY MACHINE: {what}. Do not quote these numbers.")?;
            }
        }

        self.tables
            .iter()
            .try_for_each(|table| write!(out, "\n{table}"))?;
        if !self.ratios.is_empty() {
            write!(out, "\n{}", Ratio::table(&self.ratios))?;
        }
        writeln!(out)?;
        self.remarks
            .iter()
            .try_for_each(|remark| writeln!(out, "- {remark}."))?;
        out.write_str(&self.notes.replace("\n  ", " "))
    }
}

/// The distinct values, in the order of their first occurrence.
pub(crate) fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    all.fold(Vec::new(), |mut distinct, one| {
        if !distinct.contains(&one) {
            distinct.push(one);
        }
        distinct
    })
}

#[cfg(test)]
pub(crate) mod tests;
