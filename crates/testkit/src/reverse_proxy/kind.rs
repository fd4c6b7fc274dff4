//! The differences between proxies: the program, the rest of the configuration, and the command
//! line.
//!
//! Each runs as one process in the foreground, so that ending that process ends the proxy, and
//! keeps all files inside its own directory.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::processes::find_program;

/// The proxy software.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Nginx,
    Haproxy,
    Caddy,
    Envoy,
}

/// By default nginx buffers large data in system directories. Relative paths are inside the
/// directory it was started for.
const NGINX_PATHS: &str = "access_log off;
client_body_temp_path body;
proxy_temp_path proxy;
fastcgi_temp_path fastcgi;
uwsgi_temp_path uwsgi;
scgi_temp_path scgi;
";
/// One process in the foreground.
const NGINX_PROCESS: &str = "daemon off; master_process off; pid nginx.pid;";

/// No admin port, because two instances cannot share it; no certificates from the internet;
/// reachable only from this machine.
const CADDY_OPTIONS: &str = "{
\tadmin off
\tauto_https off
\tdefault_bind 127.0.0.1
}
";

impl Kind {
    /// The whole configuration, made from the part that tests write.
    pub(super) fn complete(self, text: &str) -> String {
        match self {
            Self::Nginx => format!("events {{}}\nhttp {{\n{NGINX_PATHS}{text}\n}}\n"),
            Self::Caddy => format!("{CADDY_OPTIONS}{text}\n"),
            // HAProxy treats a last line without a line ending as truncated.
            Self::Haproxy | Self::Envoy => format!("{text}\n"),
        }
    }

    /// The file name of the configuration. Envoy derives the format from the extension.
    pub(super) fn file_name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx.conf",
            Self::Haproxy => "haproxy.cfg",
            Self::Caddy => "Caddyfile",
            Self::Envoy => "envoy.yaml",
        }
    }

    /// The command that starts the proxy.
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
