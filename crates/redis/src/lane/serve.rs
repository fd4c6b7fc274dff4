//! Serving on one connection: what waits is sent, what arrives is handed out, what is late is told
//! so.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, WriteHalf, split};
use tokio::time::{Instant, Sleep, sleep_until};

use super::trip::{BATCH_MAX, Calling, Kind, Trip, write_batch, write_reset};
use super::{Job, Shared};
use crate::access::{Connection, Duplex};
use crate::failure::{Cause, Failure, Meaning};
use crate::resp::{self, Reply};
use crate::wire::{Answered, Verb, answers};

/// How much may be on its way at once: while the server works on one departure, the next is there
/// already.
const DEPARTURES_MAX: usize = 2;
/// The most requests in one departure, in one call or, to a cluster, in several.
const DEPARTURE_MAX: usize = 128;
/// A server that has said nothing for so many deadlines is taken for gone.
const SILENT_DEADLINES: u32 = 2;
/// So many answers in a row that came too late make a server too slow to ask.
const LATE_MAX: u32 = 3;
/// A lane that nobody uses asks for a sign of life this often.
const IDLE: Duration = Duration::from_secs(1);

struct Serving<'s> {
    shared: &'s Shared,
    /// What has been sent and not answered, oldest first.
    trips: VecDeque<Trip>,
    departures: usize,
    out: BytesMut,
    late: u32,
    /// When the server last said something.
    heard: Instant,
}

/// Serves until the connection or the server fails; says why.
pub(super) async fn serve(shared: &Shared, connection: Connection) -> Cause {
    let mut serving = Serving {
        shared,
        trips: VecDeque::new(),
        departures: 0,
        out: BytesMut::new(),
        late: 0,
        heard: Instant::now(),
    };
    let cause = match serving.run(connection).await {
        Err(cause) => cause,
        Ok(never) => match never {},
    };
    serving
        .trips
        .iter_mut()
        .for_each(|trip| trip.fail_away(&cause));
    cause
}

/// Writes some of what is to be sent, or sees to it that what was written leaves. True when there
/// may be more to do.
async fn push(writer: &mut WriteHalf<Box<dyn Duplex>>, out: &mut BytesMut) -> Result<bool, Cause> {
    if out.is_empty() {
        writer.flush().await?;
        return Ok(false);
    }
    match writer.write_buf(out).await? {
        0 => Err(Cause::new("the server takes no more")),
        _ => Ok(true),
    }
}

