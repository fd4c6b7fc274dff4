//! Uses the limit up with plain requests, sends the variants, and judges the responses.
//!
//! A variant that gets the handler's response while plain requests are denied was not counted by
//! the limit. It may have a counter of its own, so it may well be denied later. Or the limit has
//! recovered by a unit, which the variant used up: so a variant must get through twice, with a
//! denied plain request after each time, and more often if the limit is seen to recover.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde::Serialize;
use tollgate_load::Replica;

use super::super::outcome::{CommandError, no_response};
use super::corpus::{PlainRequest, Variant};
use super::exchange::{RawResponse, exchange};

/// How often a variant must get through, unless the limit is smaller.
const PASSES: u32 = 2;
/// The same for a limit that recovers during the audit.
const PASSES_RECOVERING: u32 = 4;
/// How often the limit may recover while one variant is judged.
const RECOVERIES_MAX: u32 = 5;
/// After how many variants a plain request shows whether the limit has recovered.
const PLAIN_INTERVAL: usize = 20;

/// What to send, and how to read the responses.
#[derive(Debug)]
pub(super) struct Audit {
    pub(super) replica: Replica,
    pub(super) request: PlainRequest,
    pub(super) deny_status: u16,
    /// Statuses of the handler; empty to compare with the plain response.
    pub(super) expect_statuses: Vec<u16>,
    /// The most plain requests until the limit denies.
    pub(super) plain_max: u32,
    pub(super) timeout: Duration,
}

/// The result of an audit. Serialized as the output of `--json`.
#[derive(Debug, Default, Serialize)]
pub(super) struct AuditReport {
    /// The plain request, as in `POST /auth/login`.
    pub(super) request: String,
    /// The status of the handler's response.
    pub(super) handler_status: u16,
    /// The number of plain requests that the limit allowed.
    pub(super) allowed: u32,
    /// The number of variants.
    pub(super) variants: usize,
    /// The number of variants that the limit denied: they are counted.
    pub(super) counted: usize,
    /// The number of variants that did not reach the handler, by status; 0 is no response.
    pub(super) elsewhere: BTreeMap<u16, usize>,
    /// The variants that reached the handler although the limit was used up.
    pub(super) uncounted: Vec<UncountedVariant>,
    /// The number of all requests.
    pub(super) requests: u64,
}

/// A variant that reached the handler although the limit was used up.
#[derive(Debug, Serialize)]
pub(super) struct UncountedVariant {
    pub(super) class: String,
    /// The first line and the changed headers, with escapes as in `\xff`.
    pub(super) request: String,
}

/// A response, as far as the audit cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponseKind {
    /// The limit denied the request.
    Denied,
    /// The handler responded.
    Handler,
    /// Anything else; 0 if there was no response.
    Elsewhere(u16),
}

/// A running audit.
struct Session<'a> {
    audit: &'a Audit,
    address: SocketAddr,
    /// The handler's response to the plain request.
    handler: Option<RawResponse>,
    /// Whether the handler's body is always the same, so that it can be compared.
    has_stable_body: bool,
    /// The number of plain requests that the limit allowed at first.
    allowed: u32,
    /// Whether the limit has allowed a plain request after it was used up.
    has_recovered: bool,
    requests: u64,
}

impl Audit {
    /// Runs the audit. `on_progress` gets a line for each variant.
    pub(super) async fn run(
        &self,
        variants: &[Variant],
        mut on_progress: impl FnMut(String),
    ) -> Result<AuditReport, CommandError> {
        let mut session = Session {
            audit: self,
            address: self.resolve().await?,
            handler: None,
            has_stable_body: true,
            allowed: 0,
            has_recovered: false,
            requests: 0,
        };
        session.allowed = session.exhaust().await?;

        let mut report = AuditReport {
            request: format!("{} {}", self.request.method, self.request.path),
            handler_status: session.handler.as_ref().map_or(0, |known| known.status),
            allowed: session.allowed,
            variants: variants.len(),
            ..AuditReport::default()
        };
        for (number, variant) in variants.iter().enumerate() {
            let uncounted = report.uncounted.len();
            on_progress(format!(
                "{number} of {} variants  uncounted {uncounted}",
                variants.len()
            ));

            if number % PLAIN_INTERVAL == 0 {
                session.has_recovered |= session.exhaust().await? > 0;
            }
            match session.judge(variant).await? {
                ResponseKind::Denied => report.counted += 1,
                ResponseKind::Elsewhere(status) => {
                    *report.elsewhere.entry(status).or_default() += 1;
                }
                ResponseKind::Handler => report.uncounted.push(UncountedVariant {
                    class: variant.class.clone(),
                    request: self.request.describe(variant),
                }),
            }
        }

        report.requests = session.requests;
        Ok(report)
    }

