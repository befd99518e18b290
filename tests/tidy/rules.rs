//! The rules, each a function from a source file to complaints of the form `path:line: what is wrong`.

use crate::code::{Source, Token};

/// Rooms of the library, lowest level first. A room imports only rooms of lower levels, so there is no cycle.
const LEVELS: [&[&str]; 14] = [
    &["types"],
    &["sys", "telemetry", "yaml"],
    &["config"],
    &["api", "cgroup", "cri", "store"],
    &["image", "log", "objects", "pleg", "pod"],
    &["gate", "node", "volume"],
    &["cri_config", "status"],
    &["source"],
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

/// Beginnings of paths that exist on one person's machine. In two parts, so that this file does not name them.
const MACHINE_PATHS: [(&str, &str); 3] = [("/work", "/"), ("/home", "/"), ("/Users", "/")];

fn level(room: &str) -> Option<usize> {
    LEVELS.iter().position(|rooms| rooms.contains(&room))
}

/// The room a file of the library is in; none for `lib.rs` and `main.rs`.
fn room(path: &str) -> Option<&str> {
    Some(path.strip_prefix("src/")?.split_once('/')?.0)
}

/// Every file opens by saying what it is.
pub(crate) fn opens_with_docs(source: &Source) -> Vec<String> {
    if source.text.starts_with("//! ") {
        return Vec::new();
    }
    vec![format!("{}:1: the first line must be a `//!` that says what the file owns", source.path)]
}

/// No room imports from its own level or a higher one, nor climbs out of itself without naming `crate`.
pub(crate) fn respects_levels(source: &Source) -> Vec<String> {
    let Some(own) = room(&source.path) else {
        return Vec::new();
    };
    let Some(own_level) = level(own) else {
        return vec![format!("{}:1: the room `{own}` has no level", source.path)];
    };
    let complaint = |(line, target): (usize, &str)| {
        let what = match level(target) {
            _ if target == own => return None,
            Some(level) if level < own_level => return None,
            Some(_) => format!("`{own}` must not import `{target}`, which is not of a lower level"),
            None => format!("`{target}` is no room"),
        };
        Some(format!("{}:{line}: {what}", source.path))
    };
    let mut complaints: Vec<String> = imports(&source.program).into_iter().filter_map(complaint).collect();
    let module = source.path.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
    let climb = ["super", ":", ":"].repeat(module.split('/').count());
    let climbs = source.program.windows(climb.len()).filter(|window| are(window, &climb));
    complaints.extend(
        climbs
            .map(|climb| format!("{}:{}: `super` leaves the room; say `crate`", source.path, climb[0].line)),
    );
    complaints
}

fn are_at(tokens: &[Token], at: usize, texts: &[&str]) -> bool {
    tokens.get(at..at + texts.len()).is_some_and(|window| are(window, texts))
}

fn are(tokens: &[Token], texts: &[&str]) -> bool {
    tokens.iter().map(|token| &*token.text).eq(texts.iter().copied())
}

/// Rooms named by `crate::room` or `crate::{room, …}`, with their lines.
fn imports(tokens: &[Token]) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for at in 0..tokens.len().saturating_sub(3) {
        // Not `$crate`.
        let is_macros = at > 0 && tokens[at - 1].text == "$";
        if is_macros || !are(&tokens[at..at + 3], &["crate", ":", ":"]) {
            continue;
        }
        let rest = &tokens[at + 3..];
        if rest[0].text == "{" {
            found.extend(first_names(&rest[1..]).map(|name| (name.line, &*name.text)));
        } else {
            found.push((rest[0].line, &*rest[0].text));
        }
    }
    // Items of the crate's root are no rooms; a room is a module, written in small letters.
    found.retain(|(_, name)| name.starts_with(|c: char| c.is_ascii_lowercase()));
    found
}

