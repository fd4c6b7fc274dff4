//! Reserved ports for test servers, so that no two tests on this machine use the same port.
//!
//! A port stays reserved while nothing listens on it, which is what a test of a stopped server
//! needs. The reservation is a lock on a file, which the operating system releases however the
//! process ends. The ports are below the range for outgoing connections, so no outgoing connection
//! uses one while its server is down.

use std::fs::{self, File};
use std::hash::{BuildHasher as _, RandomState};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;

/// The bus of a cluster node uses the port plus this offset.
const BUS_OFFSET: u16 = 10_000;
/// The first port. The bus of the last one is still below 32768, where the ports of outgoing
/// connections begin.
const FIRST: u16 = 16_000;
/// The number of ports: more than the number of servers that a machine can run.
const COUNT: u16 = 4_000;

/// A port of the loopback interface, with the one for the cluster bus, reserved until it is
/// dropped.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// Dropping the file releases the port. A port chosen by the caller is not locked.
    _lock: Option<File>,
}

impl Port {
    /// Reserves a port on which nothing listens.
    ///
    /// # Panics
    ///
    /// If no port is free, or the directory of lock files is not writable.
    pub fn reserve() -> Self {
        let directory = locks();

        // A random start keeps processes that start together from trying the same ports one after
        // another.
        let start = RandomState::new().hash_one(std::process::id());
        let candidates = (0..u64::from(COUNT)).map(|step| {
            let place = (start % u64::from(COUNT) + step) % u64::from(COUNT);
            FIRST + u16::try_from(place).expect("the index is below COUNT, which fits")
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

        free.next().expect("one of four thousand ports is free")
    }

    /// A port chosen by the caller, which is not reserved.
    pub(crate) fn chosen(number: u16) -> Self {
        Self {
            number,
            _lock: None,
        }
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Its address on the loopback interface.
    pub fn addr(&self) -> SocketAddr {
        loopback(self.number)
    }
}

/// The loopback address with this port.
pub(crate) fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(loopback(port)).is_ok()
}

/// One directory for each user, because a user cannot lock the files of another.
fn locks() -> PathBuf {
    let user = rustix::process::getuid().as_raw();
    let directory = std::env::temp_dir().join(format!("tollgate-ports-{user}"));
    fs::create_dir_all(&directory).expect("the directory for temporary files is writable");
    directory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_reserved_only_once() {
        let held: Vec<Port> = (0..50).map(|_| Port::reserve()).collect();
        let mut numbers: Vec<u16> = held.iter().map(Port::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), held.len());
    }

    #[test]
    fn a_port_in_use_is_skipped() {
        let port = Port::reserve();
        let _listener = TcpListener::bind(port.addr()).unwrap();
        assert!(!is_free(port.number()));
    }
}
