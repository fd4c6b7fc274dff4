//! The report as a chart.

use super::report::Report;
use crate::chart::{Chart, Group};

/// The chart of the times, as SVG.
pub(super) fn draw(report: &Report) -> String {
    let series = report.subjects();
    let group = |load: (&'static str, usize)| Group {
        label: load.0.to_owned(),
        sublabel: format!("{} {}", load.1, if load.1 == 1 { "thread" } else { "threads" }),
        values: series.iter().map(|subject| report.row(load, subject).map(|row| row.ns_per_op)).collect(),
    };
    let chart = Chart {
        title: "Nanoseconds per decision, in one process".to_owned(),
        subtitle: format!(
            "Median of {} rounds; logarithmic scale, shorter is better. {}, {} cores.",
            report.rounds, report.machine.cpu, report.machine.cores
        ),
        groups: report.loads().into_iter().map(group).collect(),
        series: series.iter().map(ToString::to_string).collect(),
    };
    chart.to_string()
}
