//! Counts, reserves and settles: charges that need not fit, and those that are corrected later.

use std::sync::atomic::Ordering::Relaxed;

use super::context::DemandContext;
use super::counters::{Counters, RETRY_WITHOUT_ROOM};
use super::inspect::view;
use super::reservations::{HeldReservation, KnownReservation, Reservations};
use super::shard::{LockedShard, PermitChange};
use super::small::{Evaluation, UnitReturn, write_bucket};
use crate::algorithm::{IN_FLIGHT_MAX, LowWaterMarks, Outcome, PermitId, Quota, Verdict};
use crate::demand::Demand;
use crate::key::Fingerprint;
use crate::limit::ReservationExpiry;
use crate::store::{Ending, Intent, SettleReply, Settlement, SettlementKind};
use crate::time::Micros;

/// Reservations may use this part of the cap on keys, but at least the number that follows.
const CAP_SHARE: usize = 4;
const RESERVATIONS_MIN: usize = 4_096;
/// One counter may use this part of them, and no more than the number that follows.
const COUNTER_SHARE: usize = 4;
const COUNTER_RESERVATIONS_MAX: usize = 65_536;

impl Counters {
    /// Charges a demand that is only counted. If it does not fit, its retry time is the one after
    /// the charge.
    #[cold]
    pub(super) fn finish_count(
        &self,
        shard: &mut LockedShard<'_>,
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
        shard.evaluate(&context.with_intent(Intent::Peek)).outcome
    }

    /// False for a permit beyond what a concurrency limit may owe, or for which there is no room.
    fn can_count(
        &self,
        shard: &mut LockedShard<'_>,
        outcome: &Outcome,
        context: &DemandContext<'_>,
    ) -> bool {
        let Quota::Concurrency(quota) = context.quota else {
            return true;
        };
        let held = shard.units_in_flight(context.fingerprint);
        let most = quota
            .limit()
            .saturating_add(context.limit.debt_max(context.quota));
        let fits = outcome.verdict.is_allowed()
            || held.saturating_add(context.cost) <= most.min(IN_FLIGHT_MAX);
        fits && self.has_room_for_permit(shard, context)
    }

