//! Serves one connection: sends waiting calls, passes replies to their callers, and fails calls
//! whose deadline has passed.
//!
//! Calls are sent in rounds. A round is the set of calls that are taken from the queue together:
//! one script call, or in a cluster one for each slot. While a round is in flight, new calls gather
//! in the queue, so rounds get larger as the load grows.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};
use tokio::time::{Instant, Sleep, sleep_until};

use super::command::{BATCH_MAX, CommandKind, PipelinedCommand, write_script_call};
use super::queue::{LinkState, QueuedCall, earliest_deadline};
use crate::connector::RespConnection;
use crate::endpoint::Address;
use crate::error::{CallError, ServerError};
use crate::resp::{self, RespValue};
use crate::wire::read_replies;

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
    /// Set to the earliest deadline. One timer is sufficient, because deadlines come in order.
    timer: Pin<Box<Sleep>>,
}

/// Serves the connection until it or the server fails. Returns the reason.
pub(super) async fn serve(
    state: &LinkState,
    server: &Address,
    connection: RespConnection,
) -> ServerError {
    let now = Instant::now();
    let mut connection_loop = ConnectionLoop {
        state,
        in_flight: VecDeque::new(),
        rounds: 0,
        out: BytesMut::new(),
        late_rounds: 0,
        last_reply_at: now,
        timer: Box::pin(sleep_until(now + IDLE_INTERVAL)),
    };
    let Err(error) = connection_loop.run(connection).await;
    let error = error.at(server);

    for mut command in connection_loop.in_flight {
        fail_all(&mut command.calls, &CallError::Unavailable(error.clone()));
    }
    error
}

/// Writes and flushes the output. If it is cancelled, the bytes that are written are gone from the
/// output, and it must be called again.
async fn write_all(
    writer: &mut (impl AsyncWrite + Unpin),
    out: &mut BytesMut,
) -> std::io::Result<()> {
    writer.write_all_buf(out).await?;
    writer.flush().await
}

fn fail_all(calls: &mut [QueuedCall], error: &CallError) {
    for call in calls {
        call.finish(Err(error.clone()));
    }
}

