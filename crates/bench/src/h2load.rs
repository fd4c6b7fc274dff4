//! The load generator, which is the same program with the same settings for everybody.

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

/// Connections over HTTP/1.1, each with one request on its way.
const HTTP_CONNECTIONS: usize = 32;
/// Connections over gRPC: a proxy has one for each of its threads.
const GRPC_CONNECTIONS: usize = 4;
/// Requests on their way on each of those.
const GRPC_STREAMS: usize = 32;
/// Ticks of the system's accounts in a second, on every Linux there is.
const TICKS_PER_S: f64 = 100.0;

/// The program.
#[derive(Clone, Debug)]
pub(crate) struct H2load {
    program: PathBuf,
}

/// What it sends, and where.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) server: SocketAddr,
    pub(crate) path: &'static str,
    pub(crate) sent: Sent,
    /// Whether refusals have a status of their own; nothing else may come then.
    pub(crate) status: Status,
}

/// What is asked, and over what.
#[derive(Clone, Debug)]
pub(crate) enum Sent {
    /// `GET` over HTTP/1.1.
    Get,
    /// `POST` over HTTP/1.1, of the JSON in this file.
    Json(PathBuf),
    /// A call of gRPC, with the framed message in this file.
    Grpc(PathBuf),
}

/// The class of status that every answer must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Success,
    ClientError,
}

/// What a round says, or the medians of all of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Round {
    pub(crate) requests_per_s: f64,
    /// What the server's process took of a core for each request, in the system too.
    pub(crate) cpu_us: f64,
}

/// What it counted.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Counted {
    requests: u64,
    requests_per_s: f64,
}

impl H2load {
    /// What `TOLLGATE_H2LOAD` names, or what is on the path or installed by `cargo xtask`.
    pub(crate) fn find() -> Self {
        Self {
            program: find_program("TOLLGATE_H2LOAD", "h2load"),
        }
    }

    /// What the program calls itself.
    pub(crate) fn version(&self) -> io::Result<String> {
        let output = Command::new(&self.program)
            .arg("--version")
            .output()
            .map_err(|e| self.missing(&e))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Sends requests for so long to the server that this process is.
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

    /// Sends requests for so long and writes down how long each took. That makes the generator
    /// itself slower, so what it counts meanwhile is not used.
    pub(crate) fn latencies(&self, target: &Target, length: Duration) -> io::Result<Percentiles> {
        let directory = Directory::create()?;
        let log = directory.write("log", "")?;
        let mut command = self.command(target, length);
        command.arg("--log-file").arg(&log);
        counted(
            &command.output().map_err(|error| self.missing(&error))?,
            target.status,
        )?;
        Ok(Percentiles::of(&[samples(&fs::read_to_string(&log)?)]))
    }

    fn command(&self, target: &Target, length: Duration) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["-t", "1", "-D", &format!("{}ms", length.as_millis())]);
        match &target.sent {
            Sent::Get => {
                command.args(["--h1", "-c", &HTTP_CONNECTIONS.to_string()]);
            }
            Sent::Json(body) => {
                command
                    .arg("-d")
                    .arg(body)
                    .args(["--h1", "-c", &HTTP_CONNECTIONS.to_string()]);
                command.args(["-H", "content-type: application/json"]);
            }
            Sent::Grpc(body) => {
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
            format!("{} cannot be run: {error}", self.program.display()),
        )
    }
}

fn counted(output: &Output, status: Status) -> io::Result<Counted> {
    let text = String::from_utf8_lossy(&output.stdout);
    let counted = if output.status.success() {
        parse(&text, status)
    } else {
        None
    };
    counted.ok_or_else(|| {
        let errors = String::from_utf8_lossy(&output.stderr);
        io::Error::other(format!(
            "the load went wrong: {} {}",
            summary(&text),
            errors.trim()
        ))
    })
}

/// What it says about the requests, for an error.
fn summary(text: &str) -> String {
    let lines = text
        .lines()
        .filter(|line| line.starts_with("requests:") || line.starts_with("status codes:"));
    lines.collect::<Vec<_>>().join("; ")
}

/// The numbers, if nothing went wrong and every answer has the right class of status.
fn parse(text: &str, status: Status) -> Option<Counted> {
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
    // A status may have come when the rest of its answer had not yet, at the end of the round.
    let is_sound = done > 0
        && number(codes, right)? >= done
        && wrong
            .into_iter()
            .all(|class| number(codes, class) == Some(0))
        && number(requests, "errored")? == 0
        && number(requests, "timeout")? == 0;
    is_sound.then_some(Counted {
        requests: done,
        requests_per_s: rate.parse().ok()?,
    })
}

/// The number that stands before a word, in a list with commas.
fn number(list: &str, word: &str) -> Option<u64> {
    let field = list
        .split(", ")
        .find_map(|field| field.strip_suffix(word))?;
    field.trim().parse().ok()
}

/// The last of three columns: when it began, its status, how many microseconds it took.
fn samples(log: &str) -> Samples {
    Samples::of_us(
        log.lines()
            .filter_map(|line| line.split('\t').nth(2)?.trim().parse().ok()),
    )
}

#[expect(
    clippy::cast_precision_loss,
    reason = "nobody counts to 2^53 in a round"
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
    fn only_sound_numbers_are_numbers() {
        let good = parse(GOOD, Status::Success).unwrap();
        assert_eq!(
            good,
            Counted {
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
    fn refusals_may_be_what_is_expected() {
        let refused = GOOD.replace("53241 2xx, 0 3xx, 0 4xx", "0 2xx, 0 3xx, 53241 4xx");
        assert!(parse(&refused, Status::ClientError).is_some());
    }

    #[test]
    fn latencies_are_read_from_the_log() {
        let log =
            "1794795042571880\t200\t500\n1794795042571750\t200\t700\n1794795042571736\t200\t800\n";
        assert_eq!(
            Percentiles::of(&[samples(log)]),
            Percentiles {
                p50_us: 700.0,
                p99_us: 800.0
            }
        );
    }

    #[test]
    fn everybody_is_asked_in_the_same_way() {
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
        let get = line(Sent::Get);
        assert!(
            get.contains(r#""-t" "1" "-D" "1500ms" "--h1" "-c" "32" "http"#),
            "{get}"
        );
        let json = line(Sent::Json(PathBuf::from("b")));
        assert!(
            json.contains(r#""-t" "1" "-D" "1500ms" "-d" "b" "--h1" "-c" "32""#),
            "{json}"
        );
        let grpc = line(Sent::Grpc(PathBuf::from("b")));
        assert!(
            grpc.contains(r#""-c" "4" "-m" "32""#) && !grpc.contains("--h1"),
            "{grpc}"
        );
    }
}
