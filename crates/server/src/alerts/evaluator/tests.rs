//! Alerts over counts and times that the tests set.

use std::time::Duration;

use tollgate_rules::Config;

use super::*;

/// A service whose counters and clock are set by hand.
struct AlertScene {
    evaluator: AlertEvaluator,
    thresholds: MonitoringConfig,
    now: u64,
    outcomes: BTreeMap<Arc<str>, OutcomeCounts>,
    durations: Vec<(u64, Duration)>,
    degraded_since: Option<Micros>,
    differ_since: Option<Micros>,
    evictions: BTreeMap<Option<Arc<str>>, u64>,
}

impl AlertScene {
    fn new(deny_ratio: Option<f64>, latency_p99: Option<u64>) -> Self {
        let mut scene = Self {
            evaluator: AlertEvaluator::default(),
            thresholds: MonitoringConfig {
                deny_ratio,
                latency_p99: latency_p99.map(Duration::from_millis),
                ..Config::built_in().monitoring
            },
            now: 0,
            outcomes: BTreeMap::new(),
            durations: Vec::new(),
            degraded_since: None,
            differ_since: None,
            evictions: BTreeMap::new(),
        };
        scene.count("api", 0, 0, 0);
        assert_eq!(scene.evaluate_after(0), [""; 0]);
        scene
    }

    fn count(&mut self, limit: &str, allowed: u64, denied: u64, shadow_denied: u64) {
        let outcomes = self.outcomes.entry(limit.into()).or_default();
        outcomes.allowed += allowed;
        outcomes.denied += denied;
        outcomes.shadow_denied += shadow_denied;
    }

    /// The changes after some seconds: `+` (fired) or `-` (resolved), the alert and its limit.
    fn evaluate_after(&mut self, seconds: u64) -> Vec<String> {
        self.now += seconds;
        let sample = AlertSample {
            at: Micros::from_secs(self.now),
            outcomes: self.outcomes.clone(),
            durations: DurationBuckets::from_durations(&self.durations),
            degraded_since: self.degraded_since,
            differ_since: self.differ_since,
            evictions: self.evictions.clone(),
        };
        let changed = self.evaluator.evaluate(sample, &self.thresholds);
        let shown = |state: &AlertState| {
            let sign = if state.since.is_some() { '+' } else { '-' };
            let limit = state.limit.as_deref().unwrap_or_default();
            format!("{sign}{} {limit}", state.alert.as_str())
        };
        changed.iter().map(shown).collect()
    }

    fn firing(&self) -> Vec<&AlertState> {
        self.evaluator
            .states()
            .filter(|state| state.since.is_some())
            .collect()
    }
}

#[test]
fn an_alert_fires_once_and_is_resolved_once() {
    let mut scene = AlertScene::new(Some(0.8), None);
    scene.count("api", 5, 95, 0);
    scene.count("other", 100, 10, 0);
    assert_eq!(scene.evaluate_after(2), ["+deny_ratio api"]);
    scene.count("api", 0, 50, 0);
    assert_eq!(scene.evaluate_after(2), [""; 0], "it fires already");
    let firing = scene.firing();
    assert_eq!(
        (firing.len(), firing[0].since),
        (1, Some(Micros::from_secs(2)))
    );
    assert!(
        firing[0]
            .value
            .is_some_and(|value| (value - 145.0 / 150.0).abs() < 1e-9)
    );

    scene.count("api", 100, 0, 0);
    assert_eq!(scene.evaluate_after(2), ["-deny_ratio api"]);
    assert_eq!(scene.evaluate_after(2), [""; 0]);
    assert!(scene.firing().is_empty());
    assert_eq!(
        scene.evaluator.states().count(),
        2,
        "alerts that do not fire have a state too"
    );
}

#[test]
fn counts_older_than_a_minute_are_left_out() {
    let mut scene = AlertScene::new(Some(0.5), None);
    scene.count("api", 0, 30, 0);
    assert_eq!(scene.evaluate_after(2), ["+deny_ratio api"]);
    for _ in 0..29 {
        assert_eq!(scene.evaluate_after(2), [""; 0], "at {}", scene.now);
    }
    // Sixty seconds after the sample with the denials there were no others.
    assert_eq!(scene.evaluate_after(2), ["-deny_ratio api"]);
    assert!(scene.evaluator.samples.len() <= 32);
}

#[test]
fn too_few_requests_are_not_evaluated() {
    let mut scene = AlertScene::new(Some(0.5), Some(10));
    scene.count("api", 0, 19, 0);
    scene.durations.push((99, Duration::from_secs(1)));
    assert_eq!(scene.evaluate_after(2), [""; 0]);
    assert!(scene.evaluator.states().all(|state| state.value.is_none()));
    scene.count("api", 0, 1, 0);
    scene.durations.push((1, Duration::from_secs(1)));
    assert_eq!(
        scene.evaluate_after(2),
        ["+deny_ratio api", "+latency_p99 "]
    );
}

