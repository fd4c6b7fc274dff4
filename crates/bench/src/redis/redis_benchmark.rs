//! redis-benchmark, the field's usual yardstick, calling the same script.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use super::check_script;
use super::target::Target;
use crate::harness::callers::{CALLS, RATE};
use crate::harness::{Entrant, Figures};
use crate::harness::{P50, P99, process, whole};
use anyhow::Result;

/// It is part of Redis.
pub(crate) const PROGRAM: &str = "redis-benchmark";
/// The default of redis-benchmark.
const CLIENTS: usize = 50;
/// The number of decisions in the first round, before the speed is known.
const FIRST: f64 = 20_000.0;

struct RedisBenchmark {
    pipeline: usize,
    addr: SocketAddr,
    script: String,
    keys: u32,
    /// The rate of the last round.
    decisions_per_s: Option<f64>,
}

pub(super) fn entrant(name: &str, pipeline: usize, target: &Target, keys: u32) -> Entrant<'static> {
    let load = if pipeline == 1 {
        format!("{CLIENTS} callers")
    } else {
        format!("{CLIENTS} x {pipeline} callers")
    };
    let mut program = RedisBenchmark {
        pipeline,
        addr: target.server.addr(),
        script: target.script_with_arguments.clone(),
        keys,
        decisions_per_s: None,
    };
    Entrant::new(name, load, move |length| program.round(length))
}

impl RedisBenchmark {
    fn command(&self, decisions: usize) -> Result<Command> {
        let key = if self.keys == 1 {
            check_script::key(check_script::LIMITS[0], 0)
        } else {
            check_script::key_to_draw()
        };
        let key = String::from_utf8(key)?;
        let (ip, port, pipeline) = (self.addr.ip(), self.addr.port(), self.pipeline);
        let options = format!("-h {ip} -p {port} --csv -c {CLIENTS} -P {pipeline} -n {decisions}");
        let mut command = Command::new(PROGRAM);
        command.args(options.split(' '));
        if self.keys > 1 {
            command.args(["-r", &self.keys.to_string()]);
        }
        command.args(["EVALSHA", &self.script, "1", &key]);
        Ok(command)
    }

    fn round(&mut self, length: Duration) -> Result<Figures> {
        let decisions = self
            .decisions_per_s
            .map_or(FIRST, |per_s| per_s * length.as_secs_f64());
        let round = process::run(&mut self.command(bounded(decisions))?, parse)?;
        self.decisions_per_s = round.get(RATE).copied();
        Ok(round)
    }
}

/// Parses the second line by the column names in the first. The name of the test is the command and
/// may contain anything, so fields are counted from the end.
pub(crate) fn parse(csv: &str) -> Option<Figures> {
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

fn bounded(decisions: f64) -> usize {
    whole(decisions.clamp(1_000.0, 1e9))
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
    fn the_number_of_decisions_is_clamped() {
        assert_eq!(
            [0.0, 5_000.7, 1e12].map(bounded),
            [1_000, 5_001, 1_000_000_000]
        );
    }
}
