//! Alerts over counts and times made up here.

use super::*;

/// A service whose counts and clock are moved by hand.
#[derive(Default)]
struct Scene {
    judge: Judge,
    bounds: Bounds,
    now: u64,
    said: BTreeMap<Arc<str>, OutcomeCounts>,
    took: Vec<(u64, Duration)>,
}

impl Scene {
    fn with(deny_ratio: Option<f64>, latency_p99: Option<u64>) -> Self {
        let latency_p99 = latency_p99.map(Duration::from_millis);
        let mut scene = Self {
            bounds: Bounds {
                deny_ratio,
                latency_p99,
            },
            ..Self::default()
        };
        scene.said("api", 0, 0, 0);
        assert_eq!(scene.look_after(0), [""; 0]);
        scene
    }

    fn said(&mut self, limit: &str, allowed: u64, denied: u64, shadow_denied: u64) {
        let said = self.said.entry(limit.into()).or_default();
        said.allowed += allowed;
        said.denied += denied;
        said.shadow_denied += shadow_denied;
    }

    /// What changes when someone looks so many seconds later: `+` and `-` before the alert and its
    /// limit.
    fn look_after(&mut self, seconds: u64) -> Vec<String> {
        self.now += seconds;
        let sample = Sample {
            at: Micros::from_secs(self.now),
            said: self.said.clone(),
            durations: DurationBuckets::from_durations(&self.took),
        };
        let changes = self.judge.look(sample, self.bounds);
        let shown = |sign, standing: &AlertState| {
            format!("{sign}{} {}", standing.alert.as_str(), standing.limit)
        };
        changes
            .iter()
            .map(|change| match change {
                Change::Fires(standing) => shown('+', standing),
                Change::Resolves(standing) => shown('-', standing),
            })
            .collect()
    }

    fn firing(&self) -> Vec<&AlertState> {
        self.judge
            .standing()
            .filter(|standing| standing.since.is_some())
            .collect()
    }
}

#[test]
fn an_alert_fires_once_and_is_over_once() {
    let mut scene = Scene::with(Some(0.8), None);
    scene.said("api", 5, 95, 0);
    scene.said("other", 100, 10, 0);
    assert_eq!(scene.look_after(2), ["+deny_ratio api"]);
    scene.said("api", 0, 50, 0);
    assert_eq!(scene.look_after(2), [""; 0], "it is known");
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

    scene.said("api", 100, 0, 0);
    assert_eq!(scene.look_after(2), ["-deny_ratio api"]);
    assert_eq!(scene.look_after(2), [""; 0]);
    assert!(scene.firing().is_empty());
    assert_eq!(
        scene.judge.standing().count(),
        2,
        "those that do not fire are watched all the same"
    );
}

#[test]
fn what_was_more_than_a_minute_ago_is_forgotten() {
    let mut scene = Scene::with(Some(0.5), None);
    scene.said("api", 0, 30, 0);
    assert_eq!(scene.look_after(2), ["+deny_ratio api"]);
    for _ in 0..29 {
        assert_eq!(scene.look_after(2), [""; 0], "at {}", scene.now);
    }
    // Sixty seconds after the look that saw the refusals, nothing has come since.
    assert_eq!(scene.look_after(2), ["-deny_ratio api"]);
    assert!(scene.judge.samples.len() <= 32);
}

#[test]
fn a_few_requests_say_nothing() {
    let mut scene = Scene::with(Some(0.5), Some(10));
    scene.said("api", 0, 19, 0);
    scene.took.push((99, Duration::from_secs(1)));
    assert_eq!(scene.look_after(2), [""; 0]);
    assert!(
        scene
            .judge
            .standing()
            .all(|standing| standing.value.is_none())
    );
    scene.said("api", 0, 1, 0);
    scene.took.push((1, Duration::from_secs(1)));
    assert_eq!(scene.look_after(2), ["+deny_ratio api", "+latency_p99 "]);
}

#[test]
fn the_ratio_that_is_named_is_too_much_and_less_is_not() {
    let mut scene = Scene::with(Some(0.8), None);
    scene.said("api", 20, 79, 0);
    assert_eq!(scene.look_after(2), [""; 0]);
    scene.said("api", 0, 1, 0);
    assert_eq!(scene.look_after(2), ["+deny_ratio api"], "80 of 100");
}

#[test]
fn a_shadow_refuses_nobody() {
    let mut scene = Scene::with(Some(0.1), None);
    scene.said("api", 0, 0, 1_000);
    assert_eq!(scene.look_after(2), [""; 0]);
}

#[test]
fn slow_decisions_fire_when_they_are_more_than_one_in_a_hundred() {
    let mut scene = Scene::with(None, Some(10));
    scene.took.push((10_000, Duration::from_secs(1)));
    // What was before the first look is not news, even if all of it was slow.
    let mut scene = Scene {
        judge: Judge::default(),
        ..scene
    };
    assert_eq!(scene.look_after(2), [""; 0]);
    scene.took.extend([
        (990, Duration::from_millis(1)),
        (10, Duration::from_millis(50)),
    ]);
    assert_eq!(scene.look_after(2), [""; 0]);
    scene.took.push((5, Duration::from_millis(50)));
    assert_eq!(scene.look_after(2), ["+latency_p99 "]);
    scene.took.push((10_000, Duration::from_millis(1)));
    assert_eq!(scene.look_after(2), ["-latency_p99 "]);
}

#[test]
fn what_is_no_longer_watched_is_over() {
    let mut scene = Scene::with(Some(0.5), None);
    scene.said("api", 0, 100, 0);
    assert_eq!(scene.look_after(2), ["+deny_ratio api"]);
    scene.bounds = Bounds::default();
    assert_eq!(scene.look_after(2), ["-deny_ratio api"]);
    assert_eq!(scene.judge.standing().count(), 0);

    scene.bounds.deny_ratio = Some(0.5);
    assert_eq!(
        scene.look_after(2),
        ["+deny_ratio api"],
        "the counts were still being kept"
    );
    scene.said.clear();
    assert_eq!(
        scene.look_after(2),
        ["-deny_ratio api"],
        "the limit is gone"
    );
}

#[test]
fn a_limit_that_comes_back_begins_anew() {
    let mut scene = Scene::with(Some(0.5), None);
    scene.said("api", 1_000, 0, 0);
    assert_eq!(scene.look_after(2), [""; 0]);
    scene.said.clear();
    scene.said("api", 0, 30, 0);
    assert_eq!(scene.look_after(2), ["+deny_ratio api"]);
}

#[test]
fn a_clock_that_stands_still_fills_nothing() {
    let mut scene = Scene::with(Some(0.5), None);
    (0..1_000).for_each(|_| drop(scene.look_after(0)));
    assert_eq!(scene.judge.samples.len(), SAMPLES_MAX);
}
