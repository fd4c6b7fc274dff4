//! What holds for the tokens of gates: nobody makes one, and replicas accept each other's.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use testkit::servers::{Flavor, Server};
use tollgate::{Clock as _, EncodedKey, Limit, ManualClock, PermitId, Rule};
use tollgate_rules::Config;

use super::*;
use crate::api::{ApiContext, ApiOperation, JsonBody};
use crate::inline::TokenLimit;
use crate::metrics::{Metrics, MetricsPage};
use crate::permit::{PermitToken, TokenCounter, TokenKind};
use crate::{Caller, Gate, RequestOrigin};

const LIMITS: &str = "
server:
  tokens:
    - { name: shop, token: correct-horse-battery, allow: [check, release, peek] }
    - { name: all, token: correct-horse-staples, allow: [check, release, peek, inline] }
limits:
  - { name: tokens, key: [user], algorithm: fixed_window, limit: 100, window: 1h }
  - { name: debt, key: [user], algorithm: token_bucket, capacity: 10, refill_rate: 1/h }
  - { name: jobs, key: [user], algorithm: concurrency, limit: 1, permit_timeout: 1h }
";

struct Replica(Gate);

impl Replica {
    fn in_memory(head: &str) -> Self {
        let gate = Gate::with_clock(&ManualClock::default(), config(head));
        Self(gate)
    }

    /// A replica on this server, which has not read its key.
    fn open(url: &str, head: &str) -> Self {
        let store = format!("store: {{ type: redis, endpoints: ['{url}'], timeout: 5s }}\n{head}");
        let gate = Gate::open(config(&store), Arc::new(Metrics::default()));
        Self(gate.expect("a valid store"))
    }

    async fn ready(url: &str) -> Self {
        let replica = Self::open(url, "");
        let ready = replica.0.wait_until_ready(Duration::from_secs(10)).await;
        ready.expect("a store of this layout");
        replica.sync().await;
        replica
    }

    async fn sync(&self) {
        let synced = self.0.sync_sealing_keys().await;
        synced.expect("the store is available");
    }

    fn caller(&self, token: &str) -> Caller {
        let caller = self.0.active().identify(Some(token.as_bytes()));
        caller.expect("a known token")
    }

    /// The status and the body of an operation of the token that may only check, peek and release.
    async fn ask(&self, operation: ApiOperation, body: Value) -> (u16, Value) {
        self.ask_as("correct-horse-battery", operation, body).await
    }

    async fn ask_as(&self, token: &str, operation: ApiOperation, body: Value) -> (u16, Value) {
        let active = self.0.active();
        let context = ApiContext {
            gate: &self.0,
            active: &active,
            caller: self.caller(token),
            origin: RequestOrigin::UNKNOWN,
        };
        let body = body.to_string();
        let answer = operation
            .answer(context, JsonBody::new(body.as_bytes()))
            .await;
        let (status, text) = match answer {
            Ok(answer) => (answer.status, answer.body.into_owned()),
            Err(error) => (error.status, error.problem().to_json()),
        };
        (status.as_u16(), serde_json::from_str(&text).expect("JSON"))
    }

    async fn reserve(&self) -> String {
        let (_, answer) = self.ask(ApiOperation::Reserve, request("tokens", 5)).await;
        text(&answer["reservation"])
    }

    async fn settle(&self, reservation: &str) -> (u16, Value) {
        let body = json!({"reservation": reservation, "actual": 3});
        self.ask(ApiOperation::Settle, body).await
    }

    async fn used(&self, limit: &str) -> u64 {
        let (_, answer) = self.ask(ApiOperation::Peek, request(limit, 0)).await;
        let limit = &answer["limits"][0];
        limit["limit"].as_u64().unwrap() - limit["remaining"].as_u64().unwrap()
    }

    fn page(&self) -> String {
        let mut page = MetricsPage::new("t");
        self.0.metrics().write(&mut page);
        page.into_text().expect("a page")
    }

    /// Seals a token with the key of the gate, as only the gate itself can.
    fn seal(&self, limit: &str) -> String {
        let key = self.0.active().sealing_keys.current();
        forge(&key.expect("a key"), limit)
    }
}

