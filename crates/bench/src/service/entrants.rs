//! Starts all subjects that are measured together.

use std::env;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::reverse_proxy;
use testkit::servers::{Flavor, Server};

use super::entrant::{Entrant, Subject};
use super::request::{Case, Protocol};
use super::response::RecordedResponse;
use super::viewer::Viewer;
use super::{Settings, bare, call};
use crate::h2load::{LoadRequest, Status, Target};
use crate::process::{Directory, Process};

/// An environment variable with the path of throttlecrab-server, if it is not on the `PATH`.
const THROTTLECRAB: &str = "TOLLGATE_THROTTLECRAB_SERVER";
const THROTTLECRAB_PATH: &str = "/throttle";
const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

/// The subjects that were started, and notes about those that were not.
#[derive(Default)]
pub(super) struct Entrants {
    pub(super) present: Vec<Entrant>,
    pub(super) absent: Vec<String>,
}

impl Entrants {
    /// Starts all subjects for one protocol and case.
    pub(super) fn start(settings: &Settings, protocol: Protocol, case: Case) -> io::Result<Self> {
        let mut entrants = Self::default();
        let told = entrants.tollgate(Subject::Memory, &settings.tollgate, protocol, case)?;
        for program in &settings.beside {
            entrants.tollgate(
                Subject::OtherBuild(file_name(program)),
                program,
                protocol,
                case,
            )?;
        }
        if settings.dashboard {
            entrants.tollgate(Subject::DashboardOpen, &settings.tollgate, protocol, case)?;
            return Ok(entrants);
        }
        if (protocol, case) == (Protocol::Http, Case::Allowed) {
            entrants.tollgate(Subject::ManyLimits, &settings.tollgate, protocol, case)?;
        }
        entrants.tollgate(Subject::Redis, &settings.tollgate, protocol, case)?;
        entrants.tollgate(Subject::Leased, &settings.tollgate, protocol, case)?;
        if let Some(response) = &told {
            entrants.present.push(start_bare(
                Subject::Bare,
                &response.without_details()?,
                protocol,
                case,
            )?);
            entrants.present.push(start_bare(
                Subject::BareWithHeaders,
                response,
                protocol,
                case,
            )?);
        } else {
            // Without a recorded response the bare server still returns the shortest one.
            let response = RecordedResponse::shortest_grpc(case.code());
            entrants
                .present
                .push(start_bare(Subject::Bare, &response, protocol, case)?);
        }
        if let (Protocol::Http, Some(body)) = (protocol, case.throttlecrab_json()) {
            match throttlecrab_program() {
                Some(program) => entrants
                    .present
                    .push(start_throttlecrab(&program, &body, case)?),
                None => entrants.absent.push(format!(
                    "throttlecrab-server not found; to measure it, put it on the PATH \
                     or set {THROTTLECRAB} to its path"
                )),
            }
        }
        Ok(entrants)
    }

