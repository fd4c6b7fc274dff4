//! The subjects. Each of them calls the same server with the store's own script, keys and
//! arguments.

mod bare;
mod redis_benchmark;
mod redis_rs;
mod tollgate;

use std::io;

use super::entrant::{Caller, ConnectedCallers, Entrant, InProcessCallers, Runtime, Subject};
use super::target::Target;
use super::{CROWD, Settings};

pub(super) use self::redis_benchmark::version as redis_benchmark_version;

pub(super) const TOLLGATE: &str = "tollgate";
pub(super) const BARE: &str = "bare";
pub(super) const REDIS_RS: &str = "redis-rs";
pub(super) const PIPELINED: &str = "redis-benchmark -P 16";
pub(super) const UNPIPELINED: &str = "redis-benchmark";

/// The subjects that can be selected by name.
pub(super) const SUBJECTS: [&str; 4] = [TOLLGATE, BARE, REDIS_RS, UNPIPELINED];

/// All subjects for a number of callers and keys. redis-benchmark brings its own callers and is
/// measured once, together with the largest number of callers.
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
    connect: impl Future<Output = io::Result<ConnectedCallers<C>>>,
) -> io::Result<Box<dyn Entrant>> {
    let subject = Subject {
        name,
        runtime: Some(runtime),
    };
    let runtime = runtime.build()?;
    let connected = runtime.block_on(connect)?;
    Ok(Box::new(InProcessCallers::new(
        subject, keys, runtime, connected,
    )))
}

/// What a reader needs to know to interpret the numbers.
pub(super) const NOTES: [&str; 7] = [
    "tollgate: limiter.check(\"api\", key).await on one RedisStore shared by all callers; a token \
     bucket that never denies. Its timeout is one second instead of 10 ms, so that a busy machine \
     makes it slow but does not cause fallback decisions.",
    "bare: one raw TcpStream per caller, which writes a prepared EVALSHA of the same script and \
     reads the reply in the same task. redis-rs: its MultiplexedConnection with default settings, \
     shared by all callers, one Script::invoke_async per decision.",
    "2 workers: Tokio's multi-thread runtime. 1 thread: its current-thread runtime. The server \
     runs on a separate thread.",
    "redis-benchmark: one thread, 50 connections, once with 16 calls in flight on each and once \
     with one. It cannot pass the script's binary argument (which has zero bytes), so the argument \
     is inlined in the first line of its script, `local ARGV = { '...' }`: it sends about 60 bytes \
     less per decision and reads a local instead of a global.",
    "Keys are the same for all subjects and exist on the server before the first round. A caller \
     sends its next call as soon as the previous one is answered. Latencies of redis-benchmark \
     are those of a whole pipeline.",
    "Each round begins with another subject. A ratio is that of the medians, followed by the \
     lowest and the highest ratio of the rounds.",
    "Published figures are those of the runtime that made more decisions with 256 callers; the \
     other is shown for comparison.",
];
