//! The tokens with which a client releases its permits or settles its reservation. A token carries
//! everything that is needed for it, so any replica can accept it. It is sealed, because it carries
//! the keys of counters, which may be users' names or addresses.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hmac;
use tollgate::store::DEMANDS_MAX;
use tollgate::{Demand, EncodedKey, PermitId, Rule, StoreError};
use tollgate_rules::{Permission, SelectError};

use super::access::{AccessError, Caller};
use super::active::ActiveConfig;
use super::decide::GateDecision;
use super::gate::Gate;
use super::sealing_keys::{KeyId, SealingKey};

/// The versions of the layout: the id of the sealing key and that of the permit, then sealed for
/// each counter its limit and its key, each preceded by its length, and in a reservation the
/// reserved units and whether they are fixed.
const PERMIT_VERSION: u8 = 5;
const RESERVATION_VERSION: u8 = 6;
/// The version and the ids, which are authenticated and not encrypted.
const HEAD: usize = 1 + size_of::<KeyId>() + size_of::<u128>();
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

/// Why a token cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PermitTokenError {
    /// The text is not the token of a permit.
    #[error("invalid permit: expected the token returned by /v1/check, unchanged")]
    Permit,
    /// The text is not the token of a reservation.
    #[error("invalid reservation: expected the token returned by /v1/reserve, unchanged")]
    Reservation,
    /// The token was sealed with a key that is not known.
    #[error("invalid {kind}: {reason}")]
    UnknownKey {
        /// `permit` or `reservation`.
        kind: &'static str,
        /// How that can happen.
        reason: &'static str,
    },
    /// The token was sealed with a key that is not known while the store is unavailable.
    #[error("cannot read the key of this token: {0}")]
    Store(#[from] StoreError),
    /// The caller may not use a limit of the token.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The configuration does not have or not allow a limit of the token.
    #[error(transparent)]
    Select(#[from] SelectError),
}

impl PermitTokenError {
    /// True for the token of a permit, false for that of a reservation.
    pub(crate) fn is_about_permit(&self) -> bool {
        let permit = TokenKind::Permit.as_str();
        matches!(self, Self::Permit)
            || matches!(self, Self::UnknownKey { kind, .. } if *kind == permit)
    }
}

impl TokenKind {
    const fn version(self) -> u8 {
        match self {
            Self::Permit => PERMIT_VERSION,
            Self::Reservation => RESERVATION_VERSION,
        }
    }

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Permit => "permit",
            Self::Reservation => "reservation",
        }
    }

    /// Why a decision lacks its token.
    const fn withheld(self) -> &'static str {
        match self {
            Self::Permit => {
                "no `permit`: this replica cannot seal tokens before it has read the key from the \
                 store; the permit ends with its timeout"
            }
            Self::Reservation => {
                "no `reservation`: this replica cannot seal tokens before it has read the key from \
                 the store; the estimate cannot be settled"
            }
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

impl PermitToken {
    /// The token as URL-safe text. Only a service that has the key can read it or make one.
    pub(super) fn seal(&self, key: &SealingKey) -> String {
        let mut text = vec![self.kind.version()];
        text.extend_from_slice(&key.id);
        text.extend_from_slice(&self.id.get().to_le_bytes());

        let (key, nonce) = token_key(key, &text);
        let mut sealed = self.encode_counters();
        key.seal_in_place_append_tag(nonce, Aad::from(&text), &mut sealed)
            .expect("a token is much shorter than the longest message");

        text.extend(sealed);
        URL_SAFE_NO_PAD.encode(text)
    }
}

/// A token that a client sent.
#[derive(Debug)]
pub(super) struct SealedToken {
    kind: TokenKind,
    /// Longer than [`HEAD`].
    bytes: Vec<u8>,
}

impl SealedToken {
    /// Reads the text of a token of this kind.
    pub(super) fn from_text(kind: TokenKind, text: &str) -> Result<Self, PermitTokenError> {
        if text.len() > TOKEN_MAX {
            return Err(kind.error());
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| kind.error())?;
        if bytes.len() <= HEAD || bytes[0] != kind.version() {
            return Err(kind.error());
        }
        Ok(Self { kind, bytes })
    }

    /// The id of the key that sealed it.
    pub(super) fn key_id(&self) -> KeyId {
        let mut id = KeyId::default();
        id.copy_from_slice(&self.bytes[1..=size_of::<KeyId>()]);
        id
    }

    /// Opens the token with the key that sealed it.
    pub(super) fn open(self, key: &SealingKey) -> Result<PermitToken, PermitTokenError> {
        let kind = self.kind;
        // Each counter costs a store call, and no check uses more than DEMANDS_MAX of them.
        self.open_bytes(key)
            .filter(|token| (1..=DEMANDS_MAX).contains(&token.counters.len()))
            .ok_or(kind.error())
    }

    fn open_bytes(mut self, key: &SealingKey) -> Option<PermitToken> {
        let (head, sealed) = self.bytes.split_at_mut_checked(HEAD)?;
        let id = *head.last_chunk()?;

        let (key, nonce) = token_key(key, head);
        let opened = key.open_in_place(nonce, Aad::from(&head), sealed).ok()?;
        Some(PermitToken {
            kind: self.kind,
            id: PermitId::new(u128::from_le_bytes(id)),
            counters: PermitToken::decode_counters(self.kind, opened)?,
        })
    }
}

/// The key of one token, derived from its head. A permit's id is never used again, so neither is the
/// key, and the nonce can be the same for all.
fn token_key(key: &SealingKey, head: &[u8]) -> (LessSafeKey, Nonce) {
    let derived = hmac::sign(&key.deriver, head);
    let key = UnboundKey::new(&CHACHA20_POLY1305, derived.as_ref());
    let key = LessSafeKey::new(key.expect("the hash has the length of a key"));
    (key, Nonce::assume_unique_for_key([0; 12]))
}

impl Gate {
    /// Adds the text of a token to the decision. While there is no key to seal it with, the
    /// decision says so instead.
    pub(super) fn hand_out(
        &self,
        active: &ActiveConfig,
        decided: &mut GateDecision,
        token: &PermitToken,
    ) {
        let Some(key) = active.sealing_keys.current() else {
            self.metrics().count_withheld_token();
            decided.warning = Some(token.kind.withheld());
            return;
        };
        let text = Some(token.seal(&key));
        match token.kind {
            TokenKind::Permit => decided.permit = text,
            TokenKind::Reservation => decided.reservation = text,
        }
    }

    /// Reads the token of a permit that a caller sent.
    pub async fn open_permit(
        &self,
        caller: Caller,
        token: &str,
    ) -> Result<PermitToken, PermitTokenError> {
        self.open_token(caller, SealedToken::from_text(TokenKind::Permit, token)?)
            .await
    }

    /// Reads the token of a reservation that a caller sent.
    pub async fn open_reservation(
        &self,
        caller: Caller,
        token: &str,
    ) -> Result<PermitToken, PermitTokenError> {
        self.open_token(
            caller,
            SealedToken::from_text(TokenKind::Reservation, token)?,
        )
        .await
    }

    async fn open_token(
        &self,
        caller: Caller,
        sealed: SealedToken,
    ) -> Result<PermitToken, PermitTokenError> {
        let active = self.active();
        let (keys, id, kind) = (&active.sealing_keys, sealed.key_id(), sealed.kind);
        let mut key = keys.find(id);
        if key.is_none() {
            // Another replica may have put it since.
            keys.sync(active.records(), self.now()).await?;
            key = keys.find(id);
        }
        let token = sealed.open(&key.ok_or(PermitTokenError::UnknownKey {
            kind: kind.as_str(),
            reason: keys.missing_reason(),
        })?)?;

        for counter in &token.counters {
            let rule = active.rule_from_text(&counter.limit)?;
            if active.is_brought(&rule) {
                active.permit(caller, Permission::Inline)?;
            }
        }
        Ok(token)
    }

    /// Agrees with the other replicas on the key that seals tokens. To be called about once a
    /// second; no decision waits for it.
    pub async fn sync_sealing_keys(&self) -> Result<(), StoreError> {
        let active = self.active();
        let keys = &active.sealing_keys;
        keys.sync(active.records(), self.now()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 32] = [7; 32];

    fn token(kind: TokenKind) -> PermitToken {
        let is_reservation = kind == TokenKind::Reservation;
        let counter = |limit: &str, key: &str| TokenCounter {
            limit: limit.to_owned(),
            key: EncodedKey::new(key).expect("a key"),
            units: if is_reservation { u64::MAX } else { 0 },
            is_fixed: is_reservation,
        };
        PermitToken {
            kind,
            id: PermitId::new(7 << 100),
            counters: vec![counter("in-flight", "acme"), counter("b", "c")],
        }
    }

    fn seal(token: &PermitToken) -> String {
        token.seal(&SealingKey::new(&KEY))
    }

    fn open(kind: TokenKind, text: &str, key: &[u8; 32]) -> Result<PermitToken, String> {
        let sealed = SealedToken::from_text(kind, text);
        let opened = sealed.and_then(|sealed| sealed.open(&SealingKey::new(key)));
        opened.map_err(|error| error.to_string())
    }

    #[test]
    fn a_token_survives_the_round_trip_through_text() {
        for kind in [TokenKind::Permit, TokenKind::Reservation] {
            let token = token(kind);
            let text = seal(&token);
            assert_eq!(open(kind, &text, &KEY), Ok(token));
            let sealed = SealedToken::from_text(kind, &text).expect("a token");
            assert_eq!(sealed.key_id(), SealingKey::new(&KEY).id);
        }
    }

    #[test]
    fn a_permit_is_no_reservation() {
        let (permit, reservation) = (TokenKind::Permit, TokenKind::Reservation);
        for (kind, other) in [(permit, reservation), (reservation, permit)] {
            let error = open(other, &seal(&token(kind)), &KEY).unwrap_err();
            assert_eq!(error, other.error().to_string());
        }

        // Nor does the other version in its head make it one.
        let mut bytes = URL_SAFE_NO_PAD
            .decode(seal(&token(permit)))
            .expect("base64");
        bytes[0] = RESERVATION_VERSION;
        assert!(open(reservation, &URL_SAFE_NO_PAD.encode(bytes), &KEY).is_err());
    }

    #[test]
    fn neither_limit_nor_key_can_be_read() {
        let bytes = URL_SAFE_NO_PAD.decode(seal(&token(TokenKind::Permit)));
        let text = String::from_utf8_lossy(&bytes.expect("base64")).into_owned();
        assert!(!text.contains("acme") && !text.contains("flight"), "{text}");
    }

    #[test]
    fn only_the_same_key_opens_a_token() {
        let text = seal(&token(TokenKind::Permit));
        // The key that every service without a secret once had.
        let constant = *b"tollgate: not secret, only hides";
        for other in [constant, [6; 32]] {
            assert!(open(TokenKind::Permit, &text, &other).is_err());
        }
    }

    #[test]
    fn anything_else_is_rejected() {
        let text = seal(&token(TokenKind::Permit));
        let bytes = URL_SAFE_NO_PAD.decode(&text).expect("base64");
        for index in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[index] ^= 1;
            for wrong in [&changed, &bytes[..index]] {
                let wrong = URL_SAFE_NO_PAD.encode(wrong);
                assert!(open(TokenKind::Permit, &wrong, &KEY).is_err(), "{index}");
            }
        }

        let long = "A".repeat(TOKEN_MAX + 4);
        for wrong in ["", "not base64!", "AAAA", &long] {
            assert!(open(TokenKind::Permit, wrong, &KEY).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_token_has_at_least_one_counter_and_at_most_as_many_as_a_check() {
        for (count, is_valid) in [
            (0, false),
            (1, true),
            (DEMANDS_MAX, true),
            (DEMANDS_MAX + 1, false),
        ] {
            let mut token = token(TokenKind::Permit);
            token.counters = vec![token.counters[0].clone(); count];
            let opened = open(TokenKind::Permit, &seal(&token), &KEY);
            assert_eq!(opened.is_ok(), is_valid, "{count}");
        }
    }
}
