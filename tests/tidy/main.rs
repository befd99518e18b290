//! The laws of the repository that neither compiler nor linter checks: how long a file may be, and the like. `ARCHITECTURE.md` gives the reasons. Reads files, never changes them.

mod circles;
mod code;
mod documents;
mod monitoring;
mod rules;
mod wildcards;

use std::path::{Path, PathBuf};

use rules::Source;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// All files below `folder` except build output and version control, sorted.
fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        if name == "target" || name == ".git" {
            continue;
        }
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// The Rust sources in these folders of the repository.
fn sources(folders: &[&str]) -> std::io::Result<Vec<Source>> {
    let mut sources = Vec::new();
    for folder in folders {
        for path in files(&root().join(folder))? {
            if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push(Source::new(&relative(&path), &std::fs::read_to_string(&path)?));
            }
        }
    }
    rules::mark_tests(&mut sources);
    Ok(sources)
}

#[test]
fn the_sources_keep_the_rules() {
    let sources = sources(&["crates", "fuzz", "integration", "packaging", "tests"]).unwrap();
    assert!(sources.len() > 300, "only {} sources found: looking in the wrong place?", sources.len());
    let rules =
        [rules::starts_with_docs, rules::is_short, rules::has_short_inline_tests, rules::keeps_errors_typed];
    let complaints: Vec<String> = rules.iter().flat_map(|rule| sources.iter().flat_map(rule)).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn no_files_use_each_other() {
    let circles = circles::circles(&sources(&["crates"]).unwrap());
    let complaints: Vec<String> =
        circles.iter().map(|circle| format!("a circle of files:\n  {}", circle.uses.join("\n  "))).collect();
    assert_eq!(complaints.join("\n"), "");
}

#[test]
fn no_match_on_an_enum_of_hostlet_has_a_wildcard_arm() {
    assert_eq!(wildcards::wildcards(&sources(&["crates"]).unwrap()).join("\n"), "");
}

#[test]
fn no_file_names_a_path_of_one_machine() {
    let mut complaints = Vec::new();
    for path in files(root()).unwrap() {
        // Binary files are skipped.
        if let Ok(text) = std::fs::read_to_string(&path) {
            complaints.extend(rules::names_no_machine_path(&relative(&path), &text));
        }
    }
    assert_eq!(complaints.join("\n"), "");
}
