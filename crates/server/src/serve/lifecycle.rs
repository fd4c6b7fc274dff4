//! The life of the service: it starts, listens to signals, and leaves without breaking a
//! connection.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;

use super::listeners::{self as ports, Ports};
use super::{Service, banner};
use crate::admin::{self, AdminFront};
use crate::alerts;
use crate::cli::ServeArgs;
use crate::grpc;
use crate::http::HttpFront;
use crate::listen::{self, ListenProtocol, ShutdownHandle, ShutdownPhase, ShutdownSignal};
use crate::reload;

/// How long whoever comes is still let in after the service said that it leaves: until a balancer
/// has noticed.
const LAST_CALL: Duration = Duration::from_millis(500);
/// How often the store is asked whether it is there.
const PROBE_EVERY: Duration = Duration::from_millis(500);
/// How often while it is not, so that its return is known soon, whether or not clients ask.
const PROBE_AWAY_EVERY: Duration = Duration::from_millis(200);
/// How long giving back what was taken in advance may take, at most.
const HAND_BACK: Duration = Duration::from_secs(2);
/// How long the start waits for a store to answer before it goes on without. Whoever asks meanwhile
/// waits too.
const STORE_PATIENCE: Duration = Duration::from_secs(1);

/// Runs a service until a signal ends it.
pub(super) async fn live(service: Arc<Service>, args: &ServeArgs) -> Result<ExitCode, String> {
    let ports = Ports::bind(args).await?;
    let token = ports::admin_token(ports::address(&ports.admin))?;
    let (stopper, stop) = ShutdownHandle::new();
    let mut signals =
        Signals::new().map_err(|error| format!("cannot listen to signals: {error}"))?;
    if !service.gate.active().store.ready(STORE_PATIENCE).await {
        tracing::warn!(
            "the store does not answer yet; limits answer by their failure policies until it does"
        );
    }
    announce(&service, &ports);
    let mut tasks = JoinSet::new();
    start_fronts(&service, ports, token, &stop, &mut tasks);
    tasks.spawn(reload::watch(service.reloader.clone(), stop.clone()));
    tasks.spawn(watch_store(service.clone(), stop.clone()));
    tasks.spawn(alerts::watch(
        service.gate.clone(),
        service.alerts.clone(),
        stop.clone(),
    ));
    tasks.spawn(admin::watch(service.clone(), stop.clone()));

    signals.until_the_end(&service).await;
    service.readiness.leave();
    stopper.say(ShutdownPhase::Draining);
    tracing::info!("leaving: requests under way are finished, new ones are asked to go elsewhere");
    tokio::time::sleep(LAST_CALL).await;
    stopper.say(ShutdownPhase::Closing);
    let drain = service.gate.active().config.server.drain_timeout;
    let all_gone = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(drain, all_gone).await.is_err() {
        tracing::warn!("some connections did not end in time and are cut");
        stopper.say(ShutdownPhase::Expired);
    }
    return_leases(&service).await;
    Ok(ExitCode::SUCCESS)
}

/// Gives the other replicas what this one has taken in advance and will not use.
async fn return_leases(service: &Service) {
    let limiter = service.gate.active().limiter.clone();
    match tokio::time::timeout(HAND_BACK, limiter.return_leases()).await {
        Ok(Ok(())) => {}
        Ok(Err(_)) | Err(_) => {
            tracing::warn!(
                "not everything that was taken in advance could be given back; the store frees it within two seconds"
            );
        }
    }
}

fn start_fronts(
    service: &Arc<Service>,
    ports: Ports,
    token: Option<String>,
    stop: &ShutdownSignal,
    tasks: &mut JoinSet<()>,
) {
    let http = Arc::new(HttpFront::new(
        service.gate.clone(),
        service.readiness.clone(),
    ));
    tasks.spawn(listen::run(
        ports.http,
        ListenProtocol::Http1,
        http,
        service.load.clone(),
        stop.clone(),
    ));
    tasks.spawn(grpc::run(
        ports.grpc,
        service.gate.clone(),
        service.load.clone(),
        stop.clone(),
    ));
    let admin = Arc::new(AdminFront::new(service.clone(), token));
    tasks.spawn(listen::run(
        ports.admin,
        ListenProtocol::Http1,
        admin,
        admin::load(&service.load),
        stop.clone(),
    ));
}

/// Says where the service is. Whoever has closed standard output does not want to know.
fn announce(service: &Service, ports: &Ports) {
    let running = service.gate.active();
    let [http, grpc, admin] = [&ports.http, &ports.grpc, &ports.admin].map(ports::address);
    let text = banner::text(&running.config, running.store.kind(), http, grpc, admin);
    let mut output = std::io::stdout().lock();
    drop(
        output
            .write_all(text.as_bytes())
            .and_then(|()| output.flush()),
    );
}

/// Keeps an eye on the store, so that its state is known while nobody asks.
async fn watch_store(service: Arc<Service>, mut stop: ShutdownSignal) {
    loop {
        let running = service.gate.active();
        running.probe().await;
        let pause = if running.limiter.health().degraded {
            PROBE_AWAY_EVERY
        } else {
            PROBE_EVERY
        };
        tokio::select! {
            () = stop.reached(ShutdownPhase::Draining) => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// The signals that the service listens to.
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

    /// ReloadStatus as often as it is asked to, until it is asked to end.
    async fn until_the_end(&mut self, service: &Service) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                // What became of it is logged, counted and shown.
                _ = self.hang_up.recv() => drop(service.reloader.reload().await),
            }
        }
    }
}
