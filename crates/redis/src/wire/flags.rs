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
        }
    }

    pub(super) fn to_byte(self) -> u8 {
        let [one, two, four] = [self.is_shadow, self.needs_reservations, self.is_released];
        u8::from(one) + 2 * u8::from(two) + 4 * u8::from(four)
    }
}

pub(super) fn is_bucket(quota: &Quota) -> bool {
    matches!(quota, Quota::TokenBucket(_) | Quota::LeakyBucket(_))
}
