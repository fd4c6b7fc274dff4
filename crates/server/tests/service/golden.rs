//! Responses as text, without the parts that differ between runs.

use testkit::reverse_proxy::Response;

/// The status, every header in order and the body. Times are rounded up to the next ten minutes,
/// longer than any test takes, and generated values are replaced by placeholders.
pub(crate) fn shown(answer: &Response) -> String {
    let mut text = format!("{}\n", answer.status);
    for (name, value) in &answer.headers {
        text += &[name, ": ", &header(name, value, answer), "\n"].concat();
    }
    let body = answer.text();
    if body.is_empty() {
        text
    } else {
        text + "\n" + &rounded_body(&body) + "\n"
    }
}

fn header(name: &str, value: &str, answer: &Response) -> String {
    match name {
        "date" => "<now>".to_owned(),
        "x-ratelimit-permit" => "<permit>".to_owned(),
        "content-length" if value == answer.body.len().to_string() => "<length>".to_owned(),
        "x-ratelimit-reset" => since_date(value, answer),
        "retry-after" => rounded(value, 600),
        "ratelimit" => each_number(value, ";t=", 600),
        _ => value.to_owned(),
    }
}

/// A timestamp relative to the response's date, to the nearest ten minutes: the date is rounded
/// down, the timestamp up.
fn since_date(value: &str, answer: &Response) -> String {
    let date = answer.header("date").expect("when it was answered");
    let now = epoch_secs(date);
    let reset: u64 = value.parse().expect("seconds");
    format!("<now> + {}", (reset.saturating_sub(now) + 300) / 600 * 600)
}

/// Seconds since the epoch of a date as in `Mon, 16 Nov 2026 02:09:42 GMT`.
fn epoch_secs(date: &str) -> u64 {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let words: Vec<&str> = date.split([' ', ':']).collect();
    let number = |at: usize| -> u64 { words[at].parse().expect("a number") };
    let month = MONTHS
        .iter()
        .position(|month| *month == words[2])
        .expect("a month");
    // Count years from March, so that a leap day is the last day of its year.
    let (year, month) = if month < 2 {
        (number(3) - 1, month + 10)
    } else {
        (number(3), month - 2)
    };
    let days =
        365 * year + year / 4 - year / 100 + year / 400 + (153 * month as u64 + 2) / 5 + number(1)
            - 719_469;
    days * 86_400 + number(4) * 3_600 + number(5) * 60 + number(6)
}

fn rounded_body(body: &str) -> String {
    let body = ["\"reset_after_ms\":", "\"retry_after_ms\":", "\"wait_ms\":"]
        .iter()
        .fold(body.to_owned(), |body, name| {
            each_number(&body, name, 600_000)
        });
    let body = each_number(&body, "try again in ", 600);
    match body.split_once("\"permit\":\"") {
        None => body,
        Some((before, after)) => {
            let (_, after) = after.split_once('"').expect("a word ends");
            format!("{before}\"permit\":\"<permit>\"{after}")
        }
    }
}

/// The text with every number that follows `before` rounded up.
fn each_number(text: &str, before: &str, unit: u64) -> String {
    let mut parts = text.split(before);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let end = part
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(part.len());
        text + before + &rounded(&part[..end], unit) + &part[end..]
    })
}

/// Rounds up to the next unit, except for numbers that are much smaller.
fn rounded(number: &str, unit: u64) -> String {
    match number.parse::<u64>() {
        Ok(number) if number > unit / 10 => (number.div_ceil(unit) * unit).to_string(),
        _ => number.to_owned(),
    }
}

#[test]
fn times_are_rounded() {
    assert_eq!(epoch_secs("Fri, 01 Jan 2027 00:00:00 GMT"), 1_798_761_600);
    assert_eq!(epoch_secs("Thu, 29 Feb 2024 12:00:01 GMT"), 1_709_208_001);
    assert_eq!(
        each_number("a;t=3599, b;t=1", ";t=", 600),
        "a;t=3600, b;t=1"
    );
}
