//! Formats a report for people: one line per limit, the keys denied most, and remarks.

use tollgate_simulate::{
    ComparisonReport, ConfigReport, KeyReport, LimitComparison, LogReport, SimulatedLimitReport,
    SimulationReport,
};

use super::super::numbers::{counted, grouped, length, share};
use super::super::terminal::{Align, Cell, Tone, head, plain, table};
use super::suggestions;

/// A single server does not write lines that are out of order by more than this.
const LATE_MS_MAX: u64 = 60_000;

pub(super) fn lines(report: &SimulationReport) -> Vec<String> {
    let requests = report.log.requests;
    let mut lines = vec![heading(&report.log), String::new()];
    lines.extend(config(&report.configuration, requests));
    if let (Some(against), Some(comparison)) = (&report.against, &report.comparison) {
        lines.push(format!("\nagainst {}", plain(&against.file)));
        lines.extend(config(against, requests));
        lines.extend(differences(
            comparison,
            &report.configuration.file,
            &against.file,
        ));
    }

    lines.extend(
        report
            .suggestions
            .iter()
            .flatten()
            .flat_map(suggestions::lines),
    );
    lines.extend(line_remarks(&report.log));
    lines
}

/// The error message for a log without a single valid line.
pub(super) fn unreadable(log: &LogReport) -> String {
    let files = log.files.join(", ");
    if log.lines == 0 {
        return format!(
            "{files} is empty; expected an access log in common, combined or JSON format"
        );
    }
    let (lines, kinds) = (grouped(log.lines), bad_kinds(log).join("\n  "));
    format!("none of the {lines} lines of {files} is valid:\n  {kinds}")
}

fn heading(log: &LogReport) -> String {
    let (files, requests) = (
        plain(&log.files.join(", ")),
        counted(log.requests, "request"),
    );
    match (&log.from, &log.to) {
        (Some(from), Some(to)) => format!("{files}: {requests}, {from} to {to}"),
        _ => format!("{files}: {requests}"),
    }
}

fn config(config: &ConfigReport, requests: u64) -> Vec<String> {
    let mut rows = vec![head([
        "limit",
        "requests",
        "denied",
        "share",
        "keys",
        "worst minute",
    ])];
    rows.extend(config.limits.iter().map(limit_row));
    let mut lines = table(&rows, Align::Right);

    let tone = if config.denied > 0 {
        Tone::Bad
    } else {
        Tone::Good
    };
    let denied = format!(
        "{} of {} requests denied",
        grouped(config.denied),
        grouped(requests)
    );
    let percentage = share(config.denied, requests);
    lines.push(format!("\n{} ({percentage})", tone.paint(&denied)));

    let errors = config.errors.iter().map(|errors| {
        let (requests, message) = (counted(errors.count, "request"), plain(&errors.message));
        let line = errors.line;
        format!("error instead of a decision for {requests}, first on line {line}: {message}")
    });
    let notes = config
        .notes
        .iter()
        .map(|note| format!("note: {}", plain(note)));
    lines.extend(errors.chain(notes).map(|line| Tone::Warning.paint(&line)));

    let denying = config.limits.iter().filter(|limit| limit.denied > 0);
    lines.extend(denying.flat_map(denials));
    lines
}

fn limit_row(limit: &SimulatedLimitReport) -> Vec<Cell> {
    let shadow = if limit.shadow { " (shadow)" } else { "" };
    let more = if limit.keys_error_max > 0 { "+" } else { "" };
    let tone = if limit.denied > 0 {
        Tone::Bad
    } else {
        Tone::Plain
    };
    let worst = limit.worst_minute.as_ref().map_or_else(
        || "-".to_owned(),
        |worst| format!("{} ({})", worst.at, grouped(worst.denied)),
    );

    vec![
        (Tone::Name, format!("{}{shadow}", limit.name)),
        (Tone::Plain, grouped(limit.requests)),
        (tone, grouped(limit.denied)),
        (tone, share(limit.denied, limit.requests)),
        (Tone::Plain, format!("{}{more}", grouped(limit.keys_denied))),
        (Tone::Plain, worst),
    ]
}

