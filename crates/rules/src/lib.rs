//! The configuration file of Tollgate, and which of its limits a request meets.
//!
//! text -> [`Config`] (checked; nothing inside checks again) -> [`LimitConfig`]s -> for the attributes of
//! a request, the checks to make.
//!
//! Owns the YAML, the words of a configuration and the choice of limits. Knows nothing of sockets,
//! HTTP or stores: a store is described here ([`StoreConfig`](config::StoreConfig)), and made
//! elsewhere.

mod attribute;
pub mod config;
mod rule;
mod select;

pub use attribute::{ATTRIBUTE_NAME_MAX, Attribute, AttributeError, AttributeKind};
pub use config::{Config, ConfigError, Diagnostic};
pub use rule::{Condition, Cost, LimitConfig, Match, Pattern, Recipe, Tiers};
pub use select::{
    Attributes, DisplayPart, Explanation, MissingKeyPolicy, SelectError, SelectedLimit, Selection,
    Selector, Value,
};
