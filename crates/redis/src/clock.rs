//! The clock by which the script decides.

#[cfg(feature = "manual-time")]
use std::sync::Arc;

#[cfg(feature = "manual-time")]
use tollgate::Clock;
use tollgate::lease::LeaseTable;

/// The server's clock, or in tests a clock that is set by hand.
#[derive(Clone, Debug, Default)]
pub(crate) enum CallClock {
    #[default]
    Server,
    #[cfg(feature = "manual-time")]
    Manual(Arc<dyn Clock>),
}

impl CallClock {
    /// Creates the table of this instance's leases. It uses the manual clock if there is one.
    pub(crate) fn lease_table(&self) -> LeaseTable {
        match self {
            Self::Server => LeaseTable::default(),
            #[cfg(feature = "manual-time")]
            Self::Manual(clock) => LeaseTable::new(clock.clone()),
        }
    }

    /// The time to pass to the script, in microseconds. `None` when the script reads the server's
    /// clock.
    pub(crate) fn timestamp(&self) -> Option<String> {
        match self {
            Self::Server => None,
            #[cfg(feature = "manual-time")]
            Self::Manual(clock) => Some(clock.now().get().to_string()),
        }
    }
}
