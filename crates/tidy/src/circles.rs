//! Import circles between the files of one crate.
//!
//! A file imports from another when it names something that the other defines: in a `use`, or in a
//! path that begins with `crate`, `super`, `self` or a module. Names are followed through
//! re-exports to the file that defines them; a re-export alone is no import. What only tests name
//! does not count. A parent that declares a module does not import it by that.

use core::fmt::Write as _;
use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{Item, ItemUse, Path, UseTree, Visibility};

use crate::syntax::{Modules, crates, is_for_tests, is_test_attribute, modules};
use crate::{Finding, Tree};

/// The circles that are kept, each by one of its files, with the reason. It is meant to be empty.
pub const KEPT: [(&str, &str); 0] = [];

/// The circles of each crate: one finding a circle, with what ties it.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for name in crates(tree) {
        let modules = modules(tree, &name);
        let imports = imports(&modules);
        for circle in circles(&imports) {
            let first = &modules.files[&circle[0]].path;
            if KEPT.iter().any(|(file, _)| circle.iter().any(|at| modules.files[at].path == *file))
            {
                continue;
            }
            let mut what = format!("{} files import each other in a circle:", circle.len());
            for from in &circle {
                for (to, names) in imports.get(from).into_iter().flatten() {
                    if circle.contains(to) {
                        let names: Vec<&str> = names.iter().map(String::as_str).collect();
                        let (from, to) = (shown(from), shown(to));
                        let _ = write!(what, "\n    {from} -> {to}: {}", names.join(", "));
                    }
                }
            }
            found.push(Finding::new(first, 0, what));
        }
    }
    found
}

fn shown(at: &[String]) -> String {
    if at.is_empty() { "(root)".into() } else { at.join("::") }
}

type At = Vec<String>;
/// For each file the files that it imports from, with the names.
type Imports = BTreeMap<At, BTreeMap<At, BTreeSet<String>>>;

/// Which files of a crate import from which.
fn imports(modules: &Modules) -> Imports {
    let mut imports = Imports::new();
    for (at, module) in &modules.files {
        let mut reader = Reader::default();
        for item in &module.items {
            reader.visit_item(item);
        }
        let to = imports.entry(at.clone()).or_default();
        for path in &reader.paths {
            let is_reexport = path.exported && !reader.is_used(path);
            if is_reexport {
                continue;
            }
            if let Some((file, name)) = resolve(modules, at, &path.segments, 0)
                && file != *at
            {
                to.entry(file).or_default().insert(name);
            }
        }
    }
    imports
}

/// A path that a file names.
#[derive(Debug)]
struct Named {
    segments: Vec<String>,
    /// The name that the file gives it, for a `use`.
    alias: Option<String>,
    /// Whether a `use` with a visibility of its own names it.
    exported: bool,
}

#[derive(Debug, Default)]
struct Reader {
    paths: Vec<Named>,
    /// The names with which paths of the file begin.
    beginnings: BTreeSet<String>,
}

impl Reader {
    /// Whether the file itself uses what it exports.
    fn is_used(&self, named: &Named) -> bool {
        named.alias.as_ref().is_some_and(|alias| self.beginnings.contains(alias))
    }

    fn read_use(&mut self, tree: &UseTree, before: &[String], exported: bool) {
        let mut segments = before.to_vec();
        match tree {
            UseTree::Path(path) => {
                segments.push(path.ident.to_string());
                self.read_use(&path.tree, &segments, exported);
            }
            UseTree::Name(name) => {
                let name = name.ident.to_string();
                let alias =
                    if name == "self" { before.last().cloned() } else { Some(name.clone()) };
                if name != "self" {
                    segments.push(name);
                }
                self.paths.push(Named { segments, alias, exported });
            }
            UseTree::Rename(rename) => {
                segments.push(rename.ident.to_string());
                let alias = Some(rename.rename.to_string());
                self.paths.push(Named { segments, alias, exported });
            }
            UseTree::Glob(_) => {
                segments.push("*".into());
                self.paths.push(Named { segments, alias: None, exported });
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.read_use(tree, before, exported);
                }
            }
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_for_tests(item) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !item.attrs.iter().any(is_test_attribute) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let exported = !matches!(item.vis, Visibility::Inherited);
        self.read_use(&item.tree, &[], exported);
    }

    fn visit_path(&mut self, path: &'ast Path) {
        let segments: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        if let Some(first) = segments.first() {
            self.beginnings.insert(first.clone());
        }
        if segments.len() > 1 {
            self.paths.push(Named { segments, alias: None, exported: false });
        }
        visit::visit_path(self, path);
    }
}

/// How many re-exports a name may pass through.
const REEXPORTS_MAX: u32 = 16;

