//! The reservations of a shard: what open ones have charged, and how others have ended.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::algorithm::{LowWaterMarks, PermitId, SWEEP_MAX};
use crate::key::Fingerprint;
use crate::limit::ReservationExpiry;
use crate::store::{Ending, ReservationEnd, SETTLED_FOR};
use crate::time::Micros;

/// The most reservations that one sweep of a shard looks at.
const SHARD_SWEEP_MAX: usize = 4_096;
/// With more ends than this, a new one makes the shard forget some that are old enough: more than
/// one, so that their number does not grow.
const ENDS_MIN: usize = 256;
const ENDS_FORGOTTEN: usize = 2;

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

/// What is known of a reservation that is to end.
#[derive(Clone, Copy, Debug)]
pub(super) enum KnownReservation {
    Open(HeldReservation),
    Expired(HeldReservation),
    /// It has ended before.
    Ended(PastEnd),
    /// It was never made, or has been forgotten.
    Unknown,
}

/// How a reservation has ended, and what it has charged in all.
#[derive(Clone, Copy, Debug)]
pub(super) struct PastEnd {
    pub(super) end: ReservationEnd,
    pub(super) charged: u64,
    known_until: Micros,
}

/// The reservations of the counters of a shard.
#[derive(Debug, Default)]
pub(super) struct Reservations {
    counters: BTreeMap<Fingerprint, CounterReservations>,
    /// How many reservations are open.
    open: usize,
    ends: HashMap<ReservationKey, PastEnd>,
    /// The ends, oldest first.
    ends_in_order: VecDeque<ReservationKey>,
    /// The counter at which the next sweep continues.
    swept_to: Fingerprint,
}

/// The open reservations of one counter.
#[derive(Debug, Default)]
struct CounterReservations {
    by_expiry: BTreeMap<(Micros, u128), HeldReservation>,
    expiries: HashMap<u128, Micros>,
    /// The units that they have charged.
    units: u64,
    /// The low-water marks of a bucket.
    marks: Option<LowWaterMarks>,
}

/// A counter, and the number of a reservation.
type ReservationKey = (Fingerprint, u128);

impl Reservations {
    /// How many reservations are open.
    pub(super) const fn open(&self) -> usize {
        self.open
    }

    /// True when nothing is left to remember. A counter whose last reservation is just ending has
    /// no entries, but still its low-water marks.
    pub(super) fn is_empty(&self) -> bool {
        self.counters.is_empty() && self.ends_in_order.is_empty()
    }

    /// The low-water marks of a bucket, if it has reservations.
    pub(super) fn marks(&mut self, counter: Fingerprint) -> Option<&mut LowWaterMarks> {
        self.counters.get_mut(&counter)?.marks.as_mut()
    }

    /// The low-water marks of a bucket that is about to have a reservation.
    pub(super) fn new_marks(&mut self, counter: Fingerprint) -> &mut LowWaterMarks {
        let reservations = self.counters.entry(counter).or_default();
        reservations.marks.get_or_insert_default()
    }

    /// Forgets a counter that has no open reservations.
    pub(super) fn drop_unused(&mut self, counter: Fingerprint) {
        let reservations = self.counters.get(&counter);
        if reservations.is_some_and(|reservations| reservations.by_expiry.is_empty()) {
            self.counters.remove(&counter);
        }
    }

    /// Adds an open reservation of a counter.
    pub(super) fn insert(
        &mut self,
        counter: Fingerprint,
        id: PermitId,
        reservation: HeldReservation,
    ) {
        let reservations = self.counters.entry(counter).or_default();
        let expiry = (reservation.expires, id.get());
        reservations.by_expiry.insert(expiry, reservation);
        reservations.expiries.insert(id.get(), reservation.expires);
        reservations.units = reservations.units.saturating_add(reservation.units);
        self.open += 1;
    }

    /// Removes an open reservation of a counter.
    pub(super) fn remove(&mut self, counter: Fingerprint, id: PermitId) -> Option<HeldReservation> {
        let reservations = self.counters.get_mut(&counter)?;
        let expires = reservations.expiries.remove(&id.get())?;
        let reservation = reservations.by_expiry.remove(&(expires, id.get()))?;
        reservations.units = reservations.units.saturating_sub(reservation.units);
        self.open -= 1;
        Some(reservation)
    }

