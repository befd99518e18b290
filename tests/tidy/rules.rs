//! The rules, each a function from a source file to complaints of the form `path:line: what is wrong`.

use crate::code::Source;

/// Rooms of the library, lowest level first. A room imports only rooms of lower levels, so there is no cycle.
const LEVELS: [&[&str]; 13] = [
    &["types"],
    &["sys", "telemetry"],
    &["config"],
    &["api", "cgroup", "cri", "store"],
    &["image", "log", "objects", "pleg", "pod"],
    &["gate", "node", "status", "volume"],
    &["cri_config", "source"],
    &["admission", "worker"],
    &["lifecycle", "publish"],
    &["explain", "housekeeping"],
    &["server"],
    &["cli"],
    &["app"],
];

const MAX_FILE_LINES: usize = 600;
const MAX_MOD_LINES: usize = 60;
const MAX_MAIN_LINES: usize = 150;

/// Files that may be longer than the rest, each with the reason.
const LONG_FILES: [(&str, &str); 0] = [];

/// What must not be in the code, not even in tests.
const BANNED: [(&str, &str); 4] = [
    ("todo!", "code that is not there"),
    ("unimplemented!", "code that is not there"),
    ("dbg!", "a leftover of debugging"),
    ("#[ignore", "a test that does not run proves nothing"),
];

/// Beginnings of paths that exist on one person's machine. In two parts, so that this file does not name them.
const MACHINE_PATHS: [(&str, &str); 3] = [("/work", "/"), ("/home", "/"), ("/Users", "/")];

fn level(room: &str) -> Option<usize> {
    LEVELS.iter().position(|rooms| rooms.contains(&room))
}

/// The room a file of the library is in; none for `lib.rs` and `main.rs`.
fn room(path: &str) -> Option<&str> {
    let inside = path.strip_prefix("src/")?;
    inside.split_once('/').map(|(room, _)| room).or_else(|| {
        let file = inside.strip_suffix(".rs")?;
        (!["lib", "main"].contains(&file)).then_some(file)
    })
}

/// Every file opens by saying what it is.
pub(crate) fn opens_with_docs(source: &Source) -> Vec<String> {
    if source.text.starts_with("//! ") {
        return Vec::new();
    }
    vec![format!("{}:1: the first line must be a `//!` that says what the file owns", source.path)]
}

/// No room imports from its own level or a higher one.
pub(crate) fn respects_levels(source: &Source) -> Vec<String> {
    let Some(own) = room(&source.path) else {
        return Vec::new();
    };
    let Some(own_level) = level(own) else {
        return vec![format!("{}:1: the room `{own}` has no level", source.path)];
    };
    let complaint = |(line, target): (usize, String)| {
        let what = match level(&target) {
            _ if target == own => return None,
            Some(level) if level < own_level => return None,
            Some(_) => format!("`{own}` must not import `{target}`, which is not of a lower level"),
            None => format!("`{target}` is no room"),
        };
        Some(format!("{}:{line}: {what}", source.path))
    };
    let mut complaints: Vec<String> = imports(source).into_iter().filter_map(complaint).collect();
    complaints.extend(climbs(source));
    complaints
}

/// Rooms named by `crate::room` or `crate::{room, …}`, with their lines.
fn imports(source: &Source) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let lines = source.program_lines();
    for (index, (number, line)) in lines.iter().enumerate() {
        for (at, _) in line.match_indices("crate::") {
            let rest = &line[at + "crate::".len()..];
            // Not `$crate`, nor the end of a longer name.
            if line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
                continue;
            }
            if !rest.starts_with('{') {
                found.push((*number, identifier(rest)));
                continue;
            }
            let following = lines[index + 1..].iter().map(|(_, line)| *line);
            let text: String = std::iter::once(rest).chain(following).collect();
            found.extend(group(&text).into_iter().map(|room| (*number, room)));
        }
    }
    // Items of the crate's root are no rooms; a room is a module, written in small letters.
    found.retain(|(_, name)| name.starts_with(|c: char| c.is_ascii_lowercase()));
    found
}

