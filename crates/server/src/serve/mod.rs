//! `tollgate serve`: from arguments to a running service, and to its end.

mod banner;
mod life;
mod ports;

use std::process::ExitCode;
use std::sync::Arc;

use tollgate_rules::Config;

use crate::cli::ServeArgs;
use crate::gate::Gate;
use crate::http::Readiness;
use crate::listen::{Limits, Load};
use crate::metrics::Meters;
use crate::reload::{self, Reloader};

/// The command was understood and cannot be carried out: a wrong configuration, a port that is taken.
const EXIT_USAGE: u8 = 2;

/// Everything the fronts share.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) gate: Arc<Gate>,
    pub(crate) reloader: Arc<Reloader>,
    pub(crate) load: Arc<Load>,
    pub(crate) readiness: Arc<Readiness>,
    /// When it began, on the gate's clock.
    pub(crate) since: tollgate::Micros,
}

/// Runs the service until it is told to stop.
pub(crate) fn run(args: &ServeArgs) -> ExitCode {
    let config = match &args.config {
        None => Config::built_in(),
        Some(file) => match reload::read(file) {
            Ok(config) => config,
            Err(faults) => return refuse(&faults.to_string()),
        },
    };
    crate::logs::start(args.log_format);
    reload::tell_notes(&config);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return refuse(&format!("cannot start: {error}")),
    };
    runtime.block_on(async {
        match Service::open(config, args) {
            Ok(service) => life::live(Arc::new(service), args).await.unwrap_or_else(|reason| refuse(&reason)),
            Err(reason) => refuse(&reason),
        }
    })
}

fn refuse(reason: &str) -> ExitCode {
    crate::commands::terminal::complain(&format!("error: {reason}"));
    ExitCode::from(EXIT_USAGE)
}

impl Service {
    fn open(config: Config, args: &ServeArgs) -> Result<Self, String> {
        let meters = Meters::new(&config.monitoring.metrics_prefix).map_err(|error| error.to_string())?;
        let load = Load::new(Limits {
            connections_max: config.server.connections_max,
            in_flight_max: config.server.in_flight_max,
            header_timeout: config.server.header_timeout,
            idle_timeout: config.server.idle_timeout,
        });
        let gate = Arc::new(Gate::open(config, Arc::new(meters)).map_err(|error| error.to_string())?);
        let reloader = Arc::new(Reloader::new(gate.clone(), args.config.clone()));
        let since = gate.now();
        Ok(Self { gate, reloader, load, readiness: Arc::default(), since })
    }
}
