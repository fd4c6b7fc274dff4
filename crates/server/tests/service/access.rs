//! Who may use the data ports: TLS, tokens and web pages, with the real service.

mod pages;
mod proxies;
mod tls;
mod tls_files;
mod tokens;

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use testkit::certificates::{Authority, Certificate};
use testkit::processes::Directory;
use testkit::reverse_proxy::{self, Response};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned,
};

use crate::harness::{PATIENCE, Tollgate};

const ANN: &str = r#"{"attributes": {"client_ip": "203.0.113.7"}}"#;
const LIMITS: &str = "
limits:
  - { name: all, key: [client_ip], algorithm: fixed_window, limit: 1000000, window: 1d }
";

/// A certificate of the service, in a directory of its own.
pub(crate) struct ServerCertificate {
    directory: Directory,
    authority: Authority,
    files: Certificate,
}

impl ServerCertificate {
    pub(crate) fn create() -> Self {
        let directory = Directory::create();
        let authority = Authority::create(directory.path(), "ca");
        let files = authority.issue("server");
        Self {
            directory,
            authority,
            files,
        }
    }

    /// A configuration with this certificate and more settings of the server.
    pub(crate) fn config(&self, settings: &str) -> String {
        let (cert, key) = (self.files.certificate.display(), self.files.key.display());
        format!("server:\n  tls: {{ cert: {cert}, key: {key} }}\n{settings}{LIMITS}")
    }

    /// The certificate of the authority that clients trust.
    pub(crate) fn authority(&self) -> PathBuf {
        self.authority.certificate()
    }

    /// The settings of a server with this certificate.
    pub(crate) fn server(&self) -> ServerConfig {
        let key = PrivateKeyDer::from_pem_file(&self.files.key).expect("a key");
        ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the default versions")
            .with_no_client_auth()
            .with_single_cert(certificates(&self.files.certificate), key)
            .expect("a certificate and its key")
    }

    fn client(&self) -> TlsClient {
        TlsClient::new(&self.authority.certificate(), None)
    }
}

type TlsConnection = StreamOwned<ClientConnection, TcpStream>;

/// A client that trusts one authority.
#[derive(Clone)]
struct TlsClient(Arc<ClientConfig>);

impl TlsClient {
    fn new(authority: &Path, identity: Option<&Certificate>) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates(authority));
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the default versions")
            .with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let key = PrivateKeyDer::from_pem_file(&identity.key).expect("a key");
                builder
                    .with_client_auth_cert(certificates(&identity.certificate), key)
                    .expect("a certificate and its key")
            }
        };
        Self(Arc::new(config))
    }

    /// Offers these protocols.
    fn with_protocols(&self, protocols: &[&str]) -> Self {
        let mut config = ClientConfig::clone(&self.0);
        config.alpn_protocols = protocols.iter().map(|name| (*name).into()).collect();
        Self(Arc::new(config))
    }

    fn connector(&self) -> TlsConnector {
        TlsConnector::from(self.0.clone())
    }

    /// Connects and performs the handshake.
    fn open(&self, addr: SocketAddr) -> io::Result<TlsConnection> {
        let stream = TcpStream::connect(addr)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let name = ServerName::from(addr.ip());
        let connection = ClientConnection::new(self.0.clone(), name).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(connection, stream);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(stream)
    }

    /// Sends a check on a new connection.
    fn check(&self, addr: SocketAddr) -> io::Result<Response> {
        reverse_proxy::send_over(
            self.open(addr)?,
            addr,
            "POST",
            "/v1/check",
            &[],
            ANN.as_bytes(),
        )
    }
}

fn certificates(file: &Path) -> Vec<CertificateDer<'static>> {
    let certificates = CertificateDer::pem_file_iter(file).expect("a file");
    certificates
        .collect::<Result<_, _>>()
        .expect("certificates in PEM")
}

/// The value of a metric without labels, or with these.
fn metric(service: &Tollgate, name: &str) -> Option<String> {
    let page = reverse_proxy::get(service.admin, "/metrics", &[]).text();
    let mut lines = page.lines();
    let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map(str::to_owned)
}

/// Runs a command with these variables.
fn tollgate(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command
        .args(arguments)
        .env_remove("TOLLGATE_ADMIN_TOKEN")
        .env_remove("TOLLGATE_TOKEN")
        .envs(variables.iter().copied());
    command.output().expect("the binary was built")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
