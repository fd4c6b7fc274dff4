//! Replicas: processes of the real server over one store, each with its own ports and configuration
//! file, some with wrong clocks; and whether their retry times are correct: a client that waits exactly
//! as long as a denial says, without competition, must be admitted.

use std::env::consts::ARCH;
use std::net::SocketAddr;
use std::thread;

use serde::Deserialize;
use testkit::processes::try_find_program;
use testkit::reverse_proxy::{self, Response};

use super::cells::{Cell, LIMITS, SECOND_US, refilled};
use super::schedule::HOT_KEY;
use super::store::Store;
use crate::harness::prelude::*;

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

        let mut fleet = Self {
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
    pub(super) fn wait_until_ready(&mut self) -> Result<()> {
        self.replicas.iter_mut().try_for_each(|(process, http)| {
            process.wait_for(|_| {
                let response = check(*http, "/v1/peek", "probe", "1000-per-s", 1);
                response.status == 200 && !response.text().contains("fallback")
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
        drop(self.replicas.remove(replica));
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
    let timeout_ms = cell.case.link().timeout_ms;
    format!(
        "version: 1\n\
         store: {{ type: {store_type}, endpoints: {urls:?}, prefix: \"strictness:\", \
         timeout: {timeout_ms}ms }}\n\
         defaults: {{ consistency: {mode}, on_store_failure: deny, expected_replicas: {replicas} }}\n\
         {LIMITS}"
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

/// The most requests to a replica until it denies one.
const REQUESTS_MAX: usize = 500;
/// Longer retry times are not tried.
const WAIT_MAX: Duration = Duration::from_millis(1_500);

#[derive(Debug, Deserialize)]
struct RetryResponse {
    allowed: bool,
    limits: [RetryLimit; 1],
}

#[derive(Debug, Deserialize)]
struct RetryLimit {
    remaining: u64,
    retry_after_ms: Option<u64>,
}

/// Tries every replica in turn, without other load. On each, sends requests until one is denied,
/// waits for the reported retry time and sends it again.
pub(super) fn try_retry_times(
    replicas: impl Iterator<Item = SocketAddr>,
    cell: &Cell,
) -> Result<Figures> {
    // A cost large enough that it is not refilled faster than requests can be sent.
    let cost = (refilled(&cell.quota(), SECOND_US) / 100).max(1);
    let (mut retries, mut kept) = (0, 0);
    for replica in replicas {
        let send = |cost| -> Result<RetryResponse> {
            let user = format!("key-{HOT_KEY}");
            let response = check(replica, "/v1/check", &user, cell.limit, cost);
            Ok(serde_json::from_slice(&response.body)?)
        };
        if let Some(wait) = retry_time(cost, send)?.filter(|wait| *wait <= WAIT_MAX) {
            pause(wait);
            retries += 1;
            kept += u64::from(send(cost)?.allowed);
        }
    }
    Ok(Figures::from([
        // How many retries were sent, and how many of them were admitted.
        ("retries", float(retries)),
        ("retries_kept", float(kept)),
    ]))
}

/// Takes what remains with one request, where that is known, and the rest bit by bit. Returns the
/// retry time of the first denial of `cost` units.
fn retry_time(cost: u64, send: impl Fn(u64) -> Result<RetryResponse>) -> Result<Option<Duration>> {
    let mut next = cost;
    for _ in 0..REQUESTS_MAX {
        let response = send(next)?;
        let [limit] = response.limits;
        if !response.allowed && next == cost {
            return Ok(limit.retry_after_ms.map(Duration::from_millis));
        }
        next = cost;
        if response.allowed {
            next = limit.remaining.max(cost);
        }
    }
    Ok(None)
}

/// Waits on this thread.
pub(super) fn pause(length: Duration) {
    let end = now() + length;
    let left = || end.saturating_duration_since(now());
    while !left().is_zero() {
        thread::park_timeout(left());
    }
}

#[cfg(test)]
mod tests {
    use super::super::cells::tests::cell;
    use super::super::cells::{Case, Link, Mode};
    use super::*;

    #[test]
    fn a_configuration_names_the_store_the_mode_and_all_limits() {
        let store = Store::start(false, Link::PATIENT);
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

    #[test]
    fn the_first_denial_of_the_cost_has_the_retry_time() {
        // 30 units, of which the first response knows 7.
        let left = std::cell::Cell::new(30_u64);
        let sent = |cost| {
            let allowed = cost <= left.get();
            if allowed {
                left.set(left.get() - cost);
            }
            let remaining = left.get().min(7);
            let retry_after_ms = Some(cost);
            Ok(RetryResponse {
                allowed,
                limits: [RetryLimit {
                    remaining,
                    retry_after_ms,
                }],
            })
        };
        let found = retry_time(2, sent).unwrap();
        assert_eq!((found, left.get()), (Some(Duration::from_millis(2)), 0));
    }
}
