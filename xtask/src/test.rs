//! `cargo xtask test`: runs every test except the slow ones of `cargo xtask faults`.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::process::Command;

use crate::node;
use crate::run::{Plan, Step};
use crate::servers::Servers;
use crate::tools;
use crate::workspace::Workspace;

/// The cases of a property in a thorough run: ten times proptest's default.
const CASES: &str = "2560";

/// How much random testing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Volume {
    /// A tenth, with the seed of `.cargo/config.toml`.
    Tenth,
    /// All of it, with this seed.
    Whole { seed: u64 },
}

impl Volume {
    /// Returns the volume for `--thorough`, with a new seed, or the default.
    pub(crate) fn for_run(is_thorough: bool) -> Self {
        if !is_thorough {
            return Self::Tenth;
        }

        // Every hasher of the standard library has random keys.
        let seed = RandomState::new().build_hasher().finish();
        Self::Whole { seed }
    }

    /// `testkit::volume` and proptest read these variables.
    fn pass_to(self, command: &mut Command) {
        if let Self::Whole { seed } = self {
            eprintln!("random tests run in full, with PROPTEST_RNG_SEED={seed}");
            command.env("TOLLGATE_THOROUGH", "1");
            command.env("PROPTEST_CASES", CASES);
            command.env("PROPTEST_RNG_SEED", seed.to_string());
        }
    }
}

/// Runs unit and integration tests first, then those of the Node package. The doctests of the published crates come last, because
/// nextest does not run them.
pub(crate) fn plan(workspace: &Workspace, volume: Volume) -> Plan {
    let servers = Servers::for_tests(workspace);

    let mut tests = match tools::NEXTEST.ensure(workspace) {
        Ok(nextest) => nextest.command(&["run", "--workspace", "--no-fail-fast"]),
        Err(reason) => {
            eprintln!("{reason}. Using `cargo test`, which runs the same tests, more slowly.");
            workspace.cargo("test --workspace --tests --no-fail-fast")
        }
    };
    servers.pass_to(&mut tests);
    volume.pass_to(&mut tests);

    let mut doctests = workspace.cargo("test --doc --no-fail-fast");
    for package in workspace
        .packages
        .iter()
        .filter(|package| package.is_publishable())
    {
        doctests.args(["--package", &package.name]);
    }

    let node = node::test(workspace, &servers);
    let mut steps = servers.missing();
    steps.push(Step::new("tests", tests));
    steps.extend(node);
    Plan {
        steps,
        closing: Some(Step::new("doctests", doctests)),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::process::Command;

    use super::Volume;

    fn variables(volume: Volume) -> Vec<String> {
        let mut command = Command::new("cargo");
        volume.pass_to(&mut command);
        let text = |text: &OsStr| text.to_string_lossy().into_owned();
        let set = command.get_envs();
        set.map(|(name, value)| format!("{}={}", text(name), value.map(text).unwrap_or_default()))
            .collect()
    }

    #[test]
    fn only_a_thorough_run_changes_volume_and_seed() {
        assert_eq!(variables(Volume::for_run(false)), [""; 0]);
        assert_eq!(
            variables(Volume::Whole { seed: 7 }),
            [
                "PROPTEST_CASES=2560",
                "PROPTEST_RNG_SEED=7",
                "TOLLGATE_THOROUGH=1"
            ]
        );
        assert_ne!(Volume::for_run(true), Volume::Tenth);
    }
}
