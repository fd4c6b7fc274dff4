//! The RESP port beside HTTP: the same decision, one by one over HTTP and in pipelines over RESP.

use std::net::SocketAddr;

use anyhow::anyhow;
use testkit::servers::{Client, Reply};

use super::request::{Case, Exchange, Protocol};
use super::servers::start_throttlecrab;
use crate::harness::prelude::*;

/// The name in tables.
pub(super) const NAME: &str = "RESP beside HTTP";
/// One request at a time on each of 32 connections, as in the other cases.
const HTTP: &str = "tollgate, POST /v1/check";
const THROTTLE: &str = "tollgate, CL.THROTTLE, pipelined";
const CHECK: &str = "tollgate, TOLLGATE.CHECK, pipelined";
const THROTTLECRAB_RESP: &str = "throttlecrab-server, THROTTLE, pipelined";

/// The connections of redis-benchmark, and the commands in flight on each.
const CONNECTIONS: usize = 32;
const PIPELINE: usize = 64;
const CASE: Case = Case::Allowed;
const EXCHANGE: Exchange = Exchange {
    protocol: Protocol::Http,
    case: CASE,
};

/// A server and the command that it gets.
struct RespLoad {
    pid: u32,
    program: RedisBenchmark,
}

impl RespLoad {
    /// Fails unless the command is allowed: redis-benchmark does not look at replies.
    fn new(server: SocketAddr, pid: u32, words: &[&str]) -> Result<Self> {
        let client = Client::connect(server).map_err(|error| anyhow!(error));
        let reply = client?.call(words).map_err(|error| anyhow!(error))?;
        let first = reply.items().first().and_then(Reply::as_int);
        // throttlecrab says 1 for allowed, redis-cell 0 for not limited.
        let allowed = i64::from(words[0] == "THROTTLE");
        ensure!(
            first == Some(allowed),
            "unexpected reply to {words:?}: {reply:?}"
        );
        let program = RedisBenchmark::new(server, CONNECTIONS, PIPELINE, words);
        Ok(Self { pid, program })
    }

    fn round(&mut self, length: Duration) -> Result<Figures> {
        let cpu_us = cpu_meter(self.pid);
        let (commands, mut figures) = self.program.round(length)?;
        figures.extend([(REQUESTS, figures[RATE]), (CPU, cpu_us(commands))]);
        Ok(figures)
    }
}

/// Measures all subjects in turn.
pub(super) fn measure(bench: &mut Bench, h2load: &H2load, programs: &[PathBuf]) -> Result<()> {
    let mut process = Process::serve(&programs[0], &CASE.config(None), |command| {
        command.args(["--resp", "127.0.0.1:0"]);
    })?;
    let (http, resp) = (process.announced("http ")?, process.announced("resp ")?);
    let pid = process.pid();
    let server = EXCHANGE.under_load(HTTP, process, http);

    // The same bucket as in the configuration, and its key.
    let throttle = ["CL.THROTTLE", "203.0.113.7", "999999999", "1", "1"];
    let check = ["TOLLGATE.CHECK", "by-client-ip", "203.0.113.7"];
    let mut throttle = RespLoad::new(resp, pid, &throttle)?;
    let mut check = RespLoad::new(resp, pid, &check)?;
    let theirs = start_throttlecrab(bench, "redis")?.map(|(process, server)| {
        let words = ["THROTTLE", "203.0.113.7", "1000000", "1000000", "1"];
        let load = RespLoad::new(server, process.pid(), &words);
        load.map(|load| (process, load))
    });
    let mut theirs = theirs.transpose()?;

    let load = CASE.name();
    let mut pids = vec![pid];
    let mut entrants = vec![
        Entrant::new(HTTP, load, |length| h2load.round(&server, length)),
        Entrant::new(THROTTLE, load, |length| throttle.round(length)),
        Entrant::new(CHECK, load, |length| check.round(length)),
    ];
    if let Some((process, theirs)) = &mut theirs {
        pids.push(process.pid());
        let round = |length| theirs.round(length);
        entrants.push(Entrant::new(THROTTLECRAB_RESP, load, round));
    }
    let length = bench.length;
    let rows = bench.measure(NAME, &pids, entrants)?;
    rows[0].add(h2load.latencies(&server, length)?);
    Ok(())
}

/// Adds the ratios to HTTP and to throttlecrab-server, with their goals.
pub(super) fn compare(report: &mut Report) {
    for (ours, theirs, least) in [
        (THROTTLE, HTTP, 2.0),
        (CHECK, HTTP, 2.0),
        (THROTTLE, THROTTLECRAB_RESP, 1.0),
    ] {
        let pair = [(CASE.name(), ours), (CASE.name(), theirs)];
        let goal = Some(Goal::AtLeast(least));
        report.compare(RatioOf::Medians, REQUESTS, NAME, pair, goal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipelines_are_compared_with_single_requests() {
        let row = |subject, rate| {
            let rounds = vec![Figures::from([(REQUESTS, rate), (CPU, 1.0)])];
            Row::new(NAME, CASE.name(), subject, rounds)
        };
        let rows = [row(HTTP, 10.0), row(THROTTLE, 30.0), row(CHECK, 15.0)];
        let mut report = test_report(&[], 0, rows.into());
        compare(&mut report);
        let found: Vec<_> = report
            .ratios
            .iter()
            .map(|ratio| (ratio.ours.as_str(), ratio.is_missed))
            .collect();
        assert_eq!(found, [(THROTTLE, false), (CHECK, true)]);
    }
}
