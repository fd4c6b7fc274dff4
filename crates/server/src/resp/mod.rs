//! The RESP port: Redis clients ask for decisions with `CL.THROTTLE` and `TOLLGATE.CHECK`.
//!
//! Each command takes four steps: decode (`frame`), select (`throttle`, `configured`), spend
//! (`batch`), encode (`encode`). `session` has what clients send at connect. Knows nothing of
//! connections except how to read and write them.
//!
//! Clients may send commands without end. So a batch is bounded in commands and bytes, and is written
//! before the next one begins. Each batch waits for its turn, and one thread of the runtime is left to
//! other ports. After a share of commands, whosever they are, the port lets all other tasks of the
//! service run. The port has a bounded number of decisions in the store at a time.

mod batch;
mod commands;
mod configured;
mod encode;
mod error;
mod frame;
mod integer;
mod session;
mod share;
mod throttle;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::{Buf as _, BytesMut};
use hyper::HeaderMap;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};

use tollgate_gate::Gate;

use self::batch::CommandBatch;
use self::commands::{RespCommand, SessionCommand};
use self::error::RespError;
use self::frame::{Arguments, FRAME_MAX};
use self::session::RespSession;
use self::share::PortShare;
use crate::listen::{
    self, ClientConnection, InFlightRequest, IncompleteRequest, ListenProtocol, MonitoredStream,
    PortLoad, PortTls, ShutdownSignal, StreamFront, StreamPort,
};

/// Replies of this many bytes are written before further commands are answered, so that a client
/// that does not read is not answered either.
const REPLIES_MAX: usize = 16 << 10;
/// The bytes of commands and replies that count as much as another command.
const COMMAND_BYTES: usize = 1 << 10;
/// The most decisions of the port that wait for the store at a time. The store is shared with other
/// ports, whose decisions queue behind these.
const DECISIONS_MAX: usize = 256;
/// The bytes that are read at once, at first; a connection with long pipelines gets more.
const READ_MIN: usize = 4 << 10;
/// The most bytes that are read at once.
const READ_MAX: usize = 16 << 10;

/// Serves the RESP port until the shutdown is complete.
pub(crate) async fn run(
    listener: TcpListener,
    tls: Arc<PortTls>,
    gate: Arc<Gate>,
    load: Arc<PortLoad>,
    shutdown: ShutdownSignal,
) {
    // One thread is left to other ports.
    let threads = Handle::current().metrics().num_workers();
    let turns = threads.saturating_sub(1).max(1);
    let front = Arc::new(StreamPort(RespFront::new(gate, load.clone(), turns)));
    listen::run(listener, ListenProtocol::Resp, tls, front, load, shutdown).await;
}

/// Answers the commands of the RESP port.
#[derive(Debug)]
struct RespFront {
    gate: Arc<Gate>,
    load: Arc<PortLoad>,
    /// A batch needs one of these. They are given in order.
    turns: Semaphore,
    share: PortShare,
    /// One for each decision that waits for the store.
    decisions: Semaphore,
    /// The id of the next connection, for `CLIENT ID`.
    next_id: AtomicU64,
}

/// What follows after commands were answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextStep {
    /// More bytes are needed.
    Read,
    /// Further commands may have arrived already.
    Answer,
    /// The connection ends: the client said so, or broke the protocol.
    Close,
}

impl RespFront {
    fn new(gate: Arc<Gate>, load: Arc<PortLoad>, turns: usize) -> Self {
        Self {
            gate,
            load,
            turns: Semaphore::new(turns),
            share: PortShare::default(),
            decisions: Semaphore::new(DECISIONS_MAX),
            next_id: AtomicU64::new(1),
        }
    }

    fn open_session(&self) -> RespSession {
        RespSession::new(self.next_id.fetch_add(1, Relaxed))
    }

