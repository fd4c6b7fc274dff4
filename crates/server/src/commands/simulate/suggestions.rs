//! Formats the suggested limits for people: the candidates, the reason, and the keys beyond the
//! knee.

use tollgate_simulate::{KeyPeakReport, KneeReport, LimitCandidate, LimitSuggestion};

use super::super::numbers::{counted, grouped, share};
use super::super::terminal::{Align, Cell, Tone, head, plain, table};

pub(super) fn lines(suggestion: &LimitSuggestion) -> Vec<String> {
    let LimitSuggestion { name, quota, .. } = suggestion;
    let Some(suggested) = suggestion.suggested else {
        return vec![format!(
            "\nno suggestion for {name}: it applied to no request"
        )];
    };

    let requests = counted(suggestion.requests, "request");
    let keys = counted(suggestion.keys, "key");
    let name = Tone::Name.paint(name);
    let mut lines = vec![format!(
        "\nusage of {name}: {requests} of {keys}; now {quota}"
    )];

    let mut rows = vec![head([
        "percentile",
        "limit",
        "rise",
        "denied requests",
        "denied keys",
    ])];
    let before = std::iter::once(None).chain(suggestion.candidates.iter().map(Some));
    let candidates = suggestion.candidates.iter().zip(before);
    rows.extend(candidates.map(|(candidate, before)| row(candidate, before, suggestion)));
    lines.extend(table(&rows, Align::Right));

    let notes = suggestion.notes.join("; ");
    lines.push(format!("suggested: {}; {notes}", grouped(suggested)));
    if let Some(knee) = &suggestion.knee {
        lines.extend(knee_lines(knee, suggestion.keys));
    }
    lines
}

fn row(
    candidate: &LimitCandidate,
    before: Option<&LimitCandidate>,
    suggestion: &LimitSuggestion,
) -> Vec<Cell> {
    let with_share = |part: u64, whole: u64| format!("{} ({})", grouped(part), share(part, whole));
    let denied = candidate.denied;
    let denied = denied.map(|denied| with_share(denied, suggestion.requests));
    let tone = if candidate.suggested {
        Tone::Good
    } else {
        Tone::Plain
    };

    [
        candidate.percentile.to_owned(),
        grouped(candidate.limit),
        candidate.growth(before).unwrap_or_default(),
        denied.unwrap_or_else(|| "?".to_owned()),
        with_share(candidate.keys_denied, suggestion.keys),
    ]
    .map(|cell| (tone, cell))
    .to_vec()
}

/// What is beyond the knee, and which keys these are.
fn knee_lines(knee: &KneeReport, keys: u64) -> Vec<String> {
    let (above, below) = (grouped(knee.above), grouped(knee.below));
    let (keys_above, keys) = (grouped(knee.keys_above), counted(keys, "key"));
    let mut lines = vec![Tone::Warning.paint(&format!(
        "knee: {keys_above} of {keys} use {above} or more, {} times the {below} of all others",
        knee.times()
    ))];

    let row = |key: &KeyPeakReport| {
        vec![
            (Tone::Plain, format!("  {}", plain(&key.key))),
            (Tone::Plain, grouped(key.peak)),
            (Tone::Dim, key.at.clone()),
        ]
    };
    let rows: Vec<_> = knee.top_keys.iter().map(row).collect();
    lines.extend(table(&rows, Align::Right));
    let more = knee.keys_above.saturating_sub(knee.top_keys.len() as u64);
    if more > 0 {
        lines.push(Tone::Dim.paint(&format!("  and {}", counted(more, "more key"))));
    }
    lines
}
