//! `store`: where counters are kept.

use std::time::Duration;

use tollgate::memory::KEYS_MAX_DEFAULT;

use super::field::{ConfigField, Expectation, collect_all};
use super::field_map::FieldMap;
use super::names::{STORE, STORE_TYPES, StoreType};
use super::{RedisConfig, RedisTopology, StoreConfig};

const ENDPOINTS_MAX: usize = 100;
const KEYS_MAX_BOUND: u64 = 1 << 32;
// The store checks the bounds below again when it is created. Checking them here gives errors with
// a line.
const RETRIES_MAX: u64 = 16;
const PREFIX_MAX: usize = 128;

const ENDPOINT: Expectation<'static> = Expectation::new(
    "endpoint",
    "expected redis://host:port, or rediss://host:port for TLS",
);
const ENDPOINTS: Expectation<'static> =
    Expectation::value("expected a list of URLs, such as [\"redis://127.0.0.1:6379\"]");
const MASTER: Expectation<'static> = Expectation::new(
    "name",
    "expected the name of the group that the Sentinels monitor, such as mymaster",
);
const PREFIX: Expectation<'static> = Expectation::new(
    "prefix",
    "expected up to 128 printable ASCII characters without spaces, `{` and `}`, such as \
     \"tollgate:prod:\"",
);

/// The fields that apply to the Redis stores only.
const REDIS_ONLY: [&str; 5] = [
    "endpoints",
    "prefix",
    "timeout",
    "connect_timeout",
    "max_retries",
];

impl Default for StoreConfig {
    fn default() -> Self {
        Self::Memory {
            keys_max: KEYS_MAX_DEFAULT,
        }
    }
}

/// Reads the section `store`. The type defaults to memory.
pub(super) fn read(field: &ConfigField<'_>) -> Option<StoreConfig> {
    let mapping = field.mapping(STORE)?;
    field.record_position();

    let kind = match mapping.get("type") {
        Some(field) => field.choice(STORE_TYPES)?,
        None => StoreType::Memory,
    };
    match kind {
        StoreType::Memory => read_memory(&mapping),
        StoreType::Redis | StoreType::Sentinel | StoreType::Cluster => {
            read_redis(&mapping, kind).map(StoreConfig::Redis)
        }
    }
}

fn read_memory(mapping: &FieldMap<'_>) -> Option<StoreConfig> {
    for name in REDIS_ONLY {
        mapping.reject(
            name,
            format_args!(
                "`{name}` is only for redis, redis-sentinel and redis-cluster; remove it, or set \
                 `type: redis`"
            ),
        );
    }
    reject_master(mapping);

    let Some(field) = mapping.get("keys_max") else {
        return Some(StoreConfig::default());
    };
    let keys_max = field.integer_in(1..=KEYS_MAX_BOUND)?;
    Some(StoreConfig::Memory {
        keys_max: usize::try_from(keys_max).unwrap_or(usize::MAX),
    })
}

fn read_redis(mapping: &FieldMap<'_>, kind: StoreType) -> Option<RedisConfig> {
    mapping.reject(
        "keys_max",
        "`keys_max` is only for the memory store; set `maxmemory` on the Redis server instead",
    );

    let topology = read_topology(mapping, kind);
    let endpoints = read_endpoints(mapping, kind);

    let millis = Duration::from_millis;
    let timeout = mapping.read("timeout", |field| {
        field.duration_in(millis(1)..=millis(10_000))
    });
    let connect_timeout = mapping.read("connect_timeout", |field| {
        field.duration_in(millis(10)..=millis(60_000))
    });
    let max_retries = mapping.read("max_retries", |field| field.integer_in(0..=RETRIES_MAX));

    Some(RedisConfig {
        topology: topology?,
        endpoints: endpoints?,
        prefix: mapping
            .read("prefix", read_prefix)
            .unwrap_or_else(|| "tollgate:".into()),
        timeout: timeout.unwrap_or(millis(10)),
        connect_timeout: connect_timeout.unwrap_or(millis(200)),
        max_retries: max_retries
            .and_then(|retries| u32::try_from(retries).ok())
            .unwrap_or(1),
    })
}

fn read_topology(mapping: &FieldMap<'_>, kind: StoreType) -> Option<RedisTopology> {
    if kind == StoreType::Sentinel {
        let Some(field) = mapping.get("master") else {
            mapping.missing(
                "master",
                "redis-sentinel requires it, for example `master: mymaster`",
            );
            return None;
        };
        let master = field.string(MASTER)?.to_owned();
        return Some(RedisTopology::Sentinel { master });
    }

    reject_master(mapping);
    Some(if kind == StoreType::Cluster {
        RedisTopology::Cluster
    } else {
        RedisTopology::Standalone
    })
}

fn reject_master(mapping: &FieldMap<'_>) {
    mapping.reject(
        "master",
        "`master` is only for redis-sentinel; remove it, or set `type: redis-sentinel`",
    );
}

fn read_endpoints(mapping: &FieldMap<'_>, kind: StoreType) -> Option<Vec<String>> {
    let field = mapping.require("endpoints", ENDPOINTS)?.into_secret();
    let items = field.list(ENDPOINTS)?;

    let found = items.len();
    if found == 0 || found > ENDPOINTS_MAX {
        field.error(format_args!(
            "expected 1 to {ENDPOINTS_MAX} endpoints, found {found}"
        ));
    }
    if kind == StoreType::Redis && found > 1 {
        field.error(format_args!(
            "expected one endpoint for `type: redis`, found {found}; for several, use \
             redis-cluster or redis-sentinel"
        ));
    }

    collect_all(items.iter().map(read_endpoint))
}

/// Checks the scheme of a URL. The store checks the rest when it is created. Errors do not show the
/// URL, because it may contain a password.
fn read_endpoint(field: &ConfigField<'_>) -> Option<String> {
    let url = field.string(ENDPOINT)?;
    if ["redis://", "rediss://"]
        .iter()
        .any(|scheme| url.starts_with(scheme))
    {
        field.record_position();
        return Some(url.to_owned());
    }

    field.unexpected(ENDPOINT);
    None
}

fn read_prefix(field: &ConfigField<'_>) -> Option<String> {
    let prefix = field.string(PREFIX)?;
    let is_valid = |c: char| c.is_ascii_graphic() && c != '{' && c != '}';
    if prefix.len() > PREFIX_MAX || !prefix.chars().all(is_valid) {
        field.unexpected(PREFIX);
        return None;
    }
    Some(prefix.to_owned())
}
