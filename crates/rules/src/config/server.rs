//! `server`: the resource limits of the server, and who may use it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::field::{ConfigField, FieldMap, collect_all};
use super::names::{SERVER, TLS, TOKEN};
use super::values::{ValueError, ValueKind, has_only, text_if, without_http};
use crate::token::{Permission, PermissionSet, TokenHash};

const TOKENS_MAX: usize = 100;
/// What a token may do by default: what a service that applies limits needs.
const ALLOW_DEFAULT: [Permission; 3] = [Permission::Check, Permission::Peek, Permission::Release];

const FILE: ValueKind<PathBuf> = ValueKind::new(
    "file",
    "expected the path of a PEM file, such as /etc/tollgate/tls.crt",
    |text| Ok(PathBuf::from(text)),
);
const TOKEN_NAME: ValueKind<String> = ValueKind::new(
    "name",
    "expected 1 to 64 letters, digits, `-`, `_` or `.`, such as shop-2026",
    |text| text_if(text.len() <= 64 && has_only(text, "-_."), text),
);
const ORIGIN: ValueKind<String> = ValueKind::new(
    "origin",
    "expected a scheme, a host and perhaps a port, without a path, such as https://app.example",
    |text| {
        let is_authority = |text: &str| !text.is_empty() && has_only(text, "-_.:[]");
        lower_case_if(without_http(text).is_some_and(is_authority), text)
    },
);
const HOST: ValueKind<String> = ValueKind::new(
    "host name",
    "expected a host name without a port, such as limits.internal",
    |text| lower_case_if(has_only(text, "-_."), text),
);

/// The resource limits of the server, which keep one client from exhausting what all clients need,
/// and who may use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// The maximum number of open connections, for each of the ports http, grpc and
    /// resp.
    pub connections_max: usize,
    /// The maximum size of a request body, in bytes.
    pub body_max: usize,
    /// How long a client may take to send the headers of a request, and again for its body.
    pub header_timeout: Duration,
    /// How long a connection may stay open without a request.
    pub idle_timeout: Duration,
    /// How long requests in flight may take to finish during shutdown.
    pub drain_timeout: Duration,
    /// The maximum number of requests in flight, for each of the ports http, grpc and resp.
    pub in_flight_max: usize,
    /// Who may use the data ports.
    pub access: AccessConfig,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            connections_max: 10_000,
            body_max: 64 << 10,
            header_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(10),
            in_flight_max: 4_096,
            access: AccessConfig::default(),
        }
    }
}

/// Reads the section `server`.
pub(super) fn read(field: &ConfigField<'_>) -> Option<ServerConfig> {
    let mapping = FieldMap::new(field, SERVER)?;
    let count = |name, default| mapping.integer_or(name, 1..=1_000_000, default);
    let longest = Duration::from_secs(3_600);
    let timeout = |name, min, default| mapping.duration_or(name, min..=longest, default);
    let body_max = mapping.read("body_max", |field| field.bytes_in(1_024..=16 << 20));

    let default = ServerConfig::default();
    let shortest = Duration::from_millis(1);
    Some(ServerConfig {
        connections_max: count("connections_max", default.connections_max),
        body_max: body_max.unwrap_or(default.body_max),
        header_timeout: timeout("header_timeout", shortest, default.header_timeout),
        idle_timeout: timeout("idle_timeout", shortest, default.idle_timeout),
        drain_timeout: timeout("drain_timeout", Duration::ZERO, default.drain_timeout),
        in_flight_max: count("in_flight_max", default.in_flight_max),
        access: read_access(&mapping),
    })
}

/// Who may use the data ports: the HTTP and the gRPC port. The default admits everyone who can
/// connect, except for web pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessConfig {
    /// The certificate of the ports. `None` serves them without TLS.
    pub tls: Option<TlsConfig>,
    /// The tokens, at most 100, of which a request must bring one. Empty if none is required.
    pub tokens: Vec<AccessToken>,
    /// The origins of web pages that may send requests, in lower case.
    pub allowed_origins: Vec<String>,
    /// The names of this service that contain a dot, in lower case and without ports.
    pub allowed_hosts: Vec<String>,
}

/// The PEM files of the data ports' certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// The certificate, followed by those between it and its authority.
    pub cert: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// The authorities of client certificates. `None` does not ask for one.
    pub client_ca: Option<PathBuf>,
}

