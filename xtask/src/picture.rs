//! `cargo xtask picture`: pictures of the documentation, made from what runs, so that they can be
//! made again when it changes.

use std::process::Command;

use crate::cli::Picture;
use crate::error::Error;
use crate::servers::Servers;
use crate::workspace::Workspace;

/// The test that makes the picture: it has the service, the store, the clients and the browser at
/// hand.
const DASHBOARD: &str = "test --package tollgate-server --test service -- --ignored --exact dashboard::picture::picture";

/// What to run.
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
