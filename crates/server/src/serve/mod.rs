//! `tollgate serve`: starts the service from its arguments and runs it until it is stopped.

mod banner;
mod lifecycle;
mod listeners;

use std::process::ExitCode;
use std::sync::Arc;

use tollgate_rules::Config;

use crate::admin::Dashboard;
use crate::alerts::Alerts;
use crate::cli::ServeArgs;
use crate::gate::Gate;
use crate::http::Readiness;
use crate::listen::{ListenLimits, ServerLoad};
use crate::metrics::Metrics;
use crate::reload::{self, Reloader};
use crate::traces::TraceExporter;

/// The exit code when the service cannot start: an invalid configuration, a port in use.
const EXIT_USAGE: u8 = 2;

/// Everything the fronts share.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) gate: Arc<Gate>,
    pub(crate) reloader: Arc<Reloader>,
    pub(crate) load: Arc<ServerLoad>,
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) alerts: Arc<Alerts>,
    pub(crate) dashboard: Dashboard,
    /// When the service started, by the gate's clock.
    pub(crate) started_at: tollgate::Micros,
}

/// Runs the service until a signal stops it.
pub(crate) fn run(args: &ServeArgs) -> ExitCode {
    try_run(args).unwrap_or_else(|reason| {
        crate::commands::terminal::print_error(&format!("error: {reason}"));
        ExitCode::from(EXIT_USAGE)
    })
}

fn try_run(args: &ServeArgs) -> Result<ExitCode, String> {
    raise_file_limit();
    let config = match &args.config {
        None => Config::built_in(),
        Some(file) => reload::read(file).map_err(|error| error.to_string())?,
    };

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))?;
    let _inside = runtime.enter();

    let tracing = config.monitoring.tracing.as_ref();
    let traces = tracing.map(TraceExporter::start).transpose()?;
    crate::logs::start(args.log_format, traces.as_ref());
    reload::log_notes(&config);

    let result = Service::open(config, args)
        .and_then(|service| runtime.block_on(lifecycle::run(Arc::new(service), args)));
    if let Some(traces) = traces {
        traces.finish();
    }
    result
}

/// Raises the limit of open files to the most the system grants: every connection needs one, and
/// the usual 1,024 are too few.
fn raise_file_limit() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // Without it the service works, with fewer connections.
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, raised);
}

impl Service {
    fn open(config: Config, args: &ServeArgs) -> Result<Self, String> {
        let load = ServerLoad::new(ListenLimits {
            connections_max: config.server.connections_max,
            in_flight_max: config.server.in_flight_max,
            header_timeout: config.server.header_timeout,
            idle_timeout: config.server.idle_timeout,
        });

        let gate =
            Gate::open(config, Arc::new(Metrics::new())).map_err(|error| error.to_string())?;
        let gate = Arc::new(gate);
        let reloader = Arc::new(Reloader::new(gate.clone(), args.config.clone()));
        let started_at = gate.now();

        Ok(Self {
            gate,
            reloader,
            load,
            readiness: Arc::default(),
            alerts: Arc::default(),
            dashboard: Dashboard::default(),
            started_at,
        })
    }
}
