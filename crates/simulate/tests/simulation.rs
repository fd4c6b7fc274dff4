//! Replays whole logs and compares the counts, comparisons and suggestions with a slow and obvious
//! computation.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::io::Cursor;

use proptest::prelude::*;
use testkit::dice::Dice;
use tollgate_rules::Config;
use tollgate_simulate::{
    AccessLogFormat, ConfigReplay, ConfigReport, LogFields, LogInput, LogParser, ReplayRequest,
    ReportLabels, Simulation, SimulationPlan, SimulationReport, SuggestionRange,
};

fn config(yaml: &str) -> Config {
    let parsed = Config::parse(yaml, "test.yaml", &|_| None);
    parsed
        .map_err(|faults| faults.to_string())
        .expect("a right configuration")
}

fn input(log: &[u8]) -> LogInput {
    LogInput::new(Cursor::new(log.to_vec()), None).expect("memory can be read")
}

fn labels() -> ReportLabels {
    ReportLabels {
        config: "first.yaml".to_owned(),
        against: "second.yaml".to_owned(),
        logs: vec!["access.log".to_owned()],
        top: 3,
        format_quota: |quota| format!("{} of something", quota.limit()),
    }
}

fn simulated(
    log: &[u8],
    config: &Config,
    against: Option<&Config>,
    suggest: bool,
) -> SimulationReport {
    let plan = SimulationPlan {
        config,
        against,
        format: AccessLogFormat::Auto,
        fields: &[],
        logged_at: None,
        suggest: suggest.then_some(SuggestionRange::UpToKnee),
    };
    let mut simulation = Simulation::new(&plan).expect("no fields are given");
    simulation
        .replay(&mut input(log), &mut |_| {})
        .expect("memory can be read");
    let mut trials = simulation.trials();
    if let Some(trials) = &mut trials {
        trials
            .replay(&mut input(log), &mut |_| {})
            .expect("memory can be read");
    }
    simulation.report(&labels(), trials.as_mut())
}

/// Requests of some clients over some minutes, in the common format.
fn log(seed: u64, lines: u64) -> String {
    let (mut dice, mut log, mut secs) = (Dice::new(seed), String::new(), 0);
    for _ in 0..lines {
        secs += dice.below(2);
        let (client, path) = (dice.below(6), dice.one_of(&["/a", "/b"]));
        let client = client * dice.below(2);
        let (minute, second) = (secs / 60 % 60, secs % 60);
        let _infallible = writeln!(
            log,
            r#"203.0.113.{client} - - [10/Oct/2026:13:{minute:02}:{second:02} +0000] "GET {path} HTTP/1.1" 200 1"#
        );
    }
    log
}

const MINUTELY: &str = "
limits:
  - { name: all, key: [], algorithm: fixed_window, align: clock, limit: 60, window: 1m, shadow: true }
  - { name: client, match: { path: /a }, key: [client_ip], algorithm: fixed_window, align: clock, limit: 5, window: 1m }
";

/// Clock windows can be counted by hand: in every minute, all requests above the limit are denied.
#[test]
fn counts_match_a_count_by_hand() {
    let log = log(1, 600);
    let report = simulated(log.as_bytes(), &config(MINUTELY), None, false);
    let (mut all, mut clients) = (
        HashMap::<&str, u64>::new(),
        HashMap::<(&str, &str), u64>::new(),
    );
    let (mut denied, mut denied_keys) = ([0, 0], HashMap::<&str, u64>::new());
    for line in log.lines() {
        let client = line.split(' ').next().expect("an address");
        let minute = &line[line.find("13:").expect("a time")..][..5];
        let is_met = line.contains("\"GET /a ");
        let used = clients.entry((client, minute)).or_default();
        let is_denied = is_met && *used >= 5;
        *used += u64::from(is_met && !is_denied);
        denied[1] += u64::from(is_denied);
        *denied_keys.entry(client).or_default() += u64::from(is_denied);
        // A request that another limit denies is not charged here, but still has an outcome.
        let used = all.entry(minute).or_default();
        let is_over = *used >= 60;
        denied[0] += u64::from(is_over);
        *used += u64::from(!is_denied && !is_over);
    }
    let ConfigReport {
        allowed,
        denied: requests,
        limits,
        ..
    } = &report.configuration;
    assert_eq!((limits[0].denied, limits[1].denied), (denied[0], denied[1]));
    assert!(
        denied[0] > 0 && denied[1] > 0,
        "{denied:?}: nothing to compare"
    );
    assert_eq!((*allowed, *requests), (600 - denied[1], denied[1]));
    denied_keys.retain(|_, denied| *denied > 0);
    assert_eq!(limits[1].keys_denied, denied_keys.len() as u64);
    let most = denied_keys
        .iter()
        .max_by_key(|(_, denied)| **denied)
        .expect("a denied key");
    assert_eq!(
        (&limits[1].top_keys[0].key, limits[1].top_keys[0].denied),
        (&format!("client_ip={}", most.0), *most.1)
    );
    for series in &report.timeline.series {
        let of_limit = series
            .limit
            .as_ref()
            .map_or(denied[1], |name| denied[usize::from(name == "client")]);
        assert_eq!(
            series.denied.iter().sum::<u64>(),
            of_limit,
            "{:?}",
            series.limit
        );
    }
}

