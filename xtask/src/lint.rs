//! `cargo xtask lint`: every check that does not run the code.
//!
//! The steps share one set of flags and one profile, so that each dependency is checked only once.

use crate::deny;
use crate::links;
use crate::modules;
use crate::names;
use crate::node;
use crate::run::{Plan, Step};
use crate::tools;
use crate::workspace::{Package, Workspace};

pub(crate) fn plan(workspace: &Workspace) -> Plan {
    let mut steps = vec![
        Step::new("fmt", workspace.cargo("fmt --all -- --check")),
        Step::new(
            "clippy",
            workspace.cargo("clippy --workspace --all-targets -- -D warnings"),
        ),
    ];

    steps.extend(features_alone(workspace));

    steps.push(docs(workspace));
    steps.extend(deny::plan(workspace).steps);
    steps.push(typos(workspace));
    steps.push(Step::inspect("names", workspace.path(""), names::problems));
    steps.push(Step::inspect("links", workspace.path(""), links::problems));
    steps.push(Step::inspect(
        "modules",
        workspace.path(""),
        modules::problems,
    ));
    steps.push(package(workspace));
    steps.extend(node::lint(workspace));

    Plan {
        steps,
        closing: None,
    }
}

/// Checks each feature of the published crates alone, and each crate without features: a feature
/// must not depend on another one by accident.
fn features_alone(workspace: &Workspace) -> Vec<Step> {
    let packages = workspace
        .packages
        .iter()
        .filter(|package| package.is_publishable());
    packages
        .flat_map(|package| package_features_alone(workspace, package))
        .collect()
}

fn package_features_alone(workspace: &Workspace, package: &Package) -> Vec<Step> {
    let mut choices: Vec<Option<&str>> = package.features().map(Some).collect();
    if !choices.is_empty() {
        choices.insert(0, None);
    }

    let name = &package.name;
    let step = |feature: Option<&str>| {
        let mut command = workspace.cargo("clippy --no-default-features --package");
        command.arg(name);
        if let Some(feature) = feature {
            command.args(["--features", feature]);
        }
        command.args(["--", "-D", "warnings"]);
        Step::new(
            format!("clippy {name} ({})", feature.unwrap_or("no features")),
            command,
        )
    };

    choices.into_iter().map(step).collect()
}

/// Packages every published crate as an upload would: the files, the metadata and the dependencies
/// must be complete. What is in the packages is compiled by the other steps.
fn package(workspace: &Workspace) -> Step {
    let mut command = workspace.cargo("package --no-verify --allow-dirty --quiet");
    let published = workspace.packages.iter();
    for package in published.filter(|package| package.is_publishable()) {
        command.args(["--package", &package.name]);
    }
    Step::new("crates", command)
}

fn docs(workspace: &Workspace) -> Step {
    let mut command = workspace.cargo("doc --workspace --no-deps");
    command.env("RUSTDOCFLAGS", "-D warnings");
    Step::new("docs", command)
}

fn typos(workspace: &Workspace) -> Step {
    match tools::TYPOS.ensure(workspace) {
        Ok(typos) => Step::new("typos", typos.command(&[])),
        Err(reason) => Step::skipped("typos", reason),
    }
}

#[cfg(test)]
mod tests {
    use super::features_alone;
    use crate::workspace::tests::sample;

    #[test]
    fn every_feature_of_every_published_crate_is_checked_alone() {
        let steps = features_alone(&sample());
        let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "clippy gate (no features)",
                "clippy gate (fast)",
                "clippy gate (headers)"
            ]
        );
    }
}
