//! Reservations: an estimate is charged, and corrected when the actual cost is known.

use tollgate::algorithm::SWEEP_MAX;
use tollgate::store::{ReservationEnd, Settlement, SettlementKind};
use tollgate::{DemandBuf, Limit, Micros, ReservationExpiry, Rule};

use super::scene::{SHORT, Scene, check, long, passes, short};
use crate::differential::Kind;

/// Longer than any test.
const OPEN: Micros = Micros::from_secs(3_600);
/// Short enough to wait for.
const BRIEF: Micros = Micros::from_millis(60);

fn released(limit: Limit) -> Limit {
    limit.on_reservation_expiry(ReservationExpiry::Release)
}

/// Reserves 4 of 10 and settles them, and returns what is left.
fn settled(scene: &Scene<'_>, rule: &Rule, actual: u64) -> u64 {
    let id = scene.new_permit_id();
    let reserved = scene.reserve(rule, 4, OPEN, id);
    assert!(passes(&reserved), "{reserved:?}");
    assert_eq!(reserved.remaining, 6);
    assert_eq!(scene.left(rule), 6);

    assert_eq!(scene.settle(rule, 4, actual, id), SettlementKind::Reserved);
    scene.left(rule)
}

pub(super) fn settles_for_less(scene: &Scene<'_>, kind: Kind) {
    let [some, none] = ["some", "none"].map(|part| scene.rule(part, long(kind, 10)));
    assert_eq!(settled(scene, &some, 1), 9);
    assert_eq!(settled(scene, &none, 0), 10);
}

pub(super) fn settles_for_as_much(scene: &Scene<'_>, kind: Kind) {
    let rule = scene.rule("all", long(kind, 10));
    assert_eq!(settled(scene, &rule, 4), 6);
}

/// All of the actual cost is charged, but the counter owes at most its debt.
pub(super) fn settles_for_more(scene: &Scene<'_>, kind: Kind) {
    let rule = scene.rule("all", long(kind, 10));
    assert_eq!(settled(scene, &rule, 7), 3);

    let rule = scene.rule("owing", long(kind, 10));
    assert_eq!(settled(scene, &rule, 13), 0);
    scene.refund(&rule, 4);
    assert_eq!(scene.left(&rule), 1, "thirteen of ten were used");

    let rule = scene.rule_with("debt-max", long(kind, 10), |limit| limit.debt_max(2));
    assert_eq!(settled(scene, &rule, u64::MAX), 0);
    scene.refund(&rule, 3);
    assert_eq!(scene.left(&rule), 1, "twelve of ten were used");
}

pub(super) fn settles_once(scene: &Scene<'_>, kind: Kind) {
    let rule = scene.rule("all", long(kind, 10));
    let id = scene.new_permit_id();
    scene.reserve(&rule, 4, OPEN, id);
    assert_eq!(scene.settle(&rule, 4, 2, id), SettlementKind::Reserved);
    for actual in [2, 9] {
        let repeated = scene.settle(&rule, 4, actual, id);
        assert_eq!(repeated, SettlementKind::Repeated);
        assert_eq!(scene.left(&rule), 8);
    }
}

/// The kind and the end of a reservation of one counter, ended in this way.
fn end(
    scene: &Scene<'_>,
    rule: &Rule,
    id: tollgate::PermitId,
    end: ReservationEnd,
) -> (SettlementKind, ReservationEnd) {
    let demand = four_of(rule);
    let settlement = match end {
        ReservationEnd::Settled => Settlement::fixed(demand.as_demand()),
        ReservationEnd::Cancelled => Settlement::new(demand.as_demand(), 0),
    };
    let reply = scene.end(&[settlement], id, end)[0];
    (reply.kind, reply.end)
}

/// A cost that was fixed is settled, too, so that a cancellation does not return it.
pub(super) fn the_first_end_counts(scene: &Scene<'_>, kind: Kind) {
    use ReservationEnd::{Cancelled, Settled};
    for (first, left) in [(Settled, 6), (Cancelled, 10)] {
        let rule = scene.rule(&format!("{first:?}"), long(kind, 10));
        let id = scene.new_permit_id();
        scene.reserve(&rule, 4, OPEN, id);
        let ended = end(scene, &rule, id, first);
        assert_eq!(ended, (SettlementKind::Reserved, first));
        assert_eq!(scene.left(&rule), left);
        assert_eq!(scene.reserved(&rule), (0, 0), "it is no longer open");

        for later in [Settled, Cancelled, Settled] {
            let repeated = end(scene, &rule, id, later);
            assert_eq!(repeated, (SettlementKind::Repeated, first));
            assert_eq!(scene.left(&rule), left);
        }
    }
}

