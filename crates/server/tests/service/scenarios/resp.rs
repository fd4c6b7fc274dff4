//! The column `resp`: `TOLLGATE.CHECK`.

use std::collections::BTreeMap;

use testkit::servers::Client;

use super::table::{Answer, Operation};
use super::{Call, Front, Seen, WRONG_TOKEN, http, override_key, service_counts};
use crate::harness::Tollgate;
use crate::resp::{connect, integers};

pub(super) struct Resp<'s> {
    service: &'s Tollgate,
    client: Client,
}

impl<'s> Resp<'s> {
    pub(super) fn new(service: &'s Tollgate) -> Self {
        let mut client = connect(service);
        // A service without tokens says that it needs none.
        let refused = client.call(&["AUTH", WRONG_TOKEN]).expect("a reply");
        assert!(refused.error().is_some());
        Self { service, client }
    }
}

impl Front for Resp<'_> {
    fn call(&mut self, call: Call<'_>) -> Seen {
        let key = if call.step.anonymous { "" } else { call.user };
        let mut words = vec!["TOLLGATE.CHECK", &call.scenario.name, key];
        let cost = call.step.cost.map(|cost| cost.to_string());
        match call.step.operation {
            Operation::Check => words.extend(cost.as_deref()),
            Operation::Garbage => words.push("many"),
            Operation::Override => return override_key(self.service, call),
            other => unreachable!("the table says that RESP cannot {}", other.name()),
        }
        let reply = self.client.call(&words).expect("a reply");
        if let Some(error) = reply.error() {
            // What is a 503 over HTTP.
            let is_unavailable = error.starts_with("ERR store unavailable");
            return Seen::new(
                if is_unavailable {
                    Answer::Denied
                } else {
                    Answer::Error
                },
                error,
            );
        }

        let [limited, limit, remaining, retry, _reset] = integers(&reply)[..] else {
            unreachable!("five integers: {reply:?}")
        };
        let number = |value: i64| u64::try_from(value).expect("a number of units");
        let is = if limited == 0 {
            Answer::Allowed
        } else {
            Answer::Denied
        };
        let numbers = (number(limit), number(remaining));
        Seen {
            told: Some(BTreeMap::from([(call.scenario.name.clone(), numbers)])),
            retry_s: u64::try_from(retry).ok(),
            ..Seen::new(is, format!("{reply:?}"))
        }
    }

    fn used(&mut self, call: Call<'_>) -> BTreeMap<String, u64> {
        http::used(self.service, call)
    }

    fn counts(&mut self) -> BTreeMap<String, u64> {
        service_counts(self.service)
    }
}
