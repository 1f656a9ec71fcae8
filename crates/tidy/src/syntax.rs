//! What the checks read of Rust sources: syntax trees without what only tests see.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Attribute, Item};

use crate::{Finding, Source, Tree};

/// The modules of one crate's `src` folder: the path of a module to the file that holds it.
///
/// A module that stands in the middle of a file belongs to that file. A module that only tests see
/// is left out.
#[derive(Debug, Default)]
pub struct Modules {
    /// `["engine", "change"]` to its file; `[]` is the root.
    pub files: BTreeMap<Vec<String>, Module>,
}

/// One file of a crate.
#[derive(Debug)]
pub struct Module {
    /// The path from the root of the tree.
    pub path: String,
    /// Its items, those that only tests see left out.
    pub items: Vec<Item>,
}

/// The crates of a tree that have sources, by the name of their folder.
pub fn crates(tree: &Tree) -> Vec<String> {
    let mut names: Vec<String> =
        tree.sources.iter().filter_map(|s| s.crate_name().map(String::from)).collect();
    names.dedup();
    names
}

/// The files below a crate's `src` that are no module of its library or binaries, for instance
/// after a merge that brought a moved file back.
pub fn orphans(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for name in crates(tree) {
        let mut reached = BTreeSet::new();
        for root in ["lib.rs", "main.rs"] {
            let folder = format!("crates/{name}/src");
            reach(tree, &format!("{folder}/{root}"), &folder, &mut reached);
        }
        let of_crate = |source: &&Source| source.crate_name() == Some(&name);
        for source in tree.sources.iter().filter(of_crate).filter(|s| s.is_crate_source()) {
            if !reached.contains(&source.path) && !source.path.contains("/src/bin/") {
                found.push(Finding::new(&source.path, 0, "no module declares this file"));
            }
        }
    }
    found
}

/// Adds the file and the modules that it declares, those for tests included.
fn reach(tree: &Tree, path: &str, folder: &str, reached: &mut BTreeSet<String>) {
    let Some(source) = tree.sources.iter().find(|source| source.path == path) else { return };
    reached.insert(path.into());
    let file = syn::parse_file(&source.text).unwrap_or_else(|error| panic!("{path}: {error}"));
    for item in &file.items {
        let Item::Mod(child) = item else { continue };
        let named = child.attrs.iter().find_map(|attribute| match &attribute.meta {
            syn::Meta::NameValue(meta) if meta.path.is_ident("path") => Some(&meta.value),
            _ => None,
        });
        if let Some(syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(file), .. })) = named {
            let beside = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            reached.insert(format!("{beside}/{}", file.value()));
        }
        let below = format!("{folder}/{}", child.ident);
        reach(tree, &format!("{below}.rs"), &below, reached);
        reach(tree, &format!("{below}/mod.rs"), &below, reached);
    }
}

/// Reads the modules of a crate, from its `lib.rs`, or its `main.rs` where it has no library.
///
/// # Panics
/// On a source that is not Rust: the compiler has refused it before.
pub fn modules(tree: &Tree, name: &str) -> Modules {
    let mut modules = Modules::default();
    for root in ["lib.rs", "main.rs"] {
        let path = format!("crates/{name}/src/{root}");
        if let Some(source) = tree.sources.iter().find(|source| source.path == path) {
            let folder = format!("crates/{name}/src");
            add(tree, &mut modules, source, Vec::new(), &folder);
            break;
        }
    }
    modules
}

fn add(tree: &Tree, modules: &mut Modules, source: &Source, at: Vec<String>, folder: &str) {
    let file = syn::parse_file(&source.text);
    let file = file.unwrap_or_else(|error| panic!("{}: {error}", source.path));
    let items: Vec<Item> = file.items.into_iter().filter(|item| !is_for_tests(item)).collect();
    for item in &items {
        let Item::Mod(child) = item else { continue };
        if child.content.is_some() {
            continue;
        }
        let name = child.ident.to_string();
        let below = format!("{folder}/{name}");
        let paths = [format!("{below}.rs"), format!("{below}/mod.rs")];
        let found = tree.sources.iter().find(|source| paths.contains(&source.path));
        if let Some(found) = found {
            let mut at = at.clone();
            at.push(name);
            add(tree, modules, found, at, &below);
        }
    }
    modules.files.insert(at, Module { path: source.path.clone(), items });
}

/// Whether only tests see the item.
pub fn is_for_tests(item: &Item) -> bool {
    attributes(item).iter().any(is_test_attribute)
}

/// `#[test]`, or `#[cfg(test)]` with whatever else it asks for.
pub fn is_test_attribute(attribute: &Attribute) -> bool {
    if attribute.path().is_ident("test") {
        return true;
    }
    if !attribute.path().is_ident("cfg") {
        return false;
    }
    let mut tests = false;
    let _ = attribute.parse_nested_meta(|meta| {
        tests |= meta.path.is_ident("test");
        Ok(())
    });
    tests
}

/// The attributes of an item.
pub fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_no_module_declares_is_found() {
        let files = [
            ("crates/a/src/lib.rs", "mod b;\n#[cfg(test)]\nmod tests;\n"),
            ("crates/a/src/b.rs", ""),
            ("crates/a/src/tests.rs", ""),
            ("crates/a/src/old.rs", ""),
        ];
        let found = orphans(&Tree::of(&files));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].path, "crates/a/src/old.rs");
    }
}
