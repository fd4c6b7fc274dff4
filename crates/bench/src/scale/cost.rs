//! The CPU time that a script call takes on a real server, with reading and writing its socket.

use anyhow::{Context as _, Result};
use testkit::servers::Server;
use tollgate::{Consistency, Limit, Limiter, Rate};
use tollgate_redis::RedisBuilder;

use super::{LEASED, STRICT};
use crate::harness::{Bench, Entrant, Figures, Runtime, connect, float, scripts_run};

/// The keys of a round, each of which is checked twice.
const KEYS: usize = 1_000;
const CASE: &str = "CPU time of a call";
/// The CPU time of a script call, in microseconds.
const CALL_US: &str = "cpu_us_per_call";

/// Measures calls one at a time, so that none shares its costs with others. Returns the
/// microseconds of a call of a strict limit, and of a call that leases units.
pub(super) fn measure(bench: &mut Bench, server: &Server) -> Result<[f64; 2]> {
    let runtime = Runtime::CurrentThread.build()?;
    let limiter = runtime.block_on(limiter(server))?;
    let entrant = |limit: &'static str, cost| {
        let (runtime, limiter, mut keys) = (&runtime, &limiter, 0..);
        Entrant::new(limit, "one at a time", move |_| {
            let keys: Vec<u64> = keys.by_ref().take(KEYS).collect();
            runtime.block_on(check(limiter, limit, cost, &keys))?;
            let before = (cpu_us(server)?, scripts_run(server));
            runtime.block_on(check(limiter, limit, cost, &keys))?;
            let calls = scripts_run(server) - before.1;
            let us = (cpu_us(server)? - before.0) / float(calls);
            Ok(Figures::from([(CALL_US, us)]))
        })
    };

    let entrants = vec![entrant(STRICT, 1), entrant(LEASED, 20)];
    let rows = bench.measure(CASE, &[server.pid()], entrants)?;
    Ok([0, 1].map(|index| rows[index].median(CALL_US)))
}

async fn limiter(server: &Server) -> Result<Limiter> {
    let store = connect(RedisBuilder::standalone(server.url())).await?;
    let plenty = |name| Limit::token_bucket(name, 1_000, Rate::per_second(1_000));
    let limits = [
        plenty(STRICT),
        plenty(LEASED).consistency(Consistency::Leased),
    ];
    Ok(Limiter::new(store, limits)?)
}

async fn check(limiter: &Limiter, limit: &str, cost: u64, keys: &[u64]) -> Result<()> {
    for key in keys {
        let _decision = limiter.check(limit, *key).cost(cost).await?;
    }
    Ok(())
}

/// The CPU time of the server so far, in microseconds.
fn cpu_us(server: &Server) -> Result<f64> {
    let info = server.command(&["INFO", "cpu"]);
    parse_cpu(info.as_str().unwrap_or_default())
}

/// Redis counts the time in user space and in the kernel, in seconds.
fn parse_cpu(info: &str) -> Result<f64> {
    let seconds = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|seconds| seconds.trim().parse::<f64>().ok())
            .with_context(|| format!("INFO cpu has no number {name}"))
    };
    Ok((seconds("used_cpu_user:")? + seconds("used_cpu_sys:")?) * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_the_sum_of_user_and_system_time() {
        let info = "# CPU\r\nused_cpu_sys:0.25\r\nused_cpu_user:1.5\r\nused_cpu_sys_children:9\r\n";
        assert!((parse_cpu(info).unwrap() - 1_750_000.0).abs() < 1e-3);
        let error = parse_cpu("# CPU\r\n").unwrap_err().to_string();
        assert_eq!(error, "INFO cpu has no number used_cpu_user:");
    }
}
