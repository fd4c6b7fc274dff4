//! The store that the replicas share: a real Redis, or a real cluster of three.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use testkit::servers::{Cluster, Flavor, Reply, Server};

use super::limits::SECOND_US;
use super::plan::Topology;
use super::windows::ClockOffset;

/// How often the store's time is read to estimate the clock offset.
const TIME_READINGS: usize = 40;
/// The commands that run scripts, as named in the store's command statistics.
const SCRIPT_CALLS: [&str; 3] = ["cmdstat_evalsha", "cmdstat_eval", "cmdstat_fcall"];

pub(super) struct Store {
    servers: Servers,
    /// Script calls counted by a server before it was restarted.
    forgotten: AtomicU64,
}

enum Servers {
    Single(Box<Server>),
    Cluster(Cluster),
}

impl Store {
    pub(super) fn start(topology: Topology) -> Self {
        let servers = match topology {
            Topology::Single => Servers::Single(Box::new(Server::start(Flavor::Redis))),
            Topology::Cluster => Servers::Cluster(Cluster::start(Flavor::Redis, 3, 0)),
        };
        Self {
            servers,
            forgotten: AtomicU64::new(0),
        }
    }

    pub(super) fn topology(&self) -> Topology {
        match self.servers {
            Servers::Single(_) => Topology::Single,
            Servers::Cluster(_) => Topology::Cluster,
        }
    }

    /// The store type in the configuration.
    pub(super) fn kind(&self) -> &'static str {
        match self.servers {
            Servers::Single(_) => "redis",
            Servers::Cluster(_) => "redis-cluster",
        }
    }

    pub(super) fn urls(&self) -> Vec<String> {
        self.nodes().iter().map(Server::url).collect()
    }

    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        self.nodes().iter().map(Server::pid)
    }

    fn nodes(&self) -> &[Server] {
        match &self.servers {
            Servers::Single(server) => std::slice::from_ref(&**server),
            Servers::Cluster(cluster) => cluster.nodes(),
        }
    }

    /// How many scripts all nodes have run so far.
    pub(super) fn script_calls(&self) -> u64 {
        let counted = self
            .nodes()
            .iter()
            .map(|node| calls_of(&node.command(&["INFO", "commandstats"])));
        counted.sum::<u64>() + self.forgotten.load(Relaxed)
    }

    /// Flushes the scripts of all nodes.
    pub(super) fn flush_scripts(&self) {
        self.nodes()
            .iter()
            .for_each(|node| drop(node.command(&["SCRIPT", "FLUSH"])));
    }

    /// Kills every node and restarts it on the same port, empty.
    pub(super) fn restart(&self) {
        self.forgotten.store(self.script_calls(), Relaxed);
        self.nodes().iter().for_each(Server::restart);
    }

    /// The offset of the store's clock from one that began at `start`.
    pub(super) fn offset(&self, start: Instant) -> Option<ClockOffset> {
        let mut client = self.nodes().first()?.client();
        let since_start = || u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
        let mut check_request = || {
            let asked = since_start();
            let reply = client.call(&["TIME"]).ok()?;
            Some(ClockOffset::from_reading(
                asked,
                moment_of(&reply)?,
                since_start(),
            ))
        };
        let answers = (0..TIME_READINGS).filter_map(|_| check_request());
        answers.reduce(ClockOffset::and)
    }
}

/// Parses seconds and microseconds, which are two strings.
fn moment_of(reply: &Reply) -> Option<u64> {
    let [seconds, micros] = reply.items() else {
        return None;
    };
    let number = |reply: &Reply| u64::try_from(reply.as_int()?).ok();
    Some(number(seconds)? * SECOND_US + number(micros)?)
}

fn calls_of(info: &Reply) -> u64 {
    let lines = info.as_str().unwrap_or_default().lines();
    let calls = lines.filter_map(|line| {
        let (command, account) = line.split_once(':')?;
        let calls = account.strip_prefix("calls=")?.split(',').next()?;
        SCRIPT_CALLS
            .contains(&command)
            .then(|| calls.parse::<u64>().ok())?
    });
    calls.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_script_calls_are_counted() {
        let text = "# Commandstats\r\n\
                    cmdstat_evalsha:calls=120,usec=900,usec_per_call=7.50,\
                    rejected_calls=0,failed_calls=1\r\n\
                    cmdstat_eval:calls=3,usec=90,usec_per_call=30.00,\
                    rejected_calls=0,failed_calls=0\r\n\
                    cmdstat_evalsha_ro:calls=9,usec=9\r\n\
                    cmdstat_get:calls=500,usec=90,usec_per_call=0.18,\
                    rejected_calls=0,failed_calls=0\r\n";
        assert_eq!(calls_of(&Reply::Bulk(Some(text.as_bytes().to_vec()))), 123);
        assert_eq!(calls_of(&Reply::Bulk(None)), 0);
    }

    #[test]
    fn a_store_counts_its_calls_over_a_restart_and_tells_the_time() {
        let store = Store::start(Topology::Single);
        let call = || store.nodes()[0].command(&["EVAL", "return 1", "0"]);
        let before = store.script_calls();
        call();
        call();
        store.flush_scripts();
        store.restart();
        call();
        assert_eq!(store.script_calls() - before, 3);
        let origin = crate::timing::now();
        let (first, second) = (store.offset(origin).unwrap(), store.offset(origin).unwrap());
        assert!(first.least_us <= first.most_us, "{first:?}");
        // Both estimate the same clock, so the intervals overlap.
        assert!(
            first.least_us <= second.most_us && second.least_us <= first.most_us,
            "{first:?} {second:?}"
        );
    }

    #[test]
    fn the_time_is_two_strings() {
        let text = |word: &str| Reply::Bulk(Some(word.as_bytes().to_vec()));
        let time = Reply::Array(vec![text("1700000000"), text("000042")]);
        assert_eq!(moment_of(&time), Some(1_700_000_000_000_042));
        assert_eq!(moment_of(&Reply::Int(7)), None);
    }
}
