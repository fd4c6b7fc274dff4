//! The names of all fields and values of a configuration. A test compares them with
//! `docs/tollgate.schema.json` and `docs/configuration.md`.

use tollgate::{Consistency, FailurePolicy, LeakyMode, QuotaUnit, ReservationExpiry};
use tollgate_http::EnabledFields;
use tollgate_subject::{Case, ForwardedBy};

use crate::limit::AmbiguousPathPolicy;

pub(super) const ROOT: &[&str] = &[
    "version",
    "store",
    "defaults",
    "client_ip",
    "hash_keys",
    "hash_secret",
    "tiers",
    "limits",
    "inline_limits",
    "headers",
    "denial",
    "monitoring",
    "audit_log",
    "server",
];

pub(super) const AUDIT_LOG: &[&str] = &["denials", "per", "to", "rotate", "lines_per_second_max"];

pub(super) const ROTATE: &[&str] = &["size", "keep"];

/// The values of `audit_log.denials`, and whether only the first denials of a key get a line.
pub(super) const DENIALS: &[(&str, bool)] = &[("every", false), ("first", true)];

/// Fields whose values are secret or contain a secret, by their own names.
pub(super) const SECRETS: &[&str] = &[
    "endpoints",
    "hash_secret",
    "otlp_endpoint",
    "secret",
    "token",
    "url",
];

/// Fields that were renamed, with their current names.
pub(super) const RENAMED: &[(&str, &str)] = &[("lease", "permit_timeout")];

pub(super) const STORE: &[&str] = &[
    "type",
    "endpoints",
    "master",
    "prefix",
    "timeout",
    "decision_timeout",
    "connect_timeout",
    "max_retries",
    "keys_max",
    "snapshot",
    "snapshot_interval",
];

pub(super) const STORE_TYPES: &[(&str, StoreType)] = &[
    ("memory", StoreType::Memory),
    ("redis", StoreType::Redis),
    ("redis-sentinel", StoreType::Sentinel),
    ("redis-cluster", StoreType::Cluster),
];

/// The value of `store.type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreType {
    Memory,
    Redis,
    Sentinel,
    Cluster,
}

pub(super) const DEFAULTS: &[&str] = &[
    "consistency",
    "on_store_failure",
    "expected_replicas",
    "match_case",
    "on_ambiguous_path",
];

pub(super) const CONSISTENCIES: &[(&str, Consistency)] = &[
    ("strict", Consistency::Strict),
    ("leased", Consistency::Leased),
    ("eventual", Consistency::Eventual),
    ("local", Consistency::Local),
];

pub(super) const ON_STORE_FAILURE: &[(&str, FailurePolicy)] = &[
    ("allow", FailurePolicy::Allow),
    ("deny", FailurePolicy::Deny),
    ("local", FailurePolicy::Local),
];

pub(super) const MATCH_CASES: &[(&str, Case)] =
    &[("exact", Case::Sensitive), ("fold", Case::Insensitive)];

pub(super) const ON_AMBIGUOUS_PATH: &[(&str, AmbiguousPathPolicy)] = &[
    ("match_any", AmbiguousPathPolicy::MatchAny),
    ("refuse", AmbiguousPathPolicy::Refuse),
];

pub(super) const CLIENT_IP: &[&str] = &["trusted_proxies", "ipv6_prefix", "header"];

pub(super) const FORWARDED_BY: &[(&str, ForwardedBy)] = &[
    ("x-forwarded-for", ForwardedBy::XForwardedFor),
    ("forwarded", ForwardedBy::Forwarded),
    ("x-real-ip", ForwardedBy::XRealIp),
];

pub(super) const TIER: &[&str] = &["capacity", "refill_rate", "limit"];

pub(super) const LIMIT: &[&str] = &[
    "name",
    "match",
    "match_case",
    "on_ambiguous_path",
    "key",
    "optional",
    "algorithm",
    "limit",
    "window",
    "align",
    "capacity",
    "refill_rate",
    "mode",
    "leak_rate",
    "permit_timeout",
    "tier",
    "cost",
    "unit",
    "consistency",
    "on_store_failure",
    "shadow",
    "debt_max",
    "reservation_max",
    "on_reservation_expiry",
    "exempt",
    "block",
    "lockout",
];

pub(super) const EXEMPT: &[&str] = &["keys", "networks"];
pub(super) const BLOCK: &[&str] = &["keys", "networks", "status"];

/// The values of `block.status`.
pub(super) const BLOCK_STATUSES: &[(&str, u16)] = &[("429", 429), ("403", 403)];

pub(super) const LOCKOUT: &[&str] = &["after", "within", "for", "factor", "max"];

