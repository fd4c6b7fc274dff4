//! Checks suggested limits against replays: the peak usage of a key is the smallest limit that
//! denies it nothing, for every algorithm, and concurrency limits hold permits as long as requests
//! took.

use std::fmt::Write as _;
use std::io::Cursor;

use proptest::prelude::*;
use tollgate_rules::Config;
use tollgate_simulate::{
    AccessLogFormat, LimitSuggestion, LogInput, LoggedMoment, ReportLabels, Simulation,
    SimulationPlan, SimulationReport, SuggestionRange,
};

/// Every algorithm, with the name of its limit.
const ALGORITHMS: [(&str, &str); 8] = [
    ("fixed_window, window: 20s", "limit"),
    ("fixed_window, align: clock, window: 1m", "limit"),
    ("sliding_window, window: 20s", "limit"),
    ("sliding_log, window: 20s", "limit"),
    ("token_bucket, refill_rate: 7/minute", "capacity"),
    (
        "leaky_bucket, mode: meter, leak_rate: 11/minute",
        "capacity",
    ),
    (
        "leaky_bucket, mode: queue, leak_rate: 13/minute",
        "capacity",
    ),
    ("concurrency, permit_timeout: 8s", "limit"),
];

fn config(algorithm: &str, field: &str, limit: u64) -> Config {
    let yaml = format!(
        "limits: [{{ name: client, key: [client_ip], algorithm: {algorithm}, {field}: {limit}, \
         cost: {{ by: pages, default: 1 }} }}]"
    );
    let parsed = Config::parse(&yaml, "test.yaml", &|_| None);
    parsed
        .map_err(|error| error.to_string())
        .expect("a valid configuration")
}

fn simulate(
    log: &str,
    config: &Config,
    suggest: Option<SuggestionRange>,
    logged_at: Option<LoggedMoment>,
) -> SimulationReport {
    let mut simulation = Simulation::new(&SimulationPlan {
        config,
        against: None,
        format: AccessLogFormat::Auto,
        fields: &[],
        logged_at,
        suggest,
    })
    .expect("no fields are given");
    let input = || LogInput::new(Cursor::new(log.to_owned()), None).expect("memory can be read");
    simulation
        .replay(&mut input(), &mut |_| {})
        .expect("memory can be read");
    let mut trials = simulation.trials();
    if let Some(trials) = &mut trials {
        trials
            .replay(&mut input(), &mut |_| {})
            .expect("memory can be read");
    }

    let labels = ReportLabels {
        config: "first.yaml".to_owned(),
        against: String::new(),
        logs: vec!["access.log".to_owned()],
        top: 3,
        format_quota: |quota| quota.limit().to_string(),
    };
    simulation.report(&labels, trials.as_mut())
}

fn suggested(log: &str, config: &Config) -> LimitSuggestion {
    let report = simulate(log, config, Some(SuggestionRange::UpToKnee), None);
    let suggestions = report.suggestions.expect("it was asked for");
    suggestions.into_iter().next().expect("one limit")
}

fn denied(log: &str, config: &Config) -> u64 {
    simulate(log, config, None, None).configuration.limits[0].denied
}

/// A log of JSON lines from millisecond offsets, costs and durations in milliseconds.
fn json_log(requests: &[(u64, u64, u64)]) -> String {
    let (mut log, mut at) = (String::new(), 1_791_640_000_000);
    for (after, cost, duration) in requests {
        at += after;
        let (secs, millis) = (at / 1_000, at % 1_000);
        let _infallible = writeln!(
            log,
            r#"{{"time":{secs}.{millis:03},"client_ip":"203.0.113.7","pages":{cost},"duration_ms":{duration}}}"#
        );
    }
    log
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The peak usage of a key denies nothing as a limit, and every lower limit denies something.
    #[test]
    fn the_peak_is_the_smallest_limit_that_denies_nothing(
        requests in proptest::collection::vec((0..6_000_u64, 0..4_u64, 0..12_000_u64), 1..60),
    ) {
        let log = json_log(&requests);
        for (algorithm, field) in ALGORITHMS {
            let found = suggested(&log, &config(algorithm, field, 1));
            let peak = found.candidates.last().expect("a key was seen");
            prop_assert_eq!(peak.percentile, "max");
            prop_assert_eq!(peak.denied, Some(0), "{} {}", algorithm, peak.limit);
            prop_assert_eq!(denied(&log, &config(algorithm, field, peak.limit)), 0);
            for lower in 1..peak.limit {
                prop_assert!(
                    denied(&log, &config(algorithm, field, lower)) > 0,
                    "{} of {} denies nothing, but the peak is {}", algorithm, lower, peak.limit
                );
            }
        }
    }
}

/// Algorithms that can have a lockout, with the name of their limit.
const LOCKABLE: [(&str, &str); 6] = [
    ALGORITHMS[0],
    ALGORITHMS[1],
    ALGORITHMS[2],
    ALGORITHMS[3],
    ALGORITHMS[4],
    ALGORITHMS[5],
];

