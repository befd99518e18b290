//! The laws of the repository that no compiler or linter knows: which room may import which, how long a file may be, and
//! the like. `ARCHITECTURE.md` gives the reasons. Reads sources, never changes them.

mod code;
mod rules;

use std::path::{Path, PathBuf};

use code::Source;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files under `folder`, sorted; build output and version control left out.
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

/// The Rust sources under these folders of the repository.
fn sources(folders: &[&str]) -> std::io::Result<Vec<Source>> {
    let mut sources = Vec::new();
    for folder in folders {
        for path in files(&root().join(folder))? {
            if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push(Source::new(&relative(&path), &std::fs::read_to_string(&path)?));
            }
        }
    }
    code::mark_tests(&mut sources);
    Ok(sources)
}

/// All sources that people write.
const EVERYWHERE: [&str; 5] = ["src", "fuzz", "integration", "proto", "tests"];

fn complaints(sources: &[Source], rule: fn(&Source) -> Vec<String>) -> String {
    sources.iter().flat_map(rule).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_file_opens_by_saying_what_it_is() {
    let sources = sources(&EVERYWHERE).unwrap();
    assert!(sources.len() > 30, "only {} sources found: looking in the wrong place?", sources.len());
    assert_eq!(complaints(&sources, rules::opens_with_docs), "");
}

#[test]
fn no_room_imports_from_above() {
    assert_eq!(complaints(&sources(&["src"]).unwrap(), rules::respects_levels), "");
}

#[test]
fn mod_files_are_tables_of_contents() {
    assert_eq!(complaints(&sources(&EVERYWHERE).unwrap(), rules::keeps_mod_small), "");
}

#[test]
fn files_are_short() {
    assert_eq!(complaints(&sources(&EVERYWHERE).unwrap(), rules::keeps_files_short), "");
}

#[test]
fn nothing_is_unfinished_or_ignored() {
    assert_eq!(complaints(&sources(&EVERYWHERE).unwrap(), rules::has_nothing_banned), "");
}

#[test]
fn nothing_names_a_path_of_somebodys_machine() {
    let mut complaints = Vec::new();
    for path in files(root()).unwrap() {
        // What is not text names nothing.
        if let Ok(text) = std::fs::read_to_string(&path) {
            complaints.extend(rules::names_no_machine_path(&relative(&path), &text));
        }
    }
    assert_eq!(complaints.join("\n"), "");
}