    async fn resolve(&self) -> Result<SocketAddr, CommandError> {
        let host = (self.replica.host.as_str(), self.replica.port);
        let unknown = |reason: String| no_response(format!("{}: {reason}", self.replica));
        let addresses = tokio::net::lookup_host(host).await;
        let mut addresses = addresses.map_err(|error| unknown(error.to_string()))?;
        addresses.next().ok_or_else(|| unknown("no address".into()))
    }
}

impl Session<'_> {
    /// Sends plain requests until the limit denies one, and returns how many it allowed.
    async fn exhaust(&mut self) -> Result<u32, CommandError> {
        let Audit {
            plain_max,
            deny_status,
            expect_statuses,
            ..
        } = self.audit;
        for allowed in 0..=*plain_max {
            let response = self.send(&self.audit.request.plain()).await?;
            let response = response.ok_or_else(|| {
                no_response("the plain request got no response; does the URL work with curl?")
            })?;

            if response.status == *deny_status {
                if self.handler.is_none() && expect_statuses.is_empty() {
                    return Err(no_response(
                        "the first request was denied, so the handler's response is unknown: reset \
                         the limit (tollgate keys reset), or name it with --expect-status",
                    ));
                }
                return Ok(allowed);
            }
            self.learn(response)?;
        }

        Err(no_response(format!(
            "{plain_max} plain requests were allowed: is the path limited for this client? Lower \
             the limit for this test, or raise --plain-max; --deny-status is {deny_status}"
        )))
    }

    /// Learns what a response of the handler looks like.
    fn learn(&mut self, response: RawResponse) -> Result<(), CommandError> {
        match &self.handler {
            None => self.handler = Some(response),
            Some(known) if known.status != response.status => {
                return Err(no_response(format!(
                    "the plain request got {} and then {}: the handler must always answer with the \
                     same status; see --deny-status",
                    known.status, response.status
                )));
            }
            Some(known) => self.has_stable_body &= known.body == response.body,
        }
        Ok(())
    }

    /// Sends a variant until it is clear whether the limit counts it.
    async fn judge(&mut self, variant: &Variant) -> Result<ResponseKind, CommandError> {
        let mut passes = 0;
        for _ in 0..=RECOVERIES_MAX + PASSES_RECOVERING {
            let reading = self.read(variant).await?;
            if reading != ResponseKind::Handler {
                return Ok(reading);
            }

            if self.exhaust().await? > 0 {
                self.has_recovered = true;
                passes = 0;
            } else {
                passes += 1;
            }
            if passes >= self.passes_needed() {
                return Ok(ResponseKind::Handler);
            }
        }

        Err(no_response(
            "the limit recovers too fast to be audited: use one with a longer window",
        ))
    }

    /// How often a variant must get through in a row to be reported.
    fn passes_needed(&self) -> u32 {
        let passes = if self.has_recovered {
            PASSES_RECOVERING
        } else {
            PASSES
        };
        passes.min(self.allowed).max(1)
    }

    async fn read(&mut self, variant: &Variant) -> Result<ResponseKind, CommandError> {
        let response = self.send(variant).await?;
        Ok(response.map_or(ResponseKind::Elsewhere(0), |response| {
            if response.status == self.audit.deny_status {
                ResponseKind::Denied
            } else if self.is_handler(&response) {
                ResponseKind::Handler
            } else {
                ResponseKind::Elsewhere(response.status)
            }
        }))
    }

    fn is_handler(&self, response: &RawResponse) -> bool {
        let is_known = |known: &RawResponse| {
            let has_body = !self.has_stable_body || known.body == response.body;
            known.status == response.status && has_body
        };
        self.audit.expect_statuses.contains(&response.status)
            || self.handler.as_ref().is_some_and(is_known)
    }

    async fn send(&mut self, variant: &Variant) -> Result<Option<RawResponse>, CommandError> {
        self.requests += 1;
        let bytes = self.audit.request.encode(variant, self.requests);
        let response = exchange(self.address, &bytes, self.audit.timeout).await;
        response.map_err(|error| {
            no_response(format!("no response from {}: {error}", self.audit.replica))
        })
    }
}