const OTHER: &str = "
limits:
  - { name: client, key: [client_ip], algorithm: sliding_log, limit: 12, window: 30s }
  - { name: bucket, match: { path: /b }, key: [client_ip], algorithm: token_bucket, capacity: 3, refill_rate: 10/minute }
";

/// The comparison equals two separate replays.
#[test]
fn a_comparison_matches_two_replays() {
    let (log, first, second) = (log(2, 800), config(MINUTELY), config(OTHER));
    let comparison = simulated(log.as_bytes(), &first, Some(&second), false)
        .comparison
        .expect("two were given");
    let denied = |config: &Config| {
        let parser = LogParser::new(
            AccessLogFormat::Auto,
            LogFields::new([], &[]).expect("no fields are given"),
        );
        let requests = log.lines().zip(1..).map(|(text, line)| {
            let attributes = parser.parse(text.as_bytes()).expect("a line of ours");
            ReplayRequest {
                at: attributes.time(),
                duration: None,
                attributes,
                line,
            }
        });
        let mut all = Vec::new();
        // One at a time, as the batches are what is tested.
        let mut replay = ConfigReplay::new(config);
        for request in requests {
            replay.decide(&[request], |_, result| {
                let decision = result.expect("a request that fits");
                let both = decision.limits.iter().zip(decision.outcomes);
                let by = both.filter(|(_, outcome)| !outcome.verdict.is_allowed());
                let by = by.map(|(chosen, _)| chosen.limit.name().to_string());
                all.push((!decision.is_allowed, by.collect::<HashSet<_>>()));
            });
        }
        all
    };
    let (one, other) = (denied(&first), denied(&second));
    let count =
        |is_so: &dyn Fn(usize) -> bool| (0..one.len()).filter(|at| is_so(*at)).count() as u64;
    assert_eq!(
        comparison.denials.only_configuration,
        count(&|at| one[at].0 && !other[at].0)
    );
    assert_eq!(
        comparison.denials.only_against,
        count(&|at| !one[at].0 && other[at].0)
    );
    assert_eq!(
        comparison.denials.both,
        count(&|at| one[at].0 && other[at].0)
    );
    let names: Vec<&str> = comparison
        .limits
        .iter()
        .map(|limit| limit.name.as_str())
        .collect();
    assert_eq!(names, ["all", "client", "bucket"]);
    for limit in &comparison.limits {
        let by = |side: &[(bool, HashSet<String>)], at: usize| side[at].1.contains(&limit.name);
        assert_eq!(
            limit.denials.only_configuration,
            count(&|at| by(&one, at) && !by(&other, at)),
            "{}",
            limit.name
        );
        assert_eq!(
            limit.denials.only_against,
            count(&|at| !by(&one, at) && by(&other, at)),
            "{}",
            limit.name
        );
        assert_eq!(
            limit.denials.both,
            count(&|at| by(&one, at) && by(&other, at)),
            "{}",
            limit.name
        );
    }
    let is_worth_it = comparison.denials.both > 0
        && comparison.limits[1].denials.both > 0
        && comparison.denials.only_against > 0;
    assert!(is_worth_it, "{comparison:?}: nothing to compare");
}

