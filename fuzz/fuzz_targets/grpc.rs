//! Envoy's requests: arbitrary bytes cause no panic, and nothing that a client can send leads to an
//! error, on which Envoy would let the request pass.
#![no_main]

use std::pin::pin;
use std::sync::LazyLock;
use std::task::{Context, Poll, Waker};

use libfuzzer_sys::fuzz_target;
use prost::Message as _;
use tollgate_envoy::tonic::{Request, Response, Status};
use tollgate_envoy::{
    Entry, RateLimitDescriptor, RateLimitRequest, RateLimitResponse, RateLimitService,
};
use tollgate_rules::Config;

const CONFIG: &str = include_str!("../../deploy/envoy/tollgate.yaml");

static SERVICE: LazyLock<Box<dyn RateLimitService>> = LazyLock::new(|| {
    let secret = |name: &str| (name == "TOLLGATE_HASH_SECRET").then(|| "x".repeat(32));
    let config = Config::parse(CONFIG, "tollgate.yaml", &secret).expect("the shipped file");
    Box::new(tollgate_server::rate_limit_service(config))
});

fn decide(request: RateLimitRequest) -> Result<Response<RateLimitResponse>, Status> {
    let decided = pin!(SERVICE.should_rate_limit(Request::new(request)));
    match decided.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(decided) => decided,
        Poll::Pending => panic!("a store in memory decides at once"),
    }
}

/// The request of the shipped file, with the values that a client determines.
fn shipped(bytes: &[u8]) -> RateLimitRequest {
    let mut values = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec);
    let mut next = || values.next().unwrap_or_default();
    let (method, path, key) = (next(), next(), next());

    let descriptor = |entries: &[(&str, &[u8])]| RateLimitDescriptor {
        entries: entries
            .iter()
            .map(|(key, value)| Entry {
                key: (*key).to_owned(),
                value: value.to_vec().into(),
            })
            .collect(),
        ..RateLimitDescriptor::default()
    };
    RateLimitRequest {
        domain: "public".to_owned(),
        descriptors: vec![
            descriptor(&[("method", &method), ("path", &path), ("remote_address", b"203.0.113.7")]),
            descriptor(&[("path", &path), ("header:x-api-key", &key)]),
        ],
        ..RateLimitRequest::default()
    }
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(request) = RateLimitRequest::decode(bytes) {
        let _any = decide(request);
    }
    let decided = decide(shipped(bytes));
    assert!(decided.is_ok(), "{decided:?}");
});
