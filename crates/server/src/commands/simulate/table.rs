//! The report for people: a limit a line, below it who was refused most, then what else there is to
//! know.

use std::fmt::Write as _;

use tollgate_simulate::text::{grouped, share};
use tollgate_simulate::{
    Candidate, ComparisonReport, KeyReport, LimitReport, LogReport, Report, SideReport, Suggestion,
};

use super::super::numbers::length;
use super::super::terminal::{Paint, Tone, plain};

/// Lines that are late by more than this were not written by one server as requests came.
const LATE_MS: u64 = 60_000;

pub(super) fn table(report: &Report, paint: Paint) -> String {
    let mut text = heading(report);
    text += &side(&report.configuration, report.log.requests, paint);
    if let (Some(other), Some(comparison)) = (&report.against, &report.comparison) {
        let _infallible = writeln!(text, "\nagainst {}", plain(&other.file));
        text += &side(other, report.log.requests, paint);
        text += &compared(comparison, &report.configuration.file, &other.file, paint);
    }
    for suggestion in report.suggestions.iter().flatten() {
        text += &suggested(suggestion, paint);
    }
    text + &about_lines(&report.log, paint)
}

/// Why there is nothing to tell.
pub(super) fn unread(report: &Report) -> String {
    let LogReport { lines, files, .. } = &report.log;
    let files = files.join(", ");
    let told = bad_kinds(&report.log).join("\n  ");
    match lines {
        0 => format!("{files} is empty; name a log in the common or combined format, or of JSON"),
        _ => format!(
            "none of the {} lines of {files} can be read:\n  {told}",
            grouped(*lines)
        ),
    }
}

/// A number of things.
fn counted(count: u64, thing: &str) -> String {
    format!(
        "{} {thing}{}",
        grouped(count),
        if count == 1 { "" } else { "s" }
    )
}

fn heading(report: &Report) -> String {
    let log = &report.log;
    let period = match (&log.from, &log.to) {
        (Some(from), Some(to)) => format!(", {from} to {to}"),
        _ => String::new(),
    };
    format!(
        "{}: {}{period}\n\n",
        plain(&log.files.join(", ")),
        counted(log.requests, "request")
    )
}

/// A table whose columns are as wide as they have to be; the first is text and the others are
/// numbers.
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
    for (at, row) in rows.iter().enumerate() {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = widths[column];
            let padded = if column == 0 {
                format!("{cell:width$}")
            } else {
                format!("{cell:>width$}")
            };
            paint(at, column, &padded)
        });
        let _infallible = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    text
}

fn side(side: &SideReport, requests: u64, paint: Paint) -> String {
    let head = [
        "limit",
        "requests",
        "refused",
        "share",
        "keys",
        "worst minute",
    ]
    .map(str::to_owned)
    .to_vec();
    let rows: Vec<Vec<String>> = std::iter::once(head)
        .chain(side.limits.iter().map(row))
        .collect();
    let mut text = columns(&rows, |at, column, cell| {
        let refuses = at > 0 && side.limits[at - 1].refused > 0;
        match (at, column) {
            (0, _) => paint.tone(Tone::Aside, cell),
            (_, 0) => paint.tone(Tone::Name, cell),
            (_, 2 | 3) if refuses => paint.tone(Tone::Bad, cell),
            _ => cell.to_owned(),
        }
    });
    let refused = format!(
        "{} of {} requests refused",
        grouped(side.refused),
        grouped(requests)
    );
    let tone = if side.refused > 0 {
        Tone::Bad
    } else {
        Tone::Good
    };
    let _infallible = writeln!(
        text,
        "\n{} ({})",
        paint.tone(tone, &refused),
        share(side.refused, requests)
    );
    for unanswered in &side.unanswered {
        let told = format!(
            "an error instead of a decision for {}, first on line {}: {}",
            counted(unanswered.count, "request"),
            unanswered.line,
            plain(&unanswered.message)
        );
        let _infallible = writeln!(text, "{}", paint.tone(Tone::Careful, &told));
    }
    for note in &side.notes {
        let _infallible = writeln!(
            text,
            "{}",
            paint.tone(Tone::Careful, &format!("note: {}", plain(note)))
        );
    }
    side.limits
        .iter()
        .filter(|limit| limit.refused > 0)
        .for_each(|limit| text += &refusals(limit, paint));
    text
}

