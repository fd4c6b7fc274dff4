//! The conformance suite: the test cases that every store must pass, one function each.
//!
//! A test case uses only the store's public contract and knows nothing about how it keeps counters.
//! Every case has its own limits, so that all of them can run on one store in parallel. Cases that
//! only count have windows of days, so that a slow machine cannot affect them; cases that need time
//! to pass have windows of milliseconds, because with a real store they have to wait.

mod budgets;
mod counts;
mod harnesses;
mod keys;
mod lockouts;
mod permits;
mod quotas;
mod requests;
mod reservations;
mod scene;
mod times;

use std::sync::Arc;
use std::time::Duration;

use tollgate::Store;

use crate::differential::Kind;
pub use harnesses::{ByHand, InRealTime};
use scene::Scene;

/// A store and its clock.
pub trait Harness {
    /// The store, the same one every time.
    fn store(&self) -> Arc<dyn Store>;

    /// Lets time pass for the store: moves a manual clock, or waits.
    fn advance(&self, length: Duration);

    /// Whether time passes only by [`advance`](Self::advance): then waiting a microsecond less must
    /// not be enough.
    fn is_exact(&self) -> bool;
}

/// A test case.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The name of the case.
    pub name: &'static str,
    body: fn(&Scene<'_>),
}

impl Case {
    /// Runs the case on a store.
    ///
    /// # Panics
    ///
    /// If the store does not behave as the case requires.
    pub fn run(&self, harness: &dyn Harness) {
        let number = CASES
            .iter()
            .take_while(|case| case.name != self.name)
            .count();
        (self.body)(&Scene::new(number, harness));
    }
}

/// Runs every case on one store and prints their names.
///
/// # Panics
///
/// If the store does not behave as a case requires; the last name printed is that of the failed
/// case.
pub fn run_all(harness: &dyn Harness) {
    for case in cases() {
        println!("conformance: {}", case.name);
        case.run(harness);
    }
}

/// All test cases.
pub fn cases() -> &'static [Case] {
    CASES
}

/// A list of cases named after their functions.
macro_rules! cases {
    (
        every algorithm { $($each:ident::$each_case:ident),* $(,)? }
        every budget { $($budget:ident::$budget_case:ident),* $(,)? }
        once { $($once:ident::$once_case:ident),* $(,)? }
    ) => {
        static CASES: &[Case] = &[
            $(cases!(@each $each::$each_case, "fixed-first-hit", FixedFirstHit),
            cases!(@each $each::$each_case, "fixed-calendar", FixedCalendar),
            cases!(@each $each::$each_case, "sliding-window", SlidingWindow),
            cases!(@each $each::$each_case, "sliding-log", SlidingLog),
            cases!(@each $each::$each_case, "token-bucket", TokenBucket),
            cases!(@each $each::$each_case, "leaky-meter", LeakyMeter),
            cases!(@each $each::$each_case, "leaky-queue", LeakyQueue),
            cases!(@each $each::$each_case, "concurrency", Concurrency),)*
            $(cases!(@each $budget::$budget_case, "fixed-first-hit", FixedFirstHit),
            cases!(@each $budget::$budget_case, "fixed-calendar", FixedCalendar),
            cases!(@each $budget::$budget_case, "sliding-window", SlidingWindow),
            cases!(@each $budget::$budget_case, "sliding-log", SlidingLog),
            cases!(@each $budget::$budget_case, "token-bucket", TokenBucket),
            cases!(@each $budget::$budget_case, "leaky-meter", LeakyMeter),
            cases!(@each $budget::$budget_case, "leaky-queue", LeakyQueue),)*
            $(Case { name: stringify!($once_case), body: $once::$once_case },)*
        ];
    };
    (@each $module:ident::$body:ident, $algorithm:literal, $kind:ident) => {
        Case {
            name: concat!($algorithm, ":", stringify!($body)),
            body: |scene| $module::$body(scene, Kind::$kind),
        }
    };
}

cases! {
    every algorithm {
        budgets::allows_to_the_limit_and_denies,
        budgets::takes_every_cost,
        budgets::peek_takes_nothing,
        budgets::reset_fills,
        times::retry_after_is_when_it_passes,
        times::reset_after_is_when_it_is_full,
        quotas::a_changed_limit_keeps_what_is_used,
        counts::a_count_passes_the_limit,
        counts::a_cost_above_the_limit_is_counted,
        counts::retry_after_a_count_is_when_it_passes,
        counts::a_reset_forgives_what_is_owed,
    }
    every budget {
        budgets::refund_gives_back,
        times::more_after_is_when_more_is_left,
        counts::a_counter_owes_at_most_its_debt,
        reservations::settles_for_less,
        reservations::settles_for_as_much,
        reservations::settles_for_more,
        reservations::settles_once,
        reservations::the_first_end_counts,
        reservations::what_was_charged_is_told,
        reservations::an_unknown_reservation_is_charged,
        reservations::a_denied_reservation_takes_nothing,
        reservations::an_expired_reservation_is_kept,
        reservations::an_expired_reservation_is_released,
        reservations::a_reset_forgets_reservations,
    }
    once {
        times::first_hit_window_is_not_extended,
        times::a_queue_reports_the_wait,
        requests::all_or_nothing_in_both_orders,
        requests::never_takes_nothing_from_the_others,
        requests::all_algorithms_together,
        requests::a_shadow_never_blocks,
        requests::a_shadow_takes_only_what_passes,
        requests::a_peek_of_several_takes_nothing,
        requests::a_refund_of_several,
        requests::the_most_checks,
        counts::several_are_all_counted,
        counts::permits_beyond_the_limit,
        reservations::all_or_nothing,
        reservations::all_algorithms_settle_together,
        reservations::the_first_counter_decides,
        reservations::a_call_ends_some_expired_reservations,
        reservations::a_settled_permit_is_released,
        reservations::nothing_is_returned_to_a_later_window,
        reservations::nothing_is_returned_that_was_refilled,
        reservations::a_busy_bucket_gets_its_units_back,
        reservations::limits_do_not_share_reservations,
        lockouts::denials_lock_the_key_out,
        lockouts::only_enforced_requests_count_as_denials,
        lockouts::a_lockout_ends_and_grows,
        lockouts::a_reset_unlocks,
        lockouts::a_locked_key_is_still_counted,
        lockouts::each_limit_counts_its_own_denials,
        lockouts::all_limits_that_deny_count,
        lockouts::a_shadow_is_locked_and_never_blocks,
        lockouts::what_can_never_pass_never_passes,
        permits::release_frees_the_permit,
        permits::renew_keeps_the_permit,
        permits::a_permit_times_out,
        permits::a_refund_does_not_release,
        permits::a_denied_request_holds_nothing,
        keys::text_and_number_differ,
        keys::parts_do_not_run_together,
        keys::limits_do_not_mix,
        keys::algorithms_do_not_mix,
        keys::reset_forgets_one_counter_alone,
    }
}
