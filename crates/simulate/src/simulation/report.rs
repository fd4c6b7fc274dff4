//! Builds the report from the counters.

mod suggestion;

use tollgate::{EncodedKey, Micros, Quota};
use tollgate_rules::LimitConfig;

use super::{Simulation, SimulationState};
use crate::compare::{Comparison, LimitDifference};
use crate::config_run::ConfigRun;
use crate::counts::{KeyRank, KeyTable, LineCounts, SimulatedLimitCounts, SimulationTimeline};
use crate::log::LineError;
use crate::replay::ConfigReplay;
use crate::report::{
    BadLineReport, ComparisonReport, ConfigReport, KeyReport, LimitComparison, LogReport,
    SimulatedLimitReport, SimulationReport, TimelineReport, TimelineSeries, WorstMinute,
};
use crate::suggest::SuggestionTrials;
use crate::text::{grouped, utc};

/// Names and settings for the report.
#[derive(Clone, Debug)]
pub struct ReportLabels {
    /// Name of the configuration file.
    pub config: String,
    /// Name of the second configuration file.
    pub against: String,
    /// Names of the log files.
    pub logs: Vec<String>,
    /// How many keys to list for each limit.
    pub top: usize,
    /// Formats a quota as text.
    pub format_quota: fn(&Quota) -> String,
}

impl Simulation {
    /// The report. `trials` is the second pass through the log, if there was one.
    pub fn report(
        &mut self,
        labels: &ReportLabels,
        mut trials: Option<&mut SuggestionTrials>,
    ) -> SimulationReport {
        self.finish();
        if let Some(trials) = &mut trials {
            trials.finish();
        }
        let SimulationState {
            timeline,
            first,
            second,
            peaks,
        } = &self.state;
        let second = second.as_ref();

        let trials = trials.as_deref();
        let suggestions = peaks.as_ref();
        let suggestions = suggestions.map(|peaks| suggestion::reports(peaks, trials, labels));
        let comparison = second
            .map(|(second, comparison)| comparison_report(comparison, [first, second], labels.top));
        let configuration = config_report(first, &labels.config, labels);
        let against = second.map(|(run, _)| {
            let mut against = config_report(run, &labels.against, labels);
            against.sort_like(&configuration);
            against
        });

        SimulationReport {
            log: log_report(&self.pass.lines, labels.logs.clone()),
            configuration,
            against,
            comparison,
            suggestions,
            timeline: timeline_report(timeline, first, second.map(|(run, _)| run)),
        }
    }
}

fn log_report(lines: &LineCounts, files: Vec<String>) -> LogReport {
    let kind = |(kind, count): (&LineError, &u64)| {
        let (found, expected) = kind.texts();
        BadLineReport {
            kind: *kind,
            count: *count,
            found,
            expected,
        }
    };

    LogReport {
        files,
        lines: lines.all,
        requests: lines.read,
        bad_lines: lines.bad.values().sum(),
        bad_kinds: lines.bad.iter().map(kind).collect(),
        bad_examples: lines.examples.clone(),
        late_lines: lines.late,
        late_max_ms: millis(lines.late_max),
        from: lines.first.map(utc),
        to: lines.last.map(utc),
    }
}

fn config_report(run: &ConfigRun, file: &str, labels: &ReportLabels) -> ConfigReport {
    let ConfigRun { replay, counts } = run;
    let limits = counts.limits.iter().zip(replay.limits()).enumerate();

    ConfigReport {
        file: file.to_owned(),
        allowed: counts.allowed,
        denied: counts.denied,
        errors: counts.errors.values().cloned().collect(),
        limits: limits
            .map(|(index, (counts, limit))| limit_report(index, counts, limit, replay, labels))
            .collect(),
        notes: notes(run),
    }
}

/// Remarks on the replay of a configuration.
fn notes(run: &ConfigRun) -> Vec<String> {
    let counts = run.counts.limits.iter().map(|counts| &counts.report);
    let limits = || run.replay.limits().zip(counts.clone());
    let note =
        |count: u64, text: &dyn Fn(String) -> String| (count > 0).then(|| text(grouped(count)));

    let untimed = limits().filter_map(|(limit, counts)| {
        let name = limit.rule.name();
        note(counts.untimed, &|skipped| {
            if counts.requests > 0 {
                return format!(
                    "{name} was skipped for {skipped} requests whose lines have no duration"
                );
            }
            format!(
                "{name} was not replayed: it limits concurrency, and no line says how long its \
                 request took; have the server log that, such as $request_time of nginx, or name \
                 the field with --field duration=FIELD"
            )
        })
    });
    let unkeyed = limits().filter_map(|(limit, counts)| {
        let (name, key) = (limit.rule.name(), limit.key.part_names().join(", "));
        note(counts.unkeyed, &|count| {
            format!("{name} was skipped for {count} matching requests without its key ({key})")
        })
    });
    let listed = limits().flat_map(|(limit, counts)| {
        let name = limit.rule.name();
        let blocked = note(counts.blocked, &|count| {
            format!("{count} of the requests that {name} denied are on its list `block`")
        });
        let exempt = note(counts.exempt, &|count| {
            format!("{name} was not asked for {count} requests that are on its list `exempt`")
        });
        blocked.into_iter().chain(exempt)
    });
    let full = run.replay.is_full().then(|| {
        "the store was full, so some counters were evicted early, as in the service".to_owned()
    });
    untimed.chain(unkeyed).chain(listed).chain(full).collect()
}

