//! What the script must know of a demand besides its numbers.

use tollgate::{Demand, Quota, ReservationExpiry};

use super::operation::Operation;

/// What the script must know of a demand besides its numbers.
#[derive(Clone, Copy)]
pub(super) struct DemandFlags {
    pub(super) is_shadow: bool,
    /// The reservations of the counter are read.
    pub(super) needs_reservations: bool,
    /// What expired reservations have charged is returned.
    pub(super) is_released: bool,
    /// The limit has a lockout, which denials count towards, or which the outcome shows.
    pub(super) has_lockout: bool,
}

impl DemandFlags {
    pub(super) fn new(operation: Operation, demand: &Demand<'_>) -> Self {
        let is_released = demand.limit.on_reservation_expiry() == ReservationExpiry::Release;
        let is_reservation = matches!(
            operation,
            Operation::Reserve | Operation::Settle | Operation::Inspect
        );
        let is_permit = matches!(demand.quota(), Quota::Concurrency(_));
        // A refund lowers the low-water marks of a bucket.
        let is_lowering = operation == Operation::Refund && is_bucket(demand.quota());
        Self {
            is_shadow: demand.limit.is_shadow(),
            needs_reservations: !is_permit && (is_reservation || is_released || is_lowering),
            is_released: !is_permit && is_released,
            has_lockout: operation.has_lockouts() && demand.limit.lockout().is_some(),
        }
    }

    pub(super) fn to_byte(self) -> u8 {
        let [one, two] = [self.is_shadow, self.needs_reservations].map(u8::from);
        let [four, eight] = [self.is_released, self.has_lockout].map(u8::from);
        one + 2 * two + 4 * four + 8 * eight
    }
}

pub(super) fn is_bucket(quota: &Quota) -> bool {
    matches!(quota, Quota::TokenBucket(_) | Quota::LeakyBucket(_))
}
