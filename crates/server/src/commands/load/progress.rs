//! The line that shows the progress of a load.

use std::time::Duration;

use tollgate_load::LoadProgress;

use super::super::numbers::grouped;
use super::super::terminal::plain;
use super::format::millis;

/// For example `3.2s of 10.0s  allowed 100  denied 3,100  p99 0.21ms`. Kept short, because a line
/// that wraps cannot be redrawn.
pub(super) fn text(progress: &LoadProgress, duration: Duration) -> String {
    let requests = progress.requests;
    let total = duration.as_secs_f64();
    let mut parts = vec![match progress.elapsed.as_secs_f64() {
        elapsed if elapsed <= total => format!("{elapsed:.1}s of {total:.1}s"),
        _ => "last responses".to_owned(),
    }];

    parts.push(format!("allowed {}", grouped(requests.allowed)));
    parts.push(format!("denied {}", grouped(requests.denied)));
    for (name, count) in [("errors", requests.errors), ("unsent", requests.unsent)] {
        if count > 0 {
            parts.push(format!("{name} {}", grouped(count)));
        }
    }
    if let Some(p99_us) = progress.p99_us {
        parts.push(format!("p99 {}", millis(p99_us)));
    }
    if let Some(name) = progress.exceeded.first() {
        parts.push(format!("EXCEEDED: {}", plain(name)));
    }
    parts.join("  ")
}

#[cfg(test)]
mod tests {
    use tollgate_load::RequestCounts;

    use super::*;

    #[test]
    fn the_line_has_only_counts_that_matter() {
        let requests = RequestCounts {
            allowed: 12_345_678,
            denied: 100,
            errors: 3,
            unsent: 7,
            ..RequestCounts::default()
        };
        let exceeded = vec!["a\x1b".to_owned()];
        let elapsed = Duration::from_millis(3_240);
        let progress = LoadProgress {
            elapsed,
            requests,
            p99_us: Some(1_234),
            exceeded,
        };
        let line = text(&progress, Duration::from_secs(10));
        assert_eq!(
            line,
            "3.2s of 10.0s  allowed 12,345,678  denied 100  errors 3  unsent 7  p99 1.23ms  \
             EXCEEDED: a\\u{1b}"
        );
        let quiet = LoadProgress {
            elapsed,
            requests: RequestCounts::default(),
            p99_us: None,
            exceeded: Vec::new(),
        };
        assert_eq!(
            text(&quiet, Duration::from_secs(1)),
            "last responses  allowed 0  denied 0"
        );
    }
}
