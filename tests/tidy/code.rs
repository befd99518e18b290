//! Source text as the rules need it: without comments and literals, and without its tests. Not a parser: it relies on
//! `cargo fmt` having been there.

/// A source file.
pub(crate) struct Source {
    /// Path from the root of the repository, with `/`.
    pub(crate) path: String,
    /// The text as it is.
    pub(crate) text: String,
    /// The text with comments and the contents of literals blanked out; lines are kept.
    pub(crate) code: String,
    /// Whether the whole file is compiled for tests only.
    pub(crate) test_only: bool,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned(), code: blank(text), test_only: false }
    }

    /// Numbered lines that are compiled into the program: not blank, no comment, no test.
    pub(crate) fn program_lines(&self) -> Vec<(usize, &str)> {
        if self.test_only {
            return Vec::new();
        }
        let lines = without_tests(self.code.lines().collect());
        lines.into_iter().filter(|(_, line)| !line.trim().is_empty()).collect()
    }

    /// Modules that this file declares for tests only: `#[cfg(test)] mod tests;`.
    pub(crate) fn test_modules(&self) -> Vec<String> {
        let lines: Vec<&str> = self.code.lines().collect();
        let after_cfg = (1..lines.len()).filter(|&at| is_test_cfg(lines[at - 1]));
        let declared = after_cfg.filter_map(|at| lines[at].trim().strip_suffix(';')?.split("mod ").nth(1));
        declared.map(str::to_owned).collect()
    }
}

/// Marks the files that some other file declares for tests only, and what lies beneath them.
pub(crate) fn mark_tests(sources: &mut [Source]) {
    let mut roots = Vec::new();
    for source in sources.iter() {
        let folder = module_folder(&source.path);
        roots.extend(source.test_modules().into_iter().map(|module| format!("{folder}/{module}")));
    }
    for source in sources {
        source.test_only = roots.iter().any(|root| {
            source.path.strip_prefix(root.as_str()).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        });
    }
}

/// Where the modules a file declares are.
fn module_folder(path: &str) -> &str {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    match file {
        "mod.rs" | "lib.rs" | "main.rs" => folder,
        _ => path.strip_suffix(".rs").unwrap_or(path),
    }
}

fn is_test_cfg(line: &str) -> bool {
    line.trim() == "#[cfg(test)]"
}

/// Leaves out each item under `#[cfg(test)]`: up to its `;`, or to the `}` as far in as its first line.
fn without_tests(lines: Vec<&str>) -> Vec<(usize, &str)> {
    let mut kept = Vec::new();
    let mut lines = lines.into_iter().enumerate().map(|(index, line)| (index + 1, line));
    while let Some((number, line)) = lines.next() {
        if !is_test_cfg(line) {
            kept.push((number, line));
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let mut open = false;
        for (_, line) in lines.by_ref() {
            let closing = line.strip_prefix(indent).is_some_and(|rest| rest.starts_with('}'));
            if open && closing || !open && line.ends_with(';') {
                break;
            }
            open |= line.ends_with('{');
            if !open && line.ends_with('}') {
                break;
            }
        }
    }
    kept
}

/// Blanks out comments and the contents of string and character literals.
pub(crate) fn blank(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word_before = out.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let (kept, hidden) = if rest.starts_with("//") {
            (0, rest.find('\n').unwrap_or(rest.len()))
        } else if rest.starts_with("/*") {
            (0, block_comment(rest))
        } else if let Some(length) = (!word_before).then(|| raw_string(rest)).flatten() {
            (0, length)
        } else if first == '"' {
            (0, string(rest))
        } else if let Some(length) = character(rest) {
            (0, length)
        } else {
            (first.len_utf8(), 0)
        };
        out.push_str(&rest[..kept]);
        out.extend(rest[kept..kept + hidden].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        rest = &rest[kept + hidden..];
    }
    out.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Length of the block comment that opens `text`; they nest.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        match &text.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] if depth == 1 => return at + 2,
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    text.len()
}

/// Length of the string literal that opens `text`.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Length of the raw string literal that opens `text`, if one does.
fn raw_string(text: &str) -> Option<usize> {
    let after = text.strip_prefix("br").or(text.strip_prefix('r'))?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    after[hashes..].strip_prefix('"')?;
    let start = text.len() - after.len() + hashes + 1;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(text[start..].find(&end).map_or(text.len(), |at| start + at + end.len()))
}

/// Length of the character literal that opens `text`, if one does: a lifetime has no second quote.
fn character(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('\'')?;
    if let Some(escape) = inner.strip_prefix('\\') {
        // The escaped character itself may be a quote.
        return escape.get(1..)?.find('\'').map(|at| at + 4);
    }
    let length = inner.chars().next()?.len_utf8();
    inner[length..].starts_with('\'').then_some(length + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_and_lines_kept() {
        let text = "a // b\n/* c /* d */ e */ f\n\"g \\\" // h\" i\nr#\"j \" k\"# l '\\'' m 'n' o<'p> 'q\n\"r\ns\" t";
        let words: Vec<String> = blank(text).lines().map(|l| l.split_whitespace().collect()).collect();
        assert_eq!(words, ["a", "f", "i", "lmo<'p>'q", "", "t"]);
    }

    #[test]
    fn tests_are_no_program_lines() {
        let text = "//! doc\n\nuse a;\n#[cfg(test)]\nmod tests;\n#[cfg(test)]\n#[allow(x)]\nfn help() {\n    {\n    }\n}\n\
                    fn b() {}\n#[cfg(test)]\nimpl X {}\n#[cfg(test)]\nmod more {\n    c;\n}\nfn d() {}\n";
        let source = Source::new("src/a/mod.rs", text);
        let lines: Vec<&str> = source.program_lines().into_iter().map(|(_, line)| line).collect();
        assert_eq!(lines, ["use a;", "fn b() {}", "fn d() {}"]);
        assert_eq!(source.program_lines()[1].0, 12);
        assert_eq!(source.test_modules(), ["tests"]);
    }

    #[test]
    fn files_declared_for_tests_are_marked_with_all_beneath() {
        let declaration = "#[cfg(test)]\nmod tests;\n#[cfg(any(test, feature = \"fakes\"))]\npub mod fake;\n";
        let paths =
            ["src/a/mod.rs", "src/a/tests.rs", "src/a/tests/x.rs", "src/a/testsuite.rs", "src/a/fake.rs"];
        let mut sources: Vec<Source> = paths.iter().map(|path| Source::new(path, declaration)).collect();
        sources[1..].iter_mut().for_each(|source| *source = Source::new(&source.path, "x();"));
        mark_tests(&mut sources);
        let marked: Vec<bool> = sources.iter().map(|source| source.test_only).collect();
        assert_eq!(marked, [false, true, true, false, false]);
        assert!(sources[1].program_lines().is_empty());
        assert_eq!(module_folder("src/a/b.rs"), "src/a/b");
    }
}
