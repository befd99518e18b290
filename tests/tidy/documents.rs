//! Checks of the documents: named paths exist, and pages are short.

use crate::root;

/// Paths in backquotes, relative to the root, or those of a crate to its sources.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let is_path = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    text.split('`')
        .skip(1)
        .step_by(2)
        .filter(move |quoted| quoted.contains('/') && quoted.chars().all(is_path))
}

#[test]
fn the_paths_that_the_architecture_names_exist() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let exists = |path: &&str| {
        let of_crate =
            path.split_once('/').map(|(name, rest)| root().join("crates").join(name).join("src").join(rest));
        root().join(path).exists() || of_crate.is_some_and(|path| path.exists())
    };
    let named: Vec<&str> = paths(&text).collect();
    assert!(named.len() > 60, "only {} paths found: looking in the wrong place?", named.len());
    let missing: Vec<&str> = named.into_iter().filter(|path| !exists(path)).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn pages_are_short() {
    for (page, most) in [("ARCHITECTURE.md", 3000), ("README.md", 3000)] {
        let words = std::fs::read_to_string(root().join(page)).unwrap().split_whitespace().count();
        assert!(words <= most, "{page} has {words} words, at most {most}");
    }
    let lines = std::fs::read_to_string(root().join("README.md")).unwrap().lines().count();
    assert!(lines <= 180, "README.md has {lines} lines, at most 180");
}
