//! What keys do to the view.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use hostlet_serve::server::{PodUsedView, PodsView, UsageView, UsedView};
use jiff::Timestamp;
use serde_json::json;

use super::args::SortBy;
use super::keys::Request;
use super::model::{Focus, Model};
use super::shell::Target;
use super::text::{Subject, Topic};
use crate::commands::client::ClientError;

/// Pods of these names that use 1, 2, … thousandths of a core.
pub(super) fn model(names: &[&str], size: (u16, u16)) -> Model {
    let pod = |name: &&str| {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"containers": [{"name": "a"}, {"name": "b"}]},
            "status": {"phase": "Running"},
        }))
        .unwrap()
    };
    let view =
        PodsView { node: "node1".to_owned(), pods: names.iter().map(pod).collect(), ..PodsView::default() };
    let used = |(name, number): (&&str, u64)| PodUsedView {
        uid: (*name).to_owned(),
        used: UsedView { cpu_nano_cores: Some(number * 1_000_000), ..UsedView::default() },
        ..PodUsedView::default()
    };
    let usage =
        UsageView { cpus: 4, pods: names.iter().zip(1..).map(used).collect(), ..UsageView::default() };
    let mut model = Model::new(SortBy::Name, size);
    model.observe(Ok(view), Timestamp::UNIX_EPOCH);
    model.measure(Ok(usage), Timestamp::UNIX_EPOCH);
    model
}

/// Presses keys; returns what the last one requested.
pub(super) fn press(model: &mut Model, keys: &[KeyCode]) -> Option<Request> {
    keys.iter().map(|key| model.press(KeyEvent::new(*key, KeyModifiers::NONE))).last().flatten()
}

fn letters(text: &str) -> Vec<KeyCode> {
    text.chars().map(KeyCode::Char).collect()
}

/// What the daemon says instead of an answer.
pub(super) fn refused(why: &str) -> ClientError {
    ClientError::Refused(why.to_owned())
}

fn selected(model: &Model) -> &str {
    model.selected().map_or("", |row| &row.name)
}

#[test]
fn the_selection_stays_with_its_pod() {
    let mut model = model(&["a", "b", "c"], (80, 24));
    assert_eq!(selected(&model), "a");
    press(&mut model, &[KeyCode::Down]);
    assert_eq!(selected(&model), "b");
    press(&mut model, &letters("c"));
    let order: Vec<&str> = model.listed().iter().map(|row| row.name.as_str()).collect();
    assert_eq!((order, selected(&model)), (vec!["c", "b", "a"], "b"));
    press(&mut model, &[KeyCode::Char('G'), KeyCode::Down]);
    assert_eq!(selected(&model), "a");
    press(&mut model, &[KeyCode::PageUp]);
    assert_eq!(selected(&model), "c");
    // It is gone.
    model.observe(Ok(PodsView::default()), Timestamp::UNIX_EPOCH);
    assert_eq!(press(&mut model, &letters("jl")), None);
}

#[test]
fn the_first_pod_stays_selected_when_others_use_more() {
    let (names, mut model) = (["a", "b", "c"], model(&["a", "b", "c"], (80, 24)));
    model.sort_by = SortBy::Cpu;
    let measured = |used: [u64; 3], is_known: bool| {
        let used_by = |(name, cpu): (&str, u64)| PodUsedView {
            uid: name.to_owned(),
            used: UsedView { cpu_nano_cores: Some(cpu), ..UsedView::default() },
            ..PodUsedView::default()
        };
        let node = UsedView { cpu_nano_cores: is_known.then_some(9), ..UsedView::default() };
        Ok(UsageView {
            node,
            pods: names.into_iter().zip(used).map(used_by).collect(),
            ..UsageView::default()
        })
    };
    // The first order is by name, because nothing is known.
    model.measure(measured([1, 2, 3], false), Timestamp::UNIX_EPOCH);
    assert_eq!(selected(&model), "c");
    model.measure(measured([2, 3, 1], true), Timestamp::UNIX_EPOCH);
    assert_eq!(selected(&model), "b");
    model.measure(measured([3, 2, 1], true), Timestamp::UNIX_EPOCH);
    assert_eq!(selected(&model), "b");
    press(&mut model, &letters("n"));
    assert_eq!(selected(&model), "b");
}