    /// Answers complete commands at the start of `input`. Returns how many bytes they have.
    async fn answer(
        &self,
        session: &mut RespSession,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> (usize, NextStep) {
        let active = self.gate.active();
        let mut batch = CommandBatch::begin(self, &active).await;
        let mut consumed = 0;
        let mut next = NextStep::Answer;

        while batch.reply_bytes() < REPLIES_MAX {
            let done = consumed + batch.reply_bytes();
            let arguments = match frame::decode(&input[consumed..]) {
                Ok(Some(_)) if batch.is_full() => break,
                Ok(Some((arguments, bytes))) => {
                    consumed += bytes;
                    arguments
                }
                Ok(None) => {
                    next = NextStep::Read;
                    break;
                }
                Err(error) => {
                    batch.refuse(&error.into());
                    next = NextStep::Close;
                    break;
                }
            };
            if self.answer_one(session, &mut batch, &arguments).await == NextStep::Close {
                next = NextStep::Close;
                break;
            }
            let bytes = consumed + batch.reply_bytes() - done;
            batch.spend(1 + bytes / COMMAND_BYTES);
        }

        *output = batch.finish().await;
        (consumed, next)
    }

    async fn answer_one(
        &self,
        session: &mut RespSession,
        batch: &mut CommandBatch<'_>,
        arguments: &Arguments<'_>,
    ) -> NextStep {
        let Some((name, rest)) = arguments.split_first() else {
            return NextStep::Answer;
        };
        let active = batch.active();
        let command = match session.admit(active, name, rest) {
            Ok(command) => command,
            Err(error) => {
                batch.refuse(&error);
                return NextStep::Answer;
            }
        };

        let demand = match command {
            RespCommand::Throttle => throttle::select(active, rest),
            RespCommand::Check => configured::select(active, rest),
            RespCommand::Session(command) => {
                batch.reply(|out| session.answer(active, command, rest, out));
                return match command {
                    SessionCommand::Quit => NextStep::Close,
                    _ => NextStep::Answer,
                };
            }
        };
        match demand {
            Ok(demand) => batch.decide(demand).await,
            Err(error) => batch.refuse(&error),
        }
        NextStep::Answer
    }

    /// Serves a connection until the client ends it or `closing` is notified between commands.
    async fn converse(
        &self,
        stream: &mut MonitoredStream,
        connection: &Arc<ClientConnection>,
        closing: &Notify,
    ) -> io::Result<()> {
        let mut session = self.open_session();
        let mut input = BytesMut::new();
        let mut output = Vec::new();
        let mut room = READ_MIN;

        loop {
            input.reserve(room);
            // A part of a command holds memory until the rest arrives.
            let mut incomplete = IncompleteRequest::new(connection.clone(), &HeaderMap::new());
            if !input.is_empty() && !incomplete.try_grow(input.len()) {
                batch::refuse(&self.gate, &mut output, &RespError::overloaded());
                return stream.write_all(&output).await;
            }
            let read = tokio::select! {
                biased;
                () = closing.notified() => return Ok(()),
                read = stream.read_buf(&mut input) => read?,
            };
            if read == 0 {
                return Ok(());
            }
            drop(incomplete);
            if read >= room {
                room = (2 * room).min(READ_MAX);
            }

            let is_open = self
                .answer_all(&mut session, &mut input, &mut output, stream, connection)
                .await?;
            if !is_open {
                return Ok(());
            }
        }
    }

    /// Answers all complete commands of the input, some at a time. Returns false when the
    /// connection ends.
    async fn answer_all(
        &self,
        session: &mut RespSession,
        input: &mut BytesMut,
        output: &mut Vec<u8>,
        stream: &mut MonitoredStream,
        connection: &Arc<ClientConnection>,
    ) -> io::Result<bool> {
        loop {
            if frame::is_incomplete(input) {
                // Every part of a long command is looked at from its beginning.
                self.share.spend(input.len() / COMMAND_BYTES);
                self.share.let_others_run().await;
                return Ok(true);
            }

            let in_flight = InFlightRequest::new(&**connection);
            let (consumed, next) = if connection.admits_request() {
                self.answer(session, input, output).await
            } else {
                batch::refuse(&self.gate, output, &RespError::too_many_connections());
                (0, NextStep::Close)
            };
            input.advance(consumed);
            drop(in_flight);
            stream.write_all(output).await?;
            stream.flush().await?;
            output.clear();
            output.shrink_to(FRAME_MAX);

            match next {
                NextStep::Answer => {}
                NextStep::Read => return Ok(true),
                NextStep::Close => return Ok(false),
            }
        }
    }
}

impl StreamFront for RespFront {
    async fn serve(
        &self,
        mut stream: MonitoredStream,
        connection: &Arc<ClientConnection>,
        closing: &Notify,
    ) -> MonitoredStream {
        // Errors of the stream end the connection; no client can read a reply.
        drop(self.converse(&mut stream, connection, closing).await);
        stream
    }
}

#[cfg(test)]
mod tests;