fn row(limit: &LimitReport) -> Vec<String> {
    let more = if limit.keys_error_max > 0 { "+" } else { "" };
    let worst = limit.worst_minute.as_ref();
    vec![
        format!(
            "{}{}",
            limit.name,
            if limit.shadow { " (shadow)" } else { "" }
        ),
        grouped(limit.requests),
        grouped(limit.refused),
        share(limit.refused, limit.requests),
        format!("{}{more}", grouped(limit.keys_refused)),
        worst.map_or_else(
            || "-".to_owned(),
            |worst| format!("{} ({})", worst.at, grouped(worst.refused)),
        ),
    ]
}

/// When a limit refused, and whom.
fn refusals(limit: &LimitReport, paint: Paint) -> String {
    let name = paint.tone(Tone::Name, &limit.name);
    let (first, last) = (
        limit.first_refusal.as_deref(),
        limit.last_refusal.as_deref(),
    );
    let (first, last) = (first.unwrap_or_default(), last.unwrap_or_default());
    let held = match limit.held {
        0 => String::new(),
        held => format!(
            "; {} held back, {} at most",
            grouped(held),
            length(limit.hold_max_ms)
        ),
    };
    let mut text = format!(
        "\n{name}  {}; refused from {first} to {last}{held}\n",
        limit.numbers
    );
    text += &keys(&limit.top_keys, paint);
    if limit.keys_error_max > 0 {
        let most = grouped(limit.keys_error_max);
        let told =
            format!("  there are more keys than fit: each count may be up to {most} too small");
        let _infallible = writeln!(text, "{}", paint.tone(Tone::Careful, &told));
    }
    text
}

fn keys(keys: &[KeyReport], paint: Paint) -> String {
    let cells = |key: &KeyReport| {
        let times = format!("{} to {}", key.first, key.last);
        vec![
            format!("  {}", plain(&key.key)),
            grouped(key.refused),
            times,
        ]
    };
    let rows: Vec<Vec<String>> = keys.iter().map(cells).collect();
    columns(&rows, |_, column, cell| {
        if column == 2 {
            paint.tone(Tone::Aside, cell)
        } else {
            cell.to_owned()
        }
    })
}

fn compared(comparison: &ComparisonReport, first: &str, second: &str, paint: Paint) -> String {
    let head = vec![
        "refused by".to_owned(),
        "first alone".to_owned(),
        "second alone".to_owned(),
        "both".to_owned(),
    ];
    let counts = |name: &str, counts: [u64; 3]| {
        std::iter::once(name.to_owned())
            .chain(counts.map(grouped))
            .collect::<Vec<_>>()
    };
    let ComparisonReport {
        only_configuration,
        only_against,
        both,
        limits,
    } = comparison;
    let mut rows = vec![
        head,
        counts("all requests", [*only_configuration, *only_against, *both]),
    ];
    rows.extend(limits.iter().map(|limit| {
        let missing = match (limit.in_configuration, limit.in_against) {
            (true, false) => " (first only)",
            (false, true) => " (second only)",
            _ => "",
        };
        let name = format!("{}{missing}", limit.name);
        counts(
            &name,
            [limit.only_configuration, limit.only_against, limit.both],
        )
    }));
    let mut text = format!("\nfirst is {}, second is {}\n", plain(first), plain(second));
    text += &columns(&rows, |at, column, cell| match (at, column) {
        (0, _) => paint.tone(Tone::Aside, cell),
        (_, 0) => paint.tone(Tone::Name, cell),
        _ => cell.to_owned(),
    });
    for limit in limits {
        for (which, top) in [
            ("first", &limit.top_only_configuration),
            ("second", &limit.top_only_against),
        ] {
            if !top.is_empty() {
                let name = paint.tone(Tone::Name, &limit.name);
                let _infallible = writeln!(text, "\n{name}  refused by the {which} alone");
                text += &keys(top, paint);
            }
        }
    }
    text
}

