//! The life of the service: start, signals, and a graceful shutdown.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tollgate_gate::Gate;
use tollgate_rules::config::AccessConfig;

use super::actions;
use super::args::ServeArgs;
use super::listeners::Listeners;
use super::{probe, sample_request};
use crate::admin::AdminFront;
use crate::alerts;
use crate::fleet;
use crate::fleet_top;
use crate::grpc;
use crate::http::HttpFront;
use crate::listen::{self, ListenProtocol, ShutdownHandle, ShutdownPhase, ShutdownSignal};
use crate::reload;
use crate::resp;
use crate::service::Service;

/// How long new connections are still accepted after `/readyz` fails: until a load balancer has
/// noticed.
const ACCEPT_WHILE_DRAINING: Duration = Duration::from_millis(500);
/// How long returning the leases may take at shutdown.
const RETURN_LEASES_TIMEOUT: Duration = Duration::from_secs(2);
/// How long saving the snapshot may take at shutdown. After that, the previous one stays.
const SAVE_SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the start waits for the store before it listens. After that the service starts without
/// it, and the limits' failure policies decide.
const STORE_START_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs the service until a signal ends it.
pub(super) async fn run(service: Arc<Service>, args: &ServeArgs) -> Result<(), String> {
    let failed = |error| format!("cannot install signal handlers: {error}");
    let stopped = until_stopped().map_err(failed)?;
    let hang_up = signal(SignalKind::hangup()).map_err(failed)?;

    actions::keep(&service.gate, args.state_dir.as_deref())?;
    // Before it listens, because it could not answer meanwhile. If the store is unavailable, the
    // first probe logs it.
    let ready = service.gate.wait_until_ready(STORE_START_TIMEOUT).await;
    ready.map_err(|error| error.to_string())?;
    actions::read_first(&service.gate).await;
    let listeners = Listeners::bind(args).await?;
    print_banner(&service.gate, &listeners);
    warn_about_open_ports(&service.gate.active().config.server.access, &listeners);

    let name = args
        .name
        .clone()
        .unwrap_or_else(|| default_name(&listeners));
    service.fleet.set_name(name, service.started_at);
    let (handle, shutdown) = ShutdownHandle::new();
    let mut tasks = start(&service, listeners, &shutdown);
    tasks.spawn(reload::watch(service.reloader.clone(), hang_up, shutdown));
    stopped.await;
    drain(&service, &handle, &mut tasks).await;

    let audit_log = service.audit_log.clone();
    // Waits for a slow output at most a second, and no task does.
    drop(tokio::task::spawn_blocking(move || audit_log.finish()).await);
    let returned = timeout(RETURN_LEASES_TIMEOUT, service.gate.return_leases()).await;
    if !matches!(returned, Ok(Ok(()))) {
        tracing::warn!("could not return all leased units: they count as spent");
    }
    let saved = timeout(SAVE_SNAPSHOT_TIMEOUT, service.gate.save_snapshot()).await;
    if saved.is_err() {
        tracing::error!("saving the snapshot takes too long: the previous one stays");
    }
    Ok(())
}

/// The name of a replica that was given none: the host's name and the HTTP port.
fn default_name(listeners: &Listeners) -> String {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy().into_owned();
    format!("{host}:{}", listeners.addresses()[0].port())
}

/// Starts the fronts and the periodic tasks.
fn start(service: &Arc<Service>, listeners: Listeners, shutdown: &ShutdownSignal) -> JoinSet<()> {
    let Service {
        gate,
        load,
        tls,
        readiness,
        ..
    } = &**service;
    let http = HttpFront::new(gate.clone(), readiness.clone(), listeners.addresses()[0]);
    let admin = Arc::new(AdminFront::new(service.clone(), listeners.admin_tokens));
    let mut tasks = JoinSet::new();

    tasks.spawn(listen::run(
        listeners.http,
        ListenProtocol::Http1,
        tls.http.clone(),
        Arc::new(http),
        load.http.clone(),
        shutdown.clone(),
    ));
    tasks.spawn(grpc::run(
        listeners.grpc,
        tls.grpc.clone(),
        gate.clone(),
        load.grpc.clone(),
        shutdown.clone(),
    ));
    if let Some(listener) = listeners.resp {
        tasks.spawn(resp::run(
            listener,
            tls.resp.clone(),
            gate.clone(),
            load.resp.clone(),
            shutdown.clone(),
        ));
    }
    tasks.spawn(listen::run(
        listeners.admin,
        ListenProtocol::Http1,
        // The admin port has no TLS: it is for this machine, or behind a proxy.
        Arc::default(),
        admin.clone(),
        load.admin.clone(),
        shutdown.clone(),
    ));

    tasks.spawn(admin.watch(shutdown.clone()));
    start_watches(service, &mut tasks, shutdown);
    tasks
}