impl Serving<'_> {
    async fn run(&mut self, connection: Connection) -> Result<std::convert::Infallible, Cause> {
        let (mut reader, mut writer) = split(connection.stream);
        let (shared, is_buffered) = (self.shared, connection.is_buffered);
        let mut unflushed = false;
        let mut arrived = BytesMut::with_capacity(16 << 10);
        let mut timer = std::pin::pin!(sleep_until(Instant::now() + IDLE));
        loop {
            self.depart(timer.as_mut());
            tokio::select! {
                biased;
                read = reader.read_buf(&mut arrived) => {
                    if read? == 0 {
                        return Err(Cause::new("the server closed the connection"));
                    }
                    while let Some(reply) = resp::read_reply(&mut arrived)? {
                        self.arrive(reply)?;
                    }
                }
                pushed = push(&mut writer, &mut self.out), if unflushed || !self.out.is_empty() => {
                    unflushed = pushed? && is_buffered;
                }
                () = timer.as_mut() => self.tick(timer.as_mut())?,
                () = shared.arrived.notified(), if self.departures < DEPARTURES_MAX => {}
                () = shared.hurried.notified() => self.hurry(timer.as_mut()),
                () = shared.kicked.notified() => return Err(Cause::new("another server is to be asked")),
            }
        }
    }

    /// Sends what waits, unless enough is on its way.
    fn depart(&mut self, timer: Pin<&mut Sleep>) {
        if self.departures >= DEPARTURES_MAX {
            return;
        }
        let now = Instant::now();
        let mut jobs = self.take_waiting(now);
        let Some(first) = jobs.iter().map(|job| job.deadline).min() else {
            return;
        };
        if self.shared.is_cluster {
            // Only requests of one slot can share a call; their order stays.
            jobs.sort_by_key(|job| (job.request.slot, job.is_asking));
        }
        while !jobs.is_empty() {
            let rest = jobs.split_off(self.shares_call(&jobs));
            self.send(std::mem::replace(&mut jobs, rest), now, Calling::ByName);
        }
        if let Some(last) = self.trips.back_mut() {
            last.ends_departure = true;
        }
        self.departures += 1;
        if first < timer.deadline() {
            timer.reset(first);
        }
    }

    /// Takes from the queue what is still worth sending.
    fn take_waiting(&self, now: Instant) -> Vec<Job> {
        let mut queue = self.shared.queue.lock();
        let mut jobs = Vec::with_capacity(queue.waiting.len().min(DEPARTURE_MAX));
        while jobs.len() < DEPARTURE_MAX
            && let Some(mut job) = queue.waiting.pop_front()
        {
            if job.deadline <= now {
                job.reply(Err(Failure::Timeout));
            }
            if !job.is_pointless() {
                jobs.push(job);
            }
        }
        jobs
    }

    /// How many of the first jobs can share a call.
    fn shares_call(&self, jobs: &[Job]) -> usize {
        let Some(first) = jobs.first() else { return 0 };
        let is_alone = |job: &Job| job.request.verb == Verb::Reset || job.is_asking;
        if is_alone(first) {
            return 1;
        }
        let joins = |job: &&Job| {
            !is_alone(job) && (!self.shared.is_cluster || job.request.slot == first.request.slot)
        };
        jobs.iter().take(BATCH_MAX).take_while(joins).count()
    }

    /// Sends jobs that share a call.
    fn send(&mut self, jobs: Vec<Job>, now: Instant, calling: Calling) {
        let Some(first) = jobs.first() else { return };
        if first.is_asking {
            resp::write_command(&mut self.out, &[b"ASKING"]);
            self.trips
                .push_back(Trip::new(Kind::Silent, Vec::new(), now));
        }
        let kind = if first.request.verb == Verb::Reset {
            write_reset(&mut self.out, first);
            Kind::Reset
        } else {
            let moment = self.shared.call_time.moment();
            write_batch(
                &mut self.out,
                self.shared.access.script,
                calling,
                &jobs,
                moment,
            );
            self.shared.count_call(jobs.len());
            Kind::Batch(calling)
        };
        self.trips.push_back(Trip::new(kind, jobs, now));
    }

    /// Hands out an answer to those who share it.
    fn arrive(&mut self, reply: Reply) -> Result<(), Cause> {
        let trip = self
            .trips
            .pop_front()
            .ok_or_else(|| Cause::new("the server answered without a question"))?;
        let (took, ends_departure) = (trip.sent.elapsed(), trip.ends_departure);
        self.departures -= usize::from(ends_departure);
        self.heard = trip.sent + took;
        self.hand_out(trip, reply)?;
        // What was sent together and came late was late once.
        if ends_departure {
            self.note_pace(took)
        } else {
            Ok(())
        }
    }

    fn hand_out(&mut self, mut trip: Trip, reply: Reply) -> Result<(), Cause> {
        match (trip.kind, reply) {
            (Kind::Silent, _) => Ok(()),
            (_, Reply::Error(text)) => self.refused(trip, &String::from_utf8_lossy(&text)),
            (Kind::Reset, Reply::Number(_)) => {
                trip.jobs
                    .iter_mut()
                    .for_each(|job| job.reply(Ok(Answered::done())));
                Ok(())
            }
            (Kind::Batch(_), Reply::Text(text)) => Self::answered(trip, text),
            _ => {
                let cause = Cause::new("the server answered another question");
                trip.fail_away(&cause);
                Err(cause)
            }
        }
    }

    fn answered(mut trip: Trip, text: bytes::Bytes) -> Result<(), Cause> {
        let Some(answers) = answers(text, trip.jobs.iter().map(|job| &*job.request)) else {
            let cause = Cause::new("the script answered something else");
            trip.fail_away(&cause);
            return Err(cause);
        };
        let mut broken = Ok(());
        for (job, answer) in trip.jobs.iter_mut().zip(answers) {
            job.reply(answer.map_err(|error| match Meaning::of(&error) {
                Meaning::Fails(failure) => failure,
                Meaning::NoScript => {
                    Failure::Refused(Cause::new("the script is missing from itself"))
                }
                Meaning::Breaks(cause) => {
                    broken = Err(cause.clone());
                    Failure::Unavailable(cause)
                }
            }));
        }
        broken
    }

    /// What to do about a command that the server refused as a whole: it has not run.
    fn refused(&mut self, mut trip: Trip, error: &str) -> Result<(), Cause> {
        let now = self.heard;
        match Meaning::of(error) {
            Meaning::NoScript if trip.kind == Kind::Batch(Calling::ByName) => {
                trip.expire(now);
                let jobs: Vec<Job> = trip
                    .jobs
                    .into_iter()
                    .filter(|job| !job.is_pointless())
                    .collect();
                self.send(jobs, now, Calling::BySource);
                Ok(())
            }
            // Together they may be in two places where each alone is in one.
            Meaning::Fails(Failure::TryAgain) if trip.jobs.len() > 1 => {
                trip.expire(now);
                let jobs = trip.jobs.into_iter().filter(|job| !job.is_pointless());
                jobs.for_each(|job| self.send(vec![job], now, Calling::ByName));
                Ok(())
            }
            Meaning::Fails(failure) => {
                trip.fail(&failure);
                Ok(())
            }
            Meaning::NoScript => {
                trip.fail(&Failure::Refused(Cause::new(
                    "the server does not know the script it was sent",
                )));
                Ok(())
            }
            Meaning::Breaks(cause) => {
                trip.fail_away(&cause);
                Err(cause)
            }
        }
    }

    /// Notices a server that answers, but always too late.
    fn note_pace(&mut self, took: Duration) -> Result<(), Cause> {
        self.late = if took > self.shared.access.timeout {
            self.late + 1
        } else {
            0
        };
        if self.late < LATE_MAX {
            Ok(())
        } else {
            Err(Cause::new("the server is slower than the deadline"))
        }
    }

    /// Tells those whose deadline has gone by, and sees whether the server is still there.
    /// Deadlines follow each other, so one timer, set to the first, does for all of them.
    fn tick(&mut self, timer: Pin<&mut Sleep>) -> Result<(), Cause> {
        let now = Instant::now();
        self.trips.iter_mut().for_each(|trip| trip.expire(now));
        let first_waiting = self.expire_waiting(now);
        let silence = self.shared.access.timeout * SILENT_DEADLINES;
        let given_up = self.trips.front().map(|trip| trip.sent + silence);
        if given_up.is_some_and(|moment| moment <= now) {
            return Err(Cause::new("the server does not answer"));
        }
        if self.trips.is_empty() && first_waiting.is_none() {
            if now < self.heard + IDLE {
                timer.reset(self.heard + IDLE);
            } else {
                resp::write_command(&mut self.out, &[b"PING"]);
                self.trips
                    .push_back(Trip::new(Kind::Silent, Vec::new(), now));
                timer.reset(now + silence);
            }
            return Ok(());
        }
        let deadlines = self.trips.iter().filter_map(Trip::deadline).min();
        let next = [deadlines, first_waiting, given_up]
            .into_iter()
            .flatten()
            .min();
        // A deadline from now at the latest, for what comes while nothing can be sent.
        timer.reset(next.map_or(now + IDLE, |next| {
            next.min(now + self.shared.access.timeout)
        }));
        Ok(())
    }

    /// Sets the timer to the first deadline of what waits, which came out of order.
    fn hurry(&self, timer: Pin<&mut Sleep>) {
        let first = self
            .shared
            .queue
            .lock()
            .waiting
            .iter()
            .map(|job| job.deadline)
            .min();
        if let Some(first) = first.filter(|first| *first < timer.deadline()) {
            timer.reset(first);
        }
    }

    /// Answers what has waited in the queue for too long; returns the first deadline of the rest.
    fn expire_waiting(&self, now: Instant) -> Option<Instant> {
        let mut queue = self.shared.queue.lock();
        queue.waiting.retain_mut(|job| {
            if job.deadline <= now {
                job.reply(Err(Failure::Timeout));
            }
            !job.is_pointless()
        });
        queue
            .waiting
            .iter()
            .filter(|job| job.answer.is_some())
            .map(|job| job.deadline)
            .min()
    }
}
