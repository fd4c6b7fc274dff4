//! Delivers alerts to a URL: one signed POST for each, one at a time, with bounded retries.
//!
//! Alerts wait in a bounded queue, so a receiver that is down delays nothing and costs no memory:
//! further alerts are dropped and counted.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HOST, HeaderName, USER_AGENT};
use hyper::{Method, Request, StatusCode, Uri};
use parking_lot::Mutex;
use ring::hmac;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tollgate_gate::Gate;
use tollgate_load::{ClientTls, ClientTlsError};
use tollgate_rules::config::WebhookConfig;

use super::notice::AlertNotice;
use crate::exchange::{ExchangeError, exchange};
use crate::listen::ShutdownSignal;

/// The most alerts that wait to be delivered.
const QUEUE_MAX: usize = 1_024;
/// How often an alert is sent at most.
const ATTEMPTS_MAX: u32 = 5;
/// The pause after the first failed attempt. It doubles with every further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// How long an attempt may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The most bytes that are read of a response.
const RESPONSE_MAX: usize = 64 << 10;
/// The header with the signature: `sha256=` and the HMAC-SHA256 of the body in hexadecimal digits.
const SIGNATURE: HeaderName = HeaderName::from_static("x-tollgate-signature");

/// Alerts on their way to the webhook.
#[derive(Debug)]
pub(super) struct WebhookQueue {
    sender: mpsc::Sender<AlertNotice>,
    /// Taken by the task that delivers them.
    receiver: Mutex<Option<mpsc::Receiver<AlertNotice>>>,
    counts: DeliveryCounts,
    /// The pause after the first failed attempt.
    first_pause: Duration,
}

/// What became of alerts.
#[derive(Debug, Default)]
struct DeliveryCounts {
    delivered: AtomicU64,
    /// The receiver did not accept it at any attempt.
    failed: AtomicU64,
    /// The queue was full.
    dropped: AtomicU64,
    /// Attempts that failed, also those before a successful one.
    attempts_failed: AtomicU64,
}

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
enum DeliveryError {
    #[error("invalid URL: {0}")]
    Url(String),
    #[error("{0}")]
    Tls(ClientTlsError),
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    #[error("no response within {TIMEOUT:?}")]
    Timeout,
    #[error("the receiver responded with status {0}")]
    Status(StatusCode),
}

impl DeliveryError {
    /// True when the same request may succeed later. A receiver that refuses a request will refuse
    /// it again, and a certificate stays wrong for longer than all attempts take.
    fn is_retryable(&self) -> bool {
        match self {
            Self::Url(_) => false,
            Self::Exchange(ExchangeError::Tls(error)) => error.kind() != ErrorKind::InvalidData,
            Self::Tls(_) | Self::Exchange(_) | Self::Timeout => true,
            Self::Status(status) => {
                let is_busy = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
                !status.is_client_error() || is_busy.contains(status)
            }
        }
    }
}

impl Default for WebhookQueue {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE_MAX);
        Self {
            sender,
            receiver: Mutex::new(Some(receiver)),
            counts: DeliveryCounts::default(),
            first_pause: FIRST_PAUSE,
        }
    }
}

impl WebhookQueue {
    /// Queues an alert. Never waits.
    pub(super) fn push(&self, notice: AlertNotice) {
        if self.sender.try_send(notice).is_err() {
            self.counts.dropped.fetch_add(1, Relaxed);
        }
    }

    /// What became of alerts so far, by the label `result`.
    pub(super) fn results(&self) -> [(&'static str, u64); 4] {
        let counts = &self.counts;
        [
            ("delivered", counts.delivered.load(Relaxed)),
            ("failed", counts.failed.load(Relaxed)),
            ("dropped", counts.dropped.load(Relaxed)),
            ("attempt_failed", counts.attempts_failed.load(Relaxed)),
        ]
    }

    /// Delivers alerts until the service shuts down.
    pub(super) async fn deliver(&self, gate: &Gate, mut shutdown: ShutdownSignal) {
        let Some(mut receiver) = self.receiver.lock().take() else {
            return;
        };

        let mut is_failing = false;
        while let Some(notice) = next(&mut receiver, &mut shutdown).await {
            // The configuration may have changed while the alert was waiting.
            let Some(webhook) = gate.active().config.monitoring.webhook.clone() else {
                continue;
            };
            // Text and numbers never fail to serialise.
            let body = Bytes::from(serde_json::to_vec(&notice).unwrap_or_default());
            let result = self.try_repeatedly(&webhook, &body, &mut shutdown).await;

            let count = match result {
                Ok(()) => &self.counts.delivered,
                Err(_) => &self.counts.failed,
            };
            count.fetch_add(1, Relaxed);
            log_change(&mut is_failing, &result);
        }
    }

    async fn try_repeatedly(
        &self,
        webhook: &WebhookConfig,
        body: &Bytes,
        shutdown: &mut ShutdownSignal,
    ) -> Result<(), DeliveryError> {
        let mut pause = self.first_pause;
        for attempt in 1.. {
            let sent = timeout(TIMEOUT, send(webhook, body.clone())).await;
            let Err(error) = sent.unwrap_or(Err(DeliveryError::Timeout)) else {
                break;
            };
            self.counts.attempts_failed.fetch_add(1, Relaxed);

            let is_last = attempt == ATTEMPTS_MAX || !error.is_retryable();
            if is_last || !shutdown.pause(pause).await {
                return Err(error);
            }
            pause *= 2;
        }
        Ok(())
    }
}

/// The next alert; none when the service shuts down.
async fn next(
    receiver: &mut mpsc::Receiver<AlertNotice>,
    shutdown: &mut ShutdownSignal,
) -> Option<AlertNotice> {
    use crate::listen::ShutdownPhase::Draining;

    tokio::select! {
        notice = receiver.recv() => notice,
        () = shutdown.wait_for(Draining) => None,
    }
}

/// Logs when deliveries start to fail and when they succeed again. The URL may contain a secret, so
/// it is not logged.
fn log_change(is_failing: &mut bool, result: &Result<(), DeliveryError>) {
    match result {
        Ok(()) if *is_failing => tracing::info!("alerts are delivered to the webhook again"),
        Err(error) if !*is_failing => {
            tracing::error!("an alert cannot be delivered to the webhook: {error}");
        }
        _ => {}
    }
    *is_failing = result.is_err();
}

/// The value of the signature header.
fn signature(secret: &str, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, body);
    let digits = tag.as_ref().iter().map(|byte| format!("{byte:02x}"));
    format!("sha256={}", digits.collect::<String>())
}

