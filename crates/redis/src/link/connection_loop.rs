//! Serves one connection: sends waiting calls, passes replies to their callers, and fails calls
//! whose deadline has passed.
//!
//! A late look is not a late reply. The time of the server counts from the moment when a command
//! has been written to the socket, and a command is judged only after a look into the socket has
//! found nothing. So a process that was stopped or starved of its processor uses the replies that
//! arrived meanwhile.
//!
//! A connection to a server that is silent or slow gets no further calls, but it is drained: lease
//! calls in flight still use their replies.

mod drain;

pub(super) use drain::DrainedConnections;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf, split};
use tokio::time::{Instant, Sleep, sleep_until};

use super::command::{
    BATCH_DEMANDS_MAX, BATCH_MAX, CommandKind, PipelinedCommand, write_script_call,
};
use super::queue::{LinkState, QueuedCall};
use super::rounds::Rounds;
use crate::connector::{ByteStream, RespConnection};
use crate::endpoint::Address;
use crate::error::{CallError, ServerError};
use crate::resp::{self, RespValue};
use crate::wire::read_replies;

/// A server that has not replied for this number of timeouts counts as unavailable.
const SILENT_TIMEOUTS: u32 = 2;
/// How soon the connection is looked at again if the socket has bytes that the runtime has not
/// reported yet.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// Interval of the `PING`s on a connection that is not used.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);

/// A connection, and the commands in flight on it.
pub(super) struct ConnectionLoop {
    state: Arc<LinkState>,
    reader: ReadHalf<Box<dyn ByteStream>>,
    writer: WriteHalf<Box<dyn ByteStream>>,
    socket: Option<std::net::TcpStream>,
    /// Received bytes that have not been parsed yet.
    received: BytesMut,
    /// Bytes to be written to the connection.
    out: BytesMut,
    /// True while written bytes may be in a buffer of the connection.
    needs_flush: bool,
    /// Commands that have been sent and not been answered, oldest first.
    in_flight: VecDeque<PipelinedCommand>,
    rounds: Rounds,
    /// The time of the last reply.
    last_reply_at: Instant,
    /// Set to the earliest deadline. One timer is sufficient, because deadlines come in order.
    timer: Pin<Box<Sleep>>,
}

/// Why a connection gets no further calls.
enum ConnectionEnd {
    /// The server is silent or slow. Replies may still come.
    Slow(ServerError),
    /// The connection or the server cannot be used.
    Broken(ServerError),
}

impl<E: Into<ServerError>> From<E> for ConnectionEnd {
    fn from(error: E) -> Self {
        Self::Broken(error.into())
    }
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

impl ConnectionLoop {
    pub(super) fn new(state: Arc<LinkState>, connection: RespConnection) -> Self {
        let now = Instant::now();
        let (reader, writer) = split(connection.stream);
        Self {
            reader,
            writer,
            socket: connection.socket,
            received: BytesMut::with_capacity(16 << 10),
            out: BytesMut::new(),
            needs_flush: false,
            in_flight: VecDeque::new(),
            rounds: Rounds::new(state.connector.timeout, now),
            last_reply_at: now,
            timer: Box::pin(sleep_until(now + IDLE_INTERVAL)),
            state,
        }
    }

    /// Serves the connection until it or the server fails. Returns the reason, and the connection
    /// if it must be drained.
    pub(super) async fn serve(mut self, server: &Address) -> (ServerError, Option<Self>) {
        let Err(end) = self.run().await;
        let (error, is_open) = match end {
            ConnectionEnd::Slow(error) => (error.at(server), true),
            ConnectionEnd::Broken(error) => (error.at(server), false),
        };

        // A request has no time to wait for a slow server.
        self.fail_calls(&error, |call| {
            let failure = CallError::Unavailable(error.clone());
            !is_open || call.mark_overdue(&failure).is_none()
        });
        let is_draining = self.calls_in_flight().any(QueuedCall::is_unanswered);
        (error, is_draining.then_some(self))
    }

