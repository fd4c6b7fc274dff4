//! `audit_log`: one line for each denial, or for the first denials of a key.

use std::path::PathBuf;
use std::time::Duration;

use super::field::{ConfigField, FieldMap};
use super::names::{AUDIT_LOG, DENIALS, ROTATE};
use super::values::{ValueError, ValueKind, is_file};

const TARGET: ValueKind<AuditTarget> = ValueKind::new(
    "target",
    "expected stdout or the path of a file, such as /var/log/tollgate/denials.jsonl",
    |text| match text {
        "stdout" => Ok(AuditTarget::Stdout),
        path if path.contains('/') && is_file(path) => Ok(AuditTarget::File(path.into())),
        _ => Err(ValueError::Unexpected),
    },
);

/// Which denials get a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditedDenials {
    /// Every denial.
    Every,
    /// The first denial of a key by a limit, and the next one after the period is over.
    First {
        /// How long the key gets no further line.
        per: Duration,
    },
}

/// Where the lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditTarget {
    /// Standard output.
    Stdout,
    /// A file, which is rotated.
    File(PathBuf),
}

/// The audit log of denials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditLogConfig {
    /// Which denials get a line.
    pub denials: AuditedDenials,
    /// Where the lines go.
    pub target: AuditTarget,
    /// The size at which a file is rotated, in bytes.
    pub rotate_size: usize,
    /// How many rotated files are kept.
    pub rotate_keep: u32,
    /// The most lines per second, those about dropped lines included.
    pub lines_per_second_max: u32,
}

/// Reads the section `audit_log`.
pub(super) fn read(field: &ConfigField<'_>) -> Option<AuditLogConfig> {
    let mapping = FieldMap::new(field, AUDIT_LOG)?;
    let is_first = mapping.choice_or("denials", DENIALS, false);
    let seconds = Duration::from_secs;
    let per = mapping.duration_or("per", seconds(1)..=seconds(86_400), seconds(600));
    if !is_first {
        mapping.reject("per", "`per` requires `denials: first`");
    }

    let target = mapping.value("to", &TARGET);
    let has_mistake = target.is_none() && mapping.get("to").is_some();
    let target = target.unwrap_or(AuditTarget::Stdout);
    if target == AuditTarget::Stdout && !has_mistake {
        mapping.reject("rotate", "`rotate` requires `to` with the path of a file");
    }
    let rotate = mapping.section("rotate", ROTATE);
    let rotate = rotate.as_ref();
    let size = rotate.and_then(|rotate| rotate.get("size")?.bytes_in(4 << 10..=1 << 40));
    let keep = rotate.and_then(|rotate| rotate.integer("keep", 1..=100));

    Some(AuditLogConfig {
        denials: if is_first {
            AuditedDenials::First { per }
        } else {
            AuditedDenials::Every
        },
        target,
        rotate_size: size.unwrap_or(64 << 20),
        rotate_keep: keep.unwrap_or(5),
        lines_per_second_max: mapping.integer_or("lines_per_second_max", 2..=1_000_000, 1_000),
    })
}
