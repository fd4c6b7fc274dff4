//! The load generator h2load. All subjects are measured by the same program with the same settings.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use serde::Serialize;
use testkit::reverse_proxy::find_program;

use crate::others;
use crate::percentiles::{Percentiles, Samples};
use crate::process::Directory;

/// Connections over HTTP/1.1, each with one request in flight.
const HTTP_CONNECTIONS: usize = 32;
/// Connections over gRPC. A proxy opens one for each of its threads.
const GRPC_CONNECTIONS: usize = 4;
/// Requests in flight on each gRPC connection.
const GRPC_STREAMS: usize = 32;
/// Clock ticks per second in the CPU times of `/proc`; the value is the same on every Linux.
const TICKS_PER_S: f64 = 100.0;

/// The h2load program.
#[derive(Clone, Debug)]
pub(crate) struct H2load {
    program: PathBuf,
}

/// Where the load is sent, and what is sent.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) server: SocketAddr,
    pub(crate) path: &'static str,
    pub(crate) sent: LoadRequest,
    /// The class of status that every response must have.
    pub(crate) status: Status,
}

/// The request that is sent, and its protocol.
#[derive(Clone, Debug)]
pub(crate) enum LoadRequest {
    /// `GET` over HTTP/1.1.
    Get,
    /// `POST` over HTTP/1.1 with the JSON in this file.
    Json(PathBuf),
    /// A gRPC call with the framed message in this file.
    Grpc(PathBuf),
}

/// A class of response status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Success,
    ClientError,
}

/// The result of one round, or the medians of all rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Round {
    pub(crate) requests_per_s: f64,
    /// CPU time of the server's process for each request, in user and system mode.
    pub(crate) cpu_us: f64,
}

/// The numbers that h2load counted in one round.
#[derive(Clone, Copy, Debug, PartialEq)]
struct LoadTotals {
    requests: u64,
    requests_per_s: f64,
}

impl H2load {
    /// Finds the program named by `TOLLGATE_H2LOAD`, or on the `PATH`, or installed by `cargo
    /// xtask`.
    pub(crate) fn find() -> Self {
        Self {
            program: find_program("TOLLGATE_H2LOAD", "h2load"),
        }
    }

    /// The program's name and version, as it prints them.
    pub(crate) fn version(&self) -> io::Result<String> {
        let output = Command::new(&self.program)
            .arg("--version")
            .output()
            .map_err(|e| self.missing(&e))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Sends requests for `length` to the server with the process id `server`.
    pub(crate) fn round(
        &self,
        target: &Target,
        server: u32,
        length: Duration,
    ) -> io::Result<Round> {
        let before = others::ticks_of(server);
        let output = self
            .command(target, length)
            .output()
            .map_err(|error| self.missing(&error))?;
        let counted = counted(&output, target.status)?;
        let ticks = others::ticks_of(server)
            .zip(before)
            .map(|(after, before)| after.saturating_sub(before));
        let cpu_us = ticks.map_or(f64::NAN, |ticks| {
            float(ticks) / TICKS_PER_S * 1e6 / float(counted.requests)
        });
        Ok(Round {
            requests_per_s: counted.requests_per_s,
            cpu_us,
        })
    }

    /// Sends requests for `length` and records the latency of each. Recording slows the generator
    /// down, so the throughput of this round is not used.
    pub(crate) fn latencies(&self, target: &Target, length: Duration) -> io::Result<Percentiles> {
        let directory = Directory::create()?;
        let log = directory.write("log", "")?;
        let mut command = self.command(target, length);
        command.arg("--log-file").arg(&log);
        counted(
            &command.output().map_err(|error| self.missing(&error))?,
            target.status,
        )?;
        Ok(Percentiles::from_samples(&[samples(&fs::read_to_string(
            &log,
        )?)]))
    }

    fn command(&self, target: &Target, length: Duration) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["-t", "1", "-D", &format!("{}ms", length.as_millis())]);
        match &target.sent {
            LoadRequest::Get => {
                command.args(["--h1", "-c", &HTTP_CONNECTIONS.to_string()]);
            }
            LoadRequest::Json(body) => {
                command
                    .arg("-d")
                    .arg(body)
                    .args(["--h1", "-c", &HTTP_CONNECTIONS.to_string()]);
                command.args(["-H", "content-type: application/json"]);
            }
            LoadRequest::Grpc(body) => {
                command.arg("-d").arg(body);
                command.args([
                    "-c",
                    &GRPC_CONNECTIONS.to_string(),
                    "-m",
                    &GRPC_STREAMS.to_string(),
                ]);
                command.args(["-H", "content-type: application/grpc", "-H", "te: trailers"]);
            }
        }
        command.arg(format!("http://{}{}", target.server, target.path));
        command
    }

    fn missing(&self, error: &io::Error) -> io::Error {
        io::Error::new(
            error.kind(),
            format!("cannot run {}: {error}", self.program.display()),
        )
    }
}

fn counted(output: &Output, status: Status) -> io::Result<LoadTotals> {
    let text = String::from_utf8_lossy(&output.stdout);
    let counted = if output.status.success() {
        parse(&text, status)
    } else {
        None
    };
    counted.ok_or_else(|| {
        let errors = String::from_utf8_lossy(&output.stderr);
        io::Error::other(format!(
            "h2load failed: {} {}",
            summary(&text),
            errors.trim()
        ))
    })
}

