//! Formats a report for people.

use std::time::Duration;

use tollgate_load::{
    LoadFailure, LoadLimitReport, LoadReport, LoadTolerance, LoadWorstInterval, RetryReport,
};

use super::super::numbers::{counted, grouped};
use super::super::terminal::{Align, Cell, Tone, plain, table};
use super::format::{millis, sparkline, units};

/// The report in words. `is_application`: the load was sent to an application, not to the service.
pub(super) fn lines(
    report: &LoadReport,
    tolerance: LoadTolerance,
    is_application: bool,
) -> Vec<String> {
    let mut lines = table(&rows(report), Align::Left);
    lines.push(String::new());
    lines.extend(report.limits.iter().flat_map(verdict));
    let notes = notes(report, is_application);
    lines.extend(notes.iter().map(|note| Tone::Warning.paint(note)));
    lines.push(String::new());
    lines.push(result(report, tolerance));
    lines
}

/// The verdict on the whole load, which is also its exit code.
fn result(report: &LoadReport, tolerance: LoadTolerance) -> String {
    let requests = report.requests;
    let percent = |share: f64| format!("{} %", units(100.0 * share));
    let reason = |failure: &LoadFailure| match failure {
        LoadFailure::Exceeded => "a limit was exceeded".to_owned(),
        LoadFailure::Unlimited => format!(
            "{} of the allowed requests met no limit, more than {} (--unlimited-max)",
            percent(requests.unlimited_share()),
            percent(tolerance.unlimited)
        ),
        LoadFailure::Errors => format!(
            "{} of the requests got no decision, more than {} (--errors-max)",
            percent(requests.error_share()),
            percent(tolerance.errors)
        ),
        LoadFailure::Degraded => format!(
            "failure policies made {} of the decisions, more than {} (--degraded-max)",
            percent(requests.degraded_share()),
            percent(tolerance.degraded)
        ),
    };
    let reasons: Vec<String> = report.failures.iter().map(reason).collect();
    if !reasons.is_empty() {
        return format!("{}: {}", Tone::Bad.paint("FAILED"), reasons.join("; "));
    }

    let is_judged = |limit: &LoadLimitReport| limit.worst.is_some();
    let text = match &report.limits[..] {
        [] => "no limit admitted a request",
        limits if limits.iter().all(is_judged) => "every limit held",
        limits if limits.iter().any(is_judged) => "every limit that could be judged held",
        _ => "but no limit could be judged",
    };
    format!("{}, {text}", Tone::Good.paint("passed"))
}

/// The table of what was sent and what came back.
fn rows(report: &LoadReport) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    let mut row = |name: &str, value: String| {
        rows.push(vec![(Tone::Name, name.to_owned()), (Tone::Plain, value)]);
    };

    row("sent", sent(report));
    row("decided", decided(report));
    if report.requests.unlimited > 0 {
        row("unlimited", unlimited(report));
    }
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
            format!("p50 {p50}  p90 {p90}  p99 {p99}  p99.9 {p999}  max {max}"),
        );
    }
    curves(report, &mut row);
    if report.replicas.len() > 1 {
        for replica in &report.replicas {
            let [decided, allowed, errors] =
                [replica.decided, replica.allowed, replica.errors].map(grouped);
            let url = &replica.url;
            row(
                "replica",
                format!("{url}: {decided} decided, {allowed} allowed, {errors} errors"),
            );
        }
    }
    row("retry-after", retries(report.retry_after));
    rows
}

fn sent(report: &LoadReport) -> String {
    let requests = report.requests;
    let (sent, due) = (grouped(requests.sent), grouped(requests.due));
    let mut parts = vec![format!("{sent} of {due} due in {:.1}s", report.duration_s)];
    if requests.unsent > 0 {
        parts.push(format!("{} unsent", grouped(requests.unsent)));
    }
    if report.ended_early {
        parts.push("ended early".to_owned());
    }
    parts.join(", ")
}

fn decided(report: &LoadReport) -> String {
    let requests = report.requests;
    let [decided, allowed, denied, degraded, errors] = [
        requests.decided,
        requests.allowed,
        requests.denied,
        requests.degraded,
        requests.errors,
    ]
    .map(grouped);
    let rate = report.decided_per_s;
    format!(
        "{decided}, {rate:.0}/s: {allowed} allowed, {denied} denied, {degraded} degraded, \
         {errors} errors"
    )
}

