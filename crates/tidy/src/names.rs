//! No two public types of one name in one crate: a name stands for one type.

use std::collections::BTreeMap;

use syn::{Ident, Item, Visibility};

use crate::syntax::{crates, modules};
use crate::{Finding, Tree};

/// Public types (struct, enum, trait, alias) of one crate that share a name.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for name in crates(tree) {
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        for module in modules(tree, &name).files.values() {
            for ident in public_types(&module.items) {
                let line = ident.span().start().line;
                let here = format!("{}:{line}", module.path);
                if let Some(first) = seen.get(&ident.to_string()) {
                    let what = format!("a second public type is called `{ident}`, as at {first}");
                    found.push(Finding::new(&module.path, line, what));
                } else {
                    seen.insert(ident.to_string(), here);
                }
            }
        }
    }
    found
}

/// The names of the types that are `pub`, those in modules in the middle of the file included.
pub fn public_types(items: &[Item]) -> Vec<&Ident> {
    let mut names = Vec::new();
    for item in items {
        let (visibility, ident) = match item {
            Item::Struct(item) => (&item.vis, &item.ident),
            Item::Enum(item) => (&item.vis, &item.ident),
            Item::Trait(item) => (&item.vis, &item.ident),
            Item::Type(item) => (&item.vis, &item.ident),
            Item::Mod(item) => {
                let inner = item.content.as_ref().map(|(_, items)| items.as_slice());
                names.extend(public_types(inner.unwrap_or_default()));
                continue;
            }
            _ => continue,
        };
        if matches!(visibility, Visibility::Public(_)) {
            names.push(ident);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_public_types_of_one_name_are_found_and_private_ones_are_not() {
        let root = ("crates/a/src/lib.rs", "mod b;\nmod c;\npub struct Pool;\nstruct Run;\n");
        let b = ("crates/a/src/b.rs", "pub enum Pool {}\npub struct Run;\n");
        let c = ("crates/a/src/c.rs", "#[cfg(test)]\npub struct Pool;\n");
        let found = check(&Tree::of(&[root, b, c]));
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
