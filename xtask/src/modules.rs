//! `cargo xtask lint`, step `modules`: the modules of a crate form layers, without cycles.
//!
//! A module is a file. It depends on another one if a `use` or a path of its code leads there,
//! through re-exports to the file that declares the name. A file that only re-exports depends on
//! nothing. The check reads the code as text, without unit tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::source;

/// The crates whose modules must form layers.
const CRATES: [&str; 9] = [
    "audit", "core", "embedded", "gate", "http", "load", "redis", "server", "tower",
];

/// The path of a module or of a name in it, from the root of the crate.
type ModulePath = Vec<String>;

/// What one file says about other modules.
#[derive(Debug, Default)]
struct Module {
    /// Where the code refers to.
    references: Vec<ModulePath>,
    /// Re-exported names, and where each comes from.
    exports: BTreeMap<String, ModulePath>,
}

/// Cycles that are still to be taken apart. Each must exist, so that the list only shrinks.
const KNOWN: &[&str] = &[
    "crates/core/src: modules depend on each other: store::degraded, store::error",
    "crates/gate/src: modules depend on each other: actions_file, gate",
    "crates/gate/src: modules depend on each other: api::limits, api::operation",
    "crates/gate/src: modules depend on each other: decide, permit",
    "crates/redis/src: modules depend on each other: connector, locator, log, sentinel, \
     sentinel::subscription, sentinel::watcher, server_check",
    "crates/redis/src: modules depend on each other: error, wire::reply",
    "crates/redis/src: modules depend on each other: layout, records, store, store::lease_calls, \
     store::leased, store::router, store::strict",
    "crates/server/src: modules depend on each other: resp, resp::batch",
];

/// Returns one line for every group of modules that depend on each other.
pub(crate) fn problems(root: &Path) -> Vec<String> {
    let mut problems = all_problems(root);
    for known in KNOWN {
        match problems.iter().position(|problem| problem == known) {
            Some(index) => drop(problems.remove(index)),
            None => problems.push(format!("{known}: no longer; remove it from KNOWN")),
        }
    }
    problems
}

fn all_problems(root: &Path) -> Vec<String> {
    let mut problems = Vec::new();
    for name in CRATES {
        let folder = root.join("crates").join(name).join("src");
        match read_crate(&folder) {
            Ok(modules) if modules.len() > 1 => {
                let cycles = cycles(&dependencies(&modules));
                problems.extend(cycles.iter().map(|cycle| {
                    format!("crates/{name}/src: modules depend on each other: {cycle}")
                }));
            }
            Ok(_) => problems.push(format!("crates/{name}/src: no modules were found")),
            Err(error) => problems.push(format!("crates/{name}/src: {error}")),
        }
    }
    problems
}

fn read_crate(folder: &Path) -> std::io::Result<BTreeMap<ModulePath, Module>> {
    let files = source::files(folder);
    let path_of = |file: &Path| -> ModulePath {
        let path = file.strip_prefix(folder).unwrap_or(file).with_extension("");
        let mut path: ModulePath = path
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect();
        path.pop_if(|last| matches!(last.as_str(), "mod" | "lib" | "main"));
        path
    };

    let paths: BTreeSet<ModulePath> = files.iter().map(|file| path_of(file)).collect();
    let mut modules = BTreeMap::new();
    for file in &files {
        let (path, code) = (
            path_of(file),
            source::product_code(&fs::read_to_string(file)?),
        );
        let module = parse(&path, &code, &paths);
        modules.insert(path, module);
    }
    Ok(modules)
}

