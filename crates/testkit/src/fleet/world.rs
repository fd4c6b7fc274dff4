//! A run: the store, the processes and everything between them.

use tollgate::lease::{CallFailure, LeaseCall, LeaseGrant, LeaseOutcome, LeaseStep};
use tollgate::store::DemandBuf;
use tollgate::{Limit, Micros, Source};

use super::arrivals::{Arrival, arrivals};
use super::clock::TrueTime;
use super::events::{Event, Queue, Request, Who};
use super::plan::Plan;
use super::replica::Replica;
use super::schedule::schedule;
use crate::dice::Dice;
use crate::lending::Lender;
use crate::overadmission;

/// When every run begins, in true time: 2027-01-01 00:00:00 UTC, and up to a second later.
const START: u64 = 1_798_761_600_000_000;
/// How often a request waits for somebody else's trip before it asks by itself.
const WAITS_MAX: u32 = 3;
/// How long a process waits for the store, in true time.
pub(super) const TIMEOUT: u64 = 100_000;

/// A decision: the event, and where the answer came from.
pub(super) type Decision = (overadmission::Event<()>, Source);

/// What came of a run.
#[derive(Debug)]
pub struct Run {
    /// What was decided, in the order of true time.
    pub(super) log: Vec<Decision>,
    /// Every request: when, where, at what cost.
    pub(super) arrivals: Vec<Arrival>,
    /// The store's windows as they followed each other: since when it had which, by its end; none
    /// is 0.
    pub(super) windows: Vec<(u64, u64)>,
    /// How often everything was forgotten.
    pub(super) bursts: u64,
    /// How many processes there were in all.
    pub(super) lives: u64,
    /// Trips made.
    pub(super) trips: u64,
    /// What happened, if it was to be told.
    pub story: Vec<String>,
}

pub(super) struct World<'a> {
    pub(super) plan: &'a Plan,
    pub(super) dice: Dice,
    pub(super) time: TrueTime,
    pub(super) queue: Queue,
    pub(super) check: DemandBuf,
    store: Lender,
    pub(super) replicas: Vec<Replica>,
    pub(super) run: Run,
    tells: bool,
}

/// Runs a plan, and tells what happened if it is asked to.
///
/// # Panics
///
/// If the plan's limit does not lend.
pub fn run(plan: &Plan, tells: bool) -> Run {
    let mut dice = Dice::new(plan.seed ^ 0x5EED);
    let start = START + dice.below(1_000_000);
    let rule = Limit::new("limit", plan.quota)
        .consistency(plan.consistency)
        .rule()
        .expect("a right limit");
    let arrivals = arrivals(plan, &mut dice, start + 1_000);
    let mut world = World {
        plan,
        time: TrueTime::new(start),
        queue: Queue::default(),
        check: rule.demand("ann", 1).expect("a right key"),
        store: Lender::new(plan.quota).expect("a limit that lends"),
        replicas: (0..plan.processes).map(Replica::new).collect(),
        run: Run {
            log: Vec::new(),
            windows: Vec::new(),
            bursts: plan.faults.failovers + plan.faults.resets,
            lives: 0,
            trips: 0,
            story: Vec::new(),
            arrivals: arrivals.clone(),
        },
        dice,
        tells,
    };
    schedule(plan, &mut world.dice, &mut world.queue, &arrivals, start);
    while let Some((at, event)) = world.queue.next() {
        // Whatever is under way comes to its end; sweeping would never.
        if at > start + plan.length + 4_000_000 {
            break;
        }
        world.time.set(at.max(world.time.now()));
        world.happen(event);
    }
    world.run.finished()
}

impl Run {
    fn finished(mut self) -> Self {
        // The store's decisions are heard of later than they were made.
        self.log.sort_by_key(|(event, _)| event.at);
        self
    }
}

