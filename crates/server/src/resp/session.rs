//! The state of a connection, and the commands that clients send to set it up.
//!
//! Client libraries send some of these before the first command of their user, and give up if one
//! of them fails. The replies say as little as the libraries need.

use tollgate_rules::Permission;

use super::NextStep;
use super::encode::{self, RespVersion};
use super::error::RespError;
use super::integer::shown;
use crate::gate::{AccessError, ActiveConfig};

/// The version of Redis whose commands these are; some clients ask for it.
const REDIS_VERSION: &str = "7.2.0";
/// The most bytes of the arguments that the reply to an unknown command repeats.
const REPEATED_MAX: usize = 128;

/// The commands, with the number of their arguments including the name; negative if there may be
/// more.
const COMMANDS: [CommandEntry; 13] = [
    ("cl.throttle", -5, Command::Throttle),
    ("rl.throttle", -5, Command::Throttle),
    ("tollgate.check", -3, Command::Check),
    ("ping", -1, Command::Session(SessionCommand::Ping)),
    ("auth", -2, Command::Session(SessionCommand::Auth)),
    ("hello", -1, Command::Session(SessionCommand::Hello)),
    ("client", -2, Command::Session(SessionCommand::Client)),
    ("command", -1, Command::Session(SessionCommand::Command)),
    ("select", 2, Command::Session(SessionCommand::Select)),
    ("echo", 2, Command::Session(SessionCommand::Echo)),
    ("info", -1, Command::Session(SessionCommand::Info)),
    ("quit", -1, Command::Session(SessionCommand::Quit)),
    ("reset", 1, Command::Session(SessionCommand::Reset)),
];

/// The name of a command, the number of its arguments, and what it is.
type CommandEntry = (&'static str, i64, Command);

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
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
    const fn is_public(self) -> bool {
        matches!(self, Self::Auth | Self::Hello | Self::Quit | Self::Reset)
    }

    pub(super) fn next_step(self) -> NextStep {
        match self {
            Self::Quit => NextStep::Close,
            _ => NextStep::Answer,
        }
    }
}

/// The state of a connection.
#[derive(Debug)]
pub(super) struct Session {
    id: u64,
    version: RespVersion,
    /// The token that the client has sent. It is looked up with every decision, so that one which
    /// is removed from the configuration is refused on open connections, too.
    token: Option<Box<[u8]>>,
    name: Option<Box<[u8]>>,
}

/// Nothing is written if the command fails.
type Answered = Result<(), RespError>;

impl Session {
    pub(super) const fn new(id: u64) -> Self {
        Self {
            id,
            version: RespVersion::Two,
            token: None,
            name: None,
        }
    }

    /// Finds the command, and whether the client may use it.
    pub(super) fn admit(
        &self,
        active: &ActiveConfig,
        name: &[u8],
        arguments: &[&[u8]],
    ) -> Result<Command, RespError> {
        let token = self.token.as_deref();
        let is_public =
            |command| matches!(command, Command::Session(command) if command.is_public());
        let found = find(name);
        if active.requires_token() && !found.is_some_and(is_public) && token.is_none() {
            return Err(RespError::no_auth());
        }

        let command = found.ok_or_else(|| unknown_command(name, arguments))?;
        if active.requires_token() && command == Command::Throttle {
            active.authorize(token, Permission::Check)?;
            active.require(token, Permission::Inline)?;
        } else if active.requires_token() && command == Command::Check {
            active.authorize(token, Permission::Check)?;
        }
        Ok(command)
    }

    /// Answers a command that needs no decision.
    pub(super) fn answer(
        &mut self,
        active: &ActiveConfig,
        command: SessionCommand,
        arguments: &[&[u8]],
        out: &mut Vec<u8>,
    ) {
        let answered = match command {
            SessionCommand::Quit => ok(out),
            SessionCommand::Auth => self.auth(active, arguments, out),
            SessionCommand::Client => self.client(arguments, out),
            SessionCommand::Command => self.command(arguments, out),
            SessionCommand::Echo => echo(arguments, out),
            SessionCommand::Hello => self.hello(active, arguments, out),
            SessionCommand::Info => info(out),
            SessionCommand::Ping => ping(arguments, out),
            SessionCommand::Reset => self.reset(out),
            SessionCommand::Select => select(arguments, out),
        };
        if let Err(error) = answered {
            encode::error(out, &error);
        }
    }

