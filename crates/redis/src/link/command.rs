//! Commands in flight, and how the script call for several store calls is written.

use std::collections::HashSet;
use std::iter;

use bytes::BytesMut;
use smallvec::SmallVec;
use tokio::time::Instant;

use super::queue::QueuedCall;
use crate::connector::Connector;
use crate::resp::{write_argument, write_array_header};
use crate::script::Script;

/// The most store calls in one script call. More would make it longer without making it much
/// cheaper per store call.
pub(super) const BATCH_MAX: usize = 64;
/// The most demands in one script call, unless a single call has more: a server does nothing else
/// while it runs.
pub(super) const BATCH_DEMANDS_MAX: usize = 256;
/// How many of the last arguments are searched for equal ones. Permits and leases make every
/// argument different, so a search through all of them would be wasted.
const RECENT_ARGUMENTS: usize = 8;

/// A command that has been sent. Replies come in the order of the commands, so it is kept until the
/// server has replied, even if its callers no longer wait. So a late reply never reaches the wrong
/// caller.
pub(super) struct PipelinedCommand {
    pub(super) kind: CommandKind,
    pub(super) calls: Vec<QueuedCall>,
    /// When its bytes had been written to the socket.
    pub(super) written_at: Option<Instant>,
    /// True when the reply had not arrived within the timeout.
    pub(super) is_late: bool,
    /// True for the last command of a round; see `connection_loop.rs`.
    pub(super) ends_round: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandKind {
    /// A script call that names the script by its hash.
    EvalSha,
    /// A script call with the source, for a server that does not have the script.
    Eval,
    /// `PING` or `ASKING`, without a call.
    Plain,
}

/// Writes the script call for these store calls. A call about records is alone, and has a script of
/// its own.
pub(super) fn write_script_call(
    out: &mut BytesMut,
    connector: &Connector,
    kind: CommandKind,
    calls: &[QueuedCall],
) {
    let scripts = connector.scripts();
    if let [queued] = calls
        && queued.call.is_alone()
    {
        let arguments = [&queued.call.arguments[..]];
        write_command(out, connector, kind, &scripts.records, calls, &arguments);
        return;
    }

    let (order, distinct) = distinct_arguments(calls);
    let header = [&[u8::from(has_repeated_keys(calls))], &order[..]].concat();
    let arguments = iter::once(&header[..]).chain(distinct.iter().copied());
    let arguments: SmallVec<[&[u8]; 5]> = arguments.collect();
    write_command(out, connector, kind, &scripts.batch, calls, &arguments);
}

fn write_command(
    out: &mut BytesMut,
    connector: &Connector,
    kind: CommandKind,
    script: &Script,
    calls: &[QueuedCall],
    arguments: &[&[u8]],
) {
    let (name, script) = match kind {
        CommandKind::Eval => ("EVAL", &script.source),
        CommandKind::EvalSha | CommandKind::Plain => ("EVALSHA", &script.sha1),
    };
    let keys: usize = calls.iter().map(|queued| queued.call.keys.len()).sum();
    // An additional argument if the script does not use the server's clock.
    let clock = connector.clock.as_ref();
    let timestamp = clock.map(|clock| clock.now().get().to_string());

    // Name, script, number of keys, keys, arguments, timestamp.
    let length = 3 + keys + arguments.len() + usize::from(timestamp.is_some());
    write_array_header(out, length);
    write_argument(out, name.as_bytes());
    write_argument(out, script.as_bytes());

    write_argument(out, itoa::Buffer::new().format(keys).as_bytes());
    for key in calls.iter().flat_map(|queued| &queued.call.keys) {
        write_argument(out, key);
    }

    for argument in arguments {
        write_argument(out, argument);
    }
    if let Some(timestamp) = timestamp {
        write_argument(out, timestamp.as_bytes());
    }
}

/// True when several calls are about the same key. Only then does the script keep what it has read
/// and written, because that would take time for nothing. The keys of one call are distinct.
fn has_repeated_keys(calls: &[QueuedCall]) -> bool {
    if calls.len() == 1 {
        return false;
    }

    let mut seen = HashSet::with_capacity(calls.len());
    let mut keys = calls.iter().flat_map(|queued| &queued.call.keys);
    !keys.all(|key| seen.insert(key))
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