fn limit_report(
    index: usize,
    counts: &SimulatedLimitCounts,
    limit: &LimitConfig,
    replay: &ConfigReplay,
    labels: &ReportLabels,
) -> SimulatedLimitReport {
    let rule = &limit.rule;
    let worst_minute = counts.worst_minute().map(|(at, denied)| WorstMinute {
        at: utc(at),
        denied,
    });

    SimulatedLimitReport {
        name: rule.name().to_string(),
        quota: (labels.format_quota)(rule.quota()),
        shadow: rule.is_shadow(),
        key: limit.key.part_names(),
        wait_max_ms: millis(counts.wait_max),
        first_denial: counts.first.map(utc),
        last_denial: counts.last.map(utc),
        worst_minute,
        keys_denied: counts.keys.len() as u64,
        keys_error_max: counts.keys.dropped_max,
        top_keys: top_keys(&counts.keys, labels.top, replay, index),
        ..counts.report.clone()
    }
}

fn top_keys(keys: &KeyTable, count: usize, replay: &ConfigReplay, limit: usize) -> Vec<KeyReport> {
    let report = |(key, denials): (&EncodedKey, KeyRank)| KeyReport {
        key: replay.display_key(limit, key),
        denied: denials.rank,
        first: utc(denials.first),
        last: utc(denials.last),
    };
    keys.top(0, count).into_iter().map(report).collect()
}

fn comparison_report(
    comparison: &Comparison,
    runs: [&ConfigRun; 2],
    count: usize,
) -> ComparisonReport {
    let top = |limit: &LimitDifference, side: usize| {
        let index = limit.index_in[side];
        index.map_or_else(Vec::new, |index| {
            top_keys(&limit.keys[side], count, &runs[side].replay, index)
        })
    };
    let limit = |limit: &LimitDifference| LimitComparison {
        name: limit.name.clone(),
        in_configuration: limit.index_in[0].is_some(),
        in_against: limit.index_in[1].is_some(),
        denials: limit.denials,
        charged_only_configuration: limit.charged_only[0],
        charged_only_against: limit.charged_only[1],
        top_only_configuration: top(limit, 0),
        top_only_against: top(limit, 1),
    };

    ComparisonReport {
        denials: comparison.requests,
        limits: comparison.limits.iter().map(limit).collect(),
        notes: comparison.limits.iter().flat_map(interactions).collect(),
    }
}

/// Explains why a limit denies more in one configuration although it is no stricter there.
fn interactions(limit: &LimitDifference) -> impl Iterator<Item = String> {
    let sides = [
        (0, limit.denials.only_configuration, "first", "second"),
        (1, limit.denials.only_against, "second", "first"),
    ];
    sides
        .into_iter()
        .filter(|(side, ..)| limit.is_surprising(*side))
        .map(|(side, denied, here, there)| {
            let (name, denied) = (&limit.name, grouped(denied));
            let charged = grouped(limit.charged_only[side]);
            format!(
                "{name} denies {denied} requests only with the {here} configuration, although it \
                 is no stricter there: {charged} of its requests that the {there} one denies by \
                 another limit pass with the {here} one, and are charged to {name}"
            )
        })
}

fn timeline_report(
    timeline: &SimulationTimeline,
    first: &ConfigRun,
    second: Option<&ConfigRun>,
) -> TimelineReport {
    let runs = std::iter::once((first, false)).chain(second.map(|run| (run, true)));
    let series = runs.flat_map(|(run, against)| {
        let limits = run.replay.limits();
        let names = limits.map(|limit| Some(limit.rule.name().to_string()));
        let all = std::iter::once(None).chain(names);

        all.zip(run.counts.first_series..)
            .map(move |(limit, index)| {
                let counts = timeline.series(index).iter();
                TimelineSeries {
                    limit,
                    against,
                    allowed: counts.clone().map(|counts| counts.allowed).collect(),
                    denied: counts.map(|counts| counts.denied).collect(),
                }
            })
    });

    TimelineReport {
        from: utc(timeline.start()),
        from_seconds: timeline.start().get() / 1_000_000,
        step_seconds: timeline.step_length().get() / 1_000_000,
        series: series.collect(),
    }
}

const fn millis(duration: Micros) -> u64 {
    duration.get().div_ceil(1_000)
}
