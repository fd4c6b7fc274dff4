//! `store`: where counters are kept.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tollgate::memory::KEYS_MAX_DEFAULT;

use super::field::{ConfigField, FieldMap, collect_all};
use super::names::{STORE, STORE_TYPES, StoreType};
use super::values::{ValueKind, is_file, text_if};

const ENDPOINTS_MAX: usize = 100;
/// A process that is killed loses what was counted since the last save, so at most this much.
const SNAPSHOT_INTERVAL_DEFAULT: Duration = Duration::from_secs(10);

/// How long a whole decision may take, unless twice the store's timeout is longer.
const DECISION_TIMEOUT_DEFAULT: Duration = Duration::from_millis(100);

// The store checks the values below again when it is created. Checking them here gives errors with
// a line.
const ENDPOINT: ValueKind<String> = ValueKind::new(
    "endpoint",
    "expected redis://host:port, or rediss://host:port for TLS",
    |text| {
        let is_redis = text.starts_with("redis://") || text.starts_with("rediss://");
        text_if(is_redis, text)
    },
);
const MASTER: ValueKind<String> = ValueKind::new(
    "name",
    "expected the name of the group that the Sentinels monitor, such as mymaster",
    |text| text_if(true, text),
);
const PREFIX: ValueKind<String> = ValueKind::new(
    "prefix",
    "expected up to 128 printable ASCII characters without spaces, `{` and `}`, such as \
     \"tollgate:prod:\"",
    |text| {
        let is_valid = |c: char| c.is_ascii_graphic() && c != '{' && c != '}';
        text_if(text.len() <= 128 && text.chars().all(is_valid), text)
    },
);

const SNAPSHOT: ValueKind<PathBuf> = ValueKind::new(
    "file",
    "expected the path of a file, such as /var/lib/tollgate/counters.snapshot",
    |text| text_if(is_file(text), text).map(PathBuf::from),
);

/// The fields that apply to the Redis stores only.
const REDIS_ONLY: [&str; 6] = [
    "endpoints",
    "prefix",
    "timeout",
    "decision_timeout",
    "connect_timeout",
    "max_retries",
];
/// The fields that apply to the memory store only, with what Redis has instead.
const MEMORY_ONLY: [(&str, &str); 3] = [
    ("keys_max", "set `maxmemory` on the Redis server instead"),
    ("snapshot", "Redis saves the counters itself"),
    ("snapshot_interval", "Redis saves the counters itself"),
];

/// The store that holds the counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreConfig {
    /// The memory of this process.
    Memory {
        /// The maximum number of counters to keep.
        keys_max: usize,
        /// Where the counters are saved. `None` forgets them at a restart.
        snapshot: Option<SnapshotConfig>,
    },
    /// Redis or Valkey.
    Redis(RedisConfig),
}

impl StoreConfig {
    /// Where the counters are saved. `None` if the service does not save them.
    pub const fn snapshot(&self) -> Option<&SnapshotConfig> {
        match self {
            Self::Memory { snapshot, .. } => snapshot.as_ref(),
            Self::Redis(_) => None,
        }
    }
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self::Memory {
            keys_max: KEYS_MAX_DEFAULT,
            snapshot: None,
        }
    }
}

/// The file that keeps the counters of the memory store over a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotConfig {
    /// The file. It is replaced whenever it is saved.
    pub file: PathBuf,
    /// How often it is saved while the service runs.
    pub interval: Duration,
}

/// How to connect to Redis or Valkey. The endpoints may contain a password, so `Debug` omits them.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisConfig {
    /// Whether the endpoints are one server, Sentinels or a cluster.
    pub topology: RedisTopology,
    /// The URLs of the servers.
    pub endpoints: Vec<String>,
    /// The prefix of every key.
    pub prefix: String,
    /// How long the store may take to reply to a call.
    pub timeout: Duration,
    /// How long a whole decision may take.
    pub decision_timeout: Duration,
    /// How long connecting to a server may take.
    pub connect_timeout: Duration,
    /// How often a call is retried if it certainly was not executed.
    pub max_retries: u32,
}

/// The kind of deployment that the endpoints belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisTopology {
    /// A single server.
    Standalone,
    /// Sentinels, which name the primary.
    Sentinel {
        /// The name of the monitored group.
        master: String,
    },
    /// Some members of a cluster.
    Cluster,
}

impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisConfig")
            .field("topology", &self.topology)
            .field("endpoints", &self.endpoints.len())
            .field("prefix", &self.prefix)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// Reads the section `store`. The type defaults to memory.
pub(super) fn read(field: &ConfigField<'_>) -> Option<StoreConfig> {
    let mapping = FieldMap::new(field, STORE)?;
    field.record_position();

    let kind = mapping.get("type");
    let kind = kind.map_or(Some(StoreType::Memory), |field| field.choice(STORE_TYPES))?;
    if kind != StoreType::Sentinel {
        mapping.reject(
            "master",
            "`master` is only for redis-sentinel; remove it, or set `type: redis-sentinel`",
        );
    }

    match kind {
        StoreType::Memory => Some(read_memory(&mapping)),
        _ => read_redis(&mapping, kind).map(StoreConfig::Redis),
    }
}

fn read_memory(mapping: &FieldMap<'_>) -> StoreConfig {
    for name in REDIS_ONLY {
        mapping.reject(
            name,
            format_args!(
                "`{name}` is only for redis, redis-sentinel and redis-cluster; remove it, or set \
                 `type: redis`"
            ),
        );
    }

    StoreConfig::Memory {
        keys_max: mapping.integer_or("keys_max", 1..=1 << 32, KEYS_MAX_DEFAULT),
        snapshot: read_snapshot(mapping),
    }
}

fn read_snapshot(mapping: &FieldMap<'_>) -> Option<SnapshotConfig> {
    let seconds = Duration::from_secs;
    let range = seconds(1)..=seconds(3_600);
    let interval = mapping.duration_or("snapshot_interval", range, SNAPSHOT_INTERVAL_DEFAULT);

    let Some(field) = mapping.get("snapshot") else {
        mapping.reject(
            "snapshot_interval",
            "`snapshot_interval` requires `snapshot`, the file to save the counters in",
        );
        return None;
    };
    Some(SnapshotConfig {
        file: field.value(&SNAPSHOT)?,
        interval,
    })
}

fn read_redis(mapping: &FieldMap<'_>, kind: StoreType) -> Option<RedisConfig> {
    for (name, instead) in MEMORY_ONLY {
        let message = format_args!("`{name}` is only for the memory store; {instead}");
        mapping.reject(name, message);
    }
    let topology = read_topology(mapping, kind);
    let endpoints = read_endpoints(mapping, kind);
    let prefix = mapping.value("prefix", &PREFIX);

    let millis = Duration::from_millis;
    let connecting = millis(10)..=millis(60_000);
    let timeout = mapping.duration_or("timeout", millis(1)..=millis(10_000), millis(10));
    let decision_default = DECISION_TIMEOUT_DEFAULT.max(2 * timeout);
    Some(RedisConfig {
        prefix: prefix.unwrap_or_else(|| "tollgate:".into()),
        timeout,
        decision_timeout: mapping.duration_or(
            "decision_timeout",
            timeout..=millis(60_000),
            decision_default,
        ),
        connect_timeout: mapping.duration_or("connect_timeout", connecting, millis(200)),
        max_retries: mapping.integer_or("max_retries", 0..=16, 1),
        topology: topology?,
        endpoints: endpoints?,
    })
}

fn read_topology(mapping: &FieldMap<'_>, kind: StoreType) -> Option<RedisTopology> {
    Some(match kind {
        StoreType::Sentinel => {
            let required = "redis-sentinel requires it, for example `master: mymaster`";
            let master = mapping.require("master", required)?.value(&MASTER)?;
            RedisTopology::Sentinel { master }
        }
        StoreType::Cluster => RedisTopology::Cluster,
        StoreType::Memory | StoreType::Redis => RedisTopology::Standalone,
    })
}

fn read_endpoints(mapping: &FieldMap<'_>, kind: StoreType) -> Option<Vec<String>> {
    let expected = "expected a list of URLs, such as [\"redis://127.0.0.1:6379\"]";
    // No error shows a URL, because it may contain a password.
    let field = mapping.require("endpoints", expected)?.into_secret();
    let items = field.items(expected)?;

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

    collect_all(items.iter().map(|item| {
        // The store parses the rest of the URL.
        item.record_position();
        item.value(&ENDPOINT)
    }))
}
