//! Assertions a function, where the guarantees live.
//!
//! Counted are `assert!`, `assert_eq!`, `assert_ne!` and their `debug_` forms, and functions with
//! a body; neither in what only tests see.

use core::fmt::Write as _;

use syn::visit::{self, Visit};
use syn::{ImplItemFn, Item, ItemFn, Macro, TraitItemFn};

use crate::syntax::{crates, is_for_tests, is_test_attribute, modules};
use crate::{Finding, Tree};

/// The crates that have at least one assertion a function on average.
pub const HELD: [&str; 2] = ["engine", "volume"];

/// What was counted in one crate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Functions with a body.
    pub functions: u32,
    /// Assertions in them.
    pub assertions: u32,
}

impl<'ast> Visit<'ast> for Count {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_for_tests(item) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.functions += 1;
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        if !item.attrs.iter().any(is_test_attribute) {
            self.functions += 1;
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        self.functions += u32::from(item.default.is_some());
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        let name = call.path.segments.last().map(|segment| segment.ident.to_string());
        let name = name.unwrap_or_default();
        let plain = name.strip_prefix("debug_").unwrap_or(&name);
        self.assertions += u32::from(["assert", "assert_eq", "assert_ne"].contains(&plain));
    }
}

/// Counts one crate.
pub fn count(tree: &Tree, name: &str) -> Count {
    let mut count = Count::default();
    for module in modules(tree, name).files.values() {
        for item in &module.items {
            count.visit_item(item);
        }
    }
    count
}

/// Each crate with its functions, assertions and their ratio.
pub fn table(tree: &Tree) -> String {
    let mut table = String::from("crate            functions  assertions  a function\n");
    for name in crates(tree) {
        let Count { functions, assertions } = count(tree, &name);
        let ratio = f64::from(assertions) / f64::from(functions.max(1));
        let _ = writeln!(table, "{name:<15} {functions:>10} {assertions:>11} {ratio:>11.2}");
    }
    table
}

/// The crates of [`HELD`] that have fewer assertions than functions.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for name in HELD {
        let Count { functions, assertions } = count(tree, name);
        if assertions < functions {
            let what =
                format!("{assertions} assertions in {functions} functions, at least as many");
            found.push(Finding::new(&format!("crates/{name}"), 0, what));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assertions_in_tests_do_not_count() {
        let text = "fn f(a: u32) { assert!(a > 0); debug_assert_eq!(a, 1); }\nfn g() {}\n\
            #[cfg(test)]\nmod tests { fn h() { assert!(true); } }\n";
        let tree = Tree::of(&[("crates/engine/src/lib.rs", text)]);
        assert_eq!(count(&tree, "engine"), Count { functions: 2, assertions: 2 });
        assert!(check(&tree).is_empty());
        let bare = Tree::of(&[("crates/engine/src/lib.rs", "fn f() {}\n")]);
        assert_eq!(check(&bare).len(), 1);
    }
}
