//! The result of an audit as text.

use super::super::terminal::{Align, Tone, table};
use super::judge::AuditReport;

/// The lines of the report: the summary, then every variant that was not counted.
pub(super) fn lines(report: &AuditReport) -> Vec<String> {
    let mut rows = vec![
        row(
            "plain",
            format!(
                "{}: {} from the handler, denied after {} requests",
                report.request, report.handler_status, report.allowed
            ),
        ),
        row("variants", report.variants.to_string()),
        row("counted", report.counted.to_string()),
        row("elsewhere", elsewhere(report)),
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

fn row(name: &str, value: String) -> Vec<(Tone, String)> {
    vec![(Tone::Name, name.to_owned()), (Tone::Plain, value)]
}

/// For example `14 (400: 2, 404: 11, no response: 1)`.
fn elsewhere(report: &AuditReport) -> String {
    let total: usize = report.elsewhere.values().sum();
    let counts = report.elsewhere.iter().map(|(status, count)| match status {
        0 => format!("no response: {count}"),
        status => format!("{status}: {count}"),
    });
    let counts: Vec<String> = counts.collect();
    if counts.is_empty() {
        return total.to_string();
    }
    format!("{total} ({})", counts.join(", "))
}
