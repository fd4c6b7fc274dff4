//! `tollgate serve`: from arguments to a running service, and to its end.

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

/// The command was understood and cannot be carried out: a wrong configuration, a port that is
/// taken.
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
    /// When it began, on the gate's clock.
    pub(crate) since: tollgate::Micros,
}

/// Runs the service until it is told to stop.
pub(crate) fn run(args: &ServeArgs) -> ExitCode {
    raise_file_limit();
    let config = match &args.config {
        None => Config::built_in(),
        Some(file) => match reload::read(file) {
            Ok(config) => config,
            Err(faults) => return refuse(&faults.to_string()),
        },
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return refuse(&format!("cannot start: {error}")),
    };
    let _inside = runtime.enter();
    let traces = match config
        .monitoring
        .tracing
        .as_ref()
        .map(TraceExporter::start)
        .transpose()
    {
        Ok(traces) => traces,
        Err(reason) => return refuse(&reason),
    };
    crate::logs::start(args.log_format, traces.as_ref());
    reload::tell_notes(&config);
    let lived = match Service::open(config, args) {
        Ok(service) => runtime.block_on(lifecycle::live(Arc::new(service), args)),
        Err(reason) => Err(reason),
    };
    if let Some(traces) = traces {
        traces.finish();
    }
    lived.unwrap_or_else(|reason| refuse(&reason))
}

/// Takes as many open files as the system grants: every connection is one, and the usual 1,024 are
/// few.
fn raise_file_limit() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // Where it is not granted, there is room for fewer connections.
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, raised);
}

fn refuse(reason: &str) -> ExitCode {
    crate::commands::terminal::complain(&format!("error: {reason}"));
    ExitCode::from(EXIT_USAGE)
}

impl Service {
    fn open(config: Config, args: &ServeArgs) -> Result<Self, String> {
        let load = ServerLoad::new(ListenLimits {
            connections_max: config.server.connections_max,
            in_flight_max: config.server.in_flight_max,
            header_timeout: config.server.header_timeout,
            idle_timeout: config.server.idle_timeout,
        });
        let gate = Arc::new(
            Gate::open(config, Arc::new(Metrics::new())).map_err(|error| error.to_string())?,
        );
        let reloader = Arc::new(Reloader::new(gate.clone(), args.config.clone()));
        let since = gate.now();
        Ok(Self {
            gate,
            reloader,
            load,
            readiness: Arc::default(),
            alerts: Arc::default(),
            dashboard: Dashboard::default(),
            since,
        })
    }
}
