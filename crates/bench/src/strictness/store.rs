//! The store that the replicas share: a real Redis, or a real cluster of three.

use std::slice;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use testkit::fault_proxy::{Fault, FaultProxy};
use testkit::servers::Cluster;

use super::cells::Link;
use super::fleet::pause;
use crate::harness::prelude::*;

pub(super) struct Store {
    /// In front of the only server, if the link is slow.
    proxy: Option<FaultProxy>,
    servers: Servers,
    /// Script calls counted by a server before it was restarted.
    forgotten: AtomicU64,
}

enum Servers {
    Single(Box<Server>),
    Cluster(Cluster),
}

impl Store {
    pub(super) fn start(is_cluster: bool, link: Link) -> Self {
        let servers = if is_cluster {
            Servers::Cluster(Cluster::start(Flavor::Redis, 3, 0))
        } else {
            Servers::Single(Box::new(Server::start(Flavor::Redis)))
        };
        let mut store = Self {
            proxy: None,
            servers,
            forgotten: AtomicU64::new(0),
        };
        if link.delay_ms > 0 {
            let proxy = FaultProxy::start(store.nodes()[0].addr());
            proxy.set(Fault::DelayReplies(Duration::from_millis(link.delay_ms)));
            store.proxy = Some(proxy);
        }
        store
    }

    /// The store type in the configuration.
    pub(super) fn kind(&self) -> &'static str {
        match self.servers {
            Servers::Single(_) => "redis",
            Servers::Cluster(_) => "redis-cluster",
        }
    }

    pub(super) fn urls(&self) -> Vec<String> {
        match &self.proxy {
            Some(proxy) => vec![format!("redis://{}", proxy.addr())],
            None => self.nodes().iter().map(Server::url).collect(),
        }
    }

    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        self.nodes().iter().map(Server::pid)
    }

    fn nodes(&self) -> &[Server] {
        match &self.servers {
            Servers::Single(server) => slice::from_ref(server),
            Servers::Cluster(cluster) => cluster.nodes(),
        }
    }

    /// How many scripts all nodes have run so far.
    pub(super) fn script_calls(&self) -> u64 {
        let calls: u64 = self.nodes().iter().map(scripts_run).sum();
        calls + self.forgotten.load(Relaxed)
    }

    /// Flushes the scripts of all nodes.
    pub(super) fn flush_scripts(&self) {
        for node in self.nodes() {
            node.command(&["SCRIPT", "FLUSH"]);
        }
    }

    /// Freezes every node for this time.
    pub(super) fn freeze(&self, length: Duration) {
        self.nodes().iter().for_each(Server::freeze);
        pause(length);
        self.nodes().iter().for_each(Server::thaw);
    }

    /// Kills every node and restarts it on the same port, empty.
    pub(super) fn restart(&self) {
        self.forgotten.store(self.script_calls(), Relaxed);
        self.nodes().iter().for_each(Server::restart);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_counts_its_calls_over_a_restart() {
        let store = Store::start(false, Link::PATIENT);
        let call = || store.nodes()[0].command(&["EVAL", "return 1", "0"]);
        let before = store.script_calls();
        call();
        call();
        store.flush_scripts();
        store.restart();
        call();
        assert_eq!(store.script_calls() - before, 3);
    }
}
