//! `tollgate import`: translates the configuration of another rate limiter, and lists what of it has
//! no equivalent. What it prints is always a valid configuration.

mod draft;
mod envoy;
mod kong;
mod limitador;
mod nginx;
mod outline;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::json;
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

/// A translated file.
struct ImportResult {
    format: ImportFormat,
    limits: usize,
    config: String,
    gaps: Vec<ImportGap>,
}

pub(crate) fn run(args: &ImportArgs) -> CommandResult {
    let name = configuration::name(&args.file);
    let text = read(&args.file)?;
    let result = translate(&text, &name, args.from)?;

    if let Some(output) = &args.output {
        write(output, &result.config, args.force)?;
    }
    if !args.json {
        terminal::print_error(&summary(&result, &name, args.output.as_deref()));
    }
    let value = json!({
        "format": result.format.name(),
        "limits": result.limits,
        "config": result.config,
        "gaps": result.gaps,
    });
    let lines = || match args.output {
        Some(_) => Vec::new(),
        None => result.config.lines().map(str::to_owned).collect(),
    };
    match (args.json, &args.output) {
        (false, Some(_)) => Ok((String::new(), Exit::Done)),
        _ => output(args.json, &value, lines, Exit::Done),
    }
}

/// Translates a file. The configuration in the result is valid.
fn translate(
    text: &str,
    name: &str,
    format: Option<ImportFormat>,
) -> Result<ImportResult, CommandError> {
    let format = match format {
        Some(format) => format,
        None => detect(text, name)?,
    };
    let mut draft = ImportDraft::default();
    match format {
        ImportFormat::Nginx => nginx::import(text, &mut draft)
            .map_err(|(line, message)| invalid(format!("{name}:{line}: {message}")))?,
        ImportFormat::Envoy => {
            read_document(text, name, format, |root| envoy::import(root, &mut draft))?;
        }
        ImportFormat::Limitador => read_document(text, name, format, |root| {
            limitador::import(root, &mut draft)
        })?,
        ImportFormat::Kong => {
            read_document(text, name, format, |root| kong::import(root, &mut draft))?;
        }
    }

    draft.retain_valid(validate);
    if draft.is_empty() {
        let gaps = draft.into_gaps();
        let gaps = gaps.iter().map(|gap| gap_line(gap, name));
        let gaps = gaps.collect::<Vec<_>>().join("\n");
        let message = format!("{name}: no limit to import\n{gaps}");
        return Err(invalid(message.trim_end()));
    }

    let config = draft.to_yaml(name, format.name());
    validate(&config).map_err(|error| {
        invalid(format!(
            "{name}: cannot be translated, nothing is written: {error}"
        ))
    })?;
    Ok(ImportResult {
        format,
        limits: draft.len(),
        config,
        gaps: draft.into_gaps(),
    })
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

/// Reads a YAML document and translates it.
fn read_document(
    text: &str,
    name: &str,
    format: ImportFormat,
    import: impl FnOnce(&DocumentNode) -> Result<(), String>,
) -> Result<(), CommandError> {
    let root = DocumentNode::parse(text, name).map_err(|error| invalid(error.to_string()))?;
    let root = root.ok_or_else(|| invalid(format!("{name}: the file is empty")))?;
    import(&root).map_err(|message| {
        let (line, format) = (root.line, format.name());
        invalid(format!("{name}:{line}: not a file of {format}: {message}"))
    })
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

fn read(file: &Path) -> Result<String, CommandError> {
    let bytes = if is_stdin(file) {
        let mut bytes = Vec::new();
        let stdin = std::io::stdin().lock();
        let read =
            std::io::Read::read_to_end(&mut std::io::Read::take(stdin, FILE_MAX + 1), &mut bytes);
        read.map_err(|error| invalid(format!("cannot read standard input: {error}")))?;
        bytes
    } else {
        read_file(file).map_err(|error| invalid(error.to_string()))?
    };

    let name = configuration::name(file);
    if bytes.len() as u64 > FILE_MAX {
        return Err(invalid(format!(
            "{name}: the file is too large: at most 1 MiB are allowed"
        )));
    }
    String::from_utf8(bytes).map_err(|_| invalid(format!("{name}: invalid UTF-8")))
}

/// Writes the file, which must not exist unless it may be replaced.
fn write(file: &Path, text: &str, force: bool) -> Result<(), CommandError> {
    let mut options = OpenOptions::new();
    options.write(true);
    if force {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }

    let name = file.display();
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
        result.format.name()
    )];

    if !result.gaps.is_empty() {
        lines.push("not the same here:".to_owned());
        lines.extend(result.gaps.iter().map(|gap| gap_line(gap, name)));
    }
    lines.join("\n")
}

fn gap_line(gap: &ImportGap, name: &str) -> String {
    let ImportGap {
        line,
        found,
        advice,
    } = gap;
    format!(
        "{}:{line}: {}; {}",
        plain(name),
        plain(found),
        plain(advice)
    )
}

#[cfg(test)]
mod tests;