#[test]
fn a_deny_ratio_fires_when_it_reaches_its_threshold() {
    let mut scene = AlertScene::new(Some(0.8), None);
    scene.count("api", 20, 79, 0);
    assert_eq!(scene.evaluate_after(2), [""; 0]);
    scene.count("api", 0, 1, 0);
    assert_eq!(scene.evaluate_after(2), ["+deny_ratio api"], "80 of 100");
}

#[test]
fn shadow_denials_do_not_count() {
    let mut scene = AlertScene::new(Some(0.1), None);
    scene.count("api", 0, 0, 1_000);
    assert_eq!(scene.evaluate_after(2), [""; 0]);
}

#[test]
fn more_than_one_slow_decision_in_a_hundred_fires() {
    let mut scene = AlertScene::new(None, Some(10));
    scene.durations.push((10_000, Duration::from_secs(1)));
    // Decisions before the first sample do not count.
    let mut scene = AlertScene {
        evaluator: AlertEvaluator::default(),
        ..scene
    };
    assert_eq!(scene.evaluate_after(2), [""; 0]);
    scene.durations.extend([
        (990, Duration::from_millis(1)),
        (10, Duration::from_millis(50)),
    ]);
    assert_eq!(scene.evaluate_after(2), [""; 0]);
    scene.durations.push((5, Duration::from_millis(50)));
    assert_eq!(scene.evaluate_after(2), ["+latency_p99 "]);
    scene.durations.push((10_000, Duration::from_millis(1)));
    assert_eq!(scene.evaluate_after(2), ["-latency_p99 "]);
}

#[test]
fn an_alert_that_is_no_longer_configured_is_resolved() {
    let mut scene = AlertScene::new(Some(0.5), None);
    scene.count("api", 0, 100, 0);
    assert_eq!(scene.evaluate_after(2), ["+deny_ratio api"]);
    scene.thresholds.deny_ratio = None;
    assert_eq!(scene.evaluate_after(2), ["-deny_ratio api"]);
    assert_eq!(scene.evaluator.states().count(), 0);

    scene.thresholds.deny_ratio = Some(0.5);
    assert_eq!(
        scene.evaluate_after(2),
        ["+deny_ratio api"],
        "samples are kept without a bound"
    );
    scene.outcomes.clear();
    assert_eq!(
        scene.evaluate_after(2),
        ["-deny_ratio api"],
        "the limit was removed"
    );
}

#[test]
fn a_limit_that_is_added_again_starts_from_zero() {
    let mut scene = AlertScene::new(Some(0.5), None);
    scene.count("api", 1_000, 0, 0);
    assert_eq!(scene.evaluate_after(2), [""; 0]);
    scene.outcomes.clear();
    scene.count("api", 0, 30, 0);
    assert_eq!(scene.evaluate_after(2), ["+deny_ratio api"]);
}

#[test]
fn a_clock_that_does_not_move_does_not_fill_memory() {
    let mut scene = AlertScene::new(Some(0.5), None);
    (0..1_000).for_each(|_| drop(scene.evaluate_after(0)));
    assert_eq!(scene.evaluator.samples.len(), SAMPLES_MAX);
}

#[test]
fn what_lasts_too_long_fires_until_it_ends() {
    let mut scene = AlertScene::new(None, None);
    scene.thresholds.degraded_for = Some(Duration::from_secs(30));
    scene.thresholds.configurations_differ = Some(Duration::from_secs(60));
    assert_eq!(scene.evaluate_after(2), [""; 0]);

    let since = Some(Micros::from_secs(scene.now));
    (scene.degraded_since, scene.differ_since) = (since, since);
    assert_eq!(scene.evaluate_after(29), [""; 0]);
    assert_eq!(scene.evaluate_after(1), ["+degraded_for "]);
    assert_eq!(scene.evaluate_after(30), ["+configurations_differ "]);
    let values: Vec<f64> = scene
        .firing()
        .iter()
        .filter_map(|state| state.value)
        .collect();
    assert_eq!(values, [60.0, 60.0]);

    (scene.degraded_since, scene.differ_since) = (None, None);
    assert_eq!(
        scene.evaluate_after(2),
        ["-degraded_for ", "-configurations_differ "]
    );
}

#[test]
fn evictions_fire_for_a_minute() {
    let mut scene = AlertScene::new(None, None);
    scene.thresholds.evictions = Some(3);
    let limit: Option<Arc<str>> = Some("api".into());
    scene.evictions.insert(limit.clone(), 100);
    assert_eq!(scene.evaluate_after(2), [""; 0], "evicted before the start");

    scene.evictions.insert(limit.clone(), 102);
    assert_eq!(scene.evaluate_after(2), [""; 0], "below the threshold");
    scene.evictions.insert(limit, 103);
    assert_eq!(scene.evaluate_after(2), ["+evictions api"]);
    assert_eq!(
        scene.evaluate_after(30),
        [""; 0],
        "still in the last minute"
    );
    assert_eq!(scene.evaluate_after(60), ["-evictions api"]);
}
