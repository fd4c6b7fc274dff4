//! The load generator, which is the same program with the same settings for everybody.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use testkit::proxies::find_program;

use super::question::Protocol;
use crate::percentiles::{Percentiles, Samples};

/// Connections over HTTP/1.1, each with one request on its way.
const HTTP_CONNECTIONS: usize = 32;
/// Connections over gRPC: a proxy has one for each of its threads.
const GRPC_CONNECTIONS: usize = 4;
/// Requests on their way on each of those.
const GRPC_STREAMS: usize = 32;

/// The program.
#[derive(Clone, Debug)]
pub(super) struct H2load {
    program: PathBuf,
}

/// What it sends, and where.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) server: SocketAddr,
    pub(super) protocol: Protocol,
    pub(super) path: &'static str,
    pub(super) body: PathBuf,
    /// Whether refusals have a status of their own; nothing else may come then.
    pub(super) status: Status,
}

/// The class of status that every answer must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Success,
    ClientError,
}

/// What it counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Counted {
    pub(super) requests: u64,
    pub(super) requests_per_s: f64,
}

impl H2load {
    /// What `TOLLGATE_H2LOAD` names, or what is on the path or installed by `cargo xtask`.
    pub(super) fn find() -> Self {
        Self { program: find_program("TOLLGATE_H2LOAD", "h2load") }
    }

    /// What the program calls itself.
    pub(super) fn version(&self) -> io::Result<String> {
        let output = Command::new(&self.program).arg("--version").output().map_err(|e| self.missing(&e))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Sends requests for so long.
    pub(super) fn run(&self, target: &Target, length: Duration) -> io::Result<Counted> {
        let output = self.command(target, length).output().map_err(|error| self.missing(&error))?;
        counted(&output, target.status)
    }

    /// Sends requests for so long and writes down how long each took. That makes the generator itself slower, so what
    /// it counts meanwhile is not used.
    pub(super) fn latencies(&self, target: &Target, length: Duration) -> io::Result<Percentiles> {
        let log = target.body.with_extension("log");
        // It adds to what is there.
        let _absent = fs::remove_file(&log);
        let mut command = self.command(target, length);
        command.arg("--log-file").arg(&log);
        counted(&command.output().map_err(|error| self.missing(&error))?, target.status)?;
        Ok(Percentiles::of(&[samples(&fs::read_to_string(&log)?)]))
    }

    fn command(&self, target: &Target, length: Duration) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["-t", "1", "-D", &format!("{}ms", length.as_millis())]).arg("-d").arg(&target.body);
        match target.protocol {
            Protocol::Http => {
                command.args(["--h1", "-c", &HTTP_CONNECTIONS.to_string()]);
                command.args(["-H", "content-type: application/json"]);
            }
            Protocol::Grpc => {
                command.args(["-c", &GRPC_CONNECTIONS.to_string(), "-m", &GRPC_STREAMS.to_string()]);
                command.args(["-H", "content-type: application/grpc", "-H", "te: trailers"]);
            }
        }
        command.arg(format!("http://{}{}", target.server, target.path));
        command
    }

    fn missing(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{} cannot be run: {error}", self.program.display()))
    }
}

fn counted(output: &Output, status: Status) -> io::Result<Counted> {
    let text = String::from_utf8_lossy(&output.stdout);
    let counted = if output.status.success() { parse(&text, status) } else { None };
    counted.ok_or_else(|| {
        let errors = String::from_utf8_lossy(&output.stderr);
        io::Error::other(format!("the load went wrong: {} {}", summary(&text), errors.trim()))
    })
}

/// What it says about the requests, for an error.
fn summary(text: &str) -> String {
    let lines =
        text.lines().filter(|line| line.starts_with("requests:") || line.starts_with("status codes:"));
    lines.collect::<Vec<_>>().join("; ")
}

/// The numbers, if nothing went wrong and every answer has the right class of status.
fn parse(text: &str, status: Status) -> Option<Counted> {
    let line = |start: &str| text.lines().find_map(|line| line.strip_prefix(start));
    let rate = line("finished in ")?.split(", ").find_map(|field| field.strip_suffix(" req/s"))?;
    let (requests, codes) = (line("requests: ")?, line("status codes: ")?);
    let done = number(requests, "done")?;
    let (right, wrong) = match status {
        Status::Success => ("2xx", ["3xx", "4xx", "5xx"]),
        Status::ClientError => ("4xx", ["2xx", "3xx", "5xx"]),
    };
    // A status may have come when the rest of its answer had not yet, at the end of the round.
    let is_sound = done > 0
        && number(codes, right)? >= done
        && wrong.into_iter().all(|class| number(codes, class) == Some(0))
        && number(requests, "errored")? == 0
        && number(requests, "timeout")? == 0;
    is_sound.then_some(Counted { requests: done, requests_per_s: rate.parse().ok()? })
}

/// The number that stands before a word, in a list with commas.
fn number(list: &str, word: &str) -> Option<u64> {
    let field = list.split(", ").find_map(|field| field.strip_suffix(word))?;
    field.trim().parse().ok()
}

/// The last of three columns: when it began, its status, how many microseconds it took.
fn samples(log: &str) -> Samples {
    Samples::of_us(log.lines().filter_map(|line| line.split('\t').nth(2)?.trim().parse().ok()))
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
        assert_eq!(good, Counted { requests: 53_241, requests_per_s: 26_620.5 });
        assert_eq!(parse(GOOD, Status::ClientError), None);
        assert_eq!(parse(&GOOD.replace("53241 2xx, 0 3xx", "53241 2xx, 1 3xx"), Status::Success), None);
        assert_eq!(parse(&GOOD.replace("53241 2xx", "53240 2xx"), Status::Success), None);
        assert_eq!(parse(&GOOD.replace("0 errored", "3 errored"), Status::Success), None);
        assert_eq!(parse(&GOOD.replace("53241 done", "0 done"), Status::Success), None);
        assert_eq!(parse("", Status::Success), None);
    }

    #[test]
    fn refusals_may_be_what_is_expected() {
        let refused = GOOD.replace("53241 2xx, 0 3xx, 0 4xx", "0 2xx, 0 3xx, 53241 4xx");
        assert!(parse(&refused, Status::ClientError).is_some());
    }

    #[test]
    fn latencies_are_read_from_the_log() {
        let log = "1794795042571880\t200\t500\n1794795042571750\t200\t700\n1794795042571736\t200\t800\n";
        assert_eq!(Percentiles::of(&[samples(log)]), Percentiles { p50_us: 700.0, p99_us: 800.0 });
    }

    #[test]
    fn everybody_is_asked_in_the_same_way() {
        let target = |protocol: Protocol| Target {
            server: SocketAddr::from(([127, 0, 0, 1], 80)),
            protocol,
            path: protocol.path(),
            body: PathBuf::from("b"),
            status: Status::Success,
        };
        let h2load = H2load { program: PathBuf::from("h2load") };
        let line =
            |protocol| format!("{:?}", h2load.command(&target(protocol), Duration::from_millis(1_500)));
        let http = line(Protocol::Http);
        assert!(http.contains(r#""-t" "1" "-D" "1500ms" "-d" "b" "--h1" "-c" "32""#), "{http}");
        let grpc = line(Protocol::Grpc);
        assert!(grpc.contains(r#""-c" "4" "-m" "32""#) && !grpc.contains("--h1"), "{grpc}");
    }
}
