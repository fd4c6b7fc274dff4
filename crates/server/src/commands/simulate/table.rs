//! Formats a report as tables: one line per limit, the keys denied most, and remarks.

use std::fmt::Write as _;

use tollgate_simulate::text::{grouped, share};
use tollgate_simulate::{
    ComparisonReport, ConfigReport, KeyReport, LimitCandidate, LimitComparison, LimitSuggestion,
    LogReport, SimulatedLimitReport, SimulationReport,
};

use super::super::numbers::length;
use super::super::terminal::{Paint, Tone, plain};

/// A single server does not write lines that are out of order by more than this.
const LATE_MS_MAX: u64 = 60_000;

pub(super) fn table(report: &SimulationReport, paint: Paint) -> String {
    let mut text = heading(report);
    text += &config(&report.configuration, report.log.requests, paint);
    if let (Some(against), Some(comparison)) = (&report.against, &report.comparison) {
        let _infallible = writeln!(text, "\nagainst {}", plain(&against.file));
        text += &config(against, report.log.requests, paint);
        text += &differences(comparison, &report.configuration.file, &against.file, paint);
    }

    for suggestion in report.suggestions.iter().flatten() {
        text += &suggested(suggestion, paint);
    }
    text + &line_remarks(&report.log, paint)
}

/// The error message for a log without a single valid line.
pub(super) fn unreadable(report: &SimulationReport) -> String {
    let LogReport { lines, files, .. } = &report.log;
    let files = files.join(", ");
    let kinds = bad_kinds(&report.log).join("\n  ");

    match lines {
        0 => format!("{files} is empty; expected an access log in common, combined or JSON format"),
        _ => format!(
            "none of the {} lines of {files} is valid:\n  {kinds}",
            grouped(*lines)
        ),
    }
}

/// A number with its noun, such as `1 request` or `2 requests`.
fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(count))
}

fn heading(report: &SimulationReport) -> String {
    let log = &report.log;
    let period = match (&log.from, &log.to) {
        (Some(from), Some(to)) => format!(", {from} to {to}"),
        _ => String::new(),
    };
    let (files, requests) = (log.files.join(", "), counted(log.requests, "request"));
    format!("{}: {requests}{period}\n\n", plain(&files))
}

/// Formats a table. The first column is left-aligned, the others are right-aligned.
fn columns(rows: &[Vec<String>], paint: impl Fn(usize, usize, &str) -> String) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..count).map(width).collect();

    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = widths[column];
            let padded = if column == 0 {
                format!("{cell:width$}")
            } else {
                format!("{cell:>width$}")
            };
            paint(index, column, &padded)
        });
        let _infallible = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    text
}

fn config(config: &ConfigReport, requests: u64, paint: Paint) -> String {
    let mut text = limit_table(config, paint);

    let denied = format!(
        "{} of {} requests denied",
        grouped(config.denied),
        grouped(requests)
    );
    let tone = if config.denied > 0 {
        Tone::Bad
    } else {
        Tone::Good
    };
    let percentage = share(config.denied, requests);
    let _infallible = writeln!(text, "\n{} ({percentage})", paint.tone(tone, &denied));

    for line in config_remarks(config) {
        let _infallible = writeln!(text, "{}", paint.tone(Tone::Warning, &line));
    }

    config
        .limits
        .iter()
        .filter(|limit| limit.denied > 0)
        .for_each(|limit| text += &denials(limit, paint));
    text
}

/// One line per limit.
fn limit_table(config: &ConfigReport, paint: Paint) -> String {
    let head = [
        "limit",
        "requests",
        "denied",
        "share",
        "keys",
        "worst minute",
    ]
    .map(str::to_owned)
    .to_vec();
    let rows: Vec<Vec<String>> = std::iter::once(head)
        .chain(config.limits.iter().map(limit_row))
        .collect();

    columns(&rows, |row, column, cell| {
        let has_denials = row > 0 && config.limits[row - 1].denied > 0;
        match (row, column) {
            (0, _) => paint.tone(Tone::Dim, cell),
            (_, 0) => paint.tone(Tone::Name, cell),
            (_, 2 | 3) if has_denials => paint.tone(Tone::Bad, cell),
            _ => cell.to_owned(),
        }
    })
}