    /// Ends a reservation of a counter, unless it has ended before.
    pub(super) fn end(
        &mut self,
        counter: Fingerprint,
        ending: Ending,
        now: Micros,
    ) -> KnownReservation {
        let past = self.ends.get(&(counter, ending.reservation.get()));
        if let Some(past) = past.filter(|past| past.known_until > now) {
            return KnownReservation::Ended(*past);
        }
        match self.remove(counter, ending.reservation) {
            Some(open) if open.expires > now || ending.was_open => KnownReservation::Open(open),
            Some(expired) => KnownReservation::Expired(expired),
            None => KnownReservation::Unknown,
        }
    }

    /// Remembers how a reservation has ended, and what it has charged in all.
    pub(super) fn remember_end(
        &mut self,
        counter: Fingerprint,
        ending: Ending,
        charged: u64,
        now: Micros,
    ) {
        if self.ends_in_order.len() >= ENDS_MIN {
            self.forget_ends(ENDS_FORGOTTEN, now);
        }
        let key = (counter, ending.reservation.get());
        let past = PastEnd {
            end: ending.end,
            charged,
            known_until: now.after(SETTLED_FOR),
        };
        if self.ends.insert(key, past).is_none() {
            self.ends_in_order.push_back(key);
        }
    }

    /// Forgets the oldest ends beyond this number: ending such a reservation again is a plain charge.
    pub(super) fn forget_ends_beyond(&mut self, most: usize) {
        while self.ends_in_order.len() > most.max(ENDS_MIN)
            && let Some(key) = self.ends_in_order.pop_front()
        {
            self.ends.remove(&key);
        }
    }

    fn forget_ends(&mut self, most: usize, now: Micros) {
        for _ in 0..most {
            let Some(key) = self.ends_in_order.front() else {
                return;
            };
            if self
                .ends
                .get(key)
                .is_some_and(|past| past.known_until > now)
            {
                return;
            }
            self.ends.remove(key);
            self.ends_in_order.pop_front();
        }
    }

    /// Removes the first reservations of a counter that have expired, at most [`SWEEP_MAX`]. Those
    /// that are left still count.
    pub(super) fn take_expired(
        &mut self,
        counter: Fingerprint,
        now: Micros,
    ) -> Vec<HeldReservation> {
        let Some(reservations) = self.counters.get(&counter) else {
            return Vec::new();
        };
        let by_expiry = reservations.by_expiry.keys().take(SWEEP_MAX);
        let expired = by_expiry.take_while(|(expires, _)| *expires <= now);
        let ids: Vec<PermitId> = expired.map(|(_, id)| PermitId::new(*id)).collect();
        ids.into_iter()
            .filter_map(|id| self.remove(counter, id))
            .collect()
    }

    /// The number of open reservations of a counter, and the units that they have charged.
    pub(super) fn outstanding(&self, counter: Fingerprint) -> (u64, u64) {
        let reservations = self.counters.get(&counter);
        reservations.map_or((0, 0), |open| (open.by_expiry.len() as u64, open.units))
    }

    /// Forgets the open reservations of a counter. Those that have ended stay so.
    pub(super) fn forget(&mut self, counter: Fingerprint) {
        if let Some(reservations) = self.counters.remove(&counter) {
            self.open -= reservations.by_expiry.len();
        }
    }

    /// Forgets some of the reservations that have expired and give nothing back, and of the ends
    /// that are long ago. `exists` tells whether the shard has a counter.
    pub(super) fn sweep(&mut self, now: Micros, mut exists: impl FnMut(Fingerprint) -> bool) {
        self.forget_ends(SHARD_SWEEP_MAX, now);

        let mut over: Vec<ReservationKey> = Vec::new();
        let (mut seen, mut next) = (0, None);
        for (counter, reservations) in self.counters.range(self.swept_to..) {
            if seen >= SHARD_SWEEP_MAX {
                next = Some(*counter);
                break;
            }
            let expired = reservations.by_expiry.iter();
            let expired = expired.take_while(|((expires, _), _)| *expires <= now);
            seen += 1;
            for ((_, id), reservation) in expired.take(SHARD_SWEEP_MAX) {
                seen += 1;
                if reservation.on_expiry == ReservationExpiry::Keep || !exists(*counter) {
                    over.push((*counter, *id));
                }
            }
        }

        self.swept_to = next.unwrap_or_default();
        for (counter, id) in over {
            self.remove(counter, PermitId::new(id));
            self.drop_unused(counter);
        }
    }
}
