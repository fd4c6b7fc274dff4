//! A server that is running, ready to be asked.

use std::env;
use std::io;
use std::process::Command;
use std::time::Duration;

use testkit::reverse_proxy;
use testkit::servers::{Flavor, Server};

use super::hello::{self, HelloArguments};
use super::subject::{Case, Subject};
use crate::h2load::{H2load, LoadRequest, Round, Status, Target};
use crate::process::{Directory, Process};

pub(super) struct Entrant {
    pub(super) subject: Subject,
    target: Target,
    // Before the server it asks.
    process: Process,
    redis: Option<Server>,
}

impl Entrant {
    /// Starts this program again as the server, and waits until it answers as the case says.
    pub(super) fn start(subject: Subject, case: Case) -> io::Result<Self> {
        let redis = (!subject.is_local()).then(|| Server::start(Flavor::Redis));
        let mut command = Command::new(env::current_exe()?);
        command.arg("hello").args(HelloArguments::words(
            subject,
            case,
            redis.as_ref().map(Server::url),
        ));
        let mut process = Process::spawn(command, Directory::create()?)?;
        let server = process.announced(hello::ANNOUNCED)?;
        let is_ready = |_: &Process| {
            (reverse_proxy::get(server, hello::PATH, &[]).status == case.status()).then_some(())
        };
        process.wait_for(is_ready)?;
        let status = if case.is_allowed() {
            Status::Success
        } else {
            Status::ClientError
        };
        let target = Target {
            server,
            path: hello::PATH,
            sent: LoadRequest::Get,
            status,
        };
        Ok(Self {
            subject,
            target,
            process,
            redis,
        })
    }

    /// The processes that work when it is asked.
    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        std::iter::once(self.process.pid()).chain(self.redis.as_ref().map(Server::pid))
    }

    pub(super) fn round(&self, h2load: &H2load, length: Duration) -> io::Result<Round> {
        let round = h2load.round(&self.target, self.process.pid(), length);
        round.map_err(|error| io::Error::other(format!("{}: {error}", self.subject.name())))
    }
}