/// Raising one limit lets more requests through to be charged to another one, which then denies
/// more. The report says so.
#[test]
fn a_raised_limit_explains_why_another_denies_more() {
    let log = log(5, 400);
    let both = |login| {
        config(&format!(
            "limits:
               - {{ name: login, match: {{ path: /a }}, key: [client_ip], algorithm: fixed_window, limit: {login}, window: 1h }}
               - {{ name: all, key: [client_ip], algorithm: fixed_window, limit: 30, window: 1h }}"
        ))
    };
    let compared = |first: &Config, second: &Config| {
        let report = simulated(log.as_bytes(), first, Some(second), false);
        report.comparison.expect("two were given")
    };

    let raised = compared(&both(2), &both(20));
    let all = &raised.limits[1];
    assert!(all.denials.only_against > 0 && all.charged_only_against > 0);
    assert_eq!(raised.notes.len(), 1, "{:?}", raised.notes);
    assert!(
        raised.notes[0].starts_with("all denies ")
            && raised.notes[0].contains("although it is no stricter there"),
        "{:?}",
        raised.notes
    );
    // That a stricter limit denies more needs no explanation.
    let lowered = compared(&both(20), &both(2));
    assert!(
        lowered
            .notes
            .iter()
            .all(|note| note.starts_with("all denies "))
    );
    assert_eq!(compared(&both(2), &both(2)).notes, [""; 0]);
}

/// What is reported for a candidate is what a configuration with that limit does.
#[test]
fn suggestions_match_a_replay_with_that_limit() {
    let log = log(3, 700);
    for (numbers, field) in [
        ("algorithm: sliding_window, window: 1m", "limit"),
        ("algorithm: sliding_log, window: 1m", "limit"),
        ("algorithm: fixed_window, window: 1m", "limit"),
        ("algorithm: token_bucket, refill_rate: 6/minute", "capacity"),
        (
            "algorithm: leaky_bucket, mode: meter, leak_rate: 6/minute",
            "capacity",
        ),
        (
            "algorithm: leaky_bucket, mode: queue, leak_rate: 7/minute",
            "capacity",
        ),
    ] {
        let with = |size: u64| {
            config(&format!(
                "limits: [{{ name: client, key: [client_ip], {numbers}, {field}: {size} }}]"
            ))
        };
        let suggestions = simulated(log.as_bytes(), &with(1), None, true)
            .suggestions
            .expect("it was asked for");
        let suggestion = &suggestions[0];
        assert_eq!(
            (suggestion.keys, suggestion.requests, suggestion.limit_now),
            (6, 700, 1)
        );
        for candidate in &suggestion.candidates {
            let real = simulated(log.as_bytes(), &with(candidate.limit), None, false);
            let limit = &real.configuration.limits[0];
            let reported = (candidate.denied, candidate.keys_denied);
            assert_eq!(
                reported,
                (Some(limit.denied), limit.keys_denied),
                "{numbers}: {candidate:?}"
            );
        }
        let denied = |place: usize| suggestion.candidates[place].denied;
        assert!(
            denied(0) > Some(0),
            "{numbers}: half of the keys use more than the median"
        );
        let most = suggestion.candidates.len() - 1;
        assert_eq!(
            denied(most),
            Some(0),
            "{numbers}: no key uses more than the most"
        );
        let less = simulated(
            log.as_bytes(),
            &with(suggestion.candidates[most].limit - 1),
            None,
            false,
        );
        assert!(
            less.configuration.limits[0].denied > 0,
            "{numbers}: one less denies something"
        );
    }
}

#[test]
fn missing_and_invalid_attributes_are_reported() {
    let config = config(
        "limits: [{ name: tenant, key: [tenant], algorithm: sliding_window, limit: 5, window: 1m },
                  { name: costly, key: [client_ip], algorithm: token_bucket, capacity: 5, refill_rate: 1/s, cost: { by: status, default: 1 } },
                  { name: places, key: [client_ip], algorithm: concurrency, limit: 5, permit_timeout: 1m }]",
    );
    let line = r#"203.0.113.7 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1""#;
    let log = format!("{line} 3 0\n{line} oops 0\n\n{line} 9 0\n");
    let report = simulated(log.as_bytes(), &config, None, false).configuration;
    assert_eq!(
        (report.allowed, report.denied, report.error_count()),
        (1, 1, 1)
    );
    assert_eq!(report.errors[0].line, 2);
    assert!(
        report.errors[0].message.contains("must be a whole number"),
        "{:?}",
        report.errors
    );
    assert_eq!(
        (report.limits[0].requests, report.limits[0].unkeyed),
        (0, 2),
        "one was never decided"
    );
    assert_eq!(report.notes.len(), 2, "{:?}", report.notes);
}

