//! The states that do not fit into a slot: logs and leases, which grow with use.

use super::budget::Budget;
use crate::algorithm::{HitLog, Permits};

/// A state of its own size, and what of the store's budget it has taken.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) state: SideState,
    charged: usize,
}

#[derive(Debug)]
pub(super) enum SideState {
    Log(HitLog),
    Permits(Permits),
}

impl Side {
    pub(super) const fn new(state: SideState) -> Self {
        Self { state, charged: 0 }
    }

    /// Squares the budget with the present size. Returns by how much the store is now over its cap.
    pub(super) fn recharge(&mut self, budget: &Budget) -> usize {
        // A key takes about 60 bytes, a hit 16 and a holder 48.
        let weight = match &self.state {
            SideState::Log(log) => log.hits().len().div_ceil(4),
            SideState::Permits(leases) => leases.entries().len(),
        };
        let charged = std::mem::replace(&mut self.charged, weight);
        if weight > charged {
            return budget.take(weight - charged);
        }
        budget.give_back(charged - weight);
        0
    }
}

/// A slab: positions stay valid until removed, and are used again.
#[derive(Debug, Default)]
pub(super) struct Sides {
    sides: Vec<Option<Side>>,
    free: Vec<u32>,
}

impl Sides {
    pub(super) fn get(&self, index: u32) -> Option<&Side> {
        self.sides.get(index as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Side> {
        self.sides.get_mut(index as usize)?.as_mut()
    }

    pub(super) fn insert(&mut self, state: SideState) -> u32 {
        let side = Some(Side::new(state));
        if let Some(index) = self.free.pop() {
            self.sides[index as usize] = side;
            return index;
        }
        self.sides.push(side);
        u32::try_from(self.sides.len() - 1).expect("a shard holds far fewer than 2^32 keys")
    }

    /// Takes a side out and says what it had taken of the budget. When none is left, the memory
    /// goes back.
    pub(super) fn remove(&mut self, index: u32) -> usize {
        let Some(side) = self.sides.get_mut(index as usize).and_then(Option::take) else {
            return 0;
        };
        self.free.push(index);
        if self.free.len() == self.sides.len() {
            *self = Self::default();
        }
        side.charged
    }
}
