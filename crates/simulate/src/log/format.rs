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

/// Which moment of a request the time of its line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedMoment {
    /// Its start, as with Apache, Envoy and Traefik.
    Start,
    /// Its end, as with nginx and Caddy.
    End,
}
