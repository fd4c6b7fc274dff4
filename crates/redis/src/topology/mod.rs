//! Finds the server for a key: the only server, the primary that Sentinels report, or the owner of
//! the key's slot in a cluster.

mod cluster;
mod hash_slot;
mod locator;
mod sentinel;

pub(crate) use cluster::ClusterLinks;
pub(crate) use hash_slot::{SLOTS, hash_slot};
pub(crate) use locator::ServerLocator;
pub(crate) use sentinel::SentinelGroup;

use std::sync::Arc;

use crate::error::{CallError, ServerError};
use crate::link::ServerLink;

/// The servers of a store.
#[derive(Debug)]
pub(crate) enum ServerTopology {
    /// One server, or the primary of a Sentinel group, which holds all keys.
    Single(Arc<ServerLink>),
    /// The servers of a cluster, each of which owns some of the slots.
    Cluster(ClusterLinks),
}

impl ServerTopology {
    /// The link to the server that owns the slot.
    pub(crate) fn link(&self, slot: u16) -> Result<Arc<ServerLink>, CallError> {
        match self {
            Self::Single(link) => Ok(link.clone()),
            Self::Cluster(cluster) => cluster.link(slot).ok_or_else(|| {
                let error = "no server of the cluster is known to own the slot";
                CallError::Unavailable(ServerError::new(error))
            }),
        }
    }

    /// The links to all servers that are known now.
    pub(crate) fn links(&self) -> Vec<Arc<ServerLink>> {
        match self {
            Self::Single(link) => vec![link.clone()],
            Self::Cluster(cluster) => cluster.links(),
        }
    }

    pub(crate) const fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }
}