/// A log of JSON lines from millisecond offsets and clients.
fn client_log(requests: &[(u64, u8)]) -> String {
    let (mut log, mut at) = (String::new(), 1_791_640_000_000);
    for (after, client) in requests {
        at += after;
        let (secs, millis) = (at / 1_000, at % 1_000);
        let _infallible = writeln!(
            log,
            r#"{{"time":{secs}.{millis:03},"client_ip":"203.0.113.{client}"}}"#
        );
    }
    log
}

fn locking_config(algorithm: &str, field: &str, limit: u64) -> Config {
    let yaml = format!(
        "limits: [{{ name: client, key: [client_ip], algorithm: {algorithm}, {field}: {limit}, \
         lockout: {{ after: 2, within: 30s, for: 15s, factor: 2, max: 60s }}, \
         exempt: {{ keys: [{{ client_ip: 203.0.113.1 }}] }}, \
         block: {{ keys: [{{ client_ip: 203.0.113.2 }}] }} }}]"
    );
    let parsed = Config::parse(&yaml, "test.yaml", &|_| None);
    parsed
        .map_err(|error| error.to_string())
        .expect("a valid configuration")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// What is printed for a value is what a replay with that value denies: with the lockout of the
    /// limit, and without the requests on its lists.
    #[test]
    fn a_trial_denies_what_a_replay_denies(
        requests in proptest::collection::vec((0..4_000_u64, 1..6_u8), 1..120),
    ) {
        let log = client_log(&requests);
        for (algorithm, field) in LOCKABLE {
            let found = suggested(&log, &locking_config(algorithm, field, 1));
            let count = |client: u8| {
                requests.iter().filter(|request| request.1 == client).count() as u64
            };
            prop_assert_eq!(found.requests, requests.len() as u64 - count(1) - count(2));
            for candidate in &found.candidates {
                let replayed = locking_config(algorithm, field, candidate.limit);
                let report = simulate(&log, &replayed, None, None);
                let limit = &report.configuration.limits[0];
                prop_assert_eq!((limit.exempt, limit.blocked), (count(1), count(2)));
                prop_assert_eq!(
                    candidate.denied,
                    Some(limit.denied - limit.blocked),
                    "{} {}", algorithm, candidate.limit
                );
            }
        }
    }
}

/// A log counts every request in any interval, a window estimates. Measured as a window, this key
/// would need 53.
#[test]
fn a_sliding_log_is_measured_as_a_log() {
    // 53 requests at the end of one window and 2 in the next.
    let mut requests = vec![(15_000, 1, 0)];
    requests.extend([(0, 1, 0); 52]);
    requests.extend([(25_000, 1, 0), (0, 1, 0)]);
    let log = json_log(&requests);

    let peak = |algorithm| {
        let found = suggested(&log, &config(algorithm, "limit", 1));
        let last = found.candidates.last().expect("a key was seen").clone();
        (last.limit, last.denied)
    };
    assert_eq!(peak("sliding_log, window: 1m"), (55, Some(0)));
    assert_ne!(peak("sliding_window, window: 1m").0, 55);
}

/// A line of nginx with `$request_time`, by the seconds of its end.
fn nginx_line(client: u8, end: u64, took: &str) -> String {
    let (minute, second) = (end / 60, end % 60);
    format!(
        "203.0.113.{client} - - [10/Oct/2026:13:{minute:02}:{second:02} +0000] \
         \"GET /export HTTP/1.1\" 200 512 \"-\" \"0.001\" {took}\n"
    )
}

const TWO_AT_ONCE: &str = "concurrency, permit_timeout: 5m";

/// Three requests overlap although the slow ones are logged last, as they end last.
#[test]
fn permits_are_held_from_start_to_end() {
    let log = [
        nginx_line(7, 12, "2.000"),
        nginx_line(7, 40, "31.000"),
        nginx_line(7, 41, "30.500"),
        nginx_line(7, 42, "1.000"),
    ]
    .concat();
    let two = config(TWO_AT_ONCE, "limit", 2);
    let report = simulate(&log, &two, None, None).configuration;
    assert_eq!((report.limits[0].requests, report.limits[0].denied), (4, 1));
    assert_eq!(report.notes, [""; 0]);
    let denied_at = report.limits[0].first_denial.as_deref();
    assert_eq!(denied_at, Some("2026-10-10T13:00:10Z"));
    assert_eq!(suggested(&log, &two).suggested, Some(3));

    // If the times are starts, the two slow ones and the last one overlap.
    let report = simulate(&log, &two, None, Some(LoggedMoment::Start)).configuration;
    let denied_at = report.limits[0].first_denial.as_deref();
    assert_eq!(denied_at, Some("2026-10-10T13:00:42Z"));
}

#[test]
fn a_request_of_minutes_is_held_until_its_end() {
    let log = [
        nginx_line(8, 10, "1.000"),
        nginx_line(7, 80, "0.100"),
        nginx_line(7, 200, "195.000"),
        nginx_line(7, 199, "0.100"),
        nginx_line(7, 201, "0.100"),
    ]
    .concat();
    let one = config(TWO_AT_ONCE, "limit", 1);
    let report = simulate(&log, &one, None, None);
    assert_eq!(report.configuration.limits[0].denied, 2);
    assert_eq!(
        report.log.late_lines, 1,
        "it began before a line already replayed"
    );
}

