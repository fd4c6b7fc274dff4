//! The limits that a program has looked up.

use std::ops::Deref;

use parking_lot::RwLock;
use tollgate_gate::DirectLimit;
use tollgate_rules::RequestedLimit;

use crate::error::EmbeddedError;

/// The most limits that a program can look up.
pub const LIMITS_MAX: usize = 4_096;

const TOO_MANY_LIMITS: EmbeddedError = EmbeddedError::TooManyLimits { max: LIMITS_MAX };

/// A limit that was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitId(pub u32);

/// The limits in the order in which they were looked up.
#[derive(Debug, Default)]
pub(crate) struct LimitTable(RwLock<Vec<KnownLimit>>);

#[derive(Debug)]
pub(crate) struct KnownLimit {
    /// The name or the JSON text, as the program gave it.
    text: Box<str>,
    /// None if there is no such limit.
    pub(crate) direct: Option<DirectLimit>,
}

impl LimitTable {
    /// Adds a limit, or finds it. `resolve` looks a new one up.
    pub(crate) fn add(
        &self,
        text: &str,
        resolve: impl FnOnce(&RequestedLimit<'_>) -> Option<DirectLimit>,
    ) -> Result<LimitId, EmbeddedError> {
        let requested = requested(text).ok_or(EmbeddedError::Limit)?;
        let mut limits = self.0.write();
        let known = limits.iter().position(|known| *known.text == *text);
        let index = known.unwrap_or(limits.len());
        if index == LIMITS_MAX {
            return Err(TOO_MANY_LIMITS);
        }
        if index == limits.len() {
            limits.push(KnownLimit {
                text: text.into(),
                direct: resolve(&requested),
            });
        }

        let index = u32::try_from(index).map_err(|_| TOO_MANY_LIMITS)?;
        Ok(LimitId(index))
    }

    /// The limits, which cannot change meanwhile.
    pub(crate) fn read(&self) -> impl Deref<Target = Vec<KnownLimit>> {
        self.0.read()
    }
}

/// A limit as a request names it: a name, or a JSON object that brings the limit along.
fn requested(text: &str) -> Option<RequestedLimit<'_>> {
    if !text.trim_start().starts_with('{') {
        return Some(RequestedLimit {
            name: text.into(),
            ..RequestedLimit::default()
        });
    }

    let json: serde_json::Value = serde_json::from_str(text).ok()?;
    Some(RequestedLimit {
        name: json.get("name")?.as_str()?.to_owned().into(),
        inline: Some(text.into()),
        ..RequestedLimit::default()
    })
}
