//! TLS connections. Without the feature `tls`, a type without values replaces `Tls`.

#[cfg(not(feature = "tls"))]
pub(crate) use disabled::Tls;
#[cfg(feature = "tls")]
pub(crate) use enabled::Tls;

#[cfg(feature = "tls")]
mod enabled {
    use std::fmt;
    use std::sync::Arc;

    use tokio::net::TcpStream;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};

    use crate::connector::ByteStream;
    use crate::endpoint::RedisConfigError;
    use crate::error::ServerError;

    /// The TLS client configuration of a store.
    pub(crate) struct Tls {
        connector: TlsConnector,
    }

    impl fmt::Debug for Tls {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Tls(..)")
        }
    }

    impl Tls {
        /// Trusts the given CA certificates in PEM, or by default those of the system.
        pub(crate) fn new(ca_pem: Option<&[u8]>) -> Result<Self, RedisConfigError> {
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
            Ok(Self {
                connector: TlsConnector::from(Arc::new(config)),
            })
        }

        /// Performs the TLS handshake, which verifies that the certificate is for this host.
        pub(crate) async fn wrap(
            &self,
            host: &str,
            stream: TcpStream,
        ) -> Result<Box<dyn ByteStream>, ServerError> {
            let name = ServerName::try_from(host.to_owned())
                .map_err(|_| ServerError::new(format!("invalid TLS server name {host:?}")))?;
            Ok(Box::new(self.connector.connect(name, stream).await?))
        }
    }
}

#[cfg(not(feature = "tls"))]
mod disabled {
    use std::future::Ready;

    use tokio::net::TcpStream;

    use crate::connector::ByteStream;
    use crate::endpoint::RedisConfigError;
    use crate::error::ServerError;

    /// Has no values: this build does not have the feature `tls`.
    #[derive(Debug)]
    pub(crate) enum Tls {}

    impl Tls {
        pub(crate) fn new(_: Option<&[u8]>) -> Result<Self, RedisConfigError> {
            Err(RedisConfigError::Tls {
                reason: "this build does not have the feature `tls`".into(),
            })
        }

        pub(crate) fn wrap(
            &self,
            _: &str,
            _: TcpStream,
        ) -> Ready<Result<Box<dyn ByteStream>, ServerError>> {
            match *self {}
        }
    }
}
