//! The life of the service: start, signals, and a graceful shutdown.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;

use super::listeners::{self, Listeners};
use super::{Service, banner};
use crate::admin::{self, AdminFront};
use crate::alerts;
use crate::cli::ServeArgs;
use crate::grpc;
use crate::http::HttpFront;
use crate::listen::{self, ListenProtocol, ShutdownHandle, ShutdownPhase, ShutdownSignal};
use crate::reload;

/// How long new connections are still accepted after `/readyz` fails: until a load balancer has
/// noticed.
const ACCEPT_WHILE_DRAINING: Duration = Duration::from_millis(500);
/// How often the store is probed.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);
/// How often it is probed while it is unavailable, so that its return is noticed soon.
const PROBE_INTERVAL_DEGRADED: Duration = Duration::from_millis(200);
/// How long returning the leases may take at shutdown.
const RETURN_LEASES_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the start waits for the store. After that the service starts without it.
const STORE_START_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs the service until a signal ends it.
pub(super) async fn run(service: Arc<Service>, args: &ServeArgs) -> Result<ExitCode, String> {
    let listeners = Listeners::bind(args).await?;
    let token = listeners::admin_token(listeners::address(&listeners.admin))?;
    let mut signals =
        Signals::new().map_err(|error| format!("cannot install signal handlers: {error}"))?;

    if !service
        .gate
        .active()
        .store
        .wait_until_ready(STORE_START_TIMEOUT)
        .await
    {
        tracing::warn!(
            "the store is unavailable: limits decide by their failure policy until it is available"
        );
    }
    print_banner(&service, &listeners);

    let (handle, shutdown) = ShutdownHandle::new();
    let mut tasks = JoinSet::new();
    start_fronts(&service, listeners, token, &shutdown, &mut tasks);
    start_watchers(&service, &shutdown, &mut tasks);

    signals.wait_for_shutdown(&service).await;
    drain(&service, &handle, &mut tasks).await;
    return_leases(&service).await;
    Ok(ExitCode::SUCCESS)
}

/// Ends all tasks: first gracefully, after the drain timeout by force.
async fn drain(service: &Service, handle: &ShutdownHandle, tasks: &mut JoinSet<()>) {
    service.readiness.start_draining();
    handle.enter(ShutdownPhase::Draining);
    tracing::info!("shutting down: draining connections");

    tokio::time::sleep(ACCEPT_WHILE_DRAINING).await;
    handle.enter(ShutdownPhase::Closing);

    let drain_timeout = service.gate.active().config.server.drain_timeout;
    let all_ended = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(drain_timeout, all_ended)
        .await
        .is_err()
    {
        tracing::warn!("drain timeout reached: closing the remaining connections");
        handle.enter(ShutdownPhase::Expired);
    }
}

/// Returns leased units that this replica will not use, so that other replicas can.
async fn return_leases(service: &Service) {
    let limiter = service.gate.active().limiter.clone();
    match tokio::time::timeout(RETURN_LEASES_TIMEOUT, limiter.return_leases()).await {
        Ok(Ok(())) => {}
        Ok(Err(_)) | Err(_) => {
            tracing::warn!(
                "could not return all leased units; the store frees them within two seconds"
            );
        }
    }
}

fn start_fronts(
    service: &Arc<Service>,
    listeners: Listeners,
    token: Option<String>,
    shutdown: &ShutdownSignal,
    tasks: &mut JoinSet<()>,
) {
    let http = HttpFront::new(service.gate.clone(), service.readiness.clone());
    tasks.spawn(listen::run(
        listeners.http,
        ListenProtocol::Http1,
        Arc::new(http),
        service.load.clone(),
        shutdown.clone(),
    ));

    tasks.spawn(grpc::run(
        listeners.grpc,
        service.gate.clone(),
        service.load.clone(),
        shutdown.clone(),
    ));

    let admin = AdminFront::new(service.clone(), token);
    tasks.spawn(listen::run(
        listeners.admin,
        ListenProtocol::Http1,
        Arc::new(admin),
        admin::admin_load(&service.load),
        shutdown.clone(),
    ));
}

fn start_watchers(service: &Arc<Service>, shutdown: &ShutdownSignal, tasks: &mut JoinSet<()>) {
    tasks.spawn(reload::watch(service.reloader.clone(), shutdown.clone()));
    tasks.spawn(watch_store(service.clone(), shutdown.clone()));
    tasks.spawn(alerts::watch(
        service.gate.clone(),
        service.alerts.clone(),
        shutdown.clone(),
    ));
    tasks.spawn(admin::watch(service.clone(), shutdown.clone()));
}

/// Prints the service's addresses. Ignores errors: standard output may be closed.
fn print_banner(service: &Service, listeners: &Listeners) {
    let active = service.gate.active();
    let [http, grpc, admin] =
        [&listeners.http, &listeners.grpc, &listeners.admin].map(listeners::address);
    let text = banner::text(&active.config, active.store.kind(), http, grpc, admin);

    let mut output = std::io::stdout().lock();
    drop(
        output
            .write_all(text.as_bytes())
            .and_then(|()| output.flush()),
    );
}

/// Probes the store, so that its health is known even while there is no traffic.
async fn watch_store(service: Arc<Service>, mut shutdown: ShutdownSignal) {
    loop {
        let active = service.gate.active();
        active.probe().await;

        let pause = if active.limiter.health().degraded {
            PROBE_INTERVAL_DEGRADED
        } else {
            PROBE_INTERVAL
        };
        tokio::select! {
            () = shutdown.wait_for(ShutdownPhase::Draining) => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// The signals that the service handles.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Returns on SIGTERM and SIGINT. Reloads the configuration on each SIGHUP.
    async fn wait_for_shutdown(&mut self, service: &Service) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                // The reloader logs and records the result.
                _ = self.hang_up.recv() => drop(service.reloader.reload().await),
            }
        }
    }
}
