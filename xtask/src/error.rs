//! The errors of `cargo xtask`.

use std::error::Error as StdError;
use std::io;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("`{command}` could not be started; is it installed and on the PATH?")]
    Start { command: String, source: io::Error },
    #[error("`{command}` ended with {found}, expected exit status 0")]
    Command { command: String, found: String },
    #[error("the output of `{command}` is not what cargo of this version should print")]
    Metadata {
        command: String,
        source: serde_json::Error,
    },
    #[error("{path} could not be read")]
    Read { path: String, source: io::Error },
    #[error("{path} could not be written")]
    Write { path: String, source: io::Error },
    #[error("{}", reasons.join("; "))]
    Missing { reasons: Vec<String> },
    #[error("{} failed: {}; each says why where it ran, above", count(names), names.join(", "))]
    Steps { names: Vec<String> },
}

fn count(names: &[String]) -> String {
    if names.len() == 1 {
        "1 step".to_owned()
    } else {
        format!("{} steps", names.len())
    }
}

/// The error and its sources on one line.
pub(crate) fn with_sources(error: &dyn StdError) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_told() {
        let source = io::Error::new(io::ErrorKind::NotFound, "no such file");
        let error = Error::Start {
            command: "typos".into(),
            source,
        };
        let told = with_sources(&error);
        assert_eq!(
            told,
            "`typos` could not be started; is it installed and on the PATH?: no such file"
        );
    }

    #[test]
    fn failed_steps_are_named() {
        let told = Error::Steps {
            names: vec!["fmt".into(), "typos".into()],
        }
        .to_string();
        assert_eq!(
            told,
            "2 steps failed: fmt, typos; each says why where it ran, above"
        );
    }
}
