//! Whether what a refusal says about the time is true: who waits so long, alone, must pass; and who
//! waits much less must not.
//!
//! It is tried when the load is over, one request after another, because nobody can tell how long
//! another's requests will take away what has come back. Whatever passes here is let through like
//! everything else, and is held against the limits.

use std::rc::Rc;

use tokio::time::timeout;

use crate::clock::micros;
use crate::lane::{Lane, Shared, exchange, read};
use crate::plan::Asking;
use crate::question::{CHECK, PEEK};
use crate::record::{Shot, span};
use crate::report::RetryReport;
use crate::wire::Connection;

/// How often a client is asked for until it is refused.
const ASKED_MAX: usize = 20;

/// How many refusals are waited out at most.
const TRIED_MAX: u64 = 32;

/// What came back.
#[derive(Clone, Copy, Debug)]
struct Said {
    is_allowed: bool,
    retry_after_ms: Option<u64>,
    sent_us: u64,
    received_us: u64,
}

/// Waits out some of the refusals of a load, in turn, for as long as there is time and something
/// comes of it.
pub(crate) async fn tried(shared: &Shared, lanes: &[Rc<Lane>]) -> RetryReport {
    let mut clients: Vec<Shot> = Vec::new();
    for shot in shared.record.borrow().denials() {
        if !clients.iter().any(|known| known.draw == shot.draw) {
            clients.push(*shot);
        }
    }
    let end_us = shared
        .clock
        .now_us()
        .saturating_add(micros(shared.plan.retry_budget));
    let mut report = RetryReport::default();
    for _ in 0..TRIED_MAX {
        let before = report.tried;
        for shot in &clients {
            let is_over = report.tried >= TRIED_MAX || shared.clock.now_us() >= end_us;
            let Some(lane) = lanes.get(shot.replica).filter(|_| !is_over) else {
                return report;
            };
            let mut asker = Asker {
                shared,
                lane,
                connection: None,
                request: Vec::new(),
                shot: *shot,
            };
            // Whoever does not answer is no witness.
            let _witnessed = asker.try_one(end_us, &mut report).await;
        }
        if report.tried == before {
            break;
        }
    }
    report
}

struct Asker<'s> {
    shared: &'s Shared,
    lane: &'s Lane,
    connection: Option<Connection>,
    request: Vec<u8>,
    shot: Shot,
}

impl Asker<'_> {
    async fn try_one(&mut self, end_us: u64, report: &mut RetryReport) -> Option<()> {
        let refused = self.refusal().await?;
        let wait_us = refused.retry_after_ms?.saturating_mul(1_000);
        let told_us = refused.received_us.saturating_add(wait_us);
        if told_us > end_us {
            report.skipped += 1;
            return Some(());
        }
        let mut is_long = false;
        // An application cannot be asked without being charged.
        if matches!(self.shared.plan.asking, Asking::Check { .. }) {
            self.until(refused.sent_us.saturating_add(wait_us / 10 * 9))
                .await;
            let early = self.ask(PEEK).await?;
            // It was refused after it was sent, and the time was rounded up to a millisecond: only
            // what passes before that is certain to have been told too long a time.
            let surely_us = refused
                .sent_us
                .saturating_add(wait_us)
                .saturating_sub(1_000);
            is_long = early.is_allowed && early.received_us < surely_us;
        }
        self.until(told_us).await;
        let again = self.ask(CHECK).await?;
        report.tried += 1;
        report.kept += u64::from(again.is_allowed);
        report.early += u64::from(!again.is_allowed);
        report.long += u64::from(is_long);
        Some(())
    }

    async fn until(&self, due_us: u64) {
        self.shared.timer.until(&self.shared.clock, due_us).await;
    }

    /// Asks until it is refused. Nothing if it is not.
    async fn refusal(&mut self) -> Option<Said> {
        for _ in 0..ASKED_MAX {
            let said = self.ask(CHECK).await?;
            if !said.is_allowed {
                return Some(said);
            }
        }
        None
    }

    async fn ask(&mut self, path: &str) -> Option<Said> {
        let Shared {
            plan,
            clock,
            record,
            ..
        } = self.shared;
        self.lane
            .question(plan)
            .write(self.shot.draw, path, &mut self.request);
        let asked = exchange(
            &mut self.connection,
            &self.lane.addresses,
            &self.request,
            clock,
        );
        let Ok(Ok((sent_us, answer))) = timeout(plan.timeout, asked).await else {
            self.connection = None;
            return None;
        };
        let received_us = clock.now_us_ceil();
        let told = read(plan, &answer)?;
        if told.is_allowed && path == CHECK {
            record
                .borrow_mut()
                .judge
                .admitted(self.shot.draw, span(sent_us, received_us), &told);
        }
        Some(Said {
            is_allowed: told.is_allowed,
            retry_after_ms: told.retry_after_ms,
            sent_us,
            received_us,
        })
    }
}
