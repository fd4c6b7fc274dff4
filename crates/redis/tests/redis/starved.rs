//! Processes that get too little of the processor: a late look at a reply is not a late reply.
//!
//! Each replica is a process of its own, which the tests stop, starve or start all at once.
#![expect(
    clippy::disallowed_methods,
    reason = "the test starves and stops real processes for real time"
)]

use std::fmt;
use std::io::{BufRead as _, BufReader, Write as _};
use std::iter::Sum;
use std::process::{ChildStdin, ChildStdout, Command};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use testkit::processes::{Directory, Process};
use testkit::servers::Server;
use tollgate::{Limit, Limiter};
use tollgate_redis::RedisBuilder;

use crate::common;

/// Environment variables of a replica: the URL of the server, and its settings.
const URL: &str = "TOLLGATE_TEST_STARVED_URL";
const SETTINGS: &str = "TOLLGATE_TEST_STARVED_SETTINGS";
/// The priority of what competes for the processor. The server has a better one.
const NICE: &str = "10";

/// What a replica does, as numbers in a text.
#[derive(Clone, Copy, Debug)]
struct Settings {
    limit: u64,
    callers: u64,
    /// The checks of each caller, unless it is told to stop before.
    checks: u64,
    timeout_ms: u64,
    /// 0 for the default.
    decision_timeout_ms: u64,
}

/// What the replicas have decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    checks: u64,
    allowed: u64,
    degraded: u64,
    /// Calls that failed because the store was late.
    store_timeouts: u64,
    /// Calls that failed because this process was late.
    overloads: u64,
    slowest_ms: u64,
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            limit,
            callers,
            checks,
            timeout_ms,
            decision_timeout_ms,
        } = self;
        write!(
            f,
            "{limit} {callers} {checks} {timeout_ms} {decision_timeout_ms}"
        )
    }
}

impl FromStr for Settings {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let [limit, callers, checks, timeout_ms, decision_timeout_ms] = numbers(text)?;
        Ok(Self {
            limit,
            callers,
            checks,
            timeout_ms,
            decision_timeout_ms,
        })
    }
}

fn numbers<const N: usize>(text: &str) -> Result<[u64; N], String> {
    let numbers: Vec<u64> = text.split(' ').flat_map(str::parse).collect();
    numbers.try_into().map_err(|_| text.to_owned())
}

impl Sum for Tally {
    fn sum<I: Iterator<Item = Self>>(tallies: I) -> Self {
        tallies.fold(Self::default(), |sum, tally| Self {
            checks: sum.checks + tally.checks,
            allowed: sum.allowed + tally.allowed,
            degraded: sum.degraded + tally.degraded,
            store_timeouts: sum.store_timeouts + tally.store_timeouts,
            overloads: sum.overloads + tally.overloads,
            slowest_ms: sum.slowest_ms.max(tally.slowest_ms),
        })
    }
}

/// The program of a replica: opens the store, says so, waits for the start, and checks until it is
/// done or its input ends.
#[test]
#[ignore = "a process that the other tests start"]
fn replica() {
    let (Ok(url), Ok(settings)) = (std::env::var(URL), std::env::var(SETTINGS)) else {
        return;
    };
    let settings: Settings = settings.parse().expect("five numbers");
    let mut builder =
        RedisBuilder::standalone(url).timeout(Duration::from_millis(settings.timeout_ms));
    if settings.decision_timeout_ms > 0 {
        builder = builder.decision_timeout(Duration::from_millis(settings.decision_timeout_ms));
    }

    let runtime = common::runtime();
    let store = runtime.block_on(builder.connect()).expect("a usable store");
    let limit = Limit::fixed_window("api", settings.limit, Duration::from_hours(1));
    let limiter = Arc::new(Limiter::new(store, [limit]).expect("the limits are valid"));
    println!("\nready");
    let input = || std::io::stdin().read_line(&mut String::new());
    assert!(input().is_ok_and(|read| read > 0), "the start");

    let is_stopped = Arc::new(AtomicBool::new(false));
    let flag = is_stopped.clone();
    thread::spawn(move || {
        let _ended = input();
        flag.store(true, Relaxed);
    });
    let callers: Vec<_> = (0..settings.callers)
        .map(|_| runtime.spawn(check(limiter.clone(), settings.checks, is_stopped.clone())))
        .collect();
    let tallies = callers
        .into_iter()
        .map(|caller| runtime.block_on(caller).expect("no caller panics"));
    let tally: Tally = tallies.sum();
    let errors = limiter.health().store_errors;
    println!(
        "tally {} {} {} {} {} {}",
        tally.checks,
        tally.allowed,
        tally.degraded,
        errors.timeout,
        errors.overloaded,
        tally.slowest_ms
    );
}

