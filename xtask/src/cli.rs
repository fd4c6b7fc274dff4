//! What can be typed after `cargo xtask`. The comments here are the help texts.

/// Tollgate's set-up, checks and measurements.
#[derive(Debug, clap::Parser)]
// Usage errors show the usage line, which is to say what there is.
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    subcommand_value_name = "ci|test|lint|deny|bench|help"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Every check and every test: `lint`, then `test`
    Ci,
    /// Every test, after installing what the tests need
    Test,
    /// The checks of `ci` without the tests
    Lint,
    /// Licences, bans, sources and known vulnerabilities of the dependencies
    Deny,
    /// A measurement, built for release
    Bench {
        #[command(subcommand)]
        bench: Bench,
    },
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Bench {
    /// The embedded store; what follows is passed on to the benchmark
    // The benchmark answers `--help` itself.
    #[command(disable_help_flag = true)]
    Memory {
        /// Passed on as they are
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::{Bench, Cli, Command};

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_benchmark_gets_its_arguments_untouched() {
        let cli = Cli::try_parse_from(["xtask", "bench", "memory", "--help", "--threads", "2", "--", "-x"])
            .unwrap();
        let Command::Bench { bench: Bench::Memory { args } } = cli.command else {
            panic!("not a benchmark: {cli:?}")
        };
        assert_eq!(args, ["--help", "--threads", "2", "--", "-x"]);
    }

    #[test]
    fn a_slip_of_the_finger_gets_a_suggestion() {
        let error = Cli::try_parse_from(["xtask", "tset"]).unwrap_err().to_string();
        assert!(error.contains("a similar subcommand exists: 'test'"), "{error}");
    }

    #[test]
    fn an_unknown_command_is_told_every_one_there_is() {
        let error = Cli::try_parse_from(["xtask", "xyzzy"]).unwrap_err().to_string();
        for command in Cli::command().get_subcommands() {
            assert!(error.contains(command.get_name()), "{} is missing: {error}", command.get_name());
        }
    }
}
