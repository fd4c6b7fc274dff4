//! The result of an audit as text.

use super::super::terminal::{Align, Tone, name_row, table};
use super::judge::AuditReport;

/// The lines of the report: the summary, then every variant that was not counted.
pub(super) fn lines(report: &AuditReport) -> Vec<String> {
    let mut rows = vec![
        name_row(
            "plain",
            format!(
                "{}: {} from the handler, denied after {} requests",
                report.request, report.handler_status, report.allowed
            ),
        ),
        name_row("variants", report.variants.to_string()),
        name_row("counted", report.counted.to_string()),
        name_row("elsewhere", elsewhere(report)),
    ];

    let tone = if report.uncounted.is_empty() {
        Tone::Good
    } else {
        Tone::Bad
    };
    let count = (tone, report.uncounted.len().to_string());
    rows.push(vec![(Tone::Name, "uncounted".to_owned()), count]);

    let uncounted = report.uncounted.iter().map(|variant| {
        let class = (Tone::Plain, format!("  {}", variant.class));
        vec![class, (Tone::Bad, variant.request.clone())]
    });
    let uncounted: Vec<_> = uncounted.collect();
    let mut lines = table(&rows, Align::Left);
    lines.extend(table(&uncounted, Align::Left));
    lines
}

/// For example `14 (400: 2, 404: 11, no response: 1)`.
fn elsewhere(report: &AuditReport) -> String {
    let total: usize = report.elsewhere.values().sum();
    let counts = report.elsewhere.iter().map(|(status, count)| match status {
        0 => format!("no response: {count}"),
        status => format!("{status}: {count}"),
    });
    match counts.collect::<Vec<_>>().as_slice() {
        [] => total.to_string(),
        counts => format!("{total} ({})", counts.join(", ")),
    }
}
