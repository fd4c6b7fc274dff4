//! The limits that a program has looked up.

use std::borrow::Cow;

use parking_lot::RwLock;
use tollgate_rules::RequestedLimit;

use crate::error::EmbeddedError;

/// The most limits that a program can look up.
pub const LIMITS_MAX: usize = 4_096;

/// A limit that was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitId(pub u32);

/// The limits in the order in which they were looked up.
#[derive(Debug, Default)]
pub(crate) struct LimitTable(RwLock<Vec<LimitSource>>);

/// A limit as a request names it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LimitSource {
    name: Box<str>,
    /// The JSON text of a limit that is not configured.
    inline: Option<Box<str>>,
}

impl LimitTable {
    /// Adds a limit, or finds it.
    pub(crate) fn add(&self, limit: &str) -> Result<LimitId, EmbeddedError> {
        let source = LimitSource::parse(limit).ok_or(EmbeddedError::Limit)?;
        let mut limits = self.0.write();
        let known = limits.iter().position(|known| *known == source);
        let index = known.unwrap_or(limits.len());
        if index == LIMITS_MAX {
            return Err(EmbeddedError::TooManyLimits);
        }
        if index == limits.len() {
            limits.push(source);
        }

        let index = u32::try_from(index).map_err(|_| EmbeddedError::TooManyLimits)?;
        Ok(LimitId(index))
    }

    /// Calls `with` with the limit and a key, as a request names them.
    pub(crate) fn with_requested<T>(
        &self,
        LimitId(index): LimitId,
        key: &str,
        with: impl FnOnce(RequestedLimit<'_>) -> T,
    ) -> Result<T, EmbeddedError> {
        let limits = self.0.read();
        let source = limits.get(index as usize).ok_or(EmbeddedError::Limit)?;
        Ok(with(RequestedLimit {
            name: Cow::Borrowed(&source.name),
            key: Some(Cow::Borrowed(key)),
            inline: source.inline.as_deref().map(Cow::Borrowed),
            ..RequestedLimit::default()
        }))
    }
}

impl LimitSource {
    fn parse(limit: &str) -> Option<Self> {
        if !limit.trim_start().starts_with('{') {
            return Some(Self {
                name: limit.into(),
                inline: None,
            });
        }

        let json: serde_json::Value = serde_json::from_str(limit).ok()?;
        Some(Self {
            name: json.get("name")?.as_str()?.into(),
            inline: Some(limit.into()),
        })
    }
}