#[test]
fn a_log_without_durations_says_why_concurrency_is_not_replayed() {
    let log = "203.0.113.7 - - [10/Oct/2026:13:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n";
    let report = simulate(log, &config(TWO_AT_ONCE, "limit", 1), None, None).configuration;
    assert_eq!(
        (report.limits[0].requests, report.limits[0].untimed),
        (0, 1)
    );
    assert!(
        report.notes[0].contains("no line says how long its request took"),
        "{:?}",
        report.notes
    );

    let mixed = format!("{log}{}", nginx_line(7, 30, "0.100"));
    let report = simulate(&mixed, &config(TWO_AT_ONCE, "limit", 1), None, None).configuration;
    assert_eq!(report.limits[0].requests, 1);
    assert!(
        report.notes[0].contains("skipped for 1"),
        "{:?}",
        report.notes
    );
}

/// Every server has its own name and unit for how long a request took.
#[test]
fn durations_of_every_server_are_read() {
    let request = r#""client_ip":"203.0.113.7","path":"/""#;
    for line in [
        format!(r#"{{"time":"2026-10-10T13:00:10Z",{request},"request_time":"4.000"}}"#),
        format!(r#"{{"ts":1791637210.0,{request},"duration":4.0}}"#),
        format!(r#"{{"start_time":"2026-10-10T13:00:06Z",{request},"duration":4000}}"#),
        format!(
            r#"{{"StartUTC":"2026-10-10T13:00:06Z","RequestMethod":"GET",{request},"Duration":4000000000}}"#
        ),
        format!(r#"{{"time":"2026-10-10T13:00:10Z",{request},"latency":"4s"}}"#),
        nginx_line(7, 10, "rt=4.000 uct=0.000"),
        nginx_line(7, 10, "duration=4000ms"),
    ] {
        // The second one starts one second before the first one ends.
        let log = format!("{line}\n{}", nginx_line(7, 10, "1.000"));
        let report = simulate(&log, &config(TWO_AT_ONCE, "limit", 1), None, None);
        let limit = &report.configuration.limits[0];
        assert_eq!((limit.requests, limit.denied), (2, 1), "{line}");
        assert_eq!(
            report.log.from.as_deref(),
            Some("2026-10-10T13:00:06Z"),
            "{line}"
        );
    }
}

const LOGIN: &str = "sliding_window, window: 15m";

/// The log of an attack: 2,081 visitors who log in once or twice, and 40 attackers.
fn attack() -> String {
    let mut log = String::new();
    for client in 0..2_121_u32 {
        let times = if client < 40 { 48 } else { 1 + client % 2 };
        for _ in 0..times {
            let [_, _, high, low] = client.to_be_bytes();
            let _infallible = writeln!(
                log,
                "10.0.{high}.{low} - - [10/Oct/2026:13:00:00 +0000] \"POST /login HTTP/1.1\" 401 5"
            );
        }
    }
    log
}

/// The percentiles of an attacked limit are those of the attackers. They are named, and what they
/// use is suggested only on request.
#[test]
fn attackers_do_not_raise_the_suggestion() {
    let (log, five) = (attack(), config(LOGIN, "limit", 5));
    let found = suggested(&log, &five);
    assert_eq!(found.suggested, Some(2), "{found:?}");
    let knee = found.knee.as_ref().expect("a knee");
    assert_eq!((knee.below, knee.above, knee.keys_above), (2, 48, 40));
    let named: Vec<_> = knee
        .top_keys
        .iter()
        .map(|key| (key.key.as_str(), key.peak))
        .collect();
    assert_eq!(named[0], ("client_ip=10.0.0.0", 48));
    assert_eq!(named.len(), 3);
    let rises: Vec<_> = found
        .candidates
        .windows(2)
        .map(|pair| pair[1].growth(Some(&pair[0])).unwrap_or_default())
        .collect();
    assert_eq!(rises, ["", "", "\u{d7}24", "", ""]);

    // What the report says about the suggestion is what a replay with it does.
    let chosen = found
        .candidates
        .iter()
        .find(|candidate| candidate.suggested);
    let chosen = chosen.expect("one is suggested");
    let replay = simulate(&log, &config(LOGIN, "limit", 2), None, None).configuration;
    assert_eq!(
        (chosen.denied, chosen.keys_denied),
        (Some(replay.limits[0].denied), replay.limits[0].keys_denied)
    );
    assert_eq!(chosen.keys_denied, 40);

    let asked = simulate(&log, &five, Some(SuggestionRange::BeyondKnee), None);
    let asked = asked.suggestions.expect("it was asked for");
    assert_eq!(asked[0].suggested, Some(48));
    assert!(
        asked[0]
            .notes
            .iter()
            .any(|note| note.contains("beyond the knee at 2"))
    );
}
