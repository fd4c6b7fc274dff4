//! The layers, each set up as its own documentation says, with the same bucket for every client
//! address: before axum's hello in a server that is a process of its own, so that subjects share no
//! threads, allocator or caches; and before a trivial service that one thread calls again and again
//! without sockets. Where a server's requests differ by microseconds from one round to the next, this
//! tells nanoseconds apart.

use std::convert::Infallible;
use std::hint::black_box;
use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::StatusCode;
use axum::routing::get;
use governor::clock::QuantaInstant;
use governor::middleware::NoOpMiddleware;
use http::header::{ACCEPT, HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue, Request, Response};
use tollgate::{Consistency, FailurePolicy, Limit, Limiter, MemoryStore, Rate};
use tollgate_redis::RedisBuilder;
use tollgate_tower::{EnabledFields, RateLimitLayer, by};
use tower::{Layer as _, Service, ServiceExt as _, service_fn};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;
use tower_governor::key_extractor::PeerIpKeyExtractor;

use super::{BARE, DENIED, GOVERNOR, GOVERNOR_FIELDS, LEASED, NS, SILENT, STRICT};
use crate::harness::prelude::*;

/// Connections of the load generator, each with one request in flight.
const CONNECTIONS: u32 = 32;
const LIMIT: &str = "per-address";
/// Why a bucket of the other layer is valid.
const VALID: &str = "neither burst nor period is zero";

/// Whether a subject counts in the process, so that it can be called without a runtime.
pub(super) fn is_local(subject: &str) -> bool {
    ![LEASED, STRICT].contains(&subject)
}

/// The status of every response of a case.
fn status(case: &str) -> u16 {
    if case == DENIED { 429 } else { 200 }
}

/// The response of the handler. A bare server denies by itself.
fn handler_response(subject: &str, case: &str) -> (StatusCode, &'static str) {
    match (subject, case) {
        (BARE, DENIED) => (StatusCode::TOO_MANY_REQUESTS, "Too Many Requests"),
        _ => (StatusCode::OK, "Hello, World!"),
    }
}

/// The size of each client's bucket, and how long it takes until it has one more. It never runs
/// out, or is empty after one.
fn bucket(case: &str) -> (u32, Duration) {
    match case {
        DENIED => (1, Duration::from_hours(24)),
        _ => (1_000_000, Duration::from_micros(1)),
    }
}

/// Tollgate's layer, on this server where the subject shares its limits. Needs a runtime then.
fn tollgate(subject: &str, case: &str, redis: Option<&str>) -> Result<RateLimitLayer> {
    let (burst, period) = bucket(case);
    let limit = Limit::token_bucket(LIMIT, burst.into(), Rate::new(1, period))
        .on_store_failure(FailurePolicy::Deny);
    let limiter = match redis {
        None => Limiter::new(MemoryStore::new(), [limit]),
        Some(url) => {
            let store = RedisBuilder::standalone(url).timeout(STORE_TIMEOUT);
            let consistency = match subject {
                LEASED => Consistency::Leased,
                _ => Consistency::Strict,
            };
            Limiter::new(store.build()?, [limit.consistency(consistency)])
        }
    };

    let is_told = subject != SILENT;
    let fields = EnabledFields {
        ietf: is_told,
        legacy: is_told,
        openai: false,
        anthropic: false,
        retry_after: true,
    };
    let layer = RateLimitLayer::new(&limiter?, LIMIT, by::client_address());
    Ok(layer.fields(fields).validate()?)
}

/// The other layer, with default settings.
fn governor(
    case: &str,
) -> GovernorConfigBuilder<PeerIpKeyExtractor, NoOpMiddleware<QuantaInstant>> {
    let (burst, period) = bucket(case);
    let mut builder = GovernorConfigBuilder::default();
    builder.period(period).burst_size(burst);
    builder
}

#[derive(Debug, clap::Args)]
pub(crate) struct HelloArguments {
    subject: String,
    case: String,
    /// Where limits are shared
    redis: Option<String>,
}

/// Starts this program again as the server, and waits until it responds as the case says.
pub(super) fn start(subject: &str, case: &str) -> Result<ServerUnderLoad> {
    let redis = (!is_local(subject)).then(|| Server::start(Flavor::Redis));
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["hello", subject, case]);
    command.args(redis.as_ref().map(Server::url));
    let server = ServerUnderLoad::start(subject, command, CONNECTIONS, status(case))?;
    Ok(ServerUnderLoad { redis, ..server })
}

/// Responds until it is killed.
pub(crate) fn run_hello(arguments: &HelloArguments) -> Result<()> {
    let HelloArguments {
        subject,
        case,
        redis,
    } = arguments;
    serve(async |listener| {
        let app = app(subject, case, redis.as_deref())?;
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        Ok(axum::serve(listener, app).await?)
    })
}

