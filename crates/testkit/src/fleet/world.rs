//! The state of a simulation: the store, the replicas and the messages between them.

use tollgate::DemandBuf;
use tollgate::store::lease::{CallFailure, LeaseCall, LeaseGrant, LeaseOutcome, LeaseStep};
use tollgate::{Limit, Micros, Source};

use super::arrivals::{Arrival, arrivals};
use super::clock::TrueTime;
use super::events::{Event, Queue, ReplicaId, Request};
use super::plan::Plan;
use super::replica::Replica;
use super::schedule::schedule;
use crate::dice::Dice;
use crate::lending::Lender;
use crate::overadmission;

/// The start of every run in true time: 2027-01-01 00:00:00 UTC, and up to a second later.
const START: u64 = 1_798_761_600_000_000;
/// How often a request waits for another request's store call before it makes its own.
const WAITS_MAX: u32 = 3;
/// How long a replica waits for the store, in true time.
pub(super) const TIMEOUT: u64 = 100_000;

/// A decision: the event, and its source.
pub(super) type Decision = (overadmission::Event<()>, Source);

/// The result of a run.
#[derive(Debug)]
pub struct Run {
    /// All decisions, in order of true time.
    pub(super) log: Vec<Decision>,
    /// All requests: time, slot and cost.
    pub(super) arrivals: Vec<Arrival>,
    /// The successive windows of the store: when each began, and its end; 0 for no window.
    pub(super) windows: Vec<(u64, u64)>,
    /// What another client has counted: time and units.
    pub(super) counted: Vec<(u64, u64)>,
    /// When a bucket would be full again, after every change at the store: the time of the change,
    /// and that moment.
    pub(super) levels: Vec<(u64, u64)>,
    /// Units that the store granted although not even one was left.
    pub(super) granted_in_debt: u64,
    /// How often all data was lost.
    pub(super) bursts: u64,
    /// The total number of replicas, including restarted ones.
    pub(super) incarnations: u64,
    /// The number of store calls.
    pub(super) calls: u64,
    /// A log of all events, if the run was verbose.
    pub history: Vec<String>,
}

pub(super) struct World<'a> {
    pub(super) plan: &'a Plan,
    pub(super) dice: Dice,
    pub(super) time: TrueTime,
    pub(super) queue: Queue,
    pub(super) demand: DemandBuf,
    store: Lender,
    pub(super) replicas: Vec<Replica>,
    pub(super) run: Run,
    is_verbose: bool,
}

/// Runs a plan. If `is_verbose`, the result has a log of all events.
///
/// # Panics
///
/// If the plan's limit does not support leases.
pub fn run(plan: &Plan, is_verbose: bool) -> Run {
    let mut dice = Dice::new(plan.seed ^ 0x5EED);
    let start = START + dice.below(1_000_000);
    let rule = Limit::new("limit", plan.quota)
        .consistency(plan.consistency)
        .validate()
        .expect("a valid limit");
    let arrivals = arrivals(plan, &mut dice, start + 1_000);

    let mut world = World {
        plan,
        time: TrueTime::new(start),
        queue: Queue::default(),
        demand: DemandBuf::new(&rule, "ann", 1).expect("a valid key"),
        store: Lender::new(plan.quota).expect("a limit that supports leases"),
        replicas: (0..plan.processes).map(Replica::new).collect(),
        run: Run {
            log: Vec::new(),
            windows: Vec::new(),
            counted: Vec::new(),
            levels: Vec::new(),
            granted_in_debt: 0,
            bursts: plan.faults.failovers + plan.faults.resets,
            incarnations: 0,
            calls: 0,
            history: Vec::new(),
            arrivals: arrivals.clone(),
        },
        dice,
        is_verbose,
    };

    schedule(plan, &mut world.dice, &mut world.queue, &arrivals, start);
    while let Some((at, event)) = world.queue.next() {
        // Everything in flight is completed; periodic sweeps would go on forever.
        if at > start + plan.length + 4_000_000 {
            break;
        }

        world.time.set(at.max(world.time.now()));
        world.handle(event);
    }

    world.run.into_sorted()
}

impl Run {
    fn into_sorted(mut self) -> Self {
        // Decisions of the store are recorded later than they were made.
        self.log.sort_by_key(|(event, _)| event.at);
        self
    }
}

