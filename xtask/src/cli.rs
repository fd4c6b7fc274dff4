//! What can be typed after `cargo xtask`. The comments here are the help texts.

/// Tollgate's set-up, checks and measurements.
#[derive(Debug, clap::Parser)]
// Usage errors show the usage line, which is to say what there is.
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    subcommand_value_name = "ci|test|faults|lint|deny|bench|experiment|picture|help"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Every check and every test: `lint`, then `test`
    Ci,
    /// Every test but the long ones, after installing what the tests need: Redis and Chromium by
    /// apt-get, the rest inside `target`
    Test,
    /// The long tests of what Tollgate survives, with what they print, after installing what they
    /// need
    Faults {
        /// Which tests, by a part of their name, and options of the test runner
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// The checks of `ci` without the tests
    Lint,
    /// Licences, bans, sources and known vulnerabilities of the dependencies
    Deny,
    /// A measurement, built for release
    Bench {
        #[command(subcommand)]
        bench: Bench,
    },
    /// A promise put to the test, with real processes, built for release
    Experiment {
        #[command(subcommand)]
        experiment: Experiment,
    },
    /// A picture of the documentation, made anew from the running thing
    Picture {
        #[command(subcommand)]
        picture: Picture,
    },
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Picture {
    /// The dashboard under load, light and dark, in `docs/pictures`; takes about six minutes
    Dashboard {
        /// How long the load lasts that the picture shows
        #[arg(long, default_value_t = 300)]
        seconds: u64,
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
    /// The shared store, after installing the servers it is measured on; what follows is passed on
    /// to the benchmark
    #[command(disable_help_flag = true)]
    Redis {
        /// Passed on as they are
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Leased and eventual limits on the shared store; what follows is passed on to the benchmark
    #[command(disable_help_flag = true)]
    Leases {
        /// Passed on as they are
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// `tollgate simulate` on a log of a gigabyte, made for it; what follows is passed on to the
    /// benchmark
    #[command(disable_help_flag = true)]
    Simulate {
        /// Passed on as they are
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// The service over HTTP and gRPC, after installing Redis and the load generator; what follows
    /// is passed on to the benchmark
    #[command(disable_help_flag = true)]
    Service {
        /// Passed on as they are
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// An axum application with the layer and without, after installing Redis and the load
    /// generator; what follows is passed on to the benchmark
    #[command(disable_help_flag = true)]
    Tower {
        /// Passed on as they are
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Experiment {
    /// What replicas admit together, against the bound of each mode; fails when a bound is exceeded
    // The experiment answers `--help` itself.
    #[command(disable_help_flag = true)]
    Strictness {
        /// Passed on as they are: --quick, --case, --mode, --replicas, --load
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::{Bench, Cli, Command, Experiment};

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_benchmark_gets_its_arguments_untouched() {
        let typed = ["--help", "--threads", "2", "--", "-x"];
        for name in ["memory", "redis", "leases", "service", "tower", "simulate"] {
            let cli =
                Cli::try_parse_from(["xtask", "bench", name].into_iter().chain(typed)).unwrap();
            let Command::Bench { bench } = cli.command else {
                panic!("not a benchmark: {cli:?}")
            };
            let (Bench::Memory { args }
            | Bench::Redis { args }
            | Bench::Leases { args }
            | Bench::Service { args }
            | Bench::Tower { args }
            | Bench::Simulate { args }) = bench;
            assert_eq!(args, typed);
        }
    }

    #[test]
    fn an_experiment_gets_its_arguments_untouched() {
        let typed = ["--quick", "--mode", "leased", "--help"];
        let cli = Cli::try_parse_from(
            ["xtask", "experiment", "strictness"]
                .into_iter()
                .chain(typed),
        )
        .unwrap();
        let Command::Experiment { experiment } = cli.command else {
            panic!("not an experiment: {cli:?}")
        };
        let Experiment::Strictness { args } = experiment;
        assert_eq!(args, typed);
    }

    #[test]
    fn the_long_tests_can_be_chosen() {
        let cli = Cli::try_parse_from(["xtask", "faults", "frozen", "--no-fail-fast"]).unwrap();
        let Command::Faults { args } = cli.command else {
            panic!("not the long tests: {cli:?}")
        };
        assert_eq!(args, ["frozen", "--no-fail-fast"]);
    }

    #[test]
    fn a_slip_of_the_finger_gets_a_suggestion() {
        let error = Cli::try_parse_from(["xtask", "tset"])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("a similar subcommand exists: 'test'"),
            "{error}"
        );
    }

    #[test]
    fn an_unknown_command_is_told_every_one_there_is() {
        let error = Cli::try_parse_from(["xtask", "xyzzy"])
            .unwrap_err()
            .to_string();
        for command in Cli::command().get_subcommands() {
            assert!(
                error.contains(command.get_name()),
                "{} is missing: {error}",
                command.get_name()
            );
        }
    }
}
