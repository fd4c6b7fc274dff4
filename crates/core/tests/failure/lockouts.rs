//! Lockouts while the store is unavailable.

use tollgate::Lockout;

use super::*;

fn login(policy: FailurePolicy) -> Limit {
    let lockout = Lockout::new(2, 10 * MINUTE, 15 * MINUTE).expect("valid numbers");
    per_minute("login", 3, policy).lockout(lockout)
}

#[test]
fn a_key_that_the_store_has_locked_stays_locked_with_the_policy_local() {
    let fixture = Fixture::new([login(FailurePolicy::Local)]);
    for _ in 0..4 {
        assert!(!fixture.check("login").is_locked_out());
    }
    assert!(fixture.check("login").is_locked_out());

    fixture.store.fail(InjectedFault::Unavailable);
    fixture.clock.advance(14 * MINUTE);
    let denied = fixture.check("login");
    assert!(denied.is_degraded() && denied.is_locked_out());
    assert_eq!(denied.retry_after(), Some(MINUTE));
    assert!(decide(fixture.limiter.check("login", "bob")).is_allowed());

    fixture.clock.advance(MINUTE);
    assert!(fixture.check("login").is_allowed(), "the lockout is over");
}

#[test]
fn a_reset_unlocks_the_local_counter_too() {
    let fixture = Fixture::new([login(FailurePolicy::Local)]);
    assert_eq!(fixture.exhaust("login"), 3);
    assert!(fixture.check("login").is_locked_out());
    block_on(fixture.limiter.reset("login", "ann")).expect("the store is available");

    fixture.store.fail(InjectedFault::Unavailable);
    assert!(fixture.check("login").is_allowed());
}

#[test]
fn denials_of_an_outage_lock_the_key_in_this_process() {
    let fixture = Fixture::new([login(FailurePolicy::Local)]).unavailable();
    for _ in 0..4 {
        assert!(!fixture.check("login").is_locked_out());
    }
    let locked = fixture.check("login");
    assert!(locked.is_degraded() && locked.is_locked_out());

    fixture.recover("login");
    assert!(
        fixture.check("login").is_allowed(),
        "the store knows of none"
    );
}

/// Where a policy alone decides, nothing is counted.
#[test]
fn the_other_policies_lock_nothing_out() {
    let fixture = Fixture::new([login(FailurePolicy::Deny)]).unavailable();
    for _ in 0..5 {
        let denied = fixture.check("login");
        assert!(denied.is_unavailable() && !denied.is_locked_out());
    }

    fixture.recover("login");
    assert!(fixture.check("login").is_allowed());
}
