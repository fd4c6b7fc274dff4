//! The token with which a client releases its permits. It carries everything a release needs, so
//! any replica can accept it. It is sealed, because it carries the key of a counter, which may be a
//! user's name or address.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hmac;
use tollgate::store::DEMANDS_MAX;
use tollgate::{Demand, EncodedKey, PermitId, Rule};
use tollgate_rules::config::HashConfig;

/// The version of the layout: the permit's id, then sealed for each counter its limit and its key,
/// each preceded by its length.
const VERSION: u8 = 2;
/// The version and the id, which are not sealed.
const HEAD: usize = 1 + size_of::<u128>();
/// The key without a configured secret. It is the same everywhere and no secret: it only keeps the
/// content of a token from being read at a glance.
const PUBLIC_KEY: [u8; 32] = *b"tollgate: not secret, only hides";
/// The values whose hashes are the two halves of the key with a configured secret. Values of
/// attributes are UTF-8, so none of them has the same hash.
const SECRET_KEY_HALVES: [&[u8]; 2] = [b"\xffpermit 1", b"\xffpermit 2"];
/// The longest token in characters: [`DEMANDS_MAX`] counters with the longest limits and keys.
const TOKEN_MAX: usize = DEMANDS_MAX * 1_720;
/// The longest token that is sent in a header, in characters. Proxies take a longer head for a
/// failure; a permit whose token is longer ends with its timeout.
pub(crate) const PERMIT_HEADER_MAX: usize = 24 * 1024;

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
    /// As [`limit_text`](super::inline::limit_text) writes it, at most 255 bytes.
    pub(super) limit: String,
    pub(super) key: EncodedKey,
}

/// The text is not a token that `/v1/check` returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid permit: expected the token returned by /v1/check, unchanged")]
pub(crate) struct PermitTokenError;

impl PermitToken {
    /// The token of the demands that take a permit. `limit_text` writes a limit so that it is found
    /// again.
    pub(super) fn new(
        id: PermitId,
        demands: &[Demand<'_, EncodedKey>],
        limit_text: impl Fn(&Rule) -> String,
    ) -> Self {
        let counters = demands
            .iter()
            .filter(|demand| demand.needs_permit())
            .map(|demand| PermitCounter {
                limit: limit_text(demand.limit),
                key: demand.key.clone(),
            });

        Self {
            id,
            counters: counters.collect(),
        }
    }

    /// The counters, each as its limit and its key, preceded by their lengths.
    fn encode_counters(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for PermitCounter { limit, key } in &self.counters {
            // Limits have at most 255 bytes, keys at most 1,024.
            let limit_length = u8::try_from(limit.len()).unwrap_or(u8::MAX);
            let key_length = u16::try_from(key.as_bytes().len()).unwrap_or(u16::MAX);

            bytes.push(limit_length);
            bytes.extend_from_slice(limit.as_bytes());
            bytes.extend_from_slice(&key_length.to_le_bytes());
            bytes.extend_from_slice(key.as_bytes());
        }
        bytes
    }

    fn decode_counters(mut bytes: &[u8]) -> Option<Vec<PermitCounter>> {
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
        Some(counters)
    }
}

/// Makes texts of tokens and reads them.
///
/// With `hash_secret`, a token is encrypted and authenticated: only a service with the same secret
/// can read or make one. Without it, the key is part of this file.
pub(super) struct PermitSealer {
    key: hmac::Key,
}

impl PermitSealer {
    pub(super) fn new(hashing: Option<&HashConfig>) -> Self {
        let key = hashing.map_or(PUBLIC_KEY, |HashConfig { hasher, .. }| {
            let halves = SECRET_KEY_HALVES.map(|half| *hasher.hash(half).as_bytes());
            let mut key = [0; 32];
            key.copy_from_slice(halves.as_flattened());
            key
        });
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, &key),
        }
    }

    /// The token as URL-safe text.
    pub(super) fn seal(&self, token: &PermitToken) -> String {
        let mut text = vec![VERSION];
        text.extend_from_slice(&token.id.get().to_le_bytes());

        let (key, nonce) = self.token_key(&text);
        let mut sealed = token.encode_counters();
        key.seal_in_place_append_tag(nonce, Aad::from(&text), &mut sealed)
            .expect("a token is much shorter than the longest message");

        text.extend(sealed);
        URL_SAFE_NO_PAD.encode(text)
    }

    /// Reads a token that a client sent.
    pub(super) fn open(&self, text: &str) -> Result<PermitToken, PermitTokenError> {
        if text.len() > TOKEN_MAX {
            return Err(PermitTokenError);
        }

        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| PermitTokenError)?;
        // Each counter costs a store call, and no check uses more than DEMANDS_MAX of them.
        self.open_bytes(bytes)
            .filter(|token| (1..=DEMANDS_MAX).contains(&token.counters.len()))
            .ok_or(PermitTokenError)
    }

    fn open_bytes(&self, mut bytes: Vec<u8>) -> Option<PermitToken> {
        let (head, sealed) = bytes.split_at_mut_checked(HEAD)?;
        let (VERSION, id) = head.split_first().map(|(version, id)| (*version, id))? else {
            return None;
        };

        let (key, nonce) = self.token_key(head);
        let opened = key.open_in_place(nonce, Aad::from(&head), sealed).ok()?;
        Some(PermitToken {
            id: PermitId::new(u128::from_le_bytes(id.try_into().ok()?)),
            counters: PermitToken::decode_counters(opened)?,
        })
    }

    /// The key of one token, derived from its head. A permit's id is never used again, so neither
    /// is the key, and the nonce can be the same for all.
    fn token_key(&self, head: &[u8]) -> (LessSafeKey, Nonce) {
        let derived = hmac::sign(&self.key, head);
        let key = UnboundKey::new(&CHACHA20_POLY1305, derived.as_ref());
        let key = LessSafeKey::new(key.expect("the hash has the length of a key"));
        (key, Nonce::assume_unique_for_key([0; 12]))
    }
}

