//! The timeline's limits, and how it merges consecutive steps.

use super::*;

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap()
}

fn pod(name: &str) -> PodRef {
    PodRef::new("default", name, &format!("uid-{name}"))
}

fn steps(timeline: &Timeline, name: &str) -> Vec<(TimelineStep, Option<u64>, u32)> {
    let tracks = timeline.tracks(|pod| &*pod.name == name);
    let entries = tracks.iter().flat_map(|track| &track.entries);
    entries.map(|entry| (entry.step, entry.took_ms, entry.times)).collect()
}

fn manifest(seen: i64) -> Pod {
    let mut pod = hostlet_pod::testing::pod("a", "uid-a", "Always", &["c"]);
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(CONFIG_SEEN_ANNOTATION.to_owned(), at(seen).to_string());
    pod
}

#[test]
fn a_step_ends_where_the_next_begins() {
    let (timeline, pod) = (Timeline::default(), pod("a"));
    timeline.admitted(&manifest(0), at(5));
    timeline.admitted(&manifest(0), at(6));
    timeline.step(&pod, &Activity::QueuedStart, at(10));
    timeline.step(&pod, &Activity::MakingSandbox, at(12));
    timeline.mark(&pod, TimelineStep::Network, "10.0.0.1".to_owned(), at(30));
    timeline.step(&pod, &Activity::QueuedStart, at(40));
    timeline.step(&pod, &Activity::StartingContainer { container: "c".to_owned() }, at(90));
    timeline.event(&pod, Some("c"), &PodEvent::normal("Started", "Container started"), at(95));
    timeline.step(&pod, &Activity::Idle, at(100));
    let expected = [
        (TimelineStep::Seen, None, 1),
        (TimelineStep::Admitted, None, 1),
        (TimelineStep::Sandbox, Some(28), 1),
        (TimelineStep::Network, None, 1),
        (TimelineStep::QueuedStart, Some(50), 1),
        (TimelineStep::Start, Some(10), 1),
        (TimelineStep::Running, None, 1),
    ];
    assert_eq!(steps(&timeline, "a"), expected);
}

#[test]
fn a_deadline_is_a_step() {
    let (timeline, pod) = (Timeline::default(), pod("a"));
    timeline.event(&pod, None, &PodEvent::normal("DeadlineExceeded", "Pod was active for too long"), at(5));
    timeline.step(&pod, &Activity::StoppingContainers { grace_seconds: 3 }, at(6));
    assert_eq!(steps(&timeline, "a"), [(TimelineStep::Deadline, None, 1), (TimelineStep::Stop, None, 1)]);
}

#[test]
fn a_pull_has_its_own_end() {
    let (timeline, pod) = (Timeline::default(), pod("a"));
    timeline.step(&pod, &Activity::MakingSandbox, at(0));
    let pull = |owner| ImagePull { owner, image: "img".to_owned() };
    let (c, d) = (pull(ImageOwner::Container("c".to_owned())), pull(ImageOwner::Volume("d".to_owned())));
    timeline.pull_begins(&pod, &c, at(10));
    timeline.pull_begins(&pod, &d, at(20));
    let waits = Activity::PullingImage(c.clone());
    timeline.step(&pod, &waits, at(30));
    timeline.pull_ends(&pod, &c, at(50));
    timeline.step(&pod, &Activity::CreatingContainer { container: "c".to_owned() }, at(60));
    timeline.pull_ends(&pod, &d, at(70));
    timeline.step(&pod, &Activity::Idle, at(80));
    let expected = [
        (TimelineStep::Sandbox, Some(30), 1),
        (TimelineStep::Pull, Some(40), 1),
        (TimelineStep::PullVolume, Some(50), 1),
        (TimelineStep::Create, Some(20), 1),
    ];
    assert_eq!(steps(&timeline, "a"), expected);
    assert_eq!(
        timeline.pulling_time(&pod.uid),
        Duration::from_millis(60),
        "both at the same time count once"
    );
}

