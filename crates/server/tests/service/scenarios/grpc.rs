//! The column `grpc`: Envoy's rate limit service, and Kuadrant's reservations.

use std::collections::BTreeMap;

use tollgate_envoy::{
    Code, CommitRequest, CommitResponse, Duration, RateLimitDescriptor, RateLimitRequest,
    RateLimitResponse, ReserveRequest, ReserveResponse,
};

use super::table::{Answer, Operation};
use super::{Call, Front, Seen, WRONG_TOKEN, http, override_key, service_counts};
use crate::grpc::client::{Client, SHOULD_RATE_LIMIT};
use crate::grpc::reservations::{COMMIT, RESERVE};
use crate::grpc::{described, header, request};
use crate::harness::Tollgate;

pub(super) struct Grpc<'s> {
    service: &'s Tollgate,
    client: Client,
    reservation: String,
}

impl<'s> Grpc<'s> {
    pub(super) fn new(service: &'s Tollgate) -> Self {
        let client = Client::connect(service.grpc).with_metadata("x-tollgate-token", WRONG_TOKEN);
        Self {
            service,
            client,
            reservation: String::new(),
        }
    }

    fn ask(&mut self, request: &RateLimitRequest) -> Seen {
        let reply = self.client.call(SHOULD_RATE_LIMIT, request);
        if reply.status != "0" {
            return Seen::new(Answer::Error, reply.text);
        }
        let response: RateLimitResponse = reply.only();
        let is = answer(response.overall_code());
        let seen = Seen::new(is, format!("{response:?}"));
        seen.with_fields(|name| header(&response, name))
    }

    fn reserve(&mut self, call: Call<'_>) -> Seen {
        let request = ReserveRequest {
            domain: "shop".into(),
            descriptors: vec![descriptor(call)],
            amount: call.step.cost.expect("an estimate"),
            ttl: call.step.ttl.as_deref().map(duration),
        };
        let response: ReserveResponse = self.client.call(RESERVE, &request).only();
        let seen = Seen::new(answer(response.code()), format!("{response:?}"));
        let field = |name: &str| {
            let mut headers = response.headers.iter();
            let found = headers.find(|header| header.key.eq_ignore_ascii_case(name.as_bytes()));
            found.map(|header| header.value.as_str())
        };
        let seen = seen.with_fields(field);
        self.reservation.clone_from(&response.reservation_id);
        seen
    }

    /// Without a reservation, the amount is charged whether it fits or not.
    fn commit(&mut self, call: Call<'_>, reservation_id: String, amount: Option<u64>) -> Seen {
        let request = CommitRequest {
            domain: "shop".into(),
            descriptors: vec![descriptor(call)],
            reservation_id,
            actual_amount: amount.expect("an amount"),
        };
        let response: CommitResponse = self.client.call(COMMIT, &request).only();
        let is_open = response.reservation_released;
        Seen {
            reservation: is_open.then(|| "open".to_owned()),
            ..Seen::new(Answer::Done, format!("{response:?}"))
        }
    }
}

impl Front for Grpc<'_> {
    fn call(&mut self, call: Call<'_>) -> Seen {
        let own = descriptor(call);
        match call.step.operation {
            Operation::Check => self.ask(&request([RateLimitDescriptor {
                hits_addend: call.step.cost,
                ..own
            }])),
            Operation::Refund => {
                let seen = self.ask(&request([RateLimitDescriptor {
                    hits_addend: call.step.cost,
                    is_negative_hits: true,
                    ..own
                }]));
                assert_eq!(seen.is, Answer::Allowed, "{}", seen.raw);
                Seen::done()
            }
            Operation::Reserve => self.reserve(call),
            Operation::Settle => {
                let reservation = self.reservation.clone();
                self.commit(call, reservation, call.step.actual)
            }
            Operation::Count => self.commit(call, String::new(), call.step.cost),
            Operation::Garbage => self.ask(&RateLimitRequest {
                domain: String::new(),
                ..request([own])
            }),
            Operation::Override => override_key(self.service, call),
            other => unreachable!("the table says that gRPC cannot {}", other.name()),
        }
    }

    fn used(&mut self, call: Call<'_>) -> BTreeMap<String, u64> {
        http::used(self.service, call)
    }

    fn counts(&mut self) -> BTreeMap<String, u64> {
        service_counts(self.service)
    }
}

fn descriptor(call: Call<'_>) -> RateLimitDescriptor {
    let attributes = call.attributes();
    let entries: Vec<(&str, &str)> = attributes
        .iter()
        .map(|(name, value)| (&**name, &**value))
        .collect();
    described(&entries)
}

fn answer(code: Code) -> Answer {
    match code {
        Code::Ok => Answer::Allowed,
        Code::OverLimit => Answer::Denied,
        Code::Unknown => Answer::Error,
    }
}

fn duration(text: &str) -> Duration {
    let (seconds, nanos) = match text {
        "1m" => (60, 0),
        "20ms" => (0, 20_000_000),
        other => unreachable!("{other} is not in the table"),
    };
    Duration { seconds, nanos }
}
