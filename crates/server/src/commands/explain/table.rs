//! The explanation for people: a limit a line, and below those that apply what would be counted.

use std::fmt::Write as _;

use super::super::terminal::{Paint, Tone, plain};
use super::shown::{Check, Explained, Outcome, Part, Shown};

/// The widest word of the second column.
const ANSWER_WIDTH: usize = "applies".len();

pub(super) fn table(explained: &Explained, paint: Paint) -> String {
    let width = explained
        .limits
        .iter()
        .map(|limit| limit.name.len())
        .max()
        .unwrap_or_default();
    let mut text = String::new();
    for limit in &explained.limits {
        let (word, tone) = answer(limit.outcome);
        let name = paint.tone(Tone::Name, &format!("{:width$}", limit.name));
        let answer = paint.tone(tone, &format!("{word:ANSWER_WIDTH$}"));
        let mut lines = about(limit).into_iter();
        let _infallible = writeln!(
            text,
            "{name}  {answer}  {}",
            lines.next().unwrap_or_default()
        );
        for line in lines {
            let _infallible = writeln!(
                text,
                "{:width$}  {:ANSWER_WIDTH$}  {}",
                "",
                "",
                paint.tone(Tone::Aside, &line)
            );
        }
    }
    text + &ending(explained, paint)
}

const fn answer(outcome: Outcome) -> (&'static str, Tone) {
    match outcome {
        Outcome::Applies => ("applies", Tone::Good),
        Outcome::DoesNotApply => ("no", Tone::Aside),
        Outcome::PassedOver => ("skipped", Tone::Careful),
        Outcome::Error => ("error", Tone::Bad),
    }
}

fn about(limit: &Shown) -> Vec<String> {
    let reason = limit.reason.as_deref().map(plain);
    let Some(check) = &limit.check else {
        return reason.into_iter().collect();
    };
    let mut lines = vec![numbers(limit, check), key(&check.key)];
    if check.cost != 1 {
        lines.push(format!("cost {}", check.cost));
    }
    lines
}

fn numbers(limit: &Shown, check: &Check) -> String {
    let tier = check
        .tier
        .as_ref()
        .map(|tier| format!("tier {}: ", plain(tier)))
        .unwrap_or_default();
    let shadow = if limit.shadow {
        ", shadow: counts and never refuses"
    } else {
        ""
    };
    let local = if limit.consistency == "local" {
        ", in each process by itself"
    } else {
        ""
    };
    format!("{tier}{}{local}{shadow}", check.numbers)
}

fn key(parts: &[Part]) -> String {
    if parts.is_empty() {
        return "key: none, one counter for everyone".to_owned();
    }
    let part = |part: &Part| {
        let hash = if part.hashed { " (hash)" } else { "" };
        format!("{} = {}{hash}", part.attribute, plain(&part.value))
    };
    format!(
        "key: {}",
        parts.iter().map(part).collect::<Vec<_>>().join(", ")
    )
}

/// How many apply, and what the request would better be.
fn ending(explained: &Explained, paint: Paint) -> String {
    let count = |outcome| {
        explained
            .limits
            .iter()
            .filter(|limit| limit.outcome == outcome)
            .count()
    };
    let mut text = match (count(Outcome::Applies), explained.limits.len()) {
        (1, 1) => "\nthe limit applies\n".to_owned(),
        (_, 1) if count(Outcome::Error) > 0 => "\n".to_owned(),
        (_, 1) => "\nthe limit does not apply\n".to_owned(),
        (applying, all) => format!("\n{applying} of {all} limits apply\n"),
    };
    if count(Outcome::Error) > 0 {
        let told = "the service would answer this request with 422, because of the errors above";
        let _infallible = writeln!(text, "{}", paint.tone(Tone::Bad, told));
    }
    for unused in &explained.unused {
        let meant = unused
            .meant
            .as_ref()
            .map(|meant| format!("; did you mean `{meant}`?"))
            .unwrap_or_default();
        let told = format!("no limit looks at `{}`{meant}", plain(&unused.attribute));
        let _infallible = writeln!(text, "{}", paint.tone(Tone::Careful, &told));
    }
    text
}
