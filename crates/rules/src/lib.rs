//! Reads Tollgate's configuration file and selects the limits that apply to a request.
//!
//! 1. [`Config`] parses and validates the YAML text. Everything it holds is valid, so no later step
//!    validates it again.
//! 2. Each entry of `limits` becomes a [`LimitConfig`]: the limit, its conditions, its key, its
//!    tiers and its cost.
//! 3. A [`Selector`] takes the [`Attributes`] of a request and returns the limits that apply, each
//!    with its key and cost.
//!
//! This crate knows nothing of sockets, HTTP or stores. It only describes the store
//! ([`StoreConfig`](config::StoreConfig)); the server creates it.

mod attribute;
pub mod config;
mod key_attribute;
mod limit;
mod select;
pub mod text;
mod token;
mod token_counts;

pub use attribute::{ATTRIBUTE_NAME_MAX, Attribute, AttributeError, AttributeKind};
pub use config::{Config, ConfigError, Diagnostic, InlineLimitError, InlineLimits};
pub use key_attribute::{KeyAttribute, KeyAttributeError, Normaliser};
pub use limit::{
    AmbiguousPathPolicy, Condition, Cost, LimitConfig, Pattern, Recipe, StandingBlock, StandingKey,
    StandingList, Tiers, TokenWeight,
};
pub use select::{
    Attributes, DisplayPart, Explanation, LimitDemands, MissingKeyPolicy, RequestedLimit,
    SelectError, Selection, Selector, StandingEffect, StandingIndex, Value, validate_cost,
};
pub use token::{Permission, PermissionSet, TOKEN_MIN, TokenError, TokenHash};
pub use token_counts::{TokenKinds, TokenName};
