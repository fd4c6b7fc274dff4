//! A single HTTP/1.1 request to a running service, with a timeout and a size limit. The commands
//! interpret the response.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tollgate_load::Replica;

use super::outcome::{CommandError, invalid, no_response};
use super::terminal;

/// The largest response body in bytes. A decision about sixteen limits has some 3 KiB.
const RESPONSE_MAX: usize = 1 << 20;
const TIMEOUT_MAX: Duration = Duration::from_secs(3_600);

/// Arguments of all commands that send a request.
#[derive(Clone, Debug, clap::Args)]
pub struct ClientArgs {
    /// Time to wait for the response, such as 500ms or 5s
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = timeout)]
    pub(super) timeout: Duration,
    /// Print the response as JSON
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) fn timeout(text: &str) -> Result<Duration, String> {
    let length = tollgate_rules::config::parse_duration(text)?;
    if length.is_zero() || length > TIMEOUT_MAX {
        return Err("out of range: must be more than 0 and at most 1h".to_owned());
    }
    Ok(length)
}

/// A request to a service.
#[derive(Debug)]
pub(super) struct ServiceRequest<'a> {
    pub(super) method: Method,
    /// The path with its query.
    pub(super) path: &'a str,
    /// The token of the admin port.
    pub(super) token: Option<&'a str>,
    /// JSON, or empty.
    pub(super) body: Vec<u8>,
}

/// The response of a service.
#[derive(Debug)]
pub(super) struct ServiceResponse {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

/// Parses `http://host:port`; the scheme may be omitted. Errors never show a user name or password.
pub(super) fn parse_url(url: &str) -> Result<Replica, CommandError> {
    let wrong = |problem: &str| {
        invalid(format!(
            "invalid URL: {problem}; expected http://HOST:PORT, such as http://127.0.0.1:8080"
        ))
    };

    let rest = match url.split_once("://") {
        None => url,
        Some(("http", rest)) => rest,
        Some(("https", _)) => {
            return Err(invalid(
                "https is not supported: the service speaks plain http; run this command on its \
                 machine, with a URL such as http://127.0.0.1:8080, or through a tunnel",
            ));
        }
        Some(_) => return Err(wrong("the scheme must be http")),
    };
    if rest.contains('@') {
        return Err(wrong("user names are not supported"));
    }
    if rest.contains(['?', '#']) {
        return Err(wrong("it must not have a query or fragment"));
    }

    let uri: Result<Uri, _> = format!("http://{rest}").parse();
    let uri = uri.map_err(|error| wrong(&error.to_string()))?;
    let authority = uri
        .authority()
        .filter(|authority| !authority.host().is_empty());
    let authority = authority.ok_or_else(|| wrong("missing host"))?;
    let port = match authority.as_str().rsplit_once(':') {
        // The last colon may belong to an IPv6 address, as in `[::1]`.
        Some((_, port)) if !port.ends_with(']') => port.parse().ok().filter(|port| *port > 0),
        _ => Some(80),
    };

    Ok(Replica {
        host: authority.host().trim_matches(['[', ']']).to_owned(),
        port: port.ok_or_else(|| wrong("the port must be between 1 and 65535"))?,
        authority: authority.to_string(),
        base: uri.path().trim_end_matches('/').to_owned(),
    })
}

/// Runs a future to its end in this thread.
pub(super) fn block_on<F: Future>(future: F) -> Result<F::Output, CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| no_response(format!("cannot start: {error}")))?;
    let output = runtime.block_on(future);
    // A name lookup that is still in flight must not delay the exit.
    runtime.shutdown_background();
    Ok(output)
}

/// Sends a request and waits for the response, at most for `timeout`.
pub(super) fn send(
    service: &Replica,
    request: ServiceRequest<'_>,
    timeout: Duration,
) -> Result<ServiceResponse, CommandError> {
    let request = http_request(service, request)?;
    let exchange = async { tokio::time::timeout(timeout, exchange(service, request)).await };
    block_on(exchange)?
        .unwrap_or_else(|_| Err(format!("timed out after {timeout:?}")))
        .map_err(|reason| no_response(format!("no response from {service}: {reason}")))
}

