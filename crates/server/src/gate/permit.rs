//! The word by which a client gives back the places it holds. It carries everything that is needed
//! for that, so that any replica can take it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tollgate::store::DEMANDS_MAX;
use tollgate::{EncodedKey, PermitId};

use super::{ActiveConfig, GateDemand};

/// The version of the layout: id, then for each place the lengths and texts of its limit and key.
const VERSION: u8 = 1;
/// The longest word: sixteen places with the longest names and keys.
const WORD_MAX: usize = 24 * 1024;

/// The places that a request holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PermitToken {
    pub(super) id: PermitId,
    pub(super) places: Vec<PermitCounter>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PermitCounter {
    pub(super) limit: String,
    pub(super) key: EncodedKey,
}

/// Not what `/v1/check` gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no lease; it must be the word that `/v1/check` gave, unchanged")]
pub(crate) struct PermitTokenError;

impl PermitToken {
    pub(super) fn new(id: PermitId, active: &ActiveConfig, demands: &[GateDemand<'_>]) -> Self {
        let held = demands
            .iter()
            .filter(|demand| demand.cost > 0 && active.is_concurrency(demand.limit));
        let places = held.map(|demand| PermitCounter {
            limit: demand.limit.to_owned(),
            key: demand.key.clone(),
        });
        Self {
            id,
            places: places.collect(),
        }
    }

    /// The word.
    pub(crate) fn to_text(&self) -> String {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.id.get().to_le_bytes());
        for PermitCounter { limit, key } in &self.places {
            // Names have at most 47 bytes and keys 1,024.
            bytes.push(u8::try_from(limit.len()).unwrap_or(u8::MAX));
            bytes.extend_from_slice(limit.as_bytes());
            bytes.extend_from_slice(
                &u16::try_from(key.as_bytes().len())
                    .unwrap_or(u16::MAX)
                    .to_le_bytes(),
            );
            bytes.extend_from_slice(key.as_bytes());
        }
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// What a word says.
    pub(crate) fn parse(text: &str) -> Result<Self, PermitTokenError> {
        if text.len() > WORD_MAX {
            return Err(PermitTokenError);
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| PermitTokenError)?;
        // Each place is a trip to the store, and no check takes more of them.
        Self::read(&bytes)
            .filter(|word| (1..=DEMANDS_MAX).contains(&word.places.len()))
            .ok_or(PermitTokenError)
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (VERSION, bytes) = bytes
            .split_first()
            .map(|(version, rest)| (*version, rest))?
        else {
            return None;
        };
        let (id, mut bytes) = bytes.split_first_chunk()?;
        let id = PermitId::new(u128::from_le_bytes(*id));
        let mut places = Vec::new();
        while let Some((length, rest)) = bytes.split_first() {
            let (limit, rest) = rest.split_at_checked(usize::from(*length))?;
            let (length, rest) = rest.split_first_chunk()?;
            let (key, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
            let limit = std::str::from_utf8(limit).ok()?.to_owned();
            places.push(PermitCounter {
                limit,
                key: EncodedKey::from_bytes(key).ok()?,
            });
            bytes = rest;
        }
        Some(Self { id, places })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word() -> PermitToken {
        let place = |limit: &str, key: &str| PermitCounter {
            limit: limit.to_owned(),
            key: EncodedKey::new(key).expect("a key"),
        };
        PermitToken {
            id: PermitId::new(7 << 100),
            places: vec![place("in-flight", "acme"), place("b", "c")],
        }
    }

    #[test]
    fn a_word_says_what_it_was_made_of() {
        assert_eq!(PermitToken::parse(&word().to_text()), Ok(word()));
    }

    #[test]
    fn anything_else_is_no_lease() {
        let text = word().to_text();
        for end in 0..text.len() {
            let cut = PermitToken::parse(&text[..end]);
            assert!(
                cut.is_err() || cut.is_ok_and(|cut| cut.places == word().places[..1]),
                "{end}"
            );
        }
        let long = "A".repeat(WORD_MAX + 4);
        for wrong in ["", "not base64!", "AAAA", &long] {
            assert_eq!(PermitToken::parse(wrong), Err(PermitTokenError));
        }
    }
}
