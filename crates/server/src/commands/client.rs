//! One request to a running service, and its answer: plain HTTP/1.1, within a time and a size. What
//! the answer means is the commands' own business.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::Failure;

/// The longest answer that is read. A decision about sixteen limits has some 3 KiB.
const ANSWER_MAX: usize = 1 << 20;
const TIMEOUT_MAX: Duration = Duration::from_secs(3_600);

/// How to ask.
#[derive(Clone, Debug, clap::Args)]
pub struct ClientArgs {
    /// How long to wait for the answer, as in 500ms or 5s
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = timeout)]
    pub(super) timeout: Duration,
    /// Print the answer as it came, for programs
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) fn timeout(text: &str) -> Result<Duration, String> {
    let length = tollgate_rules::config::length(text)?;
    if length.is_zero() || length > TIMEOUT_MAX {
        return Err("it must be more than 0 and at most 1h".to_owned());
    }
    Ok(length)
}

/// Where a service is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    host: String,
    port: u16,
    /// Host and port as they were written.
    authority: String,
    /// What stands before every path, where a proxy serves several things under one name.
    base: String,
}

/// What to ask for.
#[derive(Debug)]
pub(super) struct Ask<'a> {
    pub(super) method: Method,
    /// With its query.
    pub(super) path: &'a str,
    /// Shown to the admin port.
    pub(super) token: Option<&'a str>,
    /// JSON, or nothing.
    pub(super) body: Vec<u8>,
}

/// What came back.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

