//! Man pages and shell completions of both binaries, and `spindle.toml(5)`.

use std::io;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::command::visible;
use crate::{Page, keys};

const SHELLS: [(Shell, &str); 3] =
    [(Shell::Bash, "bash"), (Shell::Zsh, "zsh"), (Shell::Fish, "fish")];

fn binaries() -> [Command; 2] {
    [spindle_cli::command(), spindle_lab::command()]
}

/// `man/*.1`, one for each command that is no group, and `man/spindle.toml.5`.
///
/// # Errors
/// If a page cannot be rendered.
pub fn man() -> io::Result<Vec<Page>> {
    let mut pages = vec![Page { path: "man/spindle.toml.5".into(), text: keys::man() }];
    for mut binary in binaries() {
        binary.build();
        let name = binary.get_name().to_owned();
        add(&binary, &name, &mut pages)?;
    }
    Ok(pages)
}

fn add(command: &Command, name: &str, pages: &mut Vec<Page>) -> io::Result<()> {
    let mut bytes = Vec::new();
    let man = Man::new(command.clone().disable_help_subcommand(true)).title(name);
    man.render(&mut bytes)?;
    let text = String::from_utf8(bytes).map_err(io::Error::other)?;
    pages.push(Page { path: format!("man/{name}.1"), text });
    for sub in visible(command) {
        add(sub, &format!("{name}-{}", sub.get_name()), pages)?;
    }
    Ok(())
}

/// `completions/*` for Bash, Zsh and Fish.
///
/// # Errors
/// If one cannot be rendered.
pub fn completions() -> io::Result<Vec<Page>> {
    let mut pages = Vec::new();
    for mut binary in binaries() {
        let name = binary.get_name().to_owned();
        for (shell, ending) in SHELLS {
            let mut bytes = Vec::new();
            clap_complete::generate(shell, &mut binary, &name, &mut bytes);
            let text = String::from_utf8(bytes).map_err(io::Error::other)?;
            pages.push(Page { path: format!("completions/{name}.{ending}"), text });
        }
    }
    Ok(pages)
}
