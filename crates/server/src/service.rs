//! What the parts of the running service share.

use std::sync::Arc;

use tollgate::Micros;
use tollgate_gate::metrics::Metrics;
use tollgate_gate::{Gate, StoreOpenError};
use tollgate_rules::Config;
use tollgate_rules::config::ServerConfig;

use crate::alerts::Alerts;
use crate::audit_log::{AuditLog, AuditLogError};
use crate::fleet::Fleet;
use crate::fleet_top::FleetTop;
use crate::http::Readiness;
use crate::listen::{ListenLimits, PortLoad};
use crate::reload::{ConfigFile, DataPortTls, Reloader, TlsSettings};

/// The most connections to the admin port.
const ADMIN_CONNECTIONS_MAX: usize = 256;
/// The most requests in flight on the admin port.
const ADMIN_IN_FLIGHT_MAX: usize = 64;

/// Why the service cannot start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServiceOpenError {
    #[error(transparent)]
    Store(#[from] StoreOpenError),
    #[error(transparent)]
    AuditLog(#[from] AuditLogError),
}

/// Everything the fronts share.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) gate: Arc<Gate>,
    pub(crate) reloader: Arc<Reloader>,
    pub(crate) load: ServiceLoad,
    pub(crate) tls: Arc<DataPortTls>,
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) alerts: Arc<Alerts>,
    pub(crate) audit_log: Arc<AuditLog>,
    pub(crate) fleet_top: Arc<FleetTop>,
    pub(crate) fleet: Arc<Fleet>,
    /// When the service started, by the gate's clock.
    pub(crate) started_at: Micros,
}

impl Service {
    /// Opens the store. Must be called inside a Tokio runtime.
    pub(crate) fn open(
        config: Config,
        file: Option<ConfigFile>,
        tls_settings: Option<&TlsSettings>,
    ) -> Result<Self, ServiceOpenError> {
        let audit_log = Arc::new(AuditLog::default());
        let prepared = audit_log.prepare(config.audit_log.as_ref())?;
        let load = ServiceLoad::new(&config.server);
        let tls = Arc::new(DataPortTls::default());
        tls.replace(tls_settings);
        let gate = Arc::new(Gate::open(config, Arc::new(Metrics::with_top_keys()))?);
        gate.observe_denials(audit_log.clone());
        audit_log.replace(prepared);

        Ok(Self {
            reloader: Arc::new(Reloader::new(
                gate.clone(),
                file,
                tls.clone(),
                audit_log.clone(),
            )),
            audit_log,
            fleet_top: Arc::default(),
            load,
            tls,
            readiness: Arc::default(),
            alerts: Arc::default(),
            fleet: Arc::default(),
            started_at: gate.now(),
            gate,
        })
    }
}

/// The load of each port. The bounds apply to each port on its own.
#[derive(Debug)]
pub(crate) struct ServiceLoad {
    pub(crate) http: Arc<PortLoad>,
    pub(crate) grpc: Arc<PortLoad>,
    pub(crate) resp: Arc<PortLoad>,
    pub(crate) admin: Arc<PortLoad>,
}

impl ServiceLoad {
    fn new(server: &ServerConfig) -> Self {
        let limits = ListenLimits {
            connections_max: server.connections_max,
            in_flight_max: server.in_flight_max,
            header_timeout: server.header_timeout,
            idle_timeout: server.idle_timeout,
        };
        let admin = ListenLimits {
            connections_max: ADMIN_CONNECTIONS_MAX,
            in_flight_max: ADMIN_IN_FLIGHT_MAX,
            ..limits
        };

        Self {
            http: PortLoad::new("http", limits),
            grpc: PortLoad::new("grpc", limits),
            resp: PortLoad::new("resp", limits),
            admin: PortLoad::new("admin", admin),
        }
    }

    /// The ports that decide requests.
    fn data_ports(&self) -> [&PortLoad; 3] {
        [&self.http, &self.grpc, &self.resp]
    }

    /// The number of open client connections.
    pub(crate) fn connections(&self) -> usize {
        self.data_ports().map(PortLoad::connections).iter().sum()
    }

    /// The number of client requests in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.data_ports().map(PortLoad::in_flight).iter().sum()
    }

    /// The number of client requests and connections rejected so far.
    pub(crate) fn shed(&self) -> u64 {
        self.data_ports().map(PortLoad::shed).iter().sum()
    }

    /// The number of idle client connections that were closed to make room for new ones.
    pub(crate) fn evicted(&self) -> u64 {
        self.data_ports().map(PortLoad::evicted).iter().sum()
    }
}
