//! Where a call's moment comes from when it is not the server's.

#[cfg(feature = "manual-time")]
use std::sync::Arc;

#[cfg(feature = "manual-time")]
use tollgate::Clock;
use tollgate::lease::LeaseTable;

/// The server's time, or that of a clock set by hand.
#[derive(Clone, Debug, Default)]
pub(crate) enum CallTime {
    #[default]
    Server,
    #[cfg(feature = "manual-time")]
    Manual(Arc<dyn Clock>),
}

impl CallTime {
    /// What this process holds, by the same time.
    pub(crate) fn leases(&self) -> LeaseTable {
        match self {
            Self::Server => LeaseTable::default(),
            #[cfg(feature = "manual-time")]
            Self::Manual(clock) => LeaseTable::new(clock.clone()),
        }
    }

    /// What to tell the script.
    pub(crate) fn moment(&self) -> Option<String> {
        match self {
            Self::Server => None,
            #[cfg(feature = "manual-time")]
            Self::Manual(clock) => Some(clock.now().get().to_string()),
        }
    }
}