/// The request lines of h2load's output, for an error message.
fn summary(text: &str) -> String {
    let lines = text
        .lines()
        .filter(|line| line.starts_with("requests:") || line.starts_with("status codes:"));
    lines.collect::<Vec<_>>().join("; ")
}

/// Parses the numbers. Returns `None` if a request failed or a response has the wrong class of
/// status.
fn parse(text: &str, status: Status) -> Option<LoadTotals> {
    let line = |start: &str| text.lines().find_map(|line| line.strip_prefix(start));
    let rate = line("finished in ")?
        .split(", ")
        .find_map(|field| field.strip_suffix(" req/s"))?;
    let (requests, codes) = (line("requests: ")?, line("status codes: ")?);
    let done = number(requests, "done")?;
    let (right, wrong) = match status {
        Status::Success => ("2xx", ["3xx", "4xx", "5xx"]),
        Status::ClientError => ("4xx", ["2xx", "3xx", "5xx"]),
    };
    // At the end of a round, a status may have arrived before the rest of its response.
    let is_sound = done > 0
        && number(codes, right)? >= done
        && wrong
            .into_iter()
            .all(|class| number(codes, class) == Some(0))
        && number(requests, "errored")? == 0
        && number(requests, "timeout")? == 0;
    is_sound.then_some(LoadTotals {
        requests: done,
        requests_per_s: rate.parse().ok()?,
    })
}

/// The number before a word, in a comma-separated list.
fn number(list: &str, word: &str) -> Option<u64> {
    let field = list
        .split(", ")
        .find_map(|field| field.strip_suffix(word))?;
    field.trim().parse().ok()
}

/// Parses the log's third column: each line has the start time, the status and the duration in
/// microseconds.
fn samples(log: &str) -> Samples {
    Samples::from_us(
        log.lines()
            .filter_map(|line| line.split('\t').nth(2)?.trim().parse().ok()),
    )
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a round has fewer than 2^53 requests"
)]
fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
starting benchmark...
finished in 2.01s, 26620.50 req/s, 12.74MB/s
requests: 53241 total, 53273 started, 53241 done, 53241 succeeded, 0 failed, 0 errored, 0 timeout
status codes: 53241 2xx, 0 3xx, 0 4xx, 0 5xx
traffic: 25.49MB (26726982) total, 13.56MB (14223891) headers (space savings 0.00%), 9.14MB (9589140) data
";

    #[test]
    fn output_with_errors_is_rejected() {
        let good = parse(GOOD, Status::Success).unwrap();
        assert_eq!(
            good,
            LoadTotals {
                requests: 53_241,
                requests_per_s: 26_620.5
            }
        );
        assert_eq!(parse(GOOD, Status::ClientError), None);
        assert_eq!(
            parse(
                &GOOD.replace("53241 2xx, 0 3xx", "53241 2xx, 1 3xx"),
                Status::Success
            ),
            None
        );
        assert_eq!(
            parse(&GOOD.replace("53241 2xx", "53240 2xx"), Status::Success),
            None
        );
        assert_eq!(
            parse(&GOOD.replace("0 errored", "3 errored"), Status::Success),
            None
        );
        assert_eq!(
            parse(&GOOD.replace("53241 done", "0 done"), Status::Success),
            None
        );
        assert_eq!(parse("", Status::Success), None);
    }

    #[test]
    fn denials_can_be_the_expected_status() {
        let refused = GOOD.replace("53241 2xx, 0 3xx, 0 4xx", "0 2xx, 0 3xx, 53241 4xx");
        assert!(parse(&refused, Status::ClientError).is_some());
    }

    #[test]
    fn latencies_are_read_from_the_log() {
        let log =
            "1794795042571880\t200\t500\n1794795042571750\t200\t700\n1794795042571736\t200\t800\n";
        assert_eq!(
            Percentiles::from_samples(&[samples(log)]),
            Percentiles {
                p50_us: 700.0,
                p99_us: 800.0
            }
        );
    }

    #[test]
    fn every_subject_gets_the_same_load() {
        let line = |sent| {
            let server = SocketAddr::from(([127, 0, 0, 1], 80));
            let target = Target {
                server,
                path: "/",
                sent,
                status: Status::Success,
            };
            let h2load = H2load {
                program: PathBuf::from("h2load"),
            };
            format!(
                "{:?}",
                h2load.command(&target, Duration::from_millis(1_500))
            )
        };
        let get = line(LoadRequest::Get);
        assert!(
            get.contains(r#""-t" "1" "-D" "1500ms" "--h1" "-c" "32" "http"#),
            "{get}"
        );
        let json = line(LoadRequest::Json(PathBuf::from("b")));
        assert!(
            json.contains(r#""-t" "1" "-D" "1500ms" "-d" "b" "--h1" "-c" "32""#),
            "{json}"
        );
        let grpc = line(LoadRequest::Grpc(PathBuf::from("b")));
        assert!(
            grpc.contains(r#""-c" "4" "-m" "32""#) && !grpc.contains("--h1"),
            "{grpc}"
        );
    }
}