    async fn run(&mut self) -> Result<Infallible, ConnectionEnd> {
        loop {
            self.send_round();

            self.needs_flush |= !self.out.is_empty();
            let can_send = self.rounds.next_at().is_some();
            tokio::select! {
                biased;
                written = write_all(&mut self.writer, &mut self.out), if self.needs_flush => {
                    written?;
                    self.needs_flush = false;
                }
                read = self.reader.read_buf(&mut self.received) => {
                    self.receive_all(read?)?;
                    if self.rounds.are_late() {
                        let error = ServerError::new("the server is slower than the timeout");
                        return Err(ConnectionEnd::Slow(error));
                    }
                }
                () = self.timer.as_mut() => self.tick()?,
                () = self.state.call_queued.notified(), if can_send => {}
                () = self.state.earlier_deadline.notified() => self.tick()?,
            }
            self.note_written();
        }
    }

    /// Starts the time of the commands that the socket has been offered. If it did not take all of
    /// their bytes, the server does not read.
    fn note_written(&mut self) {
        let new = self.in_flight.iter_mut().rev();
        let mut new = new.take_while(|command| command.written_at.is_none());
        let Some(last) = new.next() else { return };

        let now = Instant::now();
        last.written_at = Some(now);
        new.for_each(|command| command.written_at = Some(now));
        self.wake_by(now + self.state.connector.timeout);
    }

    fn calls_in_flight(&self) -> impl Iterator<Item = &QueuedCall> {
        self.in_flight.iter().flat_map(|command| &command.calls)
    }

    /// Fails the calls in flight to which a condition applies.
    fn fail_calls(&mut self, error: &ServerError, applies: impl Fn(&QueuedCall) -> bool) {
        let commands = self.in_flight.iter_mut();
        for call in commands.flat_map(|command| &mut command.calls) {
            if applies(call) {
                call.finish(Err(CallError::Unavailable(error.clone())));
            }
        }
    }

    /// Sends the waiting calls, if a round can be sent now.
    fn send_round(&mut self) {
        let Some(next_at) = self.rounds.next_at() else {
            return;
        };
        let now = Instant::now();
        if now < next_at {
            if self.state.has_waiting() {
                self.wake_by(next_at);
            }
            return;
        }

        let mut calls = self.state.take_waiting(self.rounds.calls_max(), now);
        let Some(first_deadline) = calls.iter().map(|call| call.deadline.decide_by).min() else {
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
            self.send(batch, CommandKind::EvalSha);
        }

        if let Some(last) = self.in_flight.back_mut() {
            last.ends_round = true;
        }
        self.rounds.start(now);
        self.wake_by(first_deadline);
    }

    /// Sets the timer, unless it is set to an earlier time.
    fn wake_by(&mut self, at: Instant) {
        if at < self.timer.deadline() {
            self.timer.as_mut().reset(at);
        }
    }

    /// Sends calls that share a script call.
    fn send(&mut self, calls: Vec<QueuedCall>, kind: CommandKind) {
        let Some(first) = calls.first() else { return };
        if first.is_asking {
            self.send_plain(b"ASKING");
        }

        write_script_call(&mut self.out, &self.state.connector, kind, &calls);
        let counters = &self.state.counters;
        counters.script_calls.fetch_add(1, Relaxed);
        counters.store_calls.fetch_add(calls.len() as u64, Relaxed);
        self.push_in_flight(kind, calls);
    }

    /// Sends a command without the script.
    fn send_plain(&mut self, name: &[u8]) {
        resp::write_command(&mut self.out, &[name]);
        self.push_in_flight(CommandKind::Plain, Vec::new());
    }

    fn push_in_flight(&mut self, kind: CommandKind, calls: Vec<QueuedCall>) {
        self.rounds.add_calls(calls.len());
        self.in_flight.push_back(PipelinedCommand {
            kind,
            calls,
            written_at: None,
            is_late: false,
            ends_round: false,
        });
    }