impl World<'_> {
    pub(super) fn now(&self) -> u64 {
        self.time.now()
    }

    fn tell(&mut self, what: impl FnOnce() -> String) {
        if self.tells {
            let line = format!("{:>9} {}", self.now() - START, what());
            self.run.story.push(line);
        }
    }

    fn happen(&mut self, event: Event) {
        if let Some(place) = event.place() {
            let until = self.replicas[place].paused_until;
            if until > self.now() {
                return self.queue.put(until, event);
            }
        }
        if !matches!(event, Event::Sweep(_)) {
            self.tell(|| format!("{event:?}"));
        }
        match event {
            Event::Arrive(place, request) => self.decide(place, request),
            Event::Reach { trip, cost, take } => {
                let given = self.store.take(cost, &take, Micros::new(self.now()));
                self.answer(trip, given);
            }
            Event::Answer { who, trip, given } => self.land(who, trip, Ok(given)),
            Event::Deadline { who, trip } => self.land(who, trip, Err(CallFailure::Unknown)),
            Event::Unsent { who, trip } => self.land(who, trip, Err(CallFailure::NotSent)),
            Event::Ask(who, request) => self.ask(who, request),
            Event::AskAnswer(who, request, at) => {
                if self.is_alive(who) {
                    self.settle(who, request, at, None);
                }
            }
            Event::Undo(who, cost, said) => self.undo(who, cost, &said),
            Event::Sweep(who) => self.sweep(who),
            Event::Crash(place) => self.end(place),
            Event::Leave(place) => self.leave(place),
            Event::Start(place) => self.start(place),
            Event::Pause(place, length) => self.replicas[place].paused_until = self.now() + length,
            Event::Failover | Event::ResetReach => self.store.reset(),
            Event::Reset(place) => self.reset(place),
        }
        self.note_window();
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

    pub(super) fn is_alive(&self, who: Who) -> bool {
        let replica = &self.replicas[who.place];
        replica.who == who && replica.leases.is_some()
    }

    /// How long a message takes, if it is not lost.
    pub(super) fn delay(&mut self) -> u64 {
        if self.dice.chance(self.plan.faults.late) {
            self.dice.below(3_000_000)
        } else {
            self.dice.between(100, 2_000)
        }
    }

    fn is_lost(&mut self) -> bool {
        self.dice.chance(self.plan.faults.lost / 2)
    }

    /// Answers a request as far as it can be answered now.
    fn decide(&mut self, place: usize, request: Request) {
        let (now, who) = (self.now(), self.replicas[place].who);
        if now > request.deadline {
            return;
        }
        let Some(leases) = self.replicas[place].leases.clone() else {
            return;
        };
        let check = self.check.clone().with_cost(request.cost);
        let turn = if request.is_among {
            leases.spend_in_request(&check.as_demand())
        } else if request.waits >= WAITS_MAX {
            LeaseStep::Strict(None)
        } else {
            leases.spend(&check.as_demand())
        };
        match turn {
            LeaseStep::Decided(said, trip) => {
                trip.into_iter().for_each(|trip| self.send(who, trip, None));
                self.said(who, request, &said, now);
            }
            LeaseStep::Call(trip) => self.send(who, trip, Some(request)),
            LeaseStep::Wait(_) => {
                let request = Request {
                    waits: request.waits + 1,
                    ..request
                };
                self.replicas[place].waiting.push(request);
            }
            LeaseStep::Strict(trip) => {
                trip.into_iter().for_each(|trip| self.send(who, trip, None));
                if !self.is_lost() {
                    let at = now + self.delay();
                    self.queue.put(at, Event::Ask(who, request));
                }
            }
        }
    }

    fn said(&mut self, who: Who, request: Request, said: &LeaseOutcome, at: u64) {
        if said.outcome.verdict.is_allowed() {
            self.settle(who, request, at, Some(*said));
        } else {
            self.record(request.cost, at, false, said.source);
        }
    }

    /// A request that this limit lets through, unless the other one it is about does not. What the
    /// store decided it would then have refused as a whole.
    fn settle(&mut self, who: Who, request: Request, at: u64, said: Option<LeaseOutcome>) {
        let source = said.map_or(Source::Store, |said| said.source);
        if !request.is_undone {
            self.record(request.cost, at, true, source);
        } else if let Some(said) = said.filter(|said| said.source == Source::Lease) {
            let later = self.now() + self.dice.below(5_000);
            self.queue.put(later, Event::Undo(who, request.cost, said));
        }
    }

    fn record(&mut self, cost: u64, at: u64, allowed: bool, source: Source) {
        self.tell(|| {
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

    pub(super) fn send(&mut self, who: Who, trip: LeaseCall, asker: Option<Request>) {
        let id = self.run.trips;
        self.run.trips += 1;
        let (cost, take) = (trip.demand().cost, *trip.request());
        self.tell(|| format!("    {who:?} sends trip {id}, cost {cost}, {take:?}"));
        self.replicas[who.place].trips.insert(id, (trip, asker));
        let now = self.now();
        if self.dice.chance(self.plan.faults.unsent) {
            return self.queue.put(
                now + self.dice.clone().below(TIMEOUT),
                Event::Unsent { who, trip: id },
            );
        }
        self.queue
            .put(now + TIMEOUT, Event::Deadline { who, trip: id });
        if !self.is_lost() {
            let at = now + self.delay();
            self.queue.put(
                at,
                Event::Reach {
                    trip: id,
                    cost,
                    take,
                },
            );
        }
    }

    /// The store has dealt with a trip. Whoever sent it may be gone.
    fn answer(&mut self, trip: u64, given: LeaseGrant) {
        self.tell(|| format!("    the store gives {given:?}"));
        let who = self
            .replicas
            .iter()
            .find(|replica| replica.trips.contains_key(&trip))
            .map(|replica| replica.who);
        if let Some(who) = who.filter(|_| !self.dice.chance(self.plan.faults.lost / 2)) {
            let at = self.now() + self.delay();
            self.queue.put(at, Event::Answer { who, trip, given });
        }
    }

    /// A trip is over for the process that made it.
    fn land(&mut self, who: Who, id: u64, end: Result<LeaseGrant, CallFailure>) {
        let Some((trip, asker)) = self.replicas[who.place].trips.remove(&id) else {
            return;
        };
        match end {
            Ok(given) => {
                let said = trip.complete(&given);
                if let (Some(request), Some(said)) = (asker, said) {
                    self.said(who, request, &said, given.at.get());
                }
            }
            Err(lost) => trip.fail(lost),
        }
        let waiting = std::mem::take(&mut self.replicas[who.place].waiting);
        waiting
            .into_iter()
            .for_each(|request| self.decide(who.place, request));
    }

    /// The store decides about a request as for a strict limit.
    fn ask(&mut self, who: Who, request: Request) {
        let at = self.now();
        let passes = self.store.spend(request.cost, Micros::new(at));
        if passes && self.is_alive(who) && !self.is_lost() {
            let later = at + self.delay();
            self.queue.put(later, Event::AskAnswer(who, request, at));
        }
    }

    /// What another limit refused goes back here, if it can. What would be given back at the store
    /// is left out: a refund that comes later adds to what is there by then, whatever the
    /// consistency, and a log of admissions cannot tell.
    fn undo(&mut self, who: Who, cost: u64, said: &LeaseOutcome) {
        let check = self.check.clone().with_cost(cost);
        if let Some(leases) = self.replicas[who.place]
            .leases
            .as_ref()
            .filter(|_| self.is_alive(who))
        {
            leases.undo_spend(&check.as_demand(), said);
        }
    }
}
