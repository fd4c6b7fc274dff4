//! Formats a report for people.

use std::fmt::Write as _;

use tollgate_load::{LoadLimitReport, LoadReport, LoadTimeline, LoadWorstInterval, RetryReport};

use super::super::terminal::{Paint, Tone, plain};
use super::format::{millis, number, sparkline, units};

pub(super) fn table(report: &LoadReport, paint: Paint) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: &str| {
        let name = paint.tone(Tone::Name, &format!("{name:11}"));
        let _infallible = writeln!(text, "{name}  {value}");
    };

    row("sent", &sent(report));
    row("decided", &decided(report));
    if let Some(latency) = &report.latency_us {
        let [p50, p90, p99, p999, max] = [
            latency.p50,
            latency.p90,
            latency.p99,
            latency.p999,
            latency.max,
        ]
        .map(millis);
        row(
            "latency",
            &format!("p50 {p50}  p90 {p90}  p99 {p99}  p99.9 {p999}  max {max}"),
        );
    }
    curves(&report.timeline, &mut row);
    if report.replicas.len() > 1 {
        for replica in &report.replicas {
            let [decided, allowed, errors] =
                [replica.decided, replica.allowed, replica.errors].map(number);
            let url = &replica.url;
            row(
                "replica",
                &format!("{url}: {decided} decided, {allowed} allowed, {errors} errors"),
            );
        }
    }
    row("retry-after", &retries(report.retry_after));

    text.push('\n');
    for limit in &report.limits {
        verdict(limit, paint, &mut text);
    }
    for note in notes(report) {
        let _infallible = writeln!(text, "{}", paint.tone(Tone::Warning, &note));
    }
    text
}

fn sent(report: &LoadReport) -> String {
    let requests = report.requests;
    let unsent = if requests.unsent > 0 {
        format!(", {} unsent", number(requests.unsent))
    } else {
        String::new()
    };
    let early = if report.ended_early {
        ", ended early"
    } else {
        ""
    };

    let (sent, due) = (number(requests.sent), number(requests.due));
    format!(
        "{sent} of {due} due in {:.1}s{unsent}{early}",
        report.duration_s
    )
}

fn decided(report: &LoadReport) -> String {
    let requests = report.requests;
    let [decided, allowed, denied] =
        [requests.decided, requests.allowed, requests.denied].map(number);

    let mut text = format!(
        "{decided}, {:.0}/s: {allowed} allowed, {denied} denied",
        report.decided_per_s
    );
    for (name, count) in [("degraded", requests.degraded), ("errors", requests.errors)] {
        let _infallible = write!(text, ", {} {name}", number(count));
    }
    text
}

fn curves(timeline: &LoadTimeline, row: &mut impl FnMut(&str, &str)) {
    let step = millis(micros(timeline.step_s));
    let largest = |values: &[u64]| values.iter().copied().max().unwrap_or_default();
    let curve = |values: &[u64]| {
        let most = number(largest(values));
        format!("|{}| up to {most} in {step}", sparkline(values))
    };

    let p99 = sparkline(&timeline.p99_us);
    let p99_max = millis(largest(&timeline.p99_us));
    row("  p99", &format!("|{p99}| up to {p99_max}"));
    row("  allowed", &curve(&timeline.allowed));
    row("  denied", &curve(&timeline.denied));
    if largest(&timeline.errors) > 0 {
        row("  errors", &curve(&timeline.errors));
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a step is a positive fraction of the load's duration"
)]
fn micros(seconds: f64) -> u64 {
    (seconds * 1e6) as u64
}

