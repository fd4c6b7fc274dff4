//! Writes results: numbers and a chart to files, tables to standard output.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;

/// The output file: `out` itself, or the file `name` in it if `out` is a directory.
pub(crate) fn file(out: &Path, name: &str) -> PathBuf {
    if out.extension().is_some_and(|extension| extension == "json") {
        out.to_owned()
    } else {
        out.join(name)
    }
}

/// Writes the numbers to `path` and the chart to the same directory.
pub(crate) fn save(path: &Path, report: &impl Serialize, chart: &impl Display) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    serde_json::to_writer_pretty(File::create(path)?, report)?;
    let picture = path.with_extension("svg");
    fs::write(&picture, chart.to_string())?;
    eprintln!("wrote {} and {}", path.display(), picture.display());
    Ok(())
}

/// Prints the tables.
pub(crate) fn print(report: &impl Display) -> io::Result<()> {
    match write!(io::stdout(), "{report}") {
        // The reader may close the pipe early, as `head` does.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_means_the_file_of_this_name_in_it() {
        assert_eq!(
            file(Path::new("a/b.json"), "redis.json"),
            Path::new("a/b.json")
        );
        assert_eq!(
            file(Path::new("a/b"), "redis.json"),
            Path::new("a/b/redis.json")
        );
    }
}
