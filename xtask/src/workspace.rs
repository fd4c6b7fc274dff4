//! The workspace as `cargo metadata` describes it, so that new crates and features are covered
//! without a change here.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;

use crate::error::Error;
use crate::run;

#[derive(Debug, Deserialize)]
pub(crate) struct Workspace {
    #[serde(rename = "workspace_root")]
    root: PathBuf,
    #[serde(rename = "target_directory")]
    target: PathBuf,
    pub(crate) packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// The registries it may be published to: absent means any, empty means none.
    publish: Option<Vec<String>>,
    features: BTreeMap<String, Vec<String>>,
}

impl Workspace {
    pub(crate) fn read() -> Result<Self, Error> {
        let mut command = Command::new("cargo");
        command.args(["metadata", "--no-deps", "--format-version", "1"]);
        let line = run::command_line(&command);
        let json = run::output(command)?;
        serde_json::from_slice(&json).map_err(|source| Error::Metadata {
            command: line,
            source,
        })
    }

    /// A command whose working directory is the root of the workspace.
    pub(crate) fn command(&self, program: impl Into<OsString>) -> Command {
        let mut command = Command::new(program.into());
        command.current_dir(&self.root);
        command
    }

    /// A cargo command with these arguments, separated by spaces.
    pub(crate) fn cargo(&self, words: &str) -> Command {
        let mut command = self.command("cargo");
        command.args(words.split_whitespace());
        command
    }

    /// The path of a file of the repository.
    pub(crate) fn path(&self, inside: &str) -> PathBuf {
        self.root.join(inside)
    }

    /// The path of a file that was built.
    pub(crate) fn target(&self, inside: &str) -> PathBuf {
        self.target.join(inside)
    }

    /// The directory of installed tools, inside the target directory, so that `cargo clean` removes
    /// it.
    pub(crate) fn tools_dir(&self) -> PathBuf {
        self.target.join("tools")
    }
}

impl Package {
    pub(crate) fn is_publishable(&self) -> bool {
        self.publish
            .as_ref()
            .is_none_or(|registries| !registries.is_empty())
    }

    /// The features, without `default`, which is a set of them.
    pub(crate) fn features(&self) -> impl Iterator<Item = &str> {
        self.features
            .keys()
            .map(String::as_str)
            .filter(|name| *name != "default")
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// One crate to publish with two features, one without features, one private.
    pub(crate) fn sample() -> Workspace {
        let json = r#"{
            "workspace_root": "/w", "target_directory": "/w/target",
            "packages": [
                {"name": "gate", "publish": null, "features": {"default": ["fast"], "fast": [], "headers": ["dep:x"]}},
                {"name": "plain", "publish": null, "features": {}},
                {"name": "private", "publish": [], "features": {"odd": []}}
            ]
        }"#;
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn cargo_describes_this_workspace() {
        let workspace = Workspace::read().unwrap();
        assert!(
            workspace
                .packages
                .iter()
                .any(|package| package.name == env!("CARGO_PKG_NAME"))
        );
        assert!(workspace.root.join("Cargo.toml").is_file());
    }

    #[test]
    fn publishing_to_no_registry_is_not_publishing() {
        let publishable = sample()
            .packages
            .into_iter()
            .filter(Package::is_publishable);
        assert_eq!(
            publishable.map(|package| package.name).collect::<Vec<_>>(),
            ["gate", "plain"]
        );
    }

    #[test]
    fn default_is_not_a_feature_of_its_own() {
        assert_eq!(
            sample().packages[0].features().collect::<Vec<_>>(),
            ["fast", "headers"]
        );
    }
}
