//! The report as a chart.

use super::report::Report;
use crate::chart::{Chart, Group};
use crate::text::counted;

/// Draws the time per decision.
pub(super) fn draw(report: &Report) -> Chart {
    let series = report.subjects();
    let group = |load: (&'static str, usize)| Group {
        label: load.0.to_owned(),
        sublabel: counted(load.1, "thread"),
        values: series
            .iter()
            .map(|subject| report.row(load, subject).map(|row| row.ns_per_op))
            .collect(),
    };
    Chart {
        title: "Nanoseconds per decision, in one process".to_owned(),
        subtitle: format!(
            "Median of {} rounds; logarithmic scale, shorter is better. {}, {} cores.",
            report.rounds, report.machine.cpu, report.machine.cores
        ),
        unit: "ns",
        groups: report.loads().into_iter().map(group).collect(),
        series: series.iter().map(ToString::to_string).collect(),
    }
}
