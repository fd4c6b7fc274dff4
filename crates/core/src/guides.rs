//! The pages of `docs/` about the library, as documentation and as tests: their code blocks compile
//! and run. `guide/` links to them, so that they are part of the package.

macro_rules! guides {
    ($($(#[doc = $title:literal])+ $name:ident: $page:literal,)*) => {
        $(
            $(#[doc = $title])+
            ///
            #[doc = include_str!(concat!("../guide/", $page))]
            pub mod $name {}
        )*
    };
}

guides! {
    /// Start: limits, checks and decisions.
    start: "start.md",
    /// Which algorithm to choose, and what each guarantees.
    algorithms: "algorithms.md",
    /// Keys: what is counted separately.
    keys: "keys.md",
    /// Several limits in one request.
    several_limits: "several-limits.md",
    /// How replicas share a limit, and what each mode promises.
    consistency: "consistency.md",
    /// While the store is unavailable.
    failure: "failure.md",
    /// Keys that are denied too often are locked.
    lockout: "lockout.md",
    /// Waiting, queues and permits.
    waiting: "waiting.md",
    /// The memory store: bounds, eviction, snapshots.
    memory: "memory.md",
}
