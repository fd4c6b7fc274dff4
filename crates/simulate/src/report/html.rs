//! The report as one page that needs nothing else: no network, no scripts, light and dark.
//!
//! Keys, paths and whatever else stands in a log were written by whoever sent the requests.
//! Everything is escaped, and the page forbids itself to load or run anything, should that ever be
//! forgotten somewhere.

mod suggested;

use std::fmt::{self, Write as _};

use self::suggested::suggestions;
use super::escaped::Escaped;
use super::plot::Plot;
use super::{
    ComparisonReport, KeyReport, LimitComparison, LimitReport, LogReport, Report, Series,
    SideReport,
};
use crate::text::{grouped, share};

/// The most limits that get a plot: those that refused most.
const PLOTS_MAX: usize = 40;
const STYLE: &str = include_str!("style.css");

impl Report {
    /// The page.
    pub fn html(&self) -> String {
        let mut page = String::with_capacity(64 * 1024);
        let _infallible = self.write(&mut page);
        page
    }

    fn write(&self, page: &mut String) -> fmt::Result {
        page.push_str(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>Tollgate: what would have been limited</title>\n",
        );
        writeln!(page, "<style>\n{STYLE}</style>\n</head>\n<body>\n<main>")?;
        writeln!(page, "<h1>What would have been limited</h1>")?;
        self.summary(page)?;
        self.overall(page)?;
        sides(page, self)?;
        if let Some(comparison) = &self.comparison {
            self.compared(page, comparison)?;
        }
        suggestions(page, self.suggestions.as_deref())?;
        bad_lines(page, &self.log)?;
        page.write_str("</main>\n</body>\n</html>\n")
    }

    fn summary(&self, page: &mut String) -> fmt::Result {
        let LogReport {
            files,
            lines,
            requests,
            bad_lines,
            ..
        } = &self.log;
        let period = self.period();
        let files = files.join(", ");
        writeln!(
            page,
            "<p class=\"lead\">{} · {}</p>",
            Escaped(&files),
            Escaped(&period)
        )?;
        let side = &self.configuration;
        let tiles = [
            ("lines", grouped(*lines), String::new()),
            ("requests", grouped(*requests), String::new()),
            (
                "refused",
                grouped(side.refused),
                share(side.refused, *requests),
            ),
            (
                "no decision",
                grouped(side.unanswered_count()),
                share(side.unanswered_count(), *requests),
            ),
            (
                "unreadable lines",
                grouped(*bad_lines),
                share(*bad_lines, *lines),
            ),
        ];
        page.push_str("<dl class=\"tiles\">\n");
        for (name, value, aside) in tiles {
            writeln!(
                page,
                "<div><dt>{name}</dt><dd>{value} <small>{aside}</small></dd></div>"
            )?;
        }
        page.push_str("</dl>\n");
        if self.log.late_lines > 0 {
            writeln!(page, "<p class=\"note\">{}</p>", Escaped(&late(&self.log)))?;
        }
        Ok(())
    }

    fn period(&self) -> String {
        match (&self.log.from, &self.log.to) {
            (Some(from), Some(to)) => format!("{from} to {to}"),
            _ => "nothing to read".to_owned(),
        }
    }

    /// The first and last moment of the plots.
    fn ends(&self) -> (&str, &str) {
        (
            &self.timeline.from,
            self.log.to.as_deref().unwrap_or_default(),
        )
    }

    fn overall(&self, page: &mut String) -> fmt::Result {
        let Some(all) = self.series(None, false) else {
            return Ok(());
        };
        page.push_str("<h2>All requests</h2>\n");
        legend(page, &[("allowed", "allowed"), ("refused", "refused")])?;
        write!(
            page,
            "{}",
            self.plot("all requests: allowed and refused over time", all)
        )?;
        writeln!(
            page,
            "<p class=\"note\">Each step is {} s.</p>",
            grouped(self.timeline.stretch_seconds)
        )
    }

    fn series(&self, limit: Option<&str>, against: bool) -> Option<&Series> {
        let is_it =
            |series: &&Series| series.limit.as_deref() == limit && series.against == against;
        self.timeline.series.iter().find(is_it)
    }

