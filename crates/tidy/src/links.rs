//! Relative links of Markdown pages: each leads to a file of the tree, and to a heading of it.

use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::{Finding, Source, Tree};

/// Relative links without a target.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in tree.sources.iter().filter(|source| source.has_ending("md")) {
        for (line, link) in links(&source.text) {
            let is_outside = link.contains("://") || link.starts_with("mailto:");
            if let Some(what) = (!is_outside).then(|| broken(tree, source, &link)).flatten() {
                found.push(Finding::new(&source.path, line, what));
            }
        }
    }
    found
}

/// What is wrong with a link of a page, if anything is.
fn broken(tree: &Tree, page: &Source, link: &str) -> Option<String> {
    let (file, heading) = link.split_once('#').map_or((link, None), |(f, h)| (f, Some(h)));
    let folder = Path::new(&page.path).parent().unwrap_or(Path::new(""));
    let path = if file.is_empty() { PathBuf::from(&page.path) } else { folder.join(file) };
    let path = plain(&path)?;
    let target = tree.sources.iter().find(|source| Path::new(&source.path) == path);
    let Some(target) = target else {
        let exists = tree.root.join(&path).exists();
        return (!exists).then(|| format!("the link `{link}` leads to no file"));
    };
    let heading = heading.filter(|_| target.has_ending("md"))?;
    let exists = headings(&target.text).iter().any(|found| found == heading);
    (!exists).then(|| format!("the link `{link}` leads to no heading of {}", target.path))
}

/// A path without `.` and `..`; none if it leaves the tree.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                if !plain.pop() {
                    return None;
                }
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    Some(plain)
}

/// The links and pictures of a page, each with its line.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        if let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event {
            let line = text[..range.start].lines().count().max(1);
            links.push((line, dest_url.to_string()));
        }
    }
    links
}

/// The anchors of a page's headings, as they are made from their words.
fn headings(text: &str) -> Vec<String> {
    let mut headings: Vec<String> = Vec::new();
    let mut inside: Option<String> = None;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Heading { .. }) => inside = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => headings.extend(inside.take().map(|h| anchor(&h))),
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut inside {
                    heading.push_str(&text);
                }
            }
            _ => {}
        }
    }
    headings
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_no_file_and_one_to_no_heading_are_found() {
        let page = "[a](other.md) [b](none.md) [c](other.md#a-heading) [d](other.md#none)\n";
        let tree = Tree::of(&[("docs/page.md", page), ("docs/other.md", "# A `heading`\n")]);
        let found = check(&tree);
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
