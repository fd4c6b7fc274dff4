//! The validated configuration, and the reader that produces it.
//!
//! 1. `yaml` parses the text into a tree whose nodes know their positions.
//! 2. `variables` expands `${VAR}` in the values.
//! 3. The readers of the sections turn fields into typed values, which make up a [`Config`].
//!
//! Reading continues after an error. All errors are collected in one place, so that a user can fix
//! a whole file in one go.

mod audit_log;
mod changes;
mod clients;
mod denial;
mod diagnostic;
mod field;
mod file;
mod fingerprint;
mod foreign;
mod inline;
mod limits;
mod load;
mod monitoring;
mod names;
mod path;
mod scalar;
mod server;
mod store;
#[cfg(test)]
mod tests;
mod values;
mod variables;
mod warnings;
mod yaml;

pub use audit_log::{AuditLogConfig, AuditTarget, AuditedDenials};
pub use changes::ConfigChanges;
pub use clients::HashConfig;
pub use diagnostic::{ConfigError, Diagnostic, SourceMap};
pub(crate) use field::{list_and, nearest};
pub use file::read_file;
pub use fingerprint::ConfigFingerprint;
pub use inline::{InlineLimitError, InlineLimits};
pub use load::Config;
pub use monitoring::{MonitoringConfig, TracingConfig, WebhookConfig};
pub use server::{AccessConfig, AccessToken, ServerConfig, TlsConfig};
pub use store::{RedisConfig, RedisTopology, SnapshotConfig, StoreConfig};
pub use values::parse_duration;
pub use variables::Environment;
pub use yaml::DocumentNode;
