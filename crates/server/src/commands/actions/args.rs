//! The arguments of the commands that act.

use super::super::attributes::AttributeArgs;
use super::super::client::ClientArgs;

/// Arguments of `tollgate block`.
pub(crate) type BlockArgs = ActArgs<TargetArgs, BlockOption>;
/// Arguments of `tollgate exempt`.
pub(crate) type ExemptArgs = ActArgs<TargetArgs, NoOption>;
/// Arguments of `tollgate override`.
pub(crate) type OverrideArgs = ActArgs<TargetArgs, OverrideOptions>;
/// Arguments of `tollgate shadow`, which concerns all requests of a limit.
pub(crate) type ShadowArgs = ActArgs<NoOption, ShadowOption>;

/// Arguments of a command that acts: on what, and what it has of its own.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct ActArgs<Target: clap::Args, Own: clap::Args> {
    #[command(subcommand)]
    pub(super) command: Option<ActionsCommand>,
    #[command(flatten)]
    pub(super) target: Target,
    #[command(flatten)]
    pub(super) action: ActionArgs,
    #[command(flatten)]
    pub(super) own: Own,
}

/// No further arguments.
#[derive(Clone, Debug, clap::Args)]
pub struct NoOption {}

/// What only `block` has.
#[derive(Clone, Debug, clap::Args)]
pub struct BlockOption {
    /// Status of the denial over HTTP: 429, or 403
    #[arg(long, value_name = "STATUS")]
    pub(super) status: Option<u16>,
}

/// What only `override` has.
#[derive(Clone, Debug, clap::Args)]
pub struct OverrideOptions {
    /// A multiple of the numbers, such as 2 or 0.5
    #[arg(long, value_name = "FACTOR", conflicts_with_all = ["tier", "numbers"])]
    pub(super) multiply: Option<f64>,
    /// The numbers of this tier
    #[arg(long, value_name = "TIER", conflicts_with = "numbers")]
    pub(super) tier: Option<String>,
    /// A number of the limit, such as `limit=500` or `refill_rate=20/s`; may be repeated
    #[arg(long = "set", value_name = "NAME=NUMBER")]
    pub(super) numbers: Vec<String>,
}

/// What only `shadow` has.
#[derive(Clone, Debug, clap::Args)]
pub struct ShadowOption {
    /// Enforce a shadow limit, instead of making a limit a shadow limit
    #[arg(long)]
    pub(super) off: bool,
}

/// The subcommands of all four.
#[derive(Clone, Debug, clap::Subcommand)]
#[non_exhaustive]
pub(super) enum ActionsCommand {
    /// List what is in force
    List(ListActionsArgs),
    /// Undo one of them
    Remove(RemoveActionArgs),
}

/// Arguments of `list`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ListActionsArgs {
    /// Only those on this limit
    #[arg(long, short, value_name = "NAME")]
    pub(super) limit: Option<String>,
    #[command(flatten)]
    pub(super) admin: AdminArgs,
}

/// Arguments of `remove`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct RemoveActionArgs {
    /// Id, as `list` shows it
    #[arg(value_name = "ID")]
    pub(super) id: String,
    #[command(flatten)]
    pub(super) admin: AdminArgs,
}

/// The service that is asked.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct AdminArgs {
    /// URL of the admin listener, with http or https; `http://` may be omitted
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9090")]
    pub(super) admin: String,
    #[command(flatten)]
    pub(super) client: ClientArgs,
}

/// Which requests an action concerns.
#[derive(Clone, Debug, clap::Args)]
pub struct TargetArgs {
    #[command(flatten)]
    pub(super) key: AttributeArgs,
    /// A network of client addresses instead of a key, such as 203.0.113.0/24
    #[arg(long, value_name = "NETWORK", conflicts_with = "attributes")]
    pub(super) network: Option<String>,
}

/// What every action has.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ActionArgs {
    /// Name of the limit
    #[arg(long, short, value_name = "NAME", required = true)]
    pub(super) limit: Option<String>,
    /// For how long, such as 30m or 1h; at most 90d
    #[arg(long = "for", value_name = "TIME", required = true)]
    pub(super) length: Option<String>,
    /// Why, for other operators
    #[arg(long, value_name = "TEXT", required = true)]
    pub(super) reason: Option<String>,
    /// Who acts [default: the name of the user]
    #[arg(long, value_name = "NAME")]
    pub(super) by: Option<String>,
    #[command(flatten)]
    pub(super) admin: AdminArgs,
}
