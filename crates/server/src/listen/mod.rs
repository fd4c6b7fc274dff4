//! Listeners: how many connections they accept, how long a connection may take, how it ends.
//!
//! Owns sockets and timeouts. Knows nothing of limits or of what requests mean: a [`Front`]
//! answers them.

mod accept;
mod connection;
mod front;
mod load;
mod monitored_stream;
mod shutdown;
mod timeouts;
mod tls;

pub(crate) use accept::run;
pub(crate) use front::{Front, ListenProtocol};
pub(crate) use load::{ListenLimits, ServerLoad};
pub(crate) use shutdown::{ShutdownHandle, ShutdownPhase, ShutdownSignal};
pub(crate) use tls::PortTls;