    /// Remembers what was just charged.
    pub(super) fn reserve(
        &self,
        shard: &mut LockedShard<'_>,
        context: &DemandContext<'_>,
        ttl: Micros,
    ) {
        let (counter, now) = (context.fingerprint, context.now);
        let Some(charged_in) = shard.charged_in(context) else {
            return;
        };
        let bucket = context.quota.bucket();
        let bucket = bucket.and_then(|gcra| Some((gcra, shard.bucket(gcra, context)?)));
        self.update_reservations(shard, |reservations| {
            let number = bucket.map_or(0, |(gcra, state)| {
                let marks = reservations.new_marks(counter);
                marks.observe(gcra, now);
                marks.record(gcra, state);
                marks.add(gcra, now)
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
    pub(super) fn update_marks(shard: &mut LockedShard<'_>, context: &DemandContext<'_>) {
        let Some(gcra) = context.quota.bucket() else {
            return;
        };
        if shard.reservations().is_some()
            && let Some(state) = shard.bucket(gcra, context)
            && let Some(marks) = Self::marks(shard, context)
        {
            marks.observe(gcra, context.now);
            marks.record(gcra, state);
        }
    }

    /// The low-water marks of a demand's bucket, if it has reservations.
    fn marks<'s>(
        shard: &'s mut LockedShard<'_>,
        context: &DemandContext<'_>,
    ) -> Option<&'s mut LowWaterMarks> {
        let reservations = shard.reservations().as_deref_mut()?;
        reservations.marks(context.fingerprint)
    }

    /// Returns units that a reservation has charged to a counter, if it exists: at most what it
    /// still lacks because of the reservation.
    fn give_back(
        &self,
        shard: &mut LockedShard<'_>,
        reservation: &HeldReservation,
        units: u64,
        context: &DemandContext<'_>,
    ) {
        if units == 0 {
            return;
        }
        let Some(gcra) = context.quota.bucket() else {
            let charged_in = reservation.charged_in;
            let returned = UnitReturn::GiveBack { units, charged_in };
            return shard.return_units(returned, context, &self.key_cap);
        };
        if let Some(state) = shard.bucket(gcra, context)
            && let Some(marks) = Self::marks(shard, context)
        {
            marks.observe(gcra, context.now);
            let returned = marks.take(reservation.number, gcra.weight(units));
            let state = gcra.give_back(state, returned, context.now);
            marks.record(gcra, state);
            shard.set_small(context.fingerprint, write_bucket(gcra, state));
        }
    }

    /// Forgets a counter whose last reservation has ended.
    fn drop_unused(&self, shard: &mut LockedShard<'_>, counter: Fingerprint) {
        self.update_reservations(shard, |reservations| reservations.drop_unused(counter));
    }

    /// Gives back what expired reservations have charged, if the limit says so. `is_final` forgets
    /// them in any case.
    pub(super) fn release_expired(
        &self,
        demand: &Demand<'_>,
        counter: Fingerprint,
        is_final: bool,
    ) {
        let is_any = || self.open_reservations.load(Relaxed) > 0;
        if self.may_release_expired(demand.limit) || is_final && is_any() {
            let mut shard = self.lock(counter);
            let context = DemandContext::peek(demand, counter, self.clock.now());
            self.end_expired(&mut shard, &context);
            self.drop_unused(&mut shard, counter);
        }
    }

    fn end_expired(&self, shard: &mut LockedShard<'_>, context: &DemandContext<'_>) {
        let expired = self.update_reservations(shard, |reservations| {
            reservations.take_expired(context.fingerprint, context.now)
        });
        let is_released =
            |expired: &HeldReservation| expired.on_expiry == ReservationExpiry::Release;
        for reservation in expired.into_iter().filter(is_released) {
            self.give_back(shard, &reservation, reservation.units, context);
        }
    }

    /// Ends a reservation, and applies the actual costs of its demands. The first counter decides
    /// how it ends.
    pub(super) fn settle_all(
        &self,
        settlements: &[Settlement<'_>],
        ending: Ending,
    ) -> Vec<SettleReply> {
        let mut following = Some(ending);
        let mut replies: Vec<SettleReply> = Vec::with_capacity(settlements.len());
        let mut decided: Option<SettleReply> = None;
        for settlement in settlements {
            let demand = &settlement.demand;
            if demand.is_permit() {
                let id = ending.reservation;
                let was_held = self.change_permit(demand, id, PermitChange::Release);
                replies.push(SettleReply::for_permit(was_held, ending.end));
                continue;
            }
            let reply = match (following, decided) {
                (None, Some(first)) => SettleReply {
                    charged: 0,
                    ..first
                },
                (following, _) => self.settle(settlement, following.unwrap_or(ending)),
            };
            if decided.is_none() {
                following = reply.ending_of_others(ending);
                decided = Some(reply);
            }
            replies.push(reply);
        }
        replies
    }

    /// Ends a reservation at one counter, and applies the actual cost.
    fn settle(&self, settlement: &Settlement<'_>, ending: Ending) -> SettleReply {
        let (demand, end) = (&settlement.demand, ending.end);
        let counter = self.fingerprinter.fingerprint(&demand.key);
        let mut shard = self.lock(counter);
        let now = self.clock.now();
        let known = self.update_reservations(&mut shard, |reservations| {
            reservations.end(counter, ending, now)
        });
        let context = DemandContext::new(demand, counter, Intent::Count, ending.reservation, now);
        self.end_expired(&mut shard, &context);

        let (kind, before, more) = match known {
            KnownReservation::Ended(past) => {
                self.drop_unused(&mut shard, counter);
                return SettleReply {
                    kind: SettlementKind::Repeated,
                    end: past.end,
                    charged: past.charged,
                };
            }
            KnownReservation::Unknown => (SettlementKind::Unreserved, 0, settlement.late),
            KnownReservation::Expired(expired) => {
                if expired.on_expiry == ReservationExpiry::Release {
                    self.give_back(&mut shard, &expired, expired.units, &context);
                }
                (SettlementKind::Unreserved, 0, settlement.late)
            }
            KnownReservation::Open(open) => {
                let actual = settlement.actual.unwrap_or(open.units);
                let returned = open.units.saturating_sub(actual);
                self.give_back(&mut shard, &open, returned, &context);
                let more = actual.saturating_sub(open.units);
                (SettlementKind::Reserved, open.units.min(actual), more)
            }
        };

        let charged = before.saturating_add(self.charge_more(&mut shard, &context, more));
        let ends_max = self.reservations_max() / self.shards.len();
        self.update_reservations(&mut shard, |reservations| {
            reservations.remember_end(counter, ending, charged, now);
            reservations.forget_ends_beyond(ends_max);
        });
        self.drop_unused(&mut shard, counter);
        SettleReply { kind, end, charged }
    }

    /// Charges units to a counter whether they fit or not. Returns how many of them were charged:
    /// what the counter would owe beyond its debt is not.
    fn charge_more(
        &self,
        shard: &mut LockedShard<'_>,
        context: &DemandContext<'_>,
        units: u64,
    ) -> u64 {
        if units == 0 {
            return 0;
        }
        let used = |shard: &mut LockedShard<'_>| view(shard, context).map_or(0, |view| view.used);
        let before = used(shard);

        let context = context.with_cost(units);
        let evaluation = shard.evaluate(&context);
        self.commit(shard, &evaluation, &context);
        Self::update_marks(shard, &context);
        used(shard).saturating_sub(before)
    }

    /// Takes back what a reservation has charged to a counter, as if it had never been made.
    pub(super) fn cancel(&self, demand: &Demand<'_>, id: PermitId) {
        let counter = self.fingerprinter.fingerprint(&demand.key);
        let mut shard = self.lock(counter);
        let removed =
            self.update_reservations(&mut shard, |reservations| reservations.remove(counter, id));
        if let Some(reservation) = removed {
            let context = DemandContext::peek(demand, counter, self.clock.now());
            self.give_back(&mut shard, &reservation, reservation.units, &context);
            self.drop_unused(&mut shard, counter);
        }
    }

    /// False if a demand is to be reserved, and too many reservations are open: of its counter, or of
    /// all counters.
    #[inline]
    pub(super) fn has_room_for_reservation(
        &self,
        shard: &mut LockedShard<'_>,
        context: &DemandContext<'_>,
    ) -> bool {
        if !context.intent.is_reserve() || context.is_permit() {
            return true;
        }
        let (open, most) = (
            self.open_reservations.load(Relaxed),
            self.reservations_max(),
        );
        let of_counter = (most / COUNTER_SHARE).min(COUNTER_RESERVATIONS_MAX);
        open < of_counter
            || open < most && {
                let reservations = shard.reservations().as_ref();
                let of_this =
                    reservations.map_or(0, |open| open.outstanding(context.fingerprint).0);
                of_this < of_counter as u64
            }
    }

    /// The most open reservations, and the most ended ones that are remembered.
    fn reservations_max(&self) -> usize {
        (self.key_cap.max() / CAP_SHARE).max(RESERVATIONS_MIN)
    }

    /// Changes the reservations of a shard, and counts them.
    pub(super) fn update_reservations<T>(
        &self,
        shard: &mut LockedShard<'_>,
        update: impl FnOnce(&mut Reservations) -> T,
    ) -> T {
        let slot = shard.reservations();
        let reservations = slot.get_or_insert_default();
        let before = reservations.open();
        let result = update(reservations);
        let after = reservations.open();

        let total = &self.open_reservations;
        if after >= before {
            total.fetch_add(after - before, Relaxed);
        } else {
            total.fetch_sub(before - after, Relaxed);
        }
        if reservations.is_empty() {
            *slot = None;
        }
        result
    }

    pub(super) fn sweep_reservations(&self, shard: &mut LockedShard<'_>, now: Micros) {
        if let Some(mut reservations) = shard.reservations().take() {
            let before = reservations.open();
            reservations.sweep(now, |counter| shard.contains_key(counter));
            let after = reservations.open();
            self.open_reservations.fetch_sub(before - after, Relaxed);
            *shard.reservations() = Some(reservations).filter(|left| !left.is_empty());
        }
    }
}
