//! Where a decision or an outcome came from.

/// Where a decision or an outcome came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The store.
    Store,
    /// Units leased from the store in advance.
    Lease,
    /// An earlier denial by the store that still applies.
    DenyCache,
    /// The limit's failure policy, because the store was unavailable.
    Fallback,
    /// A counter of this process: the limit's consistency is
    /// [`Local`](crate::Consistency::Local).
    Local,
    /// An operator's block of the key.
    Block,
    /// An operator's exemption of the key: the limit was not asked.
    Exempt,
}

impl Source {
    /// The name used in response bodies and metrics: `store`, `lease`, `deny_cache`, `fallback`,
    /// `local`, `block` or `exempt`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Lease => "lease",
            Self::DenyCache => "deny_cache",
            Self::Fallback => "fallback",
            Self::Local => "local",
            Self::Block => "block",
            Self::Exempt => "exempt",
        }
    }
}
