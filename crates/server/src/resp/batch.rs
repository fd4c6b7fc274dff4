//! A batch: the commands that are answered together, with one write.
//!
//! Decisions that have to wait for the store are all sent before the first of them is awaited, so
//! that they share a round trip. Replies keep the order of their commands.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use tollgate::store::Intent;
use tollgate::{Decision, Demand, EncodedKey};
use tollgate_gate::{ActiveConfig, Gate, RequestOrigin};

use super::encode;
use super::error::RespError;
use crate::listen::{PortLoad, RequestSlot};

type DecisionResult = Result<Decision, RespError>;
type DecisionFuture<'r> = Pin<Box<dyn Future<Output = DecisionResult> + Send + 'r>>;

/// The replies to some commands.
pub(super) struct CommandBatch<'r> {
    gate: &'r Gate,
    active: &'r ActiveConfig,
    load: &'r PortLoad,
    /// Taken by the first decision. A batch counts as one request in flight, like a request over
    /// HTTP with several limits.
    slot: Option<RequestSlot<'r>>,
    /// The replies that are known.
    replies: Vec<u8>,
    /// The decisions that are awaited, each with its place in `replies`.
    pending: Vec<(usize, DecisionFuture<'r>)>,
}

impl<'r> CommandBatch<'r> {
    pub(super) const fn new(gate: &'r Gate, active: &'r ActiveConfig, load: &'r PortLoad) -> Self {
        Self {
            gate,
            active,
            load,
            slot: None,
            replies: Vec::new(),
            pending: Vec::new(),
        }
    }

    /// The configuration that decides.
    pub(super) const fn active(&self) -> &'r ActiveConfig {
        self.active
    }

    /// Adds a reply that is known, or an error if nothing was written.
    pub(super) fn reply(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), RespError>) {
        if let Err(error) = write(&mut self.replies) {
            self.refuse(&error);
        }
    }

    /// Adds an error.
    pub(super) fn refuse(&mut self, error: &RespError) {
        refuse(self.gate, &mut self.replies, error);
    }

    /// Starts a decision, and adds its reply.
    pub(super) async fn decide(&mut self, demand: Demand<'r, EncodedKey>) {
        if self.slot.is_none() {
            self.slot = self.load.try_request();
        }
        if self.slot.is_none() {
            self.refuse(&RespError::overloaded());
            return;
        }

        let spending = spend(self.gate, self.active, demand);
        if self.active.decides_in_process() {
            // On the stack: the future has a few thousand bytes.
            let result = match pin!(spending).poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(result) => result,
                Poll::Pending => Err(RespError::new("the in-process store did not reply")),
            };
            write_result(self.gate, &mut self.replies, &result);
            return;
        }

        let mut spending: DecisionFuture<'r> = Box::pin(spending);
        match poll_fn(|context| Poll::Ready(spending.as_mut().poll(context))).await {
            Poll::Ready(result) => write_result(self.gate, &mut self.replies, &result),
            Poll::Pending => self.pending.push((self.replies.len(), spending)),
        }
    }

    /// Waits for all decisions, and writes the replies in order.
    pub(super) async fn finish(self, output: &mut Vec<u8>) {
        if self.pending.is_empty() && output.is_empty() {
            *output = self.replies;
            return;
        }

        let mut written = 0;
        for (place, decision) in self.pending {
            output.extend_from_slice(&self.replies[written..place]);
            written = place;
            write_result(self.gate, output, &decision.await);
        }
        output.extend_from_slice(&self.replies[written..]);
    }
}

/// Decides by one demand. A cost of 0 only looks.
async fn spend(
    gate: &Gate,
    active: &ActiveConfig,
    demand: Demand<'_, EncodedKey>,
) -> DecisionResult {
    let intent = if demand.cost == 0 {
        Intent::Peek
    } else {
        Intent::Spend
    };
    let (demands, origin) = ([demand], RequestOrigin::UNKNOWN);
    let spent = gate.spend(active, &demands, intent, origin).await?;
    let decision = spent.decision;

    match decision.denied_by() {
        Some(outcome) if decision.is_unavailable() => {
            Err(RespError::denied_by_policy(outcome.name()))
        }
        _ => Ok(decision),
    }
}

fn write_result(gate: &Gate, out: &mut Vec<u8>, result: &DecisionResult) {
    match result {
        Ok(decision) => encode::decision(out, decision),
        Err(error) => refuse(gate, out, error),
    }
}

/// Writes an error in place of a reply, and counts it.
pub(super) fn refuse(gate: &Gate, out: &mut Vec<u8>, error: &RespError) {
    if let Some(cause) = error.cause {
        gate.metrics().count_error(cause);
    }
    encode::error(out, error);
}