/// The file that defines what a path names, seen from the module `from`, and the name.
fn resolve(
    modules: &Modules,
    from: &[String],
    path: &[String],
    depth: u32,
) -> Option<(At, String)> {
    if depth > REEXPORTS_MAX {
        return None;
    }
    let mut at: At = from.to_vec();
    let mut rest = path;
    match path.first().map(String::as_str)? {
        "crate" => {
            at.clear();
            rest = &path[1..];
        }
        "self" => rest = &path[1..],
        "super" => {
            while rest.first().is_some_and(|segment| segment == "super") {
                at.pop()?;
                rest = &rest[1..];
            }
        }
        first => {
            let mut child = at.clone();
            child.push(first.into());
            if !modules.files.contains_key(&child) {
                return None;
            }
        }
    }
    while let Some(segment) = rest.first() {
        let mut child = at.clone();
        child.push(segment.clone());
        if !modules.files.contains_key(&child) {
            break;
        }
        at = child;
        rest = &rest[1..];
    }
    let Some(name) = rest.first() else {
        // The module itself is named: what it defines is used through it.
        return (at != from).then(|| (at, "self".into()));
    };
    if name == "*" {
        return Some((at, "*".into()));
    }
    let reader = {
        let mut reader = Reader::default();
        for item in &modules.files.get(&at)?.items {
            if let Item::Use(item) = item {
                reader.visit_item_use(item);
            }
        }
        reader
    };
    let through = reader.paths.iter().find(|p| p.alias.as_ref() == Some(name));
    if let Some(through) = through {
        let found = resolve(modules, &at, &through.segments, depth + 1);
        // A name of another crate is defined by no file of this one.
        return found;
    }
    Some((at, name.clone()))
}

/// Sets of files that import each other, each sorted: strongly connected components.
fn circles(imports: &Imports) -> Vec<Vec<At>> {
    let nodes: Vec<&At> = imports.keys().collect();
    let reach: Vec<BTreeSet<&At>> = nodes.iter().map(|node| reachable(imports, node)).collect();
    let mut found: Vec<Vec<At>> = Vec::new();
    for (nth, node) in nodes.iter().enumerate() {
        if !reach[nth].contains(*node) || found.iter().any(|circle| circle.contains(node)) {
            continue;
        }
        let with =
            |other: &usize| reach[nth].contains(nodes[*other]) && reach[*other].contains(*node);
        let circle = (0..nodes.len()).filter(with).map(|other| nodes[other].clone());
        found.push(circle.collect());
    }
    found
}

/// What can be reached from a file by one import or more.
fn reachable<'a>(imports: &'a Imports, from: &'a At) -> BTreeSet<&'a At> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&At> = imports[from].keys().collect();
    while let Some(at) = next.pop() {
        if reached.insert(at) {
            next.extend(imports.get(at).into_iter().flat_map(BTreeMap::keys));
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(root: &str, b: &str, c: &str) -> Vec<Finding> {
        let files =
            [("crates/a/src/lib.rs", root), ("crates/a/src/b.rs", b), ("crates/a/src/c.rs", c)];
        check(&Tree::of(&files))
    }

    #[test]
    fn two_files_that_import_each_other_are_a_circle() {
        let b = "use crate::c::C;\npub struct B(C);\n";
        let circle = found("mod b;\nmod c;\n", b, "pub struct C;\nfn f(_: super::b::B) {}\n");
        assert_eq!(circle.len(), 1, "{circle:?}");
        assert!(found("mod b;\nmod c;\n", b, "pub struct C;\n").is_empty());
    }

    #[test]
    fn a_child_that_imports_from_a_parent_that_uses_it_is_a_circle() {
        let root = "mod b;\nmod c;\npub struct Root;\nfn f() { b::g() }\n";
        let circle = found(root, "use crate::Root;\npub fn g() { }\n", "");
        assert_eq!(circle.len(), 1, "{circle:?}");
    }

    #[test]
    fn a_name_is_followed_through_re_exports() {
        let root = "mod b;\nmod c;\npub use b::B;\npub use c::C;\n";
        assert!(found(root, "pub struct B;\n", "use crate::B;\npub struct C(B);\n").is_empty());
        let circle =
            found(root, "use crate::C;\npub struct B;\n", "use crate::B;\npub struct C;\n");
        assert_eq!(circle.len(), 1, "{circle:?}");
    }

    #[test]
    fn what_only_tests_import_is_no_circle() {
        let b = "pub struct B;\n#[cfg(test)]\nmod tests { use crate::c::C; }\n";
        assert!(found("mod b;\nmod c;\n", b, "use crate::b::B;\npub struct C(B);\n").is_empty());
    }
}
