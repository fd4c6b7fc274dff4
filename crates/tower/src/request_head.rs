//! The request without its body: what keys, costs, quotas, allow and deny lists are computed from.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use http::header::AsHeaderName;
use http::{Extensions, HeaderMap, Method, Request, Uri};
use tollgate_subject::{ClientResolver, PathReadings};

/// A borrowed request without its body. Every function that you give to a layer gets one.
///
/// ```
/// use http::Request;
/// use tollgate_tower::RequestHead;
///
/// let request = Request::get("/reports?page=2").header("x-api-key", "k-1").body(())?;
/// let head = RequestHead::new(&request);
/// assert_eq!((head.path(), head.header("x-api-key")), ("/reports", Some("k-1")));
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'r> {
    method: &'r Method,
    uri: &'r Uri,
    headers: &'r HeaderMap,
    extensions: &'r Extensions,
}

/// The peer address of the connection. Insert it into the request's extensions if neither axum nor
/// tonic provides the address.
///
/// With plain hyper, do it where the connection is accepted:
///
/// ```
/// use http::Request;
/// use tollgate_tower::{Peer, RequestHead};
///
/// let mut request = Request::new(());
/// request.extensions_mut().insert(Peer("203.0.113.7:4711".parse()?));
/// assert_eq!(RequestHead::new(&request).peer(), Some("203.0.113.7".parse()?));
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// A body that a [`ReadBodyLayer`](crate::ReadBodyLayer) has read; an extension of the request.
#[derive(Clone, Debug)]
pub(crate) struct BufferedBody(pub(crate) Bytes);

impl<'r> RequestHead<'r> {
    /// Borrows the head of a request.
    pub fn new<B>(request: &'r Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }

    /// The request method.
    pub const fn method(&self) -> &'r Method {
        self.method
    }

    /// The request target.
    pub const fn uri(&self) -> &'r Uri {
        self.uri
    }

    /// The path as the client sent it. Servers may read it differently: to decide by a path that is
    /// not compared as a whole, use [`path_readings`](Self::path_readings).
    pub fn path(&self) -> &'r str {
        self.uri.path()
    }

    /// Every plausible reading of the path.
    ///
    /// Deny, or charge more, if [any](PathReadings::any_matches) reading matches. Exempt, or charge
    /// less, only if [all](PathReadings::all_match) of them do. Otherwise `/assets/..%2flogin` would
    /// be exempt as an asset, and a proxy behind this layer would take it for the login.
    ///
    /// ```
    /// use http::Request;
    /// use tollgate_tower::{Case, Glob, RequestHead};
    ///
    /// let assets = Glob::for_path("/assets/**", Case::Insensitive)?;
    /// let is_asset = |path: &str| {
    ///     let request = Request::get(path).body(()).expect("a valid path");
    ///     RequestHead::new(&request).path_readings().all_match(&assets)
    /// };
    /// assert!(is_asset("/assets/logo.svg") && !is_asset("/assets/..%2flogin"));
    /// # Ok::<(), tollgate_tower::GlobError>(())
    /// ```
    pub fn path_readings(&self) -> PathReadings<'r> {
        PathReadings::new(self.uri.path())
    }

    /// All header fields.
    pub const fn headers(&self) -> &'r HeaderMap {
        self.headers
    }

    /// The value of a header that occurs exactly once and is visible ASCII, else `None`. If a
    /// header is sent twice, the application might use the other value, so neither is returned.
    pub fn header(&self, name: impl AsHeaderName) -> Option<&'r str> {
        let mut values = self.headers.get_all(name).iter();
        let first = values.next().filter(|_| values.next().is_none())?;
        first.to_str().ok()
    }

    /// The extensions that the server and other layers have added to the request.
    pub const fn extensions(&self) -> &'r Extensions {
        self.extensions
    }

    /// The IP address of the connection's peer, which is a client or a proxy; `None` if the server
    /// did not provide it.
    pub fn peer(&self) -> Option<IpAddr> {
        self.peer_socket().map(|address| address.ip())
    }

    /// The address and port of the connection's peer.
    pub(crate) fn peer_socket(&self) -> Option<SocketAddr> {
        let address = self.peer_extension().copied();
        #[cfg(feature = "tonic")]
        let address = address.or_else(|| self.tonic_peer());
        address
    }

    /// The address and port of the connection's peer, unless tonic alone provides them.
    #[inline]
    pub(crate) fn peer_extension(&self) -> Option<&'r SocketAddr> {
        let address = self.extensions.get::<Peer>().map(|peer| &peer.0);
        #[cfg(feature = "axum")]
        let address = address.or_else(|| self.axum_peer());
        address
    }

    /// The peer that axum's `ConnectInfo` holds, or in tests `MockConnectInfo`. The real address
    /// takes precedence, as in axum's own extractor.
    #[cfg(feature = "axum")]
    #[inline]
    fn axum_peer(&self) -> Option<&'r SocketAddr> {
        use axum::extract::ConnectInfo;
        use axum::extract::connect_info::MockConnectInfo;

        let connection = self.extensions.get::<ConnectInfo<SocketAddr>>();
        connection.map(|connection| &connection.0).or_else(|| {
            let mock = self.extensions.get::<MockConnectInfo<SocketAddr>>();
            mock.map(|mock| &mock.0)
        })
    }

    /// The peer that tonic's `TcpConnectInfo` holds.
    #[cfg(feature = "tonic")]
    fn tonic_peer(&self) -> Option<SocketAddr> {
        use tonic::transport::server::TcpConnectInfo;

        let connection = self.extensions.get::<TcpConnectInfo>();
        connection.and_then(TcpConnectInfo::remote_addr)
    }

    /// The client address, taken from forwarding headers only if the peer is a proxy that `clients`
    /// trusts; `None` if the server did not provide the peer address.
    pub fn client(&self, clients: &ClientResolver) -> Option<IpAddr> {
        self.peer().map(|peer| clients.address(peer, self.headers))
    }

    /// The body, if a [`ReadBodyLayer`](crate::ReadBodyLayer) has read it.
    pub fn body(&self) -> Option<&'r Bytes> {
        self.extensions.get::<BufferedBody>().map(|body| &body.0)
    }

    /// Whether this is a gRPC call, whose rejection needs a gRPC status.
    pub(crate) fn is_grpc(&self) -> bool {
        let content_type = self.headers.get(http::header::CONTENT_TYPE);
        content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
    }
}
