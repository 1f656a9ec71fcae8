//! What the Markdown pages show exists: commands, their subcommands and flags, targets of `make`,
//! and the keys of configs. Generated pages are compared with the code elsewhere.

use clap::Command;
use config::keys::{self, TableKeys};
use tidy::documents::{Shown, blocks, commands};
use tidy::{Finding, Source, Tree};

fn tree() -> Tree {
    Tree::of_workspace().expect("the tree can be read")
}

/// The pages; the changelog names what was removed.
fn pages(tree: &Tree) -> impl Iterator<Item = &Source> {
    tree.sources.iter().filter(|page| page.has_ending("md") && page.path != "CHANGELOG.md")
}

fn report(found: &[Finding]) {
    let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{} found:\n{}", found.len(), lines.join("\n"));
}

/// Whether a word of a shown command stands for something: `CONFIG`, `…`, `[--json]`, `<name>`.
fn is_placeholder(word: &str) -> bool {
    word.starts_with(|c: char| c.is_uppercase()) || word.contains(['…', '[', '<', '|', '*', '.'])
}

/// What is wrong with a shown command, if anything is.
fn broken(program: &Command, shown: &Shown) -> Option<String> {
    let (mut at, mut path) = (program, shown.words[0].clone());
    let mut words = shown.words[1..].iter();
    let mut has_arguments = false;
    while let Some(word) = words.next() {
        if let Some(flag) = word.strip_prefix("--") {
            let name = flag.split('=').next().unwrap_or(flag);
            // Behind a bare `--` stands another program's command.
            if name.is_empty() {
                return None;
            }
            let known = |command: &Command| {
                command.get_arguments().any(|argument| argument.get_long() == Some(name))
            };
            if !known(at) && !known(program) && !["help", "version"].contains(&name) {
                return Some(format!("`{path}` has no flag `--{name}`"));
            }
            let takes_value = at.get_arguments().any(|argument| {
                argument.get_long() == Some(name) && argument.get_action().takes_values()
            });
            if takes_value && !flag.contains('=') {
                words.next();
            }
        } else if let Some(below) = at.find_subcommand(word).filter(|_| !has_arguments) {
            at = below;
            path = format!("{path} {word}");
        } else if word.starts_with('-') || is_placeholder(word) {
            has_arguments |= !word.starts_with('-');
        } else if at.has_subcommands() && !word.contains('/') {
            return Some(format!("`{path}` has no subcommand `{word}`"));
        } else {
            has_arguments = true;
        }
    }
    None
}

#[test]
fn commands_that_pages_show_exist() {
    let tree = tree();
    let mut programs = [spindle_cli::command(), spindle_lab::command()];
    programs.iter_mut().for_each(Command::build);
    let makefile = tree.sources.iter().find(|source| source.path == "Makefile").expect("there");
    let is_target = |name: &str| makefile.text.contains(&format!("\n{name}:"));
    let (mut found, mut checked) = (Vec::new(), 0);
    for page in pages(&tree) {
        for shown in commands(page) {
            checked += 1;
            let program = programs.iter().find(|program| program.get_name() == shown.words[0]);
            let what = if let Some(program) = program {
                broken(program, &shown)
            } else {
                let targets = shown.words[1..].iter().filter(|word| !word.contains('='));
                let plain = |word: &&String| !is_placeholder(word) && !word.starts_with('-');
                let missing = targets.filter(plain).find(|name| !is_target(name));
                missing.map(|name| format!("`make` has no target `{name}`"))
            };
            found.extend(what.map(|what| Finding::new(&page.path, shown.line, what)));
        }
    }
    assert!(checked > 50, "{checked} commands were found in the pages");
    report(&found);
}

/// The keys of the table with this path: `disk` is `[[disk]]`, `pool.volume` `[[pool.volume]]`.
fn keys_of(path: &str) -> Option<&'static TableKeys> {
    let has_path =
        |table: &&TableKeys| table.header.replace(['[', ']'], "").replace(' ', ".") == path;
    keys::all().into_iter().find(has_path)
}

fn check_table(table: &toml::Table, path: &str, unknown: &mut Vec<String>) {
    let keys = keys_of(path);
    for (name, value) in table {
        if keys.is_some_and(|keys| !keys.accepts(name)) {
            unknown.push(if path.is_empty() { name.clone() } else { format!("{path}.{name}") });
            continue;
        }
        let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match value {
            toml::Value::Table(table) => check_table(table, &below, unknown),
            toml::Value::Array(values) => {
                let tables = values.iter().filter_map(toml::Value::as_table);
                tables.for_each(|table| check_table(table, &below, unknown));
            }
            _ => {}
        }
    }
}

#[test]
fn keys_of_configs_that_pages_show_exist() {
    let tree = tree();
    let (mut found, mut checked) = (Vec::new(), 0);
    for page in pages(&tree) {
        for block in blocks(page, "toml") {
            checked += 1;
            let mut unknown = Vec::new();
            match block.text.parse::<toml::Table>() {
                Ok(table) => check_table(&table, "", &mut unknown),
                Err(error) => unknown.push(format!("no TOML: {}", error.message())),
            }
            let finding = |what| Finding::new(&page.path, block.line, what);
            found.extend(unknown.into_iter().map(|key| finding(format!("unknown key: {key}"))));
        }
    }
    assert!(checked > 5, "{checked} configs were found in the pages");
    report(&found);
}

#[test]
fn a_flag_and_a_key_that_do_not_exist_are_found() {
    let mut program = spindle_cli::command();
    program.build();
    let shown = |text: &str| Shown { line: 1, words: text.split(' ').map(String::from).collect() };
    assert!(broken(&program, &shown("spindle vol ls --json")).is_none());
    assert!(broken(&program, &shown("spindle vol ls --colour")).is_some());
    assert!(broken(&program, &shown("spindle volume ls")).is_some());
    let mut unknown = Vec::new();
    let table: toml::Table = "[[disk]]\nname = \"d0\"\ncolour = 1\n".parse().expect("TOML");
    check_table(&table, "", &mut unknown);
    assert_eq!(unknown, ["disk.colour"]);
}
