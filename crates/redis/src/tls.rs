//! TLS for `rediss://` endpoints.

use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::endpoint::RedisConfigError;
use crate::error::ServerError;

/// A connector that trusts the given CA certificates in PEM, or by default those of the system.
pub(crate) fn connector(ca_pem: Option<&[u8]>) -> Result<TlsConnector, RedisConfigError> {
    let tls_error = |reason: String| RedisConfigError::Tls { reason };

    let mut roots = RootCertStore::empty();
    if let Some(pem) = ca_pem {
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate
                .map_err(|error| tls_error(format!("the CA is not valid PEM: {error}")))?;
            roots
                .add(certificate)
                .map_err(|error| tls_error(format!("invalid CA certificate: {error}")))?;
        }
    } else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    if roots.is_empty() {
        let reason = "no trusted CA certificates found; pass some with `ca_pem`";
        return Err(tls_error(reason.into()));
    }

    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| tls_error(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Performs the TLS handshake, which verifies that the certificate is for this host.
pub(crate) async fn handshake(
    connector: &TlsConnector,
    host: &str,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>, ServerError> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| ServerError::new(format!("invalid TLS server name {host:?}")))?;
    connector.connect(name, stream).await.map_err(|error| {
        ServerError::new(format!(
            "TLS handshake failed: {error}; pass the CA of a private certificate, and use redis:// \
             if the server has no TLS"
        ))
    })
}
