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
        Ok(Self { server, script, script_with_arguments })
    }

    /// Asks about each key once, so that no decision meets an unknown one; by both scripts, to see that both answer.
    pub(super) fn fill(&self, keys: u32) -> io::Result<()> {
        let [which, asked] = question::arguments();
        let mut client = self.server.client();
        let numbers: Vec<u32> = (0..keys).collect();
        for batch in numbers.chunks(BATCH) {
            for number in batch {
                let key = question::key(*number);
                let words = [b"EVALSHA", self.script.as_bytes(), b"1", &key, &which, &asked];
                client.send(&words).map_err(io::Error::other)?;
            }
            batch.iter().try_for_each(|_| expect_yes(&mut client))?;
        }
        let words = [b"EVALSHA", self.script_with_arguments.as_bytes(), b"1", &question::key(0)];
        client.send(&words).map_err(io::Error::other)?;
        expect_yes(&mut client)
    }

    /// The server and its version, as it says.
    pub(super) fn version(&self) -> String {
        let info = self.server.command(&["INFO", "server"]);
        let text = info.as_str().unwrap_or_default();
        version(text).unwrap_or_else(|| format!("{:?} of unknown version", self.server.flavor()))
    }
}

fn load(server: &Server, script: &str) -> io::Result<String> {
    match server.command(&["SCRIPT", "LOAD", script]) {
        Reply::Bulk(Some(name)) => String::from_utf8(name).map_err(io::Error::other),
        reply => Err(io::Error::other(format!("the server does not take the script: {reply:?}"))),
    }
}

fn expect_yes(client: &mut Client) -> io::Result<()> {
    let reply = client.receive().map_err(io::Error::other)?;
    if reply.as_bytes().is_some_and(question::is_yes) {
        Ok(())
    } else {
        Err(io::Error::other(format!("the script did not let a check pass: {reply:?}")))
    }
}

/// Valkey also says which version of Redis it takes after.
fn version(info: &str) -> Option<String> {
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let valkey = field("valkey_version:").map(|version| format!("Valkey {version}"));
    valkey.or_else(|| field("redis_version:").map(|version| format!("Redis {version}")))
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn a_server_is_named_by_what_it_is() {
        let redis = "# Server\r\nredis_version:7.0.15\r\nos:Linux\r\n";
        assert_eq!(version(redis).as_deref(), Some("Redis 7.0.15"));
        let valkey = "redis_version:7.2.4\r\nvalkey_version:9.1.2\r\n";
        assert_eq!(version(valkey).as_deref(), Some("Valkey 9.1.2"));
        assert_eq!(version(""), None);
    }
}
