//! Starts all subjects that are measured together.

use std::env;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use testkit::servers::{Flavor, Server};
use tollgate_envoy::{RateLimitRequest, RateLimitResponse};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;
use tonic_prost::ProstCodec;

use super::bare::RecordedResponse;
use super::request::{Case, Exchange, Protocol};
use super::viewer::Viewer;
use super::{
    Arguments, BARE, BARE_WITH_HEADERS, DASHBOARD, LEASED, MANY_LIMITS, MEMORY, REDIS, THROTTLECRAB,
};
use crate::harness::callers::Runtime;
use crate::harness::h2load::{CLIENT_ERROR, LoadRequest, SUCCESS, ServerUnderLoad, Target};
use crate::harness::process::{Directory, Process, serve_command};
use crate::harness::server::{self, post_json};

/// An environment variable with the path of throttlecrab-server, if it is not on the `PATH`.
const THROTTLECRAB_VARIABLE: &str = "TOLLGATE_THROTTLECRAB_SERVER";
const THROTTLECRAB_PATH: &str = "/throttle";

/// The subjects that were started, and notes about those that were not.
#[derive(Default)]
pub(super) struct Servers {
    pub(super) present: Vec<Subject>,
    pub(super) absent: Vec<String>,
}

/// A running subject.
pub(super) struct Subject {
    pub(super) name: String,
    /// The client that has the dashboard open.
    viewer: Option<Viewer>,
    pub(super) server: ServerUnderLoad,
}

impl Subject {
    fn new(name: &str, target: Target, process: Process) -> Self {
        Self {
            name: name.to_owned(),
            viewer: None,
            server: ServerUnderLoad {
                target,
                process,
                redis: None,
            },
        }
    }

    /// Returns an error if the subject should have its dashboard open and does not.
    pub(super) fn check_viewer(&self) -> Result<()> {
        let is_there = self.viewer.as_ref().is_none_or(Viewer::is_there);
        ensure!(is_there, "the dashboard's event stream was closed");
        Ok(())
    }
}

impl Servers {
    /// Starts all subjects for one exchange.
    pub(super) fn start(
        arguments: &Arguments,
        tollgate: &Path,
        exchange: Exchange,
    ) -> Result<Self> {
        let mut servers = Self::default();
        let response = servers.tollgate(MEMORY, tollgate, exchange)?;
        for program in &arguments.beside {
            // With its path, because the file usually has the same name.
            let name = format!("{}, memory", program.display());
            servers.tollgate(&name, program, exchange)?;
        }
        if arguments.dashboard {
            servers.tollgate(DASHBOARD, tollgate, exchange)?;
            return Ok(servers);
        }
        if (exchange.protocol, exchange.case) == (Protocol::Http, Case::Allowed) {
            servers.tollgate(MANY_LIMITS, tollgate, exchange)?;
        }
        servers.tollgate(REDIS, tollgate, exchange)?;
        servers.tollgate(LEASED, tollgate, exchange)?;

        // Without a recorded response the bare server still returns the shortest one.
        let shortest = match &response {
            Some(response) => response.without_details()?,
            None => RecordedResponse::shortest_grpc(exchange.case.code()),
        };
        let bare = start_bare(BARE, &shortest, exchange)?;
        servers.present.push(bare);
        if let Some(response) = &response {
            let bare = start_bare(BARE_WITH_HEADERS, response, exchange)?;
            servers.present.push(bare);
        }
        let body = exchange.case.throttlecrab_json();
        if let (Protocol::Http, Some(body)) = (exchange.protocol, body) {
            match throttlecrab_program() {
                Some(program) => {
                    let throttlecrab = start_throttlecrab(&program, &body, exchange.case)?;
                    servers.present.push(throttlecrab);
                }
                None => servers.absent.push(format!(
                    "throttlecrab-server not found; to measure it, put it on the PATH \
                     or set {THROTTLECRAB_VARIABLE} to its path"
                )),
            }
        }
        Ok(servers)
    }

    /// Starts Tollgate and returns its response. A build that does not support gRPC is skipped.
    fn tollgate(
        &mut self,
        name: &str,
        program: &Path,
        exchange: Exchange,
    ) -> Result<Option<RecordedResponse>> {
        let subject = start_tollgate(name, program, exchange)?;
        match ask(subject.server.target.server, exchange) {
            Ok(response) => {
                self.present.push(subject);
                Ok(Some(response))
            }
            Err(error) if exchange.protocol == Protocol::Grpc => {
                let over = exchange.protocol.name();
                self.absent.push(format!(
                    "{name} was skipped, because it failed over {over}: {error:#}"
                ));
                Ok(None)
            }
            Err(error) => Err(error.context(name.to_owned())),
        }
    }
}

fn start_tollgate(name: &str, program: &Path, exchange: Exchange) -> Result<Subject> {
    let consistency = match name {
        REDIS => Some("strict"),
        LEASED => Some("leased"),
        _ => None,
    };
    let redis = consistency.map(|_| Server::start(Flavor::Redis));
    let url = redis.as_ref().map(Server::url);
    let config = match name {
        MANY_LIMITS => exchange.case.config_with_many_limits(),
        _ => exchange.case.config(url.as_deref().zip(consistency)),
    };
    let directory = Directory::create()?;
    let command = serve_command(program, &directory, &config)?;
    let sent = sent(&directory, exchange)?;
    let mut process = Process::spawn(command, directory)?;

    let (http, grpc) = (process.announced("http ")?, process.announced("grpc ")?);
    // Until the store is available, decisions come from the failure policy.
    let request = exchange.case.json(None);
    process.wait_for(|_| {
        let response = post_json(http, "/v1/peek", &request);
        (response.status == 200).then_some(())
    })?;
    let admin = process.announced("admin ")?;
    let server = match exchange.protocol {
        Protocol::Http => http,
        Protocol::Grpc => grpc,
    };
    let mut subject = Subject::new(name, target(server, exchange, sent), process);
    subject.server.redis = redis;
    if name == DASHBOARD {
        subject.viewer = Some(Viewer::open(admin)?);
    }
    Ok(subject)
}