async fn check(limiter: Arc<Limiter>, checks: u64, is_stopped: Arc<AtomicBool>) -> Tally {
    let mut tally = Tally::default();
    while tally.checks < checks && !is_stopped.load(Relaxed) {
        let start = Instant::now();
        let decision = limiter.check("api", "everyone").await.expect("a decision");
        let took_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        tally.checks += 1;
        tally.allowed += u64::from(decision.is_allowed());
        tally.degraded += u64::from(decision.is_degraded());
        tally.slowest_ms = tally.slowest_ms.max(took_ms);
    }
    tally
}

/// A replica that has opened its store.
struct Replica {
    process: Process,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    _directory: Directory,
}

impl Replica {
    fn start(server: &Server, settings: Settings, nice: &str) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut command = Command::new("nice");
        command
            .args(["-n", nice])
            .arg(program)
            .args(["starved::replica", "--exact", "--ignored", "--nocapture"])
            .env(URL, server.url())
            .env(SETTINGS, settings.to_string());
        let directory = Directory::create();
        let (process, input, output) = Process::spawn_with_pipes(&mut command, directory.path());
        let mut replica = Self {
            process,
            input,
            output: BufReader::new(output),
            _directory: directory,
        };
        replica.read("ready");
        replica
    }

    /// The rest of the first line that begins with this word.
    fn read(&mut self, word: &str) -> String {
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line).expect("text");
            assert!(read > 0, "the replica ended before it said {word}");
            if let Some(rest) = line.strip_prefix(word) {
                return rest.trim().to_owned();
            }
        }
    }

    fn go(&mut self) {
        self.input.write_all(b"go\n").expect("the replica reads");
    }

    /// What it has decided, once it is done.
    fn tally(&mut self) -> Tally {
        let line = self.read("tally");
        let [
            checks,
            allowed,
            degraded,
            store_timeouts,
            overloads,
            slowest_ms,
        ] = numbers(&line).expect("six numbers");
        Tally {
            checks,
            allowed,
            degraded,
            store_timeouts,
            overloads,
            slowest_ms,
        }
    }
}

/// Processes that use all of the processor at the priority of the replicas.
fn busy_loops(count: usize) -> Vec<(Process, Directory)> {
    let busy_loop = || {
        let directory = Directory::create();
        let mut command = Command::new("nice");
        command.args(["-n", NICE, "sh", "-c", "while :; do :; done"]);
        let process = Process::try_spawn(&mut command, directory.path());
        (process.expect("a shell"), directory)
    };
    (0..count).map(|_| busy_loop()).collect()
}

/// Runs replicas at the same time, and returns the sum of their decisions.
fn run(server: &Server, count: usize, settings: Settings, nice: &str) -> Tally {
    let mut replicas: Vec<Replica> = (0..count)
        .map(|_| Replica::start(server, settings, nice))
        .collect();
    replicas.iter_mut().for_each(Replica::go);
    replicas.iter_mut().map(Replica::tally).sum()
}

/// The times are so long that a busy machine does not exceed them, and in the same proportions as
/// the defaults: a stop is much longer than the store may take.
#[test]
fn a_stopped_process_uses_the_replies_that_arrived_meanwhile() {
    let settings = Settings {
        limit: 1_000_000_000,
        callers: 8,
        checks: u64::MAX,
        timeout_ms: 400,
        decision_timeout_ms: 20_000,
    };
    for flavor in common::FLAVORS {
        let server = Server::start(flavor);
        let mut replica = Replica::start(&server, settings, "0");
        replica.go();
        for _ in 0..3 {
            // Time in which it makes calls.
            thread::sleep(Duration::from_millis(100));
            replica.process.freeze();
            thread::sleep(Duration::from_millis(1_200));
            replica.process.thaw();
        }
        replica
            .input
            .write_all(b"stop\n")
            .expect("the replica reads");
        let tally = replica.tally();
        assert!(tally.checks > 0 && tally.degraded == 0, "{tally:?}");
    }
}

/// Starved of the processor by busy loops of the same priority, with the default settings.
#[test]
#[ignore = "needs a machine without other load: cargo xtask faults"]
fn starved_replicas_admit_exactly_the_limit() {
    let settings = Settings {
        limit: 120,
        callers: 10,
        checks: 10,
        timeout_ms: 10,
        decision_timeout_ms: 0,
    };
    for flavor in common::FLAVORS {
        let server = Server::start(flavor);
        let _busy = busy_loops(8);
        let tally = run(&server, 6, settings, NICE);
        println!("{flavor:?}: {tally:?}");
        assert_eq!((tally.allowed, tally.degraded), (120, 0), "{tally:?}");
    }
}

/// The checks of all replicas begin at once, with the default settings.
#[test]
#[ignore = "needs a machine without other load: cargo xtask faults"]
fn a_cold_start_admits_exactly_the_limit() {
    let settings = Settings {
        limit: 1_000,
        callers: 2_500,
        checks: 1,
        timeout_ms: 10,
        decision_timeout_ms: 0,
    };
    for flavor in common::FLAVORS {
        let server = Server::start(flavor);
        let tally = run(&server, 4, settings, "0");
        println!("{flavor:?}: {tally:?}");
        assert_eq!((tally.allowed, tally.degraded), (1_000, 0), "{tally:?}");
    }
}