fn unlimited(report: &LoadReport) -> String {
    let requests = report.requests;
    let [unlimited, unchecked, allowed] =
        [requests.unlimited, requests.unchecked, requests.allowed].map(grouped);
    let percent = units(100.0 * requests.unlimited_share());
    let mut parts = vec![format!(
        "{unlimited} of {allowed} allowed ({percent} %) met no limit"
    )];
    if requests.unchecked > 0 {
        parts.push(format!("a proxy marked {unchecked} of them as unchecked"));
    }
    parts.join("; ")
}

fn curves(report: &LoadReport, row: &mut impl FnMut(&str, String)) {
    let timeline = &report.timeline;
    let step = Duration::try_from_secs_f64(timeline.step_s).unwrap_or_default();
    let step = millis(u64::try_from(step.as_micros()).unwrap_or(u64::MAX));
    let largest = |values: &[u64]| values.iter().copied().max().unwrap_or_default();
    let curve = |values: &[u64], most: String| format!("|{}| up to {most}", sparkline(values));
    let counts = |values: &[u64]| curve(values, format!("{} in {step}", grouped(largest(values))));

    row(
        "  p99",
        curve(&timeline.p99_us, millis(largest(&timeline.p99_us))),
    );
    row("  allowed", counts(&timeline.allowed));
    row("  denied", counts(&timeline.denied));
    if largest(&timeline.errors) > 0 {
        row("  errors", counts(&timeline.errors));
    }
}

fn retries(retries: RetryReport) -> String {
    let RetryReport { tried, on_time, .. } = retries;
    let mut parts = vec![if tried == 0 {
        "not tested".to_owned()
    } else {
        format!("{on_time} of {tried} allowed after waiting")
    }];

    for (count, what) in [
        (retries.early, "denied again (Retry-After too short)"),
        (
            retries.long,
            "could have passed earlier (Retry-After too long)",
        ),
        (
            retries.skipped,
            "skipped (Retry-After longer than --retry-for)",
        ),
    ] {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    }
    parts.join(", ")
}

/// For example `api  EXCEEDED by 99.5: 200 admitted ..`, followed by lines with details.
fn verdict(limit: &LoadLimitReport) -> Vec<String> {
    let name = Tone::Name.paint(&plain(&limit.name));
    let (admitted, keys) = (grouped(limit.admitted), counted(limit.keys as u64, "key"));

    let line = match &limit.worst {
        Some(worst) if limit.exceeded => {
            let over = Tone::Bad.paint(&format!("EXCEEDED by {}", units(worst.over)));
            format!("{over}: {}", interval(worst))
        }
        Some(worst) => {
            let (held, left) = (Tone::Good.paint("held"), units(-worst.over));
            let interval = interval(worst);
            format!("{held}, {admitted} admitted, {keys}; closest with {left} to spare: {interval}")
        }
        None => format!("{}, {admitted} admitted", Tone::Warning.paint("not judged")),
    };
    let total = limit
        .exceeded
        .then(|| format!("{admitted} admitted in total, {keys}"));
    let details = total.into_iter().chain(verdict_details(limit));
    let details = details.map(|detail| format!("  {}", Tone::Dim.paint(&detail)));

    let first = format!("{name}  {line}");
    std::iter::once(first).chain(details).collect()
}

fn verdict_details(limit: &LoadLimitReport) -> Vec<String> {
    let mut details = Vec::new();
    if let Some(allowed) = &limit.allowed {
        details.push(format!("allows {allowed}"));
    }
    if limit.admitted_by_policy > 0 {
        let count = grouped(limit.admitted_by_policy);
        details.push(format!(
            "{count} of them admitted by its failure policy, and not judged"
        ));
    }
    if let Some(reason) = &limit.not_judged {
        // Some admissions may have been judged all the same.
        let partly = if limit.worst.is_some() { "partly " } else { "" };
        details.push(format!("{partly}not judged: {}", plain(reason)));
    }
    details
}

fn interval(worst: &LoadWorstInterval) -> String {
    let LoadWorstInterval { from_s, to_s, .. } = worst;
    let (admitted, key) = (grouped(worst.admitted), plain(&worst.key));
    format!("{admitted} admitted from {from_s:.3}s to {to_s:.3}s for {key}")
}