fn identifier(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// First names of the paths in the braces that open `text`.
fn group(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let (mut depth, mut first) = (0, true);
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => break,
            '}' => depth -= 1,
            ',' if depth == 1 => first = true,
            _ if depth == 1 && first && !c.is_whitespace() => {
                names.push(identifier(&text[at..]));
                first = false;
            }
            _ => {}
        }
    }
    names
}

/// `super::` paths that leave the room: they would import without naming `crate`.
fn climbs(source: &Source) -> Vec<String> {
    let module = source.path.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
    let depth = module.split('/').count();
    let mut complaints = Vec::new();
    for (number, line) in source.program_lines() {
        if line.contains(&"super::".repeat(depth)) {
            complaints.push(format!("{}:{number}: `super` leaves the room; say `crate`", source.path));
        }
    }
    complaints
}

/// A `mod.rs` is a table of contents, with at most a small handle.
pub(crate) fn keeps_mod_small(source: &Source) -> Vec<String> {
    let lines = source.program_lines().len();
    if !source.path.ends_with("/mod.rs") || lines <= MAX_MOD_LINES {
        return Vec::new();
    }
    vec![format!("{}:1: {lines} lines of code; a mod.rs has at most {MAX_MOD_LINES}", source.path)]
}

/// A file fits into a head; `main.rs` is only wiring.
pub(crate) fn keeps_files_short(source: &Source) -> Vec<String> {
    let most = if source.path == "src/main.rs" { MAX_MAIN_LINES } else { MAX_FILE_LINES };
    let lines = source.program_lines().len();
    if lines <= most || LONG_FILES.iter().any(|(path, _)| *path == source.path) {
        return Vec::new();
    }
    vec![format!("{}:1: {lines} lines of code outside tests; at most {most}", source.path)]
}

/// No unfinished or switched-off code.
pub(crate) fn has_nothing_banned(source: &Source) -> Vec<String> {
    let mut complaints = Vec::new();
    for (index, line) in source.code.lines().enumerate() {
        for (banned, why) in BANNED {
            let hit = line
                .match_indices(banned)
                .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'));
            if hit {
                complaints.push(format!("{}:{}: `{banned}`: {why}", source.path, index + 1));
            }
        }
    }
    complaints
}

