//! `tollgate import`: translates the configuration of another rate limiter, and lists what of it has
//! no equivalent. What it prints is always a valid configuration.

mod draft;
mod envoy;
mod kong;
mod limitador;
mod nginx;
mod outline;

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tollgate_rules::config::{DocumentNode, read_file};

use self::draft::{ImportDraft, ImportGap};
use super::configuration::{self, is_stdin};
use super::numbers::counted;
use super::outcome::{CommandError, CommandResult, Exit, invalid, no_response, output};
use super::terminal::{self, plain};

/// The largest file, in bytes.
const FILE_MAX: u64 = 1 << 20;

/// Arguments of `tollgate import`.
#[derive(Clone, Debug, clap::Args)]
pub struct ImportArgs {
    /// Configuration file of the other limiter; - for standard input
    file: PathBuf,
    /// Format of the file; detected if it is not given
    #[arg(long, value_name = "FORMAT")]
    from: Option<ImportFormat>,
    /// File to write; standard output if it is not given
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the output file if it exists
    #[arg(long, requires = "output")]
    force: bool,
    /// Print a JSON object with format, limits, config and gaps
    #[arg(long)]
    pub(crate) json: bool,
}

/// The formats that can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ImportFormat {
    /// YAML of envoyproxy/ratelimit
    Envoy,
    /// Limits file of Limitador
    Limitador,
    /// Configuration of nginx
    Nginx,
    /// Configuration of Kong with the plugin rate-limiting
    Kong,
}

impl ImportFormat {
    const fn name(self) -> &'static str {
        match self {
            Self::Envoy => "envoyproxy/ratelimit",
            Self::Limitador => "Limitador",
            Self::Nginx => "nginx",
            Self::Kong => "Kong",
        }
    }
}

/// A translated file. Serialized as the output of `--json`.
#[derive(Debug, Serialize)]
struct ImportResult {
    config: String,
    format: &'static str,
    gaps: Vec<ImportGap>,
    limits: usize,
}

pub(crate) fn run(args: &ImportArgs) -> CommandResult {
    let name = configuration::name(&args.file);
    let text = read(&args.file, &name)?;
    let result = translate(&text, &name, args.from)?;

    if let Some(output) = &args.output {
        write(output, &result.config, args.force)?;
    }
    if !args.json {
        terminal::print_error(&summary(&result, &name, args.output.as_deref()));
        if args.output.is_some() {
            return Ok((String::new(), Exit::Done));
        }
    }
    let lines = || result.config.lines().map(str::to_owned).collect();
    output(args.json, &result, lines, Exit::Done)
}

/// Translates a file. The configuration in the result is valid.
fn translate(
    text: &str,
    name: &str,
    format: Option<ImportFormat>,
) -> Result<ImportResult, CommandError> {
    let format = format.map_or_else(|| detect(text, name), Ok)?;
    let mut draft = read_limits(text, name, format)?;
    let format = format.name();

    draft.retain_valid(validate);
    if draft.len() == 0 {
        let lines = gap_lines(&draft.into_gaps(), name);
        let message = format!("{name}: no limit to import\n{}", lines.join("\n"));
        return Err(invalid(message.trim_end()));
    }

    let config = draft.to_yaml(name, format);
    validate(&config).map_err(|error| {
        invalid(format!(
            "{name}: cannot be translated, nothing is written: {error}"
        ))
    })?;
    Ok(ImportResult {
        config,
        format,
        limits: draft.len(),
        gaps: draft.into_gaps(),
    })
}

fn read_limits(text: &str, name: &str, format: ImportFormat) -> Result<ImportDraft, CommandError> {
    let mut draft = ImportDraft::default();
    if format == ImportFormat::Nginx {
        nginx::import(text, &mut draft)
            .map_err(|(line, message)| invalid(format!("{name}:{line}: {message}")))?;
        return Ok(draft);
    }

    let root = DocumentNode::parse(text, name).map_err(invalid)?;
    let root = root.ok_or_else(|| invalid(format!("{name}: the file is empty")))?;
    let imported = match format {
        ImportFormat::Envoy => envoy::import(&root, &mut draft),
        ImportFormat::Limitador => limitador::import(&root, &mut draft),
        _ => kong::import(&root, &mut draft),
    };
    imported.map_err(|message| {
        let (line, format) = (root.line, format.name());
        invalid(format!("{name}:{line}: not a file of {format}: {message}"))
    })?;
    Ok(draft)
}

