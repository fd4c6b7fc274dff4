//! Starts all subjects that are measured together.

use std::env;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::servers::{Flavor, Server};

use super::request::{Case, Protocol};
use super::response::RecordedResponse;
use super::viewer::Viewer;
use super::{
    Arguments, BARE, BARE_WITH_HEADERS, DASHBOARD, LEASED, MANY_LIMITS, MEMORY, REDIS,
    THROTTLECRAB, call,
};
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
    pub(super) fn check_viewer(&self) -> io::Result<()> {
        match &self.viewer {
            Some(viewer) if !viewer.is_there() => {
                Err(io::Error::other("the dashboard's event stream was closed"))
            }
            _ => Ok(()),
        }
    }
}

impl Servers {
    /// Starts all subjects for one protocol and case.
    pub(super) fn start(
        arguments: &Arguments,
        tollgate: &Path,
        protocol: Protocol,
        case: Case,
    ) -> io::Result<Self> {
        let mut servers = Self::default();
        let response = servers.tollgate(MEMORY, tollgate, protocol, case)?;
        for program in &arguments.beside {
            // With its path, because the file usually has the same name.
            let name = format!("{}, memory", program.display());
            servers.tollgate(&name, program, protocol, case)?;
        }
        if arguments.dashboard {
            servers.tollgate(DASHBOARD, tollgate, protocol, case)?;
            return Ok(servers);
        }
        if (protocol, case) == (Protocol::Http, Case::Allowed) {
            servers.tollgate(MANY_LIMITS, tollgate, protocol, case)?;
        }
        servers.tollgate(REDIS, tollgate, protocol, case)?;
        servers.tollgate(LEASED, tollgate, protocol, case)?;

        // Without a recorded response the bare server still returns the shortest one.
        let shortest = match &response {
            Some(response) => response.without_details()?,
            None => RecordedResponse::shortest_grpc(case.code()),
        };
        let bare = start_bare(BARE, &shortest, protocol, case)?;
        servers.present.push(bare);
        if let Some(response) = &response {
            let bare = start_bare(BARE_WITH_HEADERS, response, protocol, case)?;
            servers.present.push(bare);
        }
        if let (Protocol::Http, Some(body)) = (protocol, case.throttlecrab_json()) {
            match throttlecrab_program() {
                Some(program) => {
                    let throttlecrab = start_throttlecrab(&program, &body, case)?;
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
        protocol: Protocol,
        case: Case,
    ) -> io::Result<Option<RecordedResponse>> {
        let subject = start_tollgate(name, program, protocol, case)?;
        match call::ask(subject.server.target.server, protocol, case) {
            Ok(response) => {
                self.present.push(subject);
                Ok(Some(response))
            }
            Err(error) if protocol == Protocol::Grpc => {
                let over = protocol.name();
                self.absent.push(format!(
                    "{name} was skipped, because it failed over {over}: {error}"
                ));
                Ok(None)
            }
            Err(error) => Err(io::Error::other(format!("{name}: {error}"))),
        }
    }
}

fn start_tollgate(
    name: &str,
    program: &Path,
    protocol: Protocol,
    case: Case,
) -> io::Result<Subject> {
    let consistency = match name {
        REDIS => Some("strict"),
        LEASED => Some("leased"),
        _ => None,
    };
    let redis = consistency.map(|_| Server::start(Flavor::Redis));
    let url = redis.as_ref().map(Server::url);
    let config = match name {
        MANY_LIMITS => case.config_with_many_limits(),
        _ => case.config(url.as_deref().zip(consistency)),
    };
    let directory = Directory::create()?;
    let command = serve_command(program, &directory, &config)?;
    let sent = sent(&directory, protocol, case)?;
    let mut process = Process::spawn(command, directory)?;

    let (http, grpc) = (process.announced("http ")?, process.announced("grpc ")?);
    // Until the store is available, decisions come from the failure policy.
    let request = case.json(None);
    process.wait_for(|_| {
        let response = post_json(http, "/v1/peek", &request);
        (response.status == 200).then_some(())
    })?;
    let admin = process.announced("admin ")?;
    let server = match protocol {
        Protocol::Http => http,
        Protocol::Grpc => grpc,
    };
    let mut subject = Subject::new(name, target(server, protocol, case, sent), process);
    subject.server.redis = redis;
    if name == DASHBOARD {
        subject.viewer = Some(Viewer::open(admin)?);
    }
    Ok(subject)
}

/// Starts a bare server: this program in a separate process.
fn start_bare(
    name: &str,
    response: &RecordedResponse,
    protocol: Protocol,
    case: Case,
) -> io::Result<Subject> {
    let directory = Directory::create()?;
    let mut command = Command::new(env::current_exe()?);
    command
        .arg("bare")
        .arg("--response")
        .arg(directory.write("response.json", response.to_json())?);
    let sent = sent(&directory, protocol, case)?;
    let mut process = Process::spawn(command, directory)?;
    let server = process.announced(server::ANNOUNCED)?;
    call::ask(server, protocol, case)?;
    let target = target(server, protocol, case, sent);
    Ok(Subject::new(name, target, process))
}

fn start_throttlecrab(program: &Path, body: &str, case: Case) -> io::Result<Subject> {
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
    if !response.text().contains(&expected) {
        return Err(io::Error::other(format!(
            "unexpected response of throttlecrab-server: {}: {}",
            response.status,
            response.text()
        )));
    }
    let target = Target {
        server,
        path: THROTTLECRAB_PATH,
        sent,
        // It denies with status 200.
        status: SUCCESS,
    };
    Ok(Subject::new(THROTTLECRAB, target, process))
}

fn target(server: SocketAddr, protocol: Protocol, case: Case, sent: LoadRequest) -> Target {
    let status = match protocol {
        Protocol::Http if !case.is_allowed() => CLIENT_ERROR,
        _ => SUCCESS,
    };
    Target {
        server,
        path: protocol.path(),
        sent,
        status,
    }
}

/// The request that the load generator sends, with its body in this directory.
fn sent(directory: &Directory, protocol: Protocol, case: Case) -> io::Result<LoadRequest> {
    let body = directory.write("body", case.body(protocol))?;
    Ok(match protocol {
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
