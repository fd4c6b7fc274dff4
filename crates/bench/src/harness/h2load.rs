//! The load generator h2load. All subjects are measured by the same program with the same settings.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;
use testkit::processes::{Directory, find_program};
use testkit::reverse_proxy;
use testkit::servers::Server;
use tollgate_load::latency_histogram;

use super::others::cpu_meter;
use super::process::{Process, program_version, run_program};
use super::rounds::{Bench, Entrant};
use super::row::{Figures, Row};
use super::server::ANNOUNCED;
use super::text::Table;
use super::timing::{percentiles, record};

/// Requests per second.
pub(crate) const REQUESTS: &str = "requests_per_s";
/// CPU time of the server's process for each request, in user and system mode.
pub(crate) const CPU: &str = "cpu_us";

/// Over HTTP/1.1: the usual number of connections, each with one request in flight.
const CONNECTIONS: u32 = 32;
/// Over gRPC: the number of connections, of which a proxy opens one for each of its threads, and of
/// requests in flight on each.
const GRPC: [&str; 4] = ["-c", "4", "-m", "32"];

/// The h2load program, with a directory for the body that it sends and for its log.
#[derive(Debug)]
pub(crate) struct H2load {
    program: PathBuf,
    directory: Directory,
}

/// The request that is sent, and its protocol.
#[derive(Clone, Debug)]
pub(crate) enum LoadRequest {
    /// `GET` over HTTP/1.1, with this number of connections.
    Get { connections: u32 },
    /// `POST` over HTTP/1.1 with this JSON.
    Json(String),
    /// A gRPC call with this framed message.
    Grpc(Vec<u8>),
}

/// A server that is ready to be measured.
pub(crate) struct ServerUnderLoad {
    /// The name of the subject.
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) path: &'static str,
    pub(crate) request: LoadRequest,
    /// The status of every response; only its first digit counts.
    pub(crate) status: u16,
    /// The decisions of a request. The figures are those of a decision.
    pub(crate) decisions: u16,
    // Dropped before the store server that it uses.
    pub(crate) process: Process,
    /// Another process that works for its requests.
    pub(crate) beside: Option<Process>,
    pub(crate) redis: Option<Server>,
}

impl ServerUnderLoad {
    /// A server that works alone, and makes one decision for each request to `/`.
    pub(crate) fn new(
        name: &str,
        process: Process,
        address: SocketAddr,
        request: LoadRequest,
    ) -> Self {
        Self {
            name: name.to_owned(),
            address,
            path: "/",
            request,
            status: 200,
            decisions: 1,
            process,
            beside: None,
            redis: None,
        }
    }

    /// Starts an application that announces its address, and waits until `GET /` has this status.
    pub(crate) fn start(
        name: &str,
        command: Command,
        connections: u32,
        status: u16,
    ) -> Result<Self> {
        let mut process = Process::spawn(command)?;
        let address = process.announced(ANNOUNCED)?;
        process.wait_for(|_| reverse_proxy::get(address, "/", &[]).status == status)?;
        let request = LoadRequest::Get { connections };
        Ok(Self {
            status,
            ..Self::new(name, process, address, request)
        })
    }

    /// The processes that work for its requests.
    fn pids(&self) -> impl Iterator<Item = u32> {
        let processes = [&self.process].into_iter().chain(&self.beside);
        let redis = self.redis.as_ref().map(Server::pid);
        processes.map(Process::pid).chain(redis)
    }
}

impl H2load {
    /// Finds the program named by `TOLLGATE_H2LOAD`, or on the `PATH`, or installed by `cargo
    /// xtask`.
    pub(crate) fn find() -> Self {
        Self {
            program: find_program("TOLLGATE_H2LOAD", "h2load"),
            directory: Directory::create(),
        }
    }

    /// The program's name and version.
    pub(crate) fn version(&self) -> Result<String> {
        program_version(&self.program)
    }

    /// Measures servers in turn, and returns their rows.
    pub(crate) fn measure<'b>(
        &self,
        bench: &'b mut Bench,
        case: &str,
        load: &str,
        servers: &[ServerUnderLoad],
    ) -> Result<&'b mut [Row]> {
        let pids: Vec<u32> = servers.iter().flat_map(ServerUnderLoad::pids).collect();
        let entrants = servers
            .iter()
            .map(|server| Entrant::new(&server.name, load, |length| self.round(server, length)));
        bench.measure(case, &pids, entrants.collect())
    }

    /// Sends requests for `length`.
    pub(crate) fn round(&self, server: &ServerUnderLoad, length: Duration) -> Result<Figures> {
        let (cpu_us, decisions) = (cpu_meter(server.process.pid()), server.decisions);
        let (requests, rate) = send(self.command(server, length), server)?;
        Ok(Figures::from([
            (REQUESTS, rate * f64::from(decisions)),
            (CPU, cpu_us(requests * u64::from(decisions))),
        ]))
    }

    /// Sends requests for `length` and records the latency of each. Recording slows the generator
    /// down, so the throughput of this round is not used.
    pub(crate) fn latencies(&self, server: &ServerUnderLoad, length: Duration) -> Result<Figures> {
        let log = self.directory.write("log", "");
        let mut command = self.command(server, length);
        command.arg("--log-file").arg(&log);
        send(command, server)?;
        Ok(percentiles(&latencies(&fs::read_to_string(&log)?)))
    }

    fn command(&self, server: &ServerUnderLoad, length: Duration) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["-t", "1", "-D", &format!("{}ms", length.as_millis())]);
        let body = |body: &[u8]| self.directory.write("body", body);
        match &server.request {
            LoadRequest::Get { connections } => http(&mut command, *connections),
            LoadRequest::Json(json) => http(&mut command, CONNECTIONS)
                .args(["-H", "content-type: application/json", "-d"])
                .arg(body(json.as_bytes())),
            LoadRequest::Grpc(message) => command
                .args(GRPC)
                .args(["-H", "content-type: application/grpc", "-H", "te: trailers"])
                .arg("-d")
                .arg(body(message)),
        };
        command.arg(format!("http://{}{}", server.address, server.path));
        command
    }
}

