//! Writes the reference pages; `--check` compares them with the files; `--output DIR` writes man
//! pages and shell completions below a directory.

use std::path::Path;
use std::process::ExitCode;

use spindle_docgen::{COMMAND, completions, man, pages, root};

const USAGE: &str = "usage: spindle-docgen [--check | --output DIR]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        [] => write(),
        ["--check"] => check(),
        ["--output", directory] => output(Path::new(directory)),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("spindle-docgen: {error}");
            ExitCode::from(2)
        }
    }
}

fn write() -> std::io::Result<bool> {
    for page in pages()? {
        if !page.is_current(&root()) {
            page.write(&root())?;
            eprintln!("wrote {}", page.path);
        }
    }
    Ok(true)
}

fn check() -> std::io::Result<bool> {
    let stale: Vec<_> = pages()?.into_iter().filter(|page| !page.is_current(&root())).collect();
    for page in &stale {
        eprintln!("{} differs from the code: `{COMMAND}` writes it", page.path);
    }
    Ok(stale.is_empty())
}

fn output(directory: &Path) -> std::io::Result<bool> {
    for page in man()?.into_iter().chain(completions()?) {
        page.write(directory)?;
    }
    Ok(true)
}
