//! What other clients do at a counter that leases units: count, reserve and settle.

use tollgate::algorithm::SWEEP_MAX;
use tollgate::store::{SETTLED_FOR, SettlementKind};
use tollgate::{Micros, Outcome, PermitId};

use super::counter::{Lender, at};

/// The reservations of a counter.
#[derive(Clone, Debug, Default)]
pub(super) struct Reservations {
    /// Whether units are returned when a reservation expires.
    is_released: bool,
    open: Vec<OpenReservation>,
    /// Reservations that were settled, and until when that is known.
    settled: Vec<(PermitId, i128)>,
}

#[derive(Clone, Copy, Debug)]
struct OpenReservation {
    id: PermitId,
    units: i128,
    charged_in: i128,
    expires: i128,
}

impl Reservations {
    pub(super) fn new(is_released: bool) -> Self {
        Self {
            is_released,
            ..Self::default()
        }
    }

    pub(super) fn forget_open(&mut self) {
        self.open.clear();
    }

    fn take_expired(&mut self, now: i128) -> Vec<OpenReservation> {
        self.open.sort_by_key(|open| (open.expires, open.id.get()));
        let expired = self.open.iter().take_while(|open| open.expires <= now);
        let expired = expired.count().min(SWEEP_MAX);
        self.open.drain(..expired).collect()
    }

    fn take(&mut self, id: PermitId) -> Option<OpenReservation> {
        let index = self.open.iter().position(|open| open.id == id)?;
        Some(self.open.remove(index))
    }

    fn is_settled(&self, id: PermitId, now: i128) -> bool {
        let mut settled = self.settled.iter();
        settled.any(|(other, until)| *other == id && *until > now)
    }
}

impl Lender {
    /// Charges `cost` whether it fits or not.
    pub fn count(&mut self, cost: u64, now: Micros) {
        let (mut seen, is_corrected) = self.updated(now);
        seen.add_counted(i128::from(cost), at(now));
        self.write(seen, is_corrected || cost > 0);
    }

    /// Does the same and compares it with the outcome of a store: if the cost does not fit, the
    /// outcome is that after the charge.
    pub fn confirm_count(
        &mut self,
        cost: u64,
        outcome: &Outcome,
        now: Micros,
    ) -> Result<(), String> {
        let (before, _) = self.updated(now);
        self.count(cost, now);
        let fits = before.fits(cost, at(now));
        let seen = if fits { &before } else { &*self };
        seen.compare(outcome, cost, now)
    }

    /// Spends `cost` if it fits and remembers it for `ttl`, and compares that with the outcome of a
    /// store.
    pub fn confirm_reservation(
        &mut self,
        (cost, ttl): (u64, Micros),
        id: PermitId,
        outcome: &Outcome,
        now: Micros,
    ) -> Result<(), String> {
        let fits = self.updated(now).0.fits(cost, at(now));
        self.confirm_check(cost, true, outcome, now)?;
        self.reservations.take_expired(at(now));

        if fits && cost > 0 {
            let charged_in = self.charged_in(now);
            self.reservations.open.push(OpenReservation {
                id,
                units: i128::from(cost),
                charged_in,
                expires: at(now) + at(ttl),
            });
        }
        Ok(())
    }

    /// Settles a reservation, at most once.
    pub fn settle_reservation(&mut self, actual: u64, id: PermitId, now: Micros) -> SettlementKind {
        let (actual, moment) = (i128::from(actual), at(now));
        let mut seen = self.clone();
        seen.correct(now);
        let mut is_changed = seen.release_expired(now);
        seen.reservations.take_expired(moment);
        let is_repeated = seen.reservations.is_settled(id, moment);

        let open = if is_repeated {
            None
        } else {
            seen.reservations.take(id)
        };
        let charged = match open {
            _ if is_repeated => 0,
            Some(open) => actual - open.units,
            None => actual,
        };
        if let Some(open) = open.filter(|_| charged < 0) {
            seen.give_back(-charged, open.charged_in, moment);
        }
        seen.end_leases(now);
        seen.add_counted(charged.max(0), moment);
        is_changed |= charged != 0;
        if is_changed {
            seen.note_change(now);
        }

        if !is_repeated {
            let until = moment + at(SETTLED_FOR);
            seen.reservations.settled.push((id, until));
        }
        self.reservations = seen.reservations.clone();
        self.write(seen, is_changed);
        match open {
            _ if is_repeated => SettlementKind::Repeated,
            Some(_) => SettlementKind::Reserved,
            None => SettlementKind::Unreserved,
        }
    }

    /// Returns what expired reservations have charged, if the limit says so. Returns whether there
    /// was any.
    pub(super) fn release_expired(&mut self, now: Micros) -> bool {
        if !self.reservations.is_released {
            return false;
        }
        let expired = self.reservations.take_expired(at(now));
        for reservation in &expired {
            self.give_back(reservation.units, reservation.charged_in, at(now));
        }
        !expired.is_empty()
    }
}
