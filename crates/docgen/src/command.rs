//! The page of a binary's command line: each command with its usage, arguments and options.

use core::fmt::Write as _;

use clap::{Arg, ArgAction, Command};

use crate::markdown::{cell, head, paragraph, sentence};

/// The page of one binary.
pub(crate) fn page(mut command: Command) -> String {
    command.build();
    let name = command.get_name().to_owned();
    let mut text = head(&name, "the command line");
    section(&command, &name, 1, &mut text);
    text
}

/// One command, then its subcommands.
fn section(command: &Command, path: &str, level: usize, text: &mut String) {
    if level > 1 {
        let _ = writeln!(text, "{} {path}\n", "#".repeat(level.min(3)));
    }
    let about = command.get_long_about().or_else(|| command.get_about());
    if let Some(about) = about {
        text.push_str(&paragraph(&sentence(&about.to_string())));
        text.push('\n');
    }
    let subcommands: Vec<&Command> = visible(command).collect();
    if subcommands.is_empty() {
        let usage = command.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage:").trim();
        let _ = writeln!(text, "```text\n{usage}\n```\n");
    } else {
        text.push_str("| command | |\n|---|---|\n");
        for sub in &subcommands {
            let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
            let name = format!("{path} {}", sub.get_name());
            let _ = writeln!(text, "| [`{name}`](#{}) | {} |", anchor(&name), cell(&about));
        }
        text.push('\n');
    }
    arguments(command, level, text);
    for sub in subcommands {
        section(sub, &format!("{path} {}", sub.get_name()), level + 1, text);
    }
}

/// The table of what a command takes; global options are shown for the binary alone.
fn arguments(command: &Command, level: usize, text: &mut String) {
    let shown = |arg: &&Arg| {
        let is_own = level == 1 || !arg.is_global_set();
        let is_standard = ["help", "version"].contains(&arg.get_id().as_str());
        is_own && !is_standard && !arg.is_hide_set()
    };
    let rows: Vec<&Arg> = command.get_arguments().filter(shown).collect();
    if rows.is_empty() {
        return;
    }
    text.push_str("| argument | | default |\n|---|---|---|\n");
    for arg in rows {
        let help = arg.get_long_help().or_else(|| arg.get_help());
        let help = help.map(ToString::to_string).unwrap_or_default();
        let values: Vec<String> = arg
            .get_possible_values()
            .iter()
            .filter(|value| !value.is_hide_set() && takes_value(arg))
            .map(|value| format!("`{}`", value.get_name()))
            .collect();
        let values =
            if values.is_empty() { String::new() } else { format!(" ({})", values.join(", ")) };
        let default: Vec<String> = arg
            .get_default_values()
            .iter()
            .filter(|_| takes_value(arg))
            .map(|value| format!("`{}`", value.to_string_lossy()))
            .collect();
        let (name, help) = (shown_as(arg), cell(&sentence(&help)));
        let _ = writeln!(text, "| `{name}` | {help}{values} | {} |", default.join(", "));
    }
    text.push('\n');
}

fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
}

/// How an argument is written: `--size SIZE`, `--json`, `CONFIG`, `FILE…`.
fn shown_as(arg: &Arg) -> String {
    let value = || {
        let names = arg.get_value_names();
        names
            .and_then(|names| names.first())
            .map_or_else(|| arg.get_id().as_str().to_uppercase(), ToString::to_string)
    };
    let repeated = if matches!(arg.get_action(), ArgAction::Append) { "…" } else { "" };
    match arg.get_long() {
        Some(long) if takes_value(arg) => format!("--{long} {}{repeated}", value()),
        Some(long) => format!("--{long}"),
        None if arg.is_required_set() => format!("{}{repeated}", value()),
        None => format!("[{}]{repeated}", value()),
    }
}

/// The subcommands that help shows.
pub(crate) fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
}

fn anchor(name: &str) -> String {
    name.replace(' ', "-")
}
