//! `store`: where counters live.

use std::time::Duration;

use tollgate::memory::KEYS_MAX_DEFAULT;

use super::field::{Field, every};
use super::table::Table;
use super::words::{STORE, STORE_TYPES, StoreType};
use super::{RedisConfig, RedisTopology, StoreConfig};

const ENDPOINTS_MAX: usize = 100;
const ENDPOINT: &str = "write redis://host:port, or rediss://host:port for TLS";
const ENDPOINTS: &str = "write a list, such as [\"redis://127.0.0.1:6379\"]";
const KEYS_MAX_BOUND: u64 = 1 << 32;
/// The bounds below are those of the store that will be made; here a fault can name the line.
const RETRIES_MAX: u64 = 16;
const PREFIX_MAX: usize = 128;
const PREFIX: &str =
    "write up to 128 printable characters without spaces, { and }, such as \"tollgate:prod:\"";

/// The fields that only Redis has.
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

/// What `store` says; memory if it says nothing.
pub(super) fn read(field: &Field<'_>) -> Option<StoreConfig> {
    let table = field.table(STORE)?;
    field.keep_place();
    let kind = match table.get("type") {
        Some(field) => field.choice(STORE_TYPES)?,
        None => StoreType::Memory,
    };
    match kind {
        StoreType::Memory => memory(&table),
        StoreType::Redis | StoreType::Sentinel | StoreType::Cluster => {
            redis(&table, kind).map(StoreConfig::Redis)
        }
    }
}

fn memory(table: &Table<'_>) -> Option<StoreConfig> {
    for name in REDIS_ONLY {
        let types = "is for redis, redis-sentinel and redis-cluster";
        table.refuse(
            name,
            format_args!("{types}; leave it out, or write `type: redis`"),
        );
    }
    table.refuse(
        "master",
        "is for redis-sentinel; leave it out, or write `type: redis-sentinel`",
    );
    let Some(field) = table.get("keys_max") else {
        return Some(StoreConfig::default());
    };
    let keys_max = field.whole_in(1..=KEYS_MAX_BOUND)?;
    Some(StoreConfig::Memory {
        keys_max: usize::try_from(keys_max).unwrap_or(usize::MAX),
    })
}

fn redis(table: &Table<'_>, kind: StoreType) -> Option<RedisConfig> {
    table.refuse(
        "keys_max",
        "is for type memory; a Redis server has its own maxmemory",
    );
    let topology = topology(table, kind);
    let endpoints = endpoints(table, kind);
    let millis = Duration::from_millis;
    let timeout = table.read("timeout", |field| {
        field.duration_in(millis(1)..=millis(10_000))
    });
    let connect_timeout = table.read("connect_timeout", |field| {
        field.duration_in(millis(10)..=millis(60_000))
    });
    let max_retries = table.read("max_retries", |field| field.whole_in(0..=RETRIES_MAX));
    Some(RedisConfig {
        topology: topology?,
        endpoints: endpoints?,
        prefix: table
            .read("prefix", prefix)
            .unwrap_or_else(|| "tollgate:".into()),
        timeout: timeout.unwrap_or(millis(10)),
        connect_timeout: connect_timeout.unwrap_or(millis(200)),
        max_retries: max_retries
            .and_then(|retries| u32::try_from(retries).ok())
            .unwrap_or(1),
    })
}

fn topology(table: &Table<'_>, kind: StoreType) -> Option<RedisTopology> {
    if kind == StoreType::Sentinel {
        let right = "write the name of the group that the Sentinels watch, such as mymaster";
        let master = table.require("master", right)?.text(right)?.to_owned();
        return Some(RedisTopology::Sentinel { master });
    }
    table.refuse(
        "master",
        "is for redis-sentinel; leave it out, or write `type: redis-sentinel`",
    );
    Some(if kind == StoreType::Cluster {
        RedisTopology::Cluster
    } else {
        RedisTopology::Standalone
    })
}

fn endpoints(table: &Table<'_>, kind: StoreType) -> Option<Vec<String>> {
    let field = table.require("endpoints", ENDPOINTS)?.secret();
    let items = field.list(ENDPOINTS)?;
    if items.is_empty() || items.len() > ENDPOINTS_MAX {
        field.fault(format_args!(
            "found {} endpoints; give from 1 to {ENDPOINTS_MAX}",
            items.len()
        ));
    }
    if kind == StoreType::Redis && items.len() > 1 {
        let right =
            "`type: redis` is one server; leave one, or write redis-cluster or redis-sentinel";
        field.fault(format_args!("found {} endpoints; {right}", items.len()));
    }
    every(items.iter().map(endpoint))
}

/// The rest of a URL is checked when the store is made. None of it is shown here, because it may
/// hold a password.
fn endpoint(field: &Field<'_>) -> Option<String> {
    let url = field.text(ENDPOINT)?;
    if ["redis://", "rediss://"]
        .iter()
        .any(|scheme| url.starts_with(scheme))
    {
        field.keep_place();
        return Some(url.to_owned());
    }
    field.fault(format_args!(
        "found an endpoint that does not begin with redis:// or rediss://; {ENDPOINT}"
    ));
    None
}

fn prefix(field: &Field<'_>) -> Option<String> {
    let prefix = field.text(PREFIX)?;
    let is_fine = |c: char| c.is_ascii_graphic() && c != '{' && c != '}';
    if prefix.len() > PREFIX_MAX || !prefix.chars().all(is_fine) {
        field.wrong(PREFIX);
        return None;
    }
    Some(prefix.to_owned())
}