/// Sends an alert once.
async fn send(webhook: &WebhookConfig, body: Bytes) -> Result<(), DeliveryError> {
    let invalid = |error: &dyn std::fmt::Display| DeliveryError::Url(error.to_string());
    let uri: Uri = webhook.url.parse().map_err(|error| invalid(&error))?;
    let authority = uri.authority().ok_or_else(|| invalid(&"missing host"))?;
    let is_https = uri.scheme_str() == Some("https");
    let path = uri.path_and_query().map_or("/", |path| path.as_str());

    let request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(HOST, authority.as_str())
        .header(CONTENT_TYPE, "application/json")
        .header(USER_AGENT, concat!("tollgate/", env!("CARGO_PKG_VERSION")))
        .header(SIGNATURE, signature(&webhook.secret, &body))
        .body(Full::new(body))
        .map_err(|error| invalid(&error))?;

    let host = authority.host().trim_matches(['[', ']']);
    let port = authority
        .port_u16()
        .unwrap_or(if is_https { 443 } else { 80 });
    let tls = is_https.then(|| ClientTls::new(None, None)).transpose();
    let tls = tls.map_err(DeliveryError::Tls)?;
    // The body says nothing that is needed, but a receiver may wait until it is read.
    let (status, _) = exchange((host, port), tls.as_ref(), request, RESPONSE_MAX).await?;
    if status.is_success() {
        Ok(())
    } else {
        Err(DeliveryError::Status(status))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// The second test case of RFC 4231.
    #[test]
    fn bodies_are_signed_with_hmac_sha256() {
        assert_eq!(
            signature("Jefe", b"what do ya want for nothing?"),
            "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    /// A receiver that refuses everything for a while. Returns its URL and how many requests came.
    async fn busy_receiver() -> (String, std::sync::Arc<AtomicU64>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let requests = std::sync::Arc::new(AtomicU64::new(0));

        let count = requests.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                count.fetch_add(1, Relaxed);
                let mut head = [0; 4_096];
                let _read = stream.read(&mut head).await;
                let response = b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n";
                let _written = stream.write_all(response).await;
            }
        });
        (format!("http://{address}/alerts"), requests)
    }

    #[tokio::test]
    async fn retries_are_bounded() {
        let (url, requests) = busy_receiver().await;
        let webhook = WebhookConfig {
            url,
            secret: "a-secret-of-16-letters".into(),
        };
        let queue = WebhookQueue {
            first_pause: Duration::from_millis(1),
            ..WebhookQueue::default()
        };
        let (_handle, mut shutdown) = crate::listen::ShutdownHandle::new();

        let body = Bytes::from_static(b"{}");
        let result = queue.try_repeatedly(&webhook, &body, &mut shutdown).await;
        assert!(
            matches!(result, Err(DeliveryError::Status(_))),
            "{result:?}"
        );
        assert_eq!(requests.load(Relaxed), u64::from(ATTEMPTS_MAX));
    }

    #[test]
    fn only_what_may_succeed_later_is_sent_again() {
        for (status, is_retryable) in [(500, true), (503, true), (429, true), (408, true)]
            .into_iter()
            .chain([
                (301, true),
                (400, false),
                (401, false),
                (404, false),
                (410, false),
            ])
        {
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(
                DeliveryError::Status(status).is_retryable(),
                is_retryable,
                "{status}"
            );
        }
        assert!(DeliveryError::Timeout.is_retryable());
        assert!(!DeliveryError::Url(String::new()).is_retryable());
    }
}
