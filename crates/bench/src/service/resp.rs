//! The RESP port beside HTTP: the same decision, one by one over HTTP and in pipelines over RESP.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use testkit::processes::{Directory, try_find_program};
use testkit::servers::Client;

use super::THROTTLECRAB;
use super::request::{Case, Exchange, Protocol};
use super::servers::{THROTTLECRAB_VARIABLE, target};
use crate::harness::h2load::{CPU, RATE, cpu_us};
use crate::harness::{
    Bench, Entrant, Figures, Goal, H2load, Process, Ratio, Row, ServerUnderLoad, others, process,
    serve_command, whole,
};
use crate::redis::redis_benchmark::{self, PROGRAM};

/// The name in tables.
pub(super) const NAME: &str = "RESP beside HTTP";
/// One request at a time on each of 32 connections, as in the other cases.
const HTTP: &str = "tollgate, POST /v1/check";
const THROTTLE: &str = "tollgate, CL.THROTTLE, pipelined";
const CHECK: &str = "tollgate, TOLLGATE.CHECK, pipelined";
const THROTTLECRAB_RESP: &str = "throttlecrab-server, THROTTLE, pipelined";

/// The connections of redis-benchmark, and the commands in flight on each.
const LOAD: [&str; 4] = ["-c", "32", "-P", "64"];
/// The number of commands in the first round, before the speed is known.
const FIRST: f64 = 20_000.0;
const CASE: Case = Case::Allowed;
const EXCHANGE: Exchange = Exchange {
    protocol: Protocol::Http,
    case: CASE,
};

/// A server and the command that it gets.
struct RespLoad {
    server: SocketAddr,
    pid: u32,
    words: Vec<&'static str>,
    /// The rate of the last round.
    commands_per_s: Option<f64>,
}

