//! What stands on a line of an access log: the moment, and the attributes of a request.
//!
//! bytes -> [`Record`], or why not ([`BadLine`]). Knows nothing of limits; [`Record`] answers for
//! attributes as the fronts of the service do.

mod clf;
mod escape;
mod fault;
mod fields;
mod json;
mod target;
#[cfg(test)]
mod tests;
mod time;

use tollgate::Micros;
use tollgate_rules::{Attribute, Attributes, Value};

pub use fault::BadLine;
pub use fields::{FieldError, Fields};

use self::clf::{CommonLine, Extent};
use self::json::JsonLine;
use self::time::CommonTimes;

/// How the lines of a log are laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Each line as it looks: JSON if it begins with a brace, else common or combined.
    #[default]
    Auto,
    /// The common log format; what follows it is passed over.
    Common,
    /// The combined log format.
    Combined,
    /// An object of JSON on each line.
    Json,
}

/// Reads lines.
#[derive(Debug)]
pub struct LogReader {
    format: Format,
    fields: Fields,
    times: CommonTimes,
}

/// Why a line was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// It says nothing.
    Bad(BadLine),
    /// It may, but it is no UTF-8: [mend](mended) it and try again.
    NotText,
}

impl From<BadLine> for Unread {
    fn from(wrong: BadLine) -> Self {
        Self::Bad(wrong)
    }
}

/// A line that is no UTF-8 with marks in place of what is none.
pub fn mended(line: &[u8]) -> String {
    String::from_utf8_lossy(line).into_owned()
}

impl LogReader {
    /// A reader for lines of a format; `fields` says where JSON holds what.
    pub fn new(format: Format, fields: Fields) -> Self {
        Self {
            format,
            fields,
            times: CommonTimes::default(),
        }
    }

    /// A reader for the same lines.
    pub(crate) fn again(&self) -> Self {
        Self::new(self.format, self.fields.clone())
    }

    /// What a line says.
    #[inline]
    pub fn read<'l>(&'l self, line: &'l [u8]) -> Result<Record<'l>, Unread> {
        let extent = match self.format {
            Format::Auto if !line.starts_with(b"{") => Extent::Either,
            Format::Common => Extent::Common,
            Format::Combined => Extent::Combined,
            Format::Auto | Format::Json => return self.read_json(line),
        };
        CommonLine::read(line, extent, &self.times).map(|line| Record {
            said: Said::Common(line),
        })
    }

    fn read_json<'l>(&'l self, line: &'l [u8]) -> Result<Record<'l>, Unread> {
        let text = std::str::from_utf8(line).map_err(|_| Unread::NotText)?;
        Ok(JsonLine::read(text, &self.fields).map(|line| Record {
            said: Said::Json(Box::new(line)),
        })?)
    }
}

/// A request of the past.
#[derive(Debug)]
pub struct Record<'l> {
    said: Said<'l>,
}

#[derive(Debug)]
enum Said<'l> {
    Common(CommonLine<'l>),
    Json(Box<JsonLine<'l>>),
}

impl Record<'_> {
    /// When it was.
    #[inline]
    pub const fn time(&self) -> Micros {
        match &self.said {
            Said::Common(line) => line.time,
            Said::Json(line) => line.time,
        }
    }
}

impl Attributes for Record<'_> {
    #[inline]
    fn get(&self, attribute: &Attribute) -> Option<Value<'_>> {
        match &self.said {
            Said::Common(line) => line.get(attribute),
            Said::Json(line) => line.get(attribute),
        }
    }
}
