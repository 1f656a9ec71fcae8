//! Reference pages, man pages and completions from the code.

fn main() {}
