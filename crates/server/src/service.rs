//! What the parts of the running service share.

use std::path::PathBuf;
use std::sync::Arc;

use tollgate::Micros;
use tollgate_rules::Config;

use crate::alerts::Alerts;
use crate::gate::{Gate, StoreOpenError};
use crate::http::Readiness;
use crate::listen::{ListenLimits, ServerLoad};
use crate::metrics::Metrics;
use crate::reload::{DataPortTls, Reloader, TlsSettings};

/// Everything the fronts share.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) gate: Arc<Gate>,
    pub(crate) reloader: Arc<Reloader>,
    pub(crate) load: Arc<ServerLoad>,
    pub(crate) tls: Arc<DataPortTls>,
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) alerts: Arc<Alerts>,
    /// When the service started, by the gate's clock.
    pub(crate) started_at: Micros,
}

impl Service {
    /// Opens the store. Must be called inside a Tokio runtime.
    pub(crate) fn open(
        config: Config,
        file: Option<PathBuf>,
        tls_settings: Option<&TlsSettings>,
    ) -> Result<Self, StoreOpenError> {
        let load = ServerLoad::new(ListenLimits {
            connections_max: config.server.connections_max,
            in_flight_max: config.server.in_flight_max,
            header_timeout: config.server.header_timeout,
            idle_timeout: config.server.idle_timeout,
        });
        let tls = Arc::new(DataPortTls::default());
        tls.replace(tls_settings);
        let gate = Arc::new(Gate::open(config, Arc::new(Metrics::new()))?);

        Ok(Self {
            reloader: Arc::new(Reloader::new(gate.clone(), file, tls.clone())),
            load,
            tls,
            readiness: Arc::default(),
            alerts: Arc::default(),
            started_at: gate.now(),
            gate,
        })
    }
}
