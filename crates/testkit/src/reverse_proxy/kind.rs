//! What is particular to each proxy: its program, what a configuration needs around it, and how it
//! is started.
//!
//! Each runs as one process in the foreground, so that ending that process ends all of it, and
//! keeps every file inside its own directory.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::processes::find_program;

/// Whose proxy it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Nginx,
    Haproxy,
    Caddy,
    Envoy,
}

/// Without these nginx keeps what it cannot hold in memory in directories of the system. A path
/// without a beginning is one inside the directory it was started for.
const NGINX_PATHS: &str = "access_log off;
client_body_temp_path body;
proxy_temp_path proxy;
fastcgi_temp_path fastcgi;
uwsgi_temp_path uwsgi;
scgi_temp_path scgi;
";
/// One process, and none that goes to the background.
const NGINX_PROCESS: &str = "daemon off; master_process off; pid nginx.pid;";

/// Two instances cannot share the port for administration, no test wants certificates from the
/// internet, and nobody else is to reach it.
const CADDY_OPTIONS: &str = "{
\tadmin off
\tauto_https off
\tdefault_bind 127.0.0.1
}
";

impl Kind {
    /// The whole configuration, from the part that tests write.
    pub(super) fn complete(self, text: &str) -> String {
        match self {
            Self::Nginx => format!("events {{}}\nhttp {{\n{NGINX_PATHS}{text}\n}}\n"),
            Self::Caddy => format!("{CADDY_OPTIONS}{text}\n"),
            // HAProxy takes a last line without an end for a torn one.
            Self::Haproxy | Self::Envoy => format!("{text}\n"),
        }
    }

    /// What the configuration's file is called. Envoy tells the format by the ending.
    pub(super) fn file_name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx.conf",
            Self::Haproxy => "haproxy.cfg",
            Self::Caddy => "Caddyfile",
            Self::Envoy => "envoy.yaml",
        }
    }

    /// How it is started.
    pub(super) fn command(self, config: &Path, directory: &Path) -> Command {
        let mut command = Command::new(self.program());
        match self {
            Self::Nginx => {
                command.args(["-e", "stderr", "-g", NGINX_PROCESS]);
                command.arg("-p").arg(directory).arg("-c").arg(config);
            }
            Self::Haproxy => {
                command.args(["-db", "-f"]).arg(config);
            }
            Self::Caddy => {
                command
                    .args(["run", "--adapter", "caddyfile", "--config"])
                    .arg(config);
                let homes = ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"];
                command.envs(homes.map(|variable| (variable, directory)));
            }
            Self::Envoy => {
                command
                    .args([
                        "--concurrency",
                        "1",
                        "--disable-hot-restart",
                        "--config-path",
                    ])
                    .arg(config);
            }
        }
        command
    }

    fn program(self) -> PathBuf {
        let (variable, program) = match self {
            Self::Nginx => ("TOLLGATE_NGINX", "nginx"),
            Self::Haproxy => ("TOLLGATE_HAPROXY", "haproxy"),
            Self::Caddy => ("TOLLGATE_CADDY", "caddy"),
            Self::Envoy => ("TOLLGATE_ENVOY", "envoy"),
        };
        find_program(variable, program)
    }
}
