//! The report as a chart.

use super::case::Case;
use super::entrant::Load;
use super::report::{Report, Row};
use super::subjects::SUBJECTS;
use crate::chart::{Chart, Group};

/// Draws the time per decision.
pub(super) fn draw(report: &Report) -> Chart {
    let mut loads: Vec<(Case, Load)> = Vec::new();
    for load in report.rows.iter().map(|row| (row.case, row.load)) {
        if !loads.contains(&load) {
            loads.push(load);
        }
    }
    let time = |row: &Row| row.median.ns_per_decision;
    let group = |(case, load): (Case, Load)| Group {
        label: case.to_string(),
        sublabel: load.to_string(),
        values: SUBJECTS
            .iter()
            .map(|subject| report.row(case, subject, load).map(time))
            .collect(),
    };
    Chart {
        title: "Nanoseconds per decision on a hot key".to_owned(),
        subtitle: format!(
            "Median of {} rounds; logarithmic scale, shorter is better. {}, {}, {} cores.",
            report.rounds, report.server, report.machine.cpu, report.machine.cores
        ),
        unit: "ns",
        groups: loads.into_iter().map(group).collect(),
        series: SUBJECTS.map(str::to_owned).to_vec(),
    }
}
