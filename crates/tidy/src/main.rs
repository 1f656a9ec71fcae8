//! `spindle-tidy [--tree DIR] [CHECK]...`: prints what the checks find in the tree that it was
//! built in, or in another. With names of checks, only those run; `assertions` prints a table, too.
//! Exit code 0 if nothing was found, 1 if anything was, 2 for bad usage.

use std::process::ExitCode;

use tidy::{
    Finding, Tree, assertions, circles, copies, links, names, syntax, unsafe_code, width, words,
};

type Check = fn(&Tree) -> Vec<Finding>;

const CHECKS: [(&str, Check); 9] = [
    ("width", width::check),
    ("words", words::check),
    ("links", links::check),
    ("names", names::check),
    ("orphans", syntax::orphans),
    ("circles", circles::check),
    ("copies", copies::check),
    ("assertions", assertions::check),
    ("unsafe", unsafe_code::check),
];

fn main() -> ExitCode {
    let mut wanted: Vec<String> = std::env::args().skip(1).collect();
    let other =
        (wanted.len() > 1 && wanted[0] == "--tree").then(|| wanted.drain(..2).nth(1)).flatten();
    let unknown = wanted.iter().find(|name| CHECKS.iter().all(|(known, _)| known != name));
    if let Some(unknown) = unknown {
        let known = CHECKS.map(|(name, _)| name).join(", ");
        eprintln!("spindle-tidy: no check is called `{unknown}`; there are {known}");
        return ExitCode::from(2);
    }
    let tree = match other.map_or_else(Tree::of_workspace, |root| Tree::read(root.as_ref())) {
        Ok(tree) => tree,
        Err(error) => {
            eprintln!("spindle-tidy: the tree cannot be read: {error}");
            return ExitCode::from(2);
        }
    };
    if wanted.iter().any(|name| name == "assertions") {
        print!("{}", assertions::table(&tree));
    }
    let mut count = 0;
    for (name, check) in CHECKS {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| wanted == name) {
            continue;
        }
        for finding in check(&tree) {
            println!("{finding}");
            count += 1;
        }
    }
    eprintln!("{count} found");
    ExitCode::from(u8::from(count > 0))
}
