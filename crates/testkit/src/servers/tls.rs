//! The certificate files of one server: its own authority, and a certificate signed by it.

use std::path::PathBuf;

use crate::certificates::Authority;
use crate::processes::Directory;

/// The paths of the certificate files.
#[derive(Debug)]
pub(super) struct Certificates {
    pub(super) ca: PathBuf,
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

/// Creates an authority and a certificate in the directory.
pub(super) fn create(directory: &Directory) -> Certificates {
    let authority = Authority::create(directory.path(), "ca");
    let server = authority.issue("server");

    Certificates {
        ca: authority.certificate(),
        certificate: server.certificate,
        key: server.key,
    }
}
