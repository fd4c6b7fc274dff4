//! A single HTTP/1.1 request to a running service, with a timeout and a size limit. The commands
//! interpret the response.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::CommandError;

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

/// The URL of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServiceUrl {
    host: String,
    port: u16,
    /// Host and port as written in the URL.
    authority: String,
    /// The path prefix, for a service behind a proxy.
    base: String,
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

impl ServiceUrl {
    /// Parses `http://host:port`; the scheme may be omitted. Errors never show a user name or
    /// password.
    pub(super) fn parse(url: &str) -> Result<Self, CommandError> {
        let invalid = |problem: &str| {
            CommandError::invalid(format!(
                "invalid URL: {problem}; expected http://HOST:PORT, such as http://127.0.0.1:8080"
            ))
        };

        let rest = match url.split_once("://") {
            None => url,
            Some(("http", rest)) => rest,
            Some(("https", _)) => return Err(no_tls()),
            Some(_) => return Err(invalid("the scheme must be http")),
        };
        if rest.contains('@') {
            return Err(invalid("user names are not supported"));
        }
        if rest.contains(['?', '#']) {
            return Err(invalid("it must not have a query or fragment"));
        }

        let uri: Uri = format!("http://{rest}")
            .parse()
            .map_err(|error: hyper::http::uri::InvalidUri| invalid(&error.to_string()))?;
        let authority = uri
            .authority()
            .filter(|authority| !authority.host().is_empty())
            .ok_or_else(|| invalid("missing host"))?;

        let port = match authority.as_str().rsplit_once(':') {
            // The last colon may belong to an IPv6 address, as in `[::1]`.
            Some((_, port)) if !port.ends_with(']') => port.parse().ok().filter(|port| *port > 0),
            _ => Some(80),
        };
        let port = port.ok_or_else(|| invalid("the port must be between 1 and 65535"))?;

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

    /// Sends a request and waits for the response, at most for `timeout`.
    pub(super) fn send(
        &self,
        request: ServiceRequest<'_>,
        timeout: Duration,
    ) -> Result<ServiceResponse, CommandError> {
        let request = self.http_request(request)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| CommandError::no_response(format!("cannot start: {error}")))?;

        let response = runtime.block_on(async {
            tokio::time::timeout(timeout, self.exchange(request))
                .await
                .unwrap_or_else(|_| Err(format!("timed out after {timeout:?}")))
        });
        // A name lookup that is still in flight must not delay the exit.
        runtime.shutdown_background();
        response.map_err(|reason| {
            CommandError::no_response(format!("no response from {self}: {reason}"))
        })
    }

    fn http_request(
        &self,
        request: ServiceRequest<'_>,
    ) -> Result<Request<Full<Bytes>>, CommandError> {
        let ServiceRequest {
            method,
            path,
            token,
            body,
        } = request;

        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header(HOST, &self.authority);
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(token) = token {
            let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| {
                CommandError::invalid("the token has characters that a header cannot contain")
            })?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }

        request
            .body(body.into())
            .map_err(|error| CommandError::invalid(format!("invalid request: {error}")))
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<ServiceResponse, String> {
        let stream = TcpStream::connect((self.host.as_str(), self.port))
            .await
            .map_err(|error| format!("{error}; is the service running there?"))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| error.to_string())?;
        let connection = tokio::spawn(connection);

        let response = sender
            .send_request(request)
            .await
            .map_err(|error| describe(&error))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), RESPONSE_MAX)
            .collect()
            .await
            .map_err(|_| {
                format!("the response is incomplete or larger than {RESPONSE_MAX} bytes")
            })?;

        connection.abort();
        Ok(ServiceResponse {
            status,
            body: body.to_bytes(),
        })
    }
}

impl From<ServiceUrl> for tollgate_load::Replica {
    fn from(url: ServiceUrl) -> Self {
        let ServiceUrl {
            host,
            port,
            authority,
            base,
        } = url;

        Self {
            host,
            port,
            authority,
            base,
        }
    }
}

impl std::fmt::Display for ServiceUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http://{}{}", self.authority, self.base)
    }
}

fn no_tls() -> CommandError {
    CommandError::invalid(
        "https is not supported: the service speaks plain http; run this command on its machine, \
         with a URL such as http://127.0.0.1:8080, or through a tunnel",
    )
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
        let target = ServiceUrl::parse(url).map_err(|error| error.reason)?;
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
