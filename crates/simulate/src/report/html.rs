//! The report as a self-contained HTML page: no network, no scripts, light and dark.
//!
//! Keys, paths and other texts from the log are under the control of clients. All of them are
//! escaped. As a second line of defense, a content security policy prevents the page from loading
//! or running anything.

mod suggestions;

use std::fmt::{self, Write as _};

use self::suggestions::suggestions;
use super::escape::HtmlText;
use super::plot::TimelinePlot;
use super::{
    ComparisonReport, ConfigReport, KeyReport, LimitComparison, LogReport, SimulatedLimitReport,
    SimulationReport, TimelineSeries,
};
use crate::text::{grouped, share};

/// The maximum number of limits with a plot. Those with the most denials come first.
const PLOTS_MAX: usize = 40;
const STYLE: &str = include_str!("style.css");
const HEAD: &str = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
    <meta http-equiv=\"Content-Security-Policy\" \
    content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
    <meta name=\"color-scheme\" content=\"light dark\">\n\
    <title>Tollgate: simulation report</title>\n";

impl SimulationReport {
    /// The page.
    pub fn html(&self) -> String {
        let mut page = String::with_capacity(64 * 1024);
        let _infallible = self.write_page(&mut page);
        page
    }

    fn write_page(&self, page: &mut String) -> fmt::Result {
        page.push_str(HEAD);
        writeln!(page, "<style>\n{STYLE}</style>\n</head>\n<body>\n<main>")?;
        writeln!(page, "<h1>Simulation report</h1>")?;

        self.write_summary(page)?;
        self.write_overall(page)?;
        if let Some(comparison) = &self.comparison {
            self.write_comparison(page, comparison)?;
        }
        write_config(page, self, &self.configuration, false)?;
        if let Some(against) = &self.against {
            write_config(page, self, against, true)?;
        }
        suggestions(page, self.suggestions.as_deref())?;
        write_bad_lines(page, &self.log)?;

        page.write_str("</main>\n</body>\n</html>\n")
    }

    fn write_summary(&self, page: &mut String) -> fmt::Result {
        let LogReport {
            files,
            lines,
            requests,
            bad_lines,
            ..
        } = &self.log;
        let config = &self.configuration;
        let errors = config.error_count();

        writeln!(
            page,
            "<p class=\"lead\">{} · {}</p>",
            HtmlText(&files.join(", ")),
            HtmlText(&self.period())
        )?;

        let tiles = [
            ("lines", grouped(*lines), String::new()),
            ("requests", grouped(*requests), String::new()),
            (
                "denied",
                grouped(config.denied),
                share(config.denied, *requests),
            ),
            ("errors", grouped(errors), share(errors, *requests)),
            (
                "invalid lines",
                grouped(*bad_lines),
                share(*bad_lines, *lines),
            ),
        ];
        page.push_str("<dl class=\"tiles\">\n");
        for (name, value, percentage) in tiles {
            writeln!(
                page,
                "<div><dt>{name}</dt><dd>{value} <small>{percentage}</small></dd></div>"
            )?;
        }
        page.push_str("</dl>\n");

        if self.log.late_lines > 0 {
            let note = late_lines(&self.log);
            writeln!(page, "<p class=\"note\">{}</p>", HtmlText(&note))?;
        }
        Ok(())
    }

    fn period(&self) -> String {
        match (&self.log.from, &self.log.to) {
            (Some(from), Some(to)) => format!("{from} to {to}"),
            _ => "no requests".to_owned(),
        }
    }

    /// The start and the end of the time axis.
    fn time_range(&self) -> (&str, &str) {
        (
            &self.timeline.from,
            self.log.to.as_deref().unwrap_or_default(),
        )
    }

    fn write_overall(&self, page: &mut String) -> fmt::Result {
        let Some(all) = self.series(None, false) else {
            return Ok(());
        };

        page.push_str("<h2>All requests</h2>\n");
        write_legend(page, &[("allowed", "allowed"), ("denied", "denied")])?;
        let plot = self.plot("all requests: allowed and denied over time", all);
        write!(page, "{plot}")?;
        writeln!(
            page,
            "<p class=\"note\">All plots count requests per {} s.</p>",
            grouped(self.timeline.step_seconds)
        )
    }

    fn series(&self, limit: Option<&str>, against: bool) -> Option<&TimelineSeries> {
        self.timeline
            .series
            .iter()
            .find(|series| series.limit.as_deref() == limit && series.against == against)
    }

