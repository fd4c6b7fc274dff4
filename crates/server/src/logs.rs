//! Logs to standard error: text on a terminal, JSON otherwise.
//!
//! A thread writes the lines. When standard error is read too slowly, lines are dropped and
//! counted; a request never waits for its log line.

use std::io::{self, IsTerminal as _, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, sync_channel};

use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use crate::cli::LogFormat;
use crate::traces::{self, TraceExporter};

/// The most lines that wait to be written.
const QUEUE_MAX: usize = 4_096;
/// The environment variable with the log filter, as in `info,tollgate_server=debug`.
const FILTER_VARIABLE: &str = "TOLLGATE_LOG";

/// Installs the global subscriber: log events go to standard error, spans to the trace exporter.
pub(crate) fn start(format: Option<LogFormat>, traces: Option<&TraceExporter>) {
    let is_terminal = io::stderr().is_terminal();
    let format = format.unwrap_or(if is_terminal {
        LogFormat::Text
    } else {
        LogFormat::Json
    });

    let writer = LogWriter::new(io::stderr());
    let logs = match format {
        LogFormat::Text => tracing_subscriber::fmt::layer()
            .with_ansi(is_terminal)
            .with_target(false)
            .with_writer(writer)
            .boxed(),
        LogFormat::Json => tracing_subscriber::fmt::layer()
            .json()
            .flatten_event(true)
            .with_writer(writer)
            .boxed(),
    };
    let registry = tracing_subscriber::registry().with(logs.with_filter(filter()));

    // Not `registry.with(Option<layer>)`: even an absent layer would enable every span.
    let installed = match traces {
        Some(traces) => tracing::subscriber::set_global_default(registry.with(traces.layer())),
        None => tracing::subscriber::set_global_default(registry),
    };
    // Fails when there is a subscriber already, as in tests.
    drop(installed);
}

fn filter() -> EnvFilter {
    let configured = std::env::var(FILTER_VARIABLE)
        .ok()
        .and_then(|filter| filter.parse().ok());
    let filter: EnvFilter = configured.unwrap_or_else(|| EnvFilter::new("info"));

    let spans_off = traces::NOT_LOGGED.parse().expect("a valid directive");
    filter.add_directive(spans_off)
}

/// Queues log lines for the thread that writes them.
#[derive(Clone, Debug)]
struct LogWriter {
    sender: SyncSender<Vec<u8>>,
    /// Lines dropped since the last line was written.
    dropped: Arc<AtomicU64>,
}

impl LogWriter {
    /// Starts the thread that writes to `output`.
    fn new(mut output: impl Write + Send + 'static) -> Self {
        let (sender, lines) = sync_channel::<Vec<u8>>(QUEUE_MAX);
        let dropped = Arc::new(AtomicU64::new(0));

        let counter = dropped.clone();
        std::thread::spawn(move || {
            for line in lines {
                // A failed write cannot be reported anywhere.
                drop(output.write_all(&line));

                let dropped = counter.swap(0, Relaxed);
                if dropped > 0 {
                    drop(writeln!(
                        output,
                        "dropped {dropped} log lines: standard error was read too slowly"
                    ));
                }
            }
        });
        Self { sender, dropped }
    }
}

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = LogEvent<'a>;

    fn make_writer(&'a self) -> LogEvent<'a> {
        LogEvent {
            writer: self,
            bytes: Vec::with_capacity(256),
        }
    }
}

/// A line being formatted; queued when dropped.
struct LogEvent<'a> {
    writer: &'a LogWriter,
    bytes: Vec<u8>,
}

impl Write for LogEvent<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for LogEvent<'_> {
    fn drop(&mut self) {
        let line = std::mem::take(&mut self.bytes);
        if !line.is_empty() && self.writer.sender.try_send(line).is_err() {
            self.writer.dropped.fetch_add(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An output whose reader has stopped reading.
    struct BlockedOutput(std::sync::mpsc::Receiver<()>);

    impl Write for BlockedOutput {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn logging_does_not_block_when_the_output_does() {
        let (_unread, reader) = sync_channel(0);
        let writer = LogWriter::new(BlockedOutput(reader));
        for _ in 0..2 * QUEUE_MAX {
            drop(writer.make_writer().write(b"line\n"));
        }
        assert!(writer.dropped.load(Relaxed) >= QUEUE_MAX as u64 - 1);
    }
}
