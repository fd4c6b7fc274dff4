//! Commands in flight, and how the script call for several store calls is written.

use bytes::BytesMut;
use smallvec::SmallVec;
use tokio::time::Instant;

use super::QueuedCall;
use crate::error::{CallError, ServerError};
use crate::resp::{self, write_argument, write_array_header};
use crate::script::Script;
use crate::wire::Operation;

/// The most store calls in one script call. More would make it longer without making it much
/// cheaper per store call.
pub(super) const BATCH_MAX: usize = 64;
/// How many of the last arguments are searched for equal ones. Permits and leases make every
/// argument different, so a search through all of them would be wasted.
const RECENT_ARGUMENTS: usize = 8;

/// A command that has been sent. Replies come in the order of the commands, so it is kept until the
/// server has replied, even if its callers no longer wait. So a late reply never reaches the wrong
/// caller.
#[derive(Debug)]
pub(super) struct PipelinedCommand {
    pub(super) kind: CommandKind,
    pub(super) calls: Vec<QueuedCall>,
    pub(super) sent_at: Instant,
    /// True for the last command of a round; see `connection_loop.rs`.
    pub(super) ends_round: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandKind {
    /// A script call for all of its store calls.
    Script(ScriptReference),
    /// `DEL` for its only call, a reset.
    Delete,
    /// A command whose reply is ignored: `PING` or `ASKING`.
    IgnoreReply,
}

/// How a script call names the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScriptReference {
    /// `EVALSHA` with the hash.
    Hash,
    /// `EVAL` with the source, for a server that does not have the script.
    Source,
}

impl PipelinedCommand {
    pub(super) fn new(kind: CommandKind, calls: Vec<QueuedCall>, sent_at: Instant) -> Self {
        Self {
            kind,
            calls,
            sent_at,
            ends_round: false,
        }
    }

    /// Fails all calls with the same error.
    pub(super) fn fail(&mut self, error: &CallError) {
        self.calls
            .iter_mut()
            .for_each(|call| call.finish(Err(error.clone())));
    }

    pub(super) fn fail_unavailable(&mut self, error: &ServerError) {
        self.fail(&CallError::Unavailable(error.clone()));
    }

    /// Fails the calls whose deadline has passed.
    pub(super) fn expire(&mut self, now: Instant) {
        for call in self.calls.iter_mut().filter(|call| call.deadline <= now) {
            call.finish(Err(CallError::Timeout));
        }
    }

    /// The earliest deadline of the calls that have not been answered.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.calls
            .iter()
            .filter(|call| call.is_unanswered())
            .map(|call| call.deadline)
            .min()
    }
}

/// Writes the script call for these store calls. `timestamp` is an additional argument when the
/// script does not use the server's clock.
pub(super) fn write_script_call(
    out: &mut BytesMut,
    script: &Script,
    reference: ScriptReference,
    calls: &[QueuedCall],
    timestamp: Option<String>,
) {
    let keys = calls
        .iter()
        .map(|queued| queued.call.keys.len())
        .sum::<usize>();
    let (order, arguments) = distinct_arguments(calls);
    // `EVALSHA`, hash, number of keys, keys, order, arguments, timestamp.
    let length = 4 + keys + arguments.len() + usize::from(timestamp.is_some());
    write_array_header(out, length);

    match reference {
        ScriptReference::Hash => {
            write_argument(out, b"EVALSHA");
            write_argument(out, script.sha1.as_bytes());
        }
        ScriptReference::Source => {
            write_argument(out, b"EVAL");
            write_argument(out, script.source.as_bytes());
        }
    }

    write_argument(out, keys.to_string().as_bytes());
    calls
        .iter()
        .flat_map(|queued| &queued.call.keys)
        .for_each(|key| write_argument(out, key));

    write_argument(out, &order);
    arguments
        .iter()
        .for_each(|argument| write_argument(out, argument));
    if let Some(timestamp) = timestamp {
        write_argument(out, timestamp.as_bytes());
    }
}

/// The distinct arguments of the calls, and for each call the index of its arguments, counted from
/// 1. Most calls have the same arguments as another one and differ in the key only.
fn distinct_arguments(calls: &[QueuedCall]) -> (SmallVec<[u8; BATCH_MAX]>, SmallVec<[&[u8]; 4]>) {
    let mut distinct: SmallVec<[&[u8]; 4]> = SmallVec::new();
    let order = calls.iter().map(|queued| {
        let arguments = &queued.call.arguments[..];
        let recent = distinct.len().saturating_sub(RECENT_ARGUMENTS);
        let equal = distinct[recent..]
            .iter()
            .rposition(|other| *other == arguments);

        let index = equal.map_or(distinct.len(), |equal| recent + equal);
        if index == distinct.len() {
            distinct.push(arguments);
        }
        // At most `BATCH_MAX`, which fits into a byte.
        u8::try_from(index + 1).unwrap_or(u8::MAX)
    });

    (order.collect(), distinct)
}

/// Writes the command that deletes the key of a reset.
pub(super) fn write_delete(out: &mut BytesMut, queued: &QueuedCall) {
    debug_assert_eq!(queued.call.operation, Operation::Reset);
    let key = queued.call.keys.first().map_or(&[][..], |key| key);
    resp::write_command(out, &[b"DEL", key]);
}