    fn plot<'r>(&'r self, title: &str, series: &'r TimelineSeries) -> TimelinePlot<'r> {
        let (from, to) = self.time_range();
        let layers = vec![("allowed", &*series.allowed), ("denied", &*series.denied)];
        TimelinePlot {
            title: title.to_owned(),
            from,
            to,
            layers,
            is_stacked: true,
        }
    }

    fn write_comparison(&self, page: &mut String, comparison: &ComparisonReport) -> fmt::Result {
        let first = &self.configuration.file;
        let second = self.against.as_ref().map_or("", |config| &config.file);
        writeln!(page, "<h2>Compared with {}</h2>", HtmlText(second))?;

        self.write_comparison_plot(page, first, second)?;
        write_comparison_table(page, comparison, first, second)?;
        writeln!(
            page,
            "<p class=\"note\">{}</p>",
            ComparisonReport::INTERACTION_NOTE
        )?;

        comparison
            .limits
            .iter()
            .try_for_each(|limit| write_differing_keys(page, limit, first, second))
    }

    fn write_comparison_plot(&self, page: &mut String, first: &str, second: &str) -> fmt::Result {
        let (Some(one), Some(other)) = (self.series(None, false), self.series(None, true)) else {
            return Ok(());
        };

        write_legend(page, &[("first", first), ("second", second)])?;
        let (from, to) = self.time_range();
        let plot = TimelinePlot {
            title: "requests denied over time by each configuration".to_owned(),
            from,
            to,
            layers: vec![("first", &*one.denied), ("second", &*other.denied)],
            is_stacked: false,
        };
        write!(page, "{plot}")
    }
}

fn write_comparison_table(
    page: &mut String,
    comparison: &ComparisonReport,
    first: &str,
    second: &str,
) -> fmt::Result {
    let ComparisonReport {
        only_configuration,
        only_against,
        both,
        limits,
    } = comparison;
    let row = |page: &mut String, name: &str, counts: [u64; 3]| {
        let [one, other, both] = counts.map(grouped);
        let (name, n) = (HtmlText(name), "<td class=\"n\">");
        writeln!(
            page,
            "<tr><th>{name}</th>{n}{one}</td>{n}{other}</td>{n}{both}</td></tr>"
        )
    };

    writeln!(
        page,
        "<div class=\"wide\"><table><thead><tr><th>denied by</th>\
         <th class=\"n\">only {}</th><th class=\"n\">only {}</th>\
         <th class=\"n\">both</th></tr></thead><tbody>",
        HtmlText(first),
        HtmlText(second)
    )?;
    let all = [*only_configuration, *only_against, *both];
    row(page, "all requests", all)?;
    for limit in limits {
        let counts = [limit.only_configuration, limit.only_against, limit.both];
        row(page, &limit.name, counts)?;
    }
    page.write_str("</tbody></table></div>\n")
}

fn late_lines(log: &LogReport) -> String {
    format!(
        "{} lines have an earlier time than a line before them, by at most {} ms; \
         they were replayed at the later time.",
        grouped(log.late_lines),
        grouped(log.late_max_ms)
    )
}

fn write_legend(page: &mut String, entries: &[(&str, &str)]) -> fmt::Result {
    page.push_str("<p class=\"legend\">");
    for (class, name) in entries {
        write!(
            page,
            "<span><i class=\"{class}\"></i>{}</span>",
            HtmlText(name)
        )?;
    }
    page.write_str("</p>\n")
}

fn write_config(
    page: &mut String,
    report: &SimulationReport,
    config: &ConfigReport,
    against: bool,
) -> fmt::Result {
    writeln!(page, "<h2>Limits of {}</h2>", HtmlText(&config.file))?;
    page.push_str(
        "<div class=\"wide\"><table><thead><tr><th>limit</th><th>allows</th>\
         <th class=\"n\">requests</th><th class=\"n\">denied</th><th class=\"n\">share</th>\
         <th class=\"n\">denied keys</th><th>first</th><th>last</th><th>worst minute</th></tr>\
         </thead><tbody>\n",
    );
    config
        .limits
        .iter()
        .try_for_each(|limit| write_limit_row(page, limit))?;
    page.push_str("</tbody></table></div>\n");

    let errors = config.errors.iter().map(|errors| {
        format!(
            "{} requests get an error, the first on line {}: {}",
            grouped(errors.count),
            errors.line,
            errors.message
        )
    });
    for note in errors.chain(config.notes.iter().cloned()) {
        writeln!(page, "<p class=\"note\">{}</p>", HtmlText(&note))?;
    }

    let mut denying: Vec<&SimulatedLimitReport> = config
        .limits
        .iter()
        .filter(|limit| limit.denied > 0)
        .collect();
    denying.sort_by_key(|limit| std::cmp::Reverse(limit.denied));
    denying
        .iter()
        .take(PLOTS_MAX)
        .try_for_each(|limit| write_limit_section(page, report, limit, against))
}

