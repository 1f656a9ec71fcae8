//! The keys of a config, as the parser knows them: the reference page and `spindle.toml(5)`.

use core::fmt::Write as _;

use config::keys::{Key, TableKeys, all};

use crate::markdown::{cell, head, paragraph, sentence};

const INTRODUCTION: &str = "A config for `spindle serve` and a scenario for `spindle sim run` have \
     one format, TOML. `serve` ignores `[[workload]]`, `seed` and `duration`; a simulation ignores \
     addresses and data. An unknown key is refused with its line. Sizes, times, rates and shares \
     are quantities in quotes: `\"4KiB\"`, `\"1s\"`, `\"60/s\"`, `\"30%\"`. Paths are relative to \
     the directory of the config.";

/// The reference page.
pub(crate) fn page() -> String {
    let mut text = head("Configuration keys", "`crates/config/src/keys/`");
    text.push_str(&paragraph(INTRODUCTION));
    text.push_str(&tables(all()));
    text
}

/// A section for each table of a file, with a row for each key.
pub(crate) fn tables<'t>(tables: impl IntoIterator<Item = &'t TableKeys>) -> String {
    let mut text = String::new();
    for TableKeys { header, about, keys } in tables {
        let _ = writeln!(text, "\n## {}\n", title(header));
        if !header.is_empty() {
            let _ = writeln!(text, "`{header}`\n");
        }
        text.push_str(&paragraph(&sentence(about)));
        text.push_str("\n| key | value | default | meaning |\n|---|---|---|---|\n");
        for key in keys {
            let _ = writeln!(
                text,
                "| `{}` | {} | {} | {} |",
                key.name,
                cell(&key.shape),
                cell(&default(key)),
                cell(&meaning(key))
            );
        }
    }
    text
}

/// A table's heading: its header without brackets.
fn title(header: &str) -> String {
    if header.is_empty() { "Top level".into() } else { header.replace(['[', ']'], "") }
}

fn default(key: &Key) -> String {
    match &key.default {
        _ if key.is_required => "required".into(),
        Some(default) => default.clone(),
        None => "none".into(),
    }
}

fn meaning(key: &Key) -> String {
    let about = sentence(key.about);
    key.old_name.map_or_else(
        || about.clone(),
        |old| format!("{about} Accepted as `{old}` too, for one version."),
    )
}

/// `spindle.toml(5)`.
pub(crate) fn man() -> String {
    let mut text = String::from(
        ".TH spindle.toml 5 \"\" \"spindle\" \"File formats\"\n.SH NAME\nspindle.toml \\- \
         config of spindle serve and scenario of spindle sim run\n.SH DESCRIPTION\n",
    );
    let _ = writeln!(text, "{}", roff(INTRODUCTION));
    for TableKeys { header, about, keys } in all() {
        let heading = if header.is_empty() { "Top level" } else { header };
        let _ = writeln!(text, ".SH \"{heading}\"\n{}", roff(about));
        for key in keys {
            let (shape, default) = (roff(&key.shape), roff(&default(key)));
            let _ = writeln!(text, ".TP\n.B {}\n{}", roff(key.name), roff(&meaning(key)));
            let _ = writeln!(text, "({shape}; default: {default})");
        }
    }
    text.push_str(".SH SEE ALSO\n.BR spindle (1),\n.BR spindle\\-serve (1)\n");
    text
}

/// Text as roff: code spans in bold, hyphens and leading control characters escaped.
fn roff(text: &str) -> String {
    let mut out = String::new();
    for (nth, part) in text.split('`').enumerate() {
        let part = part.replace('\\', "\\e").replace('-', "\\-");
        let is_code = nth % 2 == 1;
        let part = if is_code { format!("\\fB{part}\\fR") } else { part };
        out.push_str(&part);
    }
    if out.starts_with(['.', '\'']) { format!("\\&{out}") } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_of_a_table_is_described_twice() {
        for TableKeys { header, keys, .. } in all() {
            for (nth, key) in keys.iter().enumerate() {
                assert!(keys[..nth].iter().all(|k| k.name != key.name), "{header} {}", key.name);
            }
        }
    }

    #[test]
    fn code_spans_are_bold_and_hyphens_are_escaped() {
        assert_eq!(roff("`a-b` c"), "\\fBa\\-b\\fR c");
        assert_eq!(roff(".x"), "\\&.x");
    }
}