/// Omits the key.
impl fmt::Debug for PermitSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PermitSealer(..)")
    }
}

#[cfg(test)]
mod tests {
    use tollgate::KeyHasher;

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

    fn with_secret(secret: &str) -> PermitSealer {
        let hasher = KeyHasher::new(secret.as_bytes()).expect("a long secret");
        PermitSealer::new(Some(&HashConfig {
            attributes: Vec::new(),
            hasher,
        }))
    }

    #[test]
    fn a_token_survives_the_round_trip_through_text() {
        for sealer in [PermitSealer::new(None), with_secret("0123456789abcdef")] {
            assert_eq!(sealer.open(&sealer.seal(&token())), Ok(token()));
        }
    }

    #[test]
    fn neither_limit_nor_key_can_be_read() {
        for sealer in [PermitSealer::new(None), with_secret("0123456789abcdef")] {
            let bytes = URL_SAFE_NO_PAD.decode(sealer.seal(&token()));
            let text = String::from_utf8_lossy(&bytes.expect("base64")).into_owned();
            assert!(!text.contains("acme") && !text.contains("flight"), "{text}");
        }
    }

    #[test]
    fn only_a_service_with_the_same_secret_reads_a_token() {
        let sealed = with_secret("0123456789abcdef").seal(&token());
        assert!(with_secret("0123456789abcdef").open(&sealed).is_ok());
        for other in [with_secret("0123456789abcdeF"), PermitSealer::new(None)] {
            assert_eq!(other.open(&sealed), Err(PermitTokenError));
        }
    }

    #[test]
    fn anything_else_is_rejected() {
        let sealer = PermitSealer::new(None);
        let text = sealer.seal(&token());
        let bytes = URL_SAFE_NO_PAD.decode(&text).expect("base64");
        for index in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[index] ^= 1;
            for wrong in [&changed, &bytes[..index]] {
                let wrong = URL_SAFE_NO_PAD.encode(wrong);
                assert_eq!(sealer.open(&wrong), Err(PermitTokenError), "{index}");
            }
        }

        let long = "A".repeat(TOKEN_MAX + 4);
        for wrong in ["", "not base64!", "AAAA", &long] {
            assert_eq!(sealer.open(wrong), Err(PermitTokenError));
        }
    }

    /// The examples of the API's description and of other tests have this id.
    #[test]
    fn a_token_has_at_least_one_counter_and_at_most_as_many_as_a_check() {
        let sealer = PermitSealer::new(None);
        for (count, is_valid) in [
            (0, false),
            (1, true),
            (DEMANDS_MAX, true),
            (DEMANDS_MAX + 1, false),
        ] {
            let token = PermitToken {
                id: PermitId::new(7),
                counters: vec![token().counters[0].clone(); count],
            };
            assert_eq!(
                sealer.open(&sealer.seal(&token)).is_ok(),
                is_valid,
                "{count}"
            );
        }
    }
}
