//! A simulation: a log replayed line by line through one configuration, or through two side by
//! side.

mod report;

use std::io;

use tollgate::Quota;
use tollgate_rules::{Config, LimitConfig};

use crate::batch::{LogOptions, LogPass, ReplayRequest, SimulationProgress};
use crate::compare::Comparison;
use crate::config_run::ConfigRun;
use crate::counts::SimulationTimeline;
use crate::input::LogInput;
use crate::log::{AccessLogFormat, FieldError, LogFields, LogParser, LogRecord, LoggedMoment};
use crate::replay::ConfigReplay;
use crate::suggest::{SuggestionTrials, UsagePeaks};

pub use report::ReportLabels;

/// What to replay, and how.
#[derive(Clone, Copy, Debug)]
pub struct SimulationPlan<'p> {
    /// The configuration.
    pub config: &'p Config,
    /// A second configuration to compare with.
    pub against: Option<&'p Config>,
    /// The format of the log.
    pub format: AccessLogFormat,
    /// Names of JSON fields by attribute, such as `("time", "ts")`.
    pub fields: &'p [(String, String)],
    /// Which moment of a request the time of its line is. `None` to take it from the lines: the end
    /// of the request, except where the field's name says that it is the start.
    pub logged_at: Option<LoggedMoment>,
    /// Whether to measure usage, so that limits can be suggested.
    pub suggest: Option<SuggestionRange>,
}

/// Which limits may be suggested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuggestionRange {
    /// Up to the knee, where a few keys use many times what all others use.
    UpToKnee,
    /// Beyond the knee, too.
    BeyondKnee,
}

/// A simulation in progress.
#[derive(Debug)]
pub struct Simulation {
    pass: LogPass,
    state: SimulationState,
}

/// The counters of a simulation.
#[derive(Debug)]
struct SimulationState {
    timeline: SimulationTimeline,
    first: ConfigRun,
    /// The second configuration, and how it differs from the first.
    second: Option<(ConfigRun, Comparison)>,
    peaks: Option<UsagePeaks>,
}

impl Simulation {
    /// A simulation that has not read anything yet.
    pub fn new(plan: &SimulationPlan<'_>) -> Result<Self, FieldError> {
        let configs = || std::iter::once(plan.config).chain(plan.against);
        let attributes = configs()
            .flat_map(|config| &config.limits)
            .flat_map(LimitConfig::attributes);
        let fields = LogFields::new(attributes, plan.fields)?;

        let first = ConfigRun::new(ConfigReplay::new(plan.config), 0);
        let second = plan.against.map(|config| {
            let run = ConfigRun::new(ConfigReplay::new(config), first.series_count());
            let comparison = Comparison::new(&first.replay, &run.replay);
            (run, comparison)
        });
        let series =
            first.series_count() + second.as_ref().map_or(0, |(run, _)| run.series_count());
        let peaks = plan
            .suggest
            .map(|range| UsagePeaks::new(plan.config, range == SuggestionRange::BeyondKnee));
        let options = LogOptions {
            parser: LogParser::new(plan.format, fields),
            by_start: configs().any(has_concurrency),
            logged_at: plan.logged_at,
        };

        Ok(Self {
            pass: LogPass::new(options),
            state: SimulationState {
                timeline: SimulationTimeline::new(series),
                first,
                second,
                peaks,
            },
        })
    }

    /// Replays all lines of an input. `on_progress` is called after each chunk.
    pub fn replay(
        &mut self,
        input: &mut LogInput,
        on_progress: &mut dyn FnMut(SimulationProgress),
    ) -> io::Result<()> {
        let Self { pass, state } = self;
        pass.read(input, on_progress, |requests| state.replay(requests))
    }

    /// Starts the second pass, which counts what the suggested limits would have denied. The caller
    /// replays the same log through it. `None` if usage was not measured.
    pub fn trials(&mut self) -> Option<SuggestionTrials> {
        self.finish();
        let peaks = self.state.peaks.as_ref()?;
        Some(SuggestionTrials::new(peaks, self.pass.options.clone()))
    }

    /// Replays the requests that were held back, at the end of the log.
    fn finish(&mut self) {
        let Self { pass, state } = self;
        pass.finish(|requests| state.replay(requests));
    }

    /// Whether no line so far could be parsed.
    pub const fn is_unread(&self) -> bool {
        self.pass.lines.read == 0
    }
}

impl SimulationState {
    fn replay(&mut self, requests: &[ReplayRequest<LogRecord<'_>>]) {
        let (first, timeline) = (&mut self.first, &mut self.timeline);
        if let Some(peaks) = &mut self.peaks {
            peaks.measure(requests);
        }

        let Some((second, comparison)) = &mut self.second else {
            first.replay(requests, timeline, None);
            return;
        };
        let (mut one, mut other) = (Vec::new(), Vec::new());
        first.replay(requests, timeline, Some(&mut one));
        second.replay(requests, timeline, Some(&mut other));
        for (request, decisions) in requests.iter().zip(one.iter().zip(&other)) {
            comparison.count([decisions.0.as_ref(), decisions.1.as_ref()], request.at);
        }
    }
}

fn has_concurrency(config: &Config) -> bool {
    let mut limits = config.limits.iter();
    limits.any(|limit| matches!(limit.rule.quota(), Quota::Concurrency(_)))
}
