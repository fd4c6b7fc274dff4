//! The Lua scripts, assembled from their files: one decides, one shares records.

use std::sync::LazyLock;

use bytes::Bytes;
use sha1::{Digest, Sha1};

/// A script and its hash.
pub(crate) struct Script {
    pub(crate) source: String,
    /// The SHA-1 of the source in hexadecimal, by which `EVALSHA` refers to the script.
    pub(crate) sha1: String,
}

/// The scripts of a store, which take the time from the same clock.
pub(crate) struct ScriptSet {
    /// Decides a batch of store calls.
    pub(crate) batch: Script,
    /// Puts, removes and reads shared records, one call at a time.
    pub(crate) records: Script,
}

/// The scripts that take the time from the server's clock.
pub(crate) static SERVER_TIME: LazyLock<ScriptSet> =
    LazyLock::new(|| ScriptSet::new(include_str!("scripts/time.lua")));

/// The scripts that take the time from their last argument, for tests.
pub(crate) static MANUAL_TIME: LazyLock<ScriptSet> =
    LazyLock::new(|| ScriptSet::new(include_str!("scripts/manual_time.lua")));

impl ScriptSet {
    fn new(time: &str) -> Self {
        Self {
            batch: Script::new(include_str!("scripts/batch.lua"), time),
            records: Script::new(include_str!("scripts/records.lua"), time),
        }
    }
}

impl Script {
    fn new(file: &str, time: &str) -> Self {
        let mut source = String::new();
        append_file(file, time, &mut source);

        let digest = Sha1::digest(source.as_bytes());
        let sha1 = format!("{:x}", Bytes::copy_from_slice(&digest));
        Self { source, sha1 }
    }
}

/// Appends a file to the source without comments and indentation. A line `-- include FILE` is
/// replaced by that file.
fn append_file(file: &str, time: &str, source: &mut String) {
    for line in file.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("-- include ") {
            append_file(file_text(name, time), time, source);
        } else if !line.is_empty() && !line.starts_with("--") {
            source.push_str(line);
            source.push('\n');
        }
    }
}

fn file_text<'a>(name: &str, time: &'a str) -> &'a str {
    match name {
        "time.lua" => time,
        "scaled.lua" => include_str!("scripts/scaled.lua"),
        "lease.lua" => include_str!("scripts/lease.lua"),
        "leased.lua" => include_str!("scripts/leased.lua"),
        "malformed.lua" => include_str!("scripts/malformed.lua"),
        "grant.lua" => include_str!("scripts/grant.lua"),
        "bucket.lua" => include_str!("scripts/bucket.lua"),
        "fixed_window.lua" => include_str!("scripts/fixed_window.lua"),
        "next_month.lua" => include_str!("scripts/next_month.lua"),
        "sliding_window.lua" => include_str!("scripts/sliding_window.lua"),
        "write.lua" => include_str!("scripts/write.lua"),
        "lockout.lua" => include_str!("scripts/lockout.lua"),
        "commands.lua" => include_str!("scripts/commands.lua"),
        "prepare.lua" => include_str!("scripts/prepare.lua"),
        "reservations.lua" => include_str!("scripts/reservations.lua"),
        "sliding_log.lua" => include_str!("scripts/sliding_log.lua"),
        "concurrency.lua" => include_str!("scripts/concurrency.lua"),
        _ => unreachable!("the scripts include only files of this list"),
    }
}
