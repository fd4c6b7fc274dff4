//! Limits from real use, as tables of the page.

use std::fmt::{self, Write as _};

use super::super::escaped::Escaped;
use super::super::{Candidate, Suggestion};
use crate::text::{grouped, share};

/// What was found, a table for each limit that anything met.
pub(super) fn suggestions(page: &mut String, suggestions: Option<&[Suggestion]>) -> fmt::Result {
    let Some(suggestions) = suggestions else {
        return Ok(());
    };
    page.push_str(
        "<h2>Limits from real use</h2>\n<p class=\"note\">How much each key used at most, and what a limit of that size \
         would have refused by itself.</p>\n",
    );
    for suggestion in suggestions
        .iter()
        .filter(|suggestion| !suggestion.candidates.is_empty())
    {
        writeln!(
            page,
            "<table><caption>{}: {} now, {} requests of {} keys</caption><thead><tr><th>of the keys</th>\
             <th class=\"n\">a limit of</th><th class=\"n\">refuses requests</th><th class=\"n\">refuses keys</th>\
             </tr></thead><tbody>",
            Escaped(&suggestion.name),
            Escaped(&suggestion.numbers),
            grouped(suggestion.requests),
            grouped(suggestion.keys)
        )?;
        suggestion
            .candidates
            .iter()
            .try_for_each(|candidate| candidate_row(page, candidate, suggestion))?;
        page.push_str("</tbody></table>\n");
    }
    Ok(())
}

fn candidate_row(page: &mut String, candidate: &Candidate, suggestion: &Suggestion) -> fmt::Result {
    let part =
        |part: u64, whole: u64| format!("{} <small>{}</small>", grouped(part), share(part, whole));
    let class = if candidate.suggested {
        " class=\"pick\""
    } else {
        ""
    };
    let mark = if candidate.suggested {
        " ← suggested"
    } else {
        ""
    };
    let refused = candidate.refused.map_or_else(
        || "–".to_owned(),
        |refused| part(refused, suggestion.requests),
    );
    writeln!(
        page,
        "<tr{class}><th>{}</th><td class=\"n\">{}{mark}</td><td class=\"n\">{refused}</td><td class=\"n\">{}</td></tr>",
        candidate.percentile,
        grouped(candidate.limit),
        part(candidate.keys_refused, suggestion.keys)
    )
}
