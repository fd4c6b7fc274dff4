//! The way to a server: to an address, or to whatever is the primary now.

use std::fmt;
use std::sync::Arc;

use super::sentinel::Sentinels;
use crate::access::{Connection, Role, SharedAccess};
use crate::endpoint::Address;
use crate::failure::Cause;

/// The way to a server.
#[derive(Clone, Debug)]
pub(crate) enum Route {
    /// It is there.
    Direct(Address),
    /// Sentinels know.
    ByName(Arc<Sentinels>),
}

impl Route {
    /// The server, ready to be asked.
    pub(crate) async fn reach(
        &self,
        access: &SharedAccess,
    ) -> Result<(Address, Connection), Cause> {
        match self {
            Self::Direct(address) => {
                let connection = access.reach(address, Role::Any).await?;
                Ok((address.clone(), connection))
            }
            Self::ByName(sentinels) => sentinels.reach_primary(access).await,
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct(address) => address.fmt(f),
            Self::ByName(sentinels) => write!(f, "the primary of {}", sentinels.name()),
        }
    }
}
