//! The three ports, bound before anything is answered.

use std::net::SocketAddr;

use tokio::net::TcpListener;

use crate::cli::ServeArgs;

/// Protects the admin port where strangers can reach it.
const TOKEN_VARIABLE: &str = "TOLLGATE_ADMIN_TOKEN";
/// Shorter tokens can be guessed.
const TOKEN_MIN: usize = 16;

/// The listeners, and the addresses they got.
#[derive(Debug)]
pub(super) struct Ports {
    pub(super) http: TcpListener,
    pub(super) grpc: TcpListener,
    pub(super) admin: TcpListener,
}

impl Ports {
    pub(super) async fn bind(args: &ServeArgs) -> Result<Self, String> {
        Ok(Self {
            http: bind("--http", args.http).await?,
            grpc: bind("--grpc", args.grpc).await?,
            admin: bind("--admin", args.admin).await?,
        })
    }
}

async fn bind(option: &str, address: SocketAddr) -> Result<TcpListener, String> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| {
        format!("cannot listen on {address}: {error}; choose another address with {option}")
    })
}

/// The address a listener got.
pub(super) fn address(listener: &TcpListener) -> SocketAddr {
    listener
        .local_addr()
        .expect("a listener that is bound has an address")
}

/// The token that the admin port wants, if any; an error when it needs one and has none.
pub(super) fn admin_token(admin: SocketAddr) -> Result<Option<String>, String> {
    let token = std::env::var(TOKEN_VARIABLE)
        .ok()
        .filter(|token| !token.is_empty());
    match token {
        None if admin.ip().is_loopback() => Ok(None),
        None => Err(format!(
            "the admin address {admin} can be reached from elsewhere and {TOKEN_VARIABLE} is not set; \
             set it to a secret of at least {TOKEN_MIN} characters, or use a loopback address"
        )),
        Some(token) if token.len() < TOKEN_MIN => Err(format!(
            "{TOKEN_VARIABLE} has {} characters; it must have at least {TOKEN_MIN}",
            token.len()
        )),
        Some(token) => Ok(Some(token)),
    }
}
