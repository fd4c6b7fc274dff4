//! Costs: `hits_addend` of the request and of its descriptors.

use tollgate_envoy::{Code, RateLimitDescriptor, RateLimitRequest};

use super::client::Client;
use super::{about, codes, described, request, summary};
use crate::harness::Tollgate;

const LIMITS: &str = "
version: 1
limits:
  - { name: tokens, key: [user], algorithm: fixed_window, limit: 100, window: 1d }
  - { name: pages, key: [reader], algorithm: fixed_window, limit: 100, window: 1d, cost: { by: pages, default: 7 } }
";

fn costing(cost: u64, entries: &[(&str, &str)]) -> RateLimitDescriptor {
    RateLimitDescriptor {
        hits_addend: Some(cost),
        ..described(entries)
    }
}

fn returning(cost: Option<u64>, entries: &[(&str, &str)]) -> RateLimitDescriptor {
    RateLimitDescriptor {
        hits_addend: cost,
        is_negative_hits: true,
        ..described(entries)
    }
}

fn left(client: &mut Client, asked: &RateLimitRequest) -> u32 {
    client.ask(asked).statuses[0].limit_remaining
}

#[test]
fn a_descriptors_cost_takes_precedence_over_the_requests() {
    let service = Tollgate::with_config(LIMITS);
    let mut client = Client::connect(service.grpc);
    let ann = [("user", "ann")];
    assert_eq!(left(&mut client, &about(&ann)), 99);
    assert_eq!(
        left(
            &mut client,
            &RateLimitRequest {
                hits_addend: 9,
                ..about(&ann)
            }
        ),
        90
    );
    let own = RateLimitRequest {
        hits_addend: 9,
        ..request([costing(20, &ann)])
    };
    assert_eq!(left(&mut client, &own), 70);
    // Only one of the two has a cost of its own.
    let both = request([costing(20, &ann), described(&ann)]);
    assert_eq!(left(&mut client, &both), 49);
    let too_much = request([costing(50, &ann)]);
    assert_eq!(
        summary(&client.ask(&too_much).statuses[0]),
        (Code::OverLimit, "tokens", 49)
    );
    assert_eq!(
        client
            .ask(&request([costing(u64::MAX, &ann), costing(u64::MAX, &ann)]))
            .overall_code(),
        Code::OverLimit
    );
}

#[test]
fn without_hits_the_limits_own_cost_applies() {
    let service = Tollgate::with_config(LIMITS);
    let mut client = Client::connect(service.grpc);
    assert_eq!(left(&mut client, &about(&[("reader", "ann")])), 93);
    assert_eq!(
        left(&mut client, &about(&[("reader", "ann"), ("pages", "13")])),
        80
    );
    assert_eq!(
        left(
            &mut client,
            &RateLimitRequest {
                hits_addend: 10,
                ..about(&[("reader", "ann")])
            }
        ),
        70
    );
}

#[test]
fn a_cost_of_zero_peeks() {
    let service = Tollgate::with_config(LIMITS);
    let mut client = Client::connect(service.grpc);
    let ann = [("user", "ann")];
    let look = request([costing(0, &ann)]);
    for _ in 0..3 {
        assert_eq!(
            summary(&client.ask(&look).statuses[0]),
            (Code::Ok, "tokens", 100)
        );
    }
    client.ask(&request([costing(100, &ann)]));
    assert_eq!(
        summary(&client.ask(&look).statuses[0]),
        (Code::OverLimit, "tokens", 0)
    );

    // Next to a peek that finds no unit left, nothing is charged.
    let beside = request([costing(0, &ann), costing(10, &[("user", "bob")])]);
    assert_eq!(codes(&client.ask(&beside)), [Code::OverLimit, Code::Ok]);
    assert_eq!(
        left(&mut client, &request([costing(0, &[("user", "bob")])])),
        100
    );
    // Next to a peek that finds one, it is.
    let beside = request([
        costing(0, &[("user", "cy")]),
        costing(10, &[("user", "bob")]),
    ]);
    assert_eq!(
        client
            .ask(&beside)
            .statuses
            .iter()
            .map(summary)
            .collect::<Vec<_>>(),
        [(Code::Ok, "tokens", 100), (Code::Ok, "tokens", 90)]
    );
}

#[test]
fn negative_hits_are_refunded() {
    let service = Tollgate::with_config(LIMITS);
    let mut client = Client::connect(service.grpc);
    let ann = [("user", "ann")];
    assert_eq!(left(&mut client, &request([costing(50, &ann)])), 50);
    assert_eq!(left(&mut client, &request([returning(Some(20), &ann)])), 70);
    assert_eq!(left(&mut client, &request([returning(None, &ann)])), 71);
    // Never more than was charged.
    assert_eq!(
        left(
            &mut client,
            &request([returning(Some(500), &ann), returning(Some(500), &ann)])
        ),
        100
    );
    // The refund comes before the charge.
    client.ask(&request([costing(100, &ann)]));
    assert_eq!(
        left(
            &mut client,
            &request([returning(Some(30), &ann), costing(20, &ann)])
        ),
        10
    );
}