fn retries(retries: RetryReport) -> String {
    let RetryReport {
        tried,
        on_time,
        early,
        long,
        skipped,
    } = retries;
    let count = |count: u64, text: &str| {
        if count > 0 {
            format!("{count} {text}")
        } else {
            String::new()
        }
    };

    let mut parts = vec![if tried == 0 {
        "not tested".to_owned()
    } else {
        format!("{on_time} of {tried} allowed after waiting")
    }];
    parts.push(count(early, "denied again (Retry-After too short)"));
    parts.push(count(
        long,
        "could have passed earlier (Retry-After too long)",
    ));
    parts.push(count(
        skipped,
        "skipped (Retry-After longer than --retry-for)",
    ));
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

/// For example `api  EXCEEDED by 99.5: 200 admitted ..`, followed by lines with details.
fn verdict(limit: &LoadLimitReport, paint: Paint, text: &mut String) {
    let name = paint.tone(Tone::Name, &plain(&limit.name));
    let line = verdict_line(limit, paint);
    let _infallible = writeln!(text, "{name}  {line}");

    for detail in verdict_details(limit) {
        let _infallible = writeln!(text, "  {}", paint.tone(Tone::Dim, &detail));
    }
}

fn verdict_line(limit: &LoadLimitReport, paint: Paint) -> String {
    let (admitted, keys) = (number(limit.admitted), key_count(limit));

    match &limit.worst {
        Some(worst) if limit.exceeded => {
            let over = format!("EXCEEDED by {}", units(worst.over));
            format!("{}: {}", paint.tone(Tone::Bad, &over), interval(worst))
        }
        Some(worst) => {
            let held = paint.tone(Tone::Good, "held");
            let left = units(-worst.over);
            let interval = interval(worst);
            format!("{held}, {admitted} admitted, {keys}; closest with {left} to spare: {interval}")
        }
        None => {
            let not_judged = paint.tone(Tone::Warning, "not judged");
            format!("{not_judged}, {admitted} admitted")
        }
    }
}

fn verdict_details(limit: &LoadLimitReport) -> Vec<String> {
    let mut details = Vec::new();

    if limit.exceeded {
        let (admitted, keys) = (number(limit.admitted), key_count(limit));
        details.push(format!("{admitted} admitted in total, {keys}"));
    }
    if let Some(allowed) = &limit.allowed {
        details.push(format!("allows {allowed}"));
    }
    if limit.admitted_by_policy > 0 {
        let count = number(limit.admitted_by_policy);
        details.push(format!(
            "{count} of them admitted by its failure policy, and not judged"
        ));
    }
    if let Some(reason) = &limit.not_judged {
        // Some admissions may have been judged all the same.
        let what = if limit.worst.is_some() {
            "partly not judged"
        } else {
            "not judged"
        };
        details.push(format!("{what}: {}", plain(reason)));
    }
    details
}

fn key_count(limit: &LoadLimitReport) -> String {
    if limit.keys == 1 {
        "1 key".to_owned()
    } else {
        format!("{} keys", number(limit.keys as u64))
    }
}

fn interval(worst: &LoadWorstInterval) -> String {
    let LoadWorstInterval {
        key,
        from_s,
        to_s,
        admitted,
        ..
    } = worst;
    let (admitted, key) = (number(*admitted), plain(key));
    format!("{admitted} admitted from {from_s:.3}s to {to_s:.3}s for {key}")
}

/// Remarks on the whole load.
fn notes(report: &LoadReport) -> Vec<String> {
    let mut notes = Vec::new();

    let generator = report.generator;
    if !generator.kept_up {
        let [behind, waited, unsent] =
            [generator.behind, generator.waited, report.requests.unsent].map(number);
        let behind_max = millis(generator.behind_max_us);
        notes.push(format!(
            "the load did not keep up: {behind} requests were sent late (up to {behind_max}), \
             {waited} waited for a free connection, {unsent} were not sent; \
             the latencies include these delays"
        ));
    }

    if let Some(first) = &report.errors.first {
        let errors = &report.errors;
        let [timeout, connection, response] =
            [errors.timeout, errors.connection, errors.response].map(number);
        let first = plain(first);
        notes.push(format!(
            "errors: {timeout} timed out, {connection} connection errors, \
             {response} responses without a decision; first: {first}"
        ));
    }

    if report.untracked > 0 {
        let count = number(report.untracked);
        notes.push(format!(
            "{count} admissions were not judged: too many different keys to track"
        ));
    }

    if report.limits.is_empty() && report.requests.allowed > 0 {
        notes.push("no limit applied to the allowed requests".to_owned());
    }

    let is_loose = |limit: &LoadLimitReport| limit.judged_by == Some("responses");
    if report.limits.iter().any(is_loose) {
        notes.push(
            "judged loosely, by what responses say about the limits; \
             pass --config FILE to judge exactly"
                .to_owned(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use tollgate_load::{
        ErrorCounts, GeneratorReport, LatencySummary, ReplicaReport, RequestCounts,
    };

    use super::*;

    fn limit(name: &str, over: f64) -> LoadLimitReport {
        let key = "tenant=key-0\x1b".to_owned();
        LoadLimitReport {
            name: name.to_owned(),
            admitted: 1_200,
            admitted_by_policy: 0,
            keys: 1,
            allowed: Some("a burst of 600 plus 600 per 1m".to_owned()),
            judged_by: Some("configuration"),
            exceeded: over > 0.0,
            worst: Some(LoadWorstInterval {
                key,
                from_s: 0.0,
                to_s: 1.1987,
                admitted: 1_200,
                over,
            }),
            not_judged: None,
        }
    }

    fn report(limits: Vec<LoadLimitReport>) -> LoadReport {
        let requests = RequestCounts {
            due: 2_000,
            sent: 2_000,
            decided: 2_000,
            allowed: 1_200,
            denied: 800,
            ..RequestCounts::default()
        };
        let steps = |first, second| vec![first, second];
        let (allowed, denied) = (steps(1_000, 200), steps(0, 800));
        LoadReport {
            duration_s: 2.0,
            ended_early: false,
            requests,
            decided_per_s: 1_000.4,
            latency_us: Some(LatencySummary {
                p50: 120,
                p90: 200,
                p99: 3_770,
                p999: 7_090,
                max: 11_900,
                mean: 1.0,
            }),
            errors: ErrorCounts::default(),
            generator: GeneratorReport {
                kept_up: true,
                ..GeneratorReport::default()
            },
            replicas: vec![ReplicaReport {
                url: "http://h:1".to_owned(),
                decided: 2_000,
                allowed: 1_200,
                errors: 0,
            }],
            limits,
            untracked: 0,
            retry_after: RetryReport::default(),
            timeline: LoadTimeline {
                step_s: 1.0,
                allowed,
                denied,
                errors: steps(0, 0),
                p99_us: steps(100, 800),
            },
        }
    }

    #[test]
    fn an_exceeded_limit_has_its_interval() {
        let text = table(&report(vec![limit("api", 588.014)]), Paint::off());
        let expected = "\
sent         2,000 of 2,000 due in 2.0s
decided      2,000, 1000/s: 1,200 allowed, 800 denied, 0 degraded, 0 errors
latency      p50 0.12ms  p90 0.20ms  p99 3.77ms  p99.9 7.09ms  max 11.9ms
  p99        |▁█| up to 0.80ms
  allowed    |█▂| up to 1,000 in 1.00s
  denied     | █| up to 800 in 1.00s
retry-after  not tested

api  EXCEEDED by 588.01: 1,200 admitted from 0.000s to 1.199s for tenant=key-0\\u{1b}
  1,200 admitted in total, 1 key
  allows a burst of 600 plus 600 per 1m
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_limit_that_held_has_its_margin() {
        let text = table(&report(vec![limit("api", -0.25)]), Paint::off());
        assert!(
            text.contains(
                "api  held, 1,200 admitted, 1 key; \
                 closest with 0.25 to spare: 1,200 admitted from 0.000s"
            ),
            "{text}"
        );
    }

    #[test]
    fn everything_unusual_is_noted() {
        let unjudged = LoadLimitReport {
            worst: None,
            not_judged: Some("why".to_owned()),
            admitted_by_policy: 7,
            ..limit("api", 0.0)
        };
        let loose = LoadLimitReport {
            judged_by: Some("responses"),
            ..limit("other", -1.0)
        };
        let mut report = report(vec![unjudged, loose]);
        (report.untracked, report.ended_early, report.requests.unsent) = (3, true, 9);
        report.generator = GeneratorReport {
            behind: 5,
            behind_max_us: 20_000,
            waited: 6,
            kept_up: false,
        };
        report.errors = ErrorCounts {
            timeout: 1,
            connection: 2,
            response: 3,
            first: Some("broken".to_owned()),
        };
        report.retry_after = RetryReport {
            tried: 9,
            on_time: 7,
            early: 2,
            long: 1,
            skipped: 4,
        };
        report.replicas.push(report.replicas[0].clone());
        let text = table(&report, Paint::off());
        for expected in [
            "9 unsent, ended early",
            "api  not judged, 1,200 admitted",
            "  not judged: why",
            "  7 of them admitted by its failure policy, and not judged",
            "the load did not keep up: 5 requests were sent late (up to 20.0ms), 6 waited for a",
            "free connection, 9 were not sent; the latencies include these delays",
            "errors: 1 timed out, 2 connection errors, 3 responses without a decision; first: broken",
            "3 admissions were not judged: too many different keys",
            "pass --config FILE to judge exactly",
            "7 of 9 allowed after waiting, 2 denied again (Retry-After too short), 1 could have passed",
            "earlier (Retry-After too long), 4 skipped (Retry-After longer than --retry-for)",
            "replica      http://h:1: 2,000 decided, 1,200 allowed, 0 errors",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }
}
