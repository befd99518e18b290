//! What is seen in terminals of several sizes.

use crossterm::event::KeyCode;
use hostlet_serve::server::{PodUsedView, PodsView, UsageView, UsedView};
use jiff::Timestamp;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::{Color as Paint, Modifier};
use serde_json::{Value, json};

use super::args::SortBy;
use super::draw::draw;
use super::keys_tests::{press, refused};
use super::model::Model;
use crate::commands::table::Color;

fn pod(name: &str, status: Value) -> k8s_openapi::api::core::v1::Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "creationTimestamp": "1970-01-01T00:00:00Z"},
        "spec": {"containers": [{"name": "c"}]},
        "status": status,
    }))
    .unwrap()
}

fn container(ready: bool, restarts: i32, state: Value) -> Value {
    json!([{"name": "c", "image": "", "imageID": "", "ready": ready, "restartCount": restarts, "state": state}])
}

fn model(size: (u16, u16)) -> Model {
    let running = |restarts| json!({"phase": "Running", "containerStatuses": container(true, restarts, json!({"running": {}}))});
    let waiting =
        json!({"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image \"nope:1\""}});
    let view = PodsView {
        node: "node1".to_owned(),
        pods: vec![
            pod("web-node1", running(2)),
            pod("database-with-a-long-name-node1", running(0)),
            pod(
                "broken-node1",
                json!({"phase": "Pending", "containerStatuses": container(false, 0, waiting)}),
            ),
        ],
        ..PodsView::default()
    };
    let used = |cpu, memory, limit| UsedView {
        cpu_nano_cores: Some(cpu),
        memory_bytes: Some(memory),
        memory_limit_bytes: limit,
    };
    let of = |uid: &str, used| PodUsedView { uid: uid.to_owned(), used, ..PodUsedView::default() };
    let usage = UsageView {
        cpus: 4,
        node: used(512_000_000, 1 << 30, Some(8 << 30)),
        pods: vec![
            of("web-node1", used(12_000_000, 34 << 20, Some(64 << 20))),
            of("database-with-a-long-name-node1", used(250_000_000, 700 << 20, None)),
        ],
        ..UsageView::default()
    };
    let mut model = Model::new(SortBy::Cpu, size);
    let now = Timestamp::from_second(300).unwrap();
    model.observe(Ok(view), now);
    model.measure(Ok(usage), now);
    model
}

fn drawn(model: &Model, color: Color) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(model.size.0, model.size.1)).unwrap();
    terminal.draw(|frame| draw(model, color, frame.buffer_mut())).unwrap();
    terminal
}

/// The lines of the screen without spaces at their ends.
fn screen(model: &Model) -> String {
    let terminal = drawn(model, Color::Off);
    let buffer = terminal.backend().buffer();
    let line = |line: &[ratatui::buffer::Cell]| line.iter().map(|cell| cell.symbol()).collect::<String>();
    let lines = buffer.content().chunks(usize::from(model.size.0)).map(line);
    lines.map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

#[test]
fn pods_fit_into_eighty_columns() {
    let expected = "\
node1: 3 pods: 2 Running, 1 ImagePullBackOff
CPU 512m of 4 (12.8%)   memory 1024Mi of 8192Mi (12.5%)   by CPU
NAME                             STATUS            RESTARTS   CPU  CPU%  MEMORY
database-with-a-long-name-node1  Running                  0  250m  6.2%   700Mi
web-node1                        Running                  2   12m  0.3%    34Mi
broken-node1                     ImagePullBackOff         0     -     -       -



default/database-with-a-long-name-node1: Running
q quit  ? help  / filter  l logs  e explain  t timeline  v events  x shell";
    assert_eq!(screen(&model((80, 11))), expected);
}

#[test]
fn a_wide_terminal_has_all_columns_and_a_selected_pod_its_cause() {
    let mut model = model((140, 9));
    press(&mut model, &[KeyCode::End]);
    let expected = "\
node1: 3 pods: 2 Running, 1 ImagePullBackOff
CPU 512m of 4 (12.8%)   memory 1024Mi of 8192Mi (12.5%)   by CPU
NAMESPACE  NAME                             READY  STATUS            RESTARTS   CPU  CPU%  MEMORY  LIMIT  AGE  WAITS FOR
default    database-with-a-long-name-node1  1/1    Running                  0  250m  6.2%   700Mi      -   5m
default    web-node1                        1/1    Running                  2   12m  0.3%    34Mi   64Mi   5m
default    broken-node1                     0/1    ImagePullBackOff         0     -     -       -      -   5m  Back-off pulling image \"nope:

default/broken-node1: ImagePullBackOff: Back-off pulling image \"nope:1\"
q quit  ? help  / filter  l logs  e explain  t timeline  v events  x shell";
    assert_eq!(screen(&model), expected);
}

#[test]
fn the_page_of_the_selected_pod_is_shown() {
    let mut model = model((40, 7));
    press(&mut model, &[KeyCode::Down, KeyCode::Down]);
    let text = screen(&model);
    assert!(text.contains("broken-node1") && !text.contains("web-node1"), "{text}");
    assert_eq!(text.lines().last(), Some("q quit  ? help  / filter  l logs"));
}

#[test]
fn a_lost_daemon_is_said_above_what_was_known() {
    let mut model = model((80, 11));
    model.observe(Err(refused("no hostlet answers")), Timestamp::UNIX_EPOCH);
    let text = screen(&model);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[2], "no hostlet answers");
    assert!(lines[4].starts_with("database"), "{text}");
}

#[test]
fn no_size_is_too_small() {
    for size in [(0, 0), (1, 1), (3, 2), (20, 4), (5, 30), (500, 3)] {
        for keys in [&[][..], &[KeyCode::Char('?')], &[KeyCode::Char('/')], &[KeyCode::Char('l')]] {
            let mut model = model(size);
            press(&mut model, keys);
            if let Some(text) = model.text_mut() {
                text.extend(["a line that is longer than the screen".to_owned()]);
            }
            press(&mut model, &[KeyCode::PageUp, KeyCode::PageDown, KeyCode::Down]);
            drawn(&model, Color::On);
        }
    }
}

#[test]
fn texts_and_help_have_the_whole_screen() {
    let mut model = model((50, 5));
    press(&mut model, &[KeyCode::Char('l')]);
    if let Some(text) = model.text_mut() {
        text.extend((1..=9).map(|number| format!("line {number}")));
    }
    let expected = "\
default/database-with-a-long-name-node1: log
line 7
line 8
line 9
q back  arrows PgUp PgDn following";
    assert_eq!(screen(&model), expected);
    press(&mut model, &[KeyCode::Esc, KeyCode::Char('?')]);
    assert!(screen(&model).starts_with("hostlet top: keys\n\n  arrows  select a pod;"), "{}", screen(&model));
}

#[test]
fn colors_are_for_statuses_only_and_the_selection_needs_none() {
    let mut model = model((80, 11));
    press(&mut model, &[KeyCode::End]);
    let paints = |color| {
        let terminal = drawn(&model, color);
        let buffer = terminal.backend().buffer();
        let cell = |line: u16| buffer[(33, line)].clone();
        let of = |line| (cell(line).fg, cell(line).modifier.contains(Modifier::REVERSED));
        (of(3), of(5))
    };
    assert_eq!(paints(Color::On), ((Paint::Green, false), (Paint::Red, true)));
    assert_eq!(paints(Color::Off), ((Paint::Reset, false), (Paint::Reset, true)));
}
