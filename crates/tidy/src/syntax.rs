//! The modules and syntax trees of Rust sources, with the code for tests and without it.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Attribute, Item};

use crate::{Finding, Source, Tree};

/// The modules of one crate's `src` folder: the path of a module to the file that holds it.
///
/// A module within a file belongs to that file. A module for tests is left out.
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
    /// Its items, without those for tests.
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

/// Adds the paths of a crate's files, from the root at `path` on, those for tests included.
fn reach(tree: &Tree, path: &str, folder: &str, reached: &mut BTreeSet<String>) {
    let Some(source) = find(tree, &[path.into()]) else { return };
    visit(tree, (source, folder, &[]), Scope::All, &mut |_, source, items| {
        reached.insert(source.path.clone());
        let beside = source.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        reached.extend(items.iter().filter_map(named_path).map(|name| format!("{beside}/{name}")));
    });
}

/// Reads the modules of a crate, from its `lib.rs`, or its `main.rs` if it has no library.
///
/// # Panics
/// A source is not Rust: the compiler has refused it before.
pub fn modules(tree: &Tree, name: &str) -> Modules {
    let mut modules = Modules::default();
    let folder = format!("crates/{name}/src");
    let roots = ["lib.rs", "main.rs"].map(|root| format!("{folder}/{root}"));
    if let Some(source) = roots.into_iter().find_map(|root| find(tree, &[root])) {
        visit(tree, (source, &folder, &[]), Scope::WithoutTests, &mut |at, source, items| {
            modules.files.insert(at.to_vec(), Module { path: source.path.clone(), items });
        });
    }
    modules
}

/// The items that a visit sees.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// All of them.
    All,
    /// Those that exist outside of tests.
    WithoutTests,
}

/// Calls `found` with the path, the source and the items of a module, and of each module below it
/// that has a file in `folder`.
fn visit(
    tree: &Tree,
    (source, folder, at): (&Source, &str, &[String]),
    scope: Scope,
    found: &mut impl FnMut(&[String], &Source, Vec<Item>),
) {
    let file = syn::parse_file(&source.text);
    let mut items = file.unwrap_or_else(|error| panic!("{}: {error}", source.path)).items;
    items.retain(|item| scope == Scope::All || !is_for_tests(item));
    for item in &items {
        let Item::Mod(child) = item else { continue };
        let below = format!("{folder}/{}", child.ident);
        let file = find(tree, &[format!("{below}.rs"), format!("{below}/mod.rs")]);
        if let Some(file) = file.filter(|_| child.content.is_none()) {
            let at = [at, &[child.ident.to_string()]].concat();
            visit(tree, (file, &below, &at), scope, found);
        }
    }
    found(at, source, items);
}

fn find<'t>(tree: &'t Tree, paths: &[String]) -> Option<&'t Source> {
    tree.sources.iter().find(|source| paths.contains(&source.path))
}

/// The file that a module's attribute `#[path = "FILE"]` names.
fn named_path(item: &Item) -> Option<String> {
    let Item::Mod(child) = item else { return None };
    child.attrs.iter().find_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(syn::MetaNameValue {
            path,
            value: syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(file), .. }),
            ..
        }) if path.is_ident("path") => Some(file.value()),
        _ => None,
    })
}

/// Whether the item exists in tests alone.
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
