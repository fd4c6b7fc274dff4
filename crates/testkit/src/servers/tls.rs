//! Certificates for one server: its own authority, and a certificate signed by it.

use std::path::PathBuf;
use std::process::Command;

use crate::processes::Directory;

/// The extensions of the server's certificate. Clients connect by address and may verify the name
/// as well.
const EXTENSIONS: &str = "\
basicConstraints=critical,CA:FALSE
keyUsage=critical,digitalSignature
extendedKeyUsage=serverAuth
subjectAltName=DNS:localhost,IP:127.0.0.1
";

/// The paths of the certificate files.
#[derive(Debug)]
pub(super) struct Certificates {
    pub(super) ca: PathBuf,
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

/// Creates an authority and a certificate in the directory, with the `openssl` program, which is
/// installed wherever a server with TLS is.
pub(super) fn create(directory: &Directory) -> Certificates {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    directory.write("server.ext", EXTENSIONS);

    let steps = [
        format!(
            "req -x509 {key} -keyout ca.key -out ca.pem -days 3650 \
             -subj /CN=tollgate-test-authority"
        ),
        format!("req {key} -keyout server.key -out server.csr -subj /CN=localhost"),
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem \
         -days 3650 \
         -extfile server.ext"
            .to_owned(),
    ];

    for step in steps {
        let mut command = Command::new("openssl");
        command
            .args(step.split_whitespace())
            .current_dir(directory.path());
        let output = command.output().expect("`openssl` is on the PATH");

        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "`openssl {step}` failed: {complaint}"
        );
    }

    let file = |name: &str| directory.path().join(name);
    Certificates {
        ca: file("ca.pem"),
        certificate: file("server.pem"),
        key: file("server.key"),
    }
}
