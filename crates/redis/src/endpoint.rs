//! Server endpoints, parsed from URLs.

use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;
use std::time::Duration;

use percent_encoding::percent_decode_str;

/// The URL of a server: `redis[s]://[[user]:password@]host[:port][/database]`.
///
/// User and password are percent-decoded. The password is never shown by `Display` or `Debug`.
///
/// ```
/// use tollgate_redis::Endpoint;
///
/// let endpoint: Endpoint = "rediss://limiter:s%40crets@redis-1:6380/2".parse()?;
/// assert_eq!(endpoint.to_string(), "rediss://limiter:***@redis-1:6380/2");
/// # Ok::<(), tollgate_redis::RedisConfigError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub(crate) address: Address,
    pub(crate) is_tls: bool,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) database: u32,
}

/// A host name or IP address, and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// User and password. Without `Debug`, which would show them.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    /// `None` for the server's default user.
    pub(crate) user: Option<String>,
    pub(crate) password: String,
}

const DEFAULT_PORT: u16 = 6379;
/// Upper bound of the database number, to catch mistakes. Servers have 16 databases by default.
const DATABASE_MAX: u32 = 1 << 16;

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, port) = (&self.host, self.port);
        if host.contains(':') {
            write!(f, "[{host}]:{port}")
        } else {
            write!(f, "{host}:{port}")
        }
    }
}

/// Shows the URL with `***` for the password.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_tls { "rediss://" } else { "redis://" })?;
        if let Some(Credentials { user, .. }) = &self.credentials {
            write!(f, "{}:***@", user.as_deref().unwrap_or_default())?;
        }

        write!(f, "{}", self.address)?;
        match self.database {
            0 => Ok(()),
            database => write!(f, "/{database}"),
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({self})")
    }
}

/// A mistake in the settings of a store. The text never contains a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedisConfigError {
    /// A setting, such as a part of an endpoint's URL, is invalid.
    #[error("invalid {setting} {found:?}: {expected}")]
    #[non_exhaustive]
    Invalid {
        /// The name of the setting, such as `endpoint port`.
        setting: &'static str,
        /// What was found. Never a password.
        found: String,
        /// What would be valid, such as `must be between 1 and 65535`.
        expected: &'static str,
    },
    /// No endpoint was given.
    #[error("missing endpoint: expected at least one, such as redis://127.0.0.1:6379")]
    NoEndpoint,
    /// The endpoints differ in something other than their address.
    #[error(
        "the endpoints differ in {setting}: \
         all servers of a store must have the same TLS setting, user, password and database"
    )]
    #[non_exhaustive]
    Mixed {
        /// The setting in which they differ, such as `TLS`.
        setting: &'static str,
    },
    /// A timeout is out of range.
    #[error("{field} {found:?} is out of range: must be between {min:?} and {max:?}")]
    #[non_exhaustive]
    Time {
        /// The name of the setting.
        field: &'static str,
        /// Its value.
        found: Duration,
        /// The smallest valid value.
        min: Duration,
        /// The largest valid value.
        max: Duration,
    },
    /// TLS cannot be set up.
    #[error("cannot set up TLS: {reason}")]
    #[non_exhaustive]
    Tls {
        /// Why not.
        reason: String,
    },
    /// The store was built outside of a Tokio runtime.
    #[error("no Tokio runtime: the store must be built inside of one")]
    NoRuntime,
}

impl RedisConfigError {
    pub(crate) fn invalid(setting: &'static str, found: &str, expected: &'static str) -> Self {
        Self::Invalid {
            setting,
            found: found.into(),
            expected,
        }
    }
}

impl FromStr for Endpoint {
    type Err = RedisConfigError;

    fn from_str(url: &str) -> Result<Self, RedisConfigError> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let is_tls = parse_scheme(scheme)?;

        // A password may contain an `@`, a host may not.
        let (user_info, location) = rest.rsplit_once('@').unwrap_or(("", rest));
        let (address, database) = location.split_once('/').unwrap_or((location, ""));
        Ok(Self {
            address: Address::parse(address)?,
            is_tls,
            credentials: Credentials::parse(user_info)?,
            database: parse_database(database)?,
        })
    }
}

