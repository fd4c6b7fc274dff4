//! The tokens with which a client releases its permits or settles its reservation. A token carries
//! everything that is needed for it, so any replica can accept it. It is sealed, because it carries
//! the keys of counters, which may be users' names or addresses.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hmac;
use tollgate::store::DEMANDS_MAX;
use tollgate::{Demand, EncodedKey, PermitId, Rule};
use tollgate_rules::config::HashConfig;

/// The versions of the layout: the id, then sealed for each counter its limit and its key, each
/// preceded by its length, and in a reservation the reserved units and whether they are fixed.
const PERMIT_VERSION: u8 = 3;
const RESERVATION_VERSION: u8 = 4;
/// The version and the id, which are not sealed.
const HEAD: usize = 1 + size_of::<u128>();
/// The key without a configured secret. It is the same everywhere and no secret: it only keeps the
/// content of a token from being read at a glance.
const PUBLIC_KEY: [u8; 32] = *b"tollgate: not secret, only hides";
/// The values whose hashes are the two halves of the key with a configured secret. Values of
/// attributes are UTF-8, so none of them has the same hash.
const SECRET_KEY_HALVES: [&[u8]; 2] = [b"\xffpermit 1", b"\xffpermit 2"];
/// The longest token in characters: [`DEMANDS_MAX`] counters with the longest limits and keys.
const TOKEN_MAX: usize = DEMANDS_MAX * 2_048;
/// The longest token that is sent in a header, in characters. Proxies take a longer head for a
/// failure; a permit whose token is longer ends with its timeout.
pub const PERMIT_HEADER_MAX: usize = 24 * 1024;

/// The permit or the reservation of a request, and the counters that it has charged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermitToken {
    pub(super) kind: TokenKind,
    pub(super) id: PermitId,
    /// Between 1 and [`DEMANDS_MAX`].
    pub(super) counters: Vec<TokenCounter>,
}

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Permit,
    Reservation,
}

/// A counter: a limit and a key, and what a reservation has charged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TokenCounter {
    /// As [`limit_text`](super::inline::limit_text) writes it.
    pub(super) limit: String,
    pub(super) key: EncodedKey,
    /// The units that were reserved; 0 in a permit.
    pub(super) units: u64,
    /// True when the actual cost is that which was reserved; false in a permit.
    pub(super) is_fixed: bool,
}

/// The text is not a token of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PermitTokenError {
    /// It is not the token of a permit.
    #[error("invalid permit: expected the token returned by /v1/check, unchanged")]
    Permit,
    /// It is not the token of a reservation.
    #[error("invalid reservation: expected the token returned by /v1/reserve, unchanged")]
    Reservation,
}

impl TokenKind {
    const fn version(self) -> u8 {
        match self {
            Self::Permit => PERMIT_VERSION,
            Self::Reservation => RESERVATION_VERSION,
        }
    }

    const fn error(self) -> PermitTokenError {
        match self {
            Self::Permit => PermitTokenError::Permit,
            Self::Reservation => PermitTokenError::Reservation,
        }
    }
}

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
            .map(|demand| TokenCounter {
                limit: limit_text(demand.limit),
                key: demand.key.clone(),
                units: 0,
                is_fixed: false,
            });

        Self {
            kind: TokenKind::Permit,
            id,
            counters: counters.collect(),
        }
    }

    /// The counters, each as its limit and its key, preceded by their lengths, and what was
    /// reserved.
    fn encode_counters(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for counter in &self.counters {
            for part in [counter.limit.as_bytes(), counter.key.as_bytes()] {
                // Limits have at most a few hundred bytes, keys at most 1,024.
                let length = u16::try_from(part.len()).unwrap_or(u16::MAX);
                bytes.extend_from_slice(&length.to_le_bytes());
                bytes.extend_from_slice(part);
            }
            if self.kind == TokenKind::Reservation {
                bytes.extend_from_slice(&counter.units.to_le_bytes());
                bytes.push(u8::from(counter.is_fixed));
            }
        }
        bytes
    }

    fn decode_counters(kind: TokenKind, mut bytes: &[u8]) -> Option<Vec<TokenCounter>> {
        let mut counters = Vec::new();
        while !bytes.is_empty() {
            let limit = take_part(&mut bytes)?;
            let key = take_part(&mut bytes)?;
            let (mut units, mut is_fixed) = (0, false);
            if kind == TokenKind::Reservation {
                let (number, rest) = bytes.split_first_chunk()?;
                let (flag, rest) = rest.split_first()?;
                (units, is_fixed, bytes) = (u64::from_le_bytes(*number), *flag == 1, rest);
            }

            counters.push(TokenCounter {
                limit: std::str::from_utf8(limit).ok()?.to_owned(),
                key: EncodedKey::from_bytes(key).ok()?,
                units,
                is_fixed,
            });
        }
        Some(counters)
    }
}

