//! A cluster: primaries that share the slots, and their replicas.
//!
//! - `create`: creates a cluster.
//! - `view`: what a node knows about the others.
//! - `reshard`: moves slots.

mod create;
mod reshard;
mod view;

pub use self::create::ClusterBuilder;
use self::view::{NodeInfo, view};
use super::{Flavor, Server};

/// The number of slots of every cluster.
const SLOTS: u16 = 16_384;

/// The nodes of a cluster, killed when dropped.
///
/// The roles of nodes are queried each time, so they are correct after a failover as well.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Server>,
}

impl Cluster {
    /// Starts a cluster and waits until every node knows every slot and every replica follows its
    /// primary. That takes over two seconds, because a primary accepts no writes for that long
    /// after its start.
    ///
    /// Only three or more primaries have enough votes to replace one of them.
    ///
    /// # Panics
    ///
    /// If a node does not start or the cluster does not become complete.
    pub fn start(flavor: Flavor, primaries: usize, replicas_per_primary: usize) -> Self {
        Self::builder(flavor)
            .primaries(primaries)
            .replicas_per_primary(replicas_per_primary)
            .start()
    }

    /// Configures a cluster before it starts.
    pub fn builder(flavor: Flavor) -> ClusterBuilder {
        ClusterBuilder::new(flavor)
    }

    /// Every node's address as a URL, for a client's configuration.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Server::url).collect()
    }

    /// All nodes: first those that started as primaries, by their slots, then those that started as
    /// replicas.
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// The slot of a key.
    ///
    /// # Panics
    ///
    /// If no node responds.
    pub fn slot_of(&self, key: &str) -> u16 {
        let reply = self.awake().must(&["CLUSTER", "KEYSLOT", key]);
        reply
            .as_int()
            .and_then(|slot| u16::try_from(slot).ok())
            .expect("a slot is a small number")
    }

    /// The primary of a slot, according to the nodes that respond: of two that claim it, the one
    /// elected last. It may be down.
    ///
    /// # Panics
    ///
    /// If no node responds, or none claims the slot.
    pub fn primary_of_slot(&self, slot: u16) -> &Server {
        let views = self
            .nodes
            .iter()
            .filter(|node| node.is_awake())
            .flat_map(view);

        let claims = views.filter(|known| known.is_primary() && known.holds(slot));
        let owner = claims
            .max_by_key(|known| known.epoch)
            .expect("every slot is claimed by a node");

        self.node_at(owner.port)
    }

    /// The replicas of a primary, according to the nodes that respond.
    ///
    /// # Panics
    ///
    /// If no node responds.
    pub fn replicas_of(&self, primary: &Server) -> Vec<&Server> {
        let known = view(self.awake());
        let id = known
            .iter()
            .find(|known| known.port == primary.addr().port())
            .map(|known| &known.id);
        let followers = known
            .iter()
            .filter(|known| id.is_some() && known.primary.as_ref() == id);
        followers.map(|known| self.node_at(known.port)).collect()
    }

    /// Any node that responds.
    fn awake(&self) -> &Server {
        self.nodes
            .iter()
            .find(|node| node.is_awake())
            .expect("a node of the cluster is up")
    }

    fn node_at(&self, port: u16) -> &Server {
        let node = self.nodes.iter().find(|node| node.addr().port() == port);
        node.expect("the nodes know only each other")
    }

    /// The nodes that respond and consider themselves primaries.
    fn primaries(&self) -> impl Iterator<Item = &Server> {
        self.nodes
            .iter()
            .filter(|node| node.is_awake() && view(node).iter().any(NodeInfo::is_myself_primary))
    }
}
