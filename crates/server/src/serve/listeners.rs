//! Binds the ports before the first request is answered.

use std::net::SocketAddr;

use tokio::net::TcpListener;
use tollgate_rules::{TOKEN_MIN, TokenHash};

use super::args::ServeArgs;
use crate::admin::AdminTokens;

/// The environment variable with the admin token.
const TOKEN_VARIABLE: &str = "TOLLGATE_ADMIN_TOKEN";
/// The environment variable with the token that may only view.
const VIEW_TOKEN_VARIABLE: &str = "TOLLGATE_ADMIN_VIEW_TOKEN";

/// The listeners of the ports.
#[derive(Debug)]
pub(super) struct Listeners {
    pub(super) http: TcpListener,
    pub(super) grpc: TcpListener,
    pub(super) admin: TcpListener,
    /// None unless the port is turned on.
    pub(super) resp: Option<TcpListener>,
    /// The tokens that the admin port requires, if they are set.
    pub(super) admin_tokens: Option<AdminTokens>,
}

impl Listeners {
    pub(super) async fn bind(args: &ServeArgs) -> Result<Self, String> {
        let http = bind("--http", args.http).await?;
        let grpc = bind("--grpc", args.grpc).await?;
        let admin = bind("--admin", args.admin).await?;
        let resp = match args.resp {
            Some(resp) => Some(bind("--resp", resp).await?),
            None => None,
        };

        Ok(Self {
            http,
            grpc,
            admin_tokens: admin_tokens(address(&admin))?,
            admin,
            resp,
        })
    }

    /// The addresses of the HTTP, gRPC and admin ports.
    pub(super) fn addresses(&self) -> [SocketAddr; 3] {
        [&self.http, &self.grpc, &self.admin].map(address)
    }

    /// The address of the RESP port, if it is turned on.
    pub(super) fn resp_address(&self) -> Option<SocketAddr> {
        self.resp.as_ref().map(address)
    }
}

async fn bind(option: &str, address: SocketAddr) -> Result<TcpListener, String> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|error| {
        format!("cannot listen on {address}: {error}; choose another address with {option}")
    })
}

fn address(listener: &TcpListener) -> SocketAddr {
    listener
        .local_addr()
        .expect("a bound listener has an address")
}

/// The tokens from the environment. An admin port that is not on a loopback address must have one.
fn admin_tokens(admin: SocketAddr) -> Result<Option<AdminTokens>, String> {
    let view = token(VIEW_TOKEN_VARIABLE)?;
    let Some(act) = token(TOKEN_VARIABLE)? else {
        if view.is_some() {
            return Err(format!(
                "{VIEW_TOKEN_VARIABLE} is set and {TOKEN_VARIABLE} is not, so everyone could act; \
                 set both, to different secrets of at least {TOKEN_MIN} characters"
            ));
        }
        if admin.ip().is_loopback() {
            return Ok(None);
        }
        return Err(format!(
            "the admin address {admin} is not a loopback address and {TOKEN_VARIABLE} is not set; \
             set it to a secret of at least {TOKEN_MIN} characters, or use a loopback address"
        ));
    };
    Ok(Some(AdminTokens { act, view }))
}

/// The token in a variable; none if it is empty.
fn token(variable: &str) -> Result<Option<TokenHash>, String> {
    let token = std::env::var_os(variable).unwrap_or_default();
    if token.is_empty() {
        return Ok(None);
    }

    // What is not UTF-8 is not printable ASCII either.
    TokenHash::from_token(&token.to_string_lossy())
        .map(Some)
        .map_err(|error| format!("invalid token in {variable}: {error}"))
}
