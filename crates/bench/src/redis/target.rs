//! The server for one run, with the scripts loaded and all keys created.

use std::io;

use testkit::servers::{Client, Flavor, Reply, Server};

use super::check_script;

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
    pub(super) fn start(flavor: Flavor) -> io::Result<Self> {
        let server = Server::start(flavor);
        let script = load(&server, check_script::script())?;
        let script_with_arguments = load(&server, &check_script::script_with_arguments())?;
        Ok(Self {
            server,
            script,
            script_with_arguments,
        })
    }

    /// Checks each key once, so that every key exists before the first round; with both scripts, to
    /// verify that both work.
    pub(super) fn fill(&self, keys: u32) -> io::Result<()> {
        let [which, asked] = check_script::arguments();
        let mut client = self.server.client();
        let numbers: Vec<u32> = (0..keys).collect();
        for batch in numbers.chunks(BATCH) {
            for number in batch {
                let key = check_script::key(*number);
                let words = [
                    b"EVALSHA",
                    self.script.as_bytes(),
                    b"1",
                    &key,
                    &which,
                    &asked,
                ];
                client.send(&words).map_err(io::Error::other)?;
            }
            batch.iter().try_for_each(|_| expect_allowed(&mut client))?;
        }
        let words = [
            b"EVALSHA",
            self.script_with_arguments.as_bytes(),
            b"1",
            &check_script::key(0),
        ];
        client.send(&words).map_err(io::Error::other)?;
        expect_allowed(&mut client)
    }
}

fn load(server: &Server, script: &str) -> io::Result<String> {
    match server.command(&["SCRIPT", "LOAD", script]) {
        Reply::Bulk(Some(name)) => String::from_utf8(name).map_err(io::Error::other),
        reply => Err(io::Error::other(format!(
            "cannot load the script: {reply:?}"
        ))),
    }
}

fn expect_allowed(client: &mut Client) -> io::Result<()> {
    let reply = client.receive().map_err(io::Error::other)?;
    if reply.as_bytes().is_some_and(check_script::is_allowed_reply) {
        Ok(())
    } else {
        Err(io::Error::other(format!(
            "the script denied a check: {reply:?}"
        )))
    }
}
