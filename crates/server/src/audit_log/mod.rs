//! The audit log of denials: one JSON line for each denial, or for the first denials of a key.
//!
//! A decision never waits for its line: it puts the line into a bounded queue (`queue`), from which
//! a thread writes (`writer`, `output`). What exceeds the bound on lines per second (`budget`) or
//! finds the queue full is dropped and counted.

mod budget;
mod counts;
mod first_denials;
mod line;
mod output;
mod queue;
mod writer;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use arc_swap::ArcSwapOption;
use tollgate_gate::{Denial, DenialObserver};
use tollgate_rules::config::{AuditLogConfig, AuditedDenials};

use self::budget::LineBudget;
use self::counts::AuditLineCounts;
use self::first_denials::FirstDenials;
pub(crate) use self::output::AuditLogError;
use self::output::AuditOutput;
use self::queue::LineQueue;

/// The audit log of the service. It follows the configuration: none, or one log.
#[derive(Debug, Default)]
pub(crate) struct AuditLog {
    active: ArcSwapOption<OpenAuditLog>,
    counts: Arc<AuditLineCounts>,
}

/// The log of one configuration. Dropping it ends its thread, after the last lines.
#[derive(Debug)]
struct OpenAuditLog {
    config: AuditLogConfig,
    budget: LineBudget,
    first: FirstDenials,
    queue: Arc<LineQueue>,
}

/// An output that could be opened, to be put into use once everything else of the configuration is
/// valid, too.
#[derive(Debug)]
pub(crate) struct PreparedAuditLog(Option<(AuditLogConfig, Option<AuditOutput>)>);

impl AuditLog {
    /// Opens the output of a configuration, unless it is open already.
    pub(crate) fn prepare(
        &self,
        config: Option<&AuditLogConfig>,
    ) -> Result<PreparedAuditLog, AuditLogError> {
        let Some(config) = config else {
            return Ok(PreparedAuditLog(None));
        };
        let active = self.active.load();
        let is_open = active.as_ref().is_some_and(|log| log.config == *config);
        let output = if is_open {
            None
        } else {
            Some(AuditOutput::open(config)?)
        };
        Ok(PreparedAuditLog(Some((config.clone(), output))))
    }

    /// Puts a prepared log into use. The previous one writes its last lines and ends.
    pub(crate) fn replace(&self, prepared: PreparedAuditLog) {
        let (config, output) = match prepared.0 {
            None => return self.active.store(None),
            Some((_, None)) => return,
            Some((config, Some(output))) => (config, output),
        };
        // One line of each second is for the number of dropped ones.
        let lines_max = config.lines_per_second_max - 1;
        let queue = Arc::new(LineQueue::new(lines_max));
        writer::start(output, &queue, lines_max, self.counts.clone());
        self.active.store(Some(Arc::new(OpenAuditLog {
            budget: LineBudget::new(lines_max),
            first: FirstDenials::default(),
            config,
            queue,
        })));
    }

    /// Writes the last lines, for as long as the output takes them, and ends.
    pub(crate) fn finish(&self) {
        if let Some(log) = self.active.swap(None) {
            log.queue.close();
            log.queue.wait_until_done(writer::FINISH_TIMEOUT);
        }
    }

    /// The lines written so far.
    pub(crate) fn written(&self) -> u64 {
        self.counts.written.load(Relaxed)
    }

    /// The lines dropped so far, by reason.
    pub(crate) fn dropped(&self) -> [(&'static str, u64); 3] {
        self.counts.dropped()
    }
}

impl DenialObserver for AuditLog {
    fn denied(&self, denial: &Denial<'_>) {
        let Some(log) = &*self.active.load() else {
            return;
        };

        let first = match log.config.denials {
            AuditedDenials::Every => None,
            AuditedDenials::First { per } => {
                let key = log.first.hash(denial);
                if !log.first.is_first(key, per, denial.now) {
                    return;
                }
                Some(key)
            }
        };
        if !log.budget.try_take(denial.now) {
            self.counts.over_rate.fetch_add(1, Relaxed);
            return;
        }
        if !log.queue.try_push(|| line::encode(denial)) {
            self.counts.queue_full.fetch_add(1, Relaxed);
            return;
        }
        // Only now: the key of a dropped line gets another chance.
        if let Some(key) = first {
            log.first.insert(key, denial.now);
        }
    }
}

impl Drop for OpenAuditLog {
    fn drop(&mut self) {
        self.queue.close();
    }
}

#[cfg(test)]
mod tests;
