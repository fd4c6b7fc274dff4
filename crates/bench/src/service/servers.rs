//! Starts all subjects that are measured together.

use std::env;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread::{JoinHandle, spawn};

use testkit::processes::try_find_program;
use tollgate_envoy::{RateLimitRequest, RateLimitResponse};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;
use tonic_prost::ProstCodec;

use super::bare::RecordedResponse;
use super::request::{Case, Exchange, Protocol};
use super::{BARE, BARE_WITH_HEADERS, DASHBOARD, LEASED, MANY_LIMITS, MEMORY, REDIS, THROTTLECRAB};
use crate::harness::prelude::*;

const THROTTLECRAB_PATH: &str = "/throttle";

/// The subjects that were started.
#[derive(Default)]
pub(super) struct Servers {
    pub(super) present: Vec<ServerUnderLoad>,
    /// The client that has the dashboard open, which ends with the server.
    pub(super) viewer: Option<JoinHandle<()>>,
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
        let tollgate = &programs[0];
        let response = servers.tollgate(MEMORY, tollgate, exchange)?;
        for program in &programs[1..] {
            // With its path, because the file usually has the same name.
            let name = format!("{}, memory", program.display());
            servers.tollgate(&name, program, exchange)?;
        }
        if is_dashboard {
            servers.tollgate(DASHBOARD, tollgate, exchange)?;
            return Ok(servers);
        }

        if (exchange.protocol, exchange.case) == (Protocol::Http, Case::Allowed) {
            servers.tollgate(MANY_LIMITS, tollgate, exchange)?;
        }
        servers.tollgate(REDIS, tollgate, exchange)?;
        servers.tollgate(LEASED, tollgate, exchange)?;
        servers.bare(BARE, &response.without_details()?, exchange)?;
        servers.bare(BARE_WITH_HEADERS, &response, exchange)?;
        servers.throttlecrab(bench, exchange)?;
        Ok(servers)
    }

    /// Starts Tollgate and returns its response.
    fn tollgate(
        &mut self,
        name: &str,
        program: &Path,
        exchange: Exchange,
    ) -> Result<RecordedResponse> {
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
        process.wait_for(|_| post_json(http, "/v1/peek", &request).status == 200)?;

        let address = match exchange.protocol {
            Protocol::Http => http,
            Protocol::Grpc => process.announced("grpc ")?,
        };
        if name == DASHBOARD {
            self.viewer = Some(open_dashboard(process.announced("admin ")?)?);
        }
        let server = exchange.under_load(name, process, address);
        self.present.push(ServerUnderLoad { redis, ..server });
        ask(address, exchange)
    }

    /// Starts a bare server: this program in a separate process.
    fn bare(&mut self, name: &str, response: &RecordedResponse, exchange: Exchange) -> Result<()> {
        let mut command = Command::new(env::current_exe()?);
        command.args(["bare", &serde_json::to_string(response)?]);
        let mut process = Process::spawn(command)?;
        let address = process.announced(ANNOUNCED)?;
        ask(address, exchange)?;
        self.present
            .push(exchange.under_load(name, process, address));
        Ok(())
    }

    /// Starts throttlecrab-server, if it is installed and supports the exchange.
    fn throttlecrab(&mut self, bench: &mut Bench, exchange: Exchange) -> Result<()> {
        let body = exchange.case.throttlecrab_json();
        let (Protocol::Http, Some(body)) = (exchange.protocol, body) else {
            return Ok(());
        };
        let Some((process, address)) = start_throttlecrab(bench, "http")? else {
            return Ok(());
        };

        // A limit that is to be used up is used up after two requests.
        let [.., response] = [(); 3].map(|()| post_json(address, THROTTLECRAB_PATH, &body));
        let (status, text) = (response.status, response.text());
        let expected = format!(r#""allowed":{}"#, exchange.case.is_allowed());
        ensure!(
            text.contains(&expected),
            "unexpected response of throttlecrab-server: {status}: {text}"
        );
        // It denies with status 200.
        self.present.push(ServerUnderLoad {
            path: THROTTLECRAB_PATH,
            ..ServerUnderLoad::new(THROTTLECRAB, process, address, LoadRequest::Json(body))
        });
        Ok(())
    }
}

/// An environment variable with the path of throttlecrab-server, if it is not on the `PATH`.
const VARIABLE: &str = "TOLLGATE_THROTTLECRAB_SERVER";

/// Starts throttlecrab-server with a port for `http` or `redis`, if it is installed.
pub(super) fn start_throttlecrab(
    bench: &mut Bench,
    protocol: &str,
) -> Result<Option<(Process, SocketAddr)>> {
    let Some(program) = try_find_program(VARIABLE, THROTTLECRAB) else {
        bench.remark(format!(
            "throttlecrab-server not found; to measure it, put it on the PATH \
             or set {VARIABLE} to its path"
        ));
        return Ok(None);
    };

    // It cannot choose a free port itself.
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let port = server.port();
    let options = format!(
        "--{protocol} --{protocol}-host 127.0.0.1 --{protocol}-port {port} --log-level error"
    );
    let mut command = Command::new(program);
    command.args(options.split(' '));
    let mut process = Process::spawn(command)?;
    process.wait_for(|_| TcpStream::connect(server).is_ok())?;
    Ok(Some((process, server)))
}

/// Opens the event stream of the dashboard, waits for its first bytes and reads it as a browser does,
/// until the server closes it.
fn open_dashboard(admin: SocketAddr) -> Result<JoinHandle<()>> {
    let mut stream = TcpStream::connect(admin)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    write!(
        stream,
        "GET /admin/events HTTP/1.1\r\nHost: {admin}\r\n\r\n"
    )?;
    let mut first = [0; 12];
    stream.read_exact(&mut first)?;
    let text = String::from_utf8_lossy(&first);
    ensure!(
        text.ends_with(" 200"),
        "unexpected response of the dashboard: {text}"
    );

    let mut room = [0; 16 * 1024];
    Ok(spawn(move || {
        while stream.read(&mut room).is_ok_and(|read| read > 0) {}
    }))
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
        status @ (200 | 429) => Ok((status == 200, RecordedResponse::from_http(&response))),
        status => bail!("unexpected status {status}: {}", response.text()),
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
