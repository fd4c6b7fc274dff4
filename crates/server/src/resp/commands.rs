//! The commands of this port.

use std::sync::LazyLock;

use super::encode;
use super::error::RespError;
use super::integer::shown;

/// The most arguments that the reply to an unknown command repeats.
const REPEATED_MAX: usize = 3;

/// The commands, with the number of their arguments including the name; negative if there may be
/// more.
pub(super) const COMMANDS: [CommandEntry; 13] = [
    ("cl.throttle", -5, RespCommand::Throttle),
    ("rl.throttle", -5, RespCommand::Throttle),
    ("tollgate.check", -3, RespCommand::Check),
    ("ping", -1, RespCommand::Session(SessionCommand::Ping)),
    ("auth", -2, RespCommand::Session(SessionCommand::Auth)),
    ("hello", -1, RespCommand::Session(SessionCommand::Hello)),
    ("client", -2, RespCommand::Session(SessionCommand::Client)),
    ("command", -1, RespCommand::Session(SessionCommand::Command)),
    ("select", 2, RespCommand::Session(SessionCommand::Select)),
    ("echo", 2, RespCommand::Session(SessionCommand::Echo)),
    ("info", -1, RespCommand::Session(SessionCommand::Info)),
    ("quit", -1, RespCommand::Session(SessionCommand::Quit)),
    ("reset", 1, RespCommand::Session(SessionCommand::Reset)),
];

/// The name of a command, the number of its arguments, and what it is.
pub(super) type CommandEntry = (&'static str, i64, RespCommand);

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RespCommand {
    /// A decision by the numbers of the call.
    Throttle,
    /// A decision by a limit of the configuration.
    Check,
    /// Everything else.
    Session(SessionCommand),
}

/// A command that needs no decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionCommand {
    Auth,
    Client,
    Command,
    Echo,
    Hello,
    Info,
    Ping,
    Quit,
    Reset,
    Select,
}

impl SessionCommand {
    /// Whether it may be sent before the token.
    pub(super) const fn is_public(self) -> bool {
        matches!(self, Self::Auth | Self::Hello | Self::Quit | Self::Reset)
    }
}

/// The command with this name.
pub(super) fn find(name: &[u8]) -> Option<RespCommand> {
    find_entry(name).map(|(_, _, command)| *command)
}

/// The entry of the command with this name.
pub(super) fn find_entry(name: &[u8]) -> Option<&'static CommandEntry> {
    COMMANDS
        .iter()
        .find(|(known, ..)| known.as_bytes().eq_ignore_ascii_case(name))
}

/// The reply to `COMMAND`.
pub(super) static DESCRIPTION: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut description = Vec::new();
    encode::array(&mut description, COMMANDS.len());
    for command in &COMMANDS {
        describe(&mut description, command);
    }
    description
});

/// What `COMMAND` says of a command: its name, arguments and flags, and where its key is.
pub(super) fn describe(out: &mut Vec<u8>, (name, arity, command): &CommandEntry) {
    let key = match command {
        RespCommand::Throttle => 1,
        RespCommand::Check | RespCommand::Session(_) => 0,
    };
    encode::array(out, 6);
    encode::bulk(out, name.as_bytes());
    encode::integer(out, *arity);
    encode::array(out, 1);
    encode::simple(out, "fast");
    encode::integer(out, key);
    encode::integer(out, key);
    encode::integer(out, key);
}

/// The error for a name that no command has.
pub(super) fn unknown(name: &[u8], arguments: &[&[u8]]) -> RespError {
    let first = arguments.iter().take(REPEATED_MAX);
    let quoted: Vec<String> = first
        .map(|argument| format!("'{}' ", shown(argument)))
        .collect();
    let text = format!(
        "unknown command '{}', with args beginning with: {}",
        shown(name),
        quoted.concat()
    );
    RespError::new(text).because("unknown-command")
}
