//! Sources as the rules need them: the tokens of the program and of its tests apart, with their lines. Judges nothing.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::{ParseStream, Parser};
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, Item};

/// A source file.
pub(crate) struct Source {
    /// Path from the root of the repository, with `/`.
    pub(crate) path: String,
    /// The text as it is.
    pub(crate) text: String,
    /// All tokens but documentation, each with its line.
    pub(crate) all: Vec<Token>,
    /// Those that are compiled into the program.
    pub(crate) program: Vec<Token>,
    /// Modules that it declares for tests only: `#[cfg(test)] mod tests;`.
    test_modules: Vec<String>,
}

/// A token: a word, a sign, or one end of a group.
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: usize,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> syn::Result<Self> {
        let mut file = syn::parse_file(text)?;
        let all = tokens(file.to_token_stream());
        let mut tests = WithoutTests::default();
        tests.visit_file_mut(&mut file);
        let program = tokens(file.to_token_stream());
        Ok(Self { path: path.to_owned(), text: text.to_owned(), all, program, test_modules: tests.modules })
    }

    /// How many lines of the program have code on them.
    pub(crate) fn program_lines(&self) -> usize {
        self.program.iter().map(|token| token.line).collect::<BTreeSet<_>>().len()
    }
}

/// Empties the files that some other file declares for tests only, and what lies beneath them.
pub(crate) fn mark_tests(sources: &mut [Source]) {
    let in_folder = |source: &Source| {
        let folder = module_folder(&source.path).to_owned();
        source.test_modules.iter().map(move |module| format!("{folder}/{module}")).collect::<Vec<_>>()
    };
    let roots: Vec<String> = sources.iter().flat_map(in_folder).collect();
    for source in sources {
        let is_beneath = |root: &String| {
            source.path.strip_prefix(root.as_str()).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        };
        if roots.iter().any(is_beneath) {
            source.program.clear();
        }
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

fn tokens(stream: TokenStream) -> Vec<Token> {
    let mut found = Vec::new();
    flatten(stream, &mut found);
    found
}

fn flatten(stream: TokenStream, found: &mut Vec<Token>) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let is_doc = |tree: Option<&TokenTree>| {
        let Some(TokenTree::Group(group)) = tree else { return false };
        matches!(group.stream().into_iter().next(), Some(TokenTree::Ident(name)) if name == "doc")
    };
    let mut at = 0;
    while let Some(tree) = trees.get(at) {
        let mut push = |text: String, line| found.push(Token { text, line });
        match tree {
            // A comment of documentation: `#[doc = …]` or `#![doc = …]`.
            TokenTree::Punct(sign) if sign.as_char() == '#' && is_doc(trees.get(at + 1)) => at += 1,
            TokenTree::Punct(sign) if sign.as_char() == '#' && is_doc(trees.get(at + 2)) => at += 2,
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                push(open.to_owned(), group.span_open().start().line);
                flatten(group.stream(), found);
                found.push(Token { text: close.to_owned(), line: group.span_close().end().line });
            }
            // What is in a literal is no code.
            TokenTree::Literal(literal) => push("\"\"".to_owned(), literal.span().start().line),
            TokenTree::Ident(_) | TokenTree::Punct(_) => push(tree.to_string(), tree.span().start().line),
        }
        at += 1;
    }
}

/// Takes out what is compiled for tests only.
#[derive(Default)]
struct WithoutTests {
    modules: Vec<String>,
}

impl WithoutTests {
    fn keep_items(&mut self, items: &mut Vec<Item>) {
        items.retain(|item| {
            let is_test = is_test(item);
            if let Item::Mod(module) = item
                && is_test
            {
                self.modules.push(module.ident.to_string());
            }
            !is_test
        });
    }
}

impl VisitMut for WithoutTests {
    fn visit_file_mut(&mut self, file: &mut syn::File) {
        self.keep_items(&mut file.items);
        visit_mut::visit_file_mut(self, file);
    }

    fn visit_item_mod_mut(&mut self, module: &mut syn::ItemMod) {
        if let Some((_, items)) = &mut module.content {
            self.keep_items(items);
        }
        visit_mut::visit_item_mod_mut(self, module);
    }

    fn visit_item_impl_mut(&mut self, item: &mut syn::ItemImpl) {
        item.items.retain(|inner| !is_test(inner));
        visit_mut::visit_item_impl_mut(self, item);
    }
}

/// Whether what these tokens begin with is compiled for tests only.
fn is_test(item: &impl ToTokens) -> bool {
    let outer = |input: ParseStream| {
        let attributes = input.call(Attribute::parse_outer)?;
        input.parse::<TokenStream>().map(|_| attributes)
    };
    let attributes = outer.parse2(item.to_token_stream()).unwrap_or_default();
    let mut configured = attributes.iter().filter_map(|attribute| attribute.meta.require_list().ok());
    configured.any(|list| list.path.is_ident("cfg") && list.tokens.to_string() == "test")
}
