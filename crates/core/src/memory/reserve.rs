//! Counts, reserves and settles: charges that need not fit, and those that are corrected later.

use std::sync::atomic::Ordering::Relaxed;

use super::context::DemandContext;
use super::counters::{Counters, RETRY_WITHOUT_ROOM};
use super::reservations::{HeldReservation, KnownReservation, Reservations};
use super::shard::{CounterShard, PermitChange};
use super::slot_quota::Evaluation;
use crate::algorithm::{IN_FLIGHT_MAX, Outcome, PermitId, Quota, Verdict};
use crate::demand::Demand;
use crate::key::Fingerprint;
use crate::limit::ReservationExpiry;
use crate::store::{Intent, Settlement, SettlementKind};
use crate::time::Micros;

/// Reservations may use this part of the cap on keys, but at least the number that follows.
const CAP_SHARE: usize = 4;
const RESERVATIONS_MIN: usize = 4_096;

impl Counters {
    /// Charges a demand that is only counted. If it does not fit, its retry time is the one after
    /// the charge.
    #[cold]
    pub(super) fn finish_count(
        &self,
        shard: &mut CounterShard,
        evaluation: &Evaluation,
        context: &DemandContext<'_>,
    ) -> Outcome {
        let outcome = evaluation.outcome;
        if !self.can_count(shard, &outcome, context) {
            let retry_after = RETRY_WITHOUT_ROOM;
            let denied = Verdict::Deny { retry_after };
            let verdict = if outcome.verdict.is_allowed() {
                denied
            } else {
                outcome.verdict
            };
            return Outcome { verdict, ..outcome };
        }

        self.commit(shard, evaluation, context);
        if outcome.verdict.is_allowed() {
            return outcome;
        }
        let index = shard.find(context.fingerprint);
        shard
            .evaluate(index, &context.with_intent(Intent::Peek))
            .outcome
    }

    /// False for a permit beyond what a concurrency limit may owe, or for which there is no room.
    fn can_count(
        &self,
        shard: &mut CounterShard,
        outcome: &Outcome,
        context: &DemandContext<'_>,
    ) -> bool {
        let Quota::Concurrency(quota) = context.quota else {
            return true;
        };
        let index = shard.find(context.fingerprint);
        let held = index.map_or(0, |index| shard.units_in_flight(index));
        let most = quota.limit().saturating_add(context.limit.debt_max());
        let fits = outcome.verdict.is_allowed()
            || held.saturating_add(context.cost) <= most.min(IN_FLIGHT_MAX);
        fits && self.has_room_for_permit(index, context)
    }

    /// Remembers what was just charged.
    pub(super) fn reserve(
        &self,
        shard: &mut CounterShard,
        context: &DemandContext<'_>,
        ttl: Micros,
    ) {
        let (counter, now) = (context.fingerprint, context.now);
        let index = shard.find(counter);
        let Some(index) = index.filter(|_| !matches!(context.quota, Quota::Concurrency(_))) else {
            return;
        };

        let charged_in = shard.charged_in(index, context);
        let bucket = context.quota.bucket();
        let bucket = bucket.map(|gcra| (gcra, shard.bucket(index, gcra, now)));
        self.update_reservations(shard, |reservations| {
            let number = bucket.map_or(0, |(gcra, state)| {
                let marks = reservations.new_marks(counter);
                marks.observe(gcra, now);
                marks.record(gcra, state);
                marks.add()
            });
            let reservation = HeldReservation {
                units: context.cost,
                charged_in,
                number,
                expires: now.after(ttl),
                on_expiry: context.limit.on_reservation_expiry(),
            };
            reservations.insert(counter, context.permit_id, reservation);
        });
    }

    /// Updates the low-water marks of a bucket whose units were just charged or refunded, if it has
    /// reservations.
    pub(super) fn update_marks(shard: &mut CounterShard, context: &DemandContext<'_>) {
        let (counter, now) = (context.fingerprint, context.now);
        if let (Some(gcra), Some(index)) = (context.quota.bucket(), shard.find(counter)) {
            let state = shard.bucket(index, gcra, now);
            let reservations = shard.reservations.as_deref_mut();
            if let Some(marks) = reservations.and_then(|all| all.marks(counter)) {
                marks.observe(gcra, now);
                marks.record(gcra, state);
            }
        }
    }

    /// Returns units that a reservation has charged to a counter, if it exists: at most what it
    /// still lacks because of the reservation.
    fn give_back(
        shard: &mut CounterShard,
        reservation: &HeldReservation,
        units: u64,
        context: &DemandContext<'_>,
    ) {
        let (counter, now) = (context.fingerprint, context.now);
        if let Some(index) = shard.find(counter).filter(|_| units > 0) {
            if let Some(gcra) = context.quota.bucket() {
                let state = shard.bucket(index, gcra, now);
                let reservations = shard.reservations.as_deref_mut();
                if let Some(marks) = reservations.and_then(|all| all.marks(counter)) {
                    marks.observe(gcra, now);
                    let returned = marks.take(reservation.number, gcra.weight(units));
                    let state = gcra.give_back(state, returned, now);
                    marks.record(gcra, state);
                    shard.set_bucket(index, gcra, state);
                }
            } else {
                shard.give_back(index, units, reservation.charged_in, context);
            }
        }
    }

