//! The server that is measured: axum's hello, and one layer before it or none. A process of its
//! own, so that subjects share no threads, allocator or caches.

use std::env;
use std::net::SocketAddr;
use std::process::Command;

use anyhow::Result;
use axum::Router;
use axum::routing::get;
use testkit::servers::{Flavor, Server};

use super::subject::{self, Case, Subject};
use crate::harness::{ServerUnderLoad, server, word};

/// Connections of the load generator, each with one request in flight.
const CONNECTIONS: u32 = 32;

#[derive(Debug, clap::Args)]
pub(crate) struct HelloArguments {
    #[arg(long, value_enum)]
    subject: Subject,
    #[arg(long, value_enum)]
    case: Case,
    /// Where limits are shared.
    #[arg(long)]
    redis: Option<String>,
}

/// Starts this program again as the server, and waits until it responds as the case says.
pub(super) fn start(subject: Subject, case: Case) -> Result<ServerUnderLoad> {
    let redis = (!subject.is_local()).then(|| Server::start(Flavor::Redis));
    let mut command = Command::new(env::current_exe()?);
    command.args(["hello", "--subject", &word(&subject)]);
    command.args(["--case", &word(&case)]);
    if let Some(redis) = &redis {
        command.args(["--redis", &redis.url()]);
    }
    let server = ServerUnderLoad::start(subject.name(), command, CONNECTIONS, case.status())?;
    Ok(ServerUnderLoad { redis, ..server })
}

/// Answers until it is killed.
pub(crate) fn run_hello(arguments: &HelloArguments) -> Result<()> {
    server::serve(async |listener| {
        let app = app(
            arguments.subject,
            arguments.case,
            arguments.redis.as_deref(),
        )?;
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        Ok(axum::serve(listener, app).await?)
    })
}

fn app(subject: Subject, case: Case, redis: Option<&str>) -> Result<Router> {
    let response = subject.handler_response(case);
    let hello = Router::new().route("/", get(async move || response));
    Ok(match subject {
        Subject::Bare => hello,
        Subject::Governor => hello.layer(subject::governor(case)),
        Subject::GovernorTelling => hello.layer(subject::governor_telling(case)),
        _ => hello.layer(subject::tollgate(subject, case, redis)?),
    })
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;
    use testkit::reverse_proxy;
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn everybody_answers_what_the_case_is_about() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        for subject in Subject::local() {
            for case in Case::value_variants().iter().copied() {
                let app = app(subject, case, None).unwrap();
                let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
                let addr = listener.local_addr().unwrap();
                let app = app.into_make_service_with_connect_info::<SocketAddr>();
                runtime.spawn(axum::serve(listener, app).into_future());
                let first = reverse_proxy::get(addr, "/", &[]);
                assert!(
                    subject == Subject::Bare || first.status == 200,
                    "{subject:?}, {case:?}"
                );
                let then = reverse_proxy::get(addr, "/", &[]);
                assert_eq!(then.status, case.status(), "{subject:?}, {case:?}");
                let tells = matches!(subject, Subject::Memory | Subject::GovernorTelling);
                assert_eq!(
                    then.header("x-ratelimit-remaining").is_some(),
                    tells,
                    "{subject:?}, {case:?}"
                );
            }
        }
    }
}
