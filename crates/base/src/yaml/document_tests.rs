//! Parsing of documents.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Document, parse_documents, parse_leniently};

fn one(text: &str) -> Document {
    let mut documents = parse_documents(text).unwrap();
    assert_eq!(documents.len(), 1, "{text}");
    documents.remove(0)
}

fn errors(text: &str) -> Vec<(usize, usize, String)> {
    let errors = parse_documents(text).unwrap_err();
    errors.into_iter().map(|error| (error.line, error.column, error.message)).collect()
}

#[test]
fn fields_know_their_lines() {
    let document = one("# head\nport: 1\nauth:\n  x509: {ca: a}\nlist:\n- a: 1\n\n- b:\n    c: 2\n");
    assert_eq!(
        document.value,
        json!({"port": 1, "auth": {"x509": {"ca": "a"}}, "list": [{"a": 1}, {"b": {"c": 2}}]})
    );
    for (path, line) in [
        ("", 2),
        ("port", 2),
        ("auth", 3),
        ("auth.x509", 4),
        ("auth.x509.ca", 4),
        ("list", 5),
        ("list[0]", 6),
        ("list[1].b", 8),
        ("list[1].b.c", 9),
        // A missing field has the line of its parent.
        ("list[1].b.d", 8),
        ("auth.x509.key.size", 4),
        ("nothing", 2),
    ] {
        assert_eq!(document.lines.line(path), Some(line), "{path}");
    }
}

#[test]
fn json_is_parsed_too() {
    let document = one("{\n\t\"a\": [1, -2.5, null],\n\t\"b\": {\"c\": \"yes\\n\\u00e9\\/\"}\n}\n");
    assert_eq!(document.value, json!({"a": [1, -2.5, null], "b": {"c": "yes\né/"}}));
    assert_eq!(document.lines.line("b.c"), Some(3));
}

#[test]
fn quoted_scalars_stay_text() {
    let document = one("a: \"1\"\nb: 'true'\nc: |\n  2\nd: !!str 3\ne: 4\n");
    assert_eq!(document.value, json!({"a": "1", "b": "true", "c": "2\n", "d": "3", "e": 4}));
}

#[test]
fn lines_are_counted_across_documents() {
    let documents = parse_documents("a: 1\n---\nb: 2\n---\n").unwrap();
    let values: Vec<&Value> = documents.iter().map(|document| &document.value).collect();
    assert_eq!(values, [&json!({"a": 1}), &json!({"b": 2}), &Value::Null]);
    assert_eq!(documents[1].lines.line("b"), Some(3));
    assert_eq!(documents[1].lines.line("a"), Some(3));
}

#[test]
fn a_text_without_content_has_no_documents() {
    assert_eq!(parse_documents(""), Ok(Vec::new()));
    assert_eq!(parse_documents("# only a comment\n"), Ok(Vec::new()));
}

#[test]
fn every_duplicate_field_is_reported() {
    assert_eq!(
        errors("a: 1\nb:\n  c: 1\n  d: 2\n  c: {x: 1}\na: [3]\n"),
        [
            (5, 3, "duplicate field \"b.c\", first set on line 3".to_owned()),
            (6, 1, "duplicate field \"a\", first set on line 1".to_owned()),
        ]
    );
}

#[test]
fn a_syntax_error_is_reported_with_its_position() {
    let found = errors("a: 1\nb: [1, 2\nc: 3\n");
    assert_eq!(found.len(), 1);
    assert!(found[0].0 >= 2, "{found:?}");
    assert!(!found[0].2.is_empty());
    assert_eq!(errors("a: {b: 1").len(), 1);
    assert_eq!(errors("a:\n\t- 1").len(), 1);
}

#[test]
fn values_without_a_json_equivalent_are_rejected() {
    assert_eq!(errors("a: .inf")[0].2, ".inf is not supported; write a finite number");
    let no_name = "the name of a field must be text, a number or a boolean";
    assert_eq!(errors("? [a, b]\n: 1\n")[0].2, no_name);
    assert_eq!(errors("~: 1\n")[0].2, no_name);
    assert_eq!(errors("a: !!int b")[0].2, "\"b\" is not what the tag !!int says");
    assert_eq!(errors("a: !!binary b")[0].2, "\"b\" is not what the tag !!binary says");
    assert_eq!(errors("a: *b")[0].0, 1);
}

