//! The configuration of a server before it starts.

use std::fmt::Write as _;

use super::tls::{self, Certificates};
use super::{Flavor, Server, control};
use crate::processes::Directory;

/// The settings of every test server: nothing on disk, reachable only from this machine, quiet, and
/// with the commands enabled that tests use to break it.
const DEFAULTS: &[(&str, &str)] = &[
    ("bind", "127.0.0.1"),
    ("daemonize", "no"),
    ("loglevel", "warning"),
    ("save", "\"\""),
    ("appendonly", "no"),
    // A replica is served without waiting five seconds for others to share the transfer.
    ("repl-diskless-sync-delay", "0"),
    ("enable-debug-command", "yes"),
    ("enable-protected-configs", "yes"),
];

/// How to start one [`Server`].
#[derive(Clone, Debug)]
pub struct Builder {
    pub(super) flavor: Flavor,
    pub(super) port: Option<u16>,
    pub(super) password: Option<String>,
    pub(super) users: Vec<User>,
    pub(super) tls: bool,
    pub(super) environment: Vec<(String, String)>,
    role: Role,
    config: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) password: String,
    rules: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Store,
    Sentinel,
}

impl Builder {
    pub(super) fn new(flavor: Flavor) -> Self {
        Self {
            flavor,
            port: None,
            password: None,
            users: Vec::new(),
            tls: false,
            environment: Vec::new(),
            role: Role::Store,
            config: Vec::new(),
        }
    }

    pub(super) fn sentinel(flavor: Flavor) -> Self {
        Self {
            role: Role::Sentinel,
            ..Self::new(flavor)
        }
    }

    /// Adds a line to the configuration file, after the default ones: `.config("maxmemory",
    /// "2mb")`, `.config("save", "60 1")`.
    #[must_use]
    pub fn config(mut self, name: &str, value: &str) -> Self {
        self.config.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the password of the default user, which is then part of [`Server::url`].
    ///
    /// # Panics
    ///
    /// If it is empty or has a character with a special meaning in the configuration file.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(word(password));
        self
    }

    /// Adds a user with these rules, written as for `ACL SETUSER`: `"~* +@all"`. [`Server::url`]
    /// uses the first one.
    ///
    /// # Panics
    ///
    /// If the name or password is empty or has a character with a special meaning in the
    /// configuration file.
    #[must_use]
    pub fn user(mut self, name: &str, password: &str, rules: &str) -> Self {
        self.users.push(User {
            name: word(name),
            password: word(password),
            rules: rules.to_owned(),
        });
        self
    }

    /// Enables TLS on the port, without plain TCP, with a certificate signed by [`Server::ca_pem`].
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Uses this port instead of a free one.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Sets an environment variable of the process.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts the server and waits until it responds.
    ///
    /// # Panics
    ///
    /// If its program is not found, or it exits instead of responding.
    pub fn start(self) -> Server {
        Server::from_builder(self)
    }

    pub(super) fn is_sentinel(&self) -> bool {
        self.role == Role::Sentinel
    }

    pub(super) fn certificates(&self, directory: &Directory) -> Option<Certificates> {
        self.tls.then(|| tls::create(directory))
    }

    /// The content of the configuration file.
    pub(super) fn file(&self, port: u16, certificates: Option<&Certificates>) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: &str| {
            let _infallible = writeln!(text, "{name} {value}");
        };

        DEFAULTS.iter().for_each(|(name, value)| line(name, value));
        line("unixsocket", control::SOCKET);

        if let Some(Certificates {
            ca,
            certificate,
            key,
        }) = certificates
        {
            line("port", "0");
            line("tls-port", &port.to_string());
            line("tls-auth-clients", "no");
            line("tls-ca-cert-file", &ca.display().to_string());
            line("tls-cert-file", &certificate.display().to_string());
            line("tls-key-file", &key.display().to_string());
        } else {
            line("port", &port.to_string());
        }

        if !self.is_sentinel() {
            line("user", &format!("{} on nopass ~* &* +@all", control::USER));
        }

        if let Some(password) = &self.password {
            line("requirepass", password);
        }
        for User {
            name,
            password,
            rules,
        } in &self.users
        {
            line("user", &format!("{name} on >{password} {rules}"));
        }

        self.config
            .iter()
            .for_each(|(name, value)| line(name, value));
        text
    }
}

fn word(text: &str) -> String {
    let plain =
        |character: char| character.is_ascii_graphic() && !matches!(character, '"' | '\'' | '\\');
    assert!(
        !text.is_empty() && text.chars().all(plain),
        "must be a single plain word: {text:?}"
    );
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_test_come_after_the_defaults() {
        let file = Builder::new(Flavor::Redis)
            .config("save", "60 1")
            .file(7, None);
        assert!(
            file.find("save \"\"\n") < file.find("save 60 1\n"),
            "{file}"
        );
        assert!(file.contains("\nport 7\n"), "{file}");
    }

    #[test]
    fn users_have_their_passwords_and_rules() {
        let file = Builder::new(Flavor::Redis)
            .password("x#1")
            .user("ann", "s", "~a:* +get")
            .file(7, None);
        assert!(file.contains("\nrequirepass x#1\n"), "{file}");
        assert!(file.contains("\nuser ann on >s ~a:* +get\n"), "{file}");
    }

    #[test]
    #[should_panic(expected = "must be a single plain word")]
    fn a_password_with_a_space_is_rejected() {
        let _builder = Builder::new(Flavor::Redis).password("two words");
    }
}