/// The reply tells what the reservation has charged in all, also when it is repeated.
pub(super) fn what_was_charged_is_told(scene: &Scene<'_>, kind: Kind) {
    for (actual, charged) in [(1, 1), (4, 4), (7, 7), (13, 12), (u64::MAX, 12)] {
        let rule = scene.rule_with(&format!("{actual}"), long(kind, 10), |limit| {
            limit.debt_max(2)
        });
        let id = scene.new_permit_id();
        scene.reserve(&rule, 4, OPEN, id);
        let demand = four_of(&rule);
        for _ in 0..2 {
            let settlement = Settlement::new(demand.as_demand(), actual);
            let reply = scene.end(&[settlement], id, ReservationEnd::Settled)[0];
            assert_eq!(reply.charged, charged, "{actual}");
        }
    }
}

/// What one counter remembers decides for all, and a repetition completes what was left undone.
pub(super) fn the_first_counter_decides(scene: &Scene<'_>) {
    use ReservationEnd::{Cancelled, Settled};
    let rules = Kind::ALL.map(|kind| scene.rule(&format!("{kind:?}"), long(kind, 10)));
    let demands: Vec<DemandBuf> = rules.iter().map(four_of).collect();
    let id = scene.new_permit_id();
    scene.reserve_all(&demands, OPEN, id);

    // A settlement that reached one counter only.
    let all: Vec<Settlement<'_>> = demands
        .iter()
        .map(|demand| Settlement::new(demand.as_demand(), 1))
        .collect();
    scene.end(&all[..1], id, Settled);
    let cancelled = scene.end(&all, id, Cancelled);
    let units = || cancelled.iter().take(7);
    assert!(units().all(|reply| reply.kind == SettlementKind::Repeated));
    assert!(units().all(|reply| reply.end == Settled));
    let left = |index: usize| scene.left(&rules[index]);
    assert_eq!(
        (left(0), left(1), left(6)),
        (9, 6, 6),
        "nothing is returned"
    );

    let settled = scene.end(&all, id, Settled);
    let kinds: Vec<SettlementKind> = settled.iter().take(7).map(|reply| reply.kind).collect();
    assert_eq!(kinds[0], SettlementKind::Repeated);
    assert_eq!(kinds[1..], [SettlementKind::Reserved; 6]);
    assert!((0..7).all(|index| left(index) == 9));
}

/// No call ends more than a few reservations that have expired; the others count until then. In
/// real time some might expire before the last is made.
pub(super) fn a_call_ends_some_expired_reservations(scene: &Scene<'_>) {
    if !scene.is_exact() {
        return;
    }
    for kind in Kind::ALL
        .into_iter()
        .filter(|kind| *kind != Kind::Concurrency)
    {
        let rule = scene.rule_with(&format!("{kind:?}"), long(kind, 100), released);
        for _ in 0..2 * SWEEP_MAX + 6 {
            scene.reserve(&rule, 1, BRIEF, scene.new_permit_id());
        }
        scene.wait(BRIEF);
        for open in [38, 6, 0] {
            assert_eq!(scene.reserved(&rule), (open, open), "{kind:?}");
        }
        // A bucket may get slightly less back, because it keeps only some low-water marks.
        let left = scene.left(&rule);
        let is_bucket = matches!(
            kind,
            Kind::TokenBucket | Kind::LeakyMeter | Kind::LeakyQueue
        );
        assert!(left == 100 || is_bucket && left > 90, "{kind:?}: {left}");
    }
}

pub(super) fn an_unknown_reservation_is_charged(scene: &Scene<'_>, kind: Kind) {
    let rule = scene.rule("all", long(kind, 10));
    let id = scene.new_permit_id();
    assert_eq!(scene.settle(&rule, 4, 3, id), SettlementKind::Unreserved);
    assert_eq!(scene.left(&rule), 7);
    assert_eq!(scene.settle(&rule, 4, 3, id), SettlementKind::Repeated);
    assert_eq!(scene.left(&rule), 7);
}

pub(super) fn a_denied_reservation_takes_nothing(scene: &Scene<'_>, kind: Kind) {
    let rule = scene.rule("all", long(kind, 10));
    scene.spend(&rule, 7);
    let id = scene.new_permit_id();
    assert!(!passes(&scene.reserve(&rule, 4, OPEN, id)));
    assert_eq!(scene.left(&rule), 3);
    assert_eq!(scene.settle(&rule, 4, 2, id), SettlementKind::Unreserved);
    assert_eq!(scene.left(&rule), 1, "the actual cost is a plain charge");
}