/// Reads the `use` declarations and the paths of one file.
fn parse(path: &ModulePath, code: &str, paths: &BTreeSet<ModulePath>) -> Module {
    let mut module = Module::default();
    let (mut declaration, mut body) = (String::new(), String::new());

    for line in code.lines().map(str::trim) {
        if declaration.is_empty() && use_tree(line).is_none() {
            body.push_str(line);
            body.push('\n');
            continue;
        }

        declaration.push_str(line);
        if !line.ends_with(';') {
            declaration.push(' ');
            continue;
        }
        let declaration = std::mem::take(&mut declaration);
        let tree = use_tree(&declaration).unwrap_or_default();
        for (used, name) in expand(tree.trim_end_matches(';')) {
            let Some(target) = absolute(path, &used, paths) else {
                continue;
            };
            if declaration.starts_with("pub") {
                module.exports.insert(name, target);
            } else {
                module.references.push(target);
            }
        }
    }

    let used = body_paths(&body);
    let used = used.iter().filter_map(|used| absolute(path, used, paths));
    module.references.extend(used);

    // A file that uses what it re-exports depends on it.
    let words: BTreeSet<&str> = body.split(|c: char| !is_word(c)).collect();
    let exports = module.exports.iter();
    let used_here = exports.filter(|(name, _)| words.contains(name.as_str()));
    let used_here = used_here.map(|(_, target)| target.clone());
    module.references.extend(used_here);
    module
}

/// What follows `use` in a declaration; `None` if the line is something else.
fn use_tree(line: &str) -> Option<&str> {
    let rest = match line.strip_prefix("pub") {
        Some(scope) if scope.starts_with('(') => scope.split_once(") ")?.1,
        Some(rest) => rest.strip_prefix(' ')?,
        None => line,
    };
    rest.strip_prefix("use ")
}

/// The paths of a use tree, each with the name that it gets.
fn expand(tree: &str) -> Vec<(ModulePath, String)> {
    let parts = |text: &str| -> ModulePath {
        let parts = text.split("::").map(|part| part.trim().to_owned());
        parts.filter(|part| !part.is_empty()).collect()
    };

    let tree = tree.trim();
    let Some((prefix, list)) = tree.split_once('{') else {
        let (path, alias) = tree.split_once(" as ").unwrap_or((tree, ""));
        let mut path = parts(path);
        path.pop_if(|last| last == "self");
        let name = parts(alias).pop().or_else(|| path.last().cloned());
        return vec![(path, name.unwrap_or_default())];
    };

    let prefix = parts(prefix);
    let list = list.trim_end().strip_suffix('}').unwrap_or(list);
    let entries = split_list(list);
    let paths = entries.iter().flat_map(|entry| expand(entry));
    paths
        .map(|(path, name)| (prefix.iter().cloned().chain(path).collect(), name))
        .collect()
}

/// Splits at the commas outside inner braces.
fn split_list(list: &str) -> Vec<String> {
    let (mut entries, mut depth) = (vec![String::new()], 0_usize);
    for c in list.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                entries.push(String::new());
                continue;
            }
            _ => {}
        }
        entries.last_mut().expect("never empty").push(c);
    }
    entries.retain(|entry| !entry.trim().is_empty());
    entries
}