/// What sigs.k8s.io/yaml 1.6.0 makes of these texts.
#[test]
fn tags_are_read_as_in_kubernetes() {
    for (text, value) in [
        ("!!binary aGVsbG8=", json!("hello")),
        ("!!timestamp 2001-12-14", json!("2001-12-14")),
        ("!<tag:yaml.org,2002:int> \"5\"", json!(5)),
        ("!secret 5", json!("5")),
        ("! 5", json!("5")),
        ("!!set {a: 1}", json!({"a": 1})),
        ("!secret [1]", json!([1])),
        ("{!!str 5: a, !local 6: b, !!binary YQ==: c}", json!({"5": "a", "6": "b", "a": "c"})),
        ("{!!merge <<: {a: 1}}", json!({"a": 1})),
        ("{!!merge \"<<\": {a: 1}}", json!({"a": 1})),
        ("{!!merge x: {a: 1}}", json!({"x": {"a": 1}})),
        ("{!!str <<: {a: 1}}", json!({"<<": {"a": 1}})),
    ] {
        assert_eq!(one(&format!("v: {text}\n")).value["v"], value, "{text}");
    }
    assert_eq!(errors("v: !m!x 5").len(), 1, "a prefix that is not declared");
}

#[test]
fn aliases_are_expanded() {
    let document = one("a: &x {k: [1]}\nb: *x\nc: [*x, 2]\n");
    assert_eq!(document.value, json!({"a": {"k": [1]}, "b": {"k": [1]}, "c": [{"k": [1]}, 2]}));
    assert_eq!(document.lines.line("b.k"), Some(2));
    assert_eq!(document.lines.line("c[0].k"), Some(3));
    assert_eq!(errors("a: &x [*x]")[0].2, "an alias cannot be inside the value of its anchor");
}

#[test]
fn names_of_fields_are_resolved_like_values() {
    let document = one("labels: {yes: a, 1: b, 1.5: c, 010: d, 1e3: e, 2024-01-01: f, \"on\": g}");
    assert_eq!(
        document.value["labels"],
        json!({"true": "a", "1": "b", "1.5": "c", "8": "d", "1000": "e", "2024-01-01": "f", "on": "g"})
    );
    assert_eq!(document.lines.line("labels.8"), Some(1));
    assert_eq!(errors("&x a: 1\nb: *x\n*x : 2\n")[0].2, "duplicate field \"a\", first set on line 1");
    assert_eq!(one("x: &x 5\n*x : a\n").value, json!({"x": 5, "5": "a"}));
}

/// What sigs.k8s.io/yaml 1.6.0 makes of these texts.
#[test]
fn merge_keys_are_resolved_as_in_kubernetes() {
    for (text, value) in [
        ("<<: *x\na: 2", json!({"a": 2})),
        ("a: 2\n<<: *x", json!({"a": 1})),
        ("<<: [*x, *z]", json!({"a": 1, "b": 4})),
        ("<<: *x\n<<: *z", json!({"a": 3, "b": 4})),
        ("<<: {a: 1}\nb: 2", json!({"a": 1, "b": 2})),
        ("<<: {<<: {a: 1}}", json!({"a": 1})),
        ("<<: [*x, {c: 5, a: 6}]", json!({"a": 1, "c": 5})),
        ("\"<<\": *x", json!({"<<": {"a": 1}})),
        ("- <<", json!(["<<"])),
    ] {
        let indented = text.replace('\n', "\n  ");
        let document = one(&format!("x: &x {{a: 1}}\nz: &z {{a: 3, b: 4}}\nv:\n  {indented}\n"));
        assert_eq!(document.value["v"], value, "{text}");
    }
    for text in ["<<: 5", "<<: null", "<<: [{a: 1}, 5]", "<<: [[{a: 1}]]", "x: &x [{a: 1}]\n<<: *x"] {
        assert_eq!(errors(text)[0].2, "only objects and lists of objects can be merged with <<", "{text}");
    }
}

#[test]
fn merged_fields_have_the_line_of_their_merge_key() {
    let document = one("x: &x\n  a: {b: 1}\nv:\n  c: 1\n  <<: *x\n");
    assert_eq!(document.lines.own_line("v.a"), Some(5));
    assert_eq!(document.lines.line("v.a.b"), Some(5));
    // A field that is set beside the merge key is set once.
    assert_eq!(errors("<<: {a: 1}\na: 2\na: 3\n")[0].2, "duplicate field \"a\", first set on line 2");
    assert_eq!(errors("a: 2\n<<: {a: 1}\na: 3\n").len(), 1);
}

#[test]
fn duplicate_fields_may_be_tolerated() {
    let documents = parse_leniently("a: 1\nb: {c: 1, c: 2}\na: 3\n---\nd: 1\n").unwrap();
    assert_eq!(documents[0].value, json!({"a": 3, "b": {"c": 2}}));
    let lines: Vec<usize> = documents[0].duplicates.iter().map(|duplicate| duplicate.line).collect();
    assert_eq!(lines, [2, 3]);
    assert_eq!(documents[1].duplicates, []);
    let with_error = parse_leniently("a: 1\na: 2\nb: .inf\n").unwrap_err();
    assert_eq!(with_error.len(), 2, "all errors at once");
}