impl World<'_> {
    pub(super) fn now(&self) -> u64 {
        self.time.now()
    }

    fn log_line(&mut self, what: impl FnOnce() -> String) {
        if self.is_verbose {
            let line = format!("{:>9} {}", self.now() - START, what());
            self.run.history.push(line);
        }
    }

    fn handle(&mut self, event: Event) {
        if let Some(slot) = event.slot() {
            let until = self.replicas[slot].paused_until;
            if until > self.now() {
                return self.queue.put(until, event);
            }
        }

        if !matches!(event, Event::Sweep(_)) {
            self.log_line(|| format!("{event:?}"));
        }

        match event {
            Event::RequestArrival(slot, request) => self.decide(slot, request),
            Event::CallArrival {
                replica_id,
                call,
                cost,
                lease_request,
            } => {
                let grant = self
                    .store
                    .take(cost, &lease_request, Micros::new(self.now()));
                self.note_grant(&grant);
                self.reply(replica_id, call, grant);
            }
            Event::CallReply {
                replica_id,
                call,
                grant,
            } => self.finish_call(replica_id, call, Ok(grant)),
            Event::CallTimeout { replica_id, call } => {
                self.finish_call(replica_id, call, Err(CallFailure::Unknown));
            }
            Event::CallNotSent { replica_id, call } => {
                self.finish_call(replica_id, call, Err(CallFailure::NotExecuted));
            }
            Event::CheckArrival(replica_id, request) => self.check_strictly(replica_id, request),
            Event::CheckReply(replica_id, request, at) => {
                if self.is_alive(replica_id) {
                    self.settle(replica_id, request, at, None);
                }
            }
            Event::Undo(replica_id, cost, lease_outcome) => {
                self.undo(replica_id, cost, &lease_outcome);
            }
            Event::Sweep(replica_id) => self.sweep(replica_id),
            Event::Crash(slot) => self.end(slot),
            Event::Shutdown(slot) => self.shut_down(slot),
            Event::Start(slot) => self.start(slot),
            Event::Pause(slot, length) => self.replicas[slot].paused_until = self.now() + length,
            Event::CountArrival(cost) => {
                self.store.count(cost, Micros::new(self.now()));
                self.run.counted.push((self.now(), cost));
                self.note_level();
            }
            Event::Failover | Event::ResetArrival => self.store.reset(),
            Event::Reset(slot) => self.reset(slot),
        }
        self.note_window();
    }

    /// Notes the level of the store after a lease call, and units that it must not have granted.
    fn note_grant(&mut self, grant: &LeaseGrant) {
        let next = self.plan.quota.outcome(grant.state, 1, grant.at);
        if next.is_none_or(|outcome| !outcome.verdict.is_allowed()) {
            self.run.granted_in_debt += grant.units;
        }
        self.note_level();
    }

    /// Notes the level of a bucket after the last of the changes at this time.
    fn note_level(&mut self) {
        let now = self.now();
        self.run.levels.pop_if(|(at, _)| *at == now);
        let idle_at = self.store.idle_at(Micros::new(now));
        self.run
            .levels
            .extend(idle_at.map(|idle_at| (now, idle_at)));
    }

    fn note_window(&mut self) {
        let end = self
            .store
            .open_window(Micros::new(self.now()))
            .unwrap_or_default();
        if self.run.windows.last().is_none_or(|(_, last)| *last != end) {
            self.run.windows.push((self.now(), end));
        }
    }

    pub(super) fn is_alive(&self, replica_id: ReplicaId) -> bool {
        let replica = &self.replicas[replica_id.slot];
        replica.id == replica_id && replica.leases.is_some()
    }

    /// The delay of a message that is not lost.
    pub(super) fn delay(&mut self) -> u64 {
        if self.dice.chance(self.plan.faults.late) {
            let longest = 3_000_000.max(self.plan.lease_length * 3 / 2);
            self.dice.below(longest)
        } else {
            self.dice.between(100, 2_000)
        }
    }

    fn is_lost(&mut self) -> bool {
        self.dice.chance(self.plan.faults.lost / 2)
    }

    /// Decides a request, as far as that is possible now.
    fn decide(&mut self, slot: usize, request: Request) {
        let (now, replica_id) = (self.now(), self.replicas[slot].id);
        if now > request.deadline {
            return;
        }

        let Some(leases) = self.replicas[slot].leases.clone() else {
            return;
        };
        self.start_sweeps(replica_id);

        let demand = self.demand.clone().with_cost(request.cost);
        let step = if request.has_other_limit {
            leases.spend_in_request(&demand.as_demand())
        } else if request.waits >= WAITS_MAX {
            LeaseStep::Strict(None)
        } else {
            leases.spend(&demand.as_demand())
        };

        match step {
            LeaseStep::Decided(lease_outcome, call) => {
                call.into_iter()
                    .for_each(|call| self.send(replica_id, call, None));
                self.apply_outcome(replica_id, request, &lease_outcome, now);
            }
            LeaseStep::Call(call) => self.send(replica_id, call, Some(request)),
            LeaseStep::Wait(_) => {
                let request = Request {
                    waits: request.waits + 1,
                    ..request
                };
                self.replicas[slot].waiting.push(request);
            }
            LeaseStep::Strict(call) => {
                call.into_iter()
                    .for_each(|call| self.send(replica_id, call, None));
                self.run.calls += 1;
                if !self.is_lost() {
                    let at = now + self.delay();
                    self.queue.put(at, Event::CheckArrival(replica_id, request));
                }
            }
        }
    }

    fn apply_outcome(
        &mut self,
        replica_id: ReplicaId,
        request: Request,
        lease_outcome: &LeaseOutcome,
        at: u64,
    ) {
        if lease_outcome.outcome.verdict.is_allowed() {
            self.settle(replica_id, request, at, Some(*lease_outcome));
        } else {
            self.record(request.cost, at, false, lease_outcome.source);
        }
    }

    /// Records a request that this limit allows, unless its other limit denies it. For a decision
    /// of the store, the store would then have denied the whole request.
    fn settle(
        &mut self,
        replica_id: ReplicaId,
        request: Request,
        at: u64,
        lease_outcome: Option<LeaseOutcome>,
    ) {
        let source = lease_outcome.map_or(Source::Store, |lease_outcome| lease_outcome.source);

        if !request.is_denied_by_other {
            self.record(request.cost, at, true, source);
        } else if let Some(lease_outcome) =
            lease_outcome.filter(|lease_outcome| lease_outcome.source == Source::Lease)
        {
            let later = self.now() + self.dice.below(5_000);
            self.queue
                .put(later, Event::Undo(replica_id, request.cost, lease_outcome));
        }
    }

    fn record(&mut self, cost: u64, at: u64, allowed: bool, source: Source) {
        self.log_line(|| {
            format!(
                "    {} {cost} by {source:?} at {}",
                if allowed { "PASS" } else { "deny" },
                at - START
            )
        });

        self.run.log.push((
            overadmission::Event {
                at: Micros::new(at),
                key: (),
                cost,
                allowed,
            },
            source,
        ));
    }

    pub(super) fn send(
        &mut self,
        replica_id: ReplicaId,
        call: LeaseCall,
        requester: Option<Request>,
    ) {
        let id = self.run.calls;
        self.run.calls += 1;
        let (cost, lease_request) = (call.demand().cost, *call.lease_request());

        self.log_line(|| {
            format!("    {replica_id:?} sends call {id}, cost {cost}, {lease_request:?}")
        });
        self.replicas[replica_id.slot]
            .calls
            .insert(id, (call, requester));

        let now = self.now();
        if self.dice.chance(self.plan.faults.unsent) {
            return self.queue.put(
                now + self.dice.clone().below(TIMEOUT),
                Event::CallNotSent {
                    replica_id,
                    call: id,
                },
            );
        }

        self.queue.put(
            now + TIMEOUT,
            Event::CallTimeout {
                replica_id,
                call: id,
            },
        );

        if !self.is_lost() {
            let at = now + self.delay();
            self.queue.put(
                at,
                Event::CallArrival {
                    replica_id,
                    call: id,
                    cost,
                    lease_request,
                },
            );
        }
    }

    /// The store has processed a call. The replica that sent it may have ended.
    fn reply(&mut self, replica_id: ReplicaId, call: u64, grant: LeaseGrant) {
        self.log_line(|| format!("    the store grants {grant:?}"));

        let is_expected = self.replicas[replica_id.slot].calls.contains_key(&call);
        if is_expected && !self.is_lost() {
            let at = self.now() + self.delay();
            self.queue.put(
                at,
                Event::CallReply {
                    replica_id,
                    call,
                    grant,
                },
            );
        }
    }

    /// Completes or fails a store call of a replica.
    fn finish_call(
        &mut self,
        replica_id: ReplicaId,
        id: u64,
        end: Result<LeaseGrant, CallFailure>,
    ) {
        let Some((call, requester)) = self.replicas[replica_id.slot].calls.remove(&id) else {
            return;
        };

        match end {
            Ok(grant) => {
                let lease_outcome = call.complete(&grant);
                if let (Some(request), Some(lease_outcome)) = (requester, lease_outcome) {
                    self.apply_outcome(replica_id, request, &lease_outcome, grant.at.get());
                }
            }
            Err(lost) => call.fail(lost),
        }

        let waiting = std::mem::take(&mut self.replicas[replica_id.slot].waiting);
        waiting
            .into_iter()
            .for_each(|request| self.decide(replica_id.slot, request));
    }

    /// The store decides a request as for a strict limit.
    fn check_strictly(&mut self, replica_id: ReplicaId, request: Request) {
        let at = self.now();
        let passes = self.store.spend(request.cost, Micros::new(at));
        self.note_level();

        if passes && self.is_alive(replica_id) && !self.is_lost() {
            let later = at + self.delay();
            self.queue
                .put(later, Event::CheckReply(replica_id, request, at));
        }
    }

    /// Returns units to the lease because another limit denied the request. Refunds at the store
    /// are not simulated: a late refund adds to whatever the counter holds by then, at any
    /// consistency, which a log of admissions cannot show.
    fn undo(&mut self, replica_id: ReplicaId, cost: u64, lease_outcome: &LeaseOutcome) {
        let demand = self.demand.clone().with_cost(cost);

        if let Some(leases) = self.replicas[replica_id.slot]
            .leases
            .as_ref()
            .filter(|_| self.is_alive(replica_id))
        {
            leases.undo_spend(&demand.as_demand(), lease_outcome);
        }
    }
}
