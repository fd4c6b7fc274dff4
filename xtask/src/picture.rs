//! `cargo xtask picture`: regenerates the pictures of the documentation from the running
//! service.

use std::process::Command;

use crate::cli::Picture;
use crate::error::Error;
use crate::servers::Servers;
use crate::workspace::Workspace;

/// The test that takes the picture. It already starts the service, the store, clients and a
/// browser.
const DASHBOARD: &str = "test --package tollgate-server --test service -- --ignored --exact dashboard::picture::picture";

/// The command to run.
pub(crate) fn command(workspace: &Workspace, picture: &Picture) -> Result<Command, Error> {
    let Picture::Dashboard { seconds } = picture;
    let mut command = workspace.cargo(DASHBOARD);
    command.env("TOLLGATE_PICTURES", workspace.path("docs/pictures"));
    command.env("TOLLGATE_PICTURE_SECONDS", seconds.to_string());
    Servers::for_pictures(workspace)
        .into_complete()?
        .pass_to(&mut command);
    Ok(command)
}