fn write_limit_row(page: &mut String, limit: &SimulatedLimitReport) -> fmt::Result {
    let shadow = if limit.shadow {
        " <small>(shadow: never denies)</small>"
    } else {
        ""
    };
    let more = if limit.keys_error_max > 0 { "+" } else { "" };
    let time = |time: &Option<String>| time.clone().unwrap_or_else(|| "–".to_owned());
    let worst = limit.worst_minute.as_ref().map_or_else(
        || "–".to_owned(),
        |worst| format!("{} ({})", worst.at, grouped(worst.denied)),
    );

    writeln!(
        page,
        "<tr><th>{}{shadow}</th><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
         <td class=\"n\">{}</td><td class=\"n\">{}{more}</td><td class=\"t\">{}</td>\
         <td class=\"t\">{}</td><td class=\"t\">{worst}</td></tr>",
        HtmlText(&limit.name),
        HtmlText(&limit.quota),
        grouped(limit.requests),
        grouped(limit.denied),
        share(limit.denied, limit.requests),
        grouped(limit.keys_denied),
        time(&limit.first_denial),
        time(&limit.last_denial),
    )
}

/// Writes a plot and the top keys of a limit that denied something.
fn write_limit_section(
    page: &mut String,
    report: &SimulationReport,
    limit: &SimulatedLimitReport,
    against: bool,
) -> fmt::Result {
    writeln!(page, "<section>\n<h3>{}</h3>", HtmlText(&limit.name))?;
    if let Some(series) = report.series(Some(&limit.name), against) {
        let title = format!("{}: allowed and denied over time", limit.name);
        write!(page, "{}", report.plot(&title, series))?;
    }

    write_keys(page, "keys denied most", &limit.top_keys)?;
    if limit.keys_error_max > 0 {
        let most = grouped(limit.keys_error_max);
        writeln!(
            page,
            "<p class=\"note\">Too many keys to count them all: \
             each count may be too low by up to {most}.</p>"
        )?;
    }
    page.write_str("</section>\n")
}

fn write_keys(page: &mut String, title: &str, keys: &[KeyReport]) -> fmt::Result {
    let Some(most) = keys.first().map(|key| key.denied.max(1)) else {
        return Ok(());
    };

    writeln!(
        page,
        "<div class=\"wide\"><table class=\"keys\"><thead><tr><th>{}</th>\
         <th class=\"n\">denied</th><th></th><th>first</th><th>last</th></tr></thead><tbody>",
        HtmlText(title)
    )?;
    for key in keys {
        let width = (key.denied * 100).div_ceil(most).min(100);
        writeln!(
            page,
            "<tr><td><code>{}</code></td><td class=\"n\">{}</td>\
             <td class=\"bar\"><i style=\"width:{width}%\"></i></td>\
             <td class=\"t\">{}</td><td class=\"t\">{}</td></tr>",
            HtmlText(&key.key),
            grouped(key.denied),
            key.first,
            key.last
        )?;
    }
    page.write_str("</tbody></table></div>\n")
}

fn write_differing_keys(
    page: &mut String,
    limit: &LimitComparison,
    first: &str,
    second: &str,
) -> fmt::Result {
    let title = |file: &str| format!("{}: keys denied only by {file}", limit.name);
    write_keys(page, &title(first), &limit.top_only_configuration)?;
    write_keys(page, &title(second), &limit.top_only_against)
}

fn write_bad_lines(page: &mut String, log: &LogReport) -> fmt::Result {
    if log.bad_kinds.is_empty() {
        return Ok(());
    }

    page.push_str(
        "<h2>Invalid lines</h2>\n<div class=\"wide\"><table><thead><tr><th>found</th>\
         <th class=\"n\">lines</th><th>expected</th><th>first line</th></tr></thead><tbody>\n",
    );
    for kind in &log.bad_kinds {
        let first = log
            .bad_examples
            .iter()
            .find(|example| example.kind == kind.kind)
            .map(|example| format!("line {}: {}", example.line, example.text))
            .unwrap_or_default();
        writeln!(
            page,
            "<tr><th>{}</th><td class=\"n\">{}</td><td>{}</td><td><code>{}</code></td></tr>",
            kind.found,
            grouped(kind.count),
            HtmlText(kind.expected),
            HtmlText(&first)
        )?;
    }
    page.write_str("</tbody></table></div>\n")
}
