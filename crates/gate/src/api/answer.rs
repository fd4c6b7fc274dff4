//! The answers of the decision API: a status and a JSON text.

use std::borrow::Cow;

use http::StatusCode;
use tollgate::Decision;
use tollgate_http::{DecisionBody, Problem};

use crate::{BlockStatus, GateDecision, GateInspection};

/// What an operation answers.
#[derive(Debug)]
pub enum Answer {
    /// A decision: 200, 429 or 503.
    Decision(GateDecision),
    /// A decision that was charged in any case: 200, or 503 if the store was unavailable and the
    /// policy is to deny, because then nothing was charged.
    Counted(GateDecision),
    /// The decision of a peek, with what the counters contain: 200, 429 or 503.
    Inspection(GateInspection),
    /// A JSON text with status 200.
    Done(Cow<'static, str>),
}

/// An answer as it is sent.
#[derive(Debug)]
pub struct EncodedAnswer {
    /// The status of the response.
    pub status: StatusCode,
    /// Whether the body is a problem document (RFC 9457).
    pub is_problem: bool,
    /// The body, a JSON object.
    pub body: Cow<'static, str>,
}

impl Answer {
    /// The decision, for the header fields. None if the operation decides nothing.
    pub const fn decision(&self) -> Option<&Decision> {
        match self {
            Self::Decision(decision) | Self::Counted(decision) => Some(&decision.decision),
            Self::Inspection(inspection) => Some(&inspection.decision),
            Self::Done(_) => None,
        }
    }

    /// The status and the body.
    pub fn encode(&self) -> EncodedAnswer {
        match self.problem() {
            Some(problem) => EncodedAnswer {
                status: problem.status,
                is_problem: true,
                body: problem.to_json().into(),
            },
            None => EncodedAnswer {
                status: StatusCode::OK,
                is_problem: false,
                body: self.body(),
            },
        }
    }

    /// The status of a block, if that denies.
    const fn block(&self) -> Option<BlockStatus> {
        match self {
            Self::Decision(decision) | Self::Counted(decision) => decision.block,
            Self::Inspection(inspection) => inspection.block,
            Self::Done(_) => None,
        }
    }

    /// The problem document of a denial.
    fn problem(&self) -> Option<Problem<'_>> {
        let mut problem = Problem::denied(self.decision()?)?;
        if let Some(block) = self.block() {
            problem.status = block.status();
        }
        match self {
            Self::Counted(_) if problem.status != StatusCode::SERVICE_UNAVAILABLE => return None,
            Self::Inspection(inspection) => {
                if let Some(body) = &mut problem.decision {
                    body.add_counters(&inspection.counters);
                }
            }
            _ => {}
        }
        Some(problem)
    }

    /// The body of an answer that is not a problem.
    fn body(&self) -> Cow<'static, str> {
        match self {
            Self::Decision(decision) | Self::Counted(decision) => {
                let mut body = DecisionBody::new(&decision.decision);
                body.permit.clone_from(&decision.permit);
                body.reservation.clone_from(&decision.reservation);
                body.to_json().into()
            }
            Self::Inspection(inspection) => {
                let mut body = DecisionBody::new(&inspection.decision);
                body.add_counters(&inspection.counters);
                body.to_json().into()
            }
            Self::Done(text) => text.clone(),
        }
    }
}
