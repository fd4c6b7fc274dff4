//! How a link finds its server: by a fixed address, or by asking Sentinels for the primary.

use std::fmt;
use std::future::pending;
use std::sync::Arc;

use crate::connector::{Connector, RespConnection};
use crate::endpoint::Address;
use crate::error::ServerError;
use crate::sentinel::SentinelGroup;
use crate::server_check::CheckReply;

/// How a link finds its server.
pub(crate) enum ServerLocator {
    /// The server has this address.
    Address(Address),
    /// The server is the primary that these Sentinels report.
    Sentinel(SentinelGroup),
}

impl ServerLocator {
    /// Finds the server and connects to it.
    pub(crate) async fn connect(
        &mut self,
        connector: &Arc<Connector>,
    ) -> Result<(Address, RespConnection, CheckReply), ServerError> {
        let (address, must_be_primary) = match self {
            Self::Address(address) => (address.clone(), false),
            Self::Sentinel(group) => (group.locate().await?, true),
        };

        let connected = connector.within_timeout(&address, async {
            let (mut connection, report) = connector.connect(&address).await?;
            if must_be_primary {
                connection.require_primary().await?;
            }
            Ok((connection, report))
        });
        let (connection, report) = connected.await?;
        Ok((address, connection, report))
    }

    /// Completes when the server at this address is no longer the right one.
    pub(crate) async fn server_changed(&mut self, current: &Address) {
        match self {
            Self::Address(_) => pending().await,
            Self::Sentinel(group) => group.primary_changed(current).await,
        }
    }
}

impl fmt::Display for ServerLocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Sentinel(group) => write!(f, "the primary of {}", group.name),
        }
    }
}
