//! The one question that every subject asks, in the words of the store itself: its script, its
//! keys, its arguments.

use std::fmt::Write as _;
use std::time::Duration;

use tollgate::{Limit, Rate, ToKey};
use tollgate_redis::testing;

/// The name of the limit that is asked about.
pub(super) const LIMIT: &str = "api";
/// What redis-benchmark replaces by a number of as many digits.
const PLACEHOLDER: &str = "__rand_int__";

/// A token bucket that never refuses and is never full again, so that every decision takes the same
/// way.
pub(super) fn limit() -> Limit {
    Limit::token_bucket(LIMIT, 1_000_000_000, Rate::new(3, Duration::from_secs(7)))
}

/// A key as the limiter is asked about it, of the length that redis-benchmark's keys have.
pub(super) fn name(number: u32) -> String {
    format!("user:{number:0width$}", width = PLACEHOLDER.len())
}

/// A key as the server sees it.
pub(super) fn key(number: u32) -> Vec<u8> {
    request(name(number).as_str()).0
}

/// A key as redis-benchmark is told it, which draws the number.
pub(super) fn key_to_draw() -> Vec<u8> {
    request(format!("user:{PLACEHOLDER}").as_str()).0
}

/// Where the digits of a key's number are.
pub(super) fn digits_of_key() -> std::ops::Range<usize> {
    let key = key_to_draw();
    let mut places = key.windows(PLACEHOLDER.len());
    let at = places
        .position(|place| place == PLACEHOLDER.as_bytes())
        .expect("a key holds its name");
    at..at + PLACEHOLDER.len()
}

/// What the script is told about a check, the same for every key: which question, and the question.
pub(super) fn arguments() -> [Vec<u8>; 2] {
    request(name(0).as_str()).1
}

/// The script as the store sends it.
pub(super) fn script() -> &'static str {
    testing::script()
}

/// The script with its arguments written into it.
///
/// redis-benchmark hands its arguments on as C strings, which end at the first zero byte; the
/// question has some.
pub(super) fn script_with_arguments() -> String {
    let literal = |argument: Vec<u8>| {
        argument
            .into_iter()
            .fold(String::new(), |mut literal, byte| {
                write!(literal, "\\{byte:03}").expect("a string takes everything");
                literal
            })
    };
    let [which, question] = arguments().map(literal);
    format!("local ARGV = {{ '{which}', '{question}' }}\n{}", script())
}

/// Whether an answer of the script says that the one check has passed: the moment, then 1, then
/// three numbers.
pub(super) fn is_yes(answer: &[u8]) -> bool {
    answer.len() == ANSWER_LEN && answer[8] == 1
}

/// The length of the script's answer about one check.
pub(super) const ANSWER_LEN: usize = 8 + 1 + 3 * 8;

fn request(name: impl ToKey) -> (Vec<u8>, [Vec<u8>; 2]) {
    let rule = limit().rule().expect("the limit is a right one");
    let check = rule.demand(name, 1).expect("the key is short");
    testing::script_arguments(&check.as_demand())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_keys_are_the_keys_of_the_store() {
        let mut drawn = key_to_draw();
        drawn[digits_of_key()].copy_from_slice(b"000000000042");
        assert_eq!(drawn, key(42));
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
    fn only_a_whole_yes_is_one() {
        let mut answer = [0; ANSWER_LEN];
        assert!(!is_yes(&answer));
        answer[8] = 1;
        assert!(is_yes(&answer));
        assert!(!is_yes(&answer[1..]));
    }
}
