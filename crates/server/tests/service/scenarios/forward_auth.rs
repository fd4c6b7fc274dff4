//! The column `forward-auth`: what a proxy asks about the request that it holds.

use std::collections::BTreeMap;

use serde_json::json;
use testkit::reverse_proxy::{self, Response};

use super::table::{Answer, Operation};
use super::{Call, Front, Seen, WRONG_TOKEN, http, override_key, service_counts};
use crate::harness::Tollgate;

pub(super) struct ForwardAuth<'s> {
    service: &'s Tollgate,
    permit: Option<String>,
}

impl<'s> ForwardAuth<'s> {
    pub(super) const fn new(service: &'s Tollgate) -> Self {
        Self {
            service,
            permit: None,
        }
    }

    fn ask(&self, call: Call<'_>, originals: &[(&str, &str)]) -> Response {
        let own = call.headers();
        let mut headers = vec![("x-tollgate-token", WRONG_TOKEN)];
        headers.extend_from_slice(originals);
        headers.extend(own.iter().map(|(name, value)| (&**name, &**value)));
        reverse_proxy::get(self.service.http, "/v1/forward-auth?proxy=nginx", &headers)
    }
}

const ORIGINAL: [(&str, &str); 2] = [("x-original-uri", "/"), ("x-original-method", "GET")];

impl Front for ForwardAuth<'_> {
    fn call(&mut self, call: Call<'_>) -> Seen {
        match call.step.operation {
            Operation::Check => decision(&self.ask(call, &ORIGINAL)),
            Operation::Acquire => {
                let response = self.ask(call, &ORIGINAL);
                self.permit = response.header("x-ratelimit-permit").map(str::to_owned);
                decision(&response)
            }
            Operation::Release => {
                let body = json!({"permit": self.permit}).to_string();
                assert_eq!(self.service.post("/v1/release", &body).status, 200);
                Seen::done()
            }
            Operation::Garbage => {
                let twice = [ORIGINAL, ORIGINAL].concat();
                decision(&self.ask(call, &twice))
            }
            Operation::Override => override_key(self.service, call),
            other => unreachable!("the table says that a proxy cannot {}", other.name()),
        }
    }

    fn used(&mut self, call: Call<'_>) -> BTreeMap<String, u64> {
        http::used(self.service, call)
    }

    fn counts(&mut self) -> BTreeMap<String, u64> {
        service_counts(self.service)
    }
}

fn decision(response: &Response) -> Seen {
    let is = match response.status {
        200 => Answer::Allowed,
        429 | 503 => Answer::Denied,
        _ => Answer::Error,
    };
    let seen = Seen::new(is, format!("{} {}", response.status, response.text()));
    if is == Answer::Error {
        return seen;
    }
    seen.with_fields(|name| response.header(name))
}