/// Nothing depends on, or tells of, the machine it was written on. For any text, not only code.
pub(crate) fn names_no_machine_path(path: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for (start, end) in MACHINE_PATHS {
            // A path of its own, not the middle of another one.
            let hit = line
                .match_indices(&format!("{start}{end}"))
                .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-}/".contains(c)));
            if hit {
                complaints.push(format!("{path}:{}: a path of somebody's own machine", index + 1));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source::new(path, text)
    }

    #[test]
    fn a_file_without_docs_is_found() {
        assert!(opens_with_docs(&source("src/a.rs", "//! Says it.\n")).is_empty());
        for bad in ["use x;\n", "// Says it.\n", "\n//! Says it.\n", "//!\n", ""] {
            assert_eq!(opens_with_docs(&source("src/a.rs", bad)).len(), 1, "{bad:?}");
        }
    }

    #[test]
    fn an_import_from_above_is_found_however_it_is_written() {
        let from_above = [
            "use crate::pod::X;",
            "pub use crate::pod;",
            "use crate::{types::A, pod::{B, C}};",
            "use crate::{\n    types::{A, B},\n    pod,\n};",
            "fn f() { crate::pod::g(); }",
            "type T = Vec<crate::pod::X>;",
            "use super::super::pod::X;",
        ];
        for text in from_above {
            let complaints = respects_levels(&source("src/pleg/task.rs", text));
            assert_eq!(complaints.len(), 1, "{text}: {complaints:?}");
        }
        assert!(
            respects_levels(&source("src/pleg/task.rs", from_above[0]))[0]
                .contains("`pleg` must not import `pod`")
        );
    }

    #[test]
    fn imports_from_below_from_beside_and_in_tests_are_fine() {
        let fine = [
            "use crate::cri::X;\nuse crate::{types::{A, pod}, sys};",
            "use crate::pleg::X;",
            "// see crate::pod::X\nconst X: &str = \"crate::pod\";",
            "#[cfg(test)]\nmod tests {\n    use crate::pod::X;\n}",
            "use super::pod::X;",
            "macro_rules! m { () => { $crate::pod::X } }",
        ];
        for text in fine {
            let complaints = respects_levels(&source("src/pleg/task.rs", text));
            assert!(complaints.is_empty(), "{text}: {complaints:?}");
        }
        assert!(respects_levels(&source("src/lib.rs", "use crate::app::X;")).is_empty());
        assert!(respects_levels(&source("src/pleg/a/b.rs", "use super::super::x;")).is_empty());
    }

    #[test]
    fn a_room_without_a_level_is_found() {
        assert_eq!(respects_levels(&source("src/attic/mod.rs", "")).len(), 1);
        assert_eq!(respects_levels(&source("src/pleg/task.rs", "use crate::attic;")).len(), 1);
    }

    #[test]
    fn a_mod_that_does_things_is_found() {
        let code = "fn f() {}\n".repeat(MAX_MOD_LINES + 1);
        assert_eq!(keeps_mod_small(&source("src/a/mod.rs", &code)).len(), 1);
        assert!(keeps_mod_small(&source("src/a/b.rs", &code)).is_empty());
        let docs = "//! doc\n".repeat(MAX_MOD_LINES + 1);
        assert!(keeps_mod_small(&source("src/a/mod.rs", &docs)).is_empty());
    }

    #[test]
    fn a_long_file_is_found_unless_its_length_is_tests() {
        let line = "fn f() {}\n";
        assert!(keeps_files_short(&source("src/a.rs", &line.repeat(MAX_FILE_LINES))).is_empty());
        assert_eq!(keeps_files_short(&source("src/a.rs", &line.repeat(MAX_FILE_LINES + 1))).len(), 1);
        assert_eq!(keeps_files_short(&source("src/main.rs", &line.repeat(MAX_MAIN_LINES + 1))).len(), 1);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    f();\n".repeat(MAX_FILE_LINES));
        assert!(keeps_files_short(&source("src/a.rs", &tests)).is_empty());
    }

    #[test]
    fn unfinished_and_ignored_code_is_found_in_tests_too() {
        for bad in ["todo!()", "unimplemented!(\"x\")", "dbg!(x)", "#[ignore]", "#[ignore = \"slow\"]"] {
            let text = format!("fn f() {{}}\n#[cfg(test)]\nmod tests {{\n    {bad}\n}}\n");
            let complaints = has_nothing_banned(&source("src/a.rs", &text));
            assert_eq!(complaints.len(), 1, "{bad}: {complaints:?}");
            assert!(complaints[0].starts_with("src/a.rs:4: "), "{complaints:?}");
        }
        for fine in ["// todo! later", "\"dbg!\"", "mytodo!()", "Status::unimplemented(x)"] {
            assert!(has_nothing_banned(&source("src/a.rs", fine)).is_empty(), "{fine}");
        }
    }

    #[test]
    fn a_path_of_one_machine_is_found() {
        for (start, end) in MACHINE_PATHS {
            let text = format!("first\ncd {start}{end}x\n");
            assert_eq!(names_no_machine_path("a.sh", &text), ["a.sh:2: a path of somebody's own machine"]);
        }
        for fine in ["/var/lib/kubelet", "$dir/homework/x", "src/home/x", "/workspace/x"] {
            assert!(names_no_machine_path("a.sh", fine).is_empty(), "{fine}");
        }
    }
}
