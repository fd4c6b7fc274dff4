//! The layers without sockets: one thread calls a trivial service through each, again and again.
//! Where a server's requests differ by microseconds from one round to the next, this tells
//! nanoseconds apart.

use std::convert::Infallible;
use std::hint::black_box;
use std::net::SocketAddr;

use anyhow::{Result, ensure};
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::header::{ACCEPT, HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue, Request, Response};
use tower::{Layer as _, Service, ServiceExt as _, service_fn};

use super::subject::{self, Case, Subject};
use crate::harness::{Figures, Span, time};

/// Nanoseconds of a call.
pub(super) const NS: &str = "ns";
/// What the layer adds to the bare call of the same round.
pub(super) const ADDED: &str = "added_ns";

/// Makes a number of calls and returns how long they took, and how many had a wrong response.
type Calling = Box<dyn FnMut(u32) -> (Span, u32)>;

pub(super) struct Caller {
    pub(super) subject: Subject,
    calling: Calling,
}

impl Caller {
    /// The subjects that can be called in this process, ready to give the same response each time.
    pub(super) fn all(case: Case) -> Result<Vec<Self>> {
        let caller = |subject| {
            let mut calling = calling(subject, case)?;
            // A limit that is to be used up is used up after the first call, which may be allowed.
            let _first = calling(1);
            Ok(Self { subject, calling })
        };
        Subject::local().map(caller).collect()
    }

    /// Makes calls, each of which must have the response of the case.
    pub(super) fn round(&mut self, calls: u32) -> Result<Figures> {
        let (span, wrong) = (self.calling)(calls);
        ensure!(wrong == 0, "{wrong} of {calls} calls had a wrong response");
        Ok(Figures::from([(NS, span.ns_per_op(calls))]))
    }
}

fn calling(subject: Subject, case: Case) -> Result<Calling> {
    let (status, text) = subject.handler_response(case);
    let hello = service_fn(move |_: Request<Body>| async move {
        let mut response = Response::new(Body::from(text));
        *response.status_mut() = status;
        Ok::<_, Infallible>(response)
    });
    Ok(match subject {
        Subject::Bare => timed(hello, case),
        Subject::Governor => timed(subject::governor(case).layer(hello), case),
        Subject::GovernorTelling => timed(subject::governor_telling(case).layer(hello), case),
        _ => timed(subject::tollgate(subject, case, None)?.layer(hello), case),
    })
}

/// Calls a clone of the service each time, as axum does.
fn timed<S, B>(service: S, case: Case) -> Calling
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
                    wrong += u32::from(response.status().as_u16() != case.status());
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
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn everybody_gives_the_answer_that_the_case_is_about() {
        for case in Case::value_variants() {
            for mut caller in Caller::all(*case).unwrap() {
                assert!(caller.round(10).is_ok(), "{:?}, {case:?}", caller.subject);
            }
        }
    }
}
