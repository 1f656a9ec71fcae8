//! The pages in the tree are what the code says.

use std::path::{Path, PathBuf};

use spindle_docgen::{COMMAND, completions, glossary, man, pages, paths, root};

#[test]
fn each_generated_page_equals_the_code() {
    let pages = pages().expect("pages");
    let stale: Vec<_> = pages.iter().filter(|page| !page.is_current(&root())).collect();
    let paths: Vec<_> = stale.iter().map(|page| page.path.as_str()).collect();
    assert!(paths.is_empty(), "{paths:?} differ from the code: `{COMMAND}` writes them");
}

#[test]
fn each_type_that_the_glossary_names_exists() {
    let page = std::fs::read_to_string(root().join(glossary::PATH)).expect("the glossary");
    let defined = glossary::defined(&root()).expect("the sources");
    let types = glossary::types(&page);
    assert!(types.len() > 50, "the glossary names {} types", types.len());
    let missing: Vec<_> = types.iter().filter(|(_, name)| !defined.contains(name)).collect();
    assert!(missing.is_empty(), "the glossary names types that do not exist: {missing:?}");
}

#[test]
fn every_command_has_a_man_page_and_both_binaries_have_completions() {
    let man = man().expect("man pages");
    let paths: Vec<_> = man.iter().map(|page| page.path.as_str()).collect();
    for path in ["man/spindle.1", "man/spindle-serve.1", "man/spindle-lab.1", "man/spindle.toml.5"]
    {
        assert!(paths.contains(&path), "{path} of {paths:?}");
    }
    assert!(man.iter().all(|page| page.text.contains(".TH ")));
    let completions = completions().expect("completions");
    assert_eq!(completions.len(), 6);
    assert!(completions.iter().all(|page| page.text.contains("spindle")));
}

/// The Markdown pages of the tree, each with its text.
fn documents() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for name in ["README.md", "ARCHITECTURE.md", "STYLE.md", "CONTRIBUTING.md"] {
        found.push(root().join(name));
    }
    collect(&root().join("docs/src"), &mut found);
    found.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

fn collect(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("the book") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "md") {
            found.push(path);
        }
    }
}

#[test]
fn each_path_and_each_function_that_a_page_names_exists() {
    let defined = glossary::defined(&root()).expect("the sources");
    let mut missing = Vec::new();
    for (path, text) in documents() {
        for (line, named) in paths::paths(&text) {
            if !paths::exists(&root(), &named) {
                missing.push(format!("{}:{line}: {named}", path.display()));
            }
        }
        for (line, named) in paths::functions(&text) {
            if !named.split("::").all(|part| defined.contains(part)) {
                missing.push(format!("{}:{line}: {named}", path.display()));
            }
        }
    }
    assert!(missing.is_empty(), "these do not exist:\n{}", missing.join("\n"));
}

/// The keys of profile files, as the code that visits their fields names them.
fn profile_keys(directory: &Path) -> Vec<String> {
    let mut keys = Vec::new();
    for entry in std::fs::read_dir(directory).expect("the sources of profile files") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            continue;
        }
        let source = std::fs::read_to_string(path).expect("a source");
        for call in source.split("form.").skip(1) {
            let key = call.split_once("(\"").and_then(|(name, rest)| {
                let is_call = name.chars().all(|c| c.is_alphanumeric() || c == '_');
                rest.split('"').next().filter(|_| is_call && name != "sound")
            });
            keys.extend(key.map(ToOwned::to_owned));
        }
    }
    keys
}

#[test]
fn the_page_of_profile_files_has_each_key() {
    let keys = profile_keys(&root().join("crates/drive-library/src/profile"));
    assert!(keys.len() > 60, "{} keys", keys.len());
    let page = root().join("docs/src/reference/profile-format.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let is_described = |key: &String| {
        let (span, last) = (format!("`{key}`"), format!(".{key}"));
        let table =
            |line: &str| line.contains(&format!("{last}]")) || line.contains(&format!("{last}`"));
        page.contains(&span)
            || page.lines().any(|line| table(line) || line.contains(&format!("[{key}]")))
            || page.contains(&format!("…{key}`"))
    };
    let missing: Vec<_> = keys.iter().filter(|key| !is_described(key)).collect();
    assert!(missing.is_empty(), "the page does not describe {missing:?}");
}
