//! Replicas: processes of the real server over one store, each with its own ports and configuration
//! file.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use testkit::reverse_proxy::{self, Response};

use super::cells::{Cell, Mode};
use super::store::Store;
use super::{faketime, limits};
use crate::harness::process::{Directory, Process, serve_command};
use crate::harness::server::post_json;
use crate::harness::word;

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
        let config = config(cell, store);
        let spawn = |index: usize| {
            let directory = Directory::create()?;
            let mut command = serve_command(tollgate, &directory, &config)?;
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
) -> Response {
    let body =
        format!(r#"{{"attributes":{{"user":"{user}"}},"limits":["{limit}"],"cost":{cost}}}"#);
    post_json(replica, path, &body)
}

/// A replica's configuration: all limits at the consistency of the cell, over this store.
///
/// The store timeout is one second instead of 10 ms, so that a busy machine makes the store slow
/// but not unavailable. Requests that the store cannot decide are denied, because the experiment
/// counts admissions.
fn config(cell: &Cell, store: &Store) -> String {
    let (store_type, urls) = (store.kind(), store.urls());
    let (mode, replicas) = (word(&cell.mode), cell.replicas);
    format!(
        "version: 1\n\
         store: {{ type: {store_type}, endpoints: {urls:?}, prefix: \"strictness:\", timeout: 1s }}\n\
         defaults: {{ consistency: {mode}, on_store_failure: deny, expected_replicas: {replicas} }}\n\
         {}",
        limits::LIMITS
    )
}

#[cfg(test)]
mod tests {
    use super::super::cells::{Case, Topology, tests::cell};
    use super::*;

    #[test]
    fn a_configuration_names_the_store_the_mode_and_all_limits() {
        let store = Store::start(Topology::Single);
        let cell = cell(Case::Grid, Mode::Leased, 4, "1000-per-s");
        let url = &store.urls()[0];
        let expected = format!(
            "\
version: 1
store: {{ type: redis, endpoints: [\"{url}\"], prefix: \"strictness:\", timeout: 1s }}
defaults: {{ consistency: leased, on_store_failure: deny, expected_replicas: 4 }}
limits:
  - {{ name: 1000-per-s, key: [user], algorithm: token_bucket, capacity: 1000, refill_rate: 1000/s }}
"
        );
        let yaml = config(&cell, &store);
        assert_eq!(&yaml[..expected.len()], expected);
        let config = tollgate_rules::Config::read_from(yaml.as_bytes(), "test", &|_| None).unwrap();
        assert_eq!(config.limits.len(), 9);
    }
}
