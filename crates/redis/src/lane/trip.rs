//! A trip: one command on its way, with the requests that share it.

use bytes::BytesMut;
use smallvec::SmallVec;
use tokio::time::Instant;

use super::Job;
use crate::failure::{Cause, Failure};
use crate::resp::{self, write_header, write_word};
use crate::script::Script;
use crate::wire::Verb;

/// The most requests that share one call. More would make the call long without making it much
/// cheaper.
pub(super) const BATCH_MAX: usize = 64;
/// Among how many of the last questions to look for the same: leases make every question another.
const RECENT: usize = 8;

/// One command that has been sent, in the order of sending. It keeps its place until the server has
/// answered, also when nobody waits for it any more, so that a late answer never reaches another
/// asker.
#[derive(Debug)]
pub(super) struct Trip {
    pub(super) kind: Kind,
    pub(super) jobs: Vec<Job>,
    pub(super) sent: Instant,
    /// It is the last of what was sent together.
    pub(super) ends_departure: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The script, for its jobs.
    Batch(Calling),
    /// A key to forget, for its one job.
    Reset,
    /// Nobody waits for the answer: a sign of life, or the word before a question that was sent on.
    Silent,
}

impl Trip {
    pub(super) fn new(kind: Kind, jobs: Vec<Job>, sent: Instant) -> Self {
        Self {
            kind,
            jobs,
            sent,
            ends_departure: false,
        }
    }

    /// Answers every job with the same failure.
    pub(super) fn fail(&mut self, failure: &Failure) {
        self.jobs
            .iter_mut()
            .for_each(|job| job.reply(Err(failure.clone())));
    }

    pub(super) fn fail_away(&mut self, cause: &Cause) {
        self.fail(&Failure::Unavailable(cause.clone()));
    }

    /// Answers the jobs whose deadline has gone by.
    pub(super) fn expire(&mut self, now: Instant) {
        for job in self.jobs.iter_mut().filter(|job| job.deadline <= now) {
            job.reply(Err(Failure::Timeout));
        }
    }

    /// The first deadline of those who still wait.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.jobs
            .iter()
            .filter(|job| job.answer.is_some())
            .map(|job| job.deadline)
            .min()
    }
}

/// How a script is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Calling {
    /// By its name.
    ByName,
    /// With its source, for a server that does not know it.
    BySource,
}

/// Writes the call that asks about all of these jobs. `moment` is an argument more, where the
/// caller says the time.
pub(super) fn write_batch(
    out: &mut BytesMut,
    script: &Script,
    calling: Calling,
    jobs: &[Job],
    moment: Option<String>,
) {
    let keys = jobs.iter().map(|job| job.request.keys.len()).sum::<usize>();
    let (order, questions) = questions(jobs);
    write_header(
        out,
        4 + keys + questions.len() + usize::from(moment.is_some()),
    );
    match calling {
        Calling::ByName => {
            write_word(out, b"EVALSHA");
            write_word(out, script.name.as_bytes());
        }
        Calling::BySource => {
            write_word(out, b"EVAL");
            write_word(out, script.source.as_bytes());
        }
    }
    write_word(out, keys.to_string().as_bytes());
    jobs.iter()
        .flat_map(|job| &job.request.keys)
        .for_each(|key| write_word(out, key));
    write_word(out, &order);
    questions
        .iter()
        .for_each(|question| write_word(out, question));
    if let Some(moment) = moment {
        write_word(out, moment.as_bytes());
    }
}

/// Which question each job asks, counted from 1, and the questions: most jobs ask the same as
/// another, about another key.
fn questions(jobs: &[Job]) -> (SmallVec<[u8; BATCH_MAX]>, SmallVec<[&[u8]; 4]>) {
    let mut questions: SmallVec<[&[u8]; 4]> = SmallVec::new();
    let order = jobs.iter().map(|job| {
        let question = &job.request.question[..];
        let recent = questions.len().saturating_sub(RECENT);
        let known = questions[recent..]
            .iter()
            .rposition(|other| *other == question);
        let at = known.map_or(questions.len(), |known| recent + known);
        if at == questions.len() {
            questions.push(question);
        }
        // A call has far fewer than 255 jobs.
        u8::try_from(at + 1).unwrap_or(u8::MAX)
    });
    (order.collect(), questions)
}

/// Writes the command that forgets a job's key.
pub(super) fn write_reset(out: &mut BytesMut, job: &Job) {
    debug_assert_eq!(job.request.verb, Verb::Reset);
    let key = job.request.keys.first().map_or(&[][..], |key| key);
    resp::write_command(out, &[b"DEL", key]);
}
