//! The rules: plain searches of text, each a function from a source file to complaints `path:line: what is wrong`.

use std::path::Path;

/// Rooms of the library, lowest level first. A room imports only rooms of lower levels, so there is no cycle.
const LEVELS: [&[&str]; 14] = [
    &["types"],
    &["sys", "telemetry", "yaml"],
    &["config", "spdy", "tls"],
    &["cgroup", "cri", "http", "store"],
    &["api", "image", "log", "objects", "pleg", "pod", "streaming"],
    &["api_objects", "api_pods", "gate", "node", "stats", "volume"],
    &["cri_config", "plugin", "status"],
    &["dra", "ownership", "probe", "source"],
    &["admission", "worker"],
    &["lifecycle", "publish"],
    &["container_logs", "eviction", "explain", "housekeeping", "shutdown"],
    &["doctor", "kubelet_api", "purge", "server", "supervisor"],
    &["cli"],
    &["app"],
];

const MAX_FILE_LINES: usize = 600;
const MAX_MOD_LINES: usize = 60;
const MAX_MAIN_LINES: usize = 150;

/// Beginnings of paths that exist on one person's machine. In two parts, so that this file does not name them.
const MACHINE_PATHS: [(&str, &str); 3] = [("/work", "/"), ("/home", "/"), ("/Users", "/")];

/// A source file of the repository.
pub(crate) struct Source {
    /// Path from the root of the repository, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
    /// The lines that are compiled into the program, each with its number and without a comment at its end. Tests at the end of
    /// a file and files declared for tests are not.
    pub(crate) program: Vec<(usize, String)>,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let end = text.find("#[cfg(test)]\nmod tests").unwrap_or(text.len());
        let code = |line: &str| line.split("//").next().unwrap_or_default().trim_end().to_owned();
        let lines = text[..end].lines().zip(1..).map(|(line, number)| (number, code(line)));
        let program = lines.filter(|(_, line)| !line.is_empty()).collect();
        Self { path: path.to_owned(), text: text.to_owned(), program }
    }

    /// Files and folders of the modules that this file declares for tests only.
    fn test_modules(&self) -> Vec<String> {
        let path = Path::new(&self.path);
        let folder = match path.file_name().and_then(|name| name.to_str()) {
            Some("mod.rs" | "lib.rs" | "main.rs") => path.parent().unwrap_or(path).to_owned(),
            _ => path.with_extension(""),
        };
        let mut modules = Vec::new();
        for declared in self.text.split("#[cfg(test)]\n").skip(1) {
            let mut lines = declared.lines().map(str::trim);
            let first = lines.next().unwrap_or_default();
            if let Some(file) = first.strip_prefix("#[path = \"").and_then(|rest| rest.strip_suffix("\"]")) {
                modules.push(path.with_file_name(file).with_extension("").display().to_string());
            } else if let Some((_, name)) = first.strip_suffix(';').and_then(|line| line.split_once("mod ")) {
                modules.push(folder.join(name).display().to_string());
            }
        }
        modules
    }
}

/// Empties the program of the files that are declared for tests only.
pub(crate) fn mark_tests(sources: &mut [Source]) {
    let roots: Vec<String> = sources.iter().flat_map(Source::test_modules).collect();
    for source in sources {
        let rest = |root: &String| source.path.strip_prefix(root.as_str()).map(str::to_owned);
        if roots.iter().filter_map(rest).any(|rest| rest == ".rs" || rest.starts_with('/')) {
            source.program.clear();
        }
    }
}

/// Every file starts with documentation.
pub(crate) fn starts_with_docs(source: &Source) -> Vec<String> {
    let complaint =
        || format!("{}:1: the first line must be a `//!` that says what the file owns", source.path);
    if source.text.starts_with("//! ") { Vec::new() } else { vec![complaint()] }
}

/// A room imports only from itself and from rooms of lower levels.
pub(crate) fn respects_levels(source: &Source) -> Vec<String> {
    let level = |room: &str| LEVELS.iter().position(|rooms| rooms.contains(&room));
    let Some((own, _)) = source.path.strip_prefix("src/").and_then(|path| path.split_once('/')) else {
        return Vec::new();
    };
    let module = source.path.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
    // From here it is the crate's root, by another name.
    let root = "super::".repeat(module.split('/').count());
    let mut complaints = Vec::new();
    for (number, line) in &source.program {
        let by_name = line.split("crate::").skip(1).filter(|_| !line.contains("$crate::"));
        for imported in by_name.chain(line.split(&root).skip(1)) {
            let name =
                imported.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
            // Items of the crate's root are no rooms; a list could hide one.
            let is_room = name.is_empty() || name.starts_with(|c: char| c.is_ascii_lowercase());
            let is_lower = level(name).is_some() && level(name) < level(own);
            if is_room && name != own && !is_lower {
                complaints.push(format!("{}:{number}: `{own}` must not import `{name}`", source.path));
            }
        }
    }
    complaints
}

/// A file is easy to read at once, a `mod.rs` is a table of contents, `main.rs` is only wiring.
pub(crate) fn is_short(source: &Source) -> Vec<String> {
    let most = match &*source.path {
        "src/main.rs" => MAX_MAIN_LINES,
        path if path.ends_with("/mod.rs") => MAX_MOD_LINES,
        _ => MAX_FILE_LINES,
    };
    let lines = source.program.len();
    let complaint = || format!("{}:1: {lines} lines of code outside tests; at most {most}", source.path);
    if lines <= most { Vec::new() } else { vec![complaint()] }
}

