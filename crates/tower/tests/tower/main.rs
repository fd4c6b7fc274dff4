//! The middleware as applications meet it: every function of the layer over real `http` types, and
//! stories over sockets with a real Redis.

mod answers;
mod bodies;
mod costs;
mod keys;
mod observed;
mod outgoing;
mod places;
mod queues;
mod refunds;
mod servers;
mod several;
mod stories;
mod support;
mod warnings;