/// First names of the paths in a list, up to the brace that closes it.
fn first_names(list: &[Token]) -> impl Iterator<Item = &Token> {
    let (mut depth, mut is_first) = (0, true);
    list.iter()
        .map_while(move |token| {
            let was_first = std::mem::take(&mut is_first);
            match &*token.text {
                "{" => depth += 1,
                "}" if depth == 0 => return None,
                "}" => depth -= 1,
                "," if depth == 0 => is_first = true,
                _ => {}
            }
            Some(was_first.then_some(token))
        })
        .flatten()
}

/// A file fits into a head, a `mod.rs` is a table of contents, `main.rs` is only wiring.
pub(crate) fn is_short(source: &Source) -> Vec<String> {
    let most = match &*source.path {
        "src/main.rs" => MAX_MAIN_LINES,
        path if path.ends_with("/mod.rs") => MAX_MOD_LINES,
        _ => MAX_FILE_LINES,
    };
    let lines = source.program_lines();
    if lines <= most {
        return Vec::new();
    }
    vec![format!("{}:1: {lines} lines of code outside tests; at most {most}", source.path)]
}

/// A test that does not run proves nothing.
pub(crate) fn ignores_no_test(source: &Source) -> Vec<String> {
    let ignored = source.all.windows(3).filter(|window| are(window, &["#", "[", "ignore"]));
    ignored.map(|window| format!("{}:{}: an ignored test", source.path, window[0].line)).collect()
}

/// Errors of the program are types, not texts; fakes are exempt.
pub(crate) fn keeps_errors_typed(source: &Source) -> Vec<String> {
    if !source.path.starts_with("src/") || source.path.contains("/fake/") {
        return Vec::new();
    }
    let starts = (0..source.program.len()).filter(|at| are_at(&source.program, *at, &["Result", "<"]));
    let texts = starts.filter(|at| are(last_argument(&source.program[at + 2..]), &["String"]));
    let complaint = |at: usize| {
        let line = source.program[at].line;
        format!("{}:{line}: a `String` as the error of a `Result`; make it an enum", source.path)
    };
    texts.map(complaint).collect()
}