pub(super) fn an_expired_reservation_is_kept(scene: &Scene<'_>, kind: Kind) {
    let rule = scene.rule("all", long(kind, 10));
    let id = scene.new_permit_id();
    scene.reserve(&rule, 4, BRIEF, id);
    scene.wait(BRIEF);
    assert_eq!(scene.left(&rule), 6, "the estimate stays charged");
    assert_eq!(scene.settle(&rule, 4, 1, id), SettlementKind::Unreserved);
    assert_eq!(scene.left(&rule), 5, "the actual cost is a plain charge");
}

pub(super) fn an_expired_reservation_is_released(scene: &Scene<'_>, kind: Kind) {
    let rule = scene.rule_with("all", long(kind, 10), released);
    let id = scene.new_permit_id();
    scene.reserve(&rule, 4, BRIEF, id);
    if scene.is_exact() {
        scene.wait(BRIEF.since(Micros::new(1)));
        assert_eq!(scene.left(&rule), 6, "it is open for another microsecond");
        scene.wait(Micros::new(1));
    } else {
        scene.wait(BRIEF);
    }

    assert_eq!(scene.left(&rule), 10);
    assert_eq!(scene.settle(&rule, 4, 1, id), SettlementKind::Unreserved);
    assert_eq!(scene.left(&rule), 9);
}

pub(super) fn a_reset_forgets_reservations(scene: &Scene<'_>, kind: Kind) {
    let rule = scene.rule_with("all", long(kind, 10), released);
    let ids = [OPEN, BRIEF].map(|ttl| {
        let id = scene.new_permit_id();
        scene.reserve(&rule, 4, ttl, id);
        id
    });
    scene.reset(&rule);
    assert_eq!(scene.left(&rule), 10);
    scene.spend(&rule, 5);

    scene.wait(BRIEF);
    assert_eq!(scene.left(&rule), 5, "nothing is left to be released");
    assert_eq!(
        ids.map(|id| scene.settle(&rule, 4, 1, id)),
        [SettlementKind::Unreserved; 2]
    );
    assert_eq!(scene.left(&rule), 3);
}

fn four_of(rule: &Rule) -> DemandBuf {
    check(rule, "ann", 4)
}

/// One limit without room keeps the others from being reserved, whatever their order.
pub(super) fn all_or_nothing(scene: &Scene<'_>) {
    for kind in Kind::ALL {
        let narrow = scene.rule(&format!("narrow-{kind:?}"), long(kind, 4));
        let wide =
            Kind::ALL.map(|other| scene.rule(&format!("wide-{kind:?}-{other:?}"), long(other, 10)));
        scene.spend(&narrow, 1);

        let mut demands: Vec<DemandBuf> = wide.iter().map(four_of).collect();
        for position in [0, 4, 8] {
            demands.insert(position, four_of(&narrow));
            let id = scene.new_permit_id();
            let denied = scene.reserve_all(&demands, OPEN, id).outcomes;
            assert!(!passes(&denied[position]), "{denied:?}");
            demands.remove(position);

            assert!(wide.iter().all(|rule| scene.left(rule) == 10));
            assert_eq!(scene.left(&narrow), 3);
        }
    }
}

/// Requests, tokens and requests in flight together: each demand has its own actual cost.
pub(super) fn all_algorithms_settle_together(scene: &Scene<'_>) {
    let rules = Kind::ALL.map(|kind| scene.rule(&format!("{kind:?}"), long(kind, 10)));
    let demands: Vec<DemandBuf> = rules.iter().map(four_of).collect();
    let id = scene.new_permit_id();
    let reserved = scene.reserve_all(&demands, OPEN, id).outcomes;
    let took_four = |outcome: &tollgate::Outcome| passes(outcome) && outcome.remaining == 6;
    assert!(reserved.iter().all(took_four), "{reserved:?}");

    let actuals: Vec<(DemandBuf, u64)> = demands.into_iter().zip(1..).collect();
    let kinds = scene.settle_all(&actuals, id);
    assert_eq!(kinds, [SettlementKind::Reserved; 8]);
    let left = rules.map(|rule| scene.left(&rule));
    assert_eq!(left, [9, 8, 7, 6, 5, 4, 3, 10], "permits are released");

    let repeated = scene.settle_all(&actuals[..7], id);
    assert_eq!(repeated, [SettlementKind::Repeated; 7]);
}

