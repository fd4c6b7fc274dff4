//! Numbers that no version of the script writes.

use std::time::Duration;

use tollgate::{DemandBuf, Limit, PermitId, Rule};

use super::*;
use crate::wire::CallEncoder;

fn rule(name: &str, is_shadow: bool) -> Rule {
    let limit = Limit::fixed_window(name, 10, Duration::from_mins(1));
    let limit = if is_shadow { limit.shadow() } else { limit };
    limit.validate().expect("a valid limit")
}

/// Reads the reply to a spend of two demands, of which the second one has this number.
fn spend(is_shadow: bool, number: f64) -> Result<SpendReply, CallError> {
    let rules = [rule("first", false), rule("second", is_shadow)];
    let owned = rules
        .each_ref()
        .map(|rule| DemandBuf::new(rule, "ann", 1).expect("a valid key"));
    let demands = owned.each_ref().map(DemandBuf::as_demand);
    let encoder = CallEncoder {
        prefix: String::new(),
        is_cluster: false,
    };
    let call = encoder.call(Operation::Spend, &demands, PermitId::NONE);

    let mut reply = 1e15_f64.to_le_bytes().to_vec();
    reply.push(STATUS_SUCCESS);
    for number in [3.0, 1e15 + 1e6, 0.0, number, 1e15 + 1e6, 0.0] {
        reply.extend(number.to_le_bytes());
    }
    let replies = read_replies(&reply, std::iter::once(&call)).expect("a complete reply");
    let reply = replies.into_iter().next().expect("one reply");
    let terms = demands.each_ref().map(DemandTerms::new);
    reply.expect("no error").spend_reply(&terms, Intent::Spend)
}

#[test]
fn a_malformed_number_blames_its_demand_and_never_a_shadow_limit() {
    for number in [-1.0, 0.5, f64::NAN, f64::INFINITY, 1e300] {
        assert_eq!(
            spend(false, number).unwrap_err(),
            CallError::Malformed(Some(1))
        );
        let reply = spend(true, number).expect("the first limit decides");
        assert!(reply.outcomes()[0].0.verdict.is_allowed());
        assert_eq!(reply.outcomes()[0].0.remaining, 6);
    }
    assert!(spend(false, 3.0).is_ok());
}

#[test]
fn a_malformed_grant_is_an_error_of_its_call_only() {
    for numbers in [
        [f64::NAN, 1.0, 1.0, 1.0],
        [1.0, f64::INFINITY, 1.0, 1.0],
        [1.0, 1.0, -1.0, 1.0],
        [1.0, 1.0, 1.0, 0.5],
    ] {
        let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        let mut is_valid = true;
        let mut rest = &bytes[..];
        assert!(read_grant(&mut rest, &mut is_valid).is_some() && rest.is_empty());
        assert!(!is_valid, "{numbers:?}");
    }
}
