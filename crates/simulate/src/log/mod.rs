//! Parses the lines of an access log into the time and the attributes of a request.
//!
//! A line becomes a [`LogRecord`], or a [`LineError`]. A record provides attributes in the same way
//! as the front ends of the service do.

mod clf;
mod duration;
mod escape;
mod fields;
mod json;
mod proxy;
mod target;
#[cfg(test)]
mod tests;
mod time;

use std::cell::OnceCell;
use std::net::IpAddr;

use serde::Serialize;
use tollgate::Micros;
use tollgate_rules::{Attribute, AttributeKind, Attributes, Value};
use tollgate_subject::parse_address;

pub use fields::{FieldError, LogFields};

use self::clf::CommonLine;
use self::json::JsonLine;
use self::proxy::{ProxyLine, ProxyLogFormat};
use self::time::ClfTimeParser;

/// The format of an access log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessLogFormat {
    /// Detected for each line by its beginning: JSON with a brace, Envoy with a bracket, a load
    /// balancer with its protocol, otherwise common or combined.
    #[default]
    Auto,
    /// The common log format. Anything after it is ignored.
    Common,
    /// The combined log format.
    Combined,
    /// One JSON object per line.
    Json,
    /// The default text format of Envoy.
    Envoy,
    /// The format of AWS's application load balancer.
    Alb,
}

/// Which moment of a request the time of its line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedMoment {
    /// Its start, as with Apache, Envoy and Traefik.
    Start,
    /// Its end, as with nginx and Caddy.
    End,
}

/// Parses the lines of a log.
#[derive(Clone, Debug)]
pub struct LogParser {
    format: AccessLogFormat,
    fields: LogFields,
    times: ClfTimeParser,
}

impl LogParser {
    /// A parser for lines of this format. `fields` maps the fields of JSON lines.
    pub fn new(format: AccessLogFormat, fields: LogFields) -> Self {
        Self {
            format,
            fields,
            times: ClfTimeParser::default(),
        }
    }

    /// Parses a line.
    #[inline]
    pub fn parse<'l>(&'l self, line: &'l [u8]) -> Result<LogRecord<'l>, LineError> {
        let proxy = match self.format {
            AccessLogFormat::Auto => ProxyLogFormat::detect(line),
            AccessLogFormat::Envoy => Some(ProxyLogFormat::Envoy),
            AccessLogFormat::Alb => Some(ProxyLogFormat::Alb),
            _ => None,
        };
        let is_json = match self.format {
            AccessLogFormat::Auto => line.starts_with(b"{"),
            format => format == AccessLogFormat::Json,
        };

        let line = if is_json {
            ParsedLine::Json(Box::new(JsonLine::parse(line, &self.fields)?))
        } else if let Some(kind) = proxy {
            ParsedLine::Proxy(Box::new(ProxyLine::parse(line, kind)?))
        } else {
            ParsedLine::Common(CommonLine::parse(line, self.format, &self.times)?)
        };
        Ok(LogRecord {
            line,
            address: OnceCell::new(),
        })
    }
}

/// A request in a log.
#[derive(Debug)]
pub struct LogRecord<'l> {
    line: ParsedLine<'l>,
    /// The parsed client address, for all limits.
    address: OnceCell<Option<IpAddr>>,
}

#[derive(Debug)]
enum ParsedLine<'l> {
    Common(CommonLine<'l>),
    Json(Box<JsonLine<'l>>),
    Proxy(Box<ProxyLine<'l>>),
}

impl LogRecord<'_> {
    /// The time of the request.
    #[inline]
    pub fn time(&self) -> Micros {
        match &self.line {
            ParsedLine::Common(line) => line.time,
            ParsedLine::Json(line) => line.time,
            ParsedLine::Proxy(line) => line.time,
        }
    }

    /// How long the request took, if the line says so.
    pub fn duration(&self) -> Option<Micros> {
        match &self.line {
            ParsedLine::Common(line) => line.duration(),
            ParsedLine::Json(line) => line.duration(),
            ParsedLine::Proxy(line) => line.duration,
        }
    }

    /// Which moment of the request its time is, as far as the line tells. Servers write a line when
    /// a request ends, so it is the end unless the field's name says otherwise.
    pub fn logged_moment(&self) -> LoggedMoment {
        match &self.line {
            ParsedLine::Json(line) if line.has_start_time() => LoggedMoment::Start,
            ParsedLine::Proxy(line) => line.moment,
            _ => LoggedMoment::End,
        }
    }
}

impl Attributes for LogRecord<'_> {
    #[inline]
    fn get(&self, attribute: &Attribute) -> Option<Value<'_>> {
        let value = match &self.line {
            ParsedLine::Common(line) => line.get(attribute),
            ParsedLine::Json(line) => line.get(attribute),
            ParsedLine::Proxy(line) => line.get(attribute),
        };
        match value {
            // If it is not an address, the text, which selecting the limits will then report.
            Some(Value::Text(text)) if attribute.kind() == AttributeKind::ClientIp => {
                let address = self.address.get_or_init(|| parse_address(&text).ok());
                Some(address.map_or(Value::Text(text), Value::Address))
            }
            value => value,
        }
    }
}

/// Why a line cannot be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, thiserror::Error)]
#[error("{}; {}", self.texts().0, self.texts().1)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LineError {
    /// The line is too long.
    TooLong,
    /// The line is not in the expected format.
    Layout,
    /// The time is invalid.
    Time,
    /// The server logged a connection on which no request arrived.
    NoRequest,
    /// The request is not a method, a target and a version.
    Request,
    /// The line is not a JSON object.
    Json,
    /// The JSON object has no time.
    NoTime,
    /// The line is not valid UTF-8. A copy with replaced bytes can be parsed.
    NotUtf8,
}

impl LineError {
    /// What was found, and what was expected or how to fix it.
    pub const fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::TooLong => (
                "longer than 64 KiB",
                "a line must have at most 65,536 bytes",
            ),
            Self::Layout => (
                "not in a known log format",
                "expected a line such as \
                 203.0.113.7 - ann [10/Oct/2026:13:55:36 +0000] \"GET /a HTTP/1.1\" 200 512",
            ),
            Self::Time => (
                "invalid time",
                "expected 10/Oct/2026:13:55:36 -0700, 2026-10-10T13:55:36Z or a Unix time",
            ),
            Self::NoRequest => (
                "a connection without a request",
                "nothing to fix: no limit applies to it",
            ),
            Self::Request => (
                "invalid request",
                r#"expected a request such as "GET /path?x=1 HTTP/1.1""#,
            ),
            Self::Json => (
                "not a JSON object",
                "expected one object per line, such as \
                 {\"time\": \"2026-10-10T13:55:36Z\", \"client_ip\": \"203.0.113.7\"}",
            ),
            Self::NoTime => (
                "no time",
                "name the field that has it, such as --field time=ts",
            ),
            Self::NotUtf8 => ("not UTF-8", "expected a line in UTF-8"),
        }
    }
}
