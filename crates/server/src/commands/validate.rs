//! `tollgate validate`: reports every mistake in a configuration.

use std::path::PathBuf;

use serde_json::{Value, json};
use tollgate_rules::Config;
use tollgate_rules::config::Diagnostic;

use super::configuration::{self, InvalidConfigError};
use super::numbers::counted;
use super::outcome::{CommandResult, Exit, output};
use super::terminal::{self, Tone, plain};

/// Arguments of `tollgate validate`.
#[derive(Clone, Debug, clap::Args)]
pub struct ValidateArgs {
    /// Configuration files; - for standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Print a JSON object with valid, faults, warnings and files
    #[arg(long)]
    pub(crate) json: bool,
}

/// A file, and its configuration or the mistakes in it.
struct ValidatedFile {
    name: String,
    result: Result<Config, InvalidConfigError>,
}

pub(crate) fn run(args: &ValidateArgs) -> CommandResult {
    let validate = |file: &PathBuf| ValidatedFile {
        name: configuration::name(file),
        result: configuration::read_with_files(file),
    };
    let files: Vec<ValidatedFile> = args.files.iter().map(validate).collect();

    let exit = if files.iter().all(|file| file.result.is_ok()) {
        Exit::Done
    } else {
        Exit::Invalid
    };
    output(args.json, &object(&files), || lines(&files), exit)
}

/// A line about each valid file, and one for each of its warnings. Mistakes go to standard error.
fn lines(files: &[ValidatedFile]) -> Vec<String> {
    let mut lines = Vec::new();
    for ValidatedFile { name, result } in files {
        match result {
            Ok(config) => {
                let limits = counted(config.limits.len() as u64, "limit");
                let store = plain(&configuration::describe_store(config));
                let valid = Tone::Good.paint("valid");
                lines.push(format!(
                    "{}: {valid}, {limits}, store: {store}",
                    plain(name)
                ));

                let label = Tone::Warning.paint("warning:");
                let warnings = config.warnings.iter();
                lines.extend(warnings.map(|warning| format!("{label} {}", plain(warning))));
            }
            Err(error) => terminal::print_error(&error.lines()),
        }
    }
    lines
}

/// The output of `--json`.
fn object(files: &[ValidatedFile]) -> Value {
    let errors = files.iter().filter_map(|file| file.result.as_ref().err());
    let diagnostics = errors.clone().flat_map(|error| &error.diagnostics);
    let configs = files.iter().filter_map(|file| file.result.as_ref().ok());

    json!({
        "valid": files.iter().all(|file| file.result.is_ok()),
        "faults": diagnostics.map(diagnostic_object).collect::<Vec<_>>(),
        "faults_more": errors.map(|error| error.more).sum::<usize>(),
        "warnings": configs.flat_map(|config| &config.warnings).collect::<Vec<_>>(),
        "files": files.iter().map(file_object).collect::<Vec<_>>(),
    })
}

fn diagnostic_object(diagnostic: &Diagnostic) -> Value {
    json!({
        "file": diagnostic.file, "line": diagnostic.line, "column": diagnostic.column,
        "field": diagnostic.field, "message": diagnostic.message,
    })
}

fn file_object(file: &ValidatedFile) -> Value {
    match &file.result {
        Err(_) => json!({ "file": file.name, "valid": false }),
        Ok(config) => {
            let limits = config.limits.iter();
            let limits: Vec<&str> = limits.map(|limit| limit.rule.name().as_str()).collect();
            let store = configuration::store_type(config);
            json!({ "file": file.name, "valid": true, "limits": limits, "store": store })
        }
    }
}