/// The number of requests and their rate.
fn send(mut command: Command, server: &ServerUnderLoad) -> Result<(u64, f64)> {
    run_program(&mut command, |text| parse(text, server.status))
}

/// Adds the arguments for HTTP/1.1.
fn http(command: &mut Command, connections: u32) -> &mut Command {
    command.args(["--h1", "-c", &connections.to_string()])
}

/// The rate and the CPU time of each row, and further columns.
pub(crate) fn load_table<'r>(
    title: &str,
    rows: impl Iterator<Item = &'r Row>,
    further: &[(&str, &str)],
) -> Table {
    let columns = [
        ("subject", "{subject}"),
        ("requests/s", "{requests_per_s:,}"),
        ("slowest..fastest", "{requests_per_s:..,}"),
        ("cpu us/request", "{cpu_us:1}"),
    ];
    Table::from_rows(title, rows, &[&columns, further].concat())
}

/// Parses the number of requests and the rate. Returns `None` if a request failed or a response has
/// the wrong class of status.
fn parse(text: &str, status: u16) -> Option<(u64, f64)> {
    let class = format!("{}xx", status / 100);
    let line = |start: &str| text.lines().find_map(|line| line.strip_prefix(start));
    let rate = line("finished in ")?
        .split(", ")
        .find_map(|field| field.strip_suffix(" req/s"))?;
    let (requests, codes) = (line("requests: ")?, line("status codes: ")?);
    let done = number(requests, "done")?;
    // At the end of a round, a status may have arrived before the rest of its response.
    let is_sound = done > 0
        && number(codes, &class)? >= done
        && ["2xx", "3xx", "4xx", "5xx"]
            .iter()
            .all(|other| *other == class || number(codes, other) == Some(0))
        && number(requests, "errored")? == 0
        && number(requests, "timeout")? == 0;
    is_sound.then_some((done, rate.parse().ok()?))
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
fn latencies(log: &str) -> Histogram<u64> {
    let mut latencies = latency_histogram(3);
    log.lines()
        .filter_map(|line| line.split('\t').nth(2)?.trim().parse().ok())
        .for_each(|us| record(&mut latencies, Duration::from_micros(us)));
    latencies
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
        let good = parse(GOOD, 200).unwrap();
        assert_eq!(good, (53_241, 26_620.5));
        assert_eq!(parse(GOOD, 429), None);
        assert_eq!(
            parse(&GOOD.replace("53241 2xx, 0 3xx", "53241 2xx, 1 3xx"), 200),
            None
        );
        assert_eq!(parse(&GOOD.replace("53241 2xx", "53240 2xx"), 200), None);
        assert_eq!(parse(&GOOD.replace("0 errored", "3 errored"), 200), None);
        assert_eq!(parse(&GOOD.replace("53241 done", "0 done"), 200), None);
        assert_eq!(parse("", 200), None);
    }

    #[test]
    fn denials_can_be_the_expected_status() {
        let refused = GOOD.replace("53241 2xx, 0 3xx, 0 4xx", "0 2xx, 0 3xx, 53241 4xx");
        assert!(parse(&refused, 429).is_some());
    }

    #[test]
    fn latencies_are_read_from_the_log() {
        let log =
            "1794795042571880\t200\t500\n1794795042571750\t200\t700\n1794795042571736\t200\t800\n";
        let found = percentiles(&latencies(log));
        assert!((found["p50_us"] - 700.0).abs() < 1.0, "{found:?}");
        assert!((found["p99_us"] - 800.0).abs() < 1.0, "{found:?}");
    }

    #[test]
    fn every_subject_gets_the_same_load() {
        let line = |request| {
            let mut command = Command::new("sh");
            command.args(["-c", ":"]);
            let process = Process::spawn(command).unwrap();
            let address = SocketAddr::from(([127, 0, 0, 1], 80));
            let server = ServerUnderLoad::new("x", process, address, request);
            let h2load = H2load {
                program: PathBuf::from("h2load"),
                directory: Directory::create(),
            };
            let command = h2load.command(&server, Duration::from_millis(1_500));
            format!("{command:?}")
        };
        let get = line(LoadRequest::Get { connections: 32 });
        assert!(
            get.contains(r#""-t" "1" "-D" "1500ms" "--h1" "-c" "32" "http"#),
            "{get}"
        );
        let json = line(LoadRequest::Json("{}".to_owned()));
        assert!(
            json.contains(r#""-t" "1" "-D" "1500ms" "--h1" "-c" "32""#),
            "{json}"
        );
        let grpc = line(LoadRequest::Grpc(Vec::new()));
        assert!(
            grpc.contains(r#""-c" "4" "-m" "32""#) && !grpc.contains("--h1"),
            "{grpc}"
        );
    }
}