/// The last of the generic arguments that start at these tokens.
fn last_argument(tokens: &[Token]) -> &[Token] {
    let (mut depth, mut start) = (0, 0);
    for (at, token) in tokens.iter().enumerate() {
        match &*token.text {
            // Not the arrow of a function's type.
            ">" if at > 0 && tokens[at - 1].text == "-" => {}
            ">" if depth == 0 => return &tokens[start..at],
            "<" | "(" | "[" | "{" => depth += 1,
            ">" | ")" | "]" | "}" => depth -= 1,
            "," if depth == 0 && tokens.get(at + 1).is_some_and(|next| next.text != ">") => start = at + 1,
            _ => {}
        }
    }
    &[]
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
    use crate::code::mark_tests;

    fn source(path: &str, text: &str) -> Source {
        Source::new(path, text).unwrap()
    }

    #[test]
    fn an_import_from_above_is_found_however_it_is_written() {
        for text in [
            "use crate::pod::X;",
            "pub use crate::pod;",
            "use crate::{\n    types::{A, B},\n    pod::{C, D},\n};",
            "fn f() { m!(crate::pod::g()); }",
            "type T = Vec<crate::pod::X>;",
            "use super::super::pod::X;",
            "use crate::attic;",
        ] {
            let complaints = respects_levels(&source("src/pleg/task.rs", text));
            assert_eq!(complaints.len(), 1, "{text}: {complaints:?}");
        }
        assert_eq!(respects_levels(&source("src/attic/mod.rs", "")).len(), 1);
        for fine in [
            "use crate::cri::X;\nuse crate::{types::{A, pod}, sys};\nuse crate::pleg::X;\nuse super::pod::X;",
            "// see crate::pod::X\n/// crate::pod\nconst X: &str = \"crate::pod\";",
            "#[cfg(test)]\nmod tests {\n    use crate::pod::X;\n}\nimpl A {\n #[cfg(test)]\n fn f() { crate::pod::g() } }",
            "macro_rules! m { () => { $crate::pod::X } }",
        ] {
            let complaints = respects_levels(&source("src/pleg/task.rs", fine));
            assert!(complaints.is_empty(), "{fine}: {complaints:?}");
        }
    }

    #[test]
    fn a_text_as_an_error_is_found_outside_tests_and_fakes() {
        for text in [
            "fn f() -> Result<(), String> {}",
            "struct S { f: std::result::Result<Vec<fn() -> (u8, u8)>, String> }",
            "type T = io::Result<Result<u8, String>>;",
        ] {
            assert_eq!(keeps_errors_typed(&source("src/a/b.rs", text)).len(), 1, "{text}");
            assert!(keeps_errors_typed(&source("src/a/fake/b.rs", text)).is_empty());
            let test = format!("#[cfg(test)] mod tests {{ {text} }}");
            assert!(keeps_errors_typed(&source("src/a/b.rs", &test)).is_empty());
        }
        for fine in ["type T = Result<String>;\n// Result<(), String>", "type T = Result<Vec<String>, E>;"] {
            let complaints = keeps_errors_typed(&source("src/a/b.rs", fine));
            assert_eq!(complaints, Vec::<String>::new(), "{fine}");
        }
    }

    #[test]
    fn a_long_file_is_found_unless_its_length_is_tests_or_comments() {
        let long = |lines| "fn f() {}\n".repeat(lines);
        assert!(is_short(&source("src/a.rs", &long(MAX_FILE_LINES))).is_empty());
        assert_eq!(is_short(&source("src/a.rs", &long(MAX_FILE_LINES + 1))).len(), 1);
        assert_eq!(is_short(&source("src/a/mod.rs", &long(MAX_MOD_LINES + 1))).len(), 1);
        assert_eq!(is_short(&source("src/main.rs", &long(MAX_MAIN_LINES + 1))).len(), 1);
        let docs = "//! doc\n".repeat(MAX_FILE_LINES + 1);
        let tests = format!("{docs}#[cfg(test)]\nmod tests {{\n{}}}\n", long(MAX_FILE_LINES));
        assert!(is_short(&source("src/a/mod.rs", &tests)).is_empty());
    }

    #[test]
    fn files_declared_for_tests_are_none_of_the_program() {
        let declaration = "#[cfg(test)]\nmod tests;\n#[cfg(any(test, feature = \"fakes\"))]\npub mod fake;\n";
        let paths = ["src/a/tests.rs", "src/a/tests/x.rs", "src/a/testsuite.rs", "src/a/fake.rs"];
        let mut sources = vec![source("src/a/mod.rs", declaration)];
        sources.extend(paths.map(|path| source(path, "fn f() {}")));
        mark_tests(&mut sources);
        let lines: Vec<usize> = sources.iter().map(Source::program_lines).collect();
        assert_eq!(lines, [2, 0, 0, 1, 1]);
    }

    #[test]
    fn an_ignored_test_a_file_without_docs_and_a_path_of_one_machine_are_found() {
        let ignored = "//! Says it.\n#[cfg(test)]\nmod tests {\n    #[ignore = \"slow\"]\n    fn f() {}\n}\n";
        assert_eq!(ignores_no_test(&source("src/a.rs", ignored)), ["src/a.rs:4: an ignored test"]);
        assert!(opens_with_docs(&source("src/a.rs", ignored)).is_empty());
        assert_eq!(opens_with_docs(&source("src/a.rs", "// Says it.\n")).len(), 1);
        let (start, end) = MACHINE_PATHS[0];
        let text = format!("first\ncd {start}{end}x\n");
        assert_eq!(names_no_machine_path("a.sh", &text), ["a.sh:2: a path of somebody's own machine"]);
        for fine in ["/var/lib/kubelet", "$dir/homework/x", "src/home/x", "/workspace/x"] {
            assert!(names_no_machine_path("a.sh", fine).is_empty(), "{fine}");
        }
    }
}
