//! The arguments of `cargo xtask`. The comments here are the help texts.

use std::path::PathBuf;

/// Sets up, checks, tests and benchmarks Tollgate
#[derive(Debug, clap::Parser)]
// Usage errors show the usage line, so it lists the commands.
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    subcommand_value_name = "ci|test|faults|lint|deny|size|semver|bench|experiment|package|picture|fuzz|help"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Run every check and every test: `lint`, then `test`
    Ci,
    /// Run every test except the slow ones, after installing what the tests need: Redis and
    /// Chromium with apt-get, the rest inside `target`
    Test {
        /// Run random tests in full and with a new seed, instead of a tenth with the same seeds
        #[arg(long)]
        thorough: bool,
    },
    /// Run the slow fault tests and show their output, after installing what they need
    Faults {
        /// Parts of test names, and options of the test runner
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Run the checks of `ci` without the tests
    Lint,
    /// Check licences, bans, sources and known vulnerabilities of the dependencies
    Deny,
    /// Count the characters of code in each crate, without comments, layout and tests
    Size,
    /// Compare the public interface of the published crates with another revision
    Semver {
        /// The revision to compare with
        #[arg(long, default_value = "origin/main")]
        baseline: String,
    },
    /// Run a benchmark, in a release build
    Bench {
        #[command(subcommand)]
        bench: Bench,
    },
    /// Run an experiment, in a release build
    Experiment {
        #[command(subcommand)]
        experiment: Experiment,
    },
    /// Build a Debian package of the service from a release build, in `target/debian`
    Package {
        /// Package this binary instead
        #[arg(long, value_name = "FILE")]
        binary: Option<PathBuf>,
        /// Put the package into this directory instead
        #[arg(long, value_name = "DIRECTORY")]
        directory: Option<PathBuf>,
        /// Compress quickly instead of well, as the tests do
        #[arg(long)]
        quick: bool,
    },
    /// Run the fuzz targets with nightly Rust, after installing cargo-fuzz
    Fuzz {
        /// The target to run; all of them if it is left out
        target: Option<FuzzTarget>,
        /// How long to run each target, in seconds
        #[arg(long, default_value_t = 900)]
        seconds: u64,
    },
    /// Regenerate a picture of the documentation
    Picture {
        #[command(subcommand)]
        picture: Picture,
    },
}

/// The targets in `fuzz/fuzz_targets`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FuzzTarget {
    /// Readings of paths, compared with what well-known servers do
    Paths,
    /// Cookies, headers, queries and forwarding headers
    Fields,
    /// The configuration file
    Config,
    /// Envoy's requests
    Grpc,
}

impl FuzzTarget {
    pub(crate) const ALL: [Self; 4] = [Self::Paths, Self::Fields, Self::Config, Self::Grpc];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Paths => "paths",
            Self::Fields => "fields",
            Self::Config => "config",
            Self::Grpc => "grpc",
        }
    }
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Picture {
    /// Take pictures of the dashboard under load, light and dark, in `docs/pictures` (six minutes)
    Dashboard {
        /// Duration of the load before the picture is taken, in seconds
        #[arg(long, default_value_t = 300)]
        seconds: u64,
    },
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Bench {
    /// Benchmark the memory store; further arguments are passed to the benchmark
    // The benchmark has a `--help` of its own.
    #[command(disable_help_flag = true)]
    Memory {
        /// Arguments of the benchmark
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Benchmark the Redis store, after installing the servers; further arguments are passed to the
    /// benchmark
    #[command(disable_help_flag = true)]
    Redis {
        /// Arguments of the benchmark
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Benchmark leased and eventual limits on Redis; further arguments are passed to the benchmark
    #[command(disable_help_flag = true)]
    Leases {
        /// Arguments of the benchmark
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Benchmark `tollgate simulate` on a generated log of 1 GB; further arguments are passed to
    /// the benchmark
    #[command(disable_help_flag = true)]
    Simulate {
        /// Arguments of the benchmark
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Benchmark the service over HTTP and gRPC, after installing Redis and the load generator;
    /// further arguments are passed to the benchmark
    #[command(disable_help_flag = true)]
    Service {
        /// Arguments of the benchmark
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Benchmark an Express application with and without the Node package, after building it and
    /// installing Redis and the load generator; further arguments are passed to the benchmark
    #[command(disable_help_flag = true)]
    Node {
        /// Arguments of the benchmark
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Benchmark an axum application with and without the Tower layer, after installing Redis and
    /// the load generator; further arguments are passed to the benchmark
    #[command(disable_help_flag = true)]
    Tower {
        /// Arguments of the benchmark
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Experiment {
    /// Measure what replicas admit together; fails when the bound of a mode is exceeded
    // The experiment has a `--help` of its own.
    #[command(disable_help_flag = true)]
    Strictness {
        /// Arguments of the experiment: --quick, --case, --mode, --replicas, --load
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Simulate what large fleets, many keys and a large cluster cost; fails when a limit is
    /// exceeded
    #[command(disable_help_flag = true)]
    Scale {
        /// Arguments of the experiment: --quick, --replicas, --seed
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
            | Bench::Node { args }
            | Bench::Tower { args }
            | Bench::Simulate { args }) = bench;
            assert_eq!(args, typed);
        }
    }

    #[test]
    fn an_experiment_gets_its_arguments_untouched() {
        let typed = ["--quick", "--mode", "leased", "--help"];
        for name in ["strictness", "scale"] {
            let cli = Cli::try_parse_from(["xtask", "experiment", name].into_iter().chain(typed))
                .unwrap();
            let Command::Experiment { experiment } = cli.command else {
                panic!("not an experiment: {cli:?}")
            };
            let (Experiment::Strictness { args } | Experiment::Scale { args }) = experiment;
            assert_eq!(args, typed);
        }
    }

    #[test]
    fn the_volume_of_random_tests_can_be_chosen() {
        for (typed, expected) in [
            (&["xtask", "test"][..], false),
            (&["xtask", "test", "--thorough"], true),
        ] {
            let cli = Cli::try_parse_from(typed).unwrap();
            assert!(
                matches!(cli.command, Command::Test { thorough } if thorough == expected),
                "{cli:?}"
            );
        }
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
