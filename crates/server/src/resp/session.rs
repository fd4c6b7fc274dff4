//! The state of a connection, and the commands that clients send to set it up.
//!
//! Client libraries send some of these before the first command of their user, and give up if one
//! of them fails. The replies say as little as the libraries need.

use tollgate_gate::{AccessError, ActiveConfig};
use tollgate_rules::Permission;

use super::commands::{self, COMMANDS, RespCommand, SessionCommand};
use super::encode::{self, RespVersion};
use super::error::RespError;
use super::integer::shown;

/// The reply to a command that was carried out.
const OK: &str = "OK";
/// The version of Redis whose commands these are; some clients ask for it.
const REDIS_VERSION: &str = "7.2.0";

/// The state of a connection. It cannot be formatted, because it has the token.
pub(super) struct RespSession {
    id: u64,
    version: RespVersion,
    /// The token that the client has sent. It is looked up with every decision, so that one which
    /// is removed from the configuration is refused on open connections, too.
    token: Option<Box<[u8]>>,
    /// Empty if the client has none.
    name: Vec<u8>,
}

/// Whether a command was carried out.
pub(super) type Answered = Result<(), RespError>;

impl RespSession {
    pub(super) fn new(id: u64) -> Self {
        Self {
            id,
            version: RespVersion::Two,
            token: None,
            name: Vec::new(),
        }
    }

    /// Finds the command, and whether the client may use it.
    pub(super) fn admit(
        &self,
        active: &ActiveConfig,
        name: &[u8],
        arguments: &[&[u8]],
    ) -> Result<RespCommand, RespError> {
        let token = self.token.as_deref();
        let is_public =
            |command| matches!(command, RespCommand::Session(command) if command.is_public());
        let found = commands::find(name);
        if active.requires_token() && !found.is_some_and(is_public) && token.is_none() {
            return Err(RespError::no_auth());
        }

        let command = found.ok_or_else(|| commands::unknown(name, arguments))?;
        if active.requires_token() && command == RespCommand::Throttle {
            active.authorize(token, Permission::Check)?;
            active.require(token, Permission::Inline)?;
        } else if active.requires_token() && command == RespCommand::Check {
            active.authorize(token, Permission::Check)?;
        }
        Ok(command)
    }

    /// Answers a command that needs no decision. Nothing is written if it fails.
    pub(super) fn answer(
        &mut self,
        active: &ActiveConfig,
        command: SessionCommand,
        arguments: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Answered {
        match command {
            SessionCommand::Info => info(out),
            SessionCommand::Quit => encode::simple(out, OK),
            SessionCommand::Reset => self.reset(out),
            SessionCommand::Auth => self.auth(active, arguments, out)?,
            SessionCommand::Client => self.client(arguments, out)?,
            SessionCommand::Command => self.command(arguments, out)?,
            SessionCommand::Echo => echo(arguments, out)?,
            SessionCommand::Hello => self.hello(active, arguments, out)?,
            SessionCommand::Ping => ping(arguments, out)?,
            SessionCommand::Select => select(arguments, out)?,
        }
        Ok(())
    }

    /// `AUTH [user] token`. The name of the user is not looked at: a token has its own.
    fn auth(&mut self, active: &ActiveConfig, arguments: &[&[u8]], out: &mut Vec<u8>) -> Answered {
        let ([token] | [_, token]) = arguments else {
            return Err(RespError::usage("auth", "AUTH [user] token"));
        };
        self.log_in(active, token)?;
        encode::simple(out, OK);
        Ok(())
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
    fn hello(&mut self, active: &ActiveConfig, arguments: &[&[u8]], out: &mut Vec<u8>) -> Answered {
        let (version, options) = match arguments.split_first() {
            None => (self.version, arguments),
            Some((&b"2", options)) => (RespVersion::Two, options),
            Some((&b"3", options)) => (RespVersion::Three, options),
            Some((other, _)) => return Err(RespError::version(&shown(other))),
        };
        let HelloOptions { token, name } = HelloOptions::decode(options)?;

        match token {
            Some(token) => self.log_in(active, token)?,
            None if active.requires_token() && self.token.is_none() => {
                return Err(RespError::no_auth());
            }
            None => {}
        }
        self.version = version;
        if let Some(name) = name {
            self.name = name;
        }
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
                encode::simple(out, OK);
            }
            (b"GETNAME", []) if self.name.is_empty() => encode::null(out, self.version),
            (b"GETNAME", []) => encode::bulk(out, &self.name),
            (b"ID", []) => encode::integer(out, self.id()),
            (b"INFO", []) => {
                let name = String::from_utf8_lossy(&self.name);
                let text = format!("id={} name={name}\n", self.id);
                encode::bulk(out, text.as_bytes());
            }
            // Nothing is kept of these: they say which library it is, or what Redis should do with
            // keys that this service does not have.
            (b"SETINFO", [_, _]) | (b"NO-EVICT" | b"NO-TOUCH", [_]) => encode::simple(out, OK),
            _ => return Err(unknown_sub_command("client", &sub)),
        }
        Ok(())
    }

    fn command(&self, arguments: &[&[u8]], out: &mut Vec<u8>) -> Answered {
        if arguments.is_empty() {
            out.extend_from_slice(&commands::DESCRIPTION);
            return Ok(());
        }

        let (sub, rest) = sub_command("command", arguments)?;
        match (sub.as_slice(), rest) {
            (b"COUNT", []) => encode::count(out, COMMANDS.len()),
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
                    match commands::find_entry(name) {
                        Some(entry) => commands::describe(out, entry),
                        None => encode::null(out, self.version),
                    }
                }
            }
            _ => return Err(unknown_sub_command("command", &sub)),
        }
        Ok(())
    }

    /// Forgets everything that the client has set.
    fn reset(&mut self, out: &mut Vec<u8>) {
        *self = Self::new(self.id);
        encode::simple(out, "RESET");
    }
}

/// What `HELLO` says after the version.
#[derive(Default)]
struct HelloOptions<'a> {
    token: Option<&'a [u8]>,
    name: Option<Vec<u8>>,
}

impl<'a> HelloOptions<'a> {
    fn decode(mut options: &[&'a [u8]]) -> Result<Self, RespError> {
        let mut decoded = Self::default();
        loop {
            options = match options {
                [] => return Ok(decoded),
                [option, _, token, rest @ ..] if option.eq_ignore_ascii_case(b"AUTH") => {
                    decoded.token = Some(token);
                    rest
                }
                [option, name, rest @ ..] if option.eq_ignore_ascii_case(b"SETNAME") => {
                    decoded.name = Some(client_name(name)?);
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
    }
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
        [b"0"] => encode::simple(out, OK),
        [_] => {
            let text = "DB index is out of range; there is only database 0";
            return Err(RespError::new(text));
        }
        _ => return Err(RespError::usage("select", "SELECT 0")),
    }
    Ok(())
}

/// Some clients wait until `loading` is 0.
fn info(out: &mut Vec<u8>) {
    let text = format!(
        "# Server\r\nredis_version:{REDIS_VERSION}\r\ntollgate_version:{}\r\n\
         redis_mode:standalone\r\n# Persistence\r\nloading:0\r\n# Replication\r\nrole:master\r\n",
        env!("CARGO_PKG_VERSION")
    );
    encode::bulk(out, text.as_bytes());
}

/// The name of a connection; an empty one takes it away.
fn client_name(name: &[u8]) -> Result<Vec<u8>, RespError> {
    if !name.iter().all(u8::is_ascii_graphic) {
        return Err(RespError::new(
            "client names cannot contain spaces, newlines or special characters",
        ));
    }
    Ok(name.to_vec())
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