/// Errors instead of decisions, and notes on the replay.
fn config_remarks(config: &ConfigReport) -> Vec<String> {
    let errors = config.errors.iter().map(|errors| {
        format!(
            "error instead of a decision for {}, first on line {}: {}",
            counted(errors.count, "request"),
            errors.line,
            plain(&errors.message)
        )
    });
    let notes = config
        .notes
        .iter()
        .map(|note| format!("note: {}", plain(note)));

    errors.chain(notes).collect()
}

fn limit_row(limit: &SimulatedLimitReport) -> Vec<String> {
    let shadow = if limit.shadow { " (shadow)" } else { "" };
    let more = if limit.keys_error_max > 0 { "+" } else { "" };
    let worst = limit.worst_minute.as_ref().map_or_else(
        || "-".to_owned(),
        |worst| format!("{} ({})", worst.at, grouped(worst.denied)),
    );

    vec![
        format!("{}{shadow}", limit.name),
        grouped(limit.requests),
        grouped(limit.denied),
        share(limit.denied, limit.requests),
        format!("{}{more}", grouped(limit.keys_denied)),
        worst,
    ]
}

/// When a limit denied requests, and of which keys.
fn denials(limit: &SimulatedLimitReport, paint: Paint) -> String {
    let name = paint.tone(Tone::Name, &limit.name);
    let first = limit.first_denial.as_deref().unwrap_or_default();
    let last = limit.last_denial.as_deref().unwrap_or_default();
    let queued = match limit.queued {
        0 => String::new(),
        queued => format!(
            "; {} waited in the queue, at most {}",
            grouped(queued),
            length(limit.wait_max_ms)
        ),
    };

    let mut text = format!(
        "\n{name}  {}; denied from {first} to {last}{queued}\n",
        limit.quota
    );
    text += &keys(&limit.top_keys, paint);
    if limit.keys_error_max > 0 {
        let most = grouped(limit.keys_error_max);
        let line =
            format!("  too many keys to count them all: each count may be too low by up to {most}");
        let _infallible = writeln!(text, "{}", paint.tone(Tone::Warning, &line));
    }
    text
}

fn keys(keys: &[KeyReport], paint: Paint) -> String {
    let cells = |key: &KeyReport| {
        vec![
            format!("  {}", plain(&key.key)),
            grouped(key.denied),
            format!("{} to {}", key.first, key.last),
        ]
    };
    let rows: Vec<Vec<String>> = keys.iter().map(cells).collect();

    columns(&rows, |_, column, cell| {
        if column == 2 {
            paint.tone(Tone::Dim, cell)
        } else {
            cell.to_owned()
        }
    })
}

fn differences(comparison: &ComparisonReport, first: &str, second: &str, paint: Paint) -> String {
    let mut text = format!("\nfirst: {}\nsecond: {}\n", plain(first), plain(second));

    let rows = difference_rows(comparison);
    text += &columns(&rows, |row, column, cell| match (row, column) {
        (0, _) => paint.tone(Tone::Dim, cell),
        (_, 0) => paint.tone(Tone::Name, cell),
        _ => cell.to_owned(),
    });
    let note = ComparisonReport::INTERACTION_NOTE;
    let _infallible = writeln!(text, "{}", paint.tone(Tone::Dim, note));

    for limit in &comparison.limits {
        for (which, top) in [
            ("first", &limit.top_only_configuration),
            ("second", &limit.top_only_against),
        ] {
            if !top.is_empty() {
                let name = paint.tone(Tone::Name, &limit.name);
                let _infallible = writeln!(text, "\n{name}  denied only by the {which}");
                text += &keys(top, paint);
            }
        }
    }
    text
}

/// The table of differences: a head, all requests, and one row per limit.
fn difference_rows(comparison: &ComparisonReport) -> Vec<Vec<String>> {
    let row = |name: &str, counts: [u64; 3]| {
        std::iter::once(name.to_owned())
            .chain(counts.map(grouped))
            .collect::<Vec<_>>()
    };
    let limit_row = |limit: &LimitComparison| {
        let missing = match (limit.in_configuration, limit.in_against) {
            (true, false) => " (not in second)",
            (false, true) => " (not in first)",
            _ => "",
        };
        row(&format!("{}{missing}", limit.name), limit.denials.columns())
    };

    let head = ["denied by", "only first", "only second", "both"];
    let all = row("all requests", comparison.denials.columns());
    let mut rows = vec![head.map(str::to_owned).to_vec(), all];
    rows.extend(comparison.limits.iter().map(limit_row));
    rows
}

