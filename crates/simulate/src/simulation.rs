//! A log replayed: line after line through one configuration, or through two side by side.

use std::io;

use tollgate_rules::{Attribute, Config, Rule};

use crate::compare::Comparison;
use crate::input::{Input, Line};
use crate::log::{BadLine, FieldError, Fields, Format, LogReader};
use crate::replay::Replay;
use crate::side::{Moment, Refusals, Side};
use crate::suggest::{Peaks, Trials};
use crate::tally::{LineTally, Timeline};

/// How many lines are replayed between two looks at the clock.
const TELL_EVERY: u64 = 16_384;

/// What to replay, and how.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'p> {
    /// The configuration.
    pub config: &'p Config,
    /// Another one to compare it with.
    pub against: Option<&'p Config>,
    /// How lines are laid out.
    pub format: Format,
    /// Where JSON holds what, as in `("time", "ts")`.
    pub fields: &'p [(String, String)],
    /// Whether use is measured too, for suggestions.
    pub suggest: bool,
}

/// How far a replay is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read, packed as they are.
    pub bytes_read: u64,
    /// Lines read.
    pub lines: u64,
}

/// A log under replay.
#[derive(Debug)]
pub struct Simulation {
    reader: LogReader,
    pub(crate) lines: LineTally,
    pub(crate) timeline: Timeline,
    pub(crate) first: Side,
    pub(crate) second: Option<(Side, Comparison)>,
    pub(crate) peaks: Option<Peaks>,
}

impl Simulation {
    /// A simulation that has seen nothing yet.
    pub fn new(plan: &Plan<'_>) -> Result<Self, FieldError> {
        let configs = || std::iter::once(plan.config).chain(plan.against);
        let attributes = configs().flat_map(|config| &config.limits).flat_map(attributes);
        let fields = Fields::new(attributes, plan.fields)?;
        let first = Side::new(Replay::new(plan.config), 0);
        let second = plan.against.map(|config| {
            let side = Side::new(Replay::new(config), first.series_count());
            let comparison = Comparison::new(&first.replay, &side.replay);
            (side, comparison)
        });
        let series = first.series_count() + second.as_ref().map_or(0, |(side, _)| side.series_count());
        Ok(Self {
            reader: LogReader::new(plan.format, fields),
            lines: LineTally::default(),
            timeline: Timeline::new(series),
            first,
            second,
            peaks: plan.suggest.then(|| Peaks::new(plan.config)),
        })
    }

    /// Replays all lines of an input. `tell` hears every now and then how far it is.
    pub fn replay(&mut self, input: &mut Input, tell: &mut dyn FnMut(Progress)) -> io::Result<()> {
        let mut until_told = TELL_EVERY;
        while let Some(line) = input.line()? {
            self.line(line);
            until_told -= 1;
            if until_told == 0 {
                until_told = TELL_EVERY;
                tell(Progress { bytes_read: input.bytes_read(), lines: self.lines.all });
            }
        }
        tell(Progress { bytes_read: input.bytes_read(), lines: self.lines.all });
        Ok(())
    }

    /// What limits of the sizes that were found would have refused: the log has to be replayed through this a second time.
    /// `None` when use was not measured.
    pub fn trials(&self) -> Option<Trials> {
        self.peaks.as_ref().map(|peaks| Trials::new(peaks, self.reader.again()))
    }

    /// True when no line so far could be read.
    pub const fn is_unread(&self) -> bool {
        self.lines.read == 0
    }

    fn line(&mut self, line: Line<'_>) {
        let Self { reader, lines, timeline, first, second, peaks } = self;
        lines.all += 1;
        let line = match line {
            Line::Whole(line) if line.trim_ascii().is_empty() => {
                lines.blank += 1;
                return;
            }
            Line::Whole(line) => line,
            Line::TooLong(beginning) => return lines.spoil(BadLine::TooLong, beginning),
        };
        let request = match reader.read(line) {
            Ok(request) => request,
            Err(wrong) => return lines.spoil(wrong, line),
        };
        lines.read += 1;
        let at = lines.moment(request.time());
        let moment = Moment { line: lines.all, at, stretch: timeline.at(at) };
        if let Some(peaks) = peaks {
            peaks.measure(&request, at);
        }
        let Some((second, comparison)) = second else {
            first.replay(&request, moment, timeline, None);
            return;
        };
        let (mut one, mut other) = (Refusals::new(), Refusals::new());
        let passes = (
            first.replay(&request, moment, timeline, Some(&mut one)),
            second.replay(&request, moment, timeline, Some(&mut other)),
        );
        if let (Some(first_passes), Some(second_passes)) = passes {
            let replays = [&first.replay, &second.replay];
            comparison.count([first_passes, second_passes], [&one, &other], replays, &request, at);
        }
    }
}

/// Every attribute that a limit looks at.
fn attributes(rule: &Rule) -> impl Iterator<Item = &Attribute> {
    let conditions = rule.applies.conditions.iter().map(|condition| &condition.attribute);
    let tier = rule.tiers.iter().map(|tiers| &tiers.by);
    let cost = rule.cost.iter().filter_map(|cost| cost.by.as_ref());
    rule.key.parts.iter().flatten().chain(conditions).chain(tier).chain(cost)
}
