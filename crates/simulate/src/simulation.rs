//! A simulation: a log replayed line by line through one configuration, or through two side by
//! side.

use std::io;

use tollgate_rules::{Attribute, Config, LimitConfig};

use crate::batch::{ReplayRequest, for_each_batch};
use crate::compare::Comparison;
use crate::config_run::ConfigRun;
use crate::counts::{LineCounts, SimulationTimeline};
use crate::input::LogInput;
use crate::log::{AccessLogFormat, FieldError, LogFields, LogParser, LogRecord};
use crate::replay::ConfigReplay;
use crate::suggest::{SuggestionTrials, UsagePeaks};

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
    /// Whether to measure usage, so that limits can be suggested.
    pub suggest: bool,
}

/// The progress of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimulationProgress {
    /// Bytes read from the current input, before decompression.
    pub bytes_read: u64,
    /// Lines read in total.
    pub lines: u64,
}

/// A simulation in progress.
#[derive(Debug)]
pub struct Simulation {
    parser: LogParser,
    pub(crate) lines: LineCounts,
    pub(crate) state: SimulationState,
}

/// The counters of a simulation.
#[derive(Debug)]
pub(crate) struct SimulationState {
    pub(crate) timeline: SimulationTimeline,
    pub(crate) first: ConfigRun,
    /// The second configuration, and how it differs from the first.
    pub(crate) second: Option<(ConfigRun, Comparison)>,
    pub(crate) peaks: Option<UsagePeaks>,
}

impl Simulation {
    /// A simulation that has not read anything yet.
    pub fn new(plan: &SimulationPlan<'_>) -> Result<Self, FieldError> {
        let configs = || std::iter::once(plan.config).chain(plan.against);
        let attributes = configs()
            .flat_map(|config| &config.limits)
            .flat_map(attributes);
        let fields = LogFields::new(attributes, plan.fields)?;

        let first = ConfigRun::new(ConfigReplay::new(plan.config), 0);
        let second = plan.against.map(|config| {
            let run = ConfigRun::new(ConfigReplay::new(config), first.series_count());
            let comparison = Comparison::new(&first.replay, &run.replay);
            (run, comparison)
        });
        let series =
            first.series_count() + second.as_ref().map_or(0, |(run, _)| run.series_count());
        let peaks = plan.suggest.then(|| UsagePeaks::new(plan.config));

        Ok(Self {
            parser: LogParser::new(plan.format, fields),
            lines: LineCounts::default(),
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
        while let Some(chunk) = input.chunk()? {
            let Self {
                parser,
                lines,
                state,
            } = self;
            for_each_batch(parser, chunk, lines, |requests| state.replay(requests));

            on_progress(SimulationProgress {
                bytes_read: input.bytes_read(),
                lines: self.lines.all,
            });
        }
        Ok(())
    }

    /// Starts the second pass, which counts what the suggested limits would have denied. The caller
    /// replays the same log through it. `None` if usage was not measured.
    pub fn trials(&self) -> Option<SuggestionTrials> {
        self.state
            .peaks
            .as_ref()
            .map(|peaks| SuggestionTrials::new(peaks, self.parser.with_same_format()))
    }

    /// Whether no line so far could be parsed.
    pub const fn is_unread(&self) -> bool {
        self.lines.read == 0
    }
}

impl SimulationState {
    fn replay(&mut self, requests: &[ReplayRequest<LogRecord<'_>>]) {
        let Self {
            timeline,
            first,
            second,
            peaks,
        } = self;
        if let Some(peaks) = peaks {
            peaks.measure(requests);
        }

        let Some((second, comparison)) = second else {
            first.replay(requests, timeline, None);
            return;
        };
        let (mut one, mut other) = (Vec::new(), Vec::new());
        first.replay(requests, timeline, Some(&mut one));
        second.replay(requests, timeline, Some(&mut other));
        for (request, decisions) in requests.iter().zip(one.iter().zip(&other)) {
            comparison.count([decisions.0, decisions.1], request.at);
        }
    }
}

/// All attributes that a limit uses.
fn attributes(limit: &LimitConfig) -> impl Iterator<Item = &Attribute> {
    let conditions = limit
        .conditions
        .iter()
        .map(|condition| &condition.attribute);
    let tier = limit.tiers.iter().map(|tiers| &tiers.by);
    let cost = limit.cost.iter().filter_map(|cost| cost.attribute.as_ref());

    limit
        .key
        .parts
        .iter()
        .flatten()
        .chain(conditions)
        .chain(tier)
        .chain(cost)
}
