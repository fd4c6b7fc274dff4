//! `cargo xtask size`: how much code each crate has.
//!
//! Counts characters without comments, blank lines, indentation and tests, so that layout does not
//! matter. Lua scripts count as code.

use std::fs;
use std::path::Path;

use crate::source;
use crate::workspace::Workspace;

/// Crates that are not the product.
const TOOLS: [&str; 3] = ["bench", "testkit", "xtask"];

pub(crate) fn print(workspace: &Workspace) {
    let mut rows = Vec::new();
    let crates = fs::read_dir(workspace.path("crates"))
        .into_iter()
        .flatten()
        .flatten();
    for folder in crates
        .map(|entry| entry.path())
        .chain([workspace.path("xtask")])
    {
        let name = folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        rows.push((characters(&folder.join("src")), name));
    }
    rows.sort_unstable_by(|one, other| other.cmp(one));

    let is_product = |name: &str| !TOOLS.contains(&name);
    let product = rows.iter().filter(|(_, name)| is_product(name));
    let product: usize = product.map(|(count, _)| count).sum();
    for (count, name) in &rows {
        println!("{count:>9}  {name}");
    }
    println!("{product:>9}  the product: all but {}", TOOLS.join(", "));
}

fn characters(folder: &Path) -> usize {
    let rust = source::files(folder);
    let rust = rust.iter().map(|file| source::product_code(&text(file)));
    let lua = fs::read_dir(folder.join("scripts"))
        .into_iter()
        .flatten()
        .flatten();
    let lua = lua.map(|entry| {
        let code = text(&entry.path());
        let lines = code
            .lines()
            .map(|line| line.split("--").next().unwrap_or_default());
        lines.collect::<Vec<_>>().join("\n")
    });

    rust.chain(lua)
        .map(|code| {
            code.lines()
                .map(|line| line.trim().chars().count())
                .sum::<usize>()
        })
        .sum()
}

fn text(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_default()
}