fn config(head: &str) -> Config {
    let text = format!("{head}\n{LIMITS}");
    Config::parse(&text, "test.yaml", &|_: &str| None).expect("a valid configuration")
}

fn request(limit: &str, cost: u64) -> Value {
    json!({"attributes": {"user": "ann"}, "limits": [limit], "cost": cost})
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// A reservation of 95 units of ann's.
fn forge(key: &SealingKey, limit: &str) -> String {
    let counter = TokenCounter {
        limit: limit.to_owned(),
        key: EncodedKey::new("ann").expect("a key"),
        units: 95,
        is_fixed: false,
    };
    let token = PermitToken {
        kind: TokenKind::Reservation,
        id: PermitId::new(1),
        counters: vec![counter],
    };
    token.seal(key)
}

fn bucket(name: &str) -> Rule {
    let limit = Limit::token_bucket(name, 1_000, tollgate::Rate::per_second(1_000_000));
    limit.validate().expect("a valid limit")
}

#[tokio::test]
async fn a_forged_token_returns_nothing() {
    let replica = Replica::in_memory("");
    let (status, _) = replica
        .ask(ApiOperation::Check, request("tokens", 95))
        .await;
    assert_eq!(status, 200);

    // The key that every service without a secret once had, and a key of the attacker.
    for key in [*b"tollgate: not secret, only hides", [1; 32]] {
        let forged = forge(&SealingKey::new(&key), "tokens");
        for operation in [ApiOperation::Cancel, ApiOperation::Settle] {
            let mut body = json!({"reservation": forged});
            if operation == ApiOperation::Settle {
                body["actual"] = 0.into();
            }
            let (status, answer) = replica.ask(operation, body).await;
            assert_eq!((status, &answer["code"]), (422, &json!("bad-reservation")));
        }
    }
    assert_eq!(replica.used("tokens").await, 95);
}

/// A step of a client that may only check: with its tokens, parts of them, and again.
#[derive(Clone, Copy, Debug)]
enum Step {
    Reserve(u64),
    Settle(usize, u64),
    Cancel(usize),
    Splice(usize, usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0_u64..=u64::MAX >> 1).prop_map(Step::Reserve),
        (1_u64..30).prop_map(Step::Reserve),
        (0_usize..9, 0_u64..30).prop_map(|(token, units)| Step::Settle(token, units)),
        (0_usize..9).prop_map(Step::Cancel),
        (0_usize..9, 0_usize..9, 0_usize..90).prop_map(|(a, b, cut)| Step::Splice(a, b, cut)),
    ]
}

proptest! {
    /// Whatever a client does with its tokens, what others have spent stays spent.
    #[test]
    fn nothing_returns_units_that_others_have_spent(steps in prop::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let replica = Replica::in_memory("");
            replica.ask(ApiOperation::Check, request("tokens", 40)).await;
            let mut tokens: Vec<String> = Vec::new();
            for step in steps {
                let token = |index: usize| tokens.get(index % tokens.len().max(1)).cloned().unwrap_or_default();
                match step {
                    Step::Reserve(cost) => {
                        let (_, answer) = replica.ask(ApiOperation::Reserve, request("tokens", cost)).await;
                        tokens.extend(answer["reservation"].as_str().map(str::to_owned));
                    }
                    Step::Settle(index, units) => {
                        let body = json!({"reservation": token(index), "actual": units});
                        replica.ask(ApiOperation::Settle, body).await;
                    }
                    Step::Cancel(index) => {
                        let body = json!({"reservation": token(index)});
                        replica.ask(ApiOperation::Cancel, body).await;
                    }
                    Step::Splice(one, other, cut) => {
                        let (one, other) = (token(one), token(other));
                        let cut = cut.min(one.len()).min(other.len());
                        tokens.push(format!("{}{}", &one[..cut], &other[cut..]));
                    }
                }
                assert!(replica.used("tokens").await >= 40, "{step:?}");
            }
        });
    }
}

