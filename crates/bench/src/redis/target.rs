//! The server for one run, with the scripts loaded and all keys created.

use anyhow::{Result, ensure};
use redis_rs::{Connection, cmd, pipe};
use testkit::servers::{Flavor, Server};

use super::check_script::{self, LIMITS};

/// The number of calls in flight while keys are created.
const BATCH: usize = 500;

#[derive(Debug)]
pub(super) struct Target {
    pub(super) server: Server,
    /// The hash of the script.
    pub(super) script: String,
    /// The hash of the script that has its arguments inlined.
    pub(super) script_with_arguments: String,
}

impl Target {
    pub(super) fn start(flavor: Flavor) -> Result<Self> {
        let server = Server::start(flavor);
        let mut connection = connect(&server)?;
        let mut load = |script: &str| {
            let load = cmd("SCRIPT").arg("LOAD").arg(script).to_owned();
            load.query::<String>(&mut connection)
        };
        Ok(Self {
            script: load(check_script::script())?,
            script_with_arguments: load(&check_script::script_with_arguments())?,
            server,
        })
    }

    /// Checks each key of each limit once, so that every key exists before the first round; with
    /// both scripts, to verify that both work.
    pub(super) fn fill(&self, keys: u32) -> Result<()> {
        let [which, asked] = check_script::arguments();
        let mut connection = connect(&self.server)?;
        let numbers = || 0..keys;
        let keys =
            LIMITS.map(|limit| numbers().map(move |number| check_script::key(limit, number)));
        let keys: Vec<Vec<u8>> = keys.into_iter().flatten().collect();
        for batch in keys.chunks(BATCH) {
            let mut calls = pipe();
            for key in batch {
                let call = calls.cmd("EVALSHA").arg(&self.script).arg(1).arg(key);
                call.arg(&which).arg(&asked);
            }
            let replies: Vec<Vec<u8>> = calls.query(&mut connection)?;
            expect_allowed(&replies)?;
        }

        let mut call = cmd("EVALSHA");
        call.arg(&self.script_with_arguments);
        let reply = call.arg(1).arg(&keys[0]).query(&mut connection);
        expect_allowed(&[reply?])
    }
}

fn connect(server: &Server) -> Result<Connection> {
    Ok(redis_rs::Client::open(server.url())?.get_connection()?)
}

fn expect_allowed(replies: &[Vec<u8>]) -> Result<()> {
    for reply in replies {
        let is_allowed = check_script::is_allowed_reply(reply);
        ensure!(is_allowed, "the script denied a check: {reply:?}");
    }
    Ok(())
}
