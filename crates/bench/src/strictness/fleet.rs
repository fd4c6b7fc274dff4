//! Replicas: processes of the real server over one store, each with its own ports and configuration
//! file.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use testkit::reverse_proxy;

use super::faketime;
use super::limits::{self, PER_SECOND_1000};
use super::plan::Mode;
use super::store::Store;
use crate::process::{Directory, Process};

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

pub(super) struct Fleet {
    pub(super) mode: Mode,
    replicas: Vec<Replica>,
}

struct Replica {
    process: Process,
    http: SocketAddr,
}

/// How replicas are started.
#[derive(Clone, Copy, Debug)]
pub(super) struct FleetOptions<'a> {
    pub(super) tollgate: &'a Path,
    pub(super) mode: Mode,
    pub(super) replicas: usize,
    /// The libfaketime library, if the replicas have wrong clocks.
    pub(super) faketime: Option<&'a Path>,
}

impl Fleet {
    /// Starts the replicas in parallel and waits until each of them makes decisions with the store.
    pub(super) fn start(start: FleetOptions<'_>, store: &Store) -> io::Result<Self> {
        let config = limits::config(
            start.mode.word(),
            start.replicas,
            store.kind(),
            &store.urls(),
        );
        let spawned = (0..start.replicas).map(|index| spawn(start, index, &config));
        let mut processes: Vec<Process> = spawned.collect::<io::Result<_>>()?;
        let addresses = processes
            .iter_mut()
            .map(|process| process.announced("http "));
        let addresses: Vec<SocketAddr> = addresses.collect::<io::Result<_>>()?;
        let replicas = processes
            .into_iter()
            .zip(addresses)
            .map(|(process, http)| Replica { process, http });
        let mut fleet = Self {
            mode: start.mode,
            replicas: replicas.collect(),
        };
        fleet.wait_until_ready()?;
        Ok(fleet)
    }

    /// Waits until the store is available to every replica; until then decisions come from the
    /// failure policy.
    pub(super) fn wait_until_ready(&mut self) -> io::Result<()> {
        let check_request = format!(
            r#"{{"attributes":{{"user":"nobody"}},"limits":["{}"]}}"#,
            PER_SECOND_1000.name
        );
        self.replicas
            .iter_mut()
            .try_for_each(|Replica { process, http }| {
                process.wait_for(|_| {
                    let answer = reverse_proxy::send(
                        *http,
                        "POST",
                        "/v1/peek",
                        &JSON,
                        check_request.as_bytes(),
                    );
                    (answer.status == 200 && !answer.text().contains("fallback")).then_some(())
                })
            })
    }

    /// The time of day of each replica, from the `Date` headers of its responses.
    pub(super) fn dates(&self) -> Vec<String> {
        let ask = |replica: &Replica| {
            let answer = reverse_proxy::get(replica.http, "/healthz", &[]);
            answer.header("date").unwrap_or_default().to_owned()
        };
        self.replicas.iter().map(ask).collect()
    }

    pub(super) fn size(&self) -> usize {
        self.replicas.len()
    }

    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.replicas.iter().map(|replica| replica.http).collect()
    }

    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        self.replicas.iter().map(|replica| replica.process.pid())
    }

    /// Kills a replica (SIGKILL); whatever it held in memory is lost.
    pub(super) fn kill(&mut self, replica: usize) {
        if let Some(replica) = self.replicas.get_mut(replica) {
            replica.process.kill();
        }
    }

    /// Removes a killed replica from the fleet.
    pub(super) fn forget(&mut self, replica: usize) {
        if replica < self.replicas.len() {
            self.replicas.remove(replica);
        }
    }
}

fn spawn(start: FleetOptions<'_>, index: usize, config: &str) -> io::Result<Process> {
    let directory = Directory::create()?;
    let config = directory.write("tollgate.yaml", config)?;
    let mut command = Command::new(start.tollgate);
    command.arg("serve").arg("--config").arg(config);
    for port in ["--http", "--grpc", "--admin"] {
        command.args([port, "127.0.0.1:0"]);
    }
    // Logging is not part of the measurement, and the environment may have enabled it.
    command.env_remove("RUST_LOG");
    if let Some(library) = start.faketime {
        faketime::apply(
            &mut command,
            library,
            faketime::CLOCKS[index % faketime::CLOCKS.len()],
        );
    }
    Process::spawn(command, directory)
}
