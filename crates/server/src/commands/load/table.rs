//! A report for people.

use std::fmt::Write as _;

use tollgate_load::{LimitReport, Report, RetryReport, Timeline, Worst};

use super::super::terminal::{Paint, Tone, plain};
use super::lines::{millis, number, sparkline, units};

pub(super) fn table(report: &Report, paint: Paint) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: &str| {
        let _infallible = writeln!(
            text,
            "{}  {value}",
            paint.tone(Tone::Name, &format!("{name:11}"))
        );
    };
    row("sent", &sent(report));
    row("answered", &answered(report));
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
            let [answered, allowed, errors] =
                [replica.answered, replica.allowed, replica.errors].map(number);
            row(
                "replica",
                &format!(
                    "{}: {answered} answered, {allowed} allowed, {errors} errors",
                    replica.url
                ),
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

fn answered(report: &Report) -> String {
    let requests = report.requests;
    let [answered, allowed, denied] =
        [requests.answered, requests.allowed, requests.denied].map(number);
    let mut text = format!(
        "{answered}, {:.0}/s: {allowed} allowed, {denied} denied",
        report.answered_per_s
    );
    for (name, count) in [("degraded", requests.degraded), ("errors", requests.errors)] {
        let _infallible = write!(text, ", {} {name}", number(count));
    }
    text
}

fn curves(timeline: &Timeline, row: &mut impl FnMut(&str, &str)) {
    let step = millis(micros(timeline.step_s));
    let largest = |values: &[u64]| values.iter().copied().max().unwrap_or_default();
    let of = |values: &[u64]| {
        format!(
            "|{}| up to {} in {step}",
            sparkline(values),
            number(largest(values))
        )
    };
    row(
        "  p99",
        &format!(
            "|{}| up to {}",
            sparkline(&timeline.p99_us),
            millis(largest(&timeline.p99_us))
        ),
    );
    row("  allowed", &of(&timeline.allowed));
    row("  denied", &of(&timeline.denied));
    if largest(&timeline.errors) > 0 {
        row("  errors", &of(&timeline.errors));
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a step is a part of a load"
)]
fn micros(seconds: f64) -> u64 {
    (seconds * 1e6) as u64
}

fn retries(retries: RetryReport) -> String {
    let RetryReport {
        tried,
        kept,
        early,
        long,
        skipped,
    } = retries;
    let skipped = if skipped > 0 {
        format!("; {skipped} told longer than --retry-for")
    } else {
        String::new()
    };
    if tried == 0 {
        return format!("none tried{skipped}");
    }
    let early = if early > 0 {
        format!(", {early} refused once more (told too early)")
    } else {
        String::new()
    };
    let long = if long > 0 {
        format!(", {long} told longer than needed")
    } else {
        String::new()
    };
    format!("{kept} of {tried} passed at the time told{early}{long}{skipped}")
}

/// `api  EXCEEDED by 99.5: 200 admitted ..`, with what it was judged by below.
fn verdict(limit: &LimitReport, paint: Paint, text: &mut String) {
    let name = paint.tone(Tone::Name, &plain(&limit.name));
    let keys = if limit.keys == 1 {
        "1 key".to_owned()
    } else {
        format!("{} keys", number(limit.keys as u64))
    };
    let admitted = number(limit.admitted);
    let said = match &limit.worst {
        Some(worst) if limit.exceeded => {
            let over = format!("EXCEEDED by {}", units(worst.over));
            format!("{}: {}", paint.tone(Tone::Bad, &over), interval(worst))
        }
        Some(worst) => {
            let closest = format!(
                "closest with {} to spare: {}",
                units(-worst.over),
                interval(worst)
            );
            format!(
                "{}, {admitted} admitted, {keys}; {closest}",
                paint.tone(Tone::Good, "held")
            )
        }
        None => format!(
            "{}, {admitted} admitted",
            paint.tone(Tone::Careful, "not judged")
        ),
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
        aside(format!(
            "{count} were admitted by its failure policy, which is not held against it"
        ));
    }
    if let Some(reason) = &limit.not_judged {
        aside(format!("not judged: {}", plain(reason)));
    }
}

fn interval(worst: &Worst) -> String {
    let Worst {
        key,
        from_s,
        to_s,
        admitted,
        ..
    } = worst;
    format!(
        "{} from {from_s:.3}s to {to_s:.3}s for {}",
        number(*admitted),
        plain(key)
    )
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
        let [timeout, connection, answer] =
            [errors.timeout, errors.connection, errors.answer].map(number);
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
    if report
        .limits
        .iter()
        .any(|limit| limit.judged_by == Some("answers"))
    {
        notes.push(
            "judged loosely, by what answers say of limits; --config FILE judges by what they are"
                .to_owned(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use tollgate_load::{Errors, Generator, Latency, ReplicaReport, Requests};

    use super::*;

    fn limit(name: &str, over: f64) -> LimitReport {
        let key = "tenant=key-0\x1b".to_owned();
        LimitReport {
            name: name.to_owned(),
            admitted: 1_200,
            admitted_by_policy: 0,
            keys: 1,
            allowed: Some("600 at once and 600 every 1m".to_owned()),
            judged_by: Some("configuration"),
            exceeded: over > 0.0,
            worst: Some(Worst {
                key,
                from_s: 0.0,
                to_s: 1.1987,
                admitted: 1_200,
                over,
            }),
            not_judged: None,
        }
    }

    fn report(limits: Vec<LimitReport>) -> Report {
        let requests = Requests {
            due: 2_000,
            sent: 2_000,
            answered: 2_000,
            allowed: 1_200,
            denied: 800,
            ..Requests::default()
        };
        let steps = |first, second| vec![first, second];
        let (allowed, denied) = (steps(1_000, 200), steps(0, 800));
        Report {
            duration_s: 2.0,
            ended_early: false,
            requests,
            answered_per_s: 1_000.4,
            latency_us: Some(Latency {
                p50: 120,
                p90: 200,
                p99: 3_770,
                p999: 7_090,
                max: 11_900,
                mean: 1.0,
            }),
            errors: Errors::default(),
            generator: Generator {
                kept_up: true,
                ..Generator::default()
            },
            replicas: vec![ReplicaReport {
                url: "http://h:1".to_owned(),
                answered: 2_000,
                allowed: 1_200,
                errors: 0,
            }],
            limits,
            not_followed: 0,
            retry_after: RetryReport::default(),
            timeline: Timeline {
                step_s: 1.0,
                allowed,
                denied,
                errors: steps(0, 0),
                p99_us: steps(100, 800),
            },
        }
    }

    #[test]
    fn a_limit_that_was_exceeded_is_told_with_its_interval() {
        let text = table(&report(vec![limit("api", 588.014)]), Paint::off());
        let expected = "\
sent         2,000 of 2,000 due in 2.0s
answered     2,000, 1000/s: 1,200 allowed, 800 denied, 0 degraded, 0 errors
latency      p50 0.12ms  p90 0.20ms  p99 3.77ms  p99.9 7.09ms  max 11.9ms
  p99        |▁█| up to 0.80ms
  allowed    |█▂| up to 1,000 in 1.00s
  denied     | █| up to 800 in 1.00s
retry-after  none tried

api  EXCEEDED by 588.01: 1,200 from 0.000s to 1.199s for tenant=key-0\\u{1b}
  1,200 admitted in all, 1 key
  allows 600 at once and 600 every 1m
";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_held_says_how_near_it_came() {
        let text = table(&report(vec![limit("api", -0.25)]), Paint::off());
        assert!(
            text.contains(
                "api  held, 1,200 admitted, 1 key; closest with 0.25 to spare: 1,200 from 0.000s"
            ),
            "{text}"
        );
    }

    #[test]
    fn what_one_should_know_is_told() {
        let unjudged = LimitReport {
            worst: None,
            not_judged: Some("why".to_owned()),
            admitted_by_policy: 7,
            ..limit("api", 0.0)
        };
        let answers = LimitReport {
            judged_by: Some("answers"),
            ..limit("other", -1.0)
        };
        let mut report = report(vec![unjudged, answers]);
        (
            report.not_followed,
            report.ended_early,
            report.requests.unsent,
        ) = (3, true, 9);
        report.generator = Generator {
            behind: 5,
            behind_max_us: 20_000,
            waited: 6,
            kept_up: false,
        };
        report.errors = Errors {
            timeout: 1,
            connection: 2,
            answer: 3,
            first: Some("broken".to_owned()),
        };
        report.retry_after = RetryReport {
            tried: 9,
            kept: 7,
            early: 2,
            long: 1,
            skipped: 4,
        };
        report.replicas.push(report.replicas[0].clone());
        let text = table(&report, Paint::off());
        for told in [
            "9 unsent, ended early",
            "api  not judged, 1,200 admitted",
            "  not judged: why",
            "  7 were admitted by its failure policy",
            "the load did not keep up: this machine was late for 5 (by up to 20.0ms), 6 waited for a free connection, 9 were",
            "errors: 1 too late, 2 of connections, 3 without a decision; the first: broken",
            "3 admissions are of keys beyond",
            "--config FILE judges by what they are",
            "7 of 9 passed at the time told, 2 refused once more (told too early), 1 told longer than needed; 4 told longer",
            "replica      http://h:1: 2,000 answered, 1,200 allowed, 0 errors",
        ] {
            assert!(text.contains(told), "{told}: {text}");
        }
    }
}
