//! The script that decides, put together from its files.

use std::fmt::Write as _;
use std::sync::LazyLock;

use sha1::{Digest, Sha1};

/// Where the moment of a decision comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeSource {
    /// The server's clock.
    Server,
    /// The last argument of the call.
    #[cfg(feature = "manual-time")]
    Caller,
}

/// A script and the name by which a server knows it.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) source: String,
    /// SHA-1 of the source, in hexadecimal.
    pub(crate) name: String,
}

static SERVER_TIME: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/time.lua")));

#[cfg(feature = "manual-time")]
static CALLER_TIME: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/manual_time.lua")));

impl Script {
    /// The script that decides.
    pub(crate) fn batch(time: TimeSource) -> &'static Self {
        match time {
            TimeSource::Server => &SERVER_TIME,
            #[cfg(feature = "manual-time")]
            TimeSource::Caller => &CALLER_TIME,
        }
    }

    fn new(time: &str) -> Self {
        let mut source = String::new();
        include(include_str!("scripts/batch.lua"), time, &mut source);
        let digest = Sha1::digest(source.as_bytes());
        let name = digest
            .iter()
            .fold(String::with_capacity(40), |mut name, byte| {
                write!(name, "{byte:02x}").expect("a string takes everything");
                name
            });
        Self { source, name }
    }
}

/// Copies a file without its comments, and every file it includes in the place of the line that
/// says so.
fn include(file: &str, time: &str, into: &mut String) {
    for line in file.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("-- include ") {
            include(named(name, time), time, into);
        } else if !line.is_empty() && !line.starts_with("--") {
            into.push_str(line);
            into.push('\n');
        }
    }
}

fn named<'a>(name: &str, time: &'a str) -> &'a str {
    match name {
        "time.lua" => time,
        "scaled.lua" => include_str!("scripts/scaled.lua"),
        "lease.lua" => include_str!("scripts/lease.lua"),
        "bucket.lua" => include_str!("scripts/bucket.lua"),
        "fixed_window.lua" => include_str!("scripts/fixed_window.lua"),
        "next_month.lua" => include_str!("scripts/next_month.lua"),
        "sliding_window.lua" => include_str!("scripts/sliding_window.lua"),
        "commands.lua" => include_str!("scripts/commands.lua"),
        "sliding_log.lua" => include_str!("scripts/sliding_log.lua"),
        "concurrency.lua" => include_str!("scripts/concurrency.lua"),
        _ => unreachable!("the scripts include only each other"),
    }
}
