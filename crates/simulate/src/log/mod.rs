//! Parses the lines of an access log into the time and the attributes of a request.
//!
//! A line becomes a [`LogRecord`], or a [`LineError`]. A record provides attributes in the same way
//! as the front ends of the service do.

mod clf;
mod duration;
mod escape;
mod fields;
mod format;
mod json;
mod line_error;
mod proxy;
mod target;
#[cfg(test)]
mod tests;
mod time;

use tollgate::Micros;
use tollgate_rules::{Attribute, Attributes, Value};

pub use fields::{FieldError, LogFields};
pub use format::{AccessLogFormat, LoggedMoment};
pub use line_error::LineError;

use self::clf::CommonLine;
use self::json::JsonLine;
use self::proxy::{ProxyLine, ProxyLogFormat};
use self::time::ClfTimeParser;

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

        Ok(LogRecord(if is_json {
            ParsedLine::Json(Box::new(JsonLine::parse(line, &self.fields)?))
        } else if let Some(kind) = proxy {
            ParsedLine::Proxy(Box::new(ProxyLine::parse(line, kind)?))
        } else {
            ParsedLine::Common(CommonLine::parse(line, self.format, &self.times)?)
        }))
    }
}

/// A request in a log.
#[derive(Debug)]
pub struct LogRecord<'l>(ParsedLine<'l>);

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
        match &self.0 {
            ParsedLine::Common(line) => line.time,
            ParsedLine::Json(line) => line.time,
            ParsedLine::Proxy(line) => line.time,
        }
    }

    /// How long the request took, if the line says so.
    pub fn duration(&self) -> Option<Micros> {
        match &self.0 {
            ParsedLine::Common(line) => line.duration(),
            ParsedLine::Json(line) => line.duration(),
            ParsedLine::Proxy(line) => line.duration,
        }
    }

    /// Which moment of the request its time is, as far as the line tells. Servers write a line when
    /// a request ends, so it is the end unless the field's name says otherwise.
    pub fn logged_moment(&self) -> LoggedMoment {
        match &self.0 {
            ParsedLine::Json(line) if line.has_start_time() => LoggedMoment::Start,
            ParsedLine::Proxy(line) => line.moment,
            _ => LoggedMoment::End,
        }
    }
}

impl Attributes for LogRecord<'_> {
    #[inline]
    fn get(&self, attribute: &Attribute) -> Option<Value<'_>> {
        match &self.0 {
            ParsedLine::Common(line) => line.get(attribute),
            ParsedLine::Json(line) => line.get(attribute),
            ParsedLine::Proxy(line) => line.get(attribute),
        }
    }
}
