//! Replies that come after the deadline of a decision.

use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use super::Scene;
use crate::consistency::Consistency;
use crate::store::Source;
use crate::store::lease::LeaseStep;

#[test]
fn no_request_waits_for_an_overdue_call_and_its_late_reply_is_used() {
    let scene = Scene::new(Consistency::Leased);
    let call = scene.call(20);
    scene.reply(call, 900);
    let call = scene.call(20);
    let LeaseStep::Wait(pending) = scene.spend(1) else {
        panic!("a call is in flight")
    };
    let mut completion = pin!(pending.completion());
    let mut context = Context::from_waker(Waker::noop());
    assert!(completion.as_mut().poll(&mut context).is_pending());

    call.mark_overdue();
    assert!(completion.as_mut().poll(&mut context).is_ready());
    assert!(matches!(scene.spend(1), LeaseStep::Strict(None)));

    scene.clock.advance(Duration::from_millis(500));
    assert!(Duration::from(call.reply_timeout()) > Duration::from_millis(500));
    scene.reply(call, 880);
    assert_eq!(scene.leases.units(), 45, "the granted units are held");
    assert_eq!(scene.decide(1).1, Source::Lease);
}

#[test]
fn a_reply_after_the_end_of_the_lease_is_settled_and_not_spent() {
    let scene = Scene::new(Consistency::Leased);
    let call = scene.call(20);
    scene.reply(call, 900);
    let call = scene.call(20);
    call.mark_overdue();

    scene.clock.advance(call.reply_timeout().into());
    scene.reply(call, 880);

    let request = *scene.call(1).lease_request();
    assert_eq!(
        (request.generation, request.held, request.returned),
        (7, 45, 45)
    );
}