    /// Handles all replies in the received bytes, after a read of this length.
    fn receive_all(&mut self, read: usize) -> Result<(), ServerError> {
        if read == 0 {
            return Err(ServerError::new("the server closed the connection"));
        }

        let mut received = std::mem::take(&mut self.received);
        while let Some((reply, length)) = resp::read_value(&received)? {
            self.receive(&reply)?;
            received.advance(length);
        }
        self.received = received;
        Ok(())
    }

    /// Handles the reply to the oldest command.
    fn receive(&mut self, reply: &RespValue<'_>) -> Result<(), ServerError> {
        let mut command = self
            .in_flight
            .pop_front()
            .ok_or_else(|| ServerError::new("the server sent a reply without a command"))?;
        self.last_reply_at = Instant::now();
        self.rounds.remove_calls(command.calls.len());

        if let Err(error) = self.finish_command(&mut command, reply) {
            // Its calls fail with the connection.
            self.in_flight.push_front(command);
            return Err(error);
        }

        if command.ends_round {
            let late_since = command.written_at.filter(|_| command.is_late);
            self.rounds.finish(late_since, self.last_reply_at);
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
            match reply.map_err(CallError::from_script) {
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
            call.expire_unsent(now);
            !call.is_abandoned()
        });

        while !calls.is_empty() {
            let rest = calls.split_off(batch.min(calls.len()));
            self.send(std::mem::replace(&mut calls, rest), kind);
        }
    }

    /// Fails calls whose deadline has passed, checks that the server still replies, and sets the
    /// timer.
    fn tick(&mut self) -> Result<(), ConnectionEnd> {
        // Before the look: what it does not find had not arrived by then.
        let now = Instant::now();
        if self.has_unread_bytes() {
            self.timer.as_mut().reset(now + LOOK_AGAIN);
            return Ok(());
        }

        let timeout = self.state.connector.timeout;
        let mut next = self.state.expire_waiting(now);
        for command in &mut self.in_flight {
            let reply_by = command.written_at.map(|written_at| written_at + timeout);
            command.is_late |= reply_by.is_some_and(|reply_by| reply_by <= now);
            let calls = command.calls.iter_mut();
            let again = calls.filter_map(|call| call.expire_sent(reply_by, now));
            next = next.into_iter().chain(again).min();
        }

        let oldest = self.in_flight.front();
        let give_up_at =
            oldest.and_then(|command| Some(command.written_at? + timeout * SILENT_TIMEOUTS));
        if give_up_at.is_some_and(|give_up_at| give_up_at <= now) {
            let error = ServerError::new("the server does not reply");
            return Err(ConnectionEnd::Slow(error));
        }

        let idle_until = self.last_reply_at + IDLE_INTERVAL;
        let next = match next.into_iter().chain(give_up_at).min() {
            // At the latest one timeout from now, for calls that are queued while nothing can be
            // sent.
            Some(next) => next.min(now + timeout),
            None if now < idle_until => idle_until,
            None => {
                self.send_plain(b"PING");
                now + timeout * SILENT_TIMEOUTS
            }
        };
        self.timer.as_mut().reset(next);
        Ok(())
    }

    /// True when the socket has bytes. The runtime may not have reported them yet, so this asks the
    /// system.
    fn has_unread_bytes(&self) -> bool {
        let socket = self.socket.as_ref();
        socket.is_some_and(|socket| matches!(socket.peek(&mut [0]), Ok(1)))
    }
}

/// How many of the first calls can share a script call: those of the same slot and script. Outside
/// of a cluster, all calls have slot 0.
fn batch_len(calls: &[QueuedCall]) -> usize {
    let Some(first) = calls.first() else { return 0 };
    if first.is_asking || first.call.is_alone() {
        return 1;
    }

    let mut demands = 0;
    let can_join = |queued: &&QueuedCall| {
        demands += queued.call.demands;
        let is_small = demands <= BATCH_DEMANDS_MAX;
        let is_similar = !queued.is_asking && !queued.call.is_alone();
        is_small && is_similar && queued.call.slot == first.call.slot
    };
    let count = calls.iter().take(BATCH_MAX).take_while(can_join).count();
    // A larger call goes alone.
    count.max(1)
}

#[cfg(test)]
mod tests;
