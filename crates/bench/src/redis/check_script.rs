//! The check that every subject makes: the store's own script, keys and arguments.

use std::fmt::Write as _;
use std::time::Duration;

use tollgate::{DemandBuf, Limit, Rate, ToKey};
use tollgate_redis::testing;

/// The names of the limits. All subjects check the first one; one subject checks all of them.
pub(super) const LIMITS: [&str; 3] = ["api", "api-hourly", "api-daily"];
/// redis-benchmark replaces this text by a random number with the same number of digits.
const PLACEHOLDER: &str = "__rand_int__";

/// A token bucket that never denies and is never full again, so that every decision takes the same
/// path in the script. Limits differ only in their name.
pub(super) fn limit(name: &str) -> Limit {
    Limit::token_bucket(name, 1_000_000_000, Rate::new(3, Duration::from_secs(7)))
}

/// A key as it is passed to the limiter, with the length that redis-benchmark's keys have.
pub(super) fn name(number: u32) -> String {
    format!("user:{number:0width$}", width = PLACEHOLDER.len())
}

/// A key of a limit as it is stored on the server.
pub(super) fn key(limit: &str, number: u32) -> Vec<u8> {
    request(limit, name(number).as_str()).0
}

/// A key with the placeholder that redis-benchmark replaces by a random number.
pub(super) fn key_to_draw() -> Vec<u8> {
    request(LIMITS[0], format!("user:{PLACEHOLDER}").as_str()).0
}

/// The position of the placeholder in these bytes.
pub(super) fn digits(bytes: &[u8]) -> std::ops::Range<usize> {
    let mut places = bytes.windows(PLACEHOLDER.len());
    let at = places
        .position(|place| place == PLACEHOLDER.as_bytes())
        .expect("a key holds its name");
    at..at + PLACEHOLDER.len()
}

/// The script's arguments, the same for every limit and key: the kind of call, and the encoded demand.
pub(super) fn arguments() -> [Vec<u8>; 2] {
    request(LIMITS[0], name(0).as_str()).1
}

/// The script as the store sends it.
pub(super) fn script() -> &'static str {
    testing::script()
}

/// The script with its arguments inlined.
///
/// redis-benchmark passes its arguments as C strings, which end at the first zero byte; the encoded
/// demand contains some.
pub(super) fn script_with_arguments() -> String {
    let literal = |argument: Vec<u8>| {
        argument
            .into_iter()
            .fold(String::new(), |mut literal, byte| {
                write!(literal, "\\{byte:03}").expect("writing to a string cannot fail");
                literal
            })
    };
    let [which, demand] = arguments().map(literal);
    format!("local ARGV = {{ '{which}', '{demand}' }}\n{}", script())
}

/// Whether a reply of the script allows the check: the time, then 1, then three numbers.
pub(super) fn is_allowed_reply(answer: &[u8]) -> bool {
    answer.len() == ALLOWED_REPLY_LEN && answer[8] == 1
}

/// The length of the script's reply for one demand.
pub(super) const ALLOWED_REPLY_LEN: usize = 8 + 1 + 3 * 8;

fn request(limit_name: &str, name: impl ToKey) -> (Vec<u8>, [Vec<u8>; 2]) {
    let rule = limit(limit_name).validate().expect("the limit is valid");
    let check = DemandBuf::new(&rule, name, 1).expect("the key is short");
    testing::script_arguments(&check.as_demand())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_keys_are_the_keys_of_the_store() {
        let mut drawn = key_to_draw();
        let digits = digits(&drawn);
        drawn[digits].copy_from_slice(b"000000000042");
        assert_eq!(drawn, key(LIMITS[0], 42));
        assert!(!drawn.contains(&0), "redis-benchmark would cut {drawn:?}");
    }

    #[test]
    fn the_arguments_are_written_byte_for_byte() {
        let script = script_with_arguments();
        let (first, rest) = script.split_once('\n').unwrap();
        assert_eq!(rest, super::script());
        let literals = first
            .strip_prefix("local ARGV = { '")
            .unwrap()
            .strip_suffix("' }")
            .unwrap();
        let bytes = |literal: &str| {
            literal
                .split('\\')
                .skip(1)
                .map(|byte| byte.parse().unwrap())
                .collect()
        };
        let written: Vec<Vec<u8>> = literals.split("', '").map(bytes).collect();
        assert_eq!(written, arguments());
    }

    #[test]
    fn only_a_complete_allowed_reply_is_accepted() {
        let mut answer = [0; ALLOWED_REPLY_LEN];
        assert!(!is_allowed_reply(&answer));
        answer[8] = 1;
        assert!(is_allowed_reply(&answer));
        assert!(!is_allowed_reply(&answer[1..]));
    }
}
