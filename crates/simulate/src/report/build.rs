//! Builds the report from the counters.

use tollgate::{EncodedKey, Micros, Quota};
use tollgate_rules::{Attribute, LimitConfig};

use super::{
    BadLineExample, BadLineReport, ComparisonReport, ConfigReport, ErrorReport, KeyReport,
    LimitCandidate, LimitComparison, LimitSuggestion, LogReport, SimulatedLimitReport,
    SimulationReport, TimelineReport, TimelineSeries, WorstMinute,
};
use crate::compare::{Comparison, LimitDifference};
use crate::config_run::{ConfigRun, ReplayErrorCounts};
use crate::counts::{
    KeyDenials, KeyTable, LineCounts, SimulatedLimitCounts, SimulationTimeline, StepCounts,
};
use crate::log::LineErrorKind;
use crate::replay::ConfigReplay;
use crate::simulation::{Simulation, SimulationState};
use crate::suggest::{LimitPeaks, PERCENTILES, SuggestionTrials};
use crate::text::utc;

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
        &self,
        labels: &ReportLabels,
        trials: Option<&SuggestionTrials>,
    ) -> SimulationReport {
        let SimulationState {
            timeline,
            first,
            second,
            peaks,
        } = &self.state;
        let second = second.as_ref();

        let suggestions = peaks.as_ref().map(|peaks| {
            peaks
                .limits()
                .iter()
                .map(|limit| suggestion(limit, trials, labels.format_quota))
                .collect()
        });
        let comparison = second
            .map(|(second, comparison)| comparison_report(comparison, [first, second], labels.top));

        SimulationReport {
            log: log_report(&self.lines, labels.logs.clone()),
            configuration: config_report(first, &labels.config, labels),
            against: second.map(|(run, _)| config_report(run, &labels.against, labels)),
            comparison,
            suggestions,
            timeline: timeline_report(timeline, first, second.map(|(run, _)| run)),
        }
    }
}

fn log_report(lines: &LineCounts, files: Vec<String>) -> LogReport {
    let kind = |kind: &LineErrorKind| {
        let count = lines.bad_count(*kind);
        (count > 0).then(|| BadLineReport {
            kind: *kind,
            count,
            found: kind.found(),
            expected: kind.expected(),
        })
    };
    let examples = lines.samples.iter().map(|sample| BadLineExample {
        line: sample.number,
        kind: sample.kind,
        text: sample.text.clone(),
    });

    LogReport {
        files,
        lines: lines.all,
        requests: lines.read,
        bad_lines: lines.bad(),
        bad_kinds: LineErrorKind::ALL.iter().filter_map(kind).collect(),
        bad_examples: examples.collect(),
        late_lines: lines.late,
        late_max_ms: millis(lines.late_max),
        from: lines.first.map(utc),
        to: lines.last.map(utc),
    }
}

fn config_report(run: &ConfigRun, file: &str, labels: &ReportLabels) -> ConfigReport {
    let ConfigRun { replay, counts } = run;
    let error = |errors: &ReplayErrorCounts| ErrorReport {
        count: errors.count,
        line: errors.line,
        message: errors.message.clone(),
    };
    let limits = counts.limits.iter().zip(replay.limits()).enumerate();

    ConfigReport {
        file: file.to_owned(),
        allowed: counts.allowed,
        denied: counts.denied,
        errors: counts.errors.values().map(error).collect(),
        limits: limits
            .map(|(index, (counts, limit))| limit_report(index, counts, limit, replay, labels))
            .collect(),
        notes: notes(run),
    }
}

/// Remarks on the replay of a configuration.
fn notes(run: &ConfigRun) -> Vec<String> {
    let concurrency = run.replay.left_out().iter().map(|name| {
        format!(
            "{name} was left out: it limits concurrency, \
             and an access log does not say when requests ended"
        )
    });

    let unkeyed = run
        .replay
        .limits()
        .zip(&run.counts.limits)
        .filter(|(_, counts)| counts.unkeyed > 0);
    let unkeyed = unkeyed.map(|(limit, counts)| {
        let name = limit.rule.name();
        let count = crate::text::grouped(counts.unkeyed);
        let key = key_attributes(limit).join(", ");
        format!("{name} was skipped for {count} matching requests without its key ({key})")
    });

    let full = run.replay.is_full().then(|| {
        "the store was full, so some counters were evicted early, as in the service".to_owned()
    });
    concurrency.chain(unkeyed).chain(full).collect()
}

