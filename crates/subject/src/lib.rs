//! Who is asking: the client's address behind trusted proxies, and paths in one spelling.

/// To come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob;
/// To come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clients;
