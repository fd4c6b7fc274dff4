//! The client side of TLS, for replicas with an `https` URL.

use std::fmt;
use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Whom a client trusts, and its own certificate. Cloning is cheap.
#[derive(Clone)]
pub struct ClientTls(TlsConnector);

/// Why the settings of a client cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClientTlsError {
    /// The text of the authorities is not what is expected.
    #[error("invalid CA certificates: {0}")]
    Authorities(String),
    /// The client's certificate or key is not what is expected.
    #[error("invalid client certificate: {0}")]
    Identity(String),
}

impl ClientTls {
    /// Trusts the authorities in PEM, by default those of the system. `identity` is the client's
    /// certificate and its key in PEM, for servers that ask for one.
    pub fn new(
        ca_pem: Option<&[u8]>,
        identity: Option<(&[u8], &[u8])>,
    ) -> Result<Self, ClientTlsError> {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(authorities)?
            .with_root_certificates(roots(ca_pem)?);

        let config = match identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = CertificateDer::pem_slice_iter(certificate);
                let chain = chain.collect::<Result<_, _>>().map_err(identity_error)?;
                let key = PrivateKeyDer::from_pem_slice(key).map_err(identity_error)?;
                let config = builder.with_client_auth_cert(chain, key);
                config.map_err(identity_error)?
            }
        };
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// Performs the handshake, which verifies that the certificate is for this host.
    pub async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let connected = self.0.connect(name, stream).await;
        connected
            .map_err(|error| io::Error::new(error.kind(), format!("TLS handshake failed: {error}")))
    }
}

fn roots(ca_pem: Option<&[u8]>) -> Result<RootCertStore, ClientTlsError> {
    let mut roots = RootCertStore::empty();
    match ca_pem {
        None => {
            let system = rustls_native_certs::load_native_certs().certs;
            roots.add_parsable_certificates(system);
        }
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(authorities)?;
                roots.add(certificate).map_err(authorities)?;
            }
        }
    }

    if roots.is_empty() {
        return Err(authorities(
            "none found; expected at least one certificate in PEM",
        ));
    }
    Ok(roots)
}

fn authorities(error: impl fmt::Display) -> ClientTlsError {
    ClientTlsError::Authorities(error.to_string())
}

fn identity_error(error: impl fmt::Display) -> ClientTlsError {
    ClientTlsError::Identity(error.to_string())
}

/// Two settings are the same if one was cloned from the other.
impl PartialEq for ClientTls {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(self.0.config(), other.0.config())
    }
}

impl Eq for ClientTls {}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientTls")
    }
}
