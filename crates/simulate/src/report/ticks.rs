//! The labels of a time axis: at round times, and few enough for a small screen.

use tollgate::Micros;

use crate::text::utc;

/// The most labels of an axis.
const TICKS_MAX: u64 = 6;
/// The distances between labels, in seconds.
const DISTANCES: [u64; 15] = [
    1, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400, 604_800, 2_419_200,
];
const DAY: u64 = 86_400;

/// A label of a time axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TimeTick {
    /// Where it is, in percent of the axis.
    pub(super) percent: f64,
    pub(super) text: String,
}

/// The labels of an axis from `from` on, `secs` long. Both are in seconds, `from` since 1970.
pub(super) fn time_ticks(from: u64, secs: u64) -> Vec<TimeTick> {
    let fits = |distance: &&u64| secs / **distance <= TICKS_MAX;
    let longest = DISTANCES[DISTANCES.len() - 1];
    let distance = DISTANCES.iter().find(fits).copied();
    // Logs of years get a label every few months.
    let distance = distance.unwrap_or_else(|| longest * (secs / longest / TICKS_MAX + 1));

    let first = from.div_ceil(distance) * distance;
    let times = (0..=TICKS_MAX).map(|tick| first + tick * distance);
    times
        .take_while(|time| *time <= from + secs)
        .map(|time| TimeTick {
            percent: percent(time - from, secs),
            text: label(time, distance, secs),
        })
        .collect()
}

/// The time of a label: with seconds if labels are closer than a minute, with the day if the axis
/// is longer than one.
fn label(time: u64, distance: u64, secs: u64) -> String {
    let utc = utc(Micros::from_secs(time));
    let part = |range: std::ops::Range<usize>| utc.get(range).unwrap_or_default();
    let clock = if distance < 60 {
        part(11..19)
    } else {
        part(11..16)
    };

    if distance >= DAY {
        part(0..10).to_owned()
    } else if secs > DAY {
        format!("{} {clock}", part(5..10))
    } else {
        clock.to_owned()
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a plot needs less precision than a float has"
)]
fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-10-10T20:55:36Z.
    const FROM: u64 = 1_791_665_736;

    fn texts(secs: u64) -> Vec<String> {
        let ticks = time_ticks(FROM, secs);
        assert!(ticks.len() <= 7, "{secs}: {ticks:?}");
        let is_inside = |tick: &TimeTick| (0.0..=100.0).contains(&tick.percent);
        assert!(ticks.iter().all(is_inside), "{secs}: {ticks:?}");
        ticks.into_iter().map(|tick| tick.text).collect()
    }

    #[test]
    fn labels_are_at_round_times() {
        assert_eq!(texts(3), ["20:55:36", "20:55:37", "20:55:38", "20:55:39"]);
        assert_eq!(texts(120), ["20:56:00", "20:56:30", "20:57:00", "20:57:30"]);
        assert_eq!(texts(7_200), ["21:00", "21:30", "22:00", "22:30"]);
        assert_eq!(texts(86_400), ["00:00", "06:00", "12:00", "18:00"],);
        assert_eq!(
            texts(2 * 86_400),
            ["10-11 00:00", "10-11 12:00", "10-12 00:00", "10-12 12:00"]
        );
        assert_eq!(texts(3 * 86_400 * 2)[0], "2026-10-11");
    }

    #[test]
    fn any_length_has_few_labels() {
        for exponent in 0..33 {
            assert!(!texts(1 << exponent).is_empty(), "2^{exponent} s");
        }
        assert!(texts(0).len() <= 1);
    }
}
