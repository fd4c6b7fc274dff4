//! Tests whether the retry times of denials are right: a request that waits that long must be
//! allowed, and one that waits much less must not.
//!
//! The tests run after the load, one request at a time, because concurrent requests for the same
//! key could use up what became available in the meantime. Requests that are allowed here count as
//! admissions and are judged like all others.

use std::rc::Rc;

use tollgate_audit::TimeSpan;

use crate::clock::micros;
use crate::generator::ScheduledRequest;
use crate::plan::RequestKind;
use crate::replica::{LoadContext, ReplicaClient, ReplicaQueue};
use crate::report::RetryReport;
use crate::request::{CHECK, PEEK};
use crate::response::ResponseDecision;

/// How many requests to send for a key until one is denied.
const ATTEMPTS_MAX: usize = 20;

/// The maximum number of retry times to test.
const TRIED_MAX: u64 = 32;

/// Tests the retry times of some of the denied requests, in turn, until the time budget is used up
/// or no more denials can be provoked.
pub(crate) async fn probe_retry_times(
    context: &LoadContext,
    queues: &[Rc<ReplicaQueue>],
) -> RetryReport {
    let mut denied: Vec<ScheduledRequest> = Vec::new();
    for request in context.record.borrow().denials() {
        if !denied.iter().any(|known| known.params == request.params) {
            denied.push(*request);
        }
    }

    let end_us = context
        .clock
        .now_us()
        .saturating_add(micros(context.plan.retry_budget));
    let mut report = RetryReport::default();
    for _ in 0..TRIED_MAX {
        let tried_before = report.tried;
        for request in &denied {
            let is_over = report.tried >= TRIED_MAX || context.clock.now_us() >= end_us;
            let Some(queue) = queues.get(request.replica).filter(|_| !is_over) else {
                return report;
            };
            let mut probe = RetryProbe {
                context,
                client: ReplicaClient {
                    queue: Rc::clone(queue),
                    connection: None,
                },
                request: *request,
            };
            // A probe without a response proves nothing and is not counted.
            let _completed = probe.run(end_us, &mut report).await;
        }

        if report.tried == tried_before {
            break;
        }
    }
    report
}

/// Tests the retry time of one request.
struct RetryProbe<'s> {
    context: &'s LoadContext,
    client: ReplicaClient,
    request: ScheduledRequest,
}

impl RetryProbe<'_> {
    /// Provokes a denial, waits for its retry time, and counts whether that was right. `None` if a
    /// response is missing or there was no denial with a retry time.
    async fn run(&mut self, end_us: u64, report: &mut RetryReport) -> Option<()> {
        let (sent, denial) = self.provoke_denial().await?;
        let wait_us = denial.retry_after_ms?.saturating_mul(1_000);
        let retry_us = sent.to.get().saturating_add(wait_us);
        if retry_us > end_us {
            report.skipped += 1;
            return Some(());
        }

        // After nine tenths of the time, a peek must still be denied. Applications other than the
        // service have no peek, so this is skipped for them.
        let mut is_too_long = false;
        if matches!(self.context.plan.request, RequestKind::Check { .. }) {
            let sent_us = sent.from.get();
            self.wait_until(sent_us.saturating_add(wait_us / 10 * 9))
                .await;
            let (peeked, peek) = self.send(PEEK).await?;
            // The denial was decided after it was sent, and its time was rounded up to a
            // millisecond. Only if the peek passes before that, the time was certainly too long.
            let certain_us = sent_us.saturating_add(wait_us).saturating_sub(1_000);
            is_too_long = peek.is_allowed && peeked.to.get() < certain_us;
        }

        self.wait_until(retry_us).await;
        let (_, retried) = self.send(CHECK).await?;
        report.tried += 1;
        report.on_time += u64::from(retried.is_allowed);
        report.early += u64::from(!retried.is_allowed);
        report.long += u64::from(is_too_long);
        Some(())
    }

    async fn wait_until(&self, due_us: u64) {
        self.context.timer.until(&self.context.clock, due_us).await;
    }

    /// Sends requests until one is denied. `None` if none is.
    async fn provoke_denial(&mut self) -> Option<(TimeSpan, ResponseDecision)> {
        for _ in 0..ATTEMPTS_MAX {
            let result = self.send(CHECK).await?;
            if !result.1.is_allowed {
                return Some(result);
            }
        }
        None
    }

    async fn send(&mut self, path: &str) -> Option<(TimeSpan, ResponseDecision)> {
        let LoadContext {
            plan,
            clock,
            record,
            ..
        } = self.context;
        let params = self.request.params;
        let result = self.client.decide(plan, clock, path, params).await;
        let (span, decision) = result.ok()?;

        if decision.is_allowed && path == CHECK {
            let judge = &mut record.borrow_mut().judge;
            judge.record_admission(params, span, &decision);
        }
        Some((span, decision))
    }
}
