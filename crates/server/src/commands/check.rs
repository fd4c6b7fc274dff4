//! `tollgate check`: one decision of a running service.

use super::client::ClientArgs;
use super::decision::{self, DecisionKind};
use super::outcome::CommandResult;
use super::request::RequestArgs;

/// Arguments of `tollgate check`.
#[derive(Clone, Debug, clap::Args)]
pub struct CheckArgs {
    #[command(flatten)]
    request: RequestArgs,
    /// Show the decision without consuming anything
    #[arg(long, conflicts_with = "count")]
    peek: bool,
    /// Charge the request even if it does not fit: what is beyond the limit is owed
    ///
    /// The exit code tells whether it fitted.
    #[arg(verbatim_doc_comment, long)]
    count: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

pub(crate) fn run(args: &CheckArgs) -> CommandResult {
    let mut body = args.request.body()?;
    if args.count {
        body["count"] = true.into();
    }

    let kind = match args {
        CheckArgs { peek: true, .. } => DecisionKind::Peek,
        CheckArgs { count: true, .. } => DecisionKind::Count,
        _ => DecisionKind::Check,
    };
    decision::ask(kind, &args.request.url, &body, &args.client)
}