/// The simulator reads paths as the service does.
#[test]
fn every_spelling_of_a_path_is_counted_or_refused() {
    let line = |path: &str| {
        format!("203.0.113.7 - - [10/Oct/2026:13:55:36 +0000] \"POST {path} HTTP/1.1\" 200 1\n")
    };
    let paths = [
        "/auth/login",
        "/auth%2Flogin",
        "//x/auth/login",
        "http:///h/auth/login",
        "/free",
    ];
    let log: String = paths.map(line).concat();
    let limit = |policy| {
        config(&format!(
            "limits: [{{ name: login, match: {{ path: /auth/login }}, key: [client_ip], \
             algorithm: sliding_window, limit: 9, window: 1m, on_ambiguous_path: {policy} }}]"
        ))
    };

    let report = simulated(log.as_bytes(), &limit("match_any"), None, false).configuration;
    assert_eq!((report.limits[0].requests, report.errors.len()), (4, 0));
    let report = simulated(log.as_bytes(), &limit("refuse"), None, false).configuration;
    assert_eq!((report.limits[0].requests, report.errors[0].count), (1, 3));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any bytes in a log are counted, and the page shows them as text.
    #[test]
    fn no_bytes_make_a_simulation_panic(
        cut in any::<prop::sample::Index>(),
        noise in proptest::collection::vec(any::<u8>(), 0..200),
        path in "[ -~\u{e9}\u{202e}]{0,40}",
    ) {
        let json = serde_json::json!({ "time": 1_791_640_000_u64, "client_ip": path, "path": path, "user": path });
        let mut log = format!("{}{json}\n203.0.113.7 - {path} [10/Oct/2026:13:55:36 +0000] \"GET {path} HTTP/1.1\" 1 1\n", log(4, 3)).into_bytes();
        let at = cut.index(log.len());
        log.splice(at..at, noise);
        let first = config("limits: [{ name: user, key: [user, path], algorithm: sliding_window, limit: 1, window: 1m }]");
        let report = simulated(&log, &first, Some(&config(OTHER)), true);
        prop_assert_eq!(report.log.lines >= report.log.requests + report.log.bad_lines, true);
        let page = report.html();
        let is_plain = !page.contains("<script") && !page.contains('\u{202e}');
        prop_assert!(is_plain, "something foreign is on the page");
        prop_assert!(serde_json::to_string(&report).is_ok());
    }
}

/// A request on a list is not asked of its limit, and one that is blocked of no limit, as in the
/// service. A list denies even on a shadow limit.
#[test]
fn standing_lists_hold() {
    let lists = config(
        "limits:
          - { name: all, key: [], algorithm: fixed_window, limit: 3, window: 1m }
          - name: client
            key: [client_ip]
            algorithm: fixed_window
            limit: 1
            window: 1m
            shadow: true
            exempt: { networks: [203.0.113.0/30] }
            block: { keys: [{ client_ip: 203.0.113.2 }], networks: [203.0.113.128/25] }",
    );
    let mut log = String::new();
    for client in [1, 1, 2, 200, 2, 5, 5, 1] {
        let _infallible = writeln!(
            log,
            r#"203.0.113.{client} - - [10/Oct/2026:13:00:00 +0000] "GET / HTTP/1.1" 200 1"#
        );
    }
    let without = log.lines().filter(|line| !line.starts_with("203.0.113.2"));
    let without: Vec<&str> = without.collect();

    let report = simulated(log.as_bytes(), &lists, Some(&lists), true);
    let found = &report.configuration;
    let [all, client] = [&found.limits[0], &found.limits[1]];
    assert_eq!((found.allowed, found.denied), (3, 5));
    assert_eq!((all.requests, all.denied), (without.len() as u64, 2));
    assert_eq!((client.requests, client.blocked, client.exempt), (5, 3, 3));
    assert_eq!(client.denied, 4, "three by the list, one by the number");
    assert_eq!(
        found.notes,
        [
            "3 of the requests that client denied are on its list `block`",
            "client was not asked for 3 requests that are on its list `exempt`",
        ]
    );
    assert!(report.html().contains("on its list `block`"));

    let suggestions = report.suggestions.expect("it was asked for");
    let requests: Vec<u64> = suggestions.iter().map(|limit| limit.requests).collect();
    assert_eq!(requests, [5, 2], "nothing that a list decides uses a limit");
    let comparison = report.comparison.expect("it was asked for");
    assert_eq!(comparison.limits[1].denials.both, 4);
}