#[tokio::test]
async fn a_token_is_good_for_its_own_end_only() {
    let replica = Replica::in_memory("");
    let reservation = replica.reserve().await;
    let (_, answer) = replica.ask(ApiOperation::Check, request("jobs", 1)).await;
    let permit = text(&answer["permit"]);

    let (status, _) = replica.settle(&permit).await;
    assert_eq!(status, 422, "a permit is no reservation");
    let body = json!({"permit": reservation});
    let (status, _) = replica.ask(ApiOperation::Release, body).await;
    assert_eq!(status, 422, "a reservation is no permit");
    let (status, answer) = Replica::in_memory("").settle(&reservation).await;
    assert_eq!(status, 422, "another store");
    assert!(text(&answer["detail"]).contains("sealed by another process"));

    assert_eq!(replica.settle(&reservation).await.0, 200);
    let body = json!({"reservation": reservation});
    for _ in 0..3 {
        let (_, answer) = replica.ask(ApiOperation::Cancel, body.clone()).await;
        assert_eq!(answer["reservation"], "settled");
    }
    assert_eq!(replica.used("tokens").await, 3);
}

/// Even a token with the right seal brings no limit that a body could not bring.
#[tokio::test]
async fn a_limit_of_a_token_is_checked_like_one_of_a_body() {
    let (deny, restrict) = ("inline_limits: deny", "inline_limits: { names: [chat-*] }");
    let (shop, all) = ("correct-horse-battery", "correct-horse-staples");
    for (head, token, name, expected) in [
        ("", all, "debt", (422, "limit-is-configured")),
        ("", shop, "chat", (403, "not-permitted")),
        (deny, all, "chat", (403, "inline-not-allowed")),
        (restrict, all, "chat", (403, "inline-not-allowed")),
    ] {
        let replica = Replica::in_memory(head);
        let count =
            json!({"attributes": {"user": "ann"}, "limits": ["debt"], "cost": 50, "count": true});
        replica.ask(ApiOperation::Check, count).await;

        let sealed = replica.seal(&TokenLimit::Inline(bucket(name)).to_text());
        let body = json!({"reservation": sealed});
        let (status, answer) = replica.ask_as(token, ApiOperation::Cancel, body).await;
        assert_eq!(
            (status, answer["code"].as_str()),
            (expected.0, Some(expected.1))
        );
        let (status, _) = replica.ask(ApiOperation::Check, request("debt", 1)).await;
        assert_eq!(status, 429, "the debt stays");
    }

    let replica = Replica::in_memory(restrict);
    let sealed = replica.seal(&TokenLimit::Inline(bucket("chat-1")).to_text());
    let body = json!({"reservation": sealed});
    let (status, _) = replica.ask_as(all, ApiOperation::Cancel, body).await;
    assert_eq!(status, 200);
}

#[tokio::test]
async fn replicas_accept_the_tokens_of_each_other_and_of_a_predecessor() {
    for flavor in [Flavor::Redis, Flavor::Valkey] {
        let server = Server::start(flavor);
        // Neither has seen the key of the other when it puts its own.
        let replicas = [
            Replica::open(&server.url(), ""),
            Replica::open(&server.url(), ""),
        ];
        for replica in &replicas {
            let ready = replica.0.wait_until_ready(Duration::from_secs(10)).await;
            ready.expect("a store of this layout");
        }
        let [one, other] = &replicas;
        tokio::join!(one.sync(), other.sync());
        for (from, to) in [(one, other), (other, one)] {
            assert_eq!(to.settle(&from.reserve().await).await.0, 200);
        }

        let reservation = one.reserve().await;
        drop(replicas);
        let restarted = Replica::ready(&server.url()).await;
        assert_eq!(restarted.settle(&reservation).await.0, 200);
        assert_eq!(server.immortal_keys(), Vec::<Vec<u8>>::new());
    }
}

#[tokio::test]
async fn after_a_flush_old_tokens_are_invalid_and_replicas_agree_again() {
    let server = Server::start(Flavor::Redis);
    let [one, other] = [
        Replica::ready(&server.url()).await,
        Replica::ready(&server.url()).await,
    ];
    let old = one.reserve().await;

    server.command(&["FLUSHALL"]);
    one.sync().await;
    let new = one.reserve().await;
    assert_eq!(other.settle(&new).await.0, 200, "read when it is needed");
    for replica in [&one, &other] {
        let (status, answer) = replica.settle(&old).await;
        assert_eq!(status, 422);
        assert_eq!(
            text(&answer["detail"]),
            "invalid reservation: it was sealed with a key that the store no longer has: the store \
             was flushed, lost the key in a fail-over, or is another one"
        );
    }
    assert_eq!(one.settle(&other.reserve().await).await.0, 200);
}

