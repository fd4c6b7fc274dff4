//! What is counted, and over which time.

use tollgate::Micros;

/// The lengths of periods, in microseconds: each is a multiple of the one before.
pub(super) const PERIODS: [u64; 3] = [5_000_000, 30_000_000, 300_000_000];
/// How many complete periods of each length are kept: a minute, five minutes and an hour.
pub(super) const KEPT: [u64; 3] = [12, 10, 12];

/// What a sketch counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UsageKind {
    /// Units that were denied, by shadow limits too.
    Denied,
    /// Units that were charged.
    Admitted,
}

/// How far back a list of keys reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageSpan {
    /// One minute.
    Minute,
    /// Five minutes.
    FiveMinutes,
    /// Sixty minutes.
    Hour,
}

impl UsageSpan {
    /// All spans, the shortest first.
    pub const ALL: [Self; 3] = [Self::Minute, Self::FiveMinutes, Self::Hour];

    /// The length in minutes.
    pub const fn minutes(self) -> u8 {
        match self {
            Self::Minute => 1,
            Self::FiveMinutes => 5,
            Self::Hour => 60,
        }
    }

    /// The span of this many minutes, if there is one.
    pub fn from_minutes(minutes: u64) -> Option<Self> {
        let mut spans = Self::ALL.into_iter();
        spans.find(|span| u64::from(span.minutes()) == minutes)
    }

    /// From when the counts of this span are, at a time. A span ends now, and begins at the edge of
    /// a period: it is at most a tenth longer than its name says.
    pub const fn start(self, now: Micros) -> Micros {
        let level = self as usize;
        let first = (now.get() / PERIODS[level]).saturating_sub(KEPT[level]);
        Micros::new(first * PERIODS[level])
    }
}
