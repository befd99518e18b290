//! Circles of files: within a crate no file uses a name of another that uses, perhaps through others, one of its own. Whoever wants to
//! understand or change one of them would have to read them all.
//!
//! Follows paths that begin with `crate`, `super`, `self` or a name that the file imports or declares, through re-exports to the file
//! that has the name. A module and those below it are one thing: what they use of each other does not count.

use std::collections::{BTreeMap, BTreeSet};

use crate::code::is_name;
use crate::rules::Source;

type Module = Vec<String>;

/// Files that use each other, from the root of the repository, and what they use of each other.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Circle {
    pub(crate) files: Vec<String>,
    pub(crate) uses: Vec<String>,
}

/// A path in a file, and the name it is imported as, if it is imported.
struct NamedPath {
    path: Vec<String>,
    imported_as: Option<String>,
}

struct File<'s> {
    path: &'s str,
    paths: Vec<NamedPath>,
}

/// The files of a crate's program, by their modules.
struct Crate<'s>(BTreeMap<Module, File<'s>>);

/// The circles in all crates, in the order of their files.
pub(crate) fn circles(sources: &[Source]) -> Vec<Circle> {
    let mut crates: BTreeMap<&str, Crate<'_>> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.code.is_empty()) {
        if let Some((root, rest)) = source.path.split_once("/src/") {
            let file = File { path: &source.path, paths: paths(&source.code) };
            let files = crates.entry(root).or_insert_with(|| Crate(BTreeMap::new()));
            files.0.insert(module(rest), file);
        }
    }
    crates.values().flat_map(Crate::circles).collect()
}

/// The module of a file, from the folder of its crate's sources.
fn module(file: &str) -> Module {
    let mut names: Module = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if matches!(names.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        names.pop();
    }
    names
}

impl Crate<'_> {
    fn circles(&self) -> Vec<Circle> {
        let edges: BTreeMap<&Module, BTreeMap<Module, BTreeSet<String>>> =
            self.0.keys().map(|module| (module, self.uses(module))).collect();
        let reached = |from: &Module| {
            let (mut reached, mut next) = (BTreeSet::new(), vec![from.clone()]);
            while let Some(module) = next.pop() {
                next.extend(edges[&module].keys().filter(|to| reached.insert((*to).clone())).cloned());
            }
            reached
        };
        let reached: BTreeMap<&Module, BTreeSet<Module>> =
            self.0.keys().map(|module| (module, reached(module))).collect();
        let mut circles: Vec<Circle> = Vec::new();
        let mut known: BTreeSet<&Module> = BTreeSet::new();
        for start in self.0.keys() {
            let files: Vec<&Module> = self
                .0
                .keys()
                .filter(|other| reached[start].contains(*other) && reached[other].contains(start))
                .collect();
            if files.is_empty() || !known.insert(start) {
                continue;
            }
            known.extend(&files);
            let uses = files.iter().flat_map(|from| {
                let within = edges[from].iter().filter(|(to, _)| files.contains(to));
                within.map(|(to, names)| {
                    let names = Vec::from_iter(names.iter().map(String::as_str)).join(", ");
                    format!("{} uses {names} of {}", self.0[*from].path, self.0[to].path)
                })
            });
            circles.push(Circle {
                uses: uses.collect(),
                files: files.iter().map(|file| self.0[*file].path.to_owned()).collect(),
            });
        }
        circles
    }

    /// The other modules that have names which `module` uses, and these names.
    fn uses(&self, module: &Module) -> BTreeMap<Module, BTreeSet<String>> {
        let mut uses: BTreeMap<Module, BTreeSet<String>> = BTreeMap::new();
        for named in &self.0[module].paths {
            if let Some((owner, name)) = self.owner(module, &named.path, &mut Vec::new())
                && !owner.starts_with(module)
                && !module.starts_with(&owner)
            {
                uses.entry(owner).or_default().insert(name);
            }
        }
        uses
    }

    /// The module that has what `path` names in `module`, and its name there; `None` if it is of another crate, or unknown. `visited`
    /// has the imports that are being followed.
    fn owner(
        &self,
        module: &Module,
        path: &[String],
        visited: &mut Vec<(Module, String)>,
    ) -> Option<(Module, String)> {
        let mut at = module.clone();
        for (index, name) in path.iter().enumerate() {
            match name.as_str() {
                "crate" => at.clear(),
                "self" => {}
                "super" => drop(at.pop()?),
                _ => {
                    let mut child = at.clone();
                    child.push(name.clone());
                    if self.0.contains_key(&child) {
                        at = child;
                        continue;
                    }
                    let imported =
                        self.0.get(&at)?.paths.iter().find(|named| named.imported_as.as_ref() == Some(name));
                    let Some(import) = imported else {
                        // A path that begins with neither is one of another crate, or of a type.
                        return (index > 0).then(|| (at, name.clone()));
                    };
                    let import_of = (at.clone(), name.clone());
                    if visited.contains(&import_of) {
                        return None;
                    }
                    visited.push(import_of);
                    let whole: Vec<String> = import.path.iter().chain(&path[index + 1..]).cloned().collect();
                    return self.owner(&at, &whole, visited);
                }
            }
        }
        Some((at, "the module".to_owned()))
    }
}

/// All paths of at least two names in this code, with lists in braces taken apart.
fn paths(code: &str) -> Vec<NamedPath> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find("::") {
        let start = rest[..at].rfind(|c| !is_name(c)).map_or(0, |before| before + 1);
        let is_import = rest[..start].trim_end().ends_with("use");
        let mut tree = &rest[start..];
        let first = found.len();
        expand(&mut tree, &[], &mut found);
        for named in &mut found[first..] {
            named.imported_as = named.imported_as.take().filter(|_| is_import);
        }
        // At least the colons are behind.
        let read = rest.len() - tree.len();
        rest = &rest[read.max(at + 2)..];
    }
    found.retain(|named| named.path.len() > 1);
    found
}