/// The paths in code that begin with `crate` or `super`, without those of `pub(in ..)`.
fn body_paths(body: &str) -> Vec<ModulePath> {
    let words = body.split(|c: char| !is_word(c) && c != ':');
    words
        .filter(|word| word.starts_with("crate::") || word.starts_with("super::"))
        .map(|word| {
            word.split("::")
                .map(str::to_owned)
                .filter(|part| !part.is_empty())
                .collect()
        })
        .collect()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// A path from the root of the crate. `None` if it leads out of the crate.
fn absolute(
    from: &ModulePath,
    used: &[String],
    paths: &BTreeSet<ModulePath>,
) -> Option<ModulePath> {
    let first = used.first()?.as_str();
    let ups = used.iter().take_while(|part| *part == "super").count();
    let (base, rest) = match first {
        "crate" => (&[][..], &used[1..]),
        "self" => (&from[..], &used[1..]),
        "super" => (&from[..from.len().checked_sub(ups)?], &used[ups..]),
        child => {
            let child: ModulePath = from.iter().cloned().chain([child.to_owned()]).collect();
            if !paths.contains(&child) {
                return None;
            }
            (&from[..], used)
        }
    };
    Some(base.iter().chain(rest).cloned().collect())
}

/// The modules that each module depends on.
fn dependencies(
    modules: &BTreeMap<ModulePath, Module>,
) -> BTreeMap<ModulePath, BTreeSet<ModulePath>> {
    let targets = |(path, module): (&ModulePath, &Module)| {
        let targets = module.references.iter();
        let targets = targets.filter_map(|target| declaring_module(target, modules, 0));
        let others: BTreeSet<ModulePath> = targets.filter(|target| target != path).collect();
        (path.clone(), others)
    };
    modules.iter().map(targets).collect()
}

/// The module that declares a name, behind at most a few re-exports.
fn declaring_module(
    target: &[String],
    modules: &BTreeMap<ModulePath, Module>,
    depth: usize,
) -> Option<ModulePath> {
    let length = (0..=target.len()).rev();
    let length = length
        .into_iter()
        .find(|length| modules.contains_key(&target[..*length]))?;
    let (path, rest) = target.split_at(length);

    let export = rest
        .first()
        .and_then(|name| modules[path].exports.get(name));
    match export {
        Some(source) if depth < 8 => {
            let target: ModulePath = source.iter().chain(&rest[1..]).cloned().collect();
            declaring_module(&target, modules, depth + 1)
        }
        _ => Some(path.to_vec()),
    }
}

/// The groups of modules that can reach each other, each as text.
fn cycles(dependencies: &BTreeMap<ModulePath, BTreeSet<ModulePath>>) -> Vec<String> {
    let reach: BTreeMap<&ModulePath, BTreeSet<&ModulePath>> = dependencies
        .keys()
        .map(|path| (path, reachable(path, dependencies)))
        .collect();

    let mut groups = BTreeSet::new();
    for (path, reached) in &reach {
        if reached.contains(path) {
            let group = reached.iter().filter(|other| reach[*other].contains(path));
            let names: Vec<String> = group.map(|other| name(other)).collect();
            groups.insert(names.join(", "));
        }
    }
    groups.into_iter().collect()
}

fn reachable<'a>(
    from: &ModulePath,
    dependencies: &'a BTreeMap<ModulePath, BTreeSet<ModulePath>>,
) -> BTreeSet<&'a ModulePath> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&ModulePath> = dependencies[from].iter().collect();
    while let Some(path) = open.pop() {
        if reached.insert(path) {
            open.extend(dependencies.get(path).into_iter().flatten());
        }
    }
    reached
}

fn name(path: &ModulePath) -> String {
    if path.is_empty() {
        return "lib".to_owned();
    }
    path.join("::")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(files: &[(&str, &str)]) -> Vec<String> {
        let path = |name: &str| -> ModulePath {
            let parts = name.split("::").filter(|part| !part.is_empty());
            parts.map(str::to_owned).collect()
        };
        let paths: BTreeSet<ModulePath> = files.iter().map(|(name, _)| path(name)).collect();
        let modules = files
            .iter()
            .map(|(name, code)| (path(name), parse(&path(name), code, &paths)))
            .collect();
        cycles(&dependencies(&modules))
    }

    #[test]
    fn the_modules_of_this_project_form_layers() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        assert_eq!(problems(&root), Vec::<String>::new());
    }

    #[test]
    fn a_cycle_is_found_through_re_exports_and_lists() {
        let files = [
            ("", "mod a;\nmod b;\npub use b::{Bee, Other};"),
            (
                "a",
                "use std::fmt;\nuse crate::{\n    Bee,\n};\nstruct Ant;",
            ),
            ("b", "struct Bee;\nfn f() { super::a::Ant; }"),
        ];
        assert_eq!(graph(&files), ["a, b"]);
    }

    #[test]
    fn a_parent_that_uses_its_child_and_is_used_by_it_is_a_cycle() {
        let parent = "mod child;\npub(crate) use self::child::Child;\nstruct Parent(Child);";
        let child = "use super::Parent;\npub(crate) struct Child;";
        assert_eq!(
            graph(&[("p", parent), ("p::child", child)]),
            ["p, p::child"]
        );
    }

    #[test]
    fn layers_and_pure_re_exports_are_fine() {
        let files = [
            ("", "mod a;\nmod b;\npub use a::Ant;"),
            ("a", "use crate::b::Bee;\npub(in crate::a) struct Ant(Bee);"),
            ("b", "pub struct Bee;"),
        ];
        assert!(graph(&files).is_empty());
    }
}