    fn plot<'r>(&'r self, title: &str, series: &'r Series) -> Plot<'r> {
        let (from, to) = self.ends();
        let layers = vec![("allowed", &*series.allowed), ("refused", &*series.refused)];
        Plot {
            title: title.to_owned(),
            from,
            to,
            layers,
            is_beside: false,
        }
    }

    fn compared(&self, page: &mut String, comparison: &ComparisonReport) -> fmt::Result {
        let (first, second) = (
            &self.configuration.file,
            self.against.as_ref().map_or("", |side| &side.file),
        );
        writeln!(page, "<h2>Compared with {}</h2>", Escaped(second))?;
        if let (Some(one), Some(other)) = (self.series(None, false), self.series(None, true)) {
            legend(page, &[("first", first), ("second", second)])?;
            let (from, to) = self.ends();
            let layers = vec![("first", &*one.refused), ("second", &*other.refused)];
            let title = "requests refused over time by each configuration".to_owned();
            write!(
                page,
                "{}",
                Plot {
                    title,
                    from,
                    to,
                    layers,
                    is_beside: true
                }
            )?;
        }
        writeln!(
            page,
            "<table><thead><tr><th>limit</th><th class=\"n\">only {}</th><th class=\"n\">only {}</th>\
             <th class=\"n\">both</th></tr></thead><tbody>",
            Escaped(first),
            Escaped(second)
        )?;
        let row = |page: &mut String, name: &str, counts: [u64; 3]| {
            let [one, other, both] = counts.map(grouped);
            let (name, n) = (Escaped(name), "<td class=\"n\">");
            writeln!(
                page,
                "<tr><th>{name}</th>{n}{one}</td>{n}{other}</td>{n}{both}</td></tr>"
            )
        };
        let ComparisonReport {
            only_configuration,
            only_against,
            both,
            limits,
        } = comparison;
        row(
            page,
            "all requests",
            [*only_configuration, *only_against, *both],
        )?;
        for limit in limits {
            row(
                page,
                &limit.name,
                [limit.only_configuration, limit.only_against, limit.both],
            )?;
        }
        page.push_str("</tbody></table>\n");
        limits
            .iter()
            .try_for_each(|limit| differing_keys(page, limit, first, second))
    }
}

/// What it means that lines are late.
pub(super) fn late(log: &LogReport) -> String {
    format!(
        "{} lines have an earlier time than a line before them, by {} ms at most; they were replayed at that line's time.",
        grouped(log.late_lines),
        grouped(log.late_max_ms)
    )
}

fn legend(page: &mut String, entries: &[(&str, &str)]) -> fmt::Result {
    page.push_str("<p class=\"legend\">");
    for (class, name) in entries {
        write!(
            page,
            "<span><i class=\"{class}\"></i>{}</span>",
            Escaped(name)
        )?;
    }
    page.write_str("</p>\n")
}

fn sides(page: &mut String, report: &Report) -> fmt::Result {
    side(page, report, &report.configuration, false)?;
    report
        .against
        .as_ref()
        .map_or(Ok(()), |other| side(page, report, other, true))
}

fn side(page: &mut String, report: &Report, side: &SideReport, against: bool) -> fmt::Result {
    writeln!(page, "<h2>Limits of {}</h2>", Escaped(&side.file))?;
    page.push_str(
        "<div class=\"wide\"><table><thead><tr><th>limit</th><th>allows</th><th class=\"n\">requests</th>\
         <th class=\"n\">refused</th><th class=\"n\">share</th><th class=\"n\">keys</th><th>first</th><th>last</th>\
         <th>worst minute</th></tr></thead><tbody>\n",
    );
    side.limits
        .iter()
        .try_for_each(|limit| limit_row(page, limit))?;
    page.push_str("</tbody></table></div>\n");
    let errors = side.unanswered.iter().map(|unanswered| {
        format!(
            "{} requests get an error, the first on line {}: {}",
            grouped(unanswered.count),
            unanswered.line,
            unanswered.message
        )
    });
    for note in errors.chain(side.notes.iter().cloned()) {
        writeln!(page, "<p class=\"note\">{}</p>", Escaped(&note))?;
    }
    let mut refusing: Vec<&LimitReport> = side
        .limits
        .iter()
        .filter(|limit| limit.refused > 0)
        .collect();
    refusing.sort_by_key(|limit| std::cmp::Reverse(limit.refused));
    refusing
        .iter()
        .take(PLOTS_MAX)
        .try_for_each(|limit| section(page, report, limit, against))
}