#[test]
fn a_filter_is_typed_and_cleared() {
    let mut model = model(&["web", "db", "qweb"], (80, 24));
    let listed =
        |model: &Model| model.listed().iter().map(|row| row.name.clone()).collect::<Vec<_>>().join(" ");
    assert_eq!(press(&mut model, &letters("/qwx")), None);
    assert_eq!(listed(&model), "");
    press(&mut model, &[KeyCode::Backspace]);
    assert_eq!((listed(&model), selected(&model)), ("qweb".to_owned(), "qweb"));
    press(&mut model, &[KeyCode::Enter, KeyCode::Char('c')]);
    assert_eq!((model.sort_by, &*model.filter), (SortBy::Cpu, "qw"));
    press(&mut model, &[KeyCode::Esc]);
    assert_eq!(listed(&model), "qweb db web");
    press(&mut model, &[KeyCode::Char('/'), KeyCode::Char('d'), KeyCode::Esc]);
    assert_eq!((model.focus.clone(), &*model.filter), (Focus::List, ""));
}

#[test]
fn texts_are_of_the_selected_pod_and_containers_take_turns() {
    let mut model = model(&["web"], (80, 24));
    let subject = |topic, containers: &[&str]| {
        let containers = containers.iter().map(|&name| name.to_owned()).collect();
        Some(Request::Fetch(Subject { topic, pod: "default/web".to_owned(), containers }))
    };
    assert_eq!(press(&mut model, &letters("l")), subject(Topic::Log, &["a", "b"]));
    assert_eq!(press(&mut model, &[KeyCode::Tab]), subject(Topic::Log, &["b", "a"]));
    assert!(matches!(model.focus, Focus::Text(_)));
    assert_eq!(press(&mut model, &letters("q")), None);
    assert_eq!(press(&mut model, &[KeyCode::Enter]), subject(Topic::Explanation, &[]));
    assert_eq!(
        press(&mut model, &[KeyCode::Tab, KeyCode::Esc, KeyCode::Char('t')]),
        subject(Topic::Timeline, &[])
    );
    assert_eq!(press(&mut model, &[KeyCode::Backspace, KeyCode::Char('v')]), subject(Topic::Events, &[]));
}

#[test]
fn a_shell_is_for_the_first_container() {
    let mut model = model(&["web"], (80, 24));
    let target = Target { pod: "default/web".to_owned(), container: "a".to_owned() };
    assert_eq!(press(&mut model, &letters("x")), Some(Request::Shell(target)));
    model.observe(Ok(PodsView::default()), Timestamp::UNIX_EPOCH);
    assert_eq!(press(&mut model, &letters("x")), None);
}

#[test]
fn every_place_is_left_with_control_c_and_the_list_with_q() {
    let mut model = model(&["web"], (80, 24));
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    for keys in ["", "?", "/", "l"] {
        press(&mut model, &letters(keys));
        assert_eq!(model.press(interrupt), Some(Request::Quit), "{keys}");
        press(&mut model, &[KeyCode::Esc]);
    }
    assert_eq!(press(&mut model, &letters("?q")), None);
    assert_eq!(press(&mut model, &letters("q")), Some(Request::Quit));
    let other = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::CONTROL);
    assert_eq!(model.press(other), None);
}

#[test]
fn what_is_not_known_is_said_until_it_is_again() {
    let mut model = model(&["web"], (80, 24));
    model.measure(Err(refused("not measured")), Timestamp::UNIX_EPOCH);
    assert_eq!((model.trouble(), model.usage()), (Some("not measured"), None));
    model.observe(Err(refused("gone")), Timestamp::UNIX_EPOCH);
    assert_eq!(model.trouble(), Some("gone"));
    // The last known pods are still there.
    assert_eq!(selected(&model), "web");
    model.observe(Ok(PodsView::default()), Timestamp::UNIX_EPOCH);
    model.measure(Ok(UsageView::default()), Timestamp::UNIX_EPOCH);
    assert_eq!(model.trouble(), None);
}
