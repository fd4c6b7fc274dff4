//! The report as a self-contained HTML page: no network, no scripts, light and dark.
//!
//! Keys, paths and other texts from the log are under the control of clients. All of them are
//! escaped. As a second line of defense, a content security policy prevents the page from loading
//! or running anything.

use std::cmp::Reverse;

use askama::Template;

use super::plot::TimelinePlot;
use super::{
    ComparisonReport, ConfigReport, SimulatedLimitReport, SimulationReport, TimelineReport,
    TimelineSeries,
};
use crate::text;

/// The maximum number of limits with a plot. Those with the most denials come first.
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
        let SimulationReport { timeline, log, .. } = self.report;
        TimelinePlot {
            title,
            from: &timeline.from,
            to: log.to.as_deref().unwrap_or_default(),
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
    /// The limits with a plot: those that denied something.
    fn plotted_limits(&self) -> Vec<&SimulatedLimitReport> {
        let mut limits: Vec<_> = self
            .limits
            .iter()
            .filter(|limit| limit.denied > 0)
            .collect();
        limits.sort_by_key(|limit| Reverse(limit.denied));
        limits.truncate(PLOTS_MAX);
        limits
    }
}
