//! The formats of access logs.

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
