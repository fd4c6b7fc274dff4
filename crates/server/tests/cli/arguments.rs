//! Arbitrary arguments are accepted or rejected, but never cause a panic.

use clap::Parser as _;
use proptest::prelude::*;
use tollgate_server::{Cli, Command};

use super::{command, text};

/// Words of the command line, and some that are nearly valid.
const WORDS: &str = "
    tollgate serve validate explain check keys load audit-paths get reset completions schema help bash
    --config -c --http -a --attribute --limit -l --cost --peek --json --url --admin --timeout
    --rate --keys zipf:9 --allow 1/s - -- --help -h -V
    127.0.0.1:0 client_ip=203.0.113.7 a=b header:= 5s -1 18446744073709551616 http://[::1]:1
";

/// Words of the command line and arbitrary text.
fn word() -> impl Strategy<Value = String> {
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    prop_oneof![
        4 => proptest::sample::select(words).prop_map(str::to_owned),
        1 => ".{0,20}",
    ]
}

proptest! {
    #[test]
    fn no_arguments_break_the_parser(words in prop::collection::vec(word(), 0..8)) {
        let words = std::iter::once("tollgate".to_owned()).chain(words);
        if let Err(error) = Cli::try_parse_from(words) {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Runs the binary, so that the code after the parser is tested too. Commands that serve or
    /// connect are left out.
    #[test]
    fn no_arguments_break_the_binary(words in prop::collection::vec(word(), 0..7)) {
        let words: Vec<String> = words.into_iter().filter(|word| !word.contains('\0')).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let parsed = Cli::try_parse_from(std::iter::once("tollgate").chain(words.iter().copied()));
        prop_assume!(!matches!(
            parsed.map(|cli| cli.command),
            Ok(Command::Serve(_)
                | Command::Check(_)
                | Command::Keys(_)
                | Command::Load(_)
                | Command::AuditPaths(_))
        ));

        let mut command = command(&words);
        let output = command.stdin(std::process::Stdio::null()).output();
        let output = output.expect("the binary was built");
        let stderr = text(&output.stderr);
        prop_assert!(matches!(output.status.code(), Some(0 | 2)), "{words:?}: {stderr}");
        prop_assert!(!stderr.contains("panicked"), "{stderr}");
    }
}
