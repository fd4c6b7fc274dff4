//! redis-benchmark, the field's usual yardstick.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::callers::{CALLS, RATE};
use super::process::{program_version, run_program};
use super::row::Figures;
use super::text::whole;
use super::timing::{P50, P99};

/// It is part of Redis.
const PROGRAM: &str = "redis-benchmark";
/// The number of commands in the first round, before the speed is known.
const FIRST: f64 = 20_000.0;

/// A command that redis-benchmark sends to a server again and again.
pub(crate) struct RedisBenchmark {
    /// Its options, and the command with its arguments.
    arguments: Vec<String>,
    /// The rate of the last round.
    commands_per_s: Option<f64>,
}

impl RedisBenchmark {
    /// With this number of connections and of commands in flight on each. `command` may begin with
    /// further options.
    pub(crate) fn new(
        server: SocketAddr,
        connections: usize,
        pipeline: usize,
        command: &[&str],
    ) -> Self {
        let (ip, port) = (server.ip(), server.port());
        let options = format!("-h {ip} -p {port} --csv -c {connections} -P {pipeline}");
        let arguments = options.split(' ').chain(command.iter().copied());
        Self {
            arguments: arguments.map(str::to_owned).collect(),
            commands_per_s: None,
        }
    }

    /// Its name and version.
    pub(crate) fn version() -> Result<String> {
        program_version(PROGRAM)
    }

    /// Sends commands for about this long, and returns how many.
    pub(crate) fn round(&mut self, length: Duration) -> Result<(u64, Figures)> {
        let expected = self
            .commands_per_s
            .map_or(FIRST, |per_s| per_s * length.as_secs_f64());
        let commands = bounded(expected);

        let mut command = Command::new(PROGRAM);
        command.args(["-n", &commands.to_string()]);
        let figures = run_program(command.args(&self.arguments), parse)?;
        self.commands_per_s = figures.get(RATE).copied();
        Ok((commands as u64, figures))
    }
}

/// Parses the second line by the column names in the first. The name of the test is the command and
/// may contain anything, so fields are counted from the end.
fn parse(csv: &str) -> Option<Figures> {
    let mut lines = csv.lines();
    let heads: Vec<&str> = lines
        .next()?
        .trim()
        .split(',')
        .map(|field| field.trim_matches('"'))
        .collect();
    let fields: Vec<&str> = lines.next()?.trim().rsplit("\",\"").collect();
    let field = |name| {
        let from_end = heads.iter().rev().position(|head| *head == name)?;
        fields.get(from_end)?.trim_matches('"').parse::<f64>().ok()
    };
    Some(Figures::from([
        (RATE, field("rps")?),
        (P50, field("p50_latency_ms")? * 1e3),
        (P99, field("p99_latency_ms")? * 1e3),
        (CALLS, 1.0),
    ]))
}

fn bounded(commands: f64) -> usize {
    whole(commands.clamp(1_000.0, 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADS: &str = concat!(
        r#""test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","#,
        r#""p95_latency_ms","p99_latency_ms","max_latency_ms""#
    );

    #[test]
    fn numbers_are_found_by_the_heads_of_their_columns() {
        let line = concat!(
            r#""EVALSHA 5f13 1 a:{=user:__rand_int__}api|t","27777.78","0.054","#,
            r#""0.024","0.047","0.087","0.175","1.975""#
        );
        let round = parse(&format!("{HEADS}\n{line}\n")).unwrap();
        assert!((round[RATE] - 27_777.78).abs() < 1e-9);
        assert!((round[P50] - 47.0).abs() < 1e-9, "{round:?}");
        assert!((round[P99] - 175.0).abs() < 1e-9, "{round:?}");
        assert!((round[CALLS] - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_command_may_hold_what_separates_fields() {
        let line = r#""SET a","b","9.5","0","0","1.0","0","2.0","0""#;
        assert!((parse(&format!("{HEADS}\r\n{line}\r\n")).unwrap()[RATE] - 9.5).abs() < 1e-9);
    }

    #[test]
    fn a_missing_field_is_not_a_number() {
        assert_eq!(parse(""), None);
        assert_eq!(parse(HEADS), None);
        assert_eq!(
            parse(&format!(
                "{HEADS}\n\"SET\",\"x\",\"1\",\"1\",\"1\",\"1\",\"1\",\"1\"\n"
            )),
            None
        );
    }

    #[test]
    fn the_number_of_commands_is_clamped() {
        assert_eq!(
            [0.0, 5_000.7, 1e12].map(bounded),
            [1_000, 5_001, 1_000_000_000]
        );
    }
}
