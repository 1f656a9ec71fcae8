//! The `spindle` binary.
fn main() {}
