//! The header fields of language model APIs.

use super::*;

/// Requests and tokens per minute, two limits of input tokens, one of output tokens, and requests in
/// flight.
fn language_model() -> (Limiter, ManualClock) {
    use QuotaUnit::{InputTokens, OutputTokens, Tokens};
    limiter([
        Limit::token_bucket("requests", 50, Rate::per_minute(50)),
        Limit::fixed_window("daily-requests", 10_000, DAY),
        Limit::token_bucket("tokens", 60_000, Rate::per_minute(60_000)).unit(Tokens),
        Limit::sliding_log("input", 50_000, MINUTE).unit(InputTokens),
        Limit::fixed_window("daily-input", 90_000, DAY).unit(InputTokens),
        Limit::fixed_window("output", 9_000, MINUTE).unit(OutputTokens),
        Limit::concurrency("in-flight", 1, MINUTE),
    ])
}

fn sent_with(decision: &Decision, enabled: EnabledFields) -> String {
    let now = ManualClock::default().now();
    let mut headers = HeaderMap::new();
    Fields::new(decision, enabled, now).add_to(&mut headers);

    let fields = Fields::new(decision, enabled, now).into_iter();
    let lines = fields.map(|(name, value)| {
        assert_eq!(headers.get(name), Some(&value));
        format!("{name}: {}\n", value.to_str().unwrap())
    });
    lines.collect()
}

fn converse(limiter: &Limiter, input: u64, output: u64) -> Decision {
    limiter
        .check("requests", "ann")
        .and("daily-requests", "ann")
        .and("tokens", "ann")
        .limit_cost(input + output)
        .and("input", "ann")
        .limit_cost(input)
        .and("daily-input", "ann")
        .limit_cost(input)
        .and("output", "ann")
        .limit_cost(output)
        .and("in-flight", "ann")
        .try_now()
        .unwrap()
}

const VENDORS_ONLY: EnabledFields = EnabledFields {
    ietf: false,
    legacy: false,
    openai: false,
    anthropic: false,
    retry_after: true,
};

#[test]
fn the_fields_of_openai() {
    let enabled = EnabledFields {
        openai: true,
        ..VENDORS_ONLY
    };
    let (limiter, _) = language_model();

    let expected = "x-ratelimit-limit-requests: 50
x-ratelimit-remaining-requests: 49
x-ratelimit-reset-requests: 2s
x-ratelimit-limit-tokens: 9000
x-ratelimit-remaining-tokens: 1000
x-ratelimit-reset-tokens: 1m0s
";
    assert_eq!(
        sent_with(&converse(&limiter, 30_000, 8_000), enabled),
        expected
    );

    // Two limits deny, and the one that denies longer is shown.
    let expected = "x-ratelimit-limit-requests: 50
x-ratelimit-remaining-requests: 49
x-ratelimit-reset-requests: 2s
x-ratelimit-limit-tokens: 50000
x-ratelimit-remaining-tokens: 20000
x-ratelimit-reset-tokens: 1m0s
Retry-After: 60
";
    assert_eq!(
        sent_with(&converse(&limiter, 30_000, 500), enabled),
        expected
    );
}

#[test]
fn the_fields_of_anthropic() {
    let enabled = EnabledFields {
        anthropic: true,
        ..VENDORS_ONLY
    };
    let (limiter, _) = language_model();

    let expected = "anthropic-ratelimit-requests-limit: 50
anthropic-ratelimit-requests-remaining: 49
anthropic-ratelimit-requests-reset: 2027-01-01T00:00:02Z
anthropic-ratelimit-tokens-limit: 9000
anthropic-ratelimit-tokens-remaining: 1000
anthropic-ratelimit-tokens-reset: 2027-01-01T00:01:00Z
anthropic-ratelimit-input-tokens-limit: 50000
anthropic-ratelimit-input-tokens-remaining: 20000
anthropic-ratelimit-input-tokens-reset: 2027-01-01T00:01:00Z
anthropic-ratelimit-output-tokens-limit: 9000
anthropic-ratelimit-output-tokens-remaining: 1000
anthropic-ratelimit-output-tokens-reset: 2027-01-01T00:01:00Z
";
    assert_eq!(
        sent_with(&converse(&limiter, 30_000, 8_000), enabled),
        expected
    );
}

#[test]
fn profiles_leave_out_units_that_no_limit_counts() {
    let enabled = EnabledFields {
        openai: true,
        anthropic: true,
        ..VENDORS_ONLY
    };
    let (limiter, _) = limiter([
        Limit::fixed_window("bytes", 9, MINUTE).unit(QuotaUnit::Bytes),
        Limit::concurrency("in-flight", 9, MINUTE),
        Limit::fixed_window("trial", 9, MINUTE).shadow(),
        Limit::fixed_window("input", 9, MINUTE).unit(QuotaUnit::InputTokens),
    ]);
    let decide = |name| limiter.check(name, "ann").try_now().unwrap();

    for name in ["bytes", "in-flight", "trial"] {
        assert_eq!(sent_with(&decide(name), enabled), "", "{name}");
    }
    let names: Vec<_> = Fields::new(&decide("input"), enabled, Micros::ZERO)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let shown = [
        "x-ratelimit-limit-tokens",
        "anthropic-ratelimit-tokens-limit",
    ];
    assert_eq!([names[0], names[3]], shown);
    assert_eq!(
        (names[6], names.len()),
        ("anthropic-ratelimit-input-tokens-limit", 9)
    );
}

#[test]
fn a_policy_names_its_unit() {
    let (limiter, _) = language_model();
    let decision = converse(&limiter, 1, 1);
    let expected = r#""requests";q=50;w=60, "daily-requests";q=10000;w=86400, "tokens";q=60000;w=60;qu="tokens", "input";q=50000;w=60;qu="input-tokens", "daily-input";q=90000;w=86400;qu="input-tokens", "output";q=9000;w=60;qu="output-tokens", "in-flight";q=1;qu="concurrent-requests""#;
    assert_eq!(field(&decision, &RATE_LIMIT_POLICY), expected);
    assert_eq!(parsed(expected).len(), 7);
}

#[test]
fn the_tighter_of_two_layers_is_described_in_profiles_too() {
    let (limiter, _) = limiter([
        Limit::fixed_window("wide", 100, MINUTE),
        Limit::fixed_window("tight", 5, MINUTE),
    ]);
    let decide = |name: &'static str| limiter.check(name, "ann").try_now().unwrap();
    let (wide, tight) = (decide("wide"), decide("tight"));
    let enabled = EnabledFields {
        openai: true,
        ..VENDORS_ONLY
    };

    for order in [[&wide, &tight], [&tight, &wide]] {
        let mut headers = HeaderMap::new();
        for decision in order {
            Fields::new(decision, enabled, Micros::ZERO).add_to(&mut headers);
        }
        assert_eq!(
            headers.get_all("x-ratelimit-limit-requests").iter().count(),
            1
        );
        assert_eq!(headers["x-ratelimit-limit-requests"], "5");
        assert_eq!(headers["x-ratelimit-remaining-requests"], "4");
    }
}
