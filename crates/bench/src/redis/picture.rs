//! The report as a chart.

use super::report::Report;
use crate::chart::{Chart, Group};
use crate::text::counted;

/// Draws decisions per second.
pub(super) fn draw(report: &Report) -> Chart {
    let series = report.subjects();
    let groups = report.crowds().into_iter().map(|(keys, callers)| {
        let rows = || {
            report
                .rows
                .iter()
                .filter(|row| (row.keys, row.callers()) == (keys, callers))
        };
        let value = |subject| {
            rows()
                .find(|row| row.subject == subject)
                .map(|row| row.median.decisions_per_s)
        };
        Group {
            label: counted(keys as usize, "key"),
            sublabel: callers.map_or_else(
                || "50 clients".to_owned(),
                |callers| counted(callers, "caller"),
            ),
            values: series.iter().map(|subject| value(*subject)).collect(),
        }
    });
    Chart {
        title: "Decisions per second, on one server".to_owned(),
        subtitle: format!(
            "Median of {} rounds; logarithmic scale, taller is better. {}, {}, {} cores.",
            report.rounds, report.server, report.machine.cpu, report.machine.cores
        ),
        unit: "/s",
        groups: groups.collect(),
        series: series.iter().map(ToString::to_string).collect(),
    }
}