/// Starts a bare server: this program in a separate process.
fn start_bare(name: &str, response: &RecordedResponse, exchange: Exchange) -> Result<Subject> {
    let directory = Directory::create()?;
    let mut command = Command::new(env::current_exe()?);
    command
        .arg("bare")
        .arg("--response")
        .arg(directory.write("response.json", response.to_json())?);
    let sent = sent(&directory, exchange)?;
    let mut process = Process::spawn(command, directory)?;
    let server = process.announced(server::ANNOUNCED)?;
    ask(server, exchange)?;
    let target = target(server, exchange, sent);
    Ok(Subject::new(name, target, process))
}

fn start_throttlecrab(program: &Path, body: &str, case: Case) -> Result<Subject> {
    let directory = Directory::create()?;
    // It cannot choose a free port itself.
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let mut command = Command::new(program);
    command.args(["--http", "--http-host", "127.0.0.1"]);
    command.args(["--http-port", &server.port().to_string()]);
    command.args(["--log-level", "error"]);
    let sent = LoadRequest::Json(directory.write("body", body)?);
    let mut process = Process::spawn(command, directory)?;
    process.wait_for(|_| TcpStream::connect(server).ok())?;

    let ask = || post_json(server, THROTTLECRAB_PATH, body);
    // A limit that is to be used up is used up after two requests.
    ask();
    ask();
    let response = ask();
    let expected = format!(r#""allowed":{}"#, case.is_allowed());
    ensure!(
        response.text().contains(&expected),
        "unexpected response of throttlecrab-server: {}: {}",
        response.status,
        response.text()
    );
    let target = Target {
        server,
        path: THROTTLECRAB_PATH,
        sent,
        // It denies with status 200.
        status: SUCCESS,
    };
    Ok(Subject::new(THROTTLECRAB, target, process))
}

fn target(server: SocketAddr, exchange: Exchange, sent: LoadRequest) -> Target {
    let status = match exchange.protocol {
        Protocol::Http if !exchange.case.is_allowed() => CLIENT_ERROR,
        _ => SUCCESS,
    };
    Target {
        server,
        path: exchange.protocol.path(),
        sent,
        status,
    }
}

/// The request that the load generator sends, with its body in this directory.
fn sent(directory: &Directory, exchange: Exchange) -> Result<LoadRequest> {
    let body = directory.write("body", exchange.body())?;
    Ok(match exchange.protocol {
        Protocol::Http => LoadRequest::Json(body),
        Protocol::Grpc => LoadRequest::Grpc(body),
    })
}

/// The path from the environment variable, or from the `PATH`.
fn throttlecrab_program() -> Option<PathBuf> {
    let given = env::var_os(THROTTLECRAB_VARIABLE)
        .filter(|path| !path.is_empty())
        .map(PathBuf::from);
    let path = env::var_os("PATH").unwrap_or_default();
    let mut found = env::split_paths(&path).map(|directory| directory.join(THROTTLECRAB));
    given.or_else(|| found.find(|file| file.is_file()))
}

const PATIENCE: Duration = Duration::from_secs(5);

/// Makes one real call, because the load generator sees neither bodies nor trailers: spends what
/// the case requires beforehand, then sends the same request as the load generator and returns the
/// response, which must be the one that the case expects.
pub(super) fn ask(server: SocketAddr, exchange: Exchange) -> Result<RecordedResponse> {
    let call = |cost| match exchange.protocol {
        Protocol::Http => http(server, &exchange.case.json(cost)),
        Protocol::Grpc => grpc(server, exchange.case.message(cost)),
    };
    call(Some(exchange.case.spent_before()))?;
    let (is_allowed, response) = call(None)?;
    let is_expected = is_allowed == exchange.case.is_allowed();
    ensure!(is_expected, "unexpected response: {response:?}");
    Ok(response)
}

fn http(server: SocketAddr, body: &str) -> Result<(bool, RecordedResponse)> {
    let response = post_json(server, Protocol::Http.path(), body);
    match response.status {
        200 | 429 => Ok((
            response.status == 200,
            RecordedResponse::from_http(&response),
        )),
        status => Err(anyhow!("unexpected status {status}: {}", response.text())),
    }
}

fn grpc(server: SocketAddr, message: RateLimitRequest) -> Result<(bool, RecordedResponse)> {
    let response = Runtime::CurrentThread
        .build()?
        .block_on(unary(server, message))?;
    let is_allowed = response.overall_code() == tollgate_envoy::Code::Ok;
    Ok((is_allowed, RecordedResponse::from_grpc(&response)))
}

async fn unary(server: SocketAddr, message: RateLimitRequest) -> Result<RateLimitResponse> {
    let endpoint = Endpoint::from_shared(format!("http://{server}"))?;
    let endpoint = endpoint.connect_timeout(PATIENCE).timeout(PATIENCE);
    let mut client = Grpc::new(endpoint.connect().await?);
    client.ready().await?;
    let path = PathAndQuery::from_static(Protocol::Grpc.path());
    let codec = ProstCodec::<RateLimitRequest, RateLimitResponse>::default();
    let response = client
        .unary(tonic::Request::new(message), path, codec)
        .await;
    Ok(response?.into_inner())
}
