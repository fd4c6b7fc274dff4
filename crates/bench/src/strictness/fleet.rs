//! Replicas: processes of the real server over one store, each with its own ports and configuration
//! file.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use testkit::reverse_proxy;

use super::cells::{Cell, Mode};
use super::store::Store;
use super::{faketime, limits};
use crate::harness::process::{Directory, Process};

pub(super) struct Fleet {
    mode: Mode,
    replicas: Vec<(Process, SocketAddr)>,
}

impl Fleet {
    /// Starts the replicas of a cell in parallel and waits until each of them makes decisions with
    /// the store. With the libfaketime library they have wrong clocks.
    pub(super) fn start(
        tollgate: &Path,
        cell: &Cell,
        store: &Store,
        faketime: Option<&Path>,
    ) -> io::Result<Self> {
        let config = limits::config(cell, store);
        let spawn = |index: usize| {
            let directory = Directory::create()?;
            let path = directory.write("tollgate.yaml", &config)?;
            let mut command = Command::new(tollgate);
            command.arg("serve").arg("--config").arg(path);
            for port in ["--http", "--grpc", "--admin"] {
                command.args([port, "127.0.0.1:0"]);
            }
            // Logging is not part of the measurement, and the environment may have enabled it.
            command.env_remove("RUST_LOG");
            if let Some(library) = faketime {
                faketime::apply(&mut command, library, index);
            }
            Process::spawn(command, directory)
        };
        let processes: Vec<Process> = (0..cell.replicas).map(spawn).collect::<io::Result<_>>()?;

        let mut fleet = Self {
            mode: cell.mode,
            replicas: Vec::new(),
        };
        for mut process in processes {
            let http = process.announced("http ")?;
            fleet.replicas.push((process, http));
        }
        fleet.wait_until_ready()?;
        Ok(fleet)
    }

    /// Waits until the store is available to every replica; until then decisions come from the
    /// failure policy.
    pub(super) fn wait_until_ready(&mut self) -> io::Result<()> {
        self.replicas.iter_mut().try_for_each(|(process, http)| {
            process.wait_for(|_| {
                let response = check(*http, "/v1/peek", "probe", "1000-per-s", 1);
                (response.status == 200 && !response.text().contains("fallback")).then_some(())
            })
        })
    }

    /// The time of day of each replica, from the `Date` headers of its responses.
    pub(super) fn dates(&self) -> Vec<String> {
        let dates = self.addresses().map(|http| {
            let response = reverse_proxy::get(http, "/healthz", &[]);
            response.header("date").unwrap_or_default().to_owned()
        });
        dates.collect()
    }

    pub(super) fn is_for(&self, cell: &Cell) -> bool {
        self.mode == cell.mode && self.replicas.len() == cell.replicas
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.replicas.iter().map(|(_, http)| *http)
    }

    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        self.replicas.iter().map(|(process, _)| process.pid())
    }

    /// Kills a replica (SIGKILL) and removes it from the fleet. Whatever it held in memory is lost.
    pub(super) fn kill(&mut self, replica: usize) {
        self.replicas.remove(replica).0.kill();
    }
}

/// Sends one request to a replica, on a connection of its own.
pub(super) fn check(
    replica: SocketAddr,
    path: &str,
    user: &str,
    limit: &str,
    cost: u64,
) -> reverse_proxy::Response {
    let body =
        format!(r#"{{"attributes":{{"user":"{user}"}},"limits":["{limit}"],"cost":{cost}}}"#);
    let json = [("content-type", "application/json")];
    reverse_proxy::send(replica, "POST", path, &json, body.as_bytes())
}
