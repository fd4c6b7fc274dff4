//! What can be done to connections.

use std::time::Duration;

/// Not a reply in any version of the protocol: the first byte names no kind.
const GARBAGE: &[u8] = b"\x00\xff\x7fHTTP/1.1 400 Bad Request\r\n\xc3\x28\r\n\x01\x02\x03";
/// The beginning of a text of a terabyte.
const GIANT_BULK: &[u8] = b"$999999999999\r\n";
/// The beginning of a list of a billion items.
const GIANT_ARRAY: &[u8] = b"*1000000000\r\n";

/// Something that goes wrong between a client and its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Every reply arrives this much later. Replies do not wait for each other.
    DelayReplies(Duration),
    /// Every request arrives this much later. Requests do not wait for each other.
    DelayRequests(Duration),
    /// The next reply on any connection is cut: this many bytes arrive, then a reset. After that
    /// the fault is over.
    CutNextReply {
        /// How many bytes arrive.
        after_bytes: usize,
    },
    /// Every connection is cut in its next reply: this many bytes arrive, then a reset.
    CutReplies {
        /// How many bytes arrive.
        after_bytes: usize,
    },
    /// Requests reach the server, replies vanish.
    DropReplies,
    /// These bytes arrive in place of each reply.
    ReplaceReplies(&'static [u8]),
    /// Bytes that are no reply at all arrive in place of each.
    Garbage,
    /// The beginning of a text of a terabyte arrives in place of each reply.
    GiantBulk,
    /// The beginning of a list of a billion items arrives in place of each reply.
    GiantArray,
    /// Requests and replies are sent one byte at a time.
    Slice,
    /// Requests and replies trickle, on each connection and in each direction.
    Throttle {
        /// How fast; zero counts as one.
        bytes_per_second: u32,
    },
    /// Nothing moves in either direction, not even the end of a connection; new connections are
    /// accepted.
    BlackHole,
    /// New connections are accepted and never answered, as when a TLS handshake stalls. The others
    /// go on.
    StallNew,
    /// Nobody listens: new connections are refused. The others go on until
    /// [`cut`](super::FaultProxy::cut).
    Refuse,
    /// New connections get no answer at all, not even a refusal; the others go on. The port listens
    /// with the shortest queue there is, which is full and never emptied, so that Linux drops what
    /// comes. It is the best that can be done without rights over the network; other systems may
    /// refuse instead.
    DropSyn,
    /// By turns, for this long each: everything is cut and refused, then everything is well. It
    /// begins with the cut.
    Flap {
        /// How long each turn is.
        every: Duration,
    },
}

/// What a set of faults comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Effects {
    pub(super) delay_requests: Duration,
    pub(super) delay_replies: Duration,
    pub(super) cut: Option<Cut>,
    pub(super) replies: Replies,
    pub(super) pace: Pace,
    pub(super) black_hole: bool,
    pub(super) stall_new: bool,
    pub(super) entry: Entry,
    pub(super) flap: Option<Duration>,
}

/// Where a reply ends too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) after_bytes: usize,
    /// Whether one cut is all.
    pub(super) once: bool,
}

/// What becomes of a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Replies {
    #[default]
    Pass,
    Drop,
    Replace(&'static [u8]),
}

/// How bytes are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pace {
    #[default]
    Free,
    Slices,
    PerSecond(u32),
}

/// How new connections fare at the port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Entry {
    #[default]
    Open,
    /// Nobody listens.
    Refused,
    /// Somebody listens, with a full queue.
    Full,
}

impl Effects {
    pub(super) fn of(faults: &[Fault]) -> Self {
        faults
            .iter()
            .fold(Self::default(), |effects, fault| effects.with(*fault))
    }

    /// After how many bytes a connection is to be cut, if one is to be. What happens only once has
    /// happened then.
    pub(super) fn claim_cut(&mut self) -> Option<usize> {
        let cut = self.cut?;
        if cut.once {
            self.cut = None;
        }
        Some(cut.after_bytes)
    }

    fn with(mut self, fault: Fault) -> Self {
        match fault {
            Fault::DelayReplies(delay) => self.delay_replies = delay,
            Fault::DelayRequests(delay) => self.delay_requests = delay,
            Fault::CutNextReply { after_bytes } => {
                self.cut = Some(Cut {
                    after_bytes,
                    once: true,
                });
            }
            Fault::CutReplies { after_bytes } => {
                self.cut = Some(Cut {
                    after_bytes,
                    once: false,
                });
            }
            Fault::DropReplies => self.replies = Replies::Drop,
            Fault::ReplaceReplies(bytes) => self.replies = Replies::Replace(bytes),
            Fault::Garbage => self.replies = Replies::Replace(GARBAGE),
            Fault::GiantBulk => self.replies = Replies::Replace(GIANT_BULK),
            Fault::GiantArray => self.replies = Replies::Replace(GIANT_ARRAY),
            Fault::Slice => self.pace = Pace::Slices,
            Fault::Throttle { bytes_per_second } => {
                self.pace = Pace::PerSecond(bytes_per_second.max(1));
            }
            Fault::BlackHole => self.black_hole = true,
            Fault::StallNew => self.stall_new = true,
            Fault::Refuse => self.entry = Entry::Refused,
            Fault::DropSyn => self.entry = Entry::Full,
            Fault::Flap { every } => self.flap = Some(every),
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_different_kinds_add_up_and_of_one_kind_the_later_holds() {
        let second = Duration::from_secs(1);
        let effects = Effects::of(&[
            Fault::DelayReplies(second),
            Fault::Garbage,
            Fault::Slice,
            Fault::DropReplies,
        ]);
        let expected = Effects {
            delay_replies: second,
            replies: Replies::Drop,
            pace: Pace::Slices,
            ..Effects::default()
        };
        assert_eq!(effects, expected);
    }
}
