//! `tollgate serve`: starts the service from its arguments and runs it until it is stopped.

mod actions;
mod args;
mod lifecycle;
mod listeners;
mod probe;
mod sample_request;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::Runtime;
use tollgate_rules::Config;

pub(crate) use self::args::ServeArgs;
use crate::reload::{ConfigFile, TlsSettings};
use crate::service::Service;
use crate::traces::TraceExporter;
use crate::{logs, reload};

/// Runs the service until a signal stops it, or returns why it cannot start.
pub(crate) fn run(args: &ServeArgs) -> Result<(), String> {
    raise_file_limit();
    let (config, file) = match &args.config {
        None => (Config::built_in(), None),
        Some(file) => {
            let (config, file) = ConfigFile::open(file).map_err(|error| error.to_string())?;
            (config, Some(file))
        }
    };

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))?;
    let result = run_on(&runtime, args, config, file);

    // Does not wait for threads that hang in the file system or in a name lookup.
    runtime.shutdown_background();
    result
}

fn run_on(
    runtime: &Runtime,
    args: &ServeArgs,
    config: Config,
    file: Option<ConfigFile>,
) -> Result<(), String> {
    let tls = TlsSettings::read(&config).map_err(|error| error.to_string())?;
    let _inside = runtime.enter();
    let tracing = config.monitoring.tracing.as_ref();
    let traces = tracing.map(TraceExporter::start).transpose()?;
    let _logs = logs::start(args.log_format, traces.as_ref());
    reload::log_warnings(&config);

    let service = Service::open(config, file, tls.as_ref()).map_err(|error| error.to_string());
    let result = service.and_then(|service| runtime.block_on(lifecycle::run(service.into(), args)));
    if let Some(traces) = traces {
        traces.finish();
    }
    result
}

/// Raises the limit of open files to the most the system grants: every connection needs one, and
/// the usual 1,024 are too few.
fn raise_file_limit() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    // Without it the service works, with fewer connections.
    let _ = setrlimit(Resource::Nofile, raised);
}
