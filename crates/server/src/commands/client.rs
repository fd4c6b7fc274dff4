//! A single HTTP/1.1 request to a running service, with a timeout and a size limit. The commands
//! interpret the response.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use serde_json::Value;
use tollgate_load::{ClientTls, Replica};

use super::outcome::{CommandError, invalid, no_response};
use super::terminal;
use crate::exchange::{ExchangeError, exchange};

/// The largest response body in bytes. A decision about sixteen limits has some 3 KiB.
const RESPONSE_MAX: usize = 1 << 20;
/// The most bytes that are read of a PEM file.
const PEM_MAX: u64 = 1 << 20;
/// The variable with a token of the data ports.
pub(super) const TOKEN_VARIABLE: &str = "TOLLGATE_TOKEN";
const TIMEOUT_MAX: Duration = Duration::from_secs(3_600);

/// Arguments of all commands that send a request.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ClientArgs {
    /// Time to wait for the response, such as 500ms or 5s
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = timeout)]
    pub(super) timeout: Duration,
    /// Print the response as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(super) connection: ConnectionArgs,
}

pub(super) fn timeout(text: &str) -> Result<Duration, String> {
    let length = tollgate_rules::config::parse_duration(text)?;
    if length.is_zero() || length > TIMEOUT_MAX {
        return Err("out of range: must be more than 0 and at most 1h".to_owned());
    }
    Ok(length)
}

/// Arguments about the connection to a service with TLS.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct ConnectionArgs {
    /// PEM file with the authorities to trust for https [default: those of the system]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// PEM file with a client certificate, for a service that requires one
    #[arg(long, value_name = "FILE", requires = "client_key")]
    client_cert: Option<PathBuf>,
    /// PEM file with the private key of the client certificate
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    client_key: Option<PathBuf>,
}

impl ConnectionArgs {
    /// The service at a URL, with the token of the first of these variables that is set.
    pub(super) fn service(&self, url: &str, variables: &[&str]) -> Result<Replica, CommandError> {
        let (mut service, scheme) = parse_url(url)?;
        service.tls = match scheme {
            UrlScheme::Https => Some(self.tls()?),
            UrlScheme::Http if self.ca.is_some() || self.client_cert.is_some() => {
                return Err(invalid("--ca and --client-cert require a URL with https"));
            }
            UrlScheme::Http => None,
        };
        service.authorization = authorization(variables)?;
        Ok(service)
    }

    fn tls(&self) -> Result<ClientTls, CommandError> {
        let ca = self.ca.as_deref().map(read_pem).transpose()?;
        let identity = match (&self.client_cert, &self.client_key) {
            (Some(certificate), Some(key)) => Some((read_pem(certificate)?, read_pem(key)?)),
            _ => None,
        };

        let identity = identity
            .as_ref()
            .map(|(certificate, key)| (&certificate[..], &key[..]));
        ClientTls::new(ca.as_deref(), identity).map_err(invalid)
    }
}

fn read_pem(file: &Path) -> Result<Vec<u8>, CommandError> {
    let mut pem = Vec::new();
    File::open(file)
        .and_then(|file| file.take(PEM_MAX).read_to_end(&mut pem))
        .map_err(|error| invalid(format!("cannot read {}: {error}", file.display())))?;
    Ok(pem)
}

/// The header with the token of the first of these variables that is set.
fn authorization(variables: &[&str]) -> Result<Option<HeaderValue>, CommandError> {
    let mut tokens = variables.iter().filter_map(|name| std::env::var(name).ok());
    let Some(token) = tokens.find(|token| !token.is_empty()) else {
        return Ok(None);
    };

    let mut value = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| invalid("the token has characters that a header cannot contain"))?;
    value.set_sensitive(true);
    Ok(Some(value))
}

/// The response of a service.
#[derive(Debug)]
pub(super) struct ServiceResponse {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

/// The scheme of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UrlScheme {
    Http,
    Https,
}

/// Parses `http://host:port` or `https://host:port`; `http://` may be omitted. Errors never show a
/// user name or password.
pub(super) fn parse_url(url: &str) -> Result<(Replica, UrlScheme), CommandError> {
    let wrong = |problem: &str| {
        invalid(format!(
            "invalid URL: {problem}; expected http://HOST:PORT or https://HOST:PORT, such as \
             http://127.0.0.1:8080"
        ))
    };

    let (rest, scheme) = match url.split_once("://") {
        None => (url, UrlScheme::Http),
        Some(("http", rest)) => (rest, UrlScheme::Http),
        Some(("https", rest)) => (rest, UrlScheme::Https),
        Some(_) => return Err(wrong("the scheme must be http or https")),
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
        _ if scheme == UrlScheme::Https => Some(443),
        _ => Some(80),
    };

    let service = Replica {
        host: authority.host().trim_matches(['[', ']']).to_owned(),
        port: port.ok_or_else(|| wrong("the port must be between 1 and 65535"))?,
        authority: authority.to_string(),
        base: uri.path().trim_end_matches('/').to_owned(),
        tls: None,
        authorization: None,
    };
    Ok((service, scheme))
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

/// Sends a request and waits for the response, at most for `timeout`. `path` has the query, too.
pub(super) fn send(
    service: &Replica,
    timeout: Duration,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Result<ServiceResponse, CommandError> {
    let mut request = Request::builder()
        .method(method)
        .uri(format!("{}{path}", service.base))
        .header(HOST, &service.authority);
    if body.is_some() {
        request = request.header(CONTENT_TYPE, "application/json");
    }
    if let Some(authorization) = &service.authorization {
        request = request.header(AUTHORIZATION, authorization);
    }
    let body = body.map(Value::to_string).unwrap_or_default();
    let request = request
        .body(body.into())
        .map_err(|error| invalid(format!("invalid request: {error}")))?;

    let failed = |reason| no_response(format!("no response from {service}: {reason}"));
    let address = (service.host.as_str(), service.port);
    let exchange = exchange(address, service.tls.as_ref(), request, RESPONSE_MAX);
    let response = block_on(async { tokio::time::timeout(timeout, exchange).await })?;
    let response = response.map_err(|_| failed(format!("timed out after {timeout:?}")))?;
    let (status, body) = response.map_err(|error| failed(describe(&error)))?;
    let body = body.ok_or_else(|| {
        let reason = "the response is incomplete or larger than";
        failed(format!("{reason} {RESPONSE_MAX} bytes"))
    })?;
    Ok(ServiceResponse { status, body })
}

fn describe(error: &ExchangeError) -> String {
    match error {
        ExchangeError::Connect(error) => format!("{error}; is the service running there?"),
        ExchangeError::Http(error) if error.is_parse() => {
            "the response is not HTTP; is this the right port?".to_owned()
        }
        ExchangeError::Http(error) => match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
        ExchangeError::Tls(error) => error.to_string(),
    }
}

impl ServiceResponse {
    /// The body, if it is JSON.
    pub(super) fn json(&self) -> Option<Value> {
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
        let (target, _scheme) = parse_url(url).map_err(|error| error.reason)?;
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
        assert_eq!(parse("https://[::1]"), target("::1", 443, ""));
        assert_eq!(parse("https://h:8080/gate"), target("h", 8080, "/gate"));
        assert_eq!(parse("limits.internal"), target("limits.internal", 80, ""));
    }

    #[test]
    fn errors_say_what_is_expected() {
        for (url, expected) in [
            ("ftp://h", "scheme must be http or https"),
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
