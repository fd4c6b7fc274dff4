//! What can be typed after `tollgate`. The comments here are the help texts.

/// Exact rate limiting.
#[derive(Debug, clap::Parser)]
#[command(name = "tollgate", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// One of the things the binary does.
#[derive(Debug, clap::Subcommand)]
#[non_exhaustive]
pub enum Command {
    /// Start the service (not in this version yet)
    Serve,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_definition_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