/// Returns true if the scheme means TLS.
fn parse_scheme(scheme: &str) -> Result<bool, RedisConfigError> {
    match scheme {
        "redis" => Ok(false),
        "rediss" if cfg!(feature = "tls") => Ok(true),
        "rediss" => Err(RedisConfigError::Tls {
            reason: "this build does not have the feature `tls`".into(),
        }),

        _ => {
            // Only a single word is repeated: anything else may contain a password.
            let is_word = scheme.len() < 12 && scheme.chars().all(|c| c.is_ascii_alphanumeric());
            Err(RedisConfigError::invalid(
                "endpoint scheme",
                if is_word { scheme } else { "" },
                "must be redis:// or rediss:// (TLS), as in redis://user:password@host:6379",
            ))
        }
    }
}

impl Credentials {
    /// Parses `user:password` or `:password`. `None` when both are empty.
    fn parse(text: &str) -> Result<Option<Self>, RedisConfigError> {
        let decode = |text| match percent_decode_str(text).decode_utf8() {
            Ok(decoded) => Ok(decoded.into_owned()),
            Err(_) => Err(RedisConfigError::invalid(
                "endpoint user or password",
                "***",
                "must be UTF-8, with % written as %25, @ as %40 and / as %2F",
            )),
        };
        let (user, password) = text.split_once(':').unwrap_or((text, ""));
        let user = Some(decode(user)?).filter(|user| !user.is_empty());
        let password = decode(password)?;

        match (&user, password.is_empty()) {
            (_, false) => Ok(Some(Self { user, password })),
            (None, true) => Ok(None),
            (Some(_), true) => Err(RedisConfigError::invalid(
                "endpoint password",
                "",
                "must not be empty when there is a user, as in user:password@",
            )),
        }
    }
}

impl Address {
    pub(crate) fn new(host: impl Into<String>, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
        }
    }

    /// Parses an address as cluster servers announce it: the port follows the last colon, and an
    /// IPv6 address has no brackets.
    pub(crate) fn parse_announced(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let port: NonZeroU16 = port.parse().ok()?;
        (!host.is_empty()).then(|| Self::new(host, port.get()))
    }

    /// Parses `host`, `host:port`, `[IPv6]` or `[IPv6]:port`.
    fn parse(text: &str) -> Result<Self, RedisConfigError> {
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':').unwrap_or(port)),
            None => text.rsplit_once(':').unwrap_or((text, "")),
        };

        let is_valid = |c: &char| c.is_ascii_alphanumeric() || "-._:%".contains(*c);
        if host.is_empty() || !host.chars().all(|c| is_valid(&c)) {
            // The text is repeated only up to the first invalid character: what follows may be
            // part of a password.
            let found: String = host.chars().take(80).take_while(is_valid).collect();
            let expected = "must be a host name or an IP address (IPv6 in brackets)";
            return Err(RedisConfigError::invalid("endpoint host", &found, expected));
        }
        if port.is_empty() {
            return Ok(Self::new(host, DEFAULT_PORT));
        }

        let invalid_port = |_| {
            let expected = "must be between 1 and 65535";
            RedisConfigError::invalid("endpoint port", digits_only(port), expected)
        };
        let port: NonZeroU16 = port.parse().map_err(invalid_port)?;
        Ok(Self::new(host, port.get()))
    }
}

/// Parses the path of the URL. It defaults to database 0.
fn parse_database(text: &str) -> Result<u32, RedisConfigError> {
    let text = text.strip_suffix('/').unwrap_or(text);
    if text.is_empty() {
        return Ok(0);
    }

    let number = text.parse().ok().filter(|number| *number < DATABASE_MAX);
    number.ok_or_else(|| {
        let expected = "must be a number, as in redis://host:6379/2";
        RedisConfigError::invalid("endpoint database", digits_only(text), expected)
    })
}

/// The text for an error if it is a number. Anything else is replaced, because it may be a
/// misplaced password.
fn digits_only(text: &str) -> &str {
    let is_number = text.len() <= 20 && text.chars().all(|c| c.is_ascii_digit());
    if is_number { text } else { "not a number" }
}

#[cfg(test)]
mod tests;