fn key_attributes(limit: &LimitConfig) -> Vec<String> {
    let part = |part: &Vec<Attribute>| {
        part.iter()
            .map(Attribute::name)
            .collect::<Vec<_>>()
            .join(" | ")
    };
    limit.key.parts.iter().map(part).collect()
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
        key: key_attributes(limit),
        requests: counts.requests,
        denied: counts.denied,
        unkeyed: counts.unkeyed,
        queued: counts.queued,
        wait_max_ms: millis(counts.wait_max),
        first_denial: counts.first.map(utc),
        last_denial: counts.last.map(utc),
        worst_minute,
        keys_denied: counts.keys.len() as u64,
        keys_error_max: counts.keys.error_max(),
        top_keys: top_keys(&counts.keys, labels.top, |key| {
            replay.display_key(index, key)
        }),
    }
}

fn top_keys(
    keys: &KeyTable,
    count: usize,
    display: impl Fn(&EncodedKey) -> String,
) -> Vec<KeyReport> {
    let report = |(key, denials): (&EncodedKey, KeyDenials)| KeyReport {
        key: display(key),
        denied: denials.count,
        first: utc(denials.first),
        last: utc(denials.last),
    };

    keys.top(count).into_iter().map(report).collect()
}

fn comparison_report(
    comparison: &Comparison,
    runs: [&ConfigRun; 2],
    count: usize,
) -> ComparisonReport {
    let top = |limit: &LimitDifference, side: usize| {
        let display = |key: &EncodedKey| {
            limit.index_in[side].map(|index| runs[side].replay.display_key(index, key))
        };
        top_keys(&limit.keys[side], count, |key| {
            display(key).unwrap_or_default()
        })
    };
    let limit = |limit: &LimitDifference| LimitComparison {
        name: limit.name.clone(),
        in_configuration: limit.index_in[0].is_some(),
        in_against: limit.index_in[1].is_some(),
        only_configuration: limit.denials.only_first,
        only_against: limit.denials.only_second,
        both: limit.denials.both,
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
    trials: Option<&SuggestionTrials>,
    format_quota: fn(&Quota) -> String,
) -> LimitSuggestion {
    let denials = trials.map_or([None; PERCENTILES.len()], |trials| {
        trials.denials_of(&peaks.name)
    });
    let suggested = peaks.suggested();
    let candidate = |(index, (permille, percentile)): (usize, &(u64, &'static str))| {
        let limit = peaks.percentile(*permille)?;
        let denials = denials[index];
        let keys_denied = denials.map_or_else(
            || peaks.keys_above(limit),
            |denials| denials.keys.len() as u64,
        );
        Some(LimitCandidate {
            percentile,
            limit,
            denied: denials.map(|denials| denials.requests),
            keys_denied,
            suggested: index == suggested,
        })
    };
    let candidates: Vec<LimitCandidate> = PERCENTILES
        .iter()
        .enumerate()
        .filter_map(candidate)
        .collect();

    LimitSuggestion {
        name: peaks.name.clone(),
        limit_now: peaks.quota.limit(),
        quota: format_quota(&peaks.quota),
        requests: peaks.requests,
        keys: peaks.keys(),
        tiers: peaks.has_tiers,
        suggested: candidates
            .iter()
            .find(|candidate| candidate.suggested)
            .map(|candidate| candidate.limit),
        candidates,
    }
}

fn timeline_report(
    timeline: &SimulationTimeline,
    first: &ConfigRun,
    second: Option<&ConfigRun>,
) -> TimelineReport {
    let new_series = |limit: Option<String>, against: bool, index: usize| {
        let counts = timeline.series(index);
        let values = |of: fn(&StepCounts) -> u64| counts.iter().map(of).collect();
        TimelineSeries {
            limit,
            against,
            allowed: values(|counts| counts.allowed),
            denied: values(|counts| counts.denied),
        }
    };
    let all_series = |run: &ConfigRun, against: bool| -> Vec<TimelineSeries> {
        let limits = run
            .replay
            .limits()
            .map(|limit| Some(limit.rule.name().to_string()));
        std::iter::once(None)
            .chain(limits)
            .zip(run.counts.first_series..)
            .map(|(limit, index)| new_series(limit, against, index))
            .collect()
    };

    let mut series = all_series(first, false);
    series.extend(second.into_iter().flat_map(|run| all_series(run, true)));
    TimelineReport {
        from: utc(timeline.start()),
        step_seconds: timeline.step_length().get() / 1_000_000,
        series,
    }
}

const fn millis(duration: Micros) -> u64 {
    duration.get().div_ceil(1_000)
}
