//! A cluster: primaries that share the slots, and their replicas.
//!
//! - `create`: how nodes become a cluster.
//! - `view`: what a node knows of the others.
//! - `reshard`: how a slot moves.

mod create;
mod reshard;
mod view;

pub use self::create::ClusterBuilder;
use self::view::{Known, view};
use super::{Flavor, Server};

/// How many slots every cluster has.
const SLOTS: u16 = 16_384;

/// The nodes of a cluster, killed when dropped.
///
/// Who is primary of what is asked of the nodes each time, so it is right after a fail-over as
/// well.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Server>,
}

impl Cluster {
    /// Starts a cluster and waits until every node knows every slot and every replica follows its
    /// primary. That takes over two seconds, because a primary takes no writes for so long after
    /// its start.
    ///
    /// Only with three primaries or more are there enough votes to replace one of them.
    ///
    /// # Panics
    ///
    /// When a node does not start or they do not come together.
    pub fn start(flavor: Flavor, primaries: usize, replicas_per_primary: usize) -> Self {
        Self::builder(flavor)
            .primaries(primaries)
            .replicas_per_primary(replicas_per_primary)
            .start()
    }

    /// A cluster to describe first.
    pub fn builder(flavor: Flavor) -> ClusterBuilder {
        ClusterBuilder::new(flavor)
    }

    /// Every node's address as an URL, for a client's configuration.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Server::url).collect()
    }

    /// Every node: first those that began as primaries, by their slots, then those that began as
    /// replicas.
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// The slot of a key.
    ///
    /// # Panics
    ///
    /// When no node answers.
    pub fn slot_of(&self, key: &str) -> u16 {
        let reply = self.awake().must(&["CLUSTER", "KEYSLOT", key]);
        reply
            .as_int()
            .and_then(|slot| u16::try_from(slot).ok())
            .expect("a slot is a small number")
    }

    /// The primary of a slot, as far as the nodes that answer know: of two that claim it, the one
    /// elected last. It may be down.
    ///
    /// # Panics
    ///
    /// When no node answers or nobody claims the slot.
    pub fn primary_of_slot(&self, slot: u16) -> &Server {
        let views = self
            .nodes
            .iter()
            .filter(|node| node.is_awake())
            .flat_map(view);
        let claims = views.filter(|known| known.is_primary() && known.holds(slot));
        let owner = claims
            .max_by_key(|known| known.epoch)
            .expect("somebody claims every slot");
        self.node_at(owner.port)
    }

    /// The nodes that follow a primary, as far as the nodes that answer know.
    ///
    /// # Panics
    ///
    /// When no node answers.
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

    /// Any node that answers.
    fn awake(&self) -> &Server {
        self.nodes
            .iter()
            .find(|node| node.is_awake())
            .expect("a node of the cluster is up")
    }

    fn node_at(&self, port: u16) -> &Server {
        let node = self.nodes.iter().find(|node| node.addr().port() == port);
        node.expect("the nodes know nobody but each other")
    }

    /// The nodes that answer and are primaries in their own eyes.
    fn primaries(&self) -> impl Iterator<Item = &Server> {
        self.nodes
            .iter()
            .filter(|node| node.is_awake() && view(node).iter().any(Known::is_myself_primary))
    }
}
