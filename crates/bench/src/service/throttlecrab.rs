//! throttlecrab-server, which is measured if it is installed.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;

use anyhow::Result;
use testkit::processes::try_find_program;

use super::THROTTLECRAB;
use crate::harness::{Bench, Process};

/// An environment variable with the path of throttlecrab-server, if it is not on the `PATH`.
const VARIABLE: &str = "TOLLGATE_THROTTLECRAB_SERVER";

/// Starts it with a port for `http` or `redis`.
pub(super) fn start(bench: &mut Bench, protocol: &str) -> Result<Option<(Process, SocketAddr)>> {
    let Some(program) = try_find_program(VARIABLE, THROTTLECRAB) else {
        bench.remark(format!(
            "throttlecrab-server not found; to measure it, put it on the PATH \
             or set {VARIABLE} to its path"
        ));
        return Ok(None);
    };

    // It cannot choose a free port itself.
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let (port, flag) = (server.port(), format!("--{protocol}"));
    let mut command = Command::new(program);
    command.args([&flag, &format!("{flag}-host"), "127.0.0.1"]);
    command.args([format!("{flag}-port"), port.to_string()]);
    command.args(["--log-level", "error"]);
    let mut process = Process::spawn(command)?;
    process.wait_for(|_| TcpStream::connect(server).ok())?;
    Ok(Some((process, server)))
}