fn http_request(
    service: &Replica,
    request: ServiceRequest<'_>,
) -> Result<Request<Full<Bytes>>, CommandError> {
    let mut builder = Request::builder()
        .method(request.method)
        .uri(format!("{}{}", service.base, request.path))
        .header(HOST, &service.authority);
    if !request.body.is_empty() {
        builder = builder.header(CONTENT_TYPE, "application/json");
    }
    if let Some(token) = request.token {
        let value = HeaderValue::try_from(format!("Bearer {token}"));
        let mut value =
            value.map_err(|_| invalid("the token has characters that a header cannot contain"))?;
        value.set_sensitive(true);
        builder = builder.header(AUTHORIZATION, value);
    }

    builder
        .body(request.body.into())
        .map_err(|error| invalid(format!("invalid request: {error}")))
}

async fn exchange(
    service: &Replica,
    request: Request<Full<Bytes>>,
) -> Result<ServiceResponse, String> {
    let stream = TcpStream::connect((service.host.as_str(), service.port))
        .await
        .map_err(|error| format!("{error}; is the service running there?"))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    let connection = tokio::spawn(connection);

    let response = sender.send_request(request).await;
    let response = response.map_err(|error| describe(&error))?;
    let status = response.status();
    let body = Limited::new(response.into_body(), RESPONSE_MAX)
        .collect()
        .await;
    let body = body
        .map_err(|_| format!("the response is incomplete or larger than {RESPONSE_MAX} bytes"))?;

    connection.abort();
    Ok(ServiceResponse {
        status,
        body: body.to_bytes(),
    })
}

fn describe(error: &hyper::Error) -> String {
    if error.is_parse() {
        return "the response is not HTTP; is this the right port?".to_owned();
    }
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

impl ServiceResponse {
    /// The body, if it is JSON.
    pub(super) fn json(&self) -> Option<serde_json::Value> {
        serde_json::from_slice(&self.body).ok()
    }

    /// The `detail` of a problem body, if there is one.
    pub(super) fn detail(&self) -> Option<String> {
        let text = terminal::plain(self.json()?.get("detail")?.as_str()?);
        Some(text).filter(|text| !text.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<(String, u16, String), String> {
        let target = parse_url(url).map_err(|error| error.reason)?;
        Ok((target.host, target.port, target.base))
    }

    #[test]
    fn urls_are_parsed() {
        let target = |host: &str, port, base: &str| Ok((host.to_owned(), port, base.to_owned()));

        assert_eq!(parse("127.0.0.1:8080"), target("127.0.0.1", 8080, ""));
        assert_eq!(
            parse("http://localhost:8080/"),
            target("localhost", 8080, "")
        );
        assert_eq!(
            parse("http://[::1]:9090/gate/"),
            target("::1", 9090, "/gate")
        );
        assert_eq!(parse("http://[::1]"), target("::1", 80, ""));
        assert_eq!(parse("limits.internal"), target("limits.internal", 80, ""));
    }

    #[test]
    fn errors_say_what_is_expected() {
        for (url, expected) in [
            ("https://h", "speaks plain http"),
            ("ftp://h", "scheme must be http"),
            ("http://ann:hunter2@h", "user names are not supported"),
            ("http://h?x=1", "a query"),
            ("http://", "invalid URL: empty string"),
            ("", "invalid URL: empty string"),
            ("h:99999", "port must be between"),
            ("h:0", "port must be between"),
            ("h:x", "port must be between"),
            ("a b", "invalid URL: invalid uri character"),
            ("http://:80", "missing host"),
        ] {
            let error = parse(url).unwrap_err();
            assert!(
                error.contains(expected) && !error.contains("hunter2"),
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
