//! The text output of `tollgate explain`: one line per limit, and below each limit that applies
//! what would be counted.

use std::fmt::Write as _;

use super::super::terminal::{Paint, Tone, plain};
use super::output::{
    Applicability, DemandExplanation, ExplainOutput, KeyPartExplanation, LimitExplanation,
};

/// The width of the second column.
const LABEL_WIDTH: usize = "applies".len();

pub(super) fn render(output: &ExplainOutput, paint: Paint) -> String {
    let names = output.limits.iter().map(|limit| limit.name.len());
    let width = names.max().unwrap_or_default();

    let mut text = String::new();
    for limit in &output.limits {
        let (label, tone) = label(limit.applicability);
        let name = paint.tone(Tone::Name, &format!("{:width$}", limit.name));
        let label = paint.tone(tone, &format!("{label:LABEL_WIDTH$}"));
        let mut lines = details(limit).into_iter();
        let first = lines.next().unwrap_or_default();
        let _infallible = writeln!(text, "{name}  {label}  {first}");

        let indent = width + LABEL_WIDTH + 4;
        for line in lines {
            let line = paint.tone(Tone::Dim, &line);
            let _infallible = writeln!(text, "{:indent$}{line}", "");
        }
    }
    text + &summary(output, paint)
}

const fn label(applicability: Applicability) -> (&'static str, Tone) {
    match applicability {
        Applicability::Applies => ("applies", Tone::Good),
        Applicability::DoesNotApply => ("no", Tone::Dim),
        Applicability::Skipped => ("skipped", Tone::Warning),
        Applicability::Error => ("error", Tone::Bad),
    }
}

fn details(limit: &LimitExplanation) -> Vec<String> {
    let Some(demand) = &limit.demand else {
        return limit.reason.as_deref().map(plain).into_iter().collect();
    };

    let mut lines = vec![quota(limit, demand), key(&demand.key)];
    if demand.cost != 1 {
        lines.push(format!("cost {}", demand.cost));
    }
    lines
}

fn quota(limit: &LimitExplanation, demand: &DemandExplanation) -> String {
    let tier = demand
        .tier
        .as_ref()
        .map(|tier| format!("tier {}: ", plain(tier)))
        .unwrap_or_default();
    let local = if limit.consistency == "local" {
        ", counted per replica"
    } else {
        ""
    };
    let shadow = if limit.shadow {
        ", shadow: counts, never denies"
    } else {
        ""
    };

    format!("{tier}{}{local}{shadow}", demand.quota)
}

fn key(parts: &[KeyPartExplanation]) -> String {
    if parts.is_empty() {
        return "key: none, one counter for all requests".to_owned();
    }

    let part = |part: &KeyPartExplanation| {
        let hash = if part.hashed { " (hash)" } else { "" };
        format!("{} = {}{hash}", part.attribute, plain(&part.value))
    };
    let parts: Vec<String> = parts.iter().map(part).collect();
    format!("key: {}", parts.join(", "))
}

/// The number of limits that apply, errors, and unused attributes.
fn summary(output: &ExplainOutput, paint: Paint) -> String {
    let count = |wanted| {
        let limits = output.limits.iter();
        limits.filter(|limit| limit.applicability == wanted).count()
    };

    let has_errors = count(Applicability::Error) > 0;
    let mut text = match (count(Applicability::Applies), output.limits.len()) {
        (1, 1) => "\nthe limit applies\n".to_owned(),
        (_, 1) if has_errors => "\n".to_owned(),
        (_, 1) => "\nthe limit does not apply\n".to_owned(),
        (applying, all) => format!("\n{applying} of {all} limits apply\n"),
    };
    if has_errors {
        let line = "the service would reject this request (422) because of the errors above";
        let _infallible = writeln!(text, "{}", paint.tone(Tone::Bad, line));
    }

    for unused in &output.unused {
        let suggestion = unused
            .suggestion
            .as_ref()
            .map(|suggestion| format!("; did you mean `{suggestion}`?"))
            .unwrap_or_default();
        let line = format!(
            "no limit uses the attribute `{}`{suggestion}",
            plain(&unused.attribute)
        );
        let _infallible = writeln!(text, "{}", paint.tone(Tone::Warning, &line));
    }
    text
}
