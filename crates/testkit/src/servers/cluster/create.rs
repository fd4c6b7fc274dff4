//! Creates a cluster: assigns slots, introduces the nodes to each other, and attaches replicas.

use std::time::Duration;

use super::super::sentinel::wait_for_link;
use super::view::{NodeInfo, view};
use super::{Cluster, Flavor, SLOTS, Server};
use crate::wait;

/// How long a node may be silent before the others consider it down.
const NODE_TIMEOUT_MS: &str = "600";
/// How long creating the cluster may take; it usually takes three seconds.
const MEET_LIMIT: Duration = Duration::from_secs(30);

/// How to start one [`Cluster`]. By default it has three primaries and serves even if slots are not
/// covered.
#[derive(Clone, Debug)]
pub struct ClusterBuilder {
    flavor: Flavor,
    primaries: usize,
    replicas_per_primary: usize,
    config: Vec<(String, String)>,
}

impl ClusterBuilder {
    pub(super) fn new(flavor: Flavor) -> Self {
        Self {
            flavor,
            primaries: 3,
            replicas_per_primary: 0,
            config: Vec::new(),
        }
    }

    /// Sets the number of primaries that share the slots.
    #[must_use]
    pub fn primaries(mut self, count: usize) -> Self {
        self.primaries = count;
        self
    }

    /// Sets the number of replicas of each primary.
    #[must_use]
    pub fn replicas_per_primary(mut self, count: usize) -> Self {
        self.replicas_per_primary = count;
        self
    }

    /// Adds a line to every node's configuration file: `.config("cluster-require-full-coverage",
    /// "yes")`.
    #[must_use]
    pub fn config(mut self, name: &str, value: &str) -> Self {
        self.config.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts the nodes and waits until the cluster is complete.
    ///
    /// # Panics
    ///
    /// If there is no primary, a node does not start or the cluster does not become complete.
    pub fn start(self) -> Cluster {
        assert!(self.primaries > 0, "a cluster needs at least one primary");

        let count = self.primaries * (1 + self.replicas_per_primary);
        let nodes: Vec<Server> = (0..count).map(|_| self.start_node()).collect();
        let (primaries, replicas) = nodes.split_at(self.primaries);

        hand_out_slots(primaries);
        introduce(&nodes);
        for (index, replica) in replicas.iter().enumerate() {
            follow(replica, &primaries[index % primaries.len()]);
        }
        replicas.iter().for_each(wait_for_link);

        wait::until_true(MEET_LIMIT, "the cluster to be complete", || {
            nodes.iter().all(|node| is_complete(node, replicas.len()))
        });

        Cluster { nodes }
    }

    fn start_node(&self) -> Server {
        let node = Server::builder(self.flavor)
            .config("cluster-enabled", "yes")
            .config("cluster-node-timeout", NODE_TIMEOUT_MS)
            .config("cluster-require-full-coverage", "no")
            // A replica may take over however long it has been disconnected from its primary, and
            // never migrates to another one.
            .config("cluster-replica-validity-factor", "0")
            .config("cluster-allow-replica-migration", "no");

        let lines = self.config.iter();
        lines
            .fold(node, |node, (name, value)| node.config(name, value))
            .start()
    }
}

/// Assigns equal ranges of slots in order. Every primary also gets a unique epoch, so that none has
/// to be negotiated.
fn hand_out_slots(primaries: &[Server]) {
    let count = primaries.len();
    let bound = |index: usize| usize::from(SLOTS) * index / count;
    for (index, primary) in primaries.iter().enumerate() {
        let (first, last) = (bound(index).to_string(), (bound(index + 1) - 1).to_string());
        primary.must(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]);
        primary.must(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]);
    }
}

/// The first node meets every other one; gossip does the rest.
fn introduce(nodes: &[Server]) {
    let Some((first, others)) = nodes.split_first() else {
        return;
    };

    for other in others {
        first.must(&[
            "CLUSTER",
            "MEET",
            "127.0.0.1",
            &other.addr().port().to_string(),
        ]);
    }

    wait::until_true(MEET_LIMIT, "the nodes to meet", || {
        nodes
            .iter()
            .map(view)
            .all(|known| known.len() == nodes.len() && known.iter().all(NodeInfo::is_met))
    });
}

fn follow(replica: &Server, primary: &Server) {
    let id = primary.must(&["CLUSTER", "MYID"]);
    let id = id.as_str().expect("an id is a string");
    replica.must(&["CLUSTER", "REPLICATE", id]);
}

/// Whether a node serves, and knows the owner of every slot and the primary of every replica.
fn is_complete(node: &Server, replicas: usize) -> bool {
    let known = view(node);
    let assigned: usize = known
        .iter()
        .filter(|known| known.is_primary())
        .map(NodeInfo::slot_count)
        .sum();

    let followers = known
        .iter()
        .filter(|known| known.is_replica() && known.primary.is_some())
        .count();

    assigned == usize::from(SLOTS)
        && followers == replicas
        && node.must(&["CLUSTER", "INFO"]).line("cluster_state") == Some("ok")
}
