//! A report for people.

use std::fmt::Write as _;

use tollgate_load::{LimitReport, Report, RetryReport, Timeline, Worst};

use super::super::terminal::{Paint, Tone, plain};
use super::lines::{millis, number, sparkline, units};

pub(super) fn table(report: &Report, paint: Paint) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: &str| {
        let _infallible = writeln!(text, "{}  {value}", paint.tone(Tone::Name, &format!("{name:11}")));
    };
    row("sent", &sent(report));
    row("answered", &answered(report));
    if let Some(latency) = &report.latency_us {
        let [p50, p90, p99, p999, max] =
            [latency.p50, latency.p90, latency.p99, latency.p999, latency.max].map(millis);
        row("latency", &format!("p50 {p50}  p90 {p90}  p99 {p99}  p99.9 {p999}  max {max}"));
    }
    curves(&report.timeline, &mut row);
    if report.replicas.len() > 1 {
        for replica in &report.replicas {
            let [answered, allowed, errors] = [replica.answered, replica.allowed, replica.errors].map(number);
            row(
                "replica",
                &format!("{}: {answered} answered, {allowed} allowed, {errors} errors", replica.url),
            );
        }
    }
    row("retry-after", &retries(report.retry_after));
    text.push('\n');
    for limit in &report.limits {
        verdict(limit, paint, &mut text);
    }
    for note in notes(report) {
        let _infallible = writeln!(text, "{}", paint.tone(Tone::Careful, &note));
    }
    text
}

fn sent(report: &Report) -> String {
    let requests = report.requests;
    let unsent =
        if requests.unsent > 0 { format!(", {} unsent", number(requests.unsent)) } else { String::new() };
    let early = if report.ended_early { ", ended early" } else { "" };
    let (sent, due) = (number(requests.sent), number(requests.due));
    format!("{sent} of {due} due in {:.1}s{unsent}{early}", report.duration_s)
}

fn answered(report: &Report) -> String {
    let requests = report.requests;
    let [answered, allowed, denied] = [requests.answered, requests.allowed, requests.denied].map(number);
    let mut text = format!("{answered}, {:.0}/s: {allowed} allowed, {denied} denied", report.answered_per_s);
    for (name, count) in [("degraded", requests.degraded), ("errors", requests.errors)] {
        let _infallible = write!(text, ", {} {name}", number(count));
    }
    text
}

fn curves(timeline: &Timeline, row: &mut impl FnMut(&str, &str)) {
    let step = millis(micros(timeline.step_s));
    let largest = |values: &[u64]| values.iter().copied().max().unwrap_or_default();
    let of = |values: &[u64]| format!("|{}| up to {} in {step}", sparkline(values), number(largest(values)));
    row("  p99", &format!("|{}| up to {}", sparkline(&timeline.p99_us), millis(largest(&timeline.p99_us))));
    row("  allowed", &of(&timeline.allowed));
    row("  denied", &of(&timeline.denied));
    if largest(&timeline.errors) > 0 {
        row("  errors", &of(&timeline.errors));
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a step is a part of a load")]
fn micros(seconds: f64) -> u64 {
    (seconds * 1e6) as u64
}

fn retries(retries: RetryReport) -> String {
    let RetryReport { tried, kept, early, long, skipped } = retries;
    let skipped =
        if skipped > 0 { format!("; {skipped} told longer than --retry-for") } else { String::new() };
    if tried == 0 {
        return format!("none tried{skipped}");
    }
    let early =
        if early > 0 { format!(", {early} refused once more (told too early)") } else { String::new() };
    let long = if long > 0 { format!(", {long} told longer than needed") } else { String::new() };
    format!("{kept} of {tried} passed at the time told{early}{long}{skipped}")
}

/// `api  EXCEEDED by 99.5: 200 admitted ..`, with what it was judged by below.
fn verdict(limit: &LimitReport, paint: Paint, text: &mut String) {
    let name = paint.tone(Tone::Name, &plain(&limit.name));
    let keys =
        if limit.keys == 1 { "1 key".to_owned() } else { format!("{} keys", number(limit.keys as u64)) };
    let admitted = number(limit.admitted);
    let said = match &limit.worst {
        Some(worst) if limit.exceeded => {
            let over = format!("EXCEEDED by {}", units(worst.over));
            format!("{}: {}", paint.tone(Tone::Bad, &over), interval(worst))
        }
        Some(worst) => {
            let closest = format!("closest with {} to spare: {}", units(-worst.over), interval(worst));
            format!("{}, {admitted} admitted, {keys}; {closest}", paint.tone(Tone::Good, "held"))
        }
        None => format!("{}, {admitted} admitted", paint.tone(Tone::Careful, "not judged")),
    };
    let _infallible = writeln!(text, "{name}  {said}");
    let mut aside = |line: String| {
        let _infallible = writeln!(text, "  {}", paint.tone(Tone::Aside, &line));
    };
    if limit.exceeded {
        aside(format!("{admitted} admitted in all, {keys}"));
    }
    if let Some(allowed) = &limit.allowed {
        aside(format!("allows {allowed}"));
    }
    if limit.admitted_by_policy > 0 {
        let count = number(limit.admitted_by_policy);
        aside(format!("{count} were admitted by its failure policy, which is not held against it"));
    }
    if let Some(reason) = &limit.not_judged {
        aside(format!("not judged: {}", plain(reason)));
    }
}

fn interval(worst: &Worst) -> String {
    let Worst { key, from_s, to_s, admitted, .. } = worst;
    format!("{} from {from_s:.3}s to {to_s:.3}s for {}", number(*admitted), plain(key))
}

/// What concerns the whole.
fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    let generator = report.generator;
    if !generator.kept_up {
        let [behind, waited, unsent] =
            [generator.behind, generator.waited, report.requests.unsent].map(number);
        notes.push(format!(
            "the load did not keep up: this machine was late for {behind} (by up to {}), {waited} waited for a free \
             connection, {unsent} were not sent; latencies are in part its own",
            millis(generator.behind_max_us)
        ));
    }
    if let Some(first) = &report.errors.first {
        let errors = &report.errors;
        let [timeout, connection, answer] = [errors.timeout, errors.connection, errors.answer].map(number);
        let first = plain(first);
        notes.push(format!("errors: {timeout} too late, {connection} of connections, {answer} without a decision; the first: {first}"));
    }
    if report.not_followed > 0 {
        let count = number(report.not_followed);
        notes.push(format!(
            "{count} admissions are of keys beyond the most that can be followed, and were not judged"
        ));
    }
    if report.limits.is_empty() && report.requests.allowed > 0 {
        notes.push("no limit took part in what was allowed".to_owned());
    }
    if report.limits.iter().any(|limit| limit.judged_by == Some("answers")) {
        notes.push(
            "judged loosely, by what answers say of limits; --config FILE judges by what they are".to_owned(),
        );
    }
    notes
}