/// The format of a file. Each has a field that no other one has.
fn detect(text: &str, name: &str) -> Result<ImportFormat, CommandError> {
    let parsed = DocumentNode::parse(text, name);
    let root = parsed.as_ref().ok().and_then(Option::as_ref);
    if let Some(format) = root.and_then(detect_document) {
        return Ok(format);
    }

    let has_limit = ["limit_req", "limit_conn"]
        .iter()
        .any(|word| text.contains(word));
    if has_limit && text.contains(';') {
        return Ok(ImportFormat::Nginx);
    }
    let reason = parsed.err().map(|error| format!("\nas YAML: {error}"));
    let reason = reason.unwrap_or_default();
    Err(invalid(format!(
        "{name}: unknown format; name it with --from envoy, limitador, nginx or kong{reason}"
    )))
}

fn detect_document(root: &DocumentNode) -> Option<ImportFormat> {
    let has = |field: &str| root.get(field).is_some();
    let is_limit =
        |item: &DocumentNode| item.get("namespace").is_some() && item.get("max_value").is_some();

    if has("domain") && has("descriptors") {
        Some(ImportFormat::Envoy)
    } else if limitador::list(root).items().iter().any(is_limit) {
        Some(ImportFormat::Limitador)
    } else if ["_format_version", "plugins", "plugin"]
        .into_iter()
        .any(has)
    {
        Some(ImportFormat::Kong)
    } else {
        None
    }
}

/// Validates a configuration as `tollgate validate` does.
fn validate(text: &str) -> Result<(), String> {
    let validated = configuration::parse(text, "import");
    validated.map(drop).map_err(|error| {
        let first = error.diagnostics.first();
        first.map_or_else(String::new, |first| {
            format!("{}: {}", first.field, first.message)
        })
    })
}

fn read(file: &Path, name: &str) -> Result<String, CommandError> {
    let bytes = if is_stdin(file) {
        let mut bytes = Vec::new();
        let read = std::io::stdin().take(FILE_MAX + 1).read_to_end(&mut bytes);
        read.map_err(|error| invalid(format!("cannot read standard input: {error}")))?;
        bytes
    } else {
        read_file(file).map_err(invalid)?
    };

    if bytes.len() as u64 > FILE_MAX {
        return Err(invalid(format!(
            "{name}: the file is too large: at most 1 MiB are allowed"
        )));
    }
    String::from_utf8(bytes).map_err(|_| invalid(format!("{name}: invalid UTF-8")))
}

/// Writes the file, which must not exist unless it may be replaced.
fn write(file: &Path, text: &str, force: bool) -> Result<(), CommandError> {
    let name = file.display();
    let mut options = OpenOptions::new();
    options.write(true).truncate(force);
    options.create(force).create_new(!force);
    let opened = options.open(file).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => invalid(format!("{name} exists; --force replaces it")),
        _ => invalid(format!("cannot write {name}: {error}")),
    });
    let written = opened?.write_all(text.as_bytes());
    written.map_err(|error| no_response(format!("cannot write {name}: {error}")))
}

/// What was imported, and what has no equivalent, for people.
fn summary(result: &ImportResult, name: &str, output: Option<&Path>) -> String {
    let limits = counted(result.limits as u64, "limit");
    let output = output.map(|output| format!(", written to {}", output.display()));
    let output = output.unwrap_or_default();
    let mut lines = vec![format!(
        "{}: {limits} imported from {}{output}",
        plain(name),
        result.format
    )];

    if !result.gaps.is_empty() {
        lines.push("not the same here:".to_owned());
        lines.extend(gap_lines(&result.gaps, name));
    }
    lines.join("\n")
}

fn gap_lines(gaps: &[ImportGap], name: &str) -> Vec<String> {
    let line = |gap: &ImportGap| {
        let (found, advice) = (plain(&gap.found), plain(&gap.advice));
        format!("{}:{}: {found}; {advice}", plain(name), gap.line)
    };
    gaps.iter().map(line).collect()
}

#[cfg(test)]
mod tests;
