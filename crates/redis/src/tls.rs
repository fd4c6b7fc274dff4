//! TLS, or its absence where the feature is off.

#[cfg(feature = "tls")]
pub(crate) use with::Tls;
#[cfg(not(feature = "tls"))]
pub(crate) use without::Tls;

#[cfg(feature = "tls")]
mod with {
    use std::fmt;
    use std::sync::Arc;

    use tokio::net::TcpStream;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};

    use crate::access::Duplex;
    use crate::endpoint::RedisConfigError;
    use crate::failure::Cause;

    /// How connections are made secret.
    pub(crate) struct Tls {
        connector: TlsConnector,
    }

    impl fmt::Debug for Tls {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Tls(..)")
        }
    }

    impl Tls {
        /// Trusts these certificates, in PEM, or those that the system trusts.
        pub(crate) fn new(ca_pem: Option<&[u8]>) -> Result<Self, RedisConfigError> {
            let wrong = |reason: String| RedisConfigError::Tls { reason };
            let mut roots = RootCertStore::empty();
            if let Some(pem) = ca_pem {
                for certificate in CertificateDer::pem_slice_iter(pem) {
                    let added = certificate.map(|certificate| roots.add(certificate));
                    added
                        .map_err(|error| wrong(format!("the CA is not PEM: {error}")))?
                        .map_err(|error| wrong(format!("the CA is not usable: {error}")))?;
                }
            } else {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
            if roots.is_empty() {
                return Err(wrong(
                    "there is no certificate to trust; name a CA with ca_pem".into(),
                ));
            }
            let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(|error| wrong(error.to_string()))?
                .with_root_certificates(roots)
                .with_no_client_auth();
            Ok(Self {
                connector: TlsConnector::from(Arc::new(config)),
            })
        }

        pub(crate) async fn wrap(
            &self,
            host: &str,
            stream: TcpStream,
        ) -> Result<Box<dyn Duplex>, Cause> {
            let name = ServerName::try_from(host.to_owned()).map_err(|_| {
                Cause::new(format!("{host} is not a name that a certificate can have"))
            })?;
            Ok(Box::new(self.connector.connect(name, stream).await?))
        }
    }
}

#[cfg(not(feature = "tls"))]
mod without {
    use std::future::Ready;

    use tokio::net::TcpStream;

    use crate::access::Duplex;
    use crate::endpoint::RedisConfigError;
    use crate::failure::Cause;

    /// There is none in this build.
    #[derive(Debug)]
    pub(crate) enum Tls {}

    impl Tls {
        pub(crate) fn new(_: Option<&[u8]>) -> Result<Self, RedisConfigError> {
            Err(RedisConfigError::Tls {
                reason: "this build is without the feature `tls`".into(),
            })
        }

        pub(crate) fn wrap(&self, _: &str, _: TcpStream) -> Ready<Result<Box<dyn Duplex>, Cause>> {
            match *self {}
        }
    }
}
