//! Integration tests of the middleware: every method of the layer, and end-to-end scenarios over
//! sockets with a real Redis.

mod bodies;
mod costs;
mod keys;
mod multiple_limits;
mod observability;
mod outgoing;
mod permits;
mod queues;
mod refunds;
mod reservations;
mod responses;
mod scenarios;
mod servers;
mod support;
mod warnings;
