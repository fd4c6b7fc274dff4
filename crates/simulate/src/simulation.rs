//! A log replayed: line after line through one configuration, or through two side by side.

use std::io;

use tollgate_rules::{Attribute, Config, LimitConfig};

use crate::compare::Comparison;
use crate::input::Input;
use crate::log::{FieldError, Fields, Format, LogReader, Record};
use crate::replay::Replay;
use crate::requests::{Request, each_few};
use crate::side::Side;
use crate::suggest::{Peaks, Trials};
use crate::tally::{LineTally, Timeline};

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
    pub(crate) replayed: Replayed,
}

/// What came of the requests.
#[derive(Debug)]
pub(crate) struct Replayed {
    pub(crate) timeline: Timeline,
    pub(crate) first: Side,
    pub(crate) second: Option<(Side, Comparison)>,
    pub(crate) peaks: Option<Peaks>,
}

impl Simulation {
    /// A simulation that has seen nothing yet.
    pub fn new(plan: &Plan<'_>) -> Result<Self, FieldError> {
        let configs = || std::iter::once(plan.config).chain(plan.against);
        let attributes = configs()
            .flat_map(|config| &config.limits)
            .flat_map(attributes);
        let fields = Fields::new(attributes, plan.fields)?;
        let first = Side::new(Replay::new(plan.config), 0);
        let second = plan.against.map(|config| {
            let side = Side::new(Replay::new(config), first.series_count());
            let comparison = Comparison::new(&first.replay, &side.replay);
            (side, comparison)
        });
        let series =
            first.series_count() + second.as_ref().map_or(0, |(side, _)| side.series_count());
        let peaks = plan.suggest.then(|| Peaks::new(plan.config));
        Ok(Self {
            reader: LogReader::new(plan.format, fields),
            lines: LineTally::default(),
            replayed: Replayed {
                timeline: Timeline::new(series),
                first,
                second,
                peaks,
            },
        })
    }

    /// Replays all lines of an input. `tell` hears every now and then how far it is.
    pub fn replay(&mut self, input: &mut Input, tell: &mut dyn FnMut(Progress)) -> io::Result<()> {
        while let Some(chunk) = input.chunk()? {
            let Self {
                reader,
                lines,
                replayed,
            } = self;
            each_few(reader, chunk, lines, |requests| replayed.replay(requests));
            tell(Progress {
                bytes_read: input.bytes_read(),
                lines: self.lines.all,
            });
        }
        Ok(())
    }

    /// What limits of the sizes that were found would have refused: the log has to be replayed
    /// through this a second time. `None` when use was not measured.
    pub fn trials(&self) -> Option<Trials> {
        self.replayed
            .peaks
            .as_ref()
            .map(|peaks| Trials::new(peaks, self.reader.again()))
    }

    /// True when no line so far could be read.
    pub const fn is_unread(&self) -> bool {
        self.lines.read == 0
    }
}

impl Replayed {
    fn replay(&mut self, requests: &[Request<Record<'_>>]) {
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
        for (request, said) in requests.iter().zip(one.iter().zip(&other)) {
            comparison.count([said.0, said.1], request.at);
        }
    }
}

/// Every attribute that a limit looks at.
fn attributes(rule: &LimitConfig) -> impl Iterator<Item = &Attribute> {
    let conditions = rule
        .applies
        .conditions
        .iter()
        .map(|condition| &condition.attribute);
    let tier = rule.tiers.iter().map(|tiers| &tiers.by);
    let cost = rule.cost.iter().filter_map(|cost| cost.by.as_ref());
    rule.key
        .parts
        .iter()
        .flatten()
        .chain(conditions)
        .chain(tier)
        .chain(cost)
}
