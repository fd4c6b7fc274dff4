//! Binds the three ports before the first request is answered.

use std::net::SocketAddr;

use tokio::net::TcpListener;

use crate::cli::ServeArgs;

/// The environment variable with the admin token.
const TOKEN_VARIABLE: &str = "TOLLGATE_ADMIN_TOKEN";
/// The fewest characters of a token; shorter ones can be guessed.
const TOKEN_MIN: usize = 16;

/// The listeners of the three ports.
#[derive(Debug)]
pub(super) struct Listeners {
    pub(super) http: TcpListener,
    pub(super) grpc: TcpListener,
    pub(super) admin: TcpListener,
}

impl Listeners {
    pub(super) async fn bind(args: &ServeArgs) -> Result<Self, String> {
        Ok(Self {
            http: bind("--http", args.http).await?,
            grpc: bind("--grpc", args.grpc).await?,
            admin: bind("--admin", args.admin).await?,
        })
    }
}

async fn bind(option: &str, address: SocketAddr) -> Result<TcpListener, String> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|error| {
        format!("cannot listen on {address}: {error}; choose another address with {option}")
    })
}

/// The address that a listener is bound to.
pub(super) fn address(listener: &TcpListener) -> SocketAddr {
    listener
        .local_addr()
        .expect("a bound listener has an address")
}

/// The token that the admin port requires, if one is set. An admin port that is not on a loopback
/// address must have one.
pub(super) fn admin_token(admin: SocketAddr) -> Result<Option<String>, String> {
    let token = std::env::var(TOKEN_VARIABLE)
        .ok()
        .filter(|token| !token.is_empty());

    match token {
        None if admin.ip().is_loopback() => Ok(None),
        None => Err(format!(
            "the admin address {admin} is not a loopback address and {TOKEN_VARIABLE} is not set; \
             set it to a secret of at least {TOKEN_MIN} characters, or use a loopback address"
        )),
        Some(token) if token.len() < TOKEN_MIN => Err(format!(
            "{TOKEN_VARIABLE} has {} characters; it must have at least {TOKEN_MIN}",
            token.len()
        )),
        Some(token) => Ok(Some(token)),
    }
}
