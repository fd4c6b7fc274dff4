//! From counts to a report.

use tollgate::{EncodedKey, Micros, Quota};
use tollgate_rules::{Attribute, LimitConfig};

use super::{
    BadExample, BadKind, Candidate, ComparisonReport, KeyReport, LimitComparison, LimitReport,
    LogReport, Report, Series, SideReport, Suggestion, TimelineReport, UnansweredReport,
    WorstMinute,
};
use crate::compare::{Comparison, LimitDifference};
use crate::log::BadLine;
use crate::replay::Replay;
use crate::side::Side;
use crate::simulation::{Replayed, Simulation};
use crate::suggest::{LimitPeaks, PERCENTILES, Trials};
use crate::tally::{Counts, KeyRefusals, KeyTable, LimitTally, LineTally, Timeline};
use crate::text::utc;

/// What things are called.
#[derive(Clone, Debug)]
pub struct Labels {
    /// The configuration's file.
    pub config: String,
    /// The other configuration's.
    pub against: String,
    /// The logs.
    pub logs: Vec<String>,
    /// How many keys are told of each limit.
    pub top: usize,
    /// How a limit's numbers are said.
    pub words: fn(&Quota) -> String,
}

impl Simulation {
    /// What came of it. `trials` are from the second time through the log, if there was one.
    pub fn report(&self, labels: &Labels, trials: Option<&Trials>) -> Report {
        let Replayed {
            timeline: counts,
            first,
            second,
            peaks,
        } = &self.replayed;
        let second = second.as_ref();
        let suggestions = peaks.as_ref().map(|peaks| {
            peaks
                .limits()
                .iter()
                .map(|limit| suggestion(limit, trials, labels.words))
                .collect()
        });
        Report {
            log: log(&self.lines, labels.logs.clone()),
            configuration: side(first, &labels.config, labels),
            against: second.map(|(other, _)| side(other, &labels.against, labels)),
            comparison: second
                .map(|(second, comparison)| compared(comparison, [first, second], labels.top)),
            suggestions,
            timeline: timeline(counts, first, second.map(|(side, _)| side)),
        }
    }
}

fn log(lines: &LineTally, files: Vec<String>) -> LogReport {
    let kind = |kind: &BadLine| {
        let count = lines.bad_of(*kind);
        (count > 0).then(|| BadKind {
            kind: *kind,
            count,
            found: kind.found(),
            right: kind.right(),
        })
    };
    let examples = lines.examples.iter();
    LogReport {
        files,
        lines: lines.all,
        requests: lines.read,
        bad_lines: lines.bad(),
        bad_kinds: BadLine::ALL.iter().filter_map(kind).collect(),
        bad_examples: examples
            .map(|bad| BadExample {
                line: bad.number,
                kind: bad.wrong,
                text: bad.text.clone(),
            })
            .collect(),
        late_lines: lines.late,
        late_max_ms: millis(lines.late_max),
        from: lines.first.map(utc),
        to: lines.last.map(utc),
    }
}

fn side(side: &Side, file: &str, labels: &Labels) -> SideReport {
    let Side { replay, tally } = side;
    let unanswered = tally
        .unanswered
        .values()
        .map(|unanswered| UnansweredReport {
            count: unanswered.count,
            line: unanswered.line,
            message: unanswered.message.clone(),
        });
    SideReport {
        file: file.to_owned(),
        allowed: tally.allowed,
        refused: tally.refused,
        unanswered: unanswered.collect(),
        limits: (0..)
            .zip(&tally.limits)
            .zip(replay.rules())
            .map(|of| limit(of, replay, labels))
            .collect(),
        notes: notes(side),
    }
}

/// What is worth knowing about the replay itself.
fn notes(side: &Side) -> Vec<String> {
    let in_flight = side.replay.left_out().iter().map(|name| {
        format!("{name} counts requests in flight, and a log does not say when they ended: it was left out")
    });
    let unkeyed = side
        .replay
        .rules()
        .zip(&side.tally.limits)
        .filter(|(_, tally)| tally.unkeyed > 0);
    let unkeyed = unkeyed.map(|(rule, tally)| {
        let count = crate::text::grouped(tally.unkeyed);
        let key = key(rule).join(", ");
        format!(
            "{} counts by {key}, which {count} of its requests do not say: they were let by",
            rule.limit.name()
        )
    });
    let full = side.replay.is_full().then(|| {
        "there were more counters than the store keeps, so that some were forgotten early, as in the service".to_owned()
    });
    in_flight.chain(unkeyed).chain(full).collect()
}

fn key(rule: &LimitConfig) -> Vec<String> {
    let part = |part: &Vec<Attribute>| {
        part.iter()
            .map(Attribute::name)
            .collect::<Vec<_>>()
            .join(" | ")
    };
    rule.key.parts.iter().map(part).collect()
}

