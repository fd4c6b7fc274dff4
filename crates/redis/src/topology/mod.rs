//! Which server to ask: the one there is, the primary that Sentinels name, or the one that a key's
//! slot is on.

mod cluster;
mod route;
mod sentinel;
mod slots;

pub(crate) use cluster::Cluster;
pub(crate) use route::Route;
pub(crate) use sentinel::Sentinels;
pub(crate) use slots::{SLOTS, slot_of};

use std::sync::Arc;

use crate::failure::{Cause, Failure};
use crate::lane::Lane;

/// The servers of a store.
#[derive(Debug)]
pub(crate) enum Topology {
    /// One server, or the primary of a group: every key is there.
    Single(Arc<Lane>),
    /// Many, each with its slots.
    Cluster(Cluster),
}

impl Topology {
    /// The lane to the server that has the slot.
    pub(crate) fn lane(&self, slot: u16) -> Result<Arc<Lane>, Failure> {
        match self {
            Self::Single(lane) => Ok(lane.clone()),
            Self::Cluster(cluster) => cluster.lane(slot).ok_or_else(|| {
                Failure::Unavailable(Cause::new(
                    "no server of the cluster is known to have the slot",
                ))
            }),
        }
    }

    /// Every lane there is now.
    pub(crate) fn lanes(&self) -> Vec<Arc<Lane>> {
        match self {
            Self::Single(lane) => vec![lane.clone()],
            Self::Cluster(cluster) => cluster.lanes(),
        }
    }

    pub(crate) const fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }
}
