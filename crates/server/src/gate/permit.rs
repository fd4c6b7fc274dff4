//! The token with which a client releases its permits. It carries everything a release needs, so
//! any replica can accept it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tollgate::store::DEMANDS_MAX;
use tollgate::{Demand, EncodedKey, PermitId};

/// The version of the layout: the permit's id, then for each counter its limit and its key, each
/// preceded by its length.
const VERSION: u8 = 1;
/// The longest token in characters: [`DEMANDS_MAX`] counters with the longest names and keys.
const TOKEN_MAX: usize = DEMANDS_MAX * 1_440;
/// The longest token in a header, in characters. Proxies take a longer head for a failure.
const HEADER_MAX: usize = 24 * 1024;

/// The permit that a request holds, and the counters that it holds it on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PermitToken {
    pub(super) id: PermitId,
    /// Between 1 and [`DEMANDS_MAX`].
    pub(super) counters: Vec<PermitCounter>,
}

/// A counter of requests in flight: a concurrency limit and a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PermitCounter {
    pub(super) limit: String,
    pub(super) key: EncodedKey,
}

/// The text is not a token that `/v1/check` returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid permit: expected the token returned by /v1/check, unchanged")]
pub(crate) struct PermitTokenError;

impl PermitToken {
    pub(super) fn new(id: PermitId, demands: &[Demand<'_, EncodedKey>]) -> Self {
        let counters = demands
            .iter()
            .filter(|demand| demand.needs_permit())
            .map(|demand| PermitCounter {
                limit: demand.limit.name().to_string(),
                key: demand.key.clone(),
            });

        Self {
            id,
            counters: counters.collect(),
        }
    }

    /// The token as URL-safe text.
    pub(crate) fn to_text(&self) -> String {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.id.get().to_le_bytes());

        for PermitCounter { limit, key } in &self.counters {
            // Names have at most 47 bytes, keys at most 1,024.
            let limit_length = u8::try_from(limit.len()).unwrap_or(u8::MAX);
            let key_length = u16::try_from(key.as_bytes().len()).unwrap_or(u16::MAX);

            bytes.push(limit_length);
            bytes.extend_from_slice(limit.as_bytes());
            bytes.extend_from_slice(&key_length.to_le_bytes());
            bytes.extend_from_slice(key.as_bytes());
        }

        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The token as the value of a header. `None` if it is too long for one: then the permit ends
    /// with its timeout.
    pub(crate) fn to_header(&self) -> Option<String> {
        Some(self.to_text()).filter(|text| text.len() <= HEADER_MAX)
    }

    /// Parses a token that a client sent.
    pub(crate) fn parse(text: &str) -> Result<Self, PermitTokenError> {
        if text.len() > TOKEN_MAX {
            return Err(PermitTokenError);
        }

        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| PermitTokenError)?;
        // Each counter costs a store call, and no check uses more than DEMANDS_MAX of them.
        Self::decode(&bytes)
            .filter(|token| (1..=DEMANDS_MAX).contains(&token.counters.len()))
            .ok_or(PermitTokenError)
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (VERSION, bytes) = bytes
            .split_first()
            .map(|(version, rest)| (*version, rest))?
        else {
            return None;
        };
        let (id, mut bytes) = bytes.split_first_chunk()?;
        let id = PermitId::new(u128::from_le_bytes(*id));

        let mut counters = Vec::new();
        while let Some((length, rest)) = bytes.split_first() {
            let (limit, rest) = rest.split_at_checked(usize::from(*length))?;
            let (length, rest) = rest.split_first_chunk()?;
            let (key, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;

            counters.push(PermitCounter {
                limit: std::str::from_utf8(limit).ok()?.to_owned(),
                key: EncodedKey::from_bytes(key).ok()?,
            });
            bytes = rest;
        }
        Some(Self { id, counters })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> PermitToken {
        let counter = |limit: &str, key: &str| PermitCounter {
            limit: limit.to_owned(),
            key: EncodedKey::new(key).expect("a key"),
        };
        PermitToken {
            id: PermitId::new(7 << 100),
            counters: vec![counter("in-flight", "acme"), counter("b", "c")],
        }
    }

    #[test]
    fn a_token_survives_the_round_trip_through_text() {
        assert_eq!(PermitToken::parse(&token().to_text()), Ok(token()));
    }

    #[test]
    fn anything_else_is_rejected() {
        let text = token().to_text();
        for end in 0..text.len() {
            let cut = PermitToken::parse(&text[..end]);
            assert!(
                cut.is_err() || cut.is_ok_and(|cut| cut.counters == token().counters[..1]),
                "{end}"
            );
        }
        let long = "A".repeat(TOKEN_MAX + 4);
        for wrong in ["", "not base64!", "AAAA", &long] {
            assert_eq!(PermitToken::parse(wrong), Err(PermitTokenError));
        }
    }
}
