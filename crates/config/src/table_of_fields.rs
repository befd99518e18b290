//! A test that the table of fields in `docs/configuration.md` equals the one generated from `served.rs`.

use std::fmt::Write;
use std::path::Path;

use super::served::{FIELDS, Support};

const BEGIN: &str = "<!-- generated: begin -->\n";
const END: &str = "<!-- generated: end -->\n";

fn table() -> String {
    let mut text = "| field | | |\n|---|---|---|\n".to_owned();
    for (path, support) in FIELDS {
        let (word, why) = match support {
            Support::Served => ("served", ""),
            Support::Ignored(why) => ("ignored", *why),
            Support::Rejected(why) => ("**rejected**", *why),
        };
        writeln!(text, "| `{path}` | {word} | {why} |").unwrap();
    }
    text
}

#[test]
fn the_documented_fields_are_those_of_the_code() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (documented, after) = rest.split_once(END).unwrap();
    if std::env::var_os("HOSTLET_WRITE_DOCS").is_some() {
        std::fs::write(&page, format!("{before}{BEGIN}{}{END}{after}", table())).unwrap();
        return;
    }
    let command = "HOSTLET_WRITE_DOCS=1 cargo test -p hostlet-config table_of_fields";
    assert!(documented == table(), "docs/configuration.md is not up to date; run: {command}");
}
