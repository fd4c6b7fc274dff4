//! `cargo xtask fuzz`: runs the fuzz targets of `fuzz/` with nightly Rust, after installing
//! cargo-fuzz. `ci` does not run them, because they are useful only if they run for long.

use std::fs;

use crate::cli::FuzzTarget;
use crate::error::Error;
use crate::run::{Plan, Step};
use crate::tools;
use crate::workspace::Workspace;

/// The most bytes of an input. More are the same again, and slow.
const INPUT_MAX: u32 = 2_048;

/// Runs one target, or all of them, for some seconds each. Inputs that reach new code are kept in
/// the target directory; the seeds in `fuzz/corpus` stay as they are.
pub(crate) fn plan(
    workspace: &Workspace,
    target: Option<FuzzTarget>,
    seconds: u64,
) -> Result<Plan, Error> {
    let chosen = target.map_or_else(|| FuzzTarget::ALL.to_vec(), |target| vec![target]);
    let fuzz = tools::FUZZ.ensure(workspace);

    let mut steps = Vec::new();
    for name in chosen.into_iter().map(FuzzTarget::name) {
        let label = format!("fuzz {name}");
        let fuzz = match &fuzz {
            Ok(fuzz) => fuzz,
            Err(reason) => {
                steps.push(Step::failed(label, reason.clone()));
                continue;
            }
        };

        let kept = workspace
            .tools_dir()
            .with_file_name("fuzz-corpus")
            .join(name);
        fs::create_dir_all(&kept).map_err(|source| Error::Write {
            path: kept.display().to_string(),
            source,
        })?;

        let mut command = fuzz.command(&["run", "--target-dir", "target/fuzz"]);
        if name == FuzzTarget::Grpc.name() {
            command.args(["--features", "grpc"]);
        }
        command
            .arg(name)
            .arg(kept)
            .arg(format!("fuzz/corpus/{name}"));
        command.arg("--").arg(format!("-max_total_time={seconds}"));
        command.arg(format!("-max_len={INPUT_MAX}"));
        command.arg(format!("-dict=fuzz/{name}.dict"));
        command.env("RUSTUP_TOOLCHAIN", "nightly");
        steps.push(Step::new(label, command));
    }
    Ok(Plan {
        steps,
        closing: None,
    })
}