    /// Starts Tollgate and returns its response. A build that does not support gRPC is skipped.
    fn tollgate(
        &mut self,
        subject: Subject,
        program: &Path,
        protocol: Protocol,
        case: Case,
    ) -> io::Result<Option<RecordedResponse>> {
        let entrant = start_tollgate(subject, program, protocol, case)?;
        let name = entrant.subject.over(protocol);
        match call::ask(entrant.target.server, protocol, case) {
            Ok(response) => {
                self.present.push(entrant);
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

    /// All processes that belong to the run.
    pub(super) fn pids(&self) -> Vec<u32> {
        self.present.iter().flat_map(Entrant::pids).collect()
    }
}

fn start_tollgate(
    subject: Subject,
    program: &Path,
    protocol: Protocol,
    case: Case,
) -> io::Result<Entrant> {
    let redis = subject.consistency().map(|_| Server::start(Flavor::Redis));
    let url = redis.as_ref().map(Server::url);
    let directory = Directory::create()?;
    let config = match subject {
        Subject::ManyLimits => case.config_with_many_limits(),
        _ => case.config(url.as_deref().zip(subject.consistency())),
    };
    let config = directory.write("tollgate.yaml", config)?;
    let mut command = Command::new(program);
    command.arg("serve").arg("--config").arg(config);
    for port in ["--http", "--grpc", "--admin"] {
        command.args([port, "127.0.0.1:0"]);
    }
    // Logging is not part of the measurement, and the environment may have enabled it.
    command.env_remove("RUST_LOG");
    let status = match protocol {
        Protocol::Http if !case.is_allowed() => Status::ClientError,
        _ => Status::Success,
    };
    let body = directory.write("body", case.body(protocol))?;
    let mut process = Process::spawn(command, directory)?;
    let (http, grpc) = (process.announced("http ")?, process.announced("grpc ")?);
    // Until the store is available, decisions come from the failure policy.
    let request = case.json(None);
    process.wait_for(|_| {
        let response = reverse_proxy::send(http, "POST", "/v1/peek", &JSON, request.as_bytes());
        (response.status == 200).then_some(())
    })?;
    let server = match protocol {
        Protocol::Http => http,
        Protocol::Grpc => grpc,
    };
    let viewer = match subject {
        Subject::DashboardOpen => Some(Viewer::open(process.announced("admin ")?)?),
        _ => None,
    };
    let target = Target {
        server,
        path: protocol.path(),
        sent: sent(protocol, body),
        status,
    };
    Ok(Entrant {
        subject,
        protocol,
        target,
        viewer,
        process,
        redis,
    })
}

/// Starts a bare server: this program in a separate process.
fn start_bare(
    subject: Subject,
    response: &RecordedResponse,
    protocol: Protocol,
    case: Case,
) -> io::Result<Entrant> {
    let directory = Directory::create()?;
    let mut command = Command::new(env::current_exe()?);
    command
        .arg("bare")
        .arg("--response")
        .arg(directory.write("response.json", response.to_json())?);
    let body = directory.write("body", case.body(protocol))?;
    let mut process = Process::spawn(command, directory)?;
    let server = process.announced(bare::ANNOUNCED)?;
    call::ask(server, protocol, case)?;
    let status = match response {
        RecordedResponse::Http {
            status: 400..500, ..
        } => Status::ClientError,
        _ => Status::Success,
    };
    Ok(Entrant {
        subject,
        protocol,
        target: Target {
            server,
            path: protocol.path(),
            sent: sent(protocol, body),
            status,
        },
        viewer: None,
        process,
        redis: None,
    })
}

fn start_throttlecrab(program: &Path, body: &str, case: Case) -> io::Result<Entrant> {
    let directory = Directory::create()?;
    let server = free_port()?;
    let mut command = Command::new(program);
    command.args([
        "--http",
        "--http-host",
        "127.0.0.1",
        "--http-port",
        &server.port().to_string(),
    ]);
    command.args(["--log-level", "error"]);
    let file = directory.write("body", body)?;
    let mut process = Process::spawn(command, directory)?;
    process.wait_for(|_| TcpStream::connect(server).ok())?;
    let ask = || reverse_proxy::send(server, "POST", THROTTLECRAB_PATH, &JSON, body.as_bytes());
    // A limit that is to be used up is used up after two requests.
    ask();
    ask();
    let response = ask();
    if !response
        .text()
        .contains(&format!(r#""allowed":{}"#, case.is_allowed()))
    {
        let text = response.text();
        return Err(io::Error::other(format!(
            "unexpected response of throttlecrab-server: {}: {text}",
            response.status
        )));
    }
    // It denies with status 200.
    let status = Status::Success;
    let target = Target {
        server,
        path: THROTTLECRAB_PATH,
        sent: LoadRequest::Json(file),
        status,
    };
    let (subject, protocol) = (Subject::Throttlecrab, Protocol::Http);
    Ok(Entrant {
        subject,
        protocol,
        target,
        viewer: None,
        process,
        redis: None,
    })
}

const fn sent(protocol: Protocol, body: PathBuf) -> LoadRequest {
    match protocol {
        Protocol::Http => LoadRequest::Json(body),
        Protocol::Grpc => LoadRequest::Grpc(body),
    }
}

/// The path from the environment variable, or from the `PATH`.
fn throttlecrab_program() -> Option<PathBuf> {
    let told = env::var_os(THROTTLECRAB)
        .filter(|path| !path.is_empty())
        .map(PathBuf::from);
    let path = env::var_os("PATH").unwrap_or_default();
    let mut found = env::split_paths(&path).map(|directory| directory.join("throttlecrab-server"));
    told.or_else(|| found.find(|file| file.is_file()))
}

/// A free port for a server that cannot choose one itself.
fn free_port() -> io::Result<SocketAddr> {
    TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?.local_addr()
}

fn file_name(program: &Path) -> String {
    program
        .file_name()
        .unwrap_or(program.as_os_str())
        .to_string_lossy()
        .into_owned()
}
