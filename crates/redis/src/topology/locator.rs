//! How a link finds its server: by a fixed address, or by asking Sentinels for the primary.

use std::fmt;
use std::sync::Arc;

use super::sentinel::SentinelGroup;
use crate::connector::{Connector, RequiredRole, RespConnection};
use crate::endpoint::Address;
use crate::error::ServerError;

/// How a link finds its server.
#[derive(Clone, Debug)]
pub(crate) enum ServerLocator {
    /// The server has this address.
    Address(Address),
    /// The server is the primary that these Sentinels report.
    Sentinel(Arc<SentinelGroup>),
}

impl ServerLocator {
    /// Finds the server and connects to it.
    pub(crate) async fn connect(
        &self,
        connector: &Arc<Connector>,
    ) -> Result<(Address, RespConnection), ServerError> {
        match self {
            Self::Address(address) => {
                let connection = connector.connect(address, RequiredRole::Any).await?;
                Ok((address.clone(), connection))
            }

            Self::Sentinel(sentinels) => sentinels.connect_primary(connector).await,
        }
    }
}

impl fmt::Display for ServerLocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Sentinel(sentinels) => write!(f, "the primary of {}", sentinels.name()),
        }
    }
}
