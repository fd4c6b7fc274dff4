//! The server that is asked: started for one run, told the scripts, filled with keys.

use std::io;

use testkit::servers::{Client, Flavor, Reply, Server};

use super::question;

/// How many questions are on their way at once while keys are made.
const BATCH: usize = 500;

#[derive(Debug)]
pub(super) struct Target {
    pub(super) server: Server,
    /// The name of the script.
    pub(super) script: String,
    /// The name of the script that has its arguments written into it.
    pub(super) script_with_arguments: String,
}

impl Target {
    pub(super) fn start(flavor: Flavor) -> io::Result<Self> {
        let server = Server::start(flavor);
        let script = load(&server, question::script())?;
        let script_with_arguments = load(&server, &question::script_with_arguments())?;
        Ok(Self {
            server,
            script,
            script_with_arguments,
        })
    }

    /// Asks about each key once, so that no decision meets an unknown one; by both scripts, to see
    /// that both answer.
    pub(super) fn fill(&self, keys: u32) -> io::Result<()> {
        let [which, asked] = question::arguments();
        let mut client = self.server.client();
        let numbers: Vec<u32> = (0..keys).collect();
        for batch in numbers.chunks(BATCH) {
            for number in batch {
                let key = question::key(*number);
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
            batch.iter().try_for_each(|_| expect_yes(&mut client))?;
        }
        let words = [
            b"EVALSHA",
            self.script_with_arguments.as_bytes(),
            b"1",
            &question::key(0),
        ];
        client.send(&words).map_err(io::Error::other)?;
        expect_yes(&mut client)
    }
}

fn load(server: &Server, script: &str) -> io::Result<String> {
    match server.command(&["SCRIPT", "LOAD", script]) {
        Reply::Bulk(Some(name)) => String::from_utf8(name).map_err(io::Error::other),
        reply => Err(io::Error::other(format!(
            "the server does not take the script: {reply:?}"
        ))),
    }
}

fn expect_yes(client: &mut Client) -> io::Result<()> {
    let reply = client.receive().map_err(io::Error::other)?;
    if reply.as_bytes().is_some_and(question::is_yes) {
        Ok(())
    } else {
        Err(io::Error::other(format!(
            "the script did not let a check pass: {reply:?}"
        )))
    }
}
