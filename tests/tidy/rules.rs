//! The rules: plain searches of text, each a function from a source file to complaints `path:line: what is wrong`.

use std::path::Path;

use crate::code;

const MAX_FILE_LINES: usize = 600;
const MAX_MOD_LINES: usize = 60;
const MAX_LIB_LINES: usize = 80;
const MAX_MAIN_LINES: usize = 150;
const MAX_INLINE_TEST_LINES: usize = 100;

/// Beginnings of paths that exist on one person's machine. In two parts, so that this file does not name them.
const MACHINE_PATHS: [(&str, &str); 3] = [("/work", "/"), ("/home", "/"), ("/Users", "/")];

/// Declares a module for tests.
const TESTS: &str = "#[cfg(test)]\n";
/// Opens the module for tests at the end of a file.
const INLINE_TESTS: &str = "#[cfg(test)]\nmod tests {\n";
/// Declares a module for tests of other crates as well.
const FAKES: &str = "#[cfg(any(test, feature = \"fakes\"))]\n";

/// A source file of the repository.
pub(crate) struct Source {
    /// Path from the root of the repository, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
    /// The lines that are compiled into the program, each with its number and without a comment at its end. Tests at the end of
    /// a file and files declared for tests are not.
    pub(crate) program: Vec<(usize, String)>,
    /// The program without comments and the contents of literals. Fakes and helpers that tests of other crates use have none either.
    pub(crate) code: String,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let end = text.find("#[cfg(test)]\nmod tests").unwrap_or(text.len());
        let code = |line: &str| line.split("//").next().unwrap_or_default().trim_end().to_owned();
        let lines = text[..end].lines().zip(1..).map(|(line, number)| (number, code(line)));
        let program = lines.filter(|(_, line)| !line.is_empty()).collect();
        Self { path: path.to_owned(), text: text.to_owned(), program, code: code::blank(&text[..end]) }
    }

    /// Files and folders of the modules that this file declares with this attribute.
    fn modules_with(&self, attribute: &str) -> Vec<String> {
        let path = Path::new(&self.path);
        let folder = match path.file_name().and_then(|name| name.to_str()) {
            Some("mod.rs" | "lib.rs" | "main.rs") => path.parent().unwrap_or(path).to_owned(),
            _ => path.with_extension(""),
        };
        let mut modules = Vec::new();
        for declared in self.text.split(attribute).skip(1) {
            let mut lines = declared.lines().map(str::trim).filter(|line| *line != "#[doc(hidden)]");
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

/// Empties the program of the files that are declared for tests only, and the code of these and of fakes.
pub(crate) fn mark_tests(sources: &mut [Source]) {
    let declared = |attribute: &str| -> Vec<String> {
        sources.iter().flat_map(|source| source.modules_with(attribute)).collect()
    };
    let (tests, fakes) = (declared(TESTS), declared(FAKES));
    for source in sources {
        let is_of = |roots: &[String]| {
            let rest = |root: &String| source.path.strip_prefix(root.as_str()).map(str::to_owned);
            roots.iter().filter_map(rest).any(|rest| rest == ".rs" || rest.starts_with('/'))
        };
        let (is_test, is_fake) = (is_of(&tests), is_of(&fakes));
        if is_test {
            source.program.clear();
        }
        if is_test || is_fake {
            source.code.clear();
        }
    }
}

/// Every file starts with documentation.
pub(crate) fn starts_with_docs(source: &Source) -> Vec<String> {
    let complaint =
        || format!("{}:1: the first line must be a `//!` that says what the file owns", source.path);
    if source.text.starts_with("//! ") { Vec::new() } else { vec![complaint()] }
}

/// A file is easy to read at once, a `mod.rs` is a table of contents, a `lib.rs` that of a crate, `main.rs` is only wiring.
pub(crate) fn is_short(source: &Source) -> Vec<String> {
    let most = match &*source.path {
        "crates/hostlet/src/main.rs" => MAX_MAIN_LINES,
        path if path.ends_with("/mod.rs") => MAX_MOD_LINES,
        path if path.ends_with("/lib.rs") => MAX_LIB_LINES,
        _ => MAX_FILE_LINES,
    };
    let lines = source.program.len();
    let complaint = || format!("{}:1: {lines} lines of code outside tests; at most {most}", source.path);
    if lines <= most { Vec::new() } else { vec![complaint()] }
}

/// Tests below the code are short, so that they do not hide it; longer ones have a file of their own.
pub(crate) fn has_short_inline_tests(source: &Source) -> Vec<String> {
    let Some((code, tests)) = source.text.split_once(INLINE_TESTS) else { return Vec::new() };
    // Without the closing bracket.
    let lines = tests.lines().count().saturating_sub(1);
    if lines <= MAX_INLINE_TEST_LINES {
        return Vec::new();
    }
    let at = code.lines().count() + 1;
    let most = MAX_INLINE_TEST_LINES;
    vec![format!("{}:{at}: {lines} lines of tests; more than {most} go to a `*_tests.rs`", source.path)]
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
    let exempt = source.path.contains("/fake/") || !source.path.starts_with("crates/");
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
        let tests = |lines: usize| format!("//! doc\n{INLINE_TESTS}{}}}\n", long(lines));
        let in_tests =
            format!("{}#[cfg(test)]\nmod tests {{\n{file}}}\n", "//! doc\n".repeat(MAX_FILE_LINES + 1));
        let cases: &[Case<'_>] = &[
            (starts_with_docs, "src/a.rs", &["// Says it.\n", "fn f() {}"], &["//! Says it.\n"]),
            (is_short, "src/a.rs", &[&over], &[&file, &in_tests]),
            (is_short, "src/a/mod.rs", &[&table], &[&in_tests]),
            (
                has_short_inline_tests,
                "src/a.rs",
                &[&tests(MAX_INLINE_TEST_LINES + 1)],
                &[&tests(MAX_INLINE_TEST_LINES), &over],
            ),
            (
                keeps_errors_typed,
                "crates/a/src/b.rs",
                &["fn f() -> Result<(), String> {}", "f: io::Result<Result<Vec<fn() -> (u8, u8)>, String>>,"],
                &["fn f() -> Result<String> {}", "type T = Result<BTreeMap<u8, String>, E>;"],
            ),
            (keeps_errors_typed, "crates/a/src/fake/b.rs", &[], &["fn f() -> Result<(), String> {}"]),
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