impl Target {
    /// `http://host:port`, with or without the scheme. What stands before an `@` is never repeated.
    pub(super) fn parse(url: &str) -> Result<Self, Failure> {
        const RIGHT: &str = "write http://HOST:PORT, as in http://127.0.0.1:8080";
        let place = match url.split_once("://") {
            None => url,
            Some(("http", place)) => place,
            Some(("https", _)) => return Err(no_tls()),
            Some(_) => {
                return Err(Failure::wrong(format!(
                    "the URL's scheme is not http; {RIGHT}"
                )));
            }
        };
        if place.contains('@') {
            return Err(Failure::wrong(format!(
                "the URL names a user, which the service has none of; {RIGHT}"
            )));
        }
        if place.contains(['?', '#']) {
            return Err(Failure::wrong(format!(
                "the URL has a query or a fragment; {RIGHT}"
            )));
        }
        let uri: Result<Uri, _> = format!("http://{place}").parse();
        let uri = uri
            .map_err(|error| Failure::wrong(format!("the URL is not usable: {error}; {RIGHT}")))?;
        let authority = uri
            .authority()
            .filter(|authority| !authority.host().is_empty());
        let authority =
            authority.ok_or_else(|| Failure::wrong(format!("the URL has no host; {RIGHT}")))?;
        let port = match authority.as_str().rsplit_once(':') {
            // A port that is no number is no part of an IPv6 address either.
            Some((_, port)) if !port.ends_with(']') => port.parse().ok().filter(|port| *port > 0),
            _ => Some(80),
        };
        let port = port.ok_or_else(|| {
            Failure::wrong(format!(
                "the URL's port is no number from 1 to 65535; {RIGHT}"
            ))
        })?;
        Ok(Self {
            host: authority
                .host()
                .trim_start_matches('[')
                .trim_end_matches(']')
                .to_owned(),
            port,
            authority: authority.to_string(),
            base: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    /// Asks, and waits for the answer at most so long.
    pub(super) fn ask(&self, ask: Ask<'_>, timeout: Duration) -> Result<Answer, Failure> {
        let request = self.request(ask)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime =
            runtime.map_err(|error| Failure::no_answer(format!("cannot start: {error}")))?;
        let answer = runtime.block_on(async {
            let waited = tokio::time::timeout(timeout, self.exchange(request)).await;
            waited.unwrap_or_else(|_| Err(format!("nothing came within {timeout:?}")))
        });
        // A name that is still being looked up must not hold up the end.
        runtime.shutdown_background();
        answer.map_err(|reason| Failure::no_answer(format!("no answer from {self}: {reason}")))
    }

    fn request(&self, ask: Ask<'_>) -> Result<Request<Full<Bytes>>, Failure> {
        let Ask {
            method,
            path,
            token,
            body,
        } = ask;
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base));
        request = request.header(HOST, &self.authority);
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(token) = token {
            let value = HeaderValue::try_from(format!("Bearer {token}"));
            let mut value = value
                .map_err(|_| Failure::wrong("the token has characters that no header can hold"))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        request
            .body(body.into())
            .map_err(|error| Failure::wrong(format!("this cannot be asked: {error}")))
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Answer, String> {
        let connected = TcpStream::connect((self.host.as_str(), self.port)).await;
        let stream =
            connected.map_err(|error| format!("{error}; is the service running there?"))?;
        let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = shaken.map_err(|error| error.to_string())?;
        let connection = tokio::spawn(connection);
        let response = sender
            .send_request(request)
            .await
            .map_err(|error| describe(&error))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_MAX)
            .collect()
            .await;
        let body = body
            .map_err(|_| format!("the answer broke off, or is longer than {ANSWER_MAX} bytes"))?;
        connection.abort();
        Ok(Answer {
            status,
            body: body.to_bytes(),
        })
    }
}

impl From<Target> for tollgate_load::Replica {
    fn from(target: Target) -> Self {
        let Target {
            host,
            port,
            authority,
            base,
        } = target;
        Self {
            host,
            port,
            authority,
            base,
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http://{}{}", self.authority, self.base)
    }
}

fn no_tls() -> Failure {
    Failure::wrong(
        "the URL begins with https, and the service itself speaks plain http; ask it on its own machine, as in \
         http://127.0.0.1:8080, or through a tunnel to there",
    )
}

fn describe(error: &hyper::Error) -> String {
    if error.is_parse() {
        return "what came is no HTTP; is this the right port?".to_owned();
    }
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

impl Answer {
    /// The body, if it is JSON.
    pub(super) fn json(&self) -> Option<serde_json::Value> {
        serde_json::from_slice(&self.body).ok()
    }

    /// The body's own words about what is wrong, if it is a problem.
    pub(super) fn detail(&self) -> Option<String> {
        let text = self
            .json()?
            .get("detail")?
            .as_str()
            .map(super::terminal::plain);
        text.filter(|text| !text.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<(String, u16, String), String> {
        let target = Target::parse(url).map_err(|failure| failure.reason)?;
        Ok((target.host, target.port, target.base))
    }

    #[test]
    fn urls_say_where_to_ask() {
        let found = |host: &str, port, base: &str| Ok((host.to_owned(), port, base.to_owned()));
        assert_eq!(parse("127.0.0.1:8080"), found("127.0.0.1", 8080, ""));
        assert_eq!(
            parse("http://localhost:8080/"),
            found("localhost", 8080, "")
        );
        assert_eq!(
            parse("http://[::1]:9090/gate/"),
            found("::1", 9090, "/gate")
        );
        assert_eq!(parse("http://[::1]"), found("::1", 80, ""));
        assert_eq!(parse("limits.internal"), found("limits.internal", 80, ""));
    }

    #[test]
    fn wrong_urls_are_told_what_would_be_right() {
        for (url, told) in [
            ("https://h", "speaks plain http"),
            ("ftp://h", "scheme is not http"),
            ("http://ann:hunter2@h", "names a user"),
            ("http://h?x=1", "a query"),
            ("http://", "not usable"),
            ("", "not usable"),
            ("h:99999", "port is no number"),
            ("h:0", "port is no number"),
            ("h:x", "port is no number"),
            ("a b", "not usable"),
            ("http://:80", "no host"),
        ] {
            let error = parse(url).unwrap_err();
            assert!(
                error.contains(told) && !error.contains("hunter2"),
                "{url}: {error}"
            );
        }
    }

    #[test]
    fn a_timeout_has_a_unit_and_a_bound() {
        assert_eq!(timeout("250ms"), Ok(Duration::from_millis(250)));
        for wrong in ["5", "0s", "2h", "soon", ""] {
            assert!(timeout(wrong).is_err(), "{wrong}");
        }
    }
}