impl RespLoad {
    /// Fails unless the command is allowed: redis-benchmark does not look at replies.
    fn new(server: SocketAddr, pid: u32, words: &[&'static str]) -> Result<Self> {
        let client = Client::connect(server).map_err(|error| anyhow!(error));
        let reply = client?.call(words).map_err(|error| anyhow!(error))?;
        let first = reply
            .items()
            .first()
            .and_then(testkit::servers::Reply::as_int);
        // throttlecrab says 1 for allowed, redis-cell 0 for not limited.
        let allowed = i64::from(words[0] == "THROTTLE");
        ensure!(
            first == Some(allowed),
            "unexpected reply to {words:?}: {reply:?}"
        );
        Ok(Self {
            server,
            pid,
            words: words.to_vec(),
            commands_per_s: None,
        })
    }

    fn round(&mut self, length: Duration) -> Result<Figures> {
        let commands = self
            .commands_per_s
            .map_or(FIRST, |per_s| per_s * length.as_secs_f64());
        let commands = whole(commands.clamp(1_000.0, 1e9));
        let (ip, port) = (self.server.ip().to_string(), self.server.port().to_string());
        let mut command = Command::new(PROGRAM);
        command.args(["-h", &ip, "-p", &port, "--csv", "-n", &commands.to_string()]);
        command.args(LOAD).args(&self.words);

        let before = others::ticks_of(self.pid);
        let mut figures = process::run(&mut command, redis_benchmark::parse)?;
        let rate = figures[crate::harness::callers::RATE];
        self.commands_per_s = Some(rate);
        let requests = u64::try_from(commands)?;
        figures.extend([(RATE, rate), (CPU, cpu_us(self.pid, before, requests))]);
        Ok(figures)
    }
}

/// Measures all subjects in turn.
pub(super) fn measure(bench: &mut Bench, h2load: &H2load, tollgate: &Path) -> Result<()> {
    let directory = Directory::create();
    let mut command = serve_command(tollgate, &directory, &CASE.config(None));
    command.args(["--resp", "127.0.0.1:0"]);
    let sent = EXCHANGE.sent(&directory);
    let mut process = Process::spawn(command, directory)?;
    let (http, resp) = (process.announced("http ")?, process.announced("resp ")?);
    let pid = process.pid();
    let server = ServerUnderLoad {
        name: HTTP.to_owned(),
        target: target(http, EXCHANGE, sent),
        process,
        beside: Vec::new(),
        redis: None,
    };

    // The same bucket as in the configuration, and its key.
    let throttle = ["CL.THROTTLE", "203.0.113.7", "999999999", "1", "1"];
    let check = ["TOLLGATE.CHECK", "by-client-ip", "203.0.113.7"];
    let mut throttle = RespLoad::new(resp, pid, &throttle)?;
    let mut check = RespLoad::new(resp, pid, &check)?;
    let mut throttlecrab = throttlecrab(bench)?;

    let load = CASE.name();
    let mut pids = vec![pid];
    let mut entrants = vec![
        Entrant::new(HTTP, load, |length| h2load.round(&server, length)),
        Entrant::new(THROTTLE, load, |length| throttle.round(length)),
        Entrant::new(CHECK, load, |length| check.round(length)),
    ];
    if let Some((process, theirs)) = &mut throttlecrab {
        pids.push(process.pid());
        entrants.push(Entrant::new(THROTTLECRAB_RESP, load, |length| {
            theirs.round(length)
        }));
    }
    let length = bench.length;
    let rows = bench.measure(NAME, &pids, entrants)?;
    rows[0].add(h2load.latencies(&server.target, length)?);
    Ok(())
}

/// Starts throttlecrab-server, if it is installed.
fn throttlecrab(bench: &mut Bench) -> Result<Option<(Process, RespLoad)>> {
    let Some(program) = try_find_program(THROTTLECRAB_VARIABLE, THROTTLECRAB) else {
        bench.remark(format!(
            "throttlecrab-server not found; to measure it, put it on the PATH or set \
             {THROTTLECRAB_VARIABLE} to its path"
        ));
        return Ok(None);
    };

    // It cannot choose a free port itself.
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let mut command = Command::new(program);
    command.args(["--redis", "--redis-host", "127.0.0.1"]);
    command.args(["--redis-port", &server.port().to_string()]);
    command.args(["--log-level", "error"]);
    let mut process = Process::spawn(command, Directory::create())?;
    process.wait_for(|_| Client::connect(server).ok())?;
    let words = ["THROTTLE", "203.0.113.7", "1000000", "1000000", "1"];
    let load = RespLoad::new(server, process.pid(), &words)?;
    Ok(Some((process, load)))
}

/// Ratios to HTTP and to throttlecrab-server, with their goals.
pub(super) fn ratios(rows: &[Row]) -> Vec<Ratio> {
    let find = |subject: &str| {
        let mut rows = rows.iter().filter(|row| row.case == NAME);
        rows.find(|row| row.subject == subject)
    };
    let pairs = [
        (THROTTLE, HTTP, 2.0),
        (CHECK, HTTP, 2.0),
        (THROTTLE, THROTTLECRAB_RESP, 1.0),
    ];
    let found = pairs.into_iter().filter_map(|(ours, theirs, goal)| {
        let goal = Some(Goal::AtLeast(goal));
        Some(Ratio::of_medians(RATE, find(ours)?, find(theirs)?, goal))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipelines_are_compared_with_single_requests() {
        let row = |subject, rate| {
            let rounds = vec![Figures::from([(RATE, rate), (CPU, 1.0)])];
            Row::new(NAME, CASE.name(), subject, rounds)
        };
        let rows = [row(HTTP, 10.0), row(THROTTLE, 30.0), row(CHECK, 15.0)];
        let ratios = ratios(&rows);
        let found: Vec<_> = ratios
            .iter()
            .map(|ratio| (ratio.ours.as_str(), ratio.is_missed))
            .collect();
        assert_eq!(found, [(THROTTLE, false), (CHECK, true)]);
    }
}
