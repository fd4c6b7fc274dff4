//! Ports for what tests start, so that no two tests on this machine ever hold the same one.
//!
//! A port is more than free when it is taken from here: it stays reserved while nothing listens on
//! it, which is the state a test of a server that is down needs it in. The reservation is a lock on
//! a file, which the system gives back however the process ends. The ports lie below those that
//! systems hand out by themselves, so no outgoing connection takes one while its server is down.

use std::fs::{self, File};
use std::hash::{BuildHasher as _, RandomState};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;

/// A cluster node's bus uses the port this much above.
const BUS_OFFSET: u16 = 10_000;
/// The first port handed out. The last one's bus is still below 32768, where the ports of outgoing
/// connections begin.
const FIRST: u16 = 16_000;
/// How many ports there are: more than a machine can run servers.
const COUNT: u16 = 4_000;

/// A port of the loopback interface, with the one for the cluster bus, kept from other tests as
/// long as this lives.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    /// Dropping it gives the port back. A port that the caller chose is not locked.
    _lock: Option<File>,
}

impl Port {
    /// A port that nobody holds and nobody listens on.
    ///
    /// # Panics
    ///
    /// When there is none left, or the directory of locks cannot be written.
    pub(crate) fn reserve() -> Self {
        let directory = locks();
        // Starting anywhere keeps processes that start together from trying the same ports one
        // after another.
        let start = RandomState::new().hash_one(std::process::id());
        let candidates = (0..u64::from(COUNT)).map(|step| {
            let place = (start % u64::from(COUNT) + step) % u64::from(COUNT);
            FIRST + u16::try_from(place).expect("a place is below COUNT, which fits")
        });
        let mut free = candidates.filter_map(|number| {
            let lock = File::create(directory.join(number.to_string())).ok()?;
            lock.try_lock().ok()?;
            let unused = is_free(number) && is_free(number + BUS_OFFSET);
            unused.then_some(Self {
                number,
                _lock: Some(lock),
            })
        });
        free.next().expect("of four thousand ports one is free")
    }

    /// A port that the caller chose and answers for.
    pub(crate) fn chosen(number: u16) -> Self {
        Self {
            number,
            _lock: None,
        }
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        loopback(self.number)
    }
}

/// Where a port of this machine is reached.
pub(crate) fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(loopback(port)).is_ok()
}

/// One directory for each user, because nobody can lock the files of another.
fn locks() -> PathBuf {
    let user = rustix::process::getuid().as_raw();
    let directory = std::env::temp_dir().join(format!("tollgate-ports-{user}"));
    fs::create_dir_all(&directory).expect("the directory for temporary files can be written");
    directory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_handed_out_once_while_it_is_held() {
        let held: Vec<Port> = (0..50).map(|_| Port::reserve()).collect();
        let mut numbers: Vec<u16> = held.iter().map(Port::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), held.len());
    }

    #[test]
    fn a_port_in_use_is_passed_over() {
        let port = Port::reserve();
        let _listener = TcpListener::bind(port.addr()).unwrap();
        assert!(!is_free(port.number()));
    }
}
