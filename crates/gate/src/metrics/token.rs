//! The requests of each token.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use tollgate_rules::Permission;

use super::page::{MetricSample, to_f64};

/// The requests of one token.
#[derive(Debug, Default)]
pub struct TokenMetrics {
    name: Arc<str>,
    accepted: AtomicU64,
    forbidden: AtomicU64,
    /// A bit for each permission whose lack was logged.
    logged: AtomicU32,
}

/// The requests by token. A reload keeps the counts of tokens whose names stay.
#[derive(Clone, Debug, Default)]
pub struct TokenCounts {
    /// In the order of the configuration.
    pub tokens: Vec<Arc<TokenMetrics>>,
    /// Requests without a valid token.
    unauthorized: Arc<AtomicU64>,
}

impl TokenMetrics {
    /// Counts a request that the token allows. Logs the first one, which shows that a new token is
    /// in use.
    pub fn count_accepted(&self) {
        if self.accepted.fetch_add(1, Relaxed) == 0 {
            tracing::info!(token = %self.name, "first request with this token");
        }
    }

    /// Counts a request that the token does not allow. Logs the first one of each permission.
    pub fn count_forbidden(&self, permission: Permission) {
        self.forbidden.fetch_add(1, Relaxed);

        let bit = 1 << permission as u32;
        if self.logged.fetch_or(bit, Relaxed) & bit == 0 {
            tracing::warn!(
                token = %self.name,
                %permission,
                "the token does not allow this; further requests are only counted"
            );
        }
    }
}

impl TokenCounts {
    /// The counts for the tokens of another configuration.
    pub(super) fn with_names<'n>(&self, names: impl Iterator<Item = &'n Arc<str>>) -> Self {
        let known = |name: &Arc<str>| self.tokens.iter().find(|token| token.name == *name);
        let tokens = names.map(|name| {
            let new = || TokenMetrics {
                name: name.clone(),
                ..TokenMetrics::default()
            };
            known(name).cloned().unwrap_or_else(|| Arc::new(new()))
        });
        Self {
            tokens: tokens.collect(),
            unauthorized: self.unauthorized.clone(),
        }
    }

    /// Counts a request without a valid token, and logs the first one.
    pub fn count_unauthorized(&self) {
        if self.unauthorized.fetch_add(1, Relaxed) == 0 {
            tracing::warn!(
                "rejected a request without a valid token; further ones are only counted"
            );
        }
    }

    /// The samples of `requests_total`. None while no tokens are configured.
    pub(super) fn samples(&self) -> Vec<MetricSample<'_>> {
        let sample = |token, result, count: &AtomicU64| {
            let labels = vec![("token", token), ("result", result)];
            (labels, to_f64(count.load(Relaxed)))
        };

        let mut samples = Vec::new();
        for token in &self.tokens {
            samples.push(sample(&*token.name, "accepted", &token.accepted));
            samples.push(sample(&*token.name, "forbidden", &token.forbidden));
        }
        if !samples.is_empty() {
            samples.push(sample("", "unauthorized", &self.unauthorized));
        }
        samples
    }
}
