//! What is measured. Each asks the same server the same question, with the keys and the arithmetic
//! of the store.

mod bare;
mod redis_benchmark;
mod redis_rs;
mod tollgate;

use std::io;

use super::entrant::{Caller, Connected, Entrant, InProcess, Runtime, Subject};
use super::target::Target;
use super::{CROWD, Settings};

pub(super) use self::redis_benchmark::version as redis_benchmark_version;

pub(super) const TOLLGATE: &str = "tollgate";
pub(super) const BARE: &str = "bare";
pub(super) const REDIS_RS: &str = "redis-rs";
pub(super) const PIPELINED: &str = "redis-benchmark -P 16";
pub(super) const UNPIPELINED: &str = "redis-benchmark";

/// What can be chosen by name.
pub(super) const SUBJECTS: [&str; 4] = [TOLLGATE, BARE, REDIS_RS, UNPIPELINED];

/// Everybody who is measured with so many callers over so many keys. redis-benchmark brings a crowd
/// of its own and is measured once, in turn with the largest crowd here.
pub(super) fn entrants(
    settings: &Settings,
    target: &Target,
    keys: u32,
    callers: usize,
) -> io::Result<Vec<Box<dyn Entrant>>> {
    let mut entrants: Vec<Box<dyn Entrant>> = Vec::new();
    for name in [TOLLGATE, BARE, REDIS_RS]
        .into_iter()
        .filter(|name| settings.has(name))
    {
        for runtime in Runtime::ALL {
            entrants.push(match name {
                TOLLGATE => in_process(
                    name,
                    keys,
                    runtime,
                    tollgate::connect(target, keys, callers),
                )?,
                BARE => in_process(name, keys, runtime, bare::connect(target, callers))?,
                _ => in_process(
                    name,
                    keys,
                    runtime,
                    redis_rs::connect(target, keys, callers),
                )?,
            });
        }
    }
    if settings.has(UNPIPELINED) && callers == CROWD {
        entrants.push(Box::new(redis_benchmark::RedisBenchmark::new(
            PIPELINED, 16, target, keys,
        )));
        entrants.push(Box::new(redis_benchmark::RedisBenchmark::new(
            UNPIPELINED,
            1,
            target,
            keys,
        )));
    }
    Ok(entrants)
}

fn in_process<C: Caller>(
    name: &'static str,
    keys: u32,
    runtime: Runtime,
    connect: impl Future<Output = io::Result<Connected<C>>>,
) -> io::Result<Box<dyn Entrant>> {
    let subject = Subject {
        name,
        runtime: Some(runtime),
    };
    let runtime = runtime.build()?;
    let connected = runtime.block_on(connect)?;
    Ok(Box::new(InProcess::new(subject, keys, runtime, connected)))
}

/// What a reader has to know to judge the numbers.
pub(super) const NOTES: [&str; 7] = [
    "tollgate: limiter.check(\"api\", key).await on one RedisStore that all callers share, a token bucket that never refuses. \
     Its deadline is a second instead of 10 ms, so that a busy machine makes it slow and not wrong.",
    "bare: a raw TcpStream for each caller, which writes a ready-made EVALSHA of the same script and reads the answer in the \
     same task. redis-rs: its MultiplexedConnection as it comes, shared by all callers, one Script::invoke_async each.",
    "2 workers: Tokio's multi-thread runtime. 1 thread: its current-thread runtime. The server has a thread of its own.",
    "redis-benchmark: one thread, 50 connections, once with 16 calls on their way on each and once with one. It cannot pass \
     the script's binary argument (a zero byte ends it), so its script has the argument written into the first line, \
     `local ARGV = { '...' }`: it sends about 60 bytes less for each decision and reads a local instead of a global.",
    "Keys are the same for all and known to the server before the first round. Latencies are those of a caller that asks \
     again as soon as it has been answered; redis-benchmark's are those of a whole pipeline.",
    "Each round begins with another subject. A ratio is that of the medians; in brackets, of the rounds, the lowest and the \
     highest.",
    "Published is the runtime that made more decisions with 256 callers; the other stands beside it.",
];
