//! The laboratory: the papers' experiments, comparisons, validation, plots.
fn main() {}
