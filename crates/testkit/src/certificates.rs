//! Certificates for tests: an authority, and certificates that it signed. The `openssl` program
//! makes them; it is installed wherever a server with TLS is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The extensions of a certificate, which servers and clients can use. Clients connect by address
/// and may verify the name as well.
const EXTENSIONS: &str = "\
basicConstraints=critical,CA:FALSE
keyUsage=critical,digitalSignature
extendedKeyUsage=serverAuth,clientAuth
subjectAltName=DNS:localhost,IP:127.0.0.1
";
/// The options of a new key.
const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";

/// An authority that signs certificates. Its files live in a directory of the caller.
#[derive(Clone, Debug)]
pub struct Authority {
    directory: PathBuf,
    name: String,
}

/// The files of a certificate.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The certificate in PEM.
    pub certificate: PathBuf,
    /// Its private key in PEM.
    pub key: PathBuf,
}

impl Authority {
    /// Creates an authority, whose files start with `name`.
    ///
    /// # Panics
    ///
    /// If `openssl` fails.
    pub fn create(directory: &Path, name: &str) -> Self {
        let authority = Self {
            directory: directory.to_owned(),
            name: name.to_owned(),
        };
        authority.openssl(&format!(
            "req -x509 {KEY} -keyout {name}.key -out {name}.pem -days 3650 -subj /CN={name}"
        ));
        authority
    }

    /// The certificate of the authority in PEM.
    pub fn certificate(&self) -> PathBuf {
        self.directory.join(format!("{}.pem", self.name))
    }

    /// Signs a new certificate for `localhost`, whose files start with `name`. Files of that name
    /// are overwritten.
    ///
    /// # Panics
    ///
    /// If `openssl` fails.
    pub fn issue(&self, name: &str) -> Certificate {
        let ca = &self.name;
        fs::write(self.directory.join("leaf.ext"), EXTENSIONS).expect("the directory is writable");
        self.openssl(&format!(
            "req {KEY} -keyout {name}.key -out {name}.csr -subj /CN=localhost"
        ));
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA {ca}.pem -CAkey {ca}.key -CAcreateserial \
             -out {name}.pem -days 3650 -extfile leaf.ext"
        ));

        Certificate {
            certificate: self.directory.join(format!("{name}.pem")),
            key: self.directory.join(format!("{name}.key")),
        }
    }

    fn openssl(&self, arguments: &str) {
        let mut command = Command::new("openssl");
        command
            .args(arguments.split_whitespace())
            .current_dir(&self.directory);
        let output = command.output().expect("`openssl` is on the PATH");

        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "`openssl {arguments}` failed: {complaint}"
        );
    }
}
