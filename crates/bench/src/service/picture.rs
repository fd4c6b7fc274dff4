//! The report as a chart.

use super::entrant::Subject;
use super::report::Report;
use super::request::{Case, Protocol};
use crate::chart::{Chart, Group};

/// Draws requests per second.
pub(super) fn draw(report: &Report) -> Chart {
    let series = report.subjects();
    let groups = report.groups.iter().map(|group| {
        let rows = || report.rows_of(group.protocol, group.case);
        let value = |subject: &Subject| {
            rows()
                .find(|row| &row.subject == subject)
                .map(|row| row.median.requests_per_s)
        };
        let over = match group.protocol {
            Protocol::Http => "HTTP/1.1",
            Protocol::Grpc => "gRPC",
        };
        Group {
            label: over.to_owned(),
            sublabel: match group.case {
                Case::Allowed => "allowed",
                Case::Denied => "denied",
                Case::ThreeLimits => "3 limits",
            }
            .to_owned(),
            values: series.iter().map(|subject| value(subject)).collect(),
        }
    });
    Chart {
        title: "Requests per second, to one server".to_owned(),
        subtitle: format!(
            "Median of {} rounds; logarithmic scale, taller is better. \
             {}, {} cores, shared with the load generator.",
            report.rounds, report.machine.cpu, report.machine.cores
        ),
        unit: "/s",
        groups: groups.collect(),
        series: series.iter().map(ToString::to_string).collect(),
    }
}
