//! Moves a slot with its keys to another primary, in the same way as the servers' own tools.

use std::time::Duration;

use super::view::view;
use super::{Cluster, Server};
use crate::wait;

/// The number of keys moved at once.
const BATCH: &str = "100";
/// How long one batch may take, in milliseconds.
const BATCH_LIMIT_MS: &str = "5000";
/// How long it may take until all nodes know the new owner.
const NEWS_LIMIT: Duration = Duration::from_secs(20);

impl Cluster {
    /// Moves a slot with its keys and waits until every node that responds knows about it.
    ///
    /// # Panics
    ///
    /// If a node returns an error, or the target already owns the slot.
    pub fn move_slot(&self, slot: u16, to: &Server) {
        self.begin_move_slot(slot, to);
        self.finish_move_slot(slot, to);
    }

    /// Starts moving a slot. Until [`finish_move_slot`](Self::finish_move_slot) its keys stay where
    /// they are, the old primary replies with `ASK` for keys it does not have, and the new one
    /// serves only clients that send `ASKING`.
    ///
    /// # Panics
    ///
    /// If a node returns an error, or the target already owns the slot.
    pub fn begin_move_slot(&self, slot: u16, to: &Server) {
        let from = self.primary_of_slot(slot);
        assert!(
            from.addr() != to.addr(),
            "slot {slot} already belongs to the target"
        );
        let number = slot.to_string();
        to.must(&["CLUSTER", "SETSLOT", &number, "IMPORTING", &id(from)]);
        from.must(&["CLUSTER", "SETSLOT", &number, "MIGRATING", &id(to)]);
    }

    /// Moves the keys of a slot, assigns it to the new primary and waits until every node that
    /// responds knows about it.
    ///
    /// # Panics
    ///
    /// If a node returns an error.
    pub fn finish_move_slot(&self, slot: u16, to: &Server) {
        let from = self.primary_of_slot(slot);
        move_keys(slot, from, to);
        let (number, owner) = (slot.to_string(), id(to));

        // The new owner is updated first: otherwise no node would serve the slot in between.
        let rest = self
            .primaries()
            .filter(|node| ![from.addr(), to.addr()].contains(&node.addr()));
        for node in [to, from].into_iter().chain(rest) {
            node.must(&["CLUSTER", "SETSLOT", &number, "NODE", &owner]);
        }

        wait::until_true(
            NEWS_LIMIT,
            "every node to know the slot's new primary",
            || {
                let awake = self.nodes.iter().filter(|node| node.is_awake());
                awake.map(view).all(|known| {
                    known
                        .iter()
                        .any(|known| known.id == owner && known.holds(slot))
                })
            },
        );
    }
}

fn move_keys(slot: u16, from: &Server, to: &Server) {
    let (slot, port) = (slot.to_string(), to.addr().port().to_string());
    let mut client = from.client();

    loop {
        let found = from.must(&["CLUSTER", "GETKEYSINSLOT", &slot, BATCH]);
        let keys: Vec<&[u8]> = found
            .items()
            .iter()
            .filter_map(|key| key.as_bytes())
            .collect();

        if keys.is_empty() {
            return;
        }

        let head = [
            "MIGRATE",
            "127.0.0.1",
            &port,
            "",
            "0",
            BATCH_LIMIT_MS,
            "KEYS",
        ];
        let words: Vec<&[u8]> = head
            .iter()
            .map(|word| word.as_bytes())
            .chain(keys)
            .collect();

        let reply = client.call_bytes(&words).expect("the old primary replies");
        assert!(reply.error().is_none(), "cannot move keys: {reply:?}");
    }
}

fn id(node: &Server) -> String {
    let reply = node.must(&["CLUSTER", "MYID"]);
    reply.as_str().expect("an id is a string").to_owned()
}
