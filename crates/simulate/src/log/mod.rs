//! What stands on a line of an access log: the moment, and the attributes of a request.
//!
//! bytes -> [`Record`], or why not ([`BadLine`]). Knows nothing of limits; [`Record`] answers for attributes as the fronts
//! of the service do.

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

use self::clf::{CommonLine, Extent, Unread};
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
    /// A line that was no UTF-8, mended.
    mended: String,
}

impl LogReader {
    /// A reader for lines of a format; `fields` says where JSON holds what.
    pub fn new(format: Format, fields: Fields) -> Self {
        Self { format, fields, times: CommonTimes::default(), mended: String::new() }
    }

    /// A reader for the same lines.
    pub(crate) fn again(&self) -> Self {
        Self::new(self.format, self.fields.clone())
    }

    /// What a line says.
    #[inline]
    pub fn read<'l>(&'l mut self, line: &'l [u8]) -> Result<Record<'l>, BadLine> {
        let extent = match self.format {
            Format::Auto if !line.starts_with(b"{") => Extent::Either,
            Format::Common => Extent::Common,
            Format::Combined => Extent::Combined,
            Format::Auto | Format::Json => return self.read_json(line),
        };
        match CommonLine::read(line, extent, &mut self.times) {
            Ok(line) => Ok(Record { said: Said::Common(line) }),
            Err(Unread::Bad(wrong)) => Err(wrong),
            Err(Unread::NotText) => self.read_mended(line, extent),
        }
    }

    fn read_json<'l>(&'l mut self, line: &'l [u8]) -> Result<Record<'l>, BadLine> {
        let text = if let Ok(text) = std::str::from_utf8(line) {
            text
        } else {
            self.mended = String::from_utf8_lossy(line).into_owned();
            &self.mended
        };
        JsonLine::read(text, &self.fields).map(|line| Record { said: Said::Json(Box::new(line)) })
    }

    #[cold]
    fn read_mended<'l>(&'l mut self, line: &[u8], extent: Extent) -> Result<Record<'l>, BadLine> {
        self.mended = String::from_utf8_lossy(line).into_owned();
        let read = CommonLine::read(self.mended.as_bytes(), extent, &mut self.times);
        read.map(|line| Record { said: Said::Common(line) }).map_err(|unread| match unread {
            Unread::Bad(wrong) => wrong,
            Unread::NotText => BadLine::Layout,
        })
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
