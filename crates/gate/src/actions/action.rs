//! One action of an operator.

use std::fmt::Write as _;
use std::time::Duration;

use http::StatusCode;
use ring::digest;
use tollgate::{EncodedKey, Micros};
use tollgate_subject::Network;

use super::quota_change::QuotaChange;

/// The most actions at a time, of all kinds.
pub const ACTIONS_MAX: usize = 10_000;
/// The longest time for which an action is in force. What lasts longer belongs into the file.
pub const ACTION_MAX_AGE: Duration = Duration::from_secs(90 * 86_400);
/// The bytes of a hash that make up an id.
const ID_BYTES: usize = 8;

/// What an operator has done, for how long and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// The same for every action of a kind on the same limit and target: a new one replaces the
    /// old one.
    pub id: String,
    /// The name of the limit.
    pub limit: String,
    /// Which requests it concerns.
    pub target: ActionTarget,
    /// What it does.
    pub change: ActionChange,
    /// Why it was done, for other operators.
    pub reason: String,
    /// Who did it.
    pub by: String,
    /// When it was done, by the clock of the replica that was asked.
    pub created_at: Micros,
    /// When it ends, by the clock of this replica.
    pub expires_at: Micros,
}

/// Which requests an action concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionTarget {
    /// All requests of the limit.
    Limit,
    /// Those with this key.
    Key(EncodedKey),
    /// Those whose key has a client address in this network.
    Network(Network),
}

/// What an action does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionChange {
    /// Denies requests.
    Block(BlockStatus),
    /// Lets requests pass the limit without charging them.
    Exempt,
    /// Decides by other numbers.
    Override(QuotaChange),
    /// Makes the limit a shadow limit, or an enforced one.
    Shadow(bool),
}

/// The HTTP status of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockStatus {
    /// 429, as for every denial.
    #[default]
    TooManyRequests,
    /// 403, for clients that should not retry.
    Forbidden,
}

/// The kinds of actions, each with a path of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionKind {
    /// Blocked keys and networks.
    Block,
    /// Exempt keys and networks.
    Exemption,
    /// Keys and networks with other numbers.
    Override,
    /// Limits that were switched to shadow, or back.
    Shadow,
}

impl BlockStatus {
    /// The status of the response.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
            Self::Forbidden => StatusCode::FORBIDDEN,
        }
    }

    /// The status with this number; none if it is not that of a block.
    pub const fn from_code(code: u16) -> Option<Self> {
        match code {
            429 => Some(Self::TooManyRequests),
            403 => Some(Self::Forbidden),
            _ => None,
        }
    }
}

impl ActionKind {
    /// All kinds, in the order of lists.
    pub const ALL: [Self; 4] = [Self::Block, Self::Exemption, Self::Override, Self::Shadow];

    /// The name of the kind, in records and bodies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Exemption => "exemption",
            Self::Override => "override",
            Self::Shadow => "shadow",
        }
    }

    /// The name of several, as in paths.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Block => "blocks",
            Self::Exemption => "exemptions",
            Self::Override => "overrides",
            Self::Shadow => "shadows",
        }
    }
}

impl ActionChange {
    /// The kind of the action.
    pub const fn kind(&self) -> ActionKind {
        match self {
            Self::Block(_) => ActionKind::Block,
            Self::Exempt => ActionKind::Exemption,
            Self::Override(_) => ActionKind::Override,
            Self::Shadow(_) => ActionKind::Shadow,
        }
    }
}

impl Action {
    /// The id of an action of this kind on a limit and a target.
    pub fn id_for(kind: ActionKind, limit: &str, target: &ActionTarget) -> String {
        let mut text = Vec::new();
        text.extend_from_slice(kind.as_str().as_bytes());
        text.push(0);
        text.extend_from_slice(limit.as_bytes());
        text.push(0);
        match target {
            ActionTarget::Limit => {}
            ActionTarget::Key(key) => {
                text.push(b'k');
                text.extend_from_slice(key.as_bytes());
            }
            ActionTarget::Network(network) => {
                text.push(b'n');
                text.extend_from_slice(network.to_string().as_bytes());
            }
        }

        let hash = digest::digest(&digest::SHA256, &text);
        let mut id = format!("{}-", kind.as_str());
        for byte in hash.as_ref().iter().take(ID_BYTES) {
            let _infallible = write!(id, "{byte:02x}");
        }
        id
    }

    /// Whether the action is in force at this time.
    pub fn is_live(&self, now: Micros) -> bool {
        now < self.expires_at
    }
}
