//! Serves one connection: sends waiting calls, passes replies to their callers, and fails calls
//! whose deadline has passed.
//!
//! Calls are sent in rounds. A round is the set of calls that are taken from the queue together:
//! one script call, or in a cluster one for each slot. While a round is in flight, new calls gather
//! in the queue, so rounds get larger as the load grows.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, WriteHalf, split};
use tokio::time::{Instant, Sleep, sleep_until};

use super::command::{
    BATCH_MAX, CommandKind, PipelinedCommand, ScriptReference, write_delete, write_script_call,
};
use super::{LinkState, QueuedCall};
use crate::connector::{ByteStream, RespConnection};
use crate::error::{CallError, ErrorClass, ServerError};
use crate::resp::{self, RespValue};
use crate::wire::{Operation, ScriptReply, read_replies};

/// The most rounds in flight. With two, the server has the next one when it completes the first.
const ROUNDS_MAX: usize = 2;
/// The most calls in a round.
const ROUND_CALLS_MAX: usize = 128;
/// A server that has not replied for this number of timeouts counts as unavailable.
const SILENT_TIMEOUTS: u32 = 2;
/// A server counts as unavailable after this number of consecutive rounds with a late reply.
const LATE_ROUNDS_MAX: u32 = 3;
/// Interval of the `PING`s on a connection that is not used.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);

struct ConnectionLoop<'s> {
    state: &'s LinkState,
    /// Commands that have been sent and not been answered, oldest first.
    in_flight: VecDeque<PipelinedCommand>,
    /// Number of rounds in flight.
    rounds: usize,
    /// Bytes to be written to the connection.
    out: BytesMut,
    /// Consecutive rounds whose reply came too late.
    late_rounds: u32,
    /// The time of the last reply.
    last_reply_at: Instant,
}

/// Serves the connection until it or the server fails. Returns the reason.
pub(super) async fn serve(state: &LinkState, connection: RespConnection) -> ServerError {
    let mut connection_loop = ConnectionLoop {
        state,
        in_flight: VecDeque::new(),
        rounds: 0,
        out: BytesMut::new(),
        late_rounds: 0,
        last_reply_at: Instant::now(),
    };
    let Err(error) = connection_loop.run(connection).await;

    connection_loop
        .in_flight
        .iter_mut()
        .for_each(|command| command.fail_unavailable(&error));
    error
}

/// Writes some of the output, or flushes if all of it is written. Returns true after a write, when
/// there may be more to write or flush.
async fn write_or_flush(
    writer: &mut WriteHalf<Box<dyn ByteStream>>,
    out: &mut BytesMut,
) -> Result<bool, ServerError> {
    if out.is_empty() {
        writer.flush().await?;
        return Ok(false);
    }

    match writer.write_buf(out).await? {
        0 => Err(ServerError::new("the server closed the connection")),
        _ => Ok(true),
    }
}

