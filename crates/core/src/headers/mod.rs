//! Header values from a decision.