pub(super) const ON_RESERVATION_EXPIRY: &[(&str, ReservationExpiry)] = &[
    ("keep", ReservationExpiry::Keep),
    ("release", ReservationExpiry::Release),
];

pub(super) const UNITS: &[(&str, QuotaUnit)] = &[
    ("requests", QuotaUnit::Requests),
    ("tokens", QuotaUnit::Tokens),
    ("input_tokens", QuotaUnit::InputTokens),
    ("output_tokens", QuotaUnit::OutputTokens),
    ("bytes", QuotaUnit::Bytes),
];

/// The fields of a limit that a request brings along. `key` and `cost` belong to the request; they
/// are listed for errors.
pub(super) const INLINE_LIMIT: &[&str] = &[
    "name",
    "key",
    "algorithm",
    "limit",
    "window",
    "align",
    "capacity",
    "refill_rate",
    "mode",
    "leak_rate",
    "permit_timeout",
    "cost",
    "consistency",
    "on_store_failure",
    "shadow",
    "unit",
    "debt_max",
    "reservation_max",
    "on_reservation_expiry",
    "lockout",
];

pub(super) const INLINE_LIMITS: &[&str] = &["names", "limit_max"];

/// The values of `inline_limits`: whether requests may bring any limit along.
pub(super) const INLINE_POLICIES: &[(&str, bool)] = &[("allow", true), ("deny", false)];

pub(super) const ALGORITHMS: &[(&str, Algorithm)] = &[
    ("fixed_window", Algorithm::FixedWindow),
    ("sliding_window", Algorithm::SlidingWindow),
    ("sliding_log", Algorithm::SlidingLog),
    ("token_bucket", Algorithm::TokenBucket),
    ("leaky_bucket", Algorithm::LeakyBucket),
    ("concurrency", Algorithm::Concurrency),
];

/// The value of `algorithm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    FixedWindow,
    SlidingWindow,
    SlidingLog,
    TokenBucket,
    LeakyBucket,
    Concurrency,
}

impl Algorithm {
    /// The fields that apply to this algorithm, but not to all algorithms.
    pub(super) const fn fields(self) -> &'static [&'static str] {
        match self {
            Self::FixedWindow => &["limit", "window", "align"],
            Self::SlidingWindow | Self::SlidingLog => &["limit", "window"],
            Self::TokenBucket => &["capacity", "refill_rate"],
            Self::LeakyBucket => &["mode", "capacity", "leak_rate"],
            Self::Concurrency => &["limit", "permit_timeout"],
        }
    }

    /// The name in a configuration.
    pub(super) fn name(self) -> &'static str {
        ALGORITHMS
            .iter()
            .find(|(_, algorithm)| *algorithm == self)
            .map_or("", |(name, _)| name)
    }
}

/// The values of `align`: whether windows are aligned to the clock.
pub(super) const ALIGNS: &[(&str, bool)] = &[("first_hit", false), ("clock", true)];

pub(super) const MODES: &[(&str, LeakyMode)] =
    &[("meter", LeakyMode::Meter), ("queue", LeakyMode::Queue)];

pub(super) const TIER_CHOICE: &[&str] = &["by", "default"];
pub(super) const COST: &[&str] = &["by", "tokens", "default"];
pub(super) const HEADERS: &[&str] = &["profiles", "ietf", "legacy", "retry_after"];

/// The values of `headers.profiles`, and the switch of each.
pub(super) const PROFILES: &[(&str, ProfileSwitch)] = &[
    ("ietf", |fields| &mut fields.ietf),
    ("legacy", |fields| &mut fields.legacy),
    ("openai", |fields| &mut fields.openai),
    ("anthropic", |fields| &mut fields.anthropic),
];

type ProfileSwitch = fn(&mut EnabledFields) -> &mut bool;

pub(super) const DENIAL: &[&str] = &["content_type", "body"];

pub(super) const MONITORING: &[&str] = &["metrics_prefix", "alerts", "tracing"];
pub(super) const ALERTS: &[&str] = &[
    "deny_ratio",
    "latency_p99",
    "degraded_for",
    "evictions",
    "configurations_differ",
    "near_limit",
    "webhook",
];
pub(super) const WEBHOOK: &[&str] = &["url", "secret"];
pub(super) const TRACING: &[&str] = &["otlp_endpoint", "sample_ratio"];
pub(super) const SERVER: &[&str] = &[
    "connections_max",
    "body_max",
    "header_timeout",
    "idle_timeout",
    "drain_timeout",
    "in_flight_max",
    "tls",
    "tokens",
    "allowed_origins",
    "allowed_hosts",
];
pub(super) const TLS: &[&str] = &["cert", "key", "client_ca"];
pub(super) const TOKEN: &[&str] = &["name", "token", "allow"];
