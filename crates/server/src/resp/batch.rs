//! A batch: the commands that are answered together, with one write.
//!
//! Decisions that have to wait for the store are all sent before the first of them is awaited, so
//! that they share a round trip. Replies keep the order of their commands.

use std::future::poll_fn;
use std::mem;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use tokio::sync::SemaphorePermit;
use tollgate::store::Intent;
use tollgate::{Decision, Demand, EncodedKey};
use tollgate_gate::{ActiveConfig, Gate, RequestOrigin};

use super::error::RespError;
use super::share::SHARE_MAX;
use super::{RespFront, encode};
use crate::listen::RequestSlot;

type DecisionResult = Result<Decision, RespError>;
type DecisionFuture<'r> = Pin<Box<dyn Future<Output = DecisionResult> + Send + 'r>>;

/// The replies to some commands.
pub(super) struct CommandBatch<'r> {
    front: &'r RespFront,
    active: &'r ActiveConfig,
    /// Not while the batch waits for the store.
    turn: Option<SemaphorePermit<'r>>,
    /// Taken by the first decision. A batch counts as one request in flight, like a request over
    /// HTTP with several limits.
    slot: Option<RequestSlot<'r>>,
    /// The commands of the batch, of which long ones count as several.
    commands: usize,
    /// The replies that are known.
    replies: Vec<u8>,
    /// The decisions that are awaited, each with its place in `replies`.
    pending: Vec<(usize, DecisionFuture<'r>, SemaphorePermit<'r>)>,
}

impl<'r> CommandBatch<'r> {
    /// Begins a batch when it is the connection's turn, and when other tasks have had theirs.
    pub(super) async fn begin(front: &'r RespFront, active: &'r ActiveConfig) -> Self {
        let turn = front.turns.acquire().await.ok();
        front.share.let_others_run().await;
        Self {
            front,
            active,
            turn,
            slot: None,
            commands: 0,
            replies: Vec::new(),
            pending: Vec::new(),
        }
    }

    /// Counts commands against the share of the port.
    pub(super) fn spend(&mut self, commands: usize) {
        self.commands += commands;
        self.front.share.spend(commands);
    }

    /// True when further commands belong to the next batch.
    pub(super) const fn is_full(&self) -> bool {
        self.commands >= SHARE_MAX
    }

    /// The configuration that decides.
    pub(super) const fn active(&self) -> &'r ActiveConfig {
        self.active
    }

    /// The bytes of the replies that are known.
    pub(super) const fn reply_bytes(&self) -> usize {
        self.replies.len()
    }

    /// Adds a reply that is known, or an error if nothing was written.
    pub(super) fn reply(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), RespError>) {
        if let Err(error) = write(&mut self.replies) {
            self.refuse(&error);
        }
    }

    /// Adds an error.
    pub(super) fn refuse(&mut self, error: &RespError) {
        refuse(&self.front.gate, &mut self.replies, error);
    }

    /// Starts a decision, and adds its reply.
    pub(super) async fn decide(&mut self, demand: Demand<'r, EncodedKey>) {
        if self.slot.is_none() {
            self.slot = self.front.load.try_request();
        }
        if self.slot.is_none() {
            self.refuse(&RespError::overloaded());
            return;
        }

        let spending = spend(&self.front.gate, self.active, demand);
        if self.active.decides_in_process() {
            // On the stack: the future has a few thousand bytes.
            let result = match pin!(spending).poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(result) => result,
                Poll::Pending => Err(RespError::new("the in-process store did not reply")),
            };
            write_result(&self.front.gate, &mut self.replies, &result);
            return;
        }

        let Some(permit) = self.wait_for_room().await else {
            self.refuse(&RespError::overloaded());
            return;
        };
        let mut spending: DecisionFuture<'r> = Box::pin(spending);
        match poll_fn(|context| Poll::Ready(spending.as_mut().poll(context))).await {
            Poll::Ready(result) => write_result(&self.front.gate, &mut self.replies, &result),
            Poll::Pending => self.pending.push((self.replies.len(), spending, permit)),
        }
    }

    /// Waits until the port may have another decision in the store. Meanwhile the batch holds
    /// nothing that others wait for: neither decisions nor its turn.
    async fn wait_for_room(&mut self) -> Option<SemaphorePermit<'r>> {
        let decisions = &self.front.decisions;
        if let Ok(permit) = decisions.try_acquire() {
            return Some(permit);
        }

        let had_turn = self.turn.is_some();
        self.settle().await;
        let permit = decisions.acquire().await.ok();
        if had_turn {
            self.turn = self.front.turns.acquire().await.ok();
        }
        permit
    }

    /// Waits for all decisions, and returns the replies in order.
    pub(super) async fn finish(mut self) -> Vec<u8> {
        self.settle().await;
        self.replies
    }

    /// Ends the turn, and puts the decisions that are awaited into their places.
    async fn settle(&mut self) {
        self.turn = None;
        if self.pending.is_empty() {
            return;
        }

        let known = mem::take(&mut self.replies);
        let mut written = 0;
        for (place, decision, _permit) in mem::take(&mut self.pending) {
            self.replies.extend_from_slice(&known[written..place]);
            written = place;
            let result = decision.await;
            write_result(&self.front.gate, &mut self.replies, &result);
        }
        self.replies.extend_from_slice(&known[written..]);
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