fn limit_row(page: &mut String, limit: &LimitReport) -> fmt::Result {
    let shadow = if limit.shadow {
        " <small>(shadow: refuses nobody)</small>"
    } else {
        ""
    };
    let more = if limit.keys_error_max > 0 { "+" } else { "" };
    let moment = |moment: &Option<String>| moment.clone().unwrap_or_else(|| "–".to_owned());
    let worst = limit.worst_minute.as_ref();
    let worst = worst.map_or_else(
        || "–".to_owned(),
        |worst| format!("{} ({})", worst.at, grouped(worst.refused)),
    );
    writeln!(
        page,
        "<tr><th>{}{shadow}</th><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
         <td class=\"n\">{}{more}</td><td class=\"t\">{}</td><td class=\"t\">{}</td><td class=\"t\">{worst}</td></tr>",
        Escaped(&limit.name),
        Escaped(&limit.numbers),
        grouped(limit.requests),
        grouped(limit.refused),
        share(limit.refused, limit.requests),
        grouped(limit.keys_refused),
        moment(&limit.first_refusal),
        moment(&limit.last_refusal),
    )
}

/// A limit that refused something: when, and whom.
fn section(page: &mut String, report: &Report, limit: &LimitReport, against: bool) -> fmt::Result {
    writeln!(page, "<section>\n<h3>{}</h3>", Escaped(&limit.name))?;
    if let Some(series) = report.series(Some(&limit.name), against) {
        let title = format!("{}: allowed and refused over time", limit.name);
        write!(page, "{}", report.plot(&title, series))?;
    }
    keys(page, "refused most", &limit.top_keys)?;
    if limit.keys_error_max > 0 {
        let most = grouped(limit.keys_error_max);
        writeln!(
            page,
            "<p class=\"note\">There are more keys than fit: each count may be up to {most} too small.</p>"
        )?;
    }
    page.write_str("</section>\n")
}

fn keys(page: &mut String, title: &str, keys: &[KeyReport]) -> fmt::Result {
    let Some(most) = keys.first().map(|key| key.refused.max(1)) else {
        return Ok(());
    };
    writeln!(
        page,
        "<table class=\"keys\"><thead><tr><th>{}</th><th class=\"n\">refused</th><th></th><th>first</th><th>last</th>\
         </tr></thead><tbody>",
        Escaped(title)
    )?;
    for key in keys {
        let width = (key.refused * 100).div_ceil(most).min(100);
        writeln!(
            page,
            "<tr><td><code>{}</code></td><td class=\"n\">{}</td><td class=\"bar\"><i style=\"width:{width}%\"></i></td>\
             <td class=\"t\">{}</td><td class=\"t\">{}</td></tr>",
            Escaped(&key.key),
            grouped(key.refused),
            key.first,
            key.last
        )?;
    }
    page.write_str("</tbody></table>\n")
}

fn differing_keys(
    page: &mut String,
    limit: &LimitComparison,
    first: &str,
    second: &str,
) -> fmt::Result {
    let title = |file: &str| format!("{}: refused by {file} alone", limit.name);
    keys(page, &title(first), &limit.top_only_configuration)?;
    keys(page, &title(second), &limit.top_only_against)
}

fn bad_lines(page: &mut String, log: &LogReport) -> fmt::Result {
    if log.bad_kinds.is_empty() {
        return Ok(());
    }
    page.push_str(
        "<h2>Lines that could not be read</h2>\n<div class=\"wide\"><table><thead><tr><th>found</th>\
                   <th class=\"n\">lines</th><th>right would be</th><th>the first</th></tr></thead><tbody>\n",
    );
    for kind in &log.bad_kinds {
        let first = log
            .bad_examples
            .iter()
            .find(|example| example.kind == kind.kind);
        let first = first
            .map(|example| format!("line {}: {}", example.line, example.text))
            .unwrap_or_default();
        writeln!(
            page,
            "<tr><th>{}</th><td class=\"n\">{}</td><td>{}</td><td><code>{}</code></td></tr>",
            kind.found,
            grouped(kind.count),
            Escaped(kind.right),
            Escaped(&first)
        )?;
    }
    page.write_str("</tbody></table></div>\n")
}
