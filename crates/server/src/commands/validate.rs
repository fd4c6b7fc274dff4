//! `tollgate validate`: reports every mistake in a configuration.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};
use tollgate_rules::Config;
use tollgate_rules::config::Diagnostic;

use super::configuration::{self, InvalidConfigError};
use super::terminal::{self, Paint, Tone, plain};
use super::{Exit, finish};

/// Arguments of `tollgate validate`.
#[derive(Clone, Debug, clap::Args)]
pub struct ValidateArgs {
    /// Configuration files; - for standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Print a JSON object with valid, faults, notes and files
    #[arg(long)]
    json: bool,
}

/// A file, and its configuration or the mistakes in it.
struct ValidatedFile {
    name: String,
    result: Result<Config, InvalidConfigError>,
}

pub(crate) fn run(args: &ValidateArgs) -> ExitCode {
    let validate = |file: &PathBuf| ValidatedFile {
        name: configuration::name(file),
        result: configuration::read(file),
    };
    let files: Vec<ValidatedFile> = args.files.iter().map(validate).collect();

    let text = if args.json {
        format!("{}\n", object(&files))
    } else {
        for error in files.iter().filter_map(|file| file.result.as_ref().err()) {
            terminal::print_error(&error.to_string());
        }
        let paint = Paint::for_stdout();
        files
            .iter()
            .filter_map(|file| Some(summary(&file.name, file.result.as_ref().ok()?, paint)))
            .collect()
    };

    let exit = if files.iter().all(|file| file.result.is_ok()) {
        Exit::Done
    } else {
        Exit::Invalid
    };
    finish(Ok((text, exit)), args.json)
}

/// A line about a valid file, and one for each note.
fn summary(name: &str, config: &Config, paint: Paint) -> String {
    let count = config.limits.len();
    let limits = if count == 1 {
        "1 limit".to_owned()
    } else {
        format!("{count} limits")
    };
    let store = configuration::describe_store(config);
    let valid = paint.tone(Tone::Good, "valid");

    let mut text = format!(
        "{}: {valid}, {limits}, store: {}\n",
        plain(name),
        plain(&store)
    );
    for note in &config.notes {
        let label = paint.tone(Tone::Warning, "note:");
        let _infallible = writeln!(text, "{label} {}", plain(note));
    }
    text
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
        "notes": configs.flat_map(|config| &config.notes).collect::<Vec<_>>(),
        "files": files.iter().map(file_object).collect::<Vec<_>>(),
    })
}

fn diagnostic_object(diagnostic: &Diagnostic) -> Value {
    let Diagnostic {
        file,
        line,
        column,
        field,
        message,
    } = diagnostic;
    json!({ "file": file, "line": line, "column": column, "field": field, "message": message })
}

fn file_object(file: &ValidatedFile) -> Value {
    match &file.result {
        Err(_) => json!({ "file": file.name, "valid": false }),
        Ok(config) => {
            let limits: Vec<&str> = config
                .limits
                .iter()
                .map(|limit| limit.rule.name().as_str())
                .collect();
            let store = configuration::store_type(config);
            json!({ "file": file.name, "valid": true, "limits": limits, "store": store })
        }
    }
}