/// Takes a part that is preceded by its length.
fn take_part<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (part, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    *bytes = rest;
    Some(part)
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
        let mut text = vec![token.kind.version()];
        text.extend_from_slice(&token.id.get().to_le_bytes());

        let (key, nonce) = self.token_key(&text);
        let mut sealed = token.encode_counters();
        key.seal_in_place_append_tag(nonce, Aad::from(&text), &mut sealed)
            .expect("a token is much shorter than the longest message");

        text.extend(sealed);
        URL_SAFE_NO_PAD.encode(text)
    }

    /// Reads a token of this kind that a client sent.
    pub(super) fn open(
        &self,
        kind: TokenKind,
        text: &str,
    ) -> Result<PermitToken, PermitTokenError> {
        if text.len() > TOKEN_MAX {
            return Err(kind.error());
        }

        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| kind.error())?;
        // Each counter costs a store call, and no check uses more than DEMANDS_MAX of them.
        self.open_bytes(kind, bytes)
            .filter(|token| (1..=DEMANDS_MAX).contains(&token.counters.len()))
            .ok_or(kind.error())
    }

    fn open_bytes(&self, kind: TokenKind, mut bytes: Vec<u8>) -> Option<PermitToken> {
        let (head, sealed) = bytes.split_at_mut_checked(HEAD)?;
        let (version, id) = head.split_first()?;
        if *version != kind.version() {
            return None;
        }

        let (key, nonce) = self.token_key(head);
        let opened = key.open_in_place(nonce, Aad::from(&head), sealed).ok()?;
        Some(PermitToken {
            kind,
            id: PermitId::new(u128::from_le_bytes(id.try_into().ok()?)),
            counters: PermitToken::decode_counters(kind, opened)?,
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
        let counter = |limit: &str, key: &str| TokenCounter {
            limit: limit.to_owned(),
            key: EncodedKey::new(key).expect("a key"),
            units: 0,
            is_fixed: false,
        };
        PermitToken {
            kind: TokenKind::Permit,
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
            assert_eq!(
                sealer.open(TokenKind::Permit, &sealer.seal(&token())),
                Ok(token())
            );
        }
    }

    #[test]
    fn a_permit_is_no_reservation() {
        let sealer = PermitSealer::new(None);
        let mut reservation = token();
        reservation.kind = TokenKind::Reservation;
        reservation.counters[0].units = u64::MAX;
        reservation.counters[1].is_fixed = true;

        let text = sealer.seal(&reservation);
        assert_eq!(sealer.open(TokenKind::Reservation, &text), Ok(reservation));
        let error = Err(PermitTokenError::Permit);
        assert_eq!(sealer.open(TokenKind::Permit, &text), error);
        let error = Err(PermitTokenError::Reservation);
        let permit = sealer.seal(&token());
        assert_eq!(sealer.open(TokenKind::Reservation, &permit), error);
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
        assert!(
            with_secret("0123456789abcdef")
                .open(TokenKind::Permit, &sealed)
                .is_ok()
        );
        for other in [with_secret("0123456789abcdeF"), PermitSealer::new(None)] {
            assert_eq!(
                other.open(TokenKind::Permit, &sealed),
                Err(PermitTokenError::Permit)
            );
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
                assert_eq!(
                    sealer.open(TokenKind::Permit, &wrong),
                    Err(PermitTokenError::Permit),
                    "{index}"
                );
            }
        }

        let long = "A".repeat(TOKEN_MAX + 4);
        for wrong in ["", "not base64!", "AAAA", &long] {
            assert_eq!(
                sealer.open(TokenKind::Permit, wrong),
                Err(PermitTokenError::Permit)
            );
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
                kind: TokenKind::Permit,
                id: PermitId::new(7),
                counters: vec![token().counters[0].clone(); count],
            };
            assert_eq!(
                sealer.open(TokenKind::Permit, &sealer.seal(&token)).is_ok(),
                is_valid,
                "{count}"
            );
        }
    }
}
