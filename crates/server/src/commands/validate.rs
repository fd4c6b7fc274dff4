//! `tollgate validate`: is a configuration right, and if not, everything that is wrong with it.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};
use tollgate_rules::Config;
use tollgate_rules::config::Diagnostic;

use super::configuration::{self, Wrong};
use super::terminal::{self, Paint, Tone, plain};
use super::{Exit, end};

/// What to look at.
#[derive(Clone, Debug, clap::Args)]
pub struct ValidateArgs {
    /// The configurations; - is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Print one object for programs: valid, faults, notes, files
    #[arg(long)]
    json: bool,
}

/// A file and what became of it.
struct Looked {
    name: String,
    read: Result<Config, Wrong>,
}

pub(crate) fn run(args: &ValidateArgs) -> ExitCode {
    let look = |file: &PathBuf| Looked {
        name: configuration::name(file),
        read: configuration::read(file),
    };
    let looked: Vec<Looked> = args.files.iter().map(look).collect();
    let exit = if looked.iter().all(|looked| looked.read.is_ok()) {
        Exit::Done
    } else {
        Exit::Wrong
    };
    let text = if args.json {
        format!("{}\n", object(&looked))
    } else {
        for wrong in looked
            .iter()
            .filter_map(|looked| looked.read.as_ref().err())
        {
            terminal::complain(&wrong.to_string());
        }
        let paint = Paint::for_stdout();
        looked
            .iter()
            .filter_map(|looked| Some(summary(&looked.name, looked.read.as_ref().ok()?, paint)))
            .collect()
    };
    end(Ok((text, exit)), args.json)
}

/// A line about a file that is right, and one for each note.
fn summary(name: &str, config: &Config, paint: Paint) -> String {
    let count = config.limits.len();
    let limits = if count == 1 {
        "1 limit".to_owned()
    } else {
        format!("{count} limits")
    };
    let store = configuration::store_words(config);
    let valid = paint.tone(Tone::Good, "valid");
    let mut text = format!(
        "{}: {valid}, {limits}, counted in {}\n",
        plain(name),
        plain(&store)
    );
    for note in &config.notes {
        let _infallible = writeln!(
            text,
            "{} {}",
            paint.tone(Tone::Careful, "note:"),
            plain(note)
        );
    }
    text
}

/// Everything about all files in one object.
fn object(looked: &[Looked]) -> Value {
    let faults = looked
        .iter()
        .filter_map(|looked| looked.read.as_ref().err());
    let configs = looked.iter().filter_map(|looked| looked.read.as_ref().ok());
    json!({
        "valid": looked.iter().all(|looked| looked.read.is_ok()),
        "faults": faults.clone().flat_map(|wrong| &wrong.faults).map(fault).collect::<Vec<_>>(),
        "faults_more": faults.map(|wrong| wrong.more).sum::<usize>(),
        "notes": configs.flat_map(|config| &config.notes).collect::<Vec<_>>(),
        "files": looked.iter().map(file).collect::<Vec<_>>(),
    })
}

fn fault(fault: &Diagnostic) -> Value {
    let Diagnostic {
        file,
        line,
        column,
        field,
        message,
    } = fault;
    json!({ "file": file, "line": line, "column": column, "field": field, "message": message })
}

fn file(looked: &Looked) -> Value {
    match &looked.read {
        Err(_) => json!({ "file": looked.name, "valid": false }),
        Ok(config) => {
            let limits: Vec<&str> = config.limits.iter().map(|rule| rule.limit.name()).collect();
            let store = configuration::store_type(config);
            json!({ "file": looked.name, "valid": true, "limits": limits, "store": store })
        }
    }
}