/// A token of the data ports. Only its hash is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessToken {
    /// Its name in metrics, logs and errors.
    pub name: Arc<str>,
    /// The hash of the token.
    pub hash: TokenHash,
    /// What requests with this token may do.
    pub permissions: PermissionSet,
}

impl AccessConfig {
    /// The index in `tokens` of the token that a request brought. Takes the same time for every
    /// token, known or not.
    pub fn find_token(&self, presented: &[u8]) -> Option<usize> {
        let presented = TokenHash::from_bytes(presented);
        let tokens = self.tokens.iter().enumerate();
        tokens.fold(None, |found, (index, token)| {
            let is_same = token.hash.is_same(&presented);
            if is_same { Some(index) } else { found }
        })
    }
}

/// Reads the fields about access from the section `server`.
fn read_access(server: &FieldMap<'_>) -> AccessConfig {
    let list = |name, expected, kind| {
        let list = server.read(name, |field| field.values(expected, kind));
        list.unwrap_or_default()
    };
    AccessConfig {
        tls: server.read("tls", read_tls),
        tokens: server.read("tokens", read_tokens).unwrap_or_default(),
        allowed_origins: list("allowed_origins", "expected a list of origins", &ORIGIN),
        allowed_hosts: list("allowed_hosts", "expected a list of host names", &HOST),
    }
}

fn read_tls(field: &ConfigField<'_>) -> Option<TlsConfig> {
    let mapping = FieldMap::new(field, TLS)?;
    // The server reads the files, and reports what is wrong with them.
    for (_, file) in mapping.entries() {
        file.record_position();
    }

    let cert = mapping.require_value("cert", &FILE);
    let key = mapping.require_value("key", &FILE);
    let client_ca = mapping.value("client_ca", &FILE);
    Some(TlsConfig {
        cert: cert?,
        key: key?,
        client_ca,
    })
}

fn read_tokens(field: &ConfigField<'_>) -> Option<Vec<AccessToken>> {
    let items = field.items("expected a list of tokens, each with `name` and `token`")?;
    field.at_most(TOKENS_MAX, items.len(), "tokens")?;
    if items.is_empty() {
        field.error("the list is empty; add a token, or remove `tokens` to require none");
    }

    let mut tokens: Vec<AccessToken> = Vec::new();
    for item in &items {
        let Some(token) = read_token(item) else {
            continue;
        };
        if tokens.iter().any(|known| known.name == token.name) {
            item.error("duplicate name; each token needs a name of its own");
        }
        if let Some(known) = tokens.iter().find(|known| known.hash == token.hash) {
            let name = &known.name;
            item.error(format_args!("the same token as that of `{name}`"));
        }
        tokens.push(token);
    }
    Some(tokens)
}

fn read_token(field: &ConfigField<'_>) -> Option<AccessToken> {
    let mapping = FieldMap::new(field, TOKEN)?;
    let name = mapping.require_value("name", &TOKEN_NAME);
    let required = "expected a secret of at least 16 characters, such as ${TOLLGATE_TOKEN}, or \
                    `sha256:` and its hash";
    let hash = mapping.require("token", required).and_then(|field| {
        let field = field.into_secret();
        let text = field.string("token", required)?;
        match TokenHash::from_setting(text) {
            Ok(hash) => Some(hash),
            Err(error) => field.invalid("token", error),
        }
    });
    let permissions = mapping.read("allow", read_permissions);

    Some(AccessToken {
        name: name?.into(),
        hash: hash?,
        permissions: permissions.unwrap_or_else(|| ALLOW_DEFAULT.into_iter().collect()),
    })
}

fn read_permissions(field: &ConfigField<'_>) -> Option<PermissionSet> {
    let items = field.items("expected a list of permissions, such as [check, refund]")?;
    if items.is_empty() {
        field.error("the list is empty; add a permission, or remove the token");
    }

    let permissions = collect_all(items.iter().map(|item| item.choice(Permission::ALL)));
    Some(permissions?.into_iter().collect())
}

fn lower_case_if(is_valid: bool, text: &str) -> Result<String, ValueError> {
    text_if(is_valid, text).map(|text| text.to_ascii_lowercase())
}
