//! Listeners: how many connections they accept, how long a connection may take, how it ends.
//!
//! Owns sockets and timeouts. Knows nothing of limits or of what requests mean: a [`Front`]
//! or [`StreamFront`] answers them.

mod accept;
mod client_connection;
mod connection;
mod connection_table;
mod front;
mod load;
mod monitored_stream;
mod progress;
mod shed_log;
mod shutdown;
mod timeouts;
mod tls;
mod unread_body;

pub(crate) use accept::run;
pub(crate) use client_connection::{ClientConnection, InFlightRequest, IncompleteRequest};
pub(crate) use front::{Front, ListenProtocol, StreamFront, StreamPort};
pub(crate) use load::{ListenLimits, PortLoad, RequestSlot};
pub(crate) use monitored_stream::MonitoredStream;
pub(crate) use shutdown::{ShutdownHandle, ShutdownPhase, ShutdownSignal};
pub(crate) use tls::PortTls;
pub(crate) use unread_body::discard_unread;
