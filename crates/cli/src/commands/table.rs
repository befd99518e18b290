//! Formats pods as a table. Pure.

use comfy_table::{ColumnConstraint, ContentArrangement, Table};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};

use hostlet_base::reasons;
use hostlet_observe::status::{READY_TO_START, cause_in, summary};
use hostlet_pod::has_ended;

/// The columns of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// Those that fit a terminal.
    Narrow,
    /// Also UID, reason and message.
    Wide,
}

/// Whether states are colored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Color {
    /// For a terminal.
    On,
    /// For everything else.
    Off,
}

const NARROW: [&str; 8] = ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "QOS"];
/// Spaces between two columns.
const PADDING: u16 = 2;
const WIDE: [&str; 2] = ["UID", "MESSAGE"];

/// The pods, one per line below a heading.
pub(super) fn pods_table(pods: &[&Pod], width: Width, color: Color, now: Timestamp) -> String {
    aligned_pods_table(pods, width, color, now, &mut Vec::new())
}

/// The same with column widths of at least `widths`, so that lines of several tables align below one heading.
pub(super) fn aligned_pods_table(
    pods: &[&Pod],
    width: Width,
    color: Color,
    now: Timestamp,
    widths: &mut Vec<u16>,
) -> String {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    let wide: &[&str] = match width {
        Width::Narrow => &[],
        Width::Wide => &WIDE,
    };
    table.set_header(NARROW.iter().chain(wide));
    for pod in pods {
        let line = summary(pod, now);
        let status = painted(&line.status, color);
        let mut cells =
            vec![line.namespace, line.name, line.ready, status, line.restarts, line.age, line.ip, line.qos];
        match width {
            Width::Narrow => {}
            Width::Wide => {
                cells.push(pod.metadata.uid.clone().unwrap_or_default());
                cells.push(message(pod));
            }
        }
        table.add_row(cells);
    }
    let own = table.column_max_content_widths();
    widths.resize(own.len(), 0);
    for ((column, own), known) in table.column_iter_mut().zip(own).zip(widths) {
        *known = own.max(*known);
        let at_least = comfy_table::Width::Fixed(known.saturating_add(PADDING));
        column.set_padding((0, PADDING)).set_constraint(ColumnConstraint::LowerBoundary(at_least));
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// The pod's message on one line: why it ended or is not running.
pub(super) fn message(pod: &Pod) -> String {
    let Some(status) = &pod.status else { return String::new() };
    let message = status.message.as_deref().or_else(|| waits_for(status)).unwrap_or_default();
    message.replace('\n', " ")
}

/// What the pod's containers wait for: that of the first one with a message, else what the pod waits for as a whole.
fn waits_for(status: &PodStatus) -> Option<&str> {
    if has_ended(status) {
        return None;
    }
    let lists = [&status.init_container_statuses, &status.container_statuses];
    let mut containers = lists.into_iter().flatten().flatten();
    let waiting =
        containers.find_map(|container| container.state.as_ref()?.waiting.as_ref()?.message.as_deref());
    let condition =
        |type_: &str| status.conditions.iter().flatten().find(|condition| condition.type_ == type_);
    let pod = || Some(cause_in(condition(READY_TO_START)?.message.as_deref()?));
    let inits = || condition("Initialized")?.message.as_deref();
    waiting.or_else(pod).or_else(inits)
}

/// What a status means to who looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    /// As it should be.
    Fine,
    /// It will pass.
    Passing,
    /// Somebody should look.
    Bad,
}

impl Tone {
    /// The tone of a pod's status.
    pub(super) fn of(status: &str) -> Self {
        match status {
            "Running" | reasons::COMPLETED | "Succeeded" => Self::Fine,
            "Pending" | "Terminating" => Self::Passing,
            reasons::ADMISSION_DELAYED | reasons::CONTAINER_CREATING | reasons::POD_INITIALIZING => {
                Self::Passing
            }
            _ => Self::Bad,
        }
    }
}

fn painted(status: &str, color: Color) -> String {
    let code = match (color, Tone::of(status)) {
        (Color::Off, _) => return status.to_owned(),
        (Color::On, Tone::Fine) => "32",
        (Color::On, Tone::Passing) => "33",
        (Color::On, Tone::Bad) => "31",
    };
    format!("\u{1b}[{code}m{status}\u{1b}[0m")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, reason: Option<&str>) -> Pod {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": name, "namespace": "default", "uid": "u"},
            "spec": {"containers": [{"name": "c"}]},
            "status": {"phase": "Running", "message": reason, "qosClass": "BestEffort", "podIP": "10.0.0.1"},
        }))
        .unwrap()
    }

    #[test]
    fn tables_below_one_heading_are_aligned() {
        let (long, short) = (pod("a-long-name", None), pod("b", None));
        let mut widths = Vec::new();
        let mut table =
            |pod| aligned_pods_table(&[pod], Width::Narrow, Color::Off, Timestamp::now(), &mut widths);
        let first = table(&long);
        let second = table(&short);
        let column = |text: &str| text.lines().last().map(|line| line.find("0/1"));
        assert_eq!(column(&first), column(&second), "{first}\n{second}");
    }

    #[test]
    fn columns_line_up_and_nothing_trails() {
        let (a, b) = (pod("web", None), pod("a-much-longer-name", Some("first\nsecond")));
        let text = pods_table(&[&a, &b], Width::Narrow, Color::Off, Timestamp::now());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        let column = lines[0].find("READY").unwrap();
        assert!(lines.iter().skip(1).all(|line| line[column..].starts_with("0/1")), "{text}");
        assert!(lines.iter().all(|line| line.trim_end() == *line), "{text}");
        assert!(!text.contains('\u{1b}'));
        let wide = pods_table(&[&b], Width::Wide, Color::Off, Timestamp::now());
        assert!(wide.contains("first second"), "{wide}");
    }

    #[test]
    fn a_message_says_what_a_pod_waits_for() {
        let waiting = |message: Option<&str>| {
            let state = serde_json::json!({"waiting": {"reason": "PodInitializing", "message": message}});
            serde_json::json!([{"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state}])
        };
        let condition = |type_: &str, status: &str, message: &str| serde_json::json!({"type": type_, "status": status, "message": message});
        let inits = condition("Initialized", "False", "containers with incomplete status: [i]");
        let shown = |status: serde_json::Value| {
            let mut pod = pod("web", None);
            pod.status = serde_json::from_value(status).unwrap();
            message(&pod)
        };
        let sandbox = condition(READY_TO_START, "False", "no pod sandbox exists: no volume");
        let status = |phase: &str, main: Option<&str>, conditions: &[&serde_json::Value]| serde_json::json!({"phase": phase, "containerStatuses": waiting(main), "conditions": conditions});
        assert_eq!(shown(status("Pending", Some("no image"), &[&sandbox, &inits])), "no image");
        assert_eq!(shown(status("Pending", None, &[&sandbox, &inits])), "no volume");
        let pulls = condition(READY_TO_START, "True", "pulling image \"a\" for container c");
        assert_eq!(shown(status("Pending", None, &[&pulls])), "pulling image \"a\" for container c");
        assert_eq!(shown(status("Pending", None, &[&inits])), "containers with incomplete status: [i]");
        assert_eq!(shown(status("Failed", None, &[&sandbox])), "");
    }

    #[test]
    fn colors_do_not_shift_columns() {
        let (a, b) = (pod("web", None), pod("x", None));
        let plain = pods_table(&[&a, &b], Width::Narrow, Color::Off, Timestamp::now());
        let colored = pods_table(&[&a, &b], Width::Narrow, Color::On, Timestamp::now());
        assert!(colored.contains("\u{1b}[32mRunning\u{1b}[0m"));
        assert_eq!(colored.replace("\u{1b}[32m", "").replace("\u{1b}[0m", ""), plain);
    }
}
