//! Writes results: numbers and a chart to files, tables to standard output.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

/// The options that every benchmark has.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct OutputArguments {
    /// Measure less and in shorter rounds, as a smoke test; do not quote its numbers
    #[arg(long)]
    pub(crate) quick: bool,
    /// Output for the numbers: a .json file, or a directory for a file with the name of the
    /// benchmark. The picture is written to the same directory
    #[arg(long, default_value = "target/bench")]
    out: PathBuf,
}

impl OutputArguments {
    /// The file for the numbers of the benchmark with this name.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        if self
            .out
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            self.out.clone()
        } else {
            self.out.join(name).with_extension("json")
        }
    }
}

/// Whether an item is to be measured: all are, unless some are named.
pub(crate) fn is_chosen<N: PartialEq<I>, I>(named: &[N], item: &I) -> bool {
    named.is_empty() || named.iter().any(|name| name == item)
}

/// The items that are to be measured.
pub(crate) fn chosen<N: PartialEq<I>, I>(
    named: &[N],
    items: impl IntoIterator<Item = I>,
) -> Vec<I> {
    let items = items.into_iter();
    items.filter(|item| is_chosen(named, item)).collect()
}

/// The values of an option that are to be measured, in order.
pub(crate) fn chosen_values<V: ValueEnum + PartialEq>(named: &[V]) -> Vec<V> {
    chosen(named, V::value_variants().iter().cloned())
}

/// Writes the numbers to `path` and the chart to the same directory.
pub(crate) fn save(path: &Path, report: &impl Serialize, chart: &impl Display) -> Result<()> {
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
pub(crate) fn print(report: &impl Display) -> Result<()> {
    match write!(io::stdout(), "{report}") {
        // The reader may close the pipe early, as `head` does.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_items_are_selected_and_all_by_default() {
        assert!(is_chosen(&[] as &[u32], &7) && is_chosen(&[7], &7) && !is_chosen(&[8], &7));
    }

    #[test]
    fn a_directory_means_the_file_of_this_name_in_it() {
        let file = |out: &str| {
            let out = PathBuf::from(out);
            OutputArguments { quick: true, out }.file("redis")
        };
        assert_eq!(file("a/b.json"), Path::new("a/b.json"));
        assert_eq!(file("a/b"), Path::new("a/b/redis.json"));
    }
}