    /// Forgets the low-water marks of a counter whose last reservation has ended.
    fn drop_unused_marks(&self, shard: &mut CounterShard, counter: Fingerprint) {
        self.update_reservations(shard, |reservations| {
            reservations.drop_unused_marks(counter);
        });
    }

    /// Gives back what expired reservations have charged, if the limit says so. `is_final` forgets
    /// them in any case.
    #[inline]
    pub(super) fn release_expired(
        &self,
        demand: &Demand<'_>,
        counter: Fingerprint,
        is_final: bool,
        clock: impl Fn() -> Micros,
    ) {
        let is_released = demand.limit.on_reservation_expiry() == ReservationExpiry::Release;
        if (is_released || is_final) && self.settings.reservations.load(Relaxed) > 0 {
            self.release_expired_at(demand, counter, clock());
        }
    }

    #[cold]
    fn release_expired_at(&self, demand: &Demand<'_>, counter: Fingerprint, now: Micros) {
        let mut shard = self.lock(counter);
        let expired = self.update_reservations(&mut shard, |reservations| {
            reservations.take_expired(counter, now)
        });
        let context = self.peek_context(demand, counter, now);
        let is_released =
            |expired: &HeldReservation| expired.on_expiry == ReservationExpiry::Release;
        for reservation in expired.into_iter().filter(is_released) {
            Self::give_back(&mut shard, &reservation, reservation.units, &context);
        }
        self.drop_unused_marks(&mut shard, counter);
    }

    /// Applies the actual cost of a demand that was reserved.
    pub(super) fn settle(
        &self,
        settlement: &Settlement<'_>,
        id: PermitId,
        now: Micros,
    ) -> SettlementKind {
        let Settlement { demand, actual } = settlement;
        if matches!(demand.quota(), Quota::Concurrency(_)) {
            return if self.change_permit(demand, id, PermitChange::Release, now) {
                SettlementKind::Reserved
            } else {
                SettlementKind::Unreserved
            };
        }

        let counter = self.fingerprinter.fingerprint(&demand.key);
        self.release_expired(demand, counter, true, || now);
        let mut shard = self.lock(counter);
        let known = self.update_reservations(&mut shard, |reservations| {
            reservations.settle(counter, id, now)
        });

        let context = self.context(demand, counter, Intent::Count, id, now);
        let (charged, kind) = match known {
            KnownReservation::Settled => return SettlementKind::Repeated,
            KnownReservation::Unknown => (*actual, SettlementKind::Unreserved),
            KnownReservation::Open(reservation) => {
                let returned = reservation.units.saturating_sub(*actual);
                Self::give_back(&mut shard, &reservation, returned, &context);
                let charged = actual.saturating_sub(reservation.units);
                (charged, SettlementKind::Reserved)
            }
        };
        if charged > 0 {
            let context = context.with_cost(charged);
            let index = shard.find(counter);
            let evaluation = shard.evaluate(index, &context);
            self.commit(&mut shard, &evaluation, &context);
            Self::update_marks(&mut shard, &context);
        }
        self.drop_unused_marks(&mut shard, counter);
        kind
    }

    /// Takes back what a reservation has charged to a counter, as if it had never been made.
    pub(super) fn cancel(&self, demand: &Demand<'_>, id: PermitId, now: Micros) {
        let counter = self.fingerprinter.fingerprint(&demand.key);
        let mut shard = self.lock(counter);
        let removed =
            self.update_reservations(&mut shard, |reservations| reservations.remove(counter, id));
        if let Some(reservation) = removed {
            let context = self.peek_context(demand, counter, now);
            Self::give_back(&mut shard, &reservation, reservation.units, &context);
            self.drop_unused_marks(&mut shard, counter);
        }
    }

    pub(super) fn has_room_for_reservation(&self) -> bool {
        let most = (self.key_cap().max() / CAP_SHARE).max(RESERVATIONS_MIN);
        self.settings.reservations.load(Relaxed) < most
    }

    /// Changes the reservations of a shard, and counts them.
    pub(super) fn update_reservations<T>(
        &self,
        shard: &mut CounterShard,
        update: impl FnOnce(&mut Reservations) -> T,
    ) -> T {
        let reservations = shard.reservations.get_or_insert_default();
        let before = reservations.len();
        let result = update(reservations);
        let after = reservations.len();

        let total = &self.settings.reservations;
        if after >= before {
            total.fetch_add(after - before, Relaxed);
        } else {
            total.fetch_sub(before - after, Relaxed);
        }
        if after == 0 {
            shard.reservations = None;
        }
        result
    }

    pub(super) fn sweep_reservations(&self, shard: &mut CounterShard, now: Micros) {
        if let Some(mut reservations) = shard.reservations.take() {
            let before = reservations.len();
            reservations.sweep(now, |counter| shard.find(counter).is_some());
            let after = reservations.len();
            self.settings
                .reservations
                .fetch_sub(before - after, Relaxed);
            shard.reservations = Some(reservations).filter(|_| after > 0);
        }
    }
}
