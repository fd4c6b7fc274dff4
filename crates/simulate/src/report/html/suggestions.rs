//! The suggested limits as tables.

use std::fmt::{self, Write as _};

use super::super::escape::HtmlText;
use super::super::{LimitCandidate, LimitSuggestion};
use crate::text::{grouped, share};

/// Writes a table for each limit that applied to some request.
pub(super) fn suggestions(
    page: &mut String,
    suggestions: Option<&[LimitSuggestion]>,
) -> fmt::Result {
    let Some(suggestions) = suggestions else {
        return Ok(());
    };

    page.push_str(
        "<h2>Limits suggested from usage</h2>\n\
         <p class=\"note\">Percentiles of the peak usage of keys, and what a limit of that size \
         would have denied on its own.</p>\n",
    );
    for suggestion in suggestions
        .iter()
        .filter(|suggestion| !suggestion.candidates.is_empty())
    {
        writeln!(
            page,
            "<table><caption>{}: now {}; {} requests of {} keys</caption><thead><tr>\
             <th>percentile</th><th class=\"n\">limit</th><th class=\"n\">denied requests</th>\
             <th class=\"n\">denied keys</th></tr></thead><tbody>",
            HtmlText(&suggestion.name),
            HtmlText(&suggestion.quota),
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

fn candidate_row(
    page: &mut String,
    candidate: &LimitCandidate,
    suggestion: &LimitSuggestion,
) -> fmt::Result {
    let with_share =
        |part: u64, whole: u64| format!("{} <small>{}</small>", grouped(part), share(part, whole));
    let (class, mark) = if candidate.suggested {
        (" class=\"pick\"", " ← suggested")
    } else {
        ("", "")
    };

    let percentile = candidate.percentile;
    let limit = grouped(candidate.limit);
    let requests = candidate.denied.map_or_else(
        || "–".to_owned(),
        |denied| with_share(denied, suggestion.requests),
    );
    let keys = with_share(candidate.keys_denied, suggestion.keys);
    writeln!(
        page,
        "<tr{class}><th>{percentile}</th><td class=\"n\">{limit}{mark}</td>\
         <td class=\"n\">{requests}</td><td class=\"n\">{keys}</td></tr>"
    )
}
