//! The reservations of a shard: what open ones have charged, and which ones have been settled.

use std::collections::{BTreeSet, HashMap};

use crate::algorithm::{LowWaterMarks, PermitId};
use crate::key::Fingerprint;
use crate::limit::ReservationExpiry;
use crate::store::SETTLED_FOR;
use crate::time::Micros;

/// What an open reservation has charged to one counter.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldReservation {
    pub(super) units: u64,
    /// The window of the charge, or the time of the hit in a log. Zero for a bucket.
    pub(super) charged_in: Micros,
    /// The number of the reservation in the low-water marks of its bucket.
    pub(super) number: u64,
    pub(super) expires: Micros,
    pub(super) on_expiry: ReservationExpiry,
}

/// What is known of a reservation that is to be settled.
#[derive(Clone, Copy, Debug)]
pub(super) enum KnownReservation {
    Open(HeldReservation),
    /// It has been settled before.
    Settled,
    /// It was never made, or has expired.
    Unknown,
}

/// The reservations of the counters of a shard.
#[derive(Debug, Default)]
pub(super) struct Reservations {
    open: HashMap<ReservationKey, HeldReservation>,
    /// The open reservations by counter and expiry.
    expiries: BTreeSet<(Fingerprint, Micros, u128)>,
    /// Until when it is remembered that a reservation has been settled.
    settled: HashMap<ReservationKey, Micros>,
    /// The low-water marks of the buckets that have open reservations.
    marks: HashMap<Fingerprint, LowWaterMarks>,
}

/// A counter, and the number of a reservation.
type ReservationKey = (Fingerprint, u128);

impl Reservations {
    /// How many entries there are: reservations that are open or remembered, and marks.
    pub(super) fn len(&self) -> usize {
        self.open.len() + self.settled.len() + self.marks.len()
    }

    /// The low-water marks of a bucket, if it has reservations.
    pub(super) fn marks(&mut self, counter: Fingerprint) -> Option<&mut LowWaterMarks> {
        self.marks.get_mut(&counter)
    }

    /// The low-water marks of a bucket that is about to have a reservation.
    pub(super) fn new_marks(&mut self, counter: Fingerprint) -> &mut LowWaterMarks {
        self.marks.entry(counter).or_default()
    }

    /// Forgets the marks of a bucket if it has no open reservations.
    pub(super) fn drop_unused_marks(&mut self, counter: Fingerprint) {
        let all = (counter, Micros::ZERO, 0)..=(counter, Micros::new(u64::MAX), u128::MAX);
        if self.expiries.range(all).next().is_none() {
            self.marks.remove(&counter);
        }
    }

    /// Adds an open reservation of a counter.
    pub(super) fn insert(
        &mut self,
        counter: Fingerprint,
        id: PermitId,
        reservation: HeldReservation,
    ) {
        let expiry = (counter, reservation.expires, id.get());
        self.open.insert((counter, id.get()), reservation);
        self.expiries.insert(expiry);
    }

    /// Removes an open reservation of a counter.
    pub(super) fn remove(&mut self, counter: Fingerprint, id: PermitId) -> Option<HeldReservation> {
        let reservation = self.open.remove(&(counter, id.get()))?;
        self.expiries
            .remove(&(counter, reservation.expires, id.get()));
        Some(reservation)
    }

    /// Settles a reservation of a counter, and remembers it.
    pub(super) fn settle(
        &mut self,
        counter: Fingerprint,
        id: PermitId,
        now: Micros,
    ) -> KnownReservation {
        let until = self.settled.get(&(counter, id.get()));
        if until.is_some_and(|until| *until > now) {
            return KnownReservation::Settled;
        }

        let open = self.remove(counter, id);
        self.settled
            .insert((counter, id.get()), now.after(SETTLED_FOR));
        match open.filter(|reservation| reservation.expires > now) {
            Some(reservation) => KnownReservation::Open(reservation),
            None => KnownReservation::Unknown,
        }
    }

    /// Removes the reservations of a counter that have expired. Returns them, the first to expire
    /// first.
    pub(super) fn take_expired(
        &mut self,
        counter: Fingerprint,
        now: Micros,
    ) -> Vec<HeldReservation> {
        let all = (counter, Micros::ZERO, 0)..=(counter, now, u128::MAX);
        let expired: Vec<_> = self.expiries.range(all).copied().collect();
        let ids = expired.into_iter().map(|(_, _, id)| PermitId::new(id));
        ids.filter_map(|id| self.remove(counter, id)).collect()
    }

    /// The number of open reservations of a counter, and the units that they have charged.
    pub(super) fn outstanding(&self, counter: Fingerprint, now: Micros) -> (u64, u64) {
        let later = Micros::new(now.get().saturating_add(1));
        let all = (counter, later, 0)..=(counter, Micros::new(u64::MAX), u128::MAX);
        let open = self.expiries.range(all);
        let reservations = open.filter_map(|(_, _, id)| self.open.get(&(counter, *id)));
        reservations.fold((0, 0), |(count, units), reservation| {
            (count + 1, units.saturating_add(reservation.units))
        })
    }

    /// Forgets the open reservations of a counter. Those that were settled stay so.
    pub(super) fn forget(&mut self, counter: Fingerprint) {
        drop(self.take_expired(counter, Micros::new(u64::MAX)));
        self.marks.remove(&counter);
    }

    /// Forgets the reservations that have expired and give nothing back, and those that were
    /// settled a long time ago. `exists` tells whether the shard has a counter.
    pub(super) fn sweep(&mut self, now: Micros, exists: impl Fn(Fingerprint) -> bool) {
        self.settled.retain(|_, until| *until > now);

        let is_over = |((counter, _), reservation): &(&ReservationKey, &HeldReservation)| {
            let is_kept = reservation.on_expiry == ReservationExpiry::Keep;
            reservation.expires <= now && (is_kept || !exists(*counter))
        };
        let over: Vec<ReservationKey> = self
            .open
            .iter()
            .filter(is_over)
            .map(|(key, _)| *key)
            .collect();
        for (counter, id) in over {
            self.remove(counter, PermitId::new(id));
        }
        let marked: Vec<Fingerprint> = self.marks.keys().copied().collect();
        for counter in marked {
            self.drop_unused_marks(counter);
        }
    }
}
