//! Builds the suggestions of the report.

use super::ReportLabels;
use crate::report::{KeyPeakReport, KneeReport, LimitCandidate, LimitSuggestion};
use crate::suggest::{SuggestionTrials, UsageKnee, UsagePeaks, UsageProfile};
use crate::text::{grouped, utc};

pub(super) fn reports(
    peaks: &UsagePeaks,
    trials: Option<&SuggestionTrials>,
    labels: &ReportLabels,
) -> Vec<LimitSuggestion> {
    let usages = peaks.usages();
    let report = |usage| report(usage, peaks, trials, labels);
    usages.iter().map(report).collect()
}

fn report(
    usage: &UsageProfile<'_>,
    peaks: &UsagePeaks,
    trials: Option<&SuggestionTrials>,
    labels: &ReportLabels,
) -> LimitSuggestion {
    let candidates = usage.candidates.iter().enumerate();
    let candidates = candidates.map(|(index, candidate)| {
        let denials = trials.and_then(|trials| trials.denials(index, &usage.limit.name));
        let keys_denied = denials.map_or_else(
            || usage.keys_above(candidate.limit),
            |denials| denials.keys.len() as u64,
        );
        LimitCandidate {
            percentile: candidate.percentile,
            limit: candidate.limit,
            denied: denials.map(|denials| denials.requests),
            keys_denied,
            suggested: index == usage.suggested,
        }
    });

    LimitSuggestion {
        name: usage.limit.name.clone(),
        limit_now: usage.limit.quota.limit(),
        quota: (labels.format_quota)(&usage.limit.quota),
        requests: usage.limit.requests,
        keys: usage.keys as u64,
        tiers: usage.limit.has_tiers,
        candidates: candidates.collect(),
        suggested: usage.suggested().map(|candidate| candidate.limit),
        knee: usage
            .knee
            .map(|knee| knee_report(knee, usage, peaks, labels.top)),
        notes: notes(usage),
    }
}

fn knee_report(
    knee: UsageKnee,
    usage: &UsageProfile<'_>,
    peaks: &UsagePeaks,
    top: usize,
) -> KneeReport {
    let heaviest = usage.limit.heaviest.top(knee.below, top).into_iter();
    let top_keys = heaviest.map(|(key, peak)| KeyPeakReport {
        key: peaks.display_key(&usage.limit.name, key),
        peak: peak.rank,
        at: utc(peak.first),
    });

    KneeReport {
        below: knee.below,
        above: knee.above,
        keys_above: knee.keys_above as u64,
        top_keys: top_keys.collect(),
    }
}

/// Remarks on a suggestion: why this value, and what to look at before it is used.
fn notes(usage: &UsageProfile<'_>) -> Vec<String> {
    let Some(suggested) = usage.suggested() else {
        return Vec::new();
    };

    let mut notes = vec![reason(suggested.percentile)];
    if let Some(knee) = usage
        .knee
        .filter(|knee| suggested.limit > knee.below.max(1))
    {
        let above = grouped(knee.keys_above as u64);
        notes.push(format!(
            "this is beyond the knee at {}: usage of {above} keys that use many times what all \
             others use",
            grouped(knee.below)
        ));
    }
    if usage.is_steep_below {
        notes.push(
            "p90 is many times p50: if one in ten keys may be an attacker, look at the heaviest \
             keys first (--top with a limit of p50)"
                .to_owned(),
        );
    }
    if usage.limit.has_tiers {
        notes.push(
            "all tiers were measured together, with the quota of the default tier".to_owned(),
        );
    }
    notes
}

fn reason(percentile: &str) -> String {
    match percentile.strip_prefix('p') {
        Some(percent) => format!("{percent}% of the keys never exceed it"),
        None if percentile == "max" => {
            "it is the maximum: too few keys to tell heavy usage from normal".to_owned()
        }
        None => "it is the most that any key below the knee used; --beyond-knee suggests more"
            .to_owned(),
    }
}