fn suggested(suggestion: &Suggestion, paint: Paint) -> String {
    let Suggestion {
        name,
        numbers,
        requests,
        keys,
        candidates,
        ..
    } = suggestion;
    if candidates.is_empty() {
        return format!("\nnothing to suggest for {name}: no request met it\n");
    }
    let head = ["use", "limit", "refuses requests", "refuses keys"]
        .map(str::to_owned)
        .to_vec();
    let cells = |candidate: &Candidate| {
        let of = |part: u64, whole: u64| format!("{} ({})", grouped(part), share(part, whole));
        vec![
            candidate.percentile.to_owned(),
            grouped(candidate.limit),
            candidate
                .refused
                .map_or_else(|| "?".to_owned(), |refused| of(refused, *requests)),
            of(candidate.keys_refused, *keys),
        ]
    };
    let rows: Vec<Vec<String>> = std::iter::once(head)
        .chain(candidates.iter().map(cells))
        .collect();
    let now = format!(
        "now {numbers}; {} of {}",
        counted(*requests, "request"),
        counted(*keys, "key")
    );
    let mut text = format!(
        "\nfrom real use of {}: {now}\n",
        paint.tone(Tone::Name, name)
    );
    text += &columns(&rows, |at, _, cell| match at {
        0 => paint.tone(Tone::Aside, cell),
        _ if candidates[at - 1].suggested => paint.tone(Tone::Good, cell),
        _ => cell.to_owned(),
    });
    if let Some(pick) = candidates.iter().find(|candidate| candidate.suggested) {
        let _infallible = writeln!(text, "suggested: {}, {}", grouped(pick.limit), why(pick));
    }
    if suggestion.tiers {
        text += "all tiers were measured together, by the numbers of the default one\n";
    }
    text
}

fn why(pick: &Candidate) -> String {
    match pick.percentile.strip_prefix('p') {
        Some(percent) => format!("which {percent}% of the keys never exceed"),
        None => "the most that any key used: there are too few keys to tell heavy use from normal"
            .to_owned(),
    }
}

/// What could not be read, and what was out of order.
fn about_lines(log: &LogReport, paint: Paint) -> String {
    let mut text = String::new();
    let mut say = |tone: Tone, told: &str| {
        let _infallible = writeln!(text, "{}", paint.tone(tone, told));
    };
    if log.bad_lines > 0 {
        say(
            Tone::Careful,
            &format!(
                "\n{} of {} lines could not be read:",
                grouped(log.bad_lines),
                grouped(log.lines)
            ),
        );
        bad_kinds(log)
            .iter()
            .for_each(|kind| say(Tone::Careful, &format!("  {kind}")));
    }
    if log.late_lines > 0 {
        let (late, most) = (counted(log.late_lines, "line"), length(log.late_max_ms));
        let told = format!(
            "\nout of order: {late} with an earlier time than one before, by {most} at most; replayed at the later time"
        );
        say(Tone::Aside, &told);
        if log.late_max_ms > LATE_MS {
            say(
                Tone::Careful,
                "that is more than a busy server mixes up: sort the log by time, or give several in their order",
            );
        }
    }
    text
}

/// What is wrong with lines, each kind with the first ones.
fn bad_kinds(log: &LogReport) -> Vec<String> {
    let mut told = Vec::new();
    for kind in &log.bad_kinds {
        told.push(format!(
            "{}: {}; {}",
            counted(kind.count, "line"),
            kind.found,
            kind.right
        ));
        let examples = log
            .bad_examples
            .iter()
            .filter(|example| example.kind == kind.kind);
        told.extend(
            examples.map(|example| format!("  line {}: {}", example.line, plain(&example.text))),
        );
    }
    told
}
