//! Replicas: processes of the real server over one store, each with its own ports and configuration
//! file, some with wrong clocks.

use std::env::consts::ARCH;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use testkit::processes::try_find_program;
use testkit::reverse_proxy::{self, Response};

use super::cells::Cell;
use super::limits;
use super::store::Store;
use crate::harness::{Process, post_json, word};

pub(super) struct Fleet {
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
    ) -> Result<Self> {
        let config = config(cell, store);
        let spawn = |index: usize| {
            Process::serve(tollgate, &config, |command| {
                if let Some(library) = faketime {
                    set_clock(command, library, index);
                }
            })
        };
        let processes: Vec<Process> = (0..cell.replicas).map(spawn).collect::<Result<_>>()?;

        let replicas = processes.into_iter().map(|mut process| {
            let http = process.announced("http ")?;
            Ok((process, http))
        });
        let mut fleet = Self {
            replicas: replicas.collect::<Result<_>>()?,
        };
        fleet.wait_until_ready()?;
        Ok(fleet)
    }

    /// Waits until the store is available to every replica; until then decisions come from the
    /// failure policy.
    pub(super) fn wait_until_ready(&mut self) -> Result<()> {
        self.replicas.iter_mut().try_for_each(|(process, http)| {
            process.wait_for(|_| {
                let response = check(*http, "/v1/peek", "probe", "1000-per-s", 1);
                (response.status == 200 && !response.text().contains("fallback")).then_some(())
            })
        })
    }

    /// Whether libfaketime has an effect, by the `Date` headers of responses.
    pub(super) fn has_wrong_clocks(&self) -> bool {
        let dates = self.addresses().map(|http| {
            let response = reverse_proxy::get(http, "/healthz", &[]);
            response.header("date").unwrap_or_default().to_owned()
        });
        are_wrong(&dates.collect::<Vec<_>>())
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
/// Requests that the store cannot decide are denied, because the experiment counts admissions.
fn config(cell: &Cell, store: &Store) -> String {
    let (store_type, urls) = (store.kind(), store.urls());
    let (mode, replicas) = (word(&cell.mode), cell.replicas);
    let timeout_ms = cell.case.link().timeout().as_millis();
    format!(
        "version: 1\n\
         store: {{ type: {store_type}, endpoints: {urls:?}, prefix: \"strictness:\", \
         timeout: {timeout_ms}ms }}\n\
         defaults: {{ consistency: {mode}, on_store_failure: deny, expected_replicas: {replicas} }}\n\
         {}",
        limits::LIMITS
    )
}

/// An environment variable with the path of the program `faketime`, if it is not on the `PATH`; the
/// library is searched for relative to its directory.
const PROGRAM: &str = "TOLLGATE_FAKETIME";
/// The clock errors of the replicas, in turn: an offset of the time of day, or a different speed.
const CLOCKS: [&str; 4] = ["+3600", "-3600", "+0 x1.02", "+0 x0.98"];

/// The path of Debian's libfaketime, which intercepts the system's time functions, or why it was
/// not found.
pub(super) fn find_faketime() -> Result<PathBuf, String> {
    let program = try_find_program(PROGRAM, "faketime").unwrap_or_default();
    let root = program.parent().and_then(Path::parent);
    let library = format!("lib/{ARCH}-linux-gnu/faketime/libfaketimeMT.so.1");
    let found = root.and_then(|root| {
        let places = [root.join("usr"), root.to_owned()].map(|place| place.join(&library));
        places.into_iter().find(|place| place.is_file())
    });
    found.ok_or_else(|| {
        format!(
            "libfaketime not found: install the package faketime, \
             or set {PROGRAM} to the path of the program"
        )
    })
}

/// Makes the command of the replica with this index use one of the clocks.
fn set_clock(command: &mut Command, library: &Path, index: usize) {
    let clock = CLOCKS[index % CLOCKS.len()];
    command.env("LD_PRELOAD", library).env("FAKETIME", clock);
}

/// Whether dates such as `Mon, 16 Nov 2026 05:42:45 GMT` show that the clocks are wrong: those of
/// the first two replicas are two hours apart. With a single replica the result is always true.
fn are_wrong(dates: &[String]) -> bool {
    let hour = |date: &String| date.get(17..19).map(str::to_owned);
    match dates {
        [early, late, ..] => hour(early).is_some() && hour(early) != hour(late),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::super::cells::tests::cell;
    use super::super::cells::{Case, Link, Mode, Topology};
    use super::*;

    #[test]
    fn a_configuration_names_the_store_the_mode_and_all_limits() {
        let store = Store::start(Topology::Single, Link::Patient);
        let cell = cell(Case::Grid, Mode::Leased, 4, "1000-per-s");
        let url = &store.urls()[0];
        let expected = format!(
            "\
version: 1
store: {{ type: redis, endpoints: [\"{url}\"], prefix: \"strictness:\", timeout: 1000ms }}
defaults: {{ consistency: leased, on_store_failure: deny, expected_replicas: 4 }}
limits:
  - {{ name: 1000-per-s, key: [user], algorithm: token_bucket, capacity: 1000, refill_rate: 1000/s }}
"
        );
        let yaml = config(&cell, &store);
        assert_eq!(&yaml[..expected.len()], expected);
        let config = tollgate_rules::Config::read_from(yaml.as_bytes(), "test", &|_| None).unwrap();
        assert_eq!(config.limits.len(), 11);
    }

    #[test]
    fn wrong_clocks_show_in_dates() {
        let dates =
            |hours: [&str; 2]| hours.map(|hour| format!("Mon, 16 Nov 2026 {hour}:42:45 GMT"));
        assert!(are_wrong(&dates(["06", "04"])));
        assert!(!are_wrong(&dates(["05", "05"])));
        assert!(!are_wrong(&[String::new(), String::new()]));
    }

    #[test]
    fn a_clock_is_set_by_variables() {
        let mut command = Command::new("date");
        set_clock(&mut command, Path::new("/x/libfaketimeMT.so.1"), 4);
        let variables: Vec<_> = command
            .get_envs()
            .filter_map(|(_, value)| value?.to_str())
            .collect();
        assert!(
            variables.contains(&"+3600") && variables.contains(&"/x/libfaketimeMT.so.1"),
            "{variables:?}"
        );
    }
}
