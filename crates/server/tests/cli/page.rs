//! The examples in `docs/cli.md`, which tests compare with the real output.

/// The text of the page.
pub(crate) const PAGE: &str = include_str!("../../../../docs/cli.md");

/// A command on the page, and its output there.
pub(crate) struct Example {
    /// The words after `tollgate`.
    pub(crate) arguments: Vec<&'static str>,
    pub(crate) printed: String,
    /// The output of `echo $?` after it, if the page has one.
    pub(crate) code: Option<i32>,
}

/// Every `$ tollgate ..` in the `console` blocks of the page.
pub(crate) fn examples() -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let blocks = PAGE
        .split("```console\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next());
    for block in blocks {
        let mut is_code = false;
        for line in block.lines() {
            if let Some(arguments) = line.strip_prefix("$ tollgate ") {
                let arguments = arguments.split_whitespace().collect();
                examples.push(Example {
                    arguments,
                    printed: String::new(),
                    code: None,
                });
            } else if let Some(example) = examples.last_mut() {
                if is_code {
                    example.code = line.parse().ok();
                } else if line != "$ echo $?" {
                    example.printed.push_str(line);
                    example.printed.push('\n');
                }
            }
            is_code = line == "$ echo $?";
        }
    }
    examples
}