#[test]
fn small_texts_cannot_expand_to_huge_values() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..20 {
        let below = format!("*a{}", level - 1);
        bomb += &format!("a{level}: &a{level} [{}]\n", vec![below; 10].join(", "));
    }
    assert_eq!(errors(&bomb)[0].2, "the text has more than 100000 values");
    let mut bomb = "a0: &a0 {f: 1, g: 1}\n".to_owned();
    for level in 1..20 {
        let below = level - 1;
        bomb += &format!("a{level}: &a{level} {{x{level}: *a{below}, y{level}: *a{below}, <<: *a{below}}}\n");
    }
    assert_eq!(errors(&bomb)[0].2, "the text has more than 100000 values");

    assert!(parse_documents(&format!("{}{}", "[".repeat(100), "]".repeat(100))).is_ok());
    let message = "the values are nested more than 100 deep";
    assert_eq!(errors(&format!("{}{}", "[".repeat(101), "]".repeat(101)))[0].2, message);
    let nested =
        format!("a: &a {}{}\nb: {}*a{}\n", "[".repeat(60), "]".repeat(60), "[".repeat(60), "]".repeat(60));
    assert_eq!(errors(&nested)[0].2, message);
}

#[test]
fn long_texts_cannot_be_multiplied() {
    let message = "the text has more than 32 MiB with its aliases and paths written out";
    let long = "x".repeat(1 << 20);
    let aliases = format!("a: &a {long}\nb: [{}]\n", vec!["*a"; 1000].join(", "));
    assert_eq!(errors(&aliases)[0].2, message);
    let paths = format!("? {long}\n: [{}]\n", vec!["1"; 1000].join(", "));
    assert_eq!(errors(&paths)[0].2, message);
    let fields: String = (0..1000).map(|n| format!("f{n}: 1, ")).collect();
    let merges = format!("a: &a {{{fields}}}\n? {long}\n: {{<<: *a}}\n");
    assert_eq!(errors(&merges)[0].2, message);
    let anchors: String = (0..90).map(|n| format!("&a{n} [")).collect();
    assert_eq!(errors(&format!("{anchors}{long}{}", "]".repeat(90)))[0].2, message);
    assert!(parse_documents(&format!("a: &a {long}\nb: [*a, *a]\n? {long}\n: [1, 2]\n")).is_ok());
}

#[test]
fn the_number_and_length_of_errors_is_limited() {
    assert_eq!(errors(&"a: 1\n".repeat(10_000)).len(), 100);
    assert!(errors(&format!("[{}]", "*a,".repeat(10_000))).len() <= 100);
    let long = "x".repeat(1 << 20);
    let duplicate = errors(&format!("? {long}\n: 1\n? {long}\n: 1\n"));
    assert!(duplicate[0].2.len() < 600, "{}", duplicate[0].2.len());
    assert!(errors("\"a\\nb\": 1\n\"a\\nb\": 1\n").iter().all(|error| !error.2.contains('\n')));
}

/// Texts similar enough to YAML to get far into the parser.
fn yamlish() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("a: "),
        Just("b:\n"),
        Just("- "),
        Just("  "),
        Just("\n"),
        Just("{"),
        Just("}"),
        Just("["),
        Just("]"),
        Just(","),
        Just("&x "),
        Just("*x"),
        Just("? "),
        Just("!!str "),
        Just("|\n"),
        Just("\""),
        Just("'"),
        Just("---\n"),
        Just("#c"),
        Just("\t"),
        Just("<<: "),
        Just("<<: *x\n"),
        Just("? *x\n: "),
        Just("1e3: "),
        Just("!!int "),
        Just("!!binary "),
        Just("!!merge <<: "),
        Just("!x "),
        Just("%YAML 1.2\n"),
        Just("é"),
        Just("0x"),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[ -~]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map("[ -~]{1,8}", inner, 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_text_panics(text in prop_oneof![any::<String>(), yamlish()]) {
        if let Err(errors) = parse_documents(&text) {
            prop_assert!(!errors.is_empty());
        }
    }

    #[test]
    fn json_parses_back(value in json_value(), pretty: bool) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let documents = parse_documents(&text).unwrap();
        prop_assert_eq!(&documents[0].value, &value);
    }

    #[test]
    fn yaml_parses_back(value in json_value()) {
        let text = serde_saphyr::to_string(&value).unwrap();
        let documents = parse_documents(&text).unwrap();
        prop_assert_eq!(&documents[0].value, &value, "{}", text);
    }
}