fn suggested(suggestion: &LimitSuggestion, paint: Paint) -> String {
    let LimitSuggestion {
        name,
        quota,
        requests,
        keys,
        candidates,
        ..
    } = suggestion;
    if candidates.is_empty() {
        return format!("\nno suggestion for {name}: it applied to no request\n");
    }

    let mut text = format!(
        "\nusage of {}: {} of {}; now {quota}\n",
        paint.tone(Tone::Name, name),
        counted(*requests, "request"),
        counted(*keys, "key")
    );
    let rows = candidate_rows(suggestion);
    text += &columns(&rows, |row, _, cell| match row {
        0 => paint.tone(Tone::Dim, cell),
        _ if candidates[row - 1].suggested => paint.tone(Tone::Good, cell),
        _ => cell.to_owned(),
    });
    if let Some(pick) = candidates.iter().find(|candidate| candidate.suggested) {
        let _infallible = writeln!(text, "suggested: {}, {}", grouped(pick.limit), reason(pick));
    }
    if suggestion.tiers {
        text += "all tiers were measured together, with the quota of the default tier\n";
    }
    text
}

/// The table of candidates: a head, and one row per candidate.
fn candidate_rows(suggestion: &LimitSuggestion) -> Vec<Vec<String>> {
    let with_share = |part: u64, whole: u64| format!("{} ({})", grouped(part), share(part, whole));
    let cells = |candidate: &LimitCandidate| {
        let denied = candidate.denied.map_or_else(
            || "?".to_owned(),
            |denied| with_share(denied, suggestion.requests),
        );
        vec![
            candidate.percentile.to_owned(),
            grouped(candidate.limit),
            denied,
            with_share(candidate.keys_denied, suggestion.keys),
        ]
    };

    let head = ["percentile", "limit", "denied requests", "denied keys"];
    std::iter::once(head.map(str::to_owned).to_vec())
        .chain(suggestion.candidates.iter().map(cells))
        .collect()
}

/// Why a candidate is suggested.
fn reason(candidate: &LimitCandidate) -> String {
    match candidate.percentile.strip_prefix('p') {
        Some(percent) => format!("which {percent}% of the keys never exceed"),
        None => "the maximum: too few keys to tell heavy usage from normal".to_owned(),
    }
}

/// Remarks on invalid lines and on lines out of order.
fn line_remarks(log: &LogReport, paint: Paint) -> String {
    let mut text = String::new();
    let mut remark = |tone: Tone, line: &str| {
        let _infallible = writeln!(text, "{}", paint.tone(tone, line));
    };

    if log.bad_lines > 0 {
        let (bad, all) = (grouped(log.bad_lines), grouped(log.lines));
        remark(
            Tone::Warning,
            &format!("\n{bad} of {all} lines are invalid:"),
        );
        bad_kinds(log)
            .iter()
            .for_each(|kind| remark(Tone::Warning, &format!("  {kind}")));
    }

    if log.late_lines > 0 {
        let (late, most) = (counted(log.late_lines, "line"), length(log.late_max_ms));
        let line = format!(
            "\nout of order: {late} with an earlier time than a line before, by at most {most}; \
             replayed at the later time"
        );
        remark(Tone::Dim, &line);
        if log.late_max_ms > LATE_MS_MAX {
            remark(
                Tone::Warning,
                "that is more than a single server causes: \
                 sort the log by time, or pass the files oldest first",
            );
        }
    }
    text
}

/// The kinds of invalid lines, each with its first examples.
fn bad_kinds(log: &LogReport) -> Vec<String> {
    let mut lines = Vec::new();
    for kind in &log.bad_kinds {
        let count = counted(kind.count, "line");
        lines.push(format!("{count}: {}; {}", kind.found, kind.expected));

        let examples = log
            .bad_examples
            .iter()
            .filter(|example| example.kind == kind.kind);
        lines.extend(
            examples.map(|example| format!("  line {}: {}", example.line, plain(&example.text))),
        );
    }
    lines
}