    /// `AUTH [user] token`. The name of the user is not looked at: a token has its own.
    fn auth(
        &mut self,
        active: &ActiveConfig,
        arguments: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Answered {
        let ([token] | [_, token]) = arguments else {
            return Err(RespError::usage("auth", "AUTH [user] token"));
        };
        self.log_in(active, token)?;
        ok(out)
    }

    fn log_in(&mut self, active: &ActiveConfig, token: &[u8]) -> Answered {
        if !active.requires_token() {
            return Err(RespError::new(
                "AUTH was called, but no tokens are configured in `server.tokens`; connect without \
                 a password",
            ));
        }

        // What a token is good for is asked with each command.
        if active.require(Some(token), Permission::Check) == Err(AccessError::UnknownToken) {
            return Err(RespError::wrong_password());
        }
        self.token = Some(token.into());
        Ok(())
    }

    /// `HELLO [2|3] [AUTH user token] [SETNAME name]`: sets everything or nothing.
    fn hello(
        &mut self,
        active: &ActiveConfig,
        arguments: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Answered {
        let (version, mut options) = match arguments.split_first() {
            None => (self.version, arguments),
            Some((&b"2", options)) => (RespVersion::Two, options),
            Some((&b"3", options)) => (RespVersion::Three, options),
            Some((other, _)) => {
                return Err(RespError {
                    code: "NOPROTO",
                    text: format!("unsupported protocol version '{}'; use 2 or 3", shown(other))
                        .into(),
                });
            }
        };

        let (mut token, mut name) = (None, None);
        loop {
            options = match options {
                [] => break,
                [option, _, found, rest @ ..] if option.eq_ignore_ascii_case(b"AUTH") => {
                    token = Some(*found);
                    rest
                }
                [option, found, rest @ ..] if option.eq_ignore_ascii_case(b"SETNAME") => {
                    name = Some(client_name(found)?);
                    rest
                }
                [other, ..] => {
                    return Err(RespError::new(format!(
                        "syntax error at '{}'; usage: HELLO [2|3] [AUTH user token] [SETNAME name]",
                        shown(other)
                    )));
                }
            };
        }

        match token {
            Some(token) => self.log_in(active, token)?,
            None if active.requires_token() && self.token.is_none() => {
                return Err(RespError::no_auth());
            }
            None => {}
        }
        self.version = version;
        self.name = name.unwrap_or(self.name.take());
        self.describe(out);
        Ok(())
    }

    /// The reply to `HELLO`.
    fn describe(&self, out: &mut Vec<u8>) {
        let version = match self.version {
            RespVersion::Two => 2,
            RespVersion::Three => 3,
        };
        let texts = [
            ("server", "tollgate"),
            ("version", env!("CARGO_PKG_VERSION")),
            ("mode", "standalone"),
            ("role", "master"),
        ];

        encode::map(out, self.version, texts.len() + 3);
        for (name, text) in texts {
            encode::bulk(out, name.as_bytes());
            encode::bulk(out, text.as_bytes());
        }
        encode::bulk(out, b"proto");
        encode::integer(out, version);
        encode::bulk(out, b"id");
        encode::integer(out, self.id());
        encode::bulk(out, b"modules");
        encode::array(out, 0);
    }

    fn id(&self) -> i64 {
        i64::try_from(self.id).unwrap_or(i64::MAX)
    }

    fn client(&mut self, arguments: &[&[u8]], out: &mut Vec<u8>) -> Answered {
        let (sub, rest) = sub_command("client", arguments)?;
        match (sub.as_slice(), rest) {
            (b"SETNAME", [name]) => {
                self.name = client_name(name)?;
                ok(out)
            }
            (b"GETNAME", []) => {
                match &self.name {
                    Some(name) => encode::bulk(out, name),
                    None => encode::null(out, self.version),
                }
                Ok(())
            }
            (b"ID", []) => {
                encode::integer(out, self.id());
                Ok(())
            }
            (b"INFO", []) => {
                let name = self.name.as_deref().unwrap_or_default();
                let text = format!("id={} name={}\n", self.id, String::from_utf8_lossy(name));
                encode::bulk(out, text.as_bytes());
                Ok(())
            }
            // Nothing is kept of these: they say which library it is, or what Redis should do with
            // keys that this service does not have.
            (b"SETINFO", [_, _]) | (b"NO-EVICT" | b"NO-TOUCH", [_]) => ok(out),
            _ => Err(unknown_sub_command("client", &sub)),
        }
    }

    fn command(&self, arguments: &[&[u8]], out: &mut Vec<u8>) -> Answered {
        if arguments.is_empty() {
            encode::array(out, COMMANDS.len());
            COMMANDS
                .iter()
                .for_each(|command| describe_command(out, command));
            return Ok(());
        }

        let (sub, rest) = sub_command("command", arguments)?;
        match (sub.as_slice(), rest) {
            (b"COUNT", []) => encode::integer(out, COMMANDS.len() as i64),
            (b"DOCS", _) => encode::map(out, self.version, 0),
            (b"LIST", []) => {
                encode::array(out, COMMANDS.len());
                for (name, ..) in COMMANDS {
                    encode::bulk(out, name.as_bytes());
                }
            }
            (b"INFO", names) => {
                encode::array(out, names.len());
                for name in names {
                    match find_entry(name) {
                        Some(entry) => describe_command(out, entry),
                        None => encode::null(out, self.version),
                    }
                }
            }
            _ => return Err(unknown_sub_command("command", &sub)),
        }
        Ok(())
    }

    /// Forgets everything that the client has set.
    fn reset(&mut self, out: &mut Vec<u8>) -> Answered {
        *self = Self::new(self.id);
        encode::simple(out, "RESET");
        Ok(())
    }
}

fn ok(out: &mut Vec<u8>) -> Answered {
    encode::simple(out, "OK");
    Ok(())
}

fn ping(arguments: &[&[u8]], out: &mut Vec<u8>) -> Answered {
    match arguments {
        [] => encode::simple(out, "PONG"),
        [message] => encode::bulk(out, message),
        _ => return Err(RespError::usage("ping", "PING [message]")),
    }
    Ok(())
}

fn echo(arguments: &[&[u8]], out: &mut Vec<u8>) -> Answered {
    let [message] = arguments else {
        return Err(RespError::usage("echo", "ECHO message"));
    };
    encode::bulk(out, message);
    Ok(())
}

fn select(arguments: &[&[u8]], out: &mut Vec<u8>) -> Answered {
    match arguments {
        [b"0"] => ok(out),
        [_] => Err(RespError::new("DB index is out of range; there is only database 0")),
        _ => Err(RespError::usage("select", "SELECT 0")),
    }
}

/// Some clients wait until `loading` is 0.
fn info(out: &mut Vec<u8>) -> Answered {
    let text = format!(
        "# Server\r\nredis_version:{REDIS_VERSION}\r\ntollgate_version:{}\r\n\
         redis_mode:standalone\r\n# Persistence\r\nloading:0\r\n# Replication\r\nrole:master\r\n",
        env!("CARGO_PKG_VERSION")
    );
    encode::bulk(out, text.as_bytes());
    Ok(())
}

/// The name of a connection; none if it is empty.
fn client_name(name: &[u8]) -> Result<Option<Box<[u8]>>, RespError> {
    if !name.iter().all(u8::is_ascii_graphic) {
        return Err(RespError::new(
            "client names cannot contain spaces, newlines or special characters",
        ));
    }
    Ok(Some(name).filter(|name| !name.is_empty()).map(Into::into))
}

fn find(name: &[u8]) -> Option<Command> {
    find_entry(name).map(|(_, _, command)| *command)
}

fn find_entry(name: &[u8]) -> Option<&'static CommandEntry> {
    COMMANDS
        .iter()
        .find(|(known, ..)| known.as_bytes().eq_ignore_ascii_case(name))
}

/// What `COMMAND` says of a command: its name, arguments and flags, and where its key is.
fn describe_command(out: &mut Vec<u8>, (name, arity, command): &CommandEntry) {
    let key = match command {
        Command::Throttle => 1,
        Command::Check | Command::Session(_) => 0,
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

/// The name of a subcommand in capitals, and its arguments.
fn sub_command<'a, 'b>(
    name: &str,
    arguments: &'a [&'b [u8]],
) -> Result<(Vec<u8>, &'a [&'b [u8]]), RespError> {
    let (sub, rest) = arguments
        .split_first()
        .ok_or_else(|| RespError::usage(name, &format!("{name} subcommand [argument ...]")))?;
    Ok((sub.to_ascii_uppercase(), rest))
}

fn unknown_sub_command(name: &str, sub: &[u8]) -> RespError {
    RespError::new(format!(
        "unknown subcommand or wrong number of arguments for '{}' of '{name}'",
        shown(sub)
    ))
}

fn unknown_command(name: &[u8], arguments: &[&[u8]]) -> RespError {
    let mut repeated = String::new();
    for argument in arguments {
        if repeated.len() >= REPEATED_MAX {
            break;
        }
        repeated.push_str(&format!("'{}' ", shown(argument)));
    }
    RespError::new(format!(
        "unknown command '{}', with args beginning with: {repeated}",
        shown(name)
    ))
}