impl ConnectionLoop<'_> {
    async fn run(&mut self, connection: RespConnection) -> Result<Infallible, ServerError> {
        let (mut reader, mut writer) = split(connection.stream);
        let state = self.state;
        let mut needs_flush = false;
        let mut received = BytesMut::with_capacity(16 << 10);

        loop {
            self.send_round();

            needs_flush |= !self.out.is_empty();
            tokio::select! {
                biased;
                read = reader.read_buf(&mut received) => {
                    if read? == 0 {
                        return Err(ServerError::new("the server closed the connection"));
                    }
                    while let Some((reply, length)) = resp::read_value(&received)? {
                        self.receive(&reply)?;
                        received.advance(length);
                    }
                }
                written = write_all(&mut writer, &mut self.out), if needs_flush => {
                    written?;
                    needs_flush = false;
                }
                () = self.timer.as_mut() => self.tick()?,
                () = state.call_queued.notified(), if self.rounds < ROUNDS_MAX => {}
                () = state.earlier_deadline.notified() => self.tick()?,
            }
        }
    }

    /// Sends the waiting calls, unless enough rounds are in flight.
    fn send_round(&mut self) {
        if self.rounds >= ROUNDS_MAX {
            return;
        }
        let now = Instant::now();
        let mut calls = self.state.take_waiting(ROUND_CALLS_MAX, now);
        let Some(first_deadline) = calls.iter().map(|call| call.deadline).min() else {
            return;
        };

        if self.state.connector.is_cluster {
            // Only calls of the same slot can share a script call. The sort is stable, so their
            // order is kept.
            calls.sort_by_key(|queued| (queued.call.slot, queued.is_asking));
        }
        while !calls.is_empty() {
            let rest = calls.split_off(batch_len(&calls));
            let batch = std::mem::replace(&mut calls, rest);
            self.send(batch, CommandKind::EvalSha, now);
        }

        if let Some(last) = self.in_flight.back_mut() {
            last.ends_round = true;
        }
        self.rounds += 1;
        if first_deadline < self.timer.deadline() {
            self.timer.as_mut().reset(first_deadline);
        }
    }

    /// Sends calls that share a script call.
    fn send(&mut self, calls: Vec<QueuedCall>, kind: CommandKind, now: Instant) {
        let Some(first) = calls.first() else { return };
        if first.is_asking {
            self.send_plain(b"ASKING", now);
        }

        write_script_call(&mut self.out, &self.state.connector, kind, &calls);
        let counters = &self.state.counters;
        counters.script_calls.fetch_add(1, Relaxed);
        counters.store_calls.fetch_add(calls.len() as u64, Relaxed);
        self.push_in_flight(kind, calls, now);
    }

    /// Sends a command without the script.
    fn send_plain(&mut self, name: &[u8], now: Instant) {
        resp::write_command(&mut self.out, &[name]);
        self.push_in_flight(CommandKind::Plain, Vec::new(), now);
    }

    fn push_in_flight(&mut self, kind: CommandKind, calls: Vec<QueuedCall>, sent_at: Instant) {
        self.in_flight.push_back(PipelinedCommand {
            kind,
            calls,
            sent_at,
            ends_round: false,
        });
    }

    /// Handles the reply to the oldest command.
    fn receive(&mut self, reply: &RespValue<'_>) -> Result<(), ServerError> {
        let mut command = self
            .in_flight
            .pop_front()
            .ok_or_else(|| ServerError::new("the server sent a reply without a command"))?;
        let elapsed = command.sent_at.elapsed();
        self.last_reply_at = command.sent_at + elapsed;

        if let Err(error) = self.finish_command(&mut command, reply) {
            // Its calls fail with the connection.
            self.in_flight.push_front(command);
            return Err(error);
        }

        // All commands of a round are late together, which counts once.
        if command.ends_round {
            self.rounds -= 1;
            self.count_late_round(elapsed)?;
        }
        Ok(())
    }

    /// Passes the results of a command to the callers. An error makes the server unusable.
    fn finish_command(
        &mut self,
        command: &mut PipelinedCommand,
        reply: &RespValue<'_>,
    ) -> Result<(), ServerError> {
        match (command.kind, reply) {
            (_, RespValue::Error(text)) => self.handle_error(command, text),
            (CommandKind::Plain, _) => Ok(()),
            (_, RespValue::Text(reply)) => self.finish_script_call(&mut command.calls, reply),
            _ => Err(ServerError::new("the reply does not match the command")),
        }
    }

    /// Passes the results of a script call to the callers. Fails if one of them is an error that
    /// makes the server unusable.
    fn finish_script_call(
        &self,
        calls: &mut [QueuedCall],
        reply: &[u8],
    ) -> Result<(), ServerError> {
        let replies = read_replies(reply, calls.iter().map(|queued| &*queued.call))
            .ok_or_else(|| ServerError::new("invalid reply of the script"))?;

        let mut result = Ok(());
        let mut successes = 0;
        for (call, reply) in calls.iter_mut().zip(replies) {
            match reply.map_err(CallError::from_reply) {
                // The call fails with the connection.
                Err(CallError::ServerUnusable(error)) => result = Err(error),
                reply => {
                    successes += u64::from(reply.is_ok());
                    call.finish(reply);
                }
            }
        }

        let counters = &self.state.counters;
        counters.store_replies.fetch_add(successes, Relaxed);
        result
    }

    /// Handles an error reply to a command as a whole, which means that the command has not run.
    fn handle_error(
        &mut self,
        command: &mut PipelinedCommand,
        text: &[u8],
    ) -> Result<(), ServerError> {
        match CallError::from_reply(text) {
            CallError::ScriptMissing if command.kind == CommandKind::EvalSha => {
                self.send_again(command, BATCH_MAX, CommandKind::Eval);
            }
            // During a migration the keys of several calls can be on two servers, although those of
            // each call are on one.
            CallError::TryAgain if command.calls.len() > 1 => {
                self.send_again(command, 1, CommandKind::EvalSha);
            }
            CallError::ServerUnusable(error) => return Err(error),
            error => fail_all(&mut command.calls, &error),
        }
        Ok(())
    }

    /// Sends the calls of a command that has not run again, at most `batch` of them together.
    fn send_again(&mut self, command: &mut PipelinedCommand, batch: usize, kind: CommandKind) {
        let now = self.last_reply_at;
        let mut calls = std::mem::take(&mut command.calls);
        calls.retain_mut(|call| {
            call.expire(now);
            !call.is_abandoned()
        });

        while !calls.is_empty() {
            let rest = calls.split_off(batch.min(calls.len()));
            self.send(std::mem::replace(&mut calls, rest), kind, now);
        }
    }

    /// Detects a server that always replies too late.
    fn count_late_round(&mut self, elapsed: Duration) -> Result<(), ServerError> {
        let is_late = elapsed > self.state.connector.timeout;
        self.late_rounds = if is_late { self.late_rounds + 1 } else { 0 };

        if self.late_rounds < LATE_ROUNDS_MAX {
            Ok(())
        } else {
            Err(ServerError::new("the server is slower than the timeout"))
        }
    }

    /// Fails calls whose deadline has passed, checks that the server still replies, and sets the
    /// timer.
    fn tick(&mut self) -> Result<(), ServerError> {
        let now = Instant::now();
        let calls_in_flight = self
            .in_flight
            .iter_mut()
            .flat_map(|command| &mut command.calls);
        calls_in_flight.for_each(|call| call.expire(now));
        let first_waiting = self.state.expire_waiting(now);

        let timeout = self.state.connector.timeout;
        let oldest = self.in_flight.front();
        let give_up_at = oldest.map(|command| command.sent_at + timeout * SILENT_TIMEOUTS);
        if give_up_at.is_some_and(|give_up_at| give_up_at <= now) {
            return Err(ServerError::new("the server does not reply"));
        }

        let calls_in_flight = self.in_flight.iter().flat_map(|command| &command.calls);
        let first_in_flight = earliest_deadline(calls_in_flight);
        let next = [first_in_flight, first_waiting, give_up_at]
            .into_iter()
            .flatten()
            .min();
        let idle_until = self.last_reply_at + IDLE_INTERVAL;
        let next = match next {
            // At the latest one timeout from now, for calls that are queued while nothing can be
            // sent.
            Some(next) => next.min(now + timeout),
            None if now < idle_until => idle_until,
            None => {
                self.send_plain(b"PING", now);
                now + timeout * SILENT_TIMEOUTS
            }
        };
        self.timer.as_mut().reset(next);
        Ok(())
    }
}

/// How many of the first calls can share a script call: those of the same slot. Outside of a
/// cluster, all calls have slot 0.
fn batch_len(calls: &[QueuedCall]) -> usize {
    let Some(first) = calls.first() else { return 0 };
    if first.is_asking {
        return 1;
    }

    let can_join = |queued: &&QueuedCall| !queued.is_asking && queued.call.slot == first.call.slot;
    calls.iter().take(BATCH_MAX).take_while(can_join).count()
}
