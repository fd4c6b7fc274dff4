//! The formats of access logs.

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
