//! Parses the lines of an access log into the time and the attributes of a request.
//!
//! A line becomes a [`LogRecord`], or a [`LineError`]. A record provides attributes in the same way
//! as the front ends of the service do.

mod clf;
mod escape;
mod fields;
mod json;
mod line_error;
mod target;
#[cfg(test)]
mod tests;
mod time;

use tollgate::Micros;
use tollgate_rules::{Attribute, Attributes, Value};

pub use fields::{FieldError, LogFields};
pub use line_error::LineErrorKind;

use self::clf::{ClfVariant, CommonLine};
use self::json::JsonLine;
use self::time::ClfTimeParser;

/// The format of an access log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessLogFormat {
    /// Detected for each line: JSON if it starts with a brace, otherwise common or combined.
    #[default]
    Auto,
    /// The common log format. Anything after it is ignored.
    Common,
    /// The combined log format.
    Combined,
    /// One JSON object per line.
    Json,
}

/// Parses the lines of a log.
#[derive(Debug)]
pub struct LogParser {
    format: AccessLogFormat,
    fields: LogFields,
    times: ClfTimeParser,
}

/// Why a line was not parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineError {
    /// The line is invalid.
    Invalid(LineErrorKind),
    /// The line is not valid UTF-8. Repair it with [`to_utf8_lossy`] and parse it again.
    NotUtf8,
}

impl From<LineErrorKind> for LineError {
    fn from(kind: LineErrorKind) -> Self {
        Self::Invalid(kind)
    }
}

/// Replaces the bytes of a line that are not valid UTF-8.
pub fn to_utf8_lossy(line: &[u8]) -> String {
    String::from_utf8_lossy(line).into_owned()
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

    /// A new parser for the same format and fields.
    pub(crate) fn with_same_format(&self) -> Self {
        Self::new(self.format, self.fields.clone())
    }

    /// Parses a line.
    #[inline]
    pub fn parse<'l>(&'l self, line: &'l [u8]) -> Result<LogRecord<'l>, LineError> {
        let variant = match self.format {
            AccessLogFormat::Auto if !line.starts_with(b"{") => ClfVariant::Either,
            AccessLogFormat::Common => ClfVariant::Common,
            AccessLogFormat::Combined => ClfVariant::Combined,
            AccessLogFormat::Auto | AccessLogFormat::Json => return self.parse_json(line),
        };
        CommonLine::parse(line, variant, &self.times).map(|line| LogRecord {
            line: ParsedLine::Common(line),
        })
    }

    fn parse_json<'l>(&'l self, line: &'l [u8]) -> Result<LogRecord<'l>, LineError> {
        let text = std::str::from_utf8(line).map_err(|_| LineError::NotUtf8)?;
        Ok(JsonLine::parse(text, &self.fields).map(|line| LogRecord {
            line: ParsedLine::Json(Box::new(line)),
        })?)
    }
}

/// A request in a log.
#[derive(Debug)]
pub struct LogRecord<'l> {
    line: ParsedLine<'l>,
}

#[derive(Debug)]
enum ParsedLine<'l> {
    Common(CommonLine<'l>),
    Json(Box<JsonLine<'l>>),
}

impl LogRecord<'_> {
    /// The time of the request.
    #[inline]
    pub const fn time(&self) -> Micros {
        match &self.line {
            ParsedLine::Common(line) => line.time,
            ParsedLine::Json(line) => line.time,
        }
    }
}

impl Attributes for LogRecord<'_> {
    #[inline]
    fn get(&self, attribute: &Attribute) -> Option<Value<'_>> {
        match &self.line {
            ParsedLine::Common(line) => line.get(attribute),
            ParsedLine::Json(line) => line.get(attribute),
        }
    }
}
