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
mod fleet;
mod fleet_top;
mod grpc;
mod guard;
mod help;
mod http;
mod listen;
mod logs;
mod reload;
mod resp;
mod serve;
mod service;
mod traces;

pub use cli::{Cli, Command};
pub use commands::{
    ActionArgs, ActionsCommand, AdminArgs, AttributeArgs, AuditPathsArgs, BlockArgs, CancelArgs,
    CheckArgs, ClientArgs, CompletionsArgs, ConnectionArgs, ExemptArgs, ExplainArgs, ImportArgs,
    ImportFormat, KeyArgs, KeysArgs, KeysCommand, ListActionsArgs, LoadArgs, LogLayout,
    OverrideArgs, RemoveActionArgs, RequestArgs, ReservationArgs, ReserveArgs, SettleArgs,
    ShadowArgs, SimulateArgs, TargetArgs, TopArgs, ValidateArgs,
};
#[cfg(feature = "fuzzing")]
pub use grpc::rate_limit_service;
pub use logs::LogFormat;
pub use serve::ServeArgs;

/// Runs the command that was given and returns the process's exit code.
pub fn run(cli: &Cli) -> ExitCode {
    match &cli.command {
        Command::Serve(args) => commands::serve(args),
        Command::Validate(args) => commands::validate(args),
        Command::Explain(args) => commands::explain(args),
        Command::Import(args) => commands::import(args),
        Command::Check(args) => commands::check(args),
        Command::Reserve(args) => commands::reserve(args),
        Command::Settle(args) => commands::settle(args),
        Command::Cancel(args) => commands::cancel(args),
        Command::Keys(args) => commands::keys(args),
        Command::Block(args) => commands::block(args),
        Command::Exempt(args) => commands::exempt(args),
        Command::Override(args) => commands::override_numbers(args),
        Command::Shadow(args) => commands::shadow(args),
        Command::Load(args) => commands::load(args),
        Command::Simulate(args) => commands::simulate(args),
        Command::AuditPaths(args) => commands::audit_paths(args),
        Command::Completions(args) => commands::completions(args, Cli::command()),
        Command::Schema => commands::schema(),
    }
}
