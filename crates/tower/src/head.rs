//! What is known of a request before its body: the view that keys, costs, tiers and lists are made
//! of.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use http::header::AsHeaderName;
use http::{Extensions, HeaderMap, Method, Request, Uri};
use tollgate_subject::ClientResolver;

use crate::read_body::BodyRead;

/// A request without its body. It is lent to every function that decides something about the
/// request.
///
/// ```
/// use http::Request;
/// use tollgate_tower::Head;
///
/// let request = Request::get("/reports?page=2").header("x-api-key", "k-1").body(())?;
/// let head = Head::of(&request);
/// assert_eq!((head.path(), head.header("x-api-key")), ("/reports", Some("k-1")));
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Head<'r> {
    method: &'r Method,
    uri: &'r Uri,
    headers: &'r HeaderMap,
    extensions: &'r Extensions,
}

/// The address at the other end of the connection: put it into the request's extensions where
/// neither axum nor tonic does.
///
/// With plain hyper, that is one line where the connection is accepted:
///
/// ```
/// use http::Request;
/// use tollgate_tower::{Head, Peer};
///
/// let mut request = Request::new(());
/// request.extensions_mut().insert(Peer("203.0.113.7:4711".parse()?));
/// assert_eq!(Head::of(&request).peer(), Some("203.0.113.7".parse()?));
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

impl<'r> Head<'r> {
    /// The view of a request.
    pub fn of<B>(request: &'r Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }

    /// The method.
    pub const fn method(&self) -> &'r Method {
        self.method
    }

    /// The target.
    pub const fn uri(&self) -> &'r Uri {
        self.uri
    }

    /// The path as it was sent. [`by::path_class`](crate::by::path_class) sees through its
    /// spellings.
    pub fn path(&self) -> &'r str {
        self.uri.path()
    }

    /// The header fields.
    pub const fn headers(&self) -> &'r HeaderMap {
        self.headers
    }

    /// The value of a header that stands there once and is a text. Of two values nobody knows which
    /// one counts further in.
    pub fn header(&self, name: impl AsHeaderName) -> Option<&'r str> {
        let mut values = self.headers.get_all(name).iter();
        let first = values.next().filter(|_| values.next().is_none())?;
        first.to_str().ok()
    }

    /// What other layers and the server have attached to the request.
    pub const fn extensions(&self) -> &'r Extensions {
        self.extensions
    }

    /// The address at the other end of the connection: a client or a proxy.
    pub fn peer(&self) -> Option<IpAddr> {
        self.other_end().map(|address| address.ip())
    }

    /// The same with its port.
    pub(crate) fn other_end(&self) -> Option<SocketAddr> {
        let address = self.extensions.get::<Peer>().map(|peer| peer.0);
        #[cfg(feature = "axum")]
        let address = address.or_else(|| {
            self.extensions
                .get::<axum::extract::ConnectInfo<SocketAddr>>()
                .map(|connection| connection.0)
        });
        #[cfg(feature = "tonic")]
        let address = address.or_else(|| {
            let connection = self
                .extensions
                .get::<tonic::transport::server::TcpConnectInfo>();
            connection.and_then(tonic::transport::server::TcpConnectInfo::remote_addr)
        });
        address
    }

    /// The client's address, behind the proxies that these `clients` trust.
    pub fn client(&self, clients: &ClientResolver) -> Option<IpAddr> {
        self.peer().map(|peer| clients.address(peer, self.headers))
    }

    /// The body, if a [`ReadBodyLayer`](crate::ReadBodyLayer) has read it.
    pub fn body(&self) -> Option<&'r Bytes> {
        self.extensions.get::<BodyRead>().map(|read| &read.0)
    }

    /// True for a call of gRPC, which wants its answers told in its own way.
    pub(crate) fn is_grpc(&self) -> bool {
        let kind = self.headers.get(http::header::CONTENT_TYPE);
        kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
    }
}
