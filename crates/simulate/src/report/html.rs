//! The report as a self-contained HTML page: no network, no scripts, light and dark.
//!
//! Keys, paths and other texts from the log are under the control of clients. All of them are
//! escaped. As a second line of defense, a content security policy prevents the page from loading
//! or running anything.

use std::cmp::Reverse;
use std::fmt;

use askama::Template;
use tollgate_rules::text::is_hidden;

use super::plot::TimelinePlot;
use super::{
    ConfigReport, LimitCandidate, LimitSuggestion, SimulatedLimitReport, SimulationReport,
    TimelineReport, TimelineSeries,
};
use crate::text;

/// The maximum number of limits with a plot.
const PLOTS_MAX: usize = 40;

#[derive(Template)]
#[template(path = "report.html")]
struct ReportPage<'r> {
    report: &'r SimulationReport,
}

impl SimulationReport {
    /// The page.
    pub fn html(&self) -> String {
        // Writing to a string cannot fail.
        ReportPage { report: self }.render().unwrap_or_default()
    }
}

impl<'r> ReportPage<'r> {
    fn plot_decisions(&self, name: &str, series: &'r TimelineSeries) -> TimelinePlot<'r> {
        let layers = vec![("allowed", &*series.allowed), ("denied", &*series.denied)];
        self.plot(
            format!("{name}: allowed and denied over time"),
            layers,
            true,
        )
    }

    fn plot_denials(
        &self,
        first: &'r TimelineSeries,
        second: &'r TimelineSeries,
    ) -> TimelinePlot<'r> {
        let layers = vec![("first", &*first.denied), ("second", &*second.denied)];
        let title = "requests denied over time by each configuration".to_owned();
        self.plot(title, layers, false)
    }

    fn plot(
        &self,
        title: String,
        layers: Vec<(&'static str, &'r [u64])>,
        is_stacked: bool,
    ) -> TimelinePlot<'r> {
        let timeline = &self.report.timeline;
        TimelinePlot {
            title,
            from: timeline.from_seconds,
            step_seconds: timeline.step_seconds,
            layers,
            is_stacked,
        }
    }
}

impl TimelineReport {
    fn series(&self, limit: Option<&str>, against: bool) -> Option<&TimelineSeries> {
        self.series
            .iter()
            .find(|series| series.limit.as_deref() == limit && series.against == against)
    }
}

impl ConfigReport {
    /// The limits with a plot: those that denied something. If these are too many, those with the
    /// most denials, in the order of the tables.
    fn plotted_limits(&self) -> Vec<&SimulatedLimitReport> {
        let mut denied: Vec<u64> = self.limits.iter().map(|limit| limit.denied).collect();
        denied.sort_unstable_by_key(|denied| Reverse(*denied));
        let least = denied
            .get(PLOTS_MAX - 1)
            .copied()
            .unwrap_or_default()
            .max(1);

        let plotted = self.limits.iter().filter(|limit| limit.denied >= least);
        plotted.take(PLOTS_MAX).collect()
    }
}

impl LimitSuggestion {
    /// The candidates, each with how many times the one before it is.
    fn rows(&self) -> impl Iterator<Item = (&LimitCandidate, String)> {
        let before = std::iter::once(None).chain(self.candidates.iter().map(Some));
        let candidates = self.candidates.iter().zip(before);
        candidates
            .map(|(candidate, before)| (candidate, candidate.growth(before).unwrap_or_default()))
    }
}

/// Escapes HTML special characters and hidden characters. The templates use it for every value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageEscaper;

impl askama::filters::Escaper for PageEscaper {
    fn write_escaped_str<W: fmt::Write>(&self, mut dest: W, text: &str) -> fmt::Result {
        text.chars().try_for_each(|c| match c {
            '&' => dest.write_str("&amp;"),
            '<' => dest.write_str("&lt;"),
            '>' => dest.write_str("&gt;"),
            '"' => dest.write_str("&quot;"),
            '\'' => dest.write_str("&#39;"),
            // Bidirectional controls could reverse the surrounding text.
            c if is_hidden(c) => write!(dest, "{}", c.escape_default()),
            c => dest.write_char(c),
        })
    }
}