impl ConnectionLoop<'_> {
    async fn run(&mut self, connection: RespConnection) -> Result<Infallible, ServerError> {
        let (mut reader, mut writer) = split(connection.stream);
        let (state, is_buffered) = (self.state, connection.is_buffered);
        let mut needs_flush = false;
        let mut received = BytesMut::with_capacity(16 << 10);
        let mut timer = std::pin::pin!(sleep_until(Instant::now() + IDLE_INTERVAL));

        loop {
            self.send_round(timer.as_mut());

            let can_write = needs_flush || !self.out.is_empty();
            tokio::select! {
                biased;
                read = reader.read_buf(&mut received) => {
                    if read? == 0 {
                        return Err(ServerError::new("the server closed the connection"));
                    }
                    while let Some(reply) = resp::read_value(&mut received)? {
                        self.receive(reply)?;
                    }
                }
                written = write_or_flush(&mut writer, &mut self.out), if can_write => {
                    needs_flush = written? && is_buffered;
                }
                () = timer.as_mut() => self.tick(timer.as_mut())?,
                () = state.call_queued.notified(), if self.rounds < ROUNDS_MAX => {}
                () = state.earlier_deadline.notified() => self.advance_timer(timer.as_mut()),
                () = state.reconnect_requested.notified() => {
                    return Err(ServerError::new("the primary has changed"));
                }
            }
        }
    }

    /// Sends the waiting calls, unless enough rounds are in flight.
    fn send_round(&mut self, timer: Pin<&mut Sleep>) {
        if self.rounds >= ROUNDS_MAX {
            return;
        }
        let now = Instant::now();
        let mut calls = self.take_waiting(now);
        let Some(first_deadline) = calls.iter().map(|call| call.deadline).min() else {
            return;
        };

        if self.state.is_cluster {
            // Only calls of the same slot can share a script call. The sort is stable, so their
            // order is kept.
            calls.sort_by_key(|queued| (queued.call.slot, queued.is_asking));
        }
        while !calls.is_empty() {
            let rest = calls.split_off(self.batch_len(&calls));
            let batch = std::mem::replace(&mut calls, rest);
            self.send(batch, now, ScriptReference::Hash);
        }

        if let Some(last) = self.in_flight.back_mut() {
            last.ends_round = true;
        }
        self.rounds += 1;
        if first_deadline < timer.deadline() {
            timer.reset(first_deadline);
        }
    }

    /// Takes calls from the queue. Fails those whose deadline has passed, and drops those whose
    /// caller no longer waits.
    fn take_waiting(&self, now: Instant) -> Vec<QueuedCall> {
        let mut queue = self.state.queue.lock();
        let mut calls = Vec::with_capacity(queue.waiting.len().min(ROUND_CALLS_MAX));

        while calls.len() < ROUND_CALLS_MAX
            && let Some(mut queued) = queue.waiting.pop_front()
        {
            if queued.deadline <= now {
                queued.finish(Err(CallError::Timeout));
            }
            if !queued.is_abandoned() {
                calls.push(queued);
            }
        }
        calls
    }

    /// How many of the first calls can share a command.
    fn batch_len(&self, calls: &[QueuedCall]) -> usize {
        let Some(first) = calls.first() else { return 0 };
        let needs_own_command =
            |queued: &QueuedCall| queued.call.operation == Operation::Reset || queued.is_asking;
        if needs_own_command(first) {
            return 1;
        }

        let can_join = |queued: &&QueuedCall| {
            !needs_own_command(queued)
                && (!self.state.is_cluster || queued.call.slot == first.call.slot)
        };
        calls.iter().take(BATCH_MAX).take_while(can_join).count()
    }

    /// Sends calls that share a command.
    fn send(&mut self, calls: Vec<QueuedCall>, now: Instant, reference: ScriptReference) {
        let Some(first) = calls.first() else { return };
        if first.is_asking {
            self.send_ignoring_reply(b"ASKING", now);
        }

        let kind = if first.call.operation == Operation::Reset {
            write_delete(&mut self.out, first);
            CommandKind::Delete
        } else {
            let timestamp = self.state.clock.timestamp();
            let script = self.state.connector.script;
            write_script_call(&mut self.out, script, reference, &calls, timestamp);
            self.state.count_script_call(calls.len());
            CommandKind::Script(reference)
        };
        self.in_flight
            .push_back(PipelinedCommand::new(kind, calls, now));
    }

    /// Sends a command whose reply is ignored.
    fn send_ignoring_reply(&mut self, name: &[u8], now: Instant) {
        resp::write_command(&mut self.out, &[name]);
        let command = PipelinedCommand::new(CommandKind::IgnoreReply, Vec::new(), now);
        self.in_flight.push_back(command);
    }

    /// Handles the reply to the oldest command.
    fn receive(&mut self, reply: RespValue) -> Result<(), ServerError> {
        let command = self
            .in_flight
            .pop_front()
            .ok_or_else(|| ServerError::new("the server sent a reply without a command"))?;
        let (elapsed, ends_round) = (command.sent_at.elapsed(), command.ends_round);
        self.rounds -= usize::from(ends_round);
        self.last_reply_at = command.sent_at + elapsed;
        self.finish_command(command, reply)?;

        // All commands of a round are late together, which counts once.
        if ends_round {
            self.count_late_round(elapsed)
        } else {
            Ok(())
        }
    }

    /// Passes the results of a command to the callers.
    fn finish_command(
        &mut self,
        mut command: PipelinedCommand,
        reply: RespValue,
    ) -> Result<(), ServerError> {
        match (command.kind, reply) {
            (CommandKind::IgnoreReply, _) => Ok(()),
            (_, RespValue::Error(text)) => {
                self.handle_error(command, &String::from_utf8_lossy(&text))
            }
            (CommandKind::Delete, RespValue::Integer(_)) => {
                command
                    .calls
                    .iter_mut()
                    .for_each(|call| call.finish(Ok(ScriptReply::success())));
                Ok(())
            }
            (CommandKind::Script(_), RespValue::Bulk(text)) => Self::finish_calls(command, text),

            _ => {
                let error = ServerError::new("the reply does not match the command");
                command.fail_unavailable(&error);
                Err(error)
            }
        }
    }

    /// Passes the results of a script call to the callers. Fails if one of them is an error that
    /// makes the server unusable.
    fn finish_calls(mut command: PipelinedCommand, reply: Bytes) -> Result<(), ServerError> {
        let calls = command.calls.iter().map(|queued| &*queued.call);
        let Some(replies) = read_replies(reply, calls) else {
            let error = ServerError::new("invalid reply of the script");
            command.fail_unavailable(&error);
            return Err(error);
        };

        let mut result = Ok(());
        for (call, reply) in command.calls.iter_mut().zip(replies) {
            call.finish(reply.map_err(|text| match ErrorClass::from_reply(&text) {
                ErrorClass::CallFailed(error) => error,
                ErrorClass::ScriptMissing => {
                    let error = ServerError::new("unexpected error in the script: NOSCRIPT");
                    CallError::Refused(error)
                }
                ErrorClass::ServerUnusable(error) => {
                    result = Err(error.clone());
                    CallError::Unavailable(error)
                }
            }));
        }
        result
    }

    /// Handles an error reply to a command as a whole, which means that the command has not run.
    fn handle_error(
        &mut self,
        mut command: PipelinedCommand,
        text: &str,
    ) -> Result<(), ServerError> {
        let now = self.last_reply_at;
        let sent_by_hash = command.kind == CommandKind::Script(ScriptReference::Hash);

        match ErrorClass::from_reply(text) {
            ErrorClass::ScriptMissing if sent_by_hash => {
                command.expire(now);
                let calls = command.calls.into_iter();
                let calls = calls.filter(|call| !call.is_abandoned()).collect();
                self.send(calls, now, ScriptReference::Source);
                Ok(())
            }
            // During a migration the keys of several calls can be on two servers, although those of
            // each call are on one. The calls are sent again one by one.
            ErrorClass::CallFailed(CallError::TryAgain) if command.calls.len() > 1 => {
                command.expire(now);
                let calls = command.calls.into_iter();
                calls
                    .filter(|call| !call.is_abandoned())
                    .for_each(|call| self.send(vec![call], now, ScriptReference::Hash));
                Ok(())
            }

            ErrorClass::CallFailed(error) => {
                command.fail(&error);
                Ok(())
            }
            ErrorClass::ScriptMissing => {
                let error = ServerError::new("the server does not accept the script");
                command.fail(&CallError::Refused(error));
                Ok(())
            }
            ErrorClass::ServerUnusable(error) => {
                command.fail_unavailable(&error);
                Err(error)
            }
        }
    }

    /// Detects a server that always replies too late.
    fn count_late_round(&mut self, elapsed: Duration) -> Result<(), ServerError> {
        self.late_rounds = if elapsed > self.state.connector.timeout {
            self.late_rounds + 1
        } else {
            0
        };

        if self.late_rounds < LATE_ROUNDS_MAX {
            Ok(())
        } else {
            Err(ServerError::new("the server is slower than the timeout"))
        }
    }

    /// Fails calls whose deadline has passed, and checks that the server still replies. One timer
    /// is sufficient, because deadlines come in order: it is set to the earliest one.
    fn tick(&mut self, timer: Pin<&mut Sleep>) -> Result<(), ServerError> {
        let now = Instant::now();
        self.in_flight
            .iter_mut()
            .for_each(|command| command.expire(now));
        let first_waiting = self.expire_waiting(now);

        let silence_max = self.state.connector.timeout * SILENT_TIMEOUTS;
        let oldest = self.in_flight.front();
        let give_up_at = oldest.map(|command| command.sent_at + silence_max);
        if give_up_at.is_some_and(|give_up_at| give_up_at <= now) {
            return Err(ServerError::new("the server does not reply"));
        }

        if self.in_flight.is_empty() && first_waiting.is_none() {
            if now < self.last_reply_at + IDLE_INTERVAL {
                timer.reset(self.last_reply_at + IDLE_INTERVAL);
            } else {
                self.send_ignoring_reply(b"PING", now);
                timer.reset(now + silence_max);
            }
            return Ok(());
        }

        let first_in_flight = self
            .in_flight
            .iter()
            .filter_map(PipelinedCommand::deadline)
            .min();
        let next = [first_in_flight, first_waiting, give_up_at]
            .into_iter()
            .flatten()
            .min();
        // At the latest one timeout from now, for calls that are queued while nothing can be sent.
        timer.reset(next.map_or(now + IDLE_INTERVAL, |next| {
            next.min(now + self.state.connector.timeout)
        }));
        Ok(())
    }

    /// Sets the timer to the earliest deadline in the queue, for calls that came out of order.
    fn advance_timer(&self, timer: Pin<&mut Sleep>) {
        let queue = self.state.queue.lock();
        let first = queue.waiting.iter().map(|call| call.deadline).min();
        drop(queue);

        if let Some(first) = first.filter(|first| *first < timer.deadline()) {
            timer.reset(first);
        }
    }

    /// Fails waiting calls whose deadline has passed. Returns the earliest deadline of the others.
    fn expire_waiting(&self, now: Instant) -> Option<Instant> {
        let mut queue = self.state.queue.lock();
        queue.waiting.retain_mut(|queued| {
            if queued.deadline <= now {
                queued.finish(Err(CallError::Timeout));
            }
            !queued.is_abandoned()
        });

        queue
            .waiting
            .iter()
            .filter(|queued| queued.is_unanswered())
            .map(|queued| queued.deadline)
            .min()
    }
}
