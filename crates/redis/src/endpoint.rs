//! Where a server is and who we are there, as a URL says it.

use std::fmt;
use std::str::FromStr;

use percent_encoding::percent_decode_str;

/// `redis[s]://[user[:password]@]host[:port][/database]`.
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

/// A host by name or number, and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// Who we are. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) user: Option<String>,
    pub(crate) password: String,
}

const PORT: u16 = 6379;
/// A server has 16 unless it is told otherwise; this many nobody has.
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

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(***)")
    }
}

/// Without the password.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_tls { "rediss://" } else { "redis://" })?;
        if let Some(Credentials { user, .. }) = &self.credentials {
            write!(f, "{}:***@", user.as_deref().unwrap_or_default())?;
        }
        write!(f, "{}", self.address)?;
        if self.database > 0 {
            write!(f, "/{}", self.database)
        } else {
            Ok(())
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({self})")
    }
}

/// What is wrong with the settings of a store, and what would be right. Never shows a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedisConfigError {
    /// Not a URL of ours.
    #[error(
        "the endpoint begins with {found:?}; it must be redis://host:port, or rediss:// for TLS, with user:password@ before the host if need be"
    )]
    Scheme {
        /// What stands before the `://`.
        found: String,
    },
    /// A URL with a part that is wrong.
    #[error("the endpoint's {part} is {found:?}; it must be {right}")]
    Part {
        /// Which part.
        part: &'static str,
        /// What was found; never a password.
        found: String,
        /// What would be right.
        right: &'static str,
    },
    /// No endpoint.
    #[error("there is no endpoint; give at least one, such as redis://127.0.0.1:6379")]
    NoEndpoint,
    /// Databases in a cluster.
    #[error("the endpoint names the database {found}; a cluster has only database 0")]
    ClusterDatabase {
        /// The number.
        found: u32,
    },
    /// Some endpoints with TLS and some without, or with different credentials.
    #[error("the endpoints differ in {what}; all servers of one store are reached in the same way")]
    Mixed {
        /// In what.
        what: &'static str,
    },
    /// A prefix that would move keys to other slots.
    #[error(
        "the prefix {found:?} is not usable; use up to 128 printable characters, without {{ and }}, which choose the slot"
    )]
    Prefix {
        /// The prefix.
        found: String,
    },
    /// A time out of range.
    #[error("{field} is {found:?}; it must be from {least:?} to {most:?}")]
    Time {
        /// Which setting.
        field: &'static str,
        /// Its value.
        found: std::time::Duration,
        /// The least.
        least: std::time::Duration,
        /// The most.
        most: std::time::Duration,
    },
    /// TLS cannot be set up.
    #[error("TLS cannot be set up: {reason}")]
    Tls {
        /// Why.
        reason: String,
    },
    /// No runtime.
    #[error("there is no Tokio runtime here; build the store inside one")]
    NoRuntime,
}

impl FromStr for Endpoint {
    type Err = RedisConfigError;

    fn from_str(url: &str) -> Result<Self, RedisConfigError> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let is_tls = match scheme {
            "redis" => false,
            "rediss" if cfg!(feature = "tls") => true,
            "rediss" => {
                return Err(RedisConfigError::Tls {
                    reason: "this build is without the feature `tls`".into(),
                });
            }
            // Only a word before the `://` is shown: anything else may hold a password.
            _ => {
                let is_word =
                    scheme.len() < 12 && scheme.chars().all(|c| c.is_ascii_alphanumeric());
                return Err(RedisConfigError::Scheme {
                    found: if is_word {
                        scheme.into()
                    } else {
                        String::new()
                    },
                });
            }
        };
        let (who, place) = rest
            .rsplit_once('@')
            .map_or((None, rest), |(who, place)| (Some(who), place));
        let (address, database) = place.split_once('/').unwrap_or((place, ""));
        let credentials = who.map(Credentials::parse).transpose()?.flatten();
        Ok(Self {
            address: Address::parse(address)?,
            is_tls,
            credentials,
            database: database_of(database)?,
        })
    }
}

impl Credentials {
    fn parse(text: &str) -> Result<Option<Self>, RedisConfigError> {
        let (user, password) = text.split_once(':').unwrap_or((text, ""));
        let decoded = |text: &str| {
            let decoded = percent_decode_str(text).decode_utf8();
            decoded
                .map(std::borrow::Cow::into_owned)
                .map_err(|_| RedisConfigError::Part {
                    part: "user or password",
                    found: "***".into(),
                    right: "UTF-8, with % written as %25, @ as %40 and / as %2F",
                })
        };
        let user = Some(decoded(user)?).filter(|user| !user.is_empty());
        let password = decoded(password)?;
        if password.is_empty() {
            let user_alone = RedisConfigError::Part {
                part: "password",
                found: String::new(),
                right: "there when a user is: user:password@",
            };
            return if user.is_none() {
                Ok(None)
            } else {
                Err(user_alone)
            };
        }
        Ok(Some(Self { user, password }))
    }
}

impl Address {
    pub(crate) fn new(host: impl Into<String>, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
        }
    }

    /// As a cluster says it: the port stands after the last colon, and an IPv6 address has no
    /// brackets.
    pub(crate) fn parse_announced(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let port = port.parse().ok().filter(|port| *port > 0)?;
        if host.is_empty() {
            None
        } else {
            Some(Self::new(host, port))
        }
    }

    /// `host`, `host:port` or `[v6]:port`.
    pub(crate) fn parse(text: &str) -> Result<Self, RedisConfigError> {
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':').unwrap_or(port)),
            None => text.rsplit_once(':').unwrap_or((text, "")),
        };
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-._:%".contains(c);
        if host.is_empty() || !host.chars().all(allowed) {
            // From the first character that cannot be in one, it may be something else.
            let found = host.chars().take(80).take_while(|c| allowed(*c)).collect();
            return Err(RedisConfigError::Part {
                part: "host",
                found,
                right: "a name or an address, [..] if IPv6",
            });
        }
        let number = if port.is_empty() {
            Some(PORT)
        } else {
            port.parse().ok().filter(|port| *port > 0)
        };
        let wrong = || RedisConfigError::Part {
            part: "port",
            found: digits(port),
            right: "a number from 1 to 65535",
        };
        Ok(Self::new(host, number.ok_or_else(wrong)?))
    }
}

fn database_of(text: &str) -> Result<u32, RedisConfigError> {
    let text = text.strip_suffix('/').unwrap_or(text);
    if text.is_empty() {
        return Ok(0);
    }
    text.parse()
        .ok()
        .filter(|database| *database < DATABASE_MAX)
        .ok_or_else(|| RedisConfigError::Part {
            part: "database",
            found: digits(text),
            right: "a number, as in redis://host:6379/2",
        })
}

/// What was found where a number belongs: anything else may be a password in the wrong place.
fn digits(text: &str) -> String {
    let is_number = text.len() <= 20 && text.chars().all(|c| c.is_ascii_digit());
    if is_number {
        text.to_owned()
    } else {
        "not a number".to_owned()
    }
}

#[cfg(test)]
mod tests;
