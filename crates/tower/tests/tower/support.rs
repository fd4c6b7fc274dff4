//! Test support: a limiter with a manual clock, an application, and requests to it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt as _, Full};
use tollgate::{Limit, Limiter, ManualClock, MemoryStore};
use tollgate_redis::RedisStore;
use tollgate_tower::Peer;
use tower::{Service, ServiceExt as _};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// A limiter with these limits, and the clock of its memory store.
pub(crate) fn timed(limits: impl IntoIterator<Item = Limit>) -> (Limiter, ManualClock) {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let limiter = Limiter::builder()
        .store(store)
        .clock(clock.clone())
        .limits(limits)
        .build();
    (limiter.expect("right limits"), clock)
}

/// A limiter with these limits and a clock that stands still.
pub(crate) fn limiter(limits: impl IntoIterator<Item = Limit>) -> Limiter {
    timed(limits).0
}

/// A limiter whose store is unavailable.
pub(crate) fn unavailable(limit: Limit) -> Limiter {
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let store = RedisStore::connect_lazy(format!("redis://{}", port.expect("a free port")));
    Limiter::new(store.expect("a right address"), [limit]).expect("valid limits")
}

/// A fixed window of one minute.
pub(crate) fn per_minute(name: &str, limit: u64) -> Limit {
    Limit::fixed_window(name, limit, MINUTE)
}

/// What remains of a limit for a key.
pub(crate) fn left(limiter: &Limiter, limit: &str, key: impl tollgate::ToKey) -> u64 {
    limiter
        .peek(limit, key)
        .cost(0)
        .try_now()
        .expect("a known limit")
        .remaining()
}

pub(crate) type TestRequest = Request<Full<Bytes>>;

/// A GET request from 203.0.113.7.
pub(crate) fn get(path: &str) -> TestRequest {
    from(
        "203.0.113.7:4711",
        Request::get(path).body(Full::default()).expect("a request"),
    )
}

/// A GET request with these headers.
pub(crate) fn with(path: &str, headers: &[(&str, &str)]) -> TestRequest {
    let mut request = get(path);
    for (name, value) in headers {
        let name: http::HeaderName = name.parse().expect("a name");
        request
            .headers_mut()
            .append(name, value.parse().expect("a value"));
    }
    request
}

/// The request with this peer address.
pub(crate) fn from<B>(peer: &str, mut request: Request<B>) -> Request<B> {
    let peer: SocketAddr = peer.parse().expect("an address with a port");
    request.extensions_mut().insert(Peer(peer));
    request
}

/// An application that answers every request with `hello`.
pub(crate) async fn hello<B>(_: Request<B>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from_static(b"hello"))))
}

/// Sends a request and reads the whole response.
pub(crate) fn send<S, R, B>(service: &S, request: Request<R>) -> Response<Bytes>
where
    S: Service<Request<R>, Response = Response<B>, Error = Infallible> + Clone,
    B: Body<Data = Bytes, Error: std::fmt::Debug>,
{
    let response = async {
        let response = service
            .clone()
            .oneshot(request)
            .await
            .expect("an infallible service");
        let (parts, body) = response.into_parts();
        Response::from_parts(
            parts,
            body.collect().await.expect("a whole body").to_bytes(),
        )
    };
    pollster::block_on(response)
}

/// The status of the response to a request.
pub(crate) fn status<S, R, B>(service: &S, request: Request<R>) -> StatusCode
where
    S: Service<Request<R>, Response = Response<B>, Error = Infallible> + Clone,
    B: Body<Data = Bytes, Error: std::fmt::Debug>,
{
    send(service, request).status()
}

/// The value of a response's header as text.
pub(crate) fn header<'r, B>(response: &'r Response<B>, name: &str) -> Option<&'r str> {
    response
        .headers()
        .get(name)
        .map(|value| value.to_str().expect("a text"))
}
