//! Finds the server for a key: the only server, the primary that Sentinels report, or the owner of
//! the key's slot in a cluster.

mod cluster;

use std::sync::Arc;

use tokio::task::JoinSet;

use self::cluster::ClusterLinks;
use crate::connector::Connector;
use crate::endpoint::Address;
use crate::error::{CallError, ServerError};
use crate::link::ServerLink;
use crate::locator::ServerLocator;

/// The servers of a store. Dropping it closes the connections.
pub(crate) enum ServerTopology {
    /// One server, or the primary of a Sentinel group, which holds all keys.
    Single(Arc<ServerLink>),
    /// The servers of a cluster, each of which owns some of the slots.
    Cluster {
        links: Arc<ClusterLinks>,
        /// The task that keeps the links current. The set aborts it when it is dropped.
        _refresh_task: JoinSet<()>,
    },
}

impl ServerTopology {
    pub(crate) fn single(locator: ServerLocator, connector: &Arc<Connector>) -> Self {
        Self::Single(ServerLink::start(locator, connector))
    }

    pub(crate) fn cluster(seeds: Vec<Address>, connector: &Arc<Connector>) -> Self {
        let links = Arc::new(ClusterLinks::new(seeds, connector.clone()));
        let mut refresh_task = JoinSet::new();
        refresh_task.spawn_on(links.clone().keep_current(), &connector.runtime);

        Self::Cluster {
            links,
            _refresh_task: refresh_task,
        }
    }

    /// The link to the server that owns the slot.
    pub(crate) fn link(&self, slot: u16) -> Result<Arc<ServerLink>, CallError> {
        match self {
            Self::Single(link) => Ok(link.clone()),
            Self::Cluster { links, .. } => links.link(slot).ok_or_else(|| {
                let error = "no server of the cluster is known to own the slot";
                CallError::Unavailable(ServerError::new(error))
            }),
        }
    }

    /// The links to all servers that are known now.
    pub(crate) fn links(&self) -> Vec<Arc<ServerLink>> {
        match self {
            Self::Single(link) => vec![link.clone()],
            Self::Cluster { links, .. } => links.links(),
        }
    }

    /// True when all servers are known, and the links to them are up.
    pub(crate) fn is_complete(&self) -> bool {
        match self {
            Self::Single(link) => link.is_up(),
            Self::Cluster { links, .. } => links.is_complete(),
        }
    }

    /// Requests a refresh of the slot map if the error shows that it is out of date, or that
    /// another server may take over from one that is unavailable.
    pub(crate) fn note_failure(&self, error: &CallError) {
        if let Self::Cluster { links, .. } = self
            && !matches!(
                error,
                CallError::Timeout | CallError::Overloaded | CallError::Refused(_)
            )
        {
            links.request_refresh();
        }
    }

    /// The link for a call that was redirected, and so has certainly not run; and whether the call
    /// needs `ASKING` there. `None` after other errors, and outside of a cluster.
    pub(crate) fn redirect(&self, error: &CallError, slot: u16) -> Option<(Arc<ServerLink>, bool)> {
        let Self::Cluster { links, .. } = self else {
            return None;
        };
        match error {
            CallError::Moved(address) => links.link_to(address).map(|link| (link, false)),
            CallError::Ask(address) => links.link_to(address).map(|link| (link, true)),
            CallError::TryAgain => links.link(slot).map(|link| (link, false)),
            _ => None,
        }
    }
}