fn app(subject: &str, case: &str, redis: Option<&str>) -> Result<Router> {
    let response = handler_response(subject, case);
    let hello = Router::new().route("/", get(async move || response));
    let mut other = governor(case);
    Ok(match subject {
        BARE => hello,
        GOVERNOR => hello.layer(GovernorLayer::new(other.finish().expect(VALID))),
        GOVERNOR_FIELDS => hello.layer(GovernorLayer::new(
            other.use_headers().finish().expect(VALID),
        )),
        _ => hello.layer(tollgate(subject, case, redis)?),
    })
}

/// Makes a number of calls and returns how long they took, and how many had a wrong response.
type Calling = Box<dyn FnMut(u32) -> (Span, u32)>;

/// A subject that is called in this process.
pub(super) struct LayerCaller(Calling);

impl LayerCaller {
    /// Ready to give the same response each time.
    pub(super) fn new(subject: &str, case: &str) -> Result<Self> {
        let mut calling = calling(subject, case)?;
        // A limit that is to be used up is used up after the first call, which may be allowed.
        let _first = calling(1);
        Ok(Self(calling))
    }

    /// Makes calls, each of which must have the response of the case.
    pub(super) fn round(&mut self, calls: u32) -> Result<Figures> {
        let (span, wrong) = (self.0)(calls);
        ensure!(wrong == 0, "{wrong} of {calls} calls had a wrong response");
        Ok(Figures::from([(NS, span.ns_per_op(calls))]))
    }
}

fn calling(subject: &str, case: &str) -> Result<Calling> {
    let (response_status, text) = handler_response(subject, case);
    let hello = service_fn(move |_: Request<Body>| async move {
        let mut response = Response::new(Body::from(text));
        *response.status_mut() = response_status;
        Ok::<_, Infallible>(response)
    });
    let (status, mut other) = (status(case), governor(case));
    Ok(match subject {
        BARE => timed(hello, status),
        GOVERNOR => {
            let layer = GovernorLayer::new(other.finish().expect(VALID));
            timed(layer.layer(hello), status)
        }
        GOVERNOR_FIELDS => {
            let layer = GovernorLayer::new(other.use_headers().finish().expect(VALID));
            timed(layer.layer(hello), status)
        }
        _ => timed(tollgate(subject, case, None)?.layer(hello), status),
    })
}

/// Calls a clone of the service each time, as axum does.
fn timed<S, B>(service: S, status: u16) -> Calling
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible> + Clone + 'static,
{
    let headers = headers();
    Box::new(move |calls| {
        time(|| {
            pollster::block_on(async {
                let mut wrong = 0;
                for _ in 0..calls {
                    let Ok(response) = service.clone().oneshot(request(&headers)).await;
                    wrong += u32::from(response.status().as_u16() != status);
                    black_box(response);
                }
                wrong
            })
        })
    })
}

/// A request as it arrives from a connection, with the headers that the load generator sends.
fn request(headers: &HeaderMap) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    *request.headers_mut() = headers.clone();
    let peer = SocketAddr::from(([127, 0, 0, 1], 4711));
    request.extensions_mut().insert(ConnectInfo(peer));
    request
}

fn headers() -> HeaderMap {
    let fields = [
        (HOST, "127.0.0.1:3000"),
        (USER_AGENT, "h2load"),
        (ACCEPT, "*/*"),
    ];
    let fields = fields.map(|(name, value)| (name, HeaderValue::from_static(value)));
    HeaderMap::from_iter(fields)
}

#[cfg(test)]
mod tests {
    use testkit::reverse_proxy;
    use tokio::net::TcpListener;

    use super::super::{CASES, MEMORY, SUBJECTS};
    use super::*;

    fn local() -> impl Iterator<Item = (&'static str, &'static str)> {
        let subjects = SUBJECTS.into_iter().filter(|subject| is_local(subject));
        subjects.flat_map(|subject| CASES.map(|case| (subject, case)))
    }

    #[test]
    fn every_subject_gives_the_response_of_the_case() {
        for (subject, case) in local() {
            let mut caller = LayerCaller::new(subject, case).unwrap();
            assert!(caller.round(10).is_ok(), "{subject}, {case}");
        }
    }

    #[test]
    fn every_server_gives_the_response_of_the_case() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        for (subject, case) in local() {
            let app = app(subject, case, None).unwrap();
            let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
            let addr = listener.local_addr().unwrap();
            let app = app.into_make_service_with_connect_info::<SocketAddr>();
            runtime.spawn(axum::serve(listener, app).into_future());
            let first = reverse_proxy::get(addr, "/", &[]);
            assert!(subject == BARE || first.status == 200, "{subject}, {case}");
            let then = reverse_proxy::get(addr, "/", &[]);
            assert_eq!(then.status, status(case), "{subject}, {case}");
            let tells = [MEMORY, GOVERNOR_FIELDS].contains(&subject);
            let remaining = then.header("x-ratelimit-remaining");
            assert_eq!(remaining.is_some(), tells, "{subject}, {case}");
        }
    }
}
