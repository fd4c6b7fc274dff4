//! `audit_log`: one line for each denial, or for the first denials of a key.

use std::path::PathBuf;
use std::time::Duration;

use super::field::ConfigField;
use super::field_map::FieldMap;
use super::names::{AUDIT_LOG, DENIALS, ROTATE};
use super::values::{ValueError, ValueKind};

const TARGET: ValueKind<AuditTarget> = ValueKind::new(
    "target",
    "expected stdout or the path of a file, such as /var/log/tollgate/denials.jsonl",
    |text| {
        let path = PathBuf::from(text);
        let is_file = text.contains('/') && path.file_name().is_some() && !text.ends_with('/');
        match text {
            "stdout" => Ok(AuditTarget::Stdout),
            _ if is_file => Ok(AuditTarget::File(path)),
            _ => Err(ValueError::Unexpected),
        }
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

const PER_DEFAULT: Duration = Duration::from_secs(600);
const ROTATE_SIZE_DEFAULT: usize = 64 << 20;
const ROTATE_KEEP_DEFAULT: u32 = 5;
const LINES_DEFAULT: u32 = 1_000;

/// Reads the section `audit_log`.
pub(super) fn read(field: &ConfigField<'_>) -> Option<AuditLogConfig> {
    let mapping = FieldMap::new(field, AUDIT_LOG)?;
    let is_first = mapping.read("denials", |field| field.choice(DENIALS));
    let range = Duration::from_secs(1)..=Duration::from_secs(86_400);
    let per = mapping.read("per", |field| field.duration_in(range));
    let denials = if is_first.unwrap_or(false) {
        AuditedDenials::First {
            per: per.unwrap_or(PER_DEFAULT),
        }
    } else {
        mapping.reject("per", "`per` requires `denials: first`");
        AuditedDenials::Every
    };

    let target = mapping.value("to", &TARGET);
    let has_mistake = target.is_none() && mapping.get("to").is_some();
    let target = target.unwrap_or(AuditTarget::Stdout);
    if target == AuditTarget::Stdout && !has_mistake {
        mapping.reject("rotate", "`rotate` requires `to` with the path of a file");
    }
    let rotate = mapping.read("rotate", |field| FieldMap::new(field, ROTATE));
    let size = rotate
        .as_ref()
        .and_then(|rotate| rotate.read("size", |field| field.bytes_in(4 << 10..=1 << 40)));
    let keep = rotate
        .as_ref()
        .and_then(|rotate| rotate.read("keep", |field| field.integer_in(1..=100)));
    let lines = mapping.read("lines_per_second_max", |field| {
        field.integer_in(2..=1_000_000)
    });

    Some(AuditLogConfig {
        denials,
        target,
        rotate_size: size.unwrap_or(ROTATE_SIZE_DEFAULT),
        rotate_keep: keep.unwrap_or(ROTATE_KEEP_DEFAULT),
        lines_per_second_max: lines.unwrap_or(LINES_DEFAULT),
    })
}
