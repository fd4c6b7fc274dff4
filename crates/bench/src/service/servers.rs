//! Starts all subjects that are measured together.

use std::env;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use testkit::processes::{Directory, try_find_program};
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
use crate::harness::h2load::Target;
use crate::harness::{
    LoadRequest, Process, Runtime, ServerUnderLoad, post_json, serve_command, server,
};

/// An environment variable with the path of throttlecrab-server, if it is not on the `PATH`.
pub(super) const THROTTLECRAB_VARIABLE: &str = "TOLLGATE_THROTTLECRAB_SERVER";
const THROTTLECRAB_PATH: &str = "/throttle";

/// The subjects that were started, and notes about those that were not.
#[derive(Default)]
pub(super) struct Servers {
    pub(super) present: Vec<ServerUnderLoad>,
    /// The clients that have a dashboard open.
    pub(super) viewers: Vec<Viewer>,
    pub(super) absent: Vec<String>,
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
        servers.bare(BARE, &shortest, exchange)?;
        if let Some(response) = &response {
            servers.bare(BARE_WITH_HEADERS, response, exchange)?;
        }
        servers.throttlecrab(exchange)?;
        Ok(servers)
    }

    /// Starts Tollgate and returns its response. A build that does not support gRPC is skipped.
    fn tollgate(
        &mut self,
        name: &str,
        program: &Path,
        exchange: Exchange,
    ) -> Result<Option<RecordedResponse>> {
        let server = self.start_tollgate(name, program, exchange)?;
        match ask(server.target.server, exchange) {
            Ok(response) => {
                self.present.push(server);
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

    fn start_tollgate(
        &mut self,
        name: &str,
        program: &Path,
        exchange: Exchange,
    ) -> Result<ServerUnderLoad> {
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
        let directory = Directory::create();
        let command = serve_command(program, &directory, &config);
        let sent = exchange.sent(&directory);
        let mut process = Process::spawn(command, directory)?;

        // Until the store is available, decisions come from the failure policy.
        let http = process.announced("http ")?;
        let request = exchange.case.json(None);
        process.wait_for(|_| {
            let response = post_json(http, "/v1/peek", &request);
            (response.status == 200).then_some(())
        })?;

        let server = match exchange.protocol {
            Protocol::Http => http,
            Protocol::Grpc => process.announced("grpc ")?,
        };
        if name == DASHBOARD {
            let admin = process.announced("admin ")?;
            self.viewers.push(Viewer::open(admin)?);
        }
        Ok(ServerUnderLoad {
            name: name.to_owned(),
            target: target(server, exchange, sent),
            process,
            beside: Vec::new(),
            redis,
        })
    }

    /// Starts a bare server: this program in a separate process.
    fn bare(&mut self, name: &str, response: &RecordedResponse, exchange: Exchange) -> Result<()> {
        let directory = Directory::create();
        let mut command = Command::new(env::current_exe()?);
        let response = directory.write("response.json", response.to_json());
        command.args(["bare", "--response"]).arg(response);
        let sent = exchange.sent(&directory);
        let mut process = Process::spawn(command, directory)?;
        let server = process.announced(server::ANNOUNCED)?;

        ask(server, exchange)?;
        self.push(name, target(server, exchange, sent), process);
        Ok(())
    }

    /// Starts throttlecrab-server, if it is installed and supports the exchange.
    fn throttlecrab(&mut self, exchange: Exchange) -> Result<()> {
        let body = exchange.case.throttlecrab_json();
        let (Protocol::Http, Some(body)) = (exchange.protocol, body) else {
            return Ok(());
        };
        let Some(program) = try_find_program(THROTTLECRAB_VARIABLE, THROTTLECRAB) else {
            self.absent.push(format!(
                "throttlecrab-server not found; to measure it, put it on the PATH \
                 or set {THROTTLECRAB_VARIABLE} to its path"
            ));
            return Ok(());
        };

        // It cannot choose a free port itself.
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let mut command = Command::new(program);
        command.args(["--http", "--http-host", "127.0.0.1"]);
        command.args(["--http-port", &server.port().to_string()]);
        command.args(["--log-level", "error"]);
        let directory = Directory::create();
        let sent = LoadRequest::Json(directory.write("body", &body));
        let mut process = Process::spawn(command, directory)?;
        process.wait_for(|_| TcpStream::connect(server).ok())?;

        // A limit that is to be used up is used up after two requests.
        let [.., response] = [(); 3].map(|()| post_json(server, THROTTLECRAB_PATH, &body));
        let expected = format!(r#""allowed":{}"#, exchange.case.is_allowed());
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
            status: 200,
        };
        self.push(THROTTLECRAB, target, process);
        Ok(())
    }

    fn push(&mut self, name: &str, target: Target, process: Process) {
        self.present.push(ServerUnderLoad {
            name: name.to_owned(),
            target,
            process,
            beside: Vec::new(),
            redis: None,
        });
    }
}

pub(super) fn target(server: SocketAddr, exchange: Exchange, sent: LoadRequest) -> Target {
    let status = match exchange.protocol {
        Protocol::Http if !exchange.case.is_allowed() => 429,
        _ => 200,
    };
    Target {
        server,
        path: exchange.protocol.path(),
        sent,
        status,
    }
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
    let call = async {
        let endpoint = Endpoint::from_shared(format!("http://{server}"))?;
        let endpoint = endpoint.connect_timeout(PATIENCE).timeout(PATIENCE);
        let mut client = Grpc::new(endpoint.connect().await?);
        client.ready().await?;
        let path = PathAndQuery::from_static(Protocol::Grpc.path());
        let codec = ProstCodec::<RateLimitRequest, RateLimitResponse>::default();
        let response = client.unary(tonic::Request::new(message), path, codec);
        anyhow::Ok(response.await?.into_inner())
    };
    let response = Runtime::CurrentThread.build()?.block_on(call)?;
    let is_allowed = response.overall_code() == tollgate_envoy::Code::Ok;
    Ok((is_allowed, RecordedResponse::from_grpc(&response)))
}