/// When a limit denied requests, and of which keys.
fn denials(limit: &SimulatedLimitReport) -> Vec<String> {
    let (name, quota) = (Tone::Name.paint(&limit.name), &limit.quota);
    let first = limit.first_denial.as_deref().unwrap_or_default();
    let last = limit.last_denial.as_deref().unwrap_or_default();
    let mut parts = vec![format!("\n{name}  {quota}; denied from {first} to {last}")];
    if limit.queued > 0 {
        let (queued, most) = (grouped(limit.queued), length(limit.wait_max_ms));
        parts.push(format!("{queued} waited in the queue, at most {most}"));
    }

    let mut lines = vec![parts.join("; ")];
    lines.extend(keys(&limit.top_keys));
    if limit.keys_error_max > 0 {
        let most = grouped(limit.keys_error_max);
        lines.push(Tone::Warning.paint(&format!(
            "  too many keys to count them all: each count may be too low by up to {most}"
        )));
    }
    lines
}

fn keys(keys: &[KeyReport]) -> Vec<String> {
    let row = |key: &KeyReport| {
        vec![
            (Tone::Plain, format!("  {}", plain(&key.key))),
            (Tone::Plain, grouped(key.denied)),
            (Tone::Dim, format!("{} to {}", key.first, key.last)),
        ]
    };
    table(&keys.iter().map(row).collect::<Vec<_>>(), Align::Right)
}

fn differences(comparison: &ComparisonReport, first: &str, second: &str) -> Vec<String> {
    let row = |name: &str, counts: [u64; 3]| {
        let counts = counts.map(|count| (Tone::Plain, grouped(count)));
        let name = (Tone::Name, name.to_owned());
        std::iter::once(name).chain(counts).collect::<Vec<_>>()
    };
    let limit_row = |limit: &LimitComparison| {
        let missing = match (limit.in_configuration, limit.in_against) {
            (true, false) => " (not in second)",
            (false, true) => " (not in first)",
            _ => "",
        };
        row(&format!("{}{missing}", limit.name), limit.denials.columns())
    };

    let mut rows = vec![head(["denied by", "only first", "only second", "both"])];
    rows.push(row("all requests", comparison.denials.columns()));
    rows.extend(comparison.limits.iter().map(limit_row));
    let mut lines = vec![format!(
        "\nfirst: {}\nsecond: {}",
        plain(first),
        plain(second)
    )];
    lines.extend(table(&rows, Align::Right));
    let notes = comparison.notes.iter();
    lines.extend(notes.map(|note| Tone::Warning.paint(&format!("note: {}", plain(note)))));

    for limit in &comparison.limits {
        for (which, top) in [
            ("first", &limit.top_only_configuration),
            ("second", &limit.top_only_against),
        ] {
            if !top.is_empty() {
                let name = Tone::Name.paint(&limit.name);
                lines.push(format!("\n{name}  denied only by the {which}"));
                lines.extend(keys(top));
            }
        }
    }
    lines
}

/// Remarks on invalid lines and on lines out of order.
fn line_remarks(log: &LogReport) -> Vec<String> {
    let mut lines = Vec::new();
    if log.bad_lines > 0 {
        let (bad, all) = (grouped(log.bad_lines), grouped(log.lines));
        lines.push(Tone::Warning.paint(&format!("\n{bad} of {all} lines are invalid:")));
        let kinds = bad_kinds(log).into_iter();
        lines.extend(kinds.map(|kind| Tone::Warning.paint(&format!("  {kind}"))));
    }

    if log.late_lines > 0 {
        let (late, most) = (counted(log.late_lines, "line"), length(log.late_max_ms));
        lines.push(Tone::Dim.paint(&format!(
            "\nout of order: {late} with an earlier time than a line before, by at most {most}; \
             replayed at the later time"
        )));
    }
    if log.late_max_ms > LATE_MS_MAX {
        lines.push(Tone::Warning.paint(
            "that is more than a single server causes: \
             sort the log by time, or pass the files oldest first",
        ));
    }
    lines
}

/// The kinds of invalid lines, each with its first examples.
fn bad_kinds(log: &LogReport) -> Vec<String> {
    let mut lines = Vec::new();
    for kind in &log.bad_kinds {
        let count = counted(kind.count, "line");
        lines.push(format!("{count}: {}; {}", kind.found, kind.expected));

        let examples = log.bad_examples.iter();
        let examples = examples.filter(|example| example.kind == kind.kind);
        lines.extend(
            examples.map(|example| format!("  line {}: {}", example.line, plain(&example.text))),
        );
    }
    lines
}