fn limit(
    of: ((usize, &LimitTally), &LimitConfig),
    replay: &Replay,
    labels: &Labels,
) -> LimitReport {
    let ((place, tally), rule) = of;
    let checked = rule.limit.rule().ok();
    LimitReport {
        name: rule.limit.name().to_owned(),
        numbers: checked
            .map(|rule| (labels.words)(rule.quota()))
            .unwrap_or_default(),
        shadow: checked.is_some_and(|rule| rule.is_shadow()),
        key: key(rule),
        requests: tally.asked,
        refused: tally.refused,
        unkeyed: tally.unkeyed,
        held: tally.held,
        hold_max_ms: millis(tally.hold_max),
        first_refusal: tally.first.map(utc),
        last_refusal: tally.last.map(utc),
        worst_minute: tally.worst_minute().map(|(at, refused)| WorstMinute {
            at: utc(at),
            refused,
        }),
        keys_refused: tally.keys.len() as u64,
        keys_error_max: tally.keys.error_max(),
        top_keys: top(&tally.keys, labels.top, |key| replay.shown(place, key)),
    }
}

fn top(keys: &KeyTable, count: usize, shown: impl Fn(&EncodedKey) -> String) -> Vec<KeyReport> {
    let report = |(key, refusals): (&EncodedKey, KeyRefusals)| KeyReport {
        key: shown(key),
        refused: refusals.refused,
        first: utc(refusals.first),
        last: utc(refusals.last),
    };
    keys.top(count).into_iter().map(report).collect()
}

fn compared(comparison: &Comparison, sides: [&Side; 2], count: usize) -> ComparisonReport {
    let top = |limit: &LimitDifference, side: usize| {
        let shown = |key: &EncodedKey| {
            limit.place_in[side].map(|place| sides[side].replay.shown(place, key))
        };
        top(&limit.keys[side], count, |key| {
            shown(key).unwrap_or_default()
        })
    };
    let limit = |limit: &LimitDifference| LimitComparison {
        name: limit.name.clone(),
        in_configuration: limit.place_in[0].is_some(),
        in_against: limit.place_in[1].is_some(),
        only_configuration: limit.refused.only_first,
        only_against: limit.refused.only_second,
        both: limit.refused.both,
        top_only_configuration: top(limit, 0),
        top_only_against: top(limit, 1),
    };
    ComparisonReport {
        only_configuration: comparison.requests.only_first,
        only_against: comparison.requests.only_second,
        both: comparison.requests.both,
        limits: comparison.limits.iter().map(limit).collect(),
    }
}

fn suggestion(
    peaks: &LimitPeaks,
    trials: Option<&Trials>,
    words: fn(&Quota) -> String,
) -> Suggestion {
    let refused = trials.map_or([None; PERCENTILES.len()], |trials| trials.of(&peaks.name));
    let suggested = peaks.suggested();
    let candidate = |(place, (permille, percentile)): (usize, &(u64, &'static str))| {
        let limit = peaks.percentile(*permille)?;
        let tried = refused[place];
        Some(Candidate {
            percentile,
            limit,
            refused: tried.map(|refused| refused.requests),
            keys_refused: tried.map_or_else(
                || peaks.keys_above(limit),
                |refused| refused.keys.len() as u64,
            ),
            suggested: place == suggested,
        })
    };
    let candidates: Vec<Candidate> = PERCENTILES
        .iter()
        .enumerate()
        .filter_map(candidate)
        .collect();
    Suggestion {
        name: peaks.name.clone(),
        limit_now: peaks.quota.limit(),
        numbers: words(&peaks.quota),
        requests: peaks.asked,
        keys: peaks.keys(),
        tiers: peaks.has_tiers,
        suggested: candidates
            .iter()
            .find(|candidate| candidate.suggested)
            .map(|candidate| candidate.limit),
        candidates,
    }
}

fn timeline(timeline: &Timeline, first: &Side, second: Option<&Side>) -> TimelineReport {
    let series = |side: &Side, against: bool| -> Vec<Series> {
        let limits = side
            .replay
            .rules()
            .map(|rule| Some(rule.limit.name().to_owned()));
        let named = std::iter::once(None).chain(limits).zip(side.tally.series..);
        named
            .map(|(limit, place)| {
                let counts = timeline.series(place);
                let part = |of: fn(&Counts) -> u64| counts.iter().map(of).collect();
                let (allowed, refused) =
                    (part(|counts| counts.allowed), part(|counts| counts.refused));
                Series {
                    limit,
                    against,
                    allowed,
                    refused,
                }
            })
            .collect()
    };
    TimelineReport {
        from: utc(timeline.start()),
        stretch_seconds: timeline.width().get() / 1_000_000,
        series: second
            .into_iter()
            .fold(series(first, false), |mut all, side| {
                all.extend(series(side, true));
                all
            }),
    }
}

const fn millis(length: Micros) -> u64 {
    length.get().div_ceil(1_000)
}
