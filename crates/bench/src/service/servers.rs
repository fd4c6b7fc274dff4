//! Starts all subjects that are measured together.

use std::env;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use testkit::processes::Directory;
use testkit::servers::{Flavor, Server};
use tollgate_envoy::{RateLimitRequest, RateLimitResponse};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;
use tonic_prost::ProstCodec;

use super::bare::RecordedResponse;
use super::request::{Case, Exchange, Protocol};
use super::throttlecrab;
use super::viewer::Viewer;
use super::{BARE, BARE_WITH_HEADERS, DASHBOARD, LEASED, MANY_LIMITS, MEMORY, REDIS, THROTTLECRAB};
use crate::harness::h2load::Target;
use crate::harness::{Bench, LoadRequest, Process, Runtime, ServerUnderLoad, post_json, server};

const THROTTLECRAB_PATH: &str = "/throttle";

/// The subjects that were started.
#[derive(Default)]
pub(super) struct Servers {
    pub(super) present: Vec<ServerUnderLoad>,
    /// The clients that have a dashboard open.
    pub(super) viewers: Vec<Viewer>,
}

impl Servers {
    /// Starts all subjects for one exchange.
    pub(super) fn start(
        bench: &mut Bench,
        is_dashboard: bool,
        programs: &[PathBuf],
        exchange: Exchange,
    ) -> Result<Self> {
        let mut servers = Self::default();
        let mut start =
            |name: &str, program: &Path| servers.tollgate(bench, name, program, exchange);
        let tollgate = &programs[0];
        let response = start(MEMORY, tollgate)?;
        for program in &programs[1..] {
            // With its path, because the file usually has the same name.
            let name = format!("{}, memory", program.display());
            start(&name, program)?;
        }
        if is_dashboard {
            start(DASHBOARD, tollgate)?;
            return Ok(servers);
        }
        if (exchange.protocol, exchange.case) == (Protocol::Http, Case::Allowed) {
            start(MANY_LIMITS, tollgate)?;
        }
        start(REDIS, tollgate)?;
        start(LEASED, tollgate)?;

        // Without a recorded response the bare server still returns the shortest one.
        let shortest = match &response {
            Some(response) => response.without_details()?,
            None => RecordedResponse::shortest_grpc(exchange.case.code()),
        };
        servers.bare(BARE, &shortest, exchange)?;
        if let Some(response) = &response {
            servers.bare(BARE_WITH_HEADERS, response, exchange)?;
        }
        servers.throttlecrab(bench, exchange)?;
        Ok(servers)
    }

    /// Starts Tollgate and returns its response. A build that does not support gRPC is skipped.
    fn tollgate(
        &mut self,
        bench: &mut Bench,
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
                bench.remark(format!(
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
        let mut process = Process::serve(program, &config, |_| ())?;

        // Until the store is available, decisions come from the failure policy.
        let http = process.announced("http ")?;
        let request = exchange.case.json(None).to_string();
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
        let server = ServerUnderLoad::new(name, exchange.target(server), process);
        Ok(ServerUnderLoad { redis, ..server })
    }

    /// Starts a bare server: this program in a separate process.
    fn bare(&mut self, name: &str, response: &RecordedResponse, exchange: Exchange) -> Result<()> {
        let directory = Directory::create();
        let mut command = Command::new(env::current_exe()?);
        let response = directory.write("response.json", response.to_json());
        command.args(["bare", "--response"]).arg(response);
        let mut process = Process::spawn_in(directory, command)?;
        let server = process.announced(server::ANNOUNCED)?;

        ask(server, exchange)?;
        let server = ServerUnderLoad::new(name, exchange.target(server), process);
        self.present.push(server);
        Ok(())
    }

    /// Starts throttlecrab-server, if it is installed and supports the exchange.
    fn throttlecrab(&mut self, bench: &mut Bench, exchange: Exchange) -> Result<()> {
        let body = exchange.case.throttlecrab_json();
        let (Protocol::Http, Some(body)) = (exchange.protocol, body) else {
            return Ok(());
        };
        let Some((process, server)) = throttlecrab::start(bench, "http")? else {
            return Ok(());
        };

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
            sent: LoadRequest::Json(body),
            // It denies with status 200.
            status: 200,
        };
        let server = ServerUnderLoad::new(THROTTLECRAB, target, process);
        self.present.push(server);
        Ok(())
    }
}

const PATIENCE: Duration = Duration::from_secs(5);

/// Makes one real call, because the load generator sees neither bodies nor trailers: spends what
/// the case requires beforehand, then sends the same request as the load generator and returns the
/// response, which must be the one that the case expects.
pub(super) fn ask(server: SocketAddr, exchange: Exchange) -> Result<RecordedResponse> {
    let call = |cost| match exchange.protocol {
        Protocol::Http => http(server, &exchange.case.json(cost).to_string()),
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