/// Reads a path, or a tree of paths, from the start of `text`.
fn expand(text: &mut &str, prefix: &[String], found: &mut Vec<NamedPath>) {
    let mut path = prefix.to_vec();
    loop {
        *text = text.trim_start();
        if let Some(list) = text.strip_prefix('{') {
            *text = list;
            while !text.trim_start().starts_with('}') {
                let before = text.len();
                expand(text, &path, found);
                *text = text.trim_start();
                *text = text.strip_prefix(',').unwrap_or(text);
                if text.len() == before {
                    return;
                }
            }
            *text = &text.trim_start()[1..];
            return;
        }
        let end = text.find(|c| !is_name(c)).unwrap_or(text.len());
        if end == 0 {
            break;
        }
        path.push(text[..end].to_owned());
        *text = &text[end..];
        match text.strip_prefix("::") {
            Some(rest) => *text = rest,
            None => break,
        }
    }
    // `a::{self}` is `a`.
    if path.len() > 1 && path.last().is_some_and(|name| name == "self") {
        path.pop();
    }
    let mut name = path.last().cloned();
    if let Some(alias) = text.trim_start().strip_prefix("as ") {
        let end = alias.find(|c| !is_name(c)).unwrap_or(alias.len());
        name = Some(alias[..end].to_owned());
        *text = &alias[end..];
    }
    if path.len() > prefix.len() || !prefix.is_empty() {
        found.push(NamedPath { path, imported_as: name });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::mark_tests;

    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let mut sources: Vec<Source> =
            files.iter().map(|(path, text)| Source::new(&format!("crates/c/src/{path}"), text)).collect();
        mark_tests(&mut sources);
        let files = |circle: Circle| {
            circle.files.iter().map(|file| file.trim_start_matches("crates/c/src/").to_owned()).collect()
        };
        circles(&sources).into_iter().map(files).collect()
    }

    #[test]
    fn files_that_use_each_other_are_found() {
        let two: &[&[(&str, &str)]] = &[
            &[("a.rs", "use super::b::B;"), ("b.rs", "fn f() -> crate::a::A {}")],
            // Through a list, an alias and a module.
            &[("a.rs", "use crate::{b::{self, B as C}, x};"), ("b.rs", "use super::a; fn f() { a::g() }")],
            // Through a re-export of the parent, and one that is private.
            &[
                ("lib.rs", "mod a; mod b; use b::B; pub(crate) use self::a::A as C;"),
                ("a.rs", "use super::B;"),
                ("b.rs", "use crate::{C};"),
            ],
            // Between rooms.
            &[
                ("x/mod.rs", "mod a; pub use a::A;"),
                ("x/a.rs", "use crate::y::b::B;"),
                ("y/mod.rs", "pub mod b;"),
                ("y/b.rs", "use crate::x::A;"),
            ],
        ];
        for files in two {
            assert_eq!(found(files).len(), 1, "{files:?}");
            assert_eq!(found(files)[0].len(), 2, "{files:?}");
        }
        let three = [
            ("a.rs", "use super::b::B;"),
            ("b.rs", "use super::c::C;"),
            ("c.rs", "use super::a::A;"),
            ("d.rs", "use super::a::A;"),
        ];
        assert_eq!(found(&three), [["a.rs", "b.rs", "c.rs"]]);
    }

    #[test]
    fn what_is_no_circle_is_not_found() {
        let none: &[&[(&str, &str)]] = &[
            &[("a.rs", "use super::b::B;"), ("b.rs", "use super::c::C;"), ("c.rs", "")],
            // A parent and its children.
            &[("x/mod.rs", "mod a; pub use a::A; pub struct X;"), ("x/a.rs", "use super::X;")],
            &[("x.rs", "mod a; use a::A; pub struct X;"), ("x/a.rs", "use crate::x::X;")],
            // Tests, comments and texts.
            &[("a.rs", "use super::b::B;"), ("b.rs", "#[cfg(test)]\nmod tests { use crate::a::A; }")],
            &[
                ("lib.rs", "#[cfg(test)]\nmod b;\n"),
                ("a.rs", "use super::b::B;"),
                ("b.rs", "use super::a::A;"),
            ],
            &[
                ("a.rs", "use super::b::B;"),
                ("b.rs", "//! See crate::a::A.\nconst C: &str = \"crate::a::A\";"),
            ],
            // Another crate's module of the same name, a type's function, a field.
            &[("a.rs", "use super::b::B;"), ("b.rs", "use other::a::A; fn f() { A::new().a }")],
            // Only the file that has the name counts, not those that it is imported through.
            &[("a.rs", "pub use super::b::B;"), ("b.rs", "use super::c::C;"), ("c.rs", "")],
        ];
        for files in none {
            assert_eq!(found(files), Vec::<Vec<String>>::new(), "{files:?}");
        }
    }

    #[test]
    fn a_circle_says_who_uses_what() {
        let sources = [("a", "use super::b::{B, C};"), ("b", "use super::a::A;")]
            .map(|(file, text)| Source::new(&format!("crates/c/src/{file}.rs"), text));
        let uses = circles(&sources).remove(0).uses;
        assert_eq!(
            uses,
            [
                "crates/c/src/a.rs uses B, C of crates/c/src/b.rs",
                "crates/c/src/b.rs uses A of crates/c/src/a.rs",
            ]
        );
    }
}