/// Starts the periodic tasks.
fn start_watches(service: &Service, tasks: &mut JoinSet<()>, shutdown: &ShutdownSignal) {
    let Service {
        gate,
        tls,
        alerts,
        fleet,
        fleet_top,
        ..
    } = service;

    tasks.spawn(alerts::watch(
        gate.clone(),
        alerts.clone(),
        fleet.clone(),
        shutdown.clone(),
    ));
    tasks.spawn(fleet::watch(gate.clone(), fleet.clone(), shutdown.clone()));
    tasks.spawn(reload::watch_tls(
        gate.clone(),
        tls.clone(),
        shutdown.clone(),
    ));
    tasks.spawn(fleet_top::watch(
        gate.clone(),
        fleet_top.clone(),
        shutdown.clone(),
    ));
    tasks.spawn(probe::watch(gate.clone(), shutdown.clone()));
    tasks.spawn(actions::watch(
        gate.clone(),
        fleet.clone(),
        shutdown.clone(),
    ));
    tasks.spawn(save_snapshots(gate.clone(), shutdown.clone()));
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
    if timeout(drain_timeout, all_ended).await.is_err() {
        tracing::warn!("drain timeout reached: closing the remaining connections");
        handle.enter(ShutdownPhase::Expired);
    }
}

/// Prints the service's addresses, and a command to try. Ignores errors: standard output may be
/// closed.
fn print_banner(gate: &Gate, listeners: &Listeners) {
    let active = gate.active();
    let limits = match active.config.limits.len() {
        1 => "1 limit".to_owned(),
        count => format!("{count} limits"),
    };
    let store = gate.store_state().kind;
    let [http, grpc, admin] = listeners.addresses();
    let access = &active.config.server.access;
    let (scheme, resp_scheme) = if access.tls.is_some() {
        ("https", "rediss")
    } else {
        ("http", "redis")
    };
    let resp = listeners.resp_address();
    let resp = resp.map(|address| format!("  resp   {resp_scheme}://{address}\n"));
    let resp = resp.unwrap_or_default();
    let token = if access.tokens.is_empty() {
        ""
    } else {
        " -H \"Authorization: Bearer $TOLLGATE_TOKEN\""
    };
    // Inside of single quotes, a shell leaves everything else as it is.
    let body = sample_request::body(&active.selector).replace('\'', r"'\''");
    let text = format!(
        "tollgate {}: {limits}, store: {store}\n  \
           http   {scheme}://{http}\n  \
           grpc   {scheme}://{grpc}\n  \
           admin  http://{admin}\n\
         {resp}\
         try:  curl -i {scheme}://{http}/v1/check{token} -d '{body}'\n",
        env!("CARGO_PKG_VERSION")
    );

    let mut output = std::io::stdout().lock();
    let written = output.write_all(text.as_bytes());
    drop(written.and_then(|()| output.flush()));
}

/// Logs one warning if other machines can use the data ports without TLS or without identifying
/// themselves.
fn warn_about_open_ports(access: &AccessConfig, listeners: &Listeners) {
    let [http, grpc, _] = listeners.addresses();
    let resp = listeners.resp_address().map(|address| ("resp", address));
    let ports = [("http", http), ("grpc", grpc)].into_iter().chain(resp);
    let exposed: Vec<String> = ports
        .filter(|(_, address)| !address.ip().to_canonical().is_loopback())
        .map(|(name, address)| format!("{name} ({address})"))
        .collect();

    let client_ca = access.tls.as_ref().and_then(|tls| tls.client_ca.as_ref());
    let is_anonymous = access.tokens.is_empty() && client_ca.is_none();
    let missing = match (&access.tls, is_anonymous) {
        _ if exposed.is_empty() => return,
        (Some(_), false) => return,
        (None, true) => {
            "without TLS (server.tls) and without a token (server.tokens), and so charge and \
             refund any key"
        }
        (None, false) => "without TLS (server.tls), which would keep tokens secret",
        (Some(_), true) => {
            "without a token (server.tokens) or client certificate, and so charge and refund any \
             key"
        }
    };
    tracing::warn!(
        ports = exposed.join(", "),
        "other machines can use the data ports {missing}"
    );
}

/// Saves the counters of a memory store periodically. A save in progress does not delay the
/// shutdown, which saves once more.
async fn save_snapshots(gate: Arc<Gate>, mut shutdown: ShutdownSignal) {
    let Some(interval) = gate.snapshot_interval() else {
        return;
    };
    let save_forever = async {
        loop {
            tokio::time::sleep(interval).await;
            gate.save_snapshot().await;
        }
    };

    tokio::select! {
        () = save_forever => {}
        () = shutdown.wait_for(ShutdownPhase::Draining) => {}
    }
}

/// Installs the handlers of SIGTERM and SIGINT. The future ends on either.
fn until_stopped() -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;

    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
