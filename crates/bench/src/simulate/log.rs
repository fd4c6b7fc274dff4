//! A synthetic access log of a busy API: many clients of which a few send most requests, many
//! paths, and user agents of browsers and programs.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::Ipv4Addr;
use std::path::Path;

use fastrand::Rng;

/// The number of clients.
pub(super) const CLIENTS: u64 = 100_000;
/// The number of lines with the same time.
const PER_SECOND: u64 = 2_000;
const SEED: u64 = 7;
const AGENTS: [&str; 4] = [
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) \
     Chrome/130.0.0.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 \
     (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1",
    "python-requests/2.32",
    "curl/8.5.0",
];

const REQUESTS: [&str; 10] = [
    "POST /auth/login",
    "GET /v1/users",
    "GET /v1/users/{id}/orders?page={page}",
    "GET /v1/items/{id}",
    "GET /v1/search?q=word{id}&sort=asc",
    "GET /static/app.{id}.js",
    "GET /index.html",
    "GET /images/logo.png",
    "GET /healthz",
    "GET /",
];

/// Writes a log of about `bytes` bytes and returns its number of lines. The log is the same on
/// every machine.
pub(super) fn write(path: &Path, bytes: u64) -> io::Result<u64> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let (mut random, mut lines, mut written) = (Rng::with_seed(SEED), 0, 0);
    while written < bytes {
        let line = line(&mut random, lines);
        file.write_all(line.as_bytes())?;
        written += line.len() as u64;
        lines += 1;
    }
    file.flush()?;
    Ok(lines)
}

/// The line with this number, with the line break.
fn line(random: &mut Rng, number: u64) -> String {
    let (client, request) = (client(random), request(random));
    let time = number / PER_SECOND;
    let (day, hour, minute, second) = (
        1 + time / 86_400,
        time / 3_600 % 24,
        time / 60 % 60,
        time % 60,
    );
    let (bytes, agent) = (
        random.u32(100..100_000),
        AGENTS[random.usize(..AGENTS.len())],
    );
    format!(
        "{client} - - [{day:02}/Oct/2026:{hour:02}:{minute:02}:{second:02} +0000] \
         \"{request} HTTP/1.1\" 200 {bytes} \"https://example.com/\" \"{agent}\"\n"
    )
}

/// Draws a client. The fourth power of a uniform random number below 1 makes the first few clients
/// the busiest.
fn client(random: &mut Rng) -> Ipv4Addr {
    let drawn = u128::from(random.u16(..));
    let rank = (drawn.pow(4) * u128::from(CLIENTS)) >> 64;
    let scattered = u32::try_from(rank)
        .unwrap_or_default()
        .wrapping_mul(0x9e37_79b1);
    Ipv4Addr::from((scattered & 0x7fff_ffff) | 0x0100_0000)
}

/// Draws a method and a path.
fn request(random: &mut Rng) -> String {
    let id = random.u32(..100_000);
    let request = REQUESTS[random.u32(..10) as usize];
    let request = request.replace("{id}", &id.to_string());
    request.replace("{page}", &(id % 40).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_combined_format() {
        let line = line(&mut Rng::with_seed(SEED), 3_601 * PER_SECOND);
        assert!(
            line.contains(" - - [01/Oct/2026:01:00:01 +0000] \""),
            "{line}"
        );
        assert_eq!(
            (line.matches('"').count(), line.ends_with("\"\n")),
            (6, true),
            "{line}"
        );
    }

    #[test]
    fn few_clients_are_busy_and_many_are_there() {
        let mut random = Rng::with_seed(SEED);
        let clients: Vec<Ipv4Addr> = (0..20_000).map(|_| client(&mut random)).collect();
        let distinct: std::collections::HashSet<_> = clients.iter().collect();
        assert!(distinct.len() > 5_000, "{}", distinct.len());
        let most = distinct
            .iter()
            .map(|one| clients.iter().filter(|client| client == one).count())
            .max();
        assert!(most > Some(500), "{most:?}");
    }
}
