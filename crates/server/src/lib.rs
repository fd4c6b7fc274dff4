//! The `tollgate` service and command line, as a library with a thin binary on top.
//!
//! This crate owns what surrounds the limiter: the command line, the fronts that decode requests
//! and encode decisions, and the process's start and shutdown. The arithmetic of the algorithms
//! stays in the `tollgate` crate.

use std::process::ExitCode;

use clap::CommandFactory as _;

mod admin;
mod alerts;
mod audit_log;
mod cli;
mod commands;
mod exchange;
mod fleet;
mod fleet_top;
mod grpc;
mod guard;
mod help;
mod http;
mod key_part;
mod listen;
mod logs;
mod reload;
mod resp;
mod serve;
mod service;
mod traces;

pub use cli::{Cli, Command};
#[cfg(feature = "fuzzing")]
pub use grpc::rate_limit_service;

/// Runs the command that was given and returns the process's exit code.
pub fn run(cli: &Cli) -> ExitCode {
    use commands::{
        Exit, actions, audit_paths, check, completions, explain, import, keys, load, reserve,
        simulate, validate,
    };

    let (result, json) = match &cli.command {
        Command::Serve(args) => (commands::serve(args), false),
        Command::Validate(args) => (validate::run(args), args.json),
        Command::Explain(args) => (explain::run(args), args.json),
        Command::Import(args) => (import::run(args), args.json),
        Command::Check(args) => (check::run(args), args.client.json),
        Command::Reserve(args) => (reserve::reserve(args), args.client.json),
        Command::Settle(args) => (reserve::settle(args), args.client.json),
        Command::Cancel(args) => (reserve::cancel(args), args.client.json),
        Command::Keys(args) => keys::run(args),
        Command::Block(args) => actions::block(args),
        Command::Exempt(args) => actions::exempt(args),
        Command::Override(args) => actions::override_numbers(args),
        Command::Shadow(args) => actions::shadow(args),
        Command::Load(args) => (load::run(args), args.json),
        Command::Simulate(args) => (simulate::run(args), args.json),
        Command::AuditPaths(args) => (audit_paths::run(args), args.json),
        Command::Completions(args) => {
            let script = completions::script(args, Cli::command());
            (Ok((script, Exit::Done)), false)
        }
        Command::Schema => (Ok((completions::SCHEMA.to_owned(), Exit::Done)), false),
    };
    commands::finish(result, json)
}
