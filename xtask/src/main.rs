//! The project's own commands: `cargo xtask ci`, `test`, `faults`, `lint`, `deny`, `size`, `semver`,
//! `bench`, `experiment`, `package`, `picture`, `fuzz`.
//!
//! They are written in Rust so that they run wherever the project builds, and are type-checked and
//! linted like the rest. Each command is a file that lists its steps; `run` runs them.

use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::{Cli, Command};
use crate::error::Error;
use crate::test::Volume;
use crate::workspace::Workspace;

mod bench;
mod ci;
mod cli;
mod deny;
mod error;
mod experiment;
mod faults;
mod fuzz;
mod links;
mod lint;
mod modules;
mod names;
mod node;
mod package;
mod picture;
mod run;
mod semver;
mod servers;
mod size;
mod source;
mod test;
mod tools;
mod workspace;

fn main() -> ExitCode {
    match dispatch(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", error::with_sources(&error));
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: Command) -> Result<(), Error> {
    let workspace = Workspace::read()?;
    match command {
        Command::Ci => run::all(ci::plan(&workspace)),
        Command::Test { thorough } => run::all(test::plan(&workspace, Volume::for_run(thorough))),
        Command::Faults { args } => run::all(faults::plan(&workspace, args)),
        Command::Lint => run::all(lint::plan(&workspace)),
        Command::Deny => run::all(deny::plan(&workspace)),
        Command::Size => {
            size::print(&workspace);
            Ok(())
        }
        Command::Semver { baseline } => run::all(semver::plan(&workspace, &baseline)),
        Command::Fuzz { target, seconds } => run::all(fuzz::plan(&workspace, target, seconds)?),
        Command::Picture { picture } => run::alone(picture::command(&workspace, &picture)?),
        Command::Package {
            binary,
            directory,
            quick,
        } => package::build(&workspace, binary, directory, quick),
        Command::Bench { bench } => bench::commands(&workspace, bench)?
            .into_iter()
            .try_for_each(run::alone),
        Command::Experiment { experiment } => experiment::commands(&workspace, experiment)?
            .into_iter()
            .try_for_each(run::alone),
    }
}
