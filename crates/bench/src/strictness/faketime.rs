//! Wrong clocks for single processes, using Debian's libfaketime, which intercepts the system's
//! time functions.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An environment variable with the path of the program `faketime`; the library is searched for
/// relative to its directory.
const PROGRAM: &str = "TOLLGATE_FAKETIME";
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";

/// The clock errors of the replicas, in turn: an offset of the time of day, or a different speed.
const CLOCKS: [&str; 4] = ["+3600", "-3600", "+0 x1.02", "+0 x0.98"];

/// The path of the library, or why it was not found.
pub(super) fn library() -> Result<PathBuf, String> {
    let program = PathBuf::from(env::var_os(PROGRAM).unwrap_or_default());
    let root = program.parent().and_then(Path::parent);
    let roots = root.map(|root| [root.join("usr/lib"), root.join("lib")]);
    let mut roots = roots
        .into_iter()
        .flatten()
        .chain([PathBuf::from("/usr/lib")]);
    roots.find_map(|root| below(&root)).ok_or_else(|| {
        format!(
            "libfaketime not found: install the package faketime, \
             or set {PROGRAM} to the path of the program"
        )
    })
}

/// Searches `lib/<architecture>/faketime/`.
fn below(lib: &Path) -> Option<PathBuf> {
    let architectures = fs::read_dir(lib).ok()?.filter_map(Result::ok);
    let mut libraries = architectures.map(|architecture| architecture.path().join(LIBRARY));
    libraries.find(|library| library.is_file())
}

/// Makes the command of the replica with this index use one of the clocks.
pub(super) fn apply(command: &mut Command, library: &Path, index: usize) {
    let clock = CLOCKS[index % CLOCKS.len()];
    command.env("LD_PRELOAD", library).env("FAKETIME", clock);
}

/// Whether dates such as `Mon, 16 Nov 2026 05:42:45 GMT` show that the clocks are wrong: those of
/// the first two replicas are two hours apart. With a single replica the result is always true.
pub(super) fn has_effect(dates: &[String]) -> bool {
    let hour = |date: &String| date.get(17..19).map(str::to_owned);
    match dates {
        [early, late, ..] => hour(early).is_some() && hour(early) != hour(late),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_clocks_show_in_dates() {
        let dates =
            |hours: [&str; 2]| hours.map(|hour| format!("Mon, 16 Nov 2026 {hour}:42:45 GMT"));
        assert!(has_effect(&dates(["06", "04"])));
        assert!(!has_effect(&dates(["05", "05"])));
        assert!(!has_effect(&[String::new(), String::new()]));
    }

    #[test]
    fn a_clock_is_set_by_variables() {
        let mut command = Command::new("date");
        apply(&mut command, Path::new("/x/libfaketimeMT.so.1"), 4);
        let variables: Vec<_> = command
            .get_envs()
            .filter_map(|(_, value)| value?.to_str())
            .collect();
        assert!(
            variables.contains(&"+3600") && variables.contains(&"/x/libfaketimeMT.so.1"),
            "{variables:?}"
        );
    }

    #[test]
    fn a_directory_without_the_library_has_none() {
        assert_eq!(below(Path::new("/nowhere")), None);
    }
}
