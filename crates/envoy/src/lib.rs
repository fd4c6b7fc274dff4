//! Envoy's rate limit service protocol.