#[tokio::test]
async fn a_decision_without_a_key_stands_without_a_token() {
    let server = Server::start(Flavor::Redis);
    let sealed = Replica::ready(&server.url()).await.reserve().await;
    server.freeze();
    let store = format!("store: {{ type: redis, endpoints: ['{}'] }}", server.url());
    let gate = Gate::open(config(&store), Arc::new(Metrics::default()));
    let replica = Replica(gate.expect("a valid store"));

    let (status, answer) = replica
        .ask(ApiOperation::Reserve, request("tokens", 5))
        .await;
    assert_eq!((status, &answer["degraded"]), (200, &json!(true)));
    assert_eq!(answer.get("reservation"), None);
    assert!(
        text(&answer["warning"]).contains("no `reservation`"),
        "{answer}"
    );
    assert!(replica.page().contains("t_withheld_tokens_total 1"));
    let (status, answer) = replica.settle(&sealed).await;
    assert_eq!((status, &answer["retryable"]), (503, &json!(true)));

    server.thaw();
    let ready = replica.0.wait_until_ready(Duration::from_secs(10)).await;
    ready.expect("a store of this layout");
    assert_eq!(replica.settle(&sealed).await.0, 200);
}

#[tokio::test]
async fn a_key_is_renewed_long_before_it_expires_and_others_are_forgotten() {
    let clock = ManualClock::default();
    let records = SharedRecords::in_memory(Arc::new(clock.clone()));
    let sync = async |keys: &SealingKeys| {
        let synced = keys.sync(&records, clock.now()).await;
        synced.expect("records in memory");
        keys.current().expect("a key").id
    };
    let put = async |bytes: KeyBytes| {
        let (group, id) = (
            RecordGroup::SealingKeys,
            SealingKey::new(&bytes).record_id(),
        );
        let text = encode_key(&bytes);
        let put = records.put(group, &id, &text, KEY_TTL).await;
        put.expect("a valid record");
        SealingKey::new(&bytes).id
    };
    let ids = [put([1; 32]).await, put([2; 32]).await];
    let (agreed, other) = (ids.into_iter().min(), ids.into_iter().max());

    let keys = SealingKeys::of_store();
    for day in 0..90 {
        assert_eq!(Some(sync(&keys).await), agreed, "{day}");
        let is_known = other.is_some_and(|id| keys.find(id).is_some());
        assert_eq!(is_known, day < 30, "{day}");
        clock.advance(Duration::from_secs(86_400));
    }
    let newcomer = SealingKeys::of_store();
    assert_eq!(Some(sync(&newcomer).await), agreed);
}

#[test]
fn a_key_is_never_shown() {
    let keys = SealingKeys::of_process(&[7; 32]);
    assert_eq!(format!("{keys:?}"), "SealingKeys(Process, ..)");
}

/// A permit is saved with its counter, so its token must open after a restart.
#[tokio::test]
async fn the_key_of_a_memory_store_is_kept_next_to_its_snapshot() {
    let directory = testkit::processes::Directory::create();
    let file = directory.path().join("counters");
    let store = format!("store: {{ type: memory, snapshot: {} }}", file.display());
    let open = || Gate::open(config(&store), Arc::new(Metrics::default()));

    let first = Replica(open().expect("a new file"));
    let (_, answer) = first.ask(ApiOperation::Check, request("jobs", 1)).await;
    first.0.save_snapshot().await;
    drop(first);
    let second = Replica(open().expect("a saved file"));
    let body = json!({"permit": answer["permit"]});
    let (_, answer) = second.ask(ApiOperation::Release, body).await;
    assert_eq!(answer["released"], true, "{answer}");
    drop(second);

    let key = directory.path().join("counters.key");
    let mode = std::fs::metadata(&key).expect("a key").permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    std::fs::write(&key, "garbage").expect("a file");
    let error = open().expect_err("not a key").to_string();
    assert!(
        error.contains("it does not contain a key; delete the file"),
        "{error}"
    );
    assert!(!error.contains("garbage"), "{error}");
}