/// Remarks on the whole load.
fn notes(report: &LoadReport, is_application: bool) -> Vec<String> {
    let mut notes = Vec::new();

    let generator = report.generator;
    if !generator.kept_up {
        let [behind, waited, unsent] =
            [generator.behind, generator.waited, report.requests.unsent].map(grouped);
        let behind_max = millis(generator.behind_max_us);
        notes.push(format!(
            "the load did not keep up: {behind} requests were sent late (up to {behind_max}), \
             {waited} waited for a free connection, {unsent} were not sent; \
             the latencies include these delays"
        ));
    }

    let errors = &report.errors;
    if let Some(first) = errors.first.as_deref().map(plain) {
        let [timeout, connection, response] =
            [errors.timeout, errors.connection, errors.response].map(grouped);
        notes.push(format!(
            "errors: {timeout} timed out, {connection} connection errors, \
             {response} responses without a decision; first: {first}"
        ));
    }

    if report.untracked > 0 {
        let count = grouped(report.untracked);
        notes.push(format!(
            "{count} admissions were not judged: too many different keys to track"
        ));
    }

    let is_loose = |limit: &LoadLimitReport| limit.judged_by == Some("responses");
    if report.limits.iter().any(is_loose) {
        // An application has no configuration of ours.
        let option = if is_application {
            "--allow [NAME=]LIMIT"
        } else {
            "--config FILE"
        };
        notes.push(format!(
            "judged loosely, by what responses say about the limits; \
             pass {option} to judge exactly"
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use tollgate_load::{
        ErrorCounts, GeneratorReport, LatencySummary, LoadTimeline, ReplicaReport, RequestCounts,
    };

    use super::super::super::terminal::without_colours;
    use super::*;

    const TOLERANCE: LoadTolerance = LoadTolerance {
        unlimited: 0.0,
        errors: 0.01,
        degraded: 0.01,
    };

    fn text(report: &LoadReport) -> String {
        without_colours(&lines(report, TOLERANCE, false).join("\n")) + "\n"
    }

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
            failures: Vec::new(),
        }
    }

    /// The last line of the report.
    fn result(report: &mut LoadReport) -> String {
        report.judge(TOLERANCE);
        let text = text(report);
        text.lines().last().unwrap_or_default().to_owned()
    }

    #[test]
    fn the_last_line_is_the_verdict_on_the_whole_load() {
        let mut held = report(vec![limit("api", -1.0)]);
        assert_eq!(result(&mut held), "passed, every limit held");
        held.limits.push(LoadLimitReport {
            worst: None,
            ..limit("other", 0.0)
        });
        assert_eq!(
            result(&mut held),
            "passed, every limit that could be judged held"
        );
        held.limits.remove(0);
        assert_eq!(result(&mut held), "passed, but no limit could be judged");
        held.requests.errors = 20;
        assert_eq!(result(&mut held), "passed, but no limit could be judged");

        let mut failed = report(vec![limit("api", 2.0)]);
        failed.requests.unlimited = 300;
        failed.requests.unchecked = 30;
        failed.requests.errors = 142;
        assert_eq!(
            result(&mut failed),
            "FAILED: a limit was exceeded; 25 % of the allowed requests met no limit, more than \
             0 % (--unlimited-max); 6.63 % of the requests got no decision, more than 1 % \
             (--errors-max)"
        );
        let mut unsent = report(vec![limit("api", -1.0)]);
        unsent.requests.unsent = 500;
        unsent.requests.degraded = 40;
        assert_eq!(
            result(&mut unsent),
            "FAILED: 20 % of the requests got no decision, more than 1 % (--errors-max); failure \
             policies made 2 % of the decisions, more than 1 % (--degraded-max)"
        );
        let text = text(&failed);
        let row = "unlimited    300 of 1,200 allowed (25 %) met no limit; a proxy marked 30 of \
                   them as unchecked\n";
        assert!(text.contains(row), "{text}");
    }

    #[test]
    fn an_application_is_judged_exactly_by_allowances() {
        let loose = LoadLimitReport {
            judged_by: Some("responses"),
            ..limit("api", -1.0)
        };
        let text = lines(&report(vec![loose]), TOLERANCE, true).join("\n");
        assert!(
            text.contains("pass --allow [NAME=]LIMIT to judge exactly"),
            "{text}"
        );
        assert!(!text.contains("--config"), "{text}");
    }

    #[test]
    fn an_exceeded_limit_has_its_interval() {
        let mut report = report(vec![limit("api", 588.014)]);
        report.judge(TOLERANCE);
        let text = text(&report);
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

FAILED: a limit was exceeded
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_limit_that_held_has_its_margin() {
        let text = text(&report(vec![limit("api", -0.25)]));
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
        let text = text(&report);
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
