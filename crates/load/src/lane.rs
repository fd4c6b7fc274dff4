//! One replica: what waits to be sent to it, and the connections that send it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use crate::clock::{Clock, micros};
use crate::plan::{Asking, Plan, Replica};
use crate::question::{CHECK, Question};
use crate::record::{Failed, Record, Shot, span};
use crate::timer::Timer;
use crate::told::{self, Told};
use crate::wire::{Answer, Connection};

/// The most requests that wait for a connection, to all replicas together.
const WAITING_MAX: usize = 1 << 16;

/// What waits for one replica.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) replica: Replica,
    pub(crate) addresses: Vec<SocketAddr>,
    waiting: RefCell<VecDeque<Shot>>,
    waiting_max: usize,
    came: Notify,
    is_closed: Cell<bool>,
}

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) plan: Rc<Plan>,
    pub(crate) clock: Clock,
    pub(crate) timer: Timer,
    pub(crate) record: RefCell<Record>,
}

impl Lane {
    /// One of so many.
    pub(crate) fn new(replica: Replica, addresses: Vec<SocketAddr>, of: usize) -> Self {
        let (waiting, came, is_closed) = (RefCell::default(), Notify::new(), Cell::new(false));
        let waiting_max = (WAITING_MAX / of.max(1)).max(1);
        Self {
            replica,
            addresses,
            waiting,
            waiting_max,
            came,
            is_closed,
        }
    }

    /// What to ask here.
    pub(crate) const fn question<'q>(&'q self, plan: &'q Plan) -> Question<'q> {
        Question {
            plan,
            replica: &self.replica,
        }
    }

    /// Whether there was room for it.
    pub(crate) fn push(&self, shot: Shot) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.len() >= self.waiting_max {
            return false;
        }
        waiting.push_back(shot);
        self.came.notify_one();
        true
    }

    /// Nothing more will come. What waits is still sent, or given up.
    pub(crate) fn close(&self, gives_up: bool, shared: &Shared) {
        self.is_closed.set(true);
        self.came.notify_waiters();
        if gives_up {
            let count = self.waiting.borrow_mut().drain(..).count();
            shared.record.borrow_mut().abandoned(count);
        }
    }

    async fn next(&self) -> Option<Shot> {
        loop {
            if let Some(shot) = self.waiting.borrow_mut().pop_front() {
                return Some(shot);
            }
            if self.is_closed.get() {
                return None;
            }
            self.came.notified().await;
        }
    }
}

/// One connection, which sends what waits until nothing more will come.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) shared: Rc<Shared>,
    pub(crate) lane: Rc<Lane>,
    pub(crate) connection: Option<Connection>,
}

impl Worker {
    pub(crate) async fn work(mut self) {
        let timeout_us = micros(self.shared.plan.timeout);
        let mut request = Vec::new();
        while let Some(shot) = self.lane.next().await {
            let now_us = self.shared.clock.now_us();
            if now_us.saturating_sub(shot.due_us) > timeout_us {
                self.shared.record.borrow_mut().unsent(now_us);
                continue;
            }
            self.shared
                .record
                .borrow_mut()
                .sent(now_us.saturating_sub(shot.ready_us));
            self.send(shot, &mut request).await;
        }
    }

    async fn send(&mut self, shot: Shot, request: &mut Vec<u8>) {
        let Shared {
            plan,
            clock,
            record,
            ..
        } = &*self.shared;
        self.lane.question(plan).write(shot.draw, CHECK, request);
        let asked = timeout(
            plan.timeout,
            exchange(&mut self.connection, &self.lane.addresses, request, clock),
        )
        .await;
        let (failed, reason) = match asked {
            Ok(Ok((sent_us, answer))) => {
                let received_us = clock.now_us_ceil();
                let Some(told) = read(plan, &answer) else {
                    let reason = || format!("status {}, and no decision", answer.head.status);
                    record
                        .borrow_mut()
                        .failed(shot, received_us, Failed::Answer, reason);
                    return;
                };
                record
                    .borrow_mut()
                    .answered(shot, span(sent_us, received_us), &told);
                if let Some(lease) = told.permit.map(std::borrow::Cow::into_owned) {
                    self.release(&lease, request).await;
                }
                return;
            }
            Ok(Err(error)) => (Failed::Connection, error.to_string()),
            Err(_) => (
                Failed::Timeout,
                format!("no answer within {:?}", plan.timeout),
            ),
        };
        self.connection = None;
        record
            .borrow_mut()
            .failed(shot, clock.now_us(), failed, || reason);
    }

    /// Gives a place back at once: a virtual client's work takes no time.
    async fn release(&mut self, lease: &str, request: &mut Vec<u8>) {
        let Shared { plan, clock, .. } = &*self.shared;
        self.lane.question(plan).write_release(lease, request);
        let asked = exchange(&mut self.connection, &self.lane.addresses, request, clock);
        if !matches!(timeout(plan.timeout, asked).await, Ok(Ok(_))) {
            self.connection = None;
        }
    }
}

/// Sends a request, on a new connection where the old one has ended, and waits for the answer. Also
/// tells when it was sent, or a little before that.
pub(crate) async fn exchange<'c>(
    connection: &'c mut Option<Connection>,
    addresses: &[SocketAddr],
    request: &[u8],
    clock: &Clock,
) -> io::Result<(u64, Answer<'c>)> {
    if connection.as_ref().is_some_and(Connection::has_ended) {
        *connection = None;
    }
    let open = match connection {
        Some(open) => open,
        None => connection.insert(Connection::open(addresses).await?),
    };
    let sent_us = clock.now_us();
    Ok((sent_us, open.ask(request).await?))
}

/// What an answer says, in the way of what was asked.
pub(crate) fn read<'a>(plan: &Plan, answer: &Answer<'a>) -> Option<Told<'a>> {
    match plan.asking {
        Asking::Check { .. } => told::decision(answer),
        Asking::Get { .. } => told::status(answer),
    }
}

/// Where a replica is, by its name.
pub(crate) async fn resolve(
    host: &str,
    port: u16,
    patience: Duration,
) -> io::Result<Vec<SocketAddr>> {
    let found: Vec<SocketAddr> = timeout(patience, tokio::net::lookup_host((host, port)))
        .await??
        .collect();
    if found.is_empty() {
        Err(io::Error::other("the name has no address"))
    } else {
        Ok(found)
    }
}