#[test]
fn steps_are_measured_over_all_pods() {
    let (timeline, metrics) = (Timeline::default(), Metrics::default());
    timeline.register(&metrics);
    for name in ["a", "b"] {
        timeline.step(&pod(name), &Activity::QueuedStart, at(0));
        timeline.step(&pod(name), &Activity::MakingSandbox, at(1));
        timeline.step(&pod(name), &Activity::BackingOff, at(501));
        timeline.step(&pod(name), &Activity::Idle, at(9000));
    }
    let text = metrics.encode();
    for line in ["_count{step=\"turn\"} 2", "_sum{step=\"sandbox\"} 1.0", "_count{step=\"sandbox\"} 2"] {
        assert!(text.contains(&format!("hostlet_pod_step_duration_seconds{line}\n")), "{line}: {text}");
    }
    assert!(!text.contains("back-off"), "{text}");
}

#[test]
fn a_step_that_repeats_is_one_entry() {
    let (timeline, pod) = (Timeline::default(), pod("a"));
    for second in 0..5 {
        timeline.step(&pod, &Activity::MakingSandbox, at(second * 1000));
        timeline.step(&pod, &Activity::Retrying { error: None }, at(second * 1000 + 7));
    }
    assert_eq!(steps(&timeline, "a"), [(TimelineStep::Sandbox, Some(7), 5)]);
}

#[test]
fn failures_are_recorded_once() {
    let (timeline, pod) = (Timeline::default(), pod("a"));
    timeline.event(&pod, Some("c"), &PodEvent::warning("Failed", "Failed to pull image"), at(0));
    timeline.event(&pod, Some("c"), &PodEvent::warning("Failed", "Error: ErrImagePull"), at(0));
    timeline.event(&pod, Some("c"), &PodEvent::warning("BackOff", "Back-off restarting"), at(0));
    timeline.event(&pod, None, &PodEvent::warning("NetworkNotReady", "no network"), at(0));
    let tracks = timeline.tracks(|_| true);
    let details: Vec<&str> = tracks[0].entries.iter().map(|entry| entry.detail.as_str()).collect();
    assert_eq!(details, ["c: Failed to pull image", "NetworkNotReady: no network"]);
}

#[test]
fn entries_of_a_pod_are_bounded() {
    let (timeline, pod) = (Timeline::default(), pod("a"));
    for n in 0..1000 {
        timeline.mark(&pod, TimelineStep::Ended, format!("c: exit code {n}"), at(n));
    }
    let tracks = timeline.tracks(|_| true);
    assert_eq!(tracks[0].entries.len(), MAX_ENTRIES);
    assert_eq!(tracks[0].entries.back().unwrap().detail, "c: exit code 999");
    // The dropped admission is not recorded again.
    timeline.admitted(&manifest(0), at(2000));
    assert_eq!(timeline.tracks(|_| true)[0].entries.back().unwrap().step, TimelineStep::Ended);
}

#[test]
fn deleted_pods_are_bounded_and_return_with_all_entries() {
    let timeline = Timeline::default();
    for n in 0..MAX_DELETED + 10 {
        timeline.mark(&pod(&format!("p{n}")), TimelineStep::Removed, String::new(), at(0));
        timeline.retain(&HashSet::new());
    }
    assert_eq!(timeline.pods().len(), MAX_DELETED);
    assert!(steps(&timeline, "p9").is_empty());
    assert!(timeline.tracks(|pod| &*pod.name == "p10")[0].is_deleted);
    timeline.step(&pod("p10"), &Activity::MakingSandbox, at(1));
    assert!(!timeline.tracks(|pod| &*pod.name == "p10")[0].is_deleted);
    timeline.mark(&pod("new"), TimelineStep::Removed, String::new(), at(2));
    timeline.retain(&[pod("p10").uid].into());
    assert_eq!(steps(&timeline, "p10").len(), 2);
}

#[test]
fn a_pod_that_is_admitted_after_all_says_so() {
    let timeline = Timeline::default();
    timeline.rejected(&manifest(0), "", at(1));
    timeline.rejected(&manifest(0), "", at(2));
    timeline.admitted(&manifest(0), at(3));
    let expected =
        [(TimelineStep::Seen, None, 1), (TimelineStep::Rejected, None, 1), (TimelineStep::Admitted, None, 1)];
    assert_eq!(steps(&timeline, "a"), expected);
}