pub(super) fn a_settled_permit_is_released(scene: &Scene<'_>) {
    let rule = scene.rule("all", long(Kind::Concurrency, 10));
    let id = scene.new_permit_id();
    assert_eq!(scene.reserve(&rule, 4, OPEN, id).remaining, 6);
    assert_eq!(scene.settle(&rule, 4, 9, id), SettlementKind::Reserved);
    assert_eq!(scene.left(&rule), 10);
    assert_eq!(scene.settle(&rule, 4, 9, id), SettlementKind::Unreserved);
    assert!(!scene.release(&rule, id), "it has already ended");
    assert_eq!(scene.left(&rule), 10);
}

/// Units that were reserved in a window that has ended are gone with it. In real time another
/// window might begin before the last step.
pub(super) fn nothing_is_returned_to_a_later_window(scene: &Scene<'_>) {
    let kinds = [
        Kind::FixedFirstHit,
        Kind::FixedCalendar,
        Kind::SlidingWindow,
        Kind::SlidingLog,
    ];
    for kind in kinds {
        let window = match kind {
            Kind::FixedCalendar => Micros::from_secs(1),
            _ => Micros::from_duration_ceil(SHORT).expect("a short window"),
        };
        check_nothing_returns(scene, kind, Micros::new(2 * window.get()));
    }
}

/// A bucket that has been full since then does not get reserved units back: they were refilled.
pub(super) fn nothing_is_returned_that_was_refilled(scene: &Scene<'_>) {
    for kind in [Kind::TokenBucket, Kind::LeakyMeter, Kind::LeakyQueue] {
        let refilled = Micros::from_duration_ceil(SHORT).expect("a short window");
        check_nothing_returns(scene, kind, refilled);
    }
}

/// Reserves 4 of 10 units and waits until they are free again, whatever becomes of the reservation:
/// neither a settlement nor its expiry returns them once more.
fn check_nothing_returns(scene: &Scene<'_>, kind: Kind, free_after: Micros) {
    for (part, is_settled) in [("settled", true), ("expired", false)] {
        let part = format!("{part}-{kind:?}");
        let rule = scene.rule_with(&part, short(kind, 10), released);
        let ttl = if is_settled { OPEN } else { free_after };

        let id = scene.new_permit_id();
        scene.reserve(&rule, 4, ttl, id);
        scene.wait(free_after);
        let spent = scene.spend(&rule, 5);
        assert_eq!(spent.remaining, 5, "{part}");

        if is_settled {
            assert_eq!(scene.settle(&rule, 4, 0, id), SettlementKind::Reserved);
        }
        let left = scene.left(&rule);
        assert!(
            left == 5 || !scene.is_exact() && left > 5,
            "{left} of {part}"
        );
    }
}

/// Units that a busy bucket still lacks are returned, however many others have been refilled.
pub(super) fn a_busy_bucket_gets_its_units_back(scene: &Scene<'_>) {
    for kind in [Kind::TokenBucket, Kind::LeakyMeter, Kind::LeakyQueue] {
        let rule = scene.rule(&format!("{kind:?}"), short(kind, 10));
        let tenth = Micros::from_duration_ceil(SHORT / 10).expect("a short window");
        let ids = [(); 2].map(|()| scene.new_permit_id());
        for id in ids {
            scene.reserve(&rule, 5, OPEN, id);
        }
        scene.wait(Micros::new(4 * tenth.get()));

        // Of ten units four have been refilled, all of which the second reservation lacks if the
        // first one is cancelled.
        for (id, actual, left) in [(ids[0], 0, 9), (ids[1], 5, 9)] {
            assert_eq!(scene.settle(&rule, 5, actual, id), SettlementKind::Reserved);
            let found = scene.left(&rule);
            assert!(
                found == left || !scene.is_exact() && found > left,
                "{found} of {kind:?}"
            );
        }
    }
}

pub(super) fn limits_do_not_share_reservations(scene: &Scene<'_>) {
    let [one, two] = ["one", "two"].map(|part| scene.rule(part, long(Kind::FixedFirstHit, 10)));
    let id = scene.new_permit_id();
    scene.reserve(&one, 4, OPEN, id);
    assert_eq!(scene.settle(&two, 4, 1, id), SettlementKind::Unreserved);
    assert_eq!((scene.left(&one), scene.left(&two)), (6, 9));
    assert_eq!(scene.settle(&one, 4, 1, id), SettlementKind::Reserved);
    assert_eq!((scene.left(&one), scene.left(&two)), (9, 9));
}
