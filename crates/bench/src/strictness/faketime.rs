//! Clocks that are wrong, for one process: Debian's libfaketime, which answers for the system when
//! it is asked for the time.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names the program `faketime`, beside whose directory the library is looked for.
const PROGRAM: &str = "TOLLGATE_FAKETIME";
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";

/// What is wrong with each replica's clock, in turn: the time of day, or how fast time passes.
pub(super) const CLOCKS: [&str; 4] = ["+3600", "-3600", "+0 x1.02", "+0 x0.98"];

/// The library, or why it is not there.
pub(super) fn library() -> Result<PathBuf, String> {
    let told = env::var_os(PROGRAM)
        .filter(|path| !path.is_empty())
        .map(PathBuf::from);
    let beside = told.iter().filter_map(|program| program.parent()?.parent());
    let roots = beside.flat_map(|root| [root.join("usr/lib"), root.join("lib")]);
    let mut roots = roots.chain([PathBuf::from("/usr/lib")]);
    roots.find_map(|root| below(&root)).ok_or_else(|| {
        format!("libfaketime is not there: install the package faketime, or name the program in {PROGRAM}")
    })
}

/// `lib/<architecture>/faketime/..`
fn below(lib: &Path) -> Option<PathBuf> {
    let architectures = fs::read_dir(lib).ok()?.filter_map(Result::ok);
    let mut libraries = architectures.map(|architecture| architecture.path().join(LIBRARY));
    libraries.find(|library| library.is_file())
}

/// Has a command live by such a clock.
pub(super) fn apply(command: &mut Command, library: &Path, clock: &str) {
    command.env("LD_PRELOAD", library).env("FAKETIME", clock);
}

/// Whether dates such as `Mon, 16 Nov 2026 05:42:45 GMT` show that the clocks are wrong: the first
/// two are two hours apart. One replica alone shows nothing.
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
        apply(&mut command, Path::new("/x/libfaketimeMT.so.1"), CLOCKS[0]);
        let told: Vec<_> = command
            .get_envs()
            .filter_map(|(_, value)| value?.to_str())
            .collect();
        assert!(
            told.contains(&"+3600") && told.contains(&"/x/libfaketimeMT.so.1"),
            "{told:?}"
        );
    }

    #[test]
    fn a_directory_without_it_has_none() {
        assert_eq!(below(Path::new("/nowhere")), None);
    }
}