/// Errors are types, not texts, except in fakes.
pub(crate) fn keeps_errors_typed(source: &Source) -> Vec<String> {
    let is_text = |(_, line): &&(usize, String)| {
        line.match_indices(", String>").any(|(end, _)| {
            // Back to the bracket that encloses this argument.
            let mut depth = 1;
            let is_opening = |(_, c): &(usize, char)| {
                depth += i32::from(*c == '>') - i32::from(*c == '<');
                depth == 0
            };
            let start = line[..end].replace("->", "  ").char_indices().rev().find(is_opening);
            start.is_some_and(|(at, _)| line[..at].ends_with("Result"))
        })
    };
    let exempt = source.path.contains("/fake/") || !source.path.starts_with("src/");
    let texts = source.program.iter().filter(is_text).filter(|_| !exempt);
    texts
        .map(|(number, _)| format!("{}:{number}: a `String` as an error; make it an enum", source.path))
        .collect()
}

/// No file names a path of the machine it was written on.
pub(crate) fn names_no_machine_path(path: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        for (start, end) in MACHINE_PATHS {
            // A path of its own, not the middle of another one.
            let is_start = |(at, _): (usize, &str)| {
                !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-}/".contains(c))
            };
            if line.match_indices(&format!("{start}{end}")).any(is_start) {
                complaints.push(format!("{path}:{number}: a path of somebody's own machine"));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rule, the path of a file, texts that break the rule once, and texts that keep it.
    type Case<'c> = (fn(&Source) -> Vec<String>, &'c str, &'c [&'c str], &'c [&'c str]);

    #[test]
    fn each_rule_finds_what_breaks_it_and_nothing_else() {
        let long = |lines: usize| "fn f() {}\n".repeat(lines);
        let (file, over, table) = (long(MAX_FILE_LINES), long(MAX_FILE_LINES + 1), long(MAX_MOD_LINES + 1));
        let in_tests =
            format!("{}#[cfg(test)]\nmod tests {{\n{file}}}\n", "//! doc\n".repeat(MAX_FILE_LINES + 1));
        let cases: &[Case<'_>] = &[
            (starts_with_docs, "src/a.rs", &["// Says it.\n", "fn f() {}"], &["//! Says it.\n"]),
            (is_short, "src/a.rs", &[&over], &[&file, &in_tests]),
            (is_short, "src/a/mod.rs", &[&table], &[&in_tests]),
            (
                respects_levels,
                "src/pleg/task.rs",
                &[
                    "use crate::pod::X;",
                    "pub use crate::pod;",
                    "use crate::{\n    types::A,\n};",
                    "type T = Vec<crate::pod::X>;",
                    "use crate::attic;",
                    "use super::super::pod::X;",
                    "use super::super::{pod, types};",
                ],
                &[
                    "use crate::cri::X;\nuse crate::pleg::X;\nuse super::pod::X;\nuse crate::PROC;",
                    "use super::super::cri::X;\nuse super::super::pleg::X;",
                    "// see crate::pod::X\n/// crate::pod\nuse crate::sys::X; // not crate::pod",
                    "#[cfg(test)]\nmod tests {\n    use crate::pod::X;\n}\n",
                    "macro_rules! m { () => { $crate::pod::X } }",
                ],
            ),
            (respects_levels, "src/pleg/mod.rs", &["use super::pod::X;"], &["use super::cri::X;"]),
            (
                respects_levels,
                "src/pleg/a/b.rs",
                &["super::super::super::pod::f();"],
                &["super::super::pod::f();"],
            ),
            (
                keeps_errors_typed,
                "src/a/b.rs",
                &["fn f() -> Result<(), String> {}", "f: io::Result<Result<Vec<fn() -> (u8, u8)>, String>>,"],
                &["fn f() -> Result<String> {}", "type T = Result<BTreeMap<u8, String>, E>;"],
            ),
            (keeps_errors_typed, "src/a/fake/b.rs", &[], &["fn f() -> Result<(), String> {}"]),
        ];
        for (rule, path, wrong, right) in cases {
            for (texts, expected) in [(wrong, 1), (right, 0)] {
                for text in *texts {
                    let complaints = rule(&Source::new(path, text));
                    assert_eq!(complaints.len(), expected, "{path}: {text:.80}: {complaints:?}");
                }
            }
        }
    }

    #[test]
    fn files_declared_for_tests_are_not_part_of_the_program() {
        let declarations =
            "#[cfg(test)]\nmod tests;\n#[cfg(test)]\n#[path = \"b_tests.rs\"]\nmod tests;\npub mod fake;\n";
        let paths =
            ["src/a/tests.rs", "src/a/tests/x.rs", "src/a/b_tests.rs", "src/a/testsuite.rs", "src/a/fake.rs"];
        let mut sources = vec![Source::new("src/a/mod.rs", declarations)];
        sources.extend(paths.map(|path| Source::new(path, "fn f() {}")));
        mark_tests(&mut sources);
        let lines: Vec<usize> = sources.iter().skip(1).map(|source| source.program.len()).collect();
        assert_eq!(lines, [0, 0, 0, 1, 1]);
    }

    #[test]
    fn a_path_of_one_machine_is_found() {
        let (start, end) = MACHINE_PATHS[0];
        let text = format!("first\ncd {start}{end}x\n");
        assert_eq!(names_no_machine_path("a.sh", &text), ["a.sh:2: a path of somebody's own machine"]);
        for fine in ["/var/lib/kubelet", "$dir/homework/x", "src/home/x", "/workspace/x"] {
            assert!(names_no_machine_path("a.sh", fine).is_empty(), "{fine}");
        }
    }
}
