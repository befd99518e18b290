//! One test per state of a pod, with its explanation. All known messages of runtimes are in `walk_tests.rs`.

use std::path::PathBuf;
use std::time::Duration;

use hostlet_base::CONFIG_SOURCE_ANNOTATION;
use hostlet_base::node::Pressure;
use hostlet_observe::status::{Activity, ImageOwner, ImagePull};
use hostlet_pod::{FailingProbe, ProbeKind, testing};
use k8s_openapi::api::core::v1::Probe;
use serde_json::{Value, json};

use super::testing::{Facts, at, problem};
use super::{
    Disposition, HungCall, NodeProblem, PodName, PullSoFar, Verdict, matches_pod_name, nearest_names,
    not_read_yet, unknown,
};

/// The pull of an image for this container.
fn pull(container: &str, image: &str) -> ImagePull {
    ImagePull { owner: ImageOwner::Container(container.to_owned()), image: image.to_owned() }
}

const RUNNING: &str = r#"{"running": {"startedAt": "1970-01-01T00:15:00Z"}}"#;

fn running() -> Value {
    serde_json::from_str(RUNNING).unwrap()
}

#[test]
fn a_running_pod_is_fine() {
    let fine = Facts::new().container(running(), json!({}), 0);
    let explanation = fine.says(Verdict::Fine, "The pod runs: its container is up for 100s", "");
    assert_eq!((explanation.since, explanation.also.len()), (Some(at(900)), 0));
    let ended = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
    let explanation = Facts::new().container(running(), ended, 2).says(Verdict::Fine, "The pod runs", "");
    assert!(
        explanation.also[0].starts_with("There were 2 restarts, the last one after container c was killed"),
        "{explanation:?}"
    );
}

#[test]
fn a_resize_that_waits_or_fails_is_told() {
    for (type_, reason, sentence) in [
        (
            "PodResizePending",
            "Deferred",
            "The pod runs with its earlier resources, because the requested ones are not free: why",
        ),
        (
            "PodResizePending",
            "Infeasible",
            "The pod runs with its earlier resources, because this node cannot resize it: why",
        ),
        ("PodResizeInProgress", "Error", "The pod cannot be given its new resources: why"),
    ] {
        let mut facts = Facts::new().container(running(), json!({}), 0);
        let condition = json!([{
            "type": type_, "status": "True", "reason": reason, "message": "why",
            "lastTransitionTime": "1970-01-01T00:16:00Z"
        }]);
        facts.status.as_mut().unwrap().conditions = serde_json::from_value(condition).unwrap();
        let explanation = facts.says(Verdict::Wrong, sentence, "");
        assert_eq!(explanation.since, Some(at(960)));
        let crashed =
            json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting"}});
        facts = facts.container(crashed, json!({"terminated": {"exitCode": 1, "reason": "Error"}}), 1);
        let condition = json!([{"type": type_, "status": "True", "reason": reason, "message": "why"}]);
        facts.status.as_mut().unwrap().conditions = serde_json::from_value(condition).unwrap();
        let other = facts.says(Verdict::Wrong, "Container c", "");
        assert!(other.also.contains(&format!("{sentence}.")), "{other:?}");
    }
}

/// A running container with all probes; `status` is that of the container.
fn probed(started: bool, ready: bool, failing: Option<(ProbeKind, &str)>) -> Facts {
    let mut facts = Facts::new().status(json!({"phase": "Running", "containerStatuses": [{
        "name": "c", "image": "img", "imageID": "", "ready": ready, "started": started, "restartCount": 0,
        "containerID": "containerd://c-0", "state": running(),
    }]}));
    let container = &mut facts.pod.spec.as_mut().unwrap().containers[0];
    container.startup_probe = Some(Probe::default());
    container.readiness_probe = Some(Probe::default());
    facts.failing_probes.extend(failing.map(|(kind, answer)| FailingProbe {
        container: "c".to_owned(),
        id: "c-0".into(),
        kind,
        answer: answer.to_owned(),
        since: at(950),
    }));
    facts
}

#[test]
fn a_probe_is_named_with_its_last_answer() {
    probed(true, true, None).says(Verdict::Fine, "The pod runs", "");
    let waits = "Container c has not started yet: its startup probe has not succeeded";
    probed(false, false, None).says(Verdict::UnderWay, waits, "");
    let waits = "Container c is not ready yet: its readiness probe has not succeeded";
    probed(true, false, None).says(Verdict::UnderWay, waits, "");
    let text = "HTTP probe failed with statuscode: 503";
    let fails = |kind, started, ready, verdict, sentence: &str, remedy: &str| {
        let explanation = probed(started, ready, Some((kind, text))).says(verdict, sentence, remedy);
        assert!(explanation.sentence.ends_with(text), "{explanation:?}");
        assert_eq!(explanation.since, Some(at(950)));
    };
    let (wrong, under_way) = (Verdict::Wrong, Verdict::UnderWay);
    fails(
        ProbeKind::Startup,
        false,
        false,
        under_way,
        "Container c has not started yet",
        "hostlet logs web-n",
    );
    fails(
        ProbeKind::Readiness,
        true,
        false,
        wrong,
        "Container c is not ready: its readiness probe",
        "readinessProbe",
    );
    fails(
        ProbeKind::Readiness,
        true,
        true,
        wrong,
        "Container c is about to become unready",
        "readinessProbe",
    );
    fails(
        ProbeKind::Liveness,
        true,
        true,
        wrong,
        "is restarted if its liveness probe keeps",
        "livenessProbe",
    );
    let mut other = probed(true, true, Some((ProbeKind::Readiness, text)));
    other.failing_probes[0].id = "c-9".into();
    other.says(Verdict::Fine, "The pod runs", "");
}

/// A pod with the init container `setup` and the sidecar `proxy`, with these states.
fn initializing(setup: Value, proxy: Value, started: bool) -> Facts {
    let mut facts = Facts::new();
    let spec = facts.pod.spec.as_mut().unwrap();
    let inits = json!([{"name": "setup"}, {"name": "proxy", "restartPolicy": "Always"}]);
    spec.init_containers = serde_json::from_value(inits).unwrap();
    let status = |name: &str, state: Value, started: bool, last: Value| {
        json!({"name": name, "image": "img", "imageID": "", "ready": false, "started": started, "restartCount": 1,
            "state": state, "lastState": last})
    };
    let ended = json!({"terminated": {"exitCode": 3}});
    let waiting = json!({"waiting": {"reason": "PodInitializing"}});
    facts.status(json!({
        "phase": "Pending",
        "initContainerStatuses": [status("setup", setup, false, ended), status("proxy", proxy, started, json!({}))],
        "containerStatuses": [status("c", waiting, false, json!({}))],
    }))
}

#[test]
fn an_initializing_pod_names_the_container_it_waits_for() {
    let waiting = || json!({"waiting": {"reason": "PodInitializing"}});
    let done = || json!({"terminated": {"exitCode": 0}});
    initializing(running(), waiting(), false).says(
        Verdict::UnderWay,
        "The pod is initializing: init container setup (1 of 2) has run for 100s",
        "hostlet logs web-n -c setup",
    );
    initializing(done(), running(), false).says(
        Verdict::UnderWay,
        "Sidecar container proxy (2 of 2) has run for 100s, and its startup probe has not succeeded yet",
        "wait; the containers after it start once its startup probe has succeeded",
    );
    let back_off = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}});
    let crashing = initializing(back_off, waiting(), false);
    crashing.says(
        Verdict::Wrong,
        "Init container setup ended with exit code 3",
        "hostlet logs web-n -c setup --previous",
    );
    let mut failed = initializing(json!({"terminated": {"exitCode": 3}}), waiting(), false);
    failed.status.as_mut().unwrap().phase = Some("Failed".to_owned());
    failed.pod.spec.as_mut().unwrap().restart_policy = Some("Never".to_owned());
    failed.says(
        Verdict::Wrong,
        "Init container setup ended with exit code 3; restartPolicy Never does not restart it",
        "",
    );
}

#[test]
fn hooks_are_explained() {
    let activity = Activity::PostStartHook { container: "c".to_owned() };
    let waiting = || json!({"waiting": {"reason": "ContainerCreating"}});
    Facts::new().container(waiting(), json!({}), 0).doing(activity).says(
        Verdict::UnderWay,
        "The pod is being started: the postStart hook of container c runs",
        "",
    );
    Facts::new().waiting("PostStartHookError", "Exec lifecycle hook failed").says(
        Verdict::Wrong,
        "Container c was stopped, because its postStart hook failed: Exec lifecycle hook failed",
        "correct lifecycle.postStart in the manifest",
    );
}

#[test]
fn a_broken_manifest_counts_even_while_the_pod_runs() {
    let mut facts = Facts::new().container(running(), json!({}), 0);
    facts.problem = Some(problem("/m/web.yaml", Some("default/web-n")));
    let explanation = facts.says(
        Verdict::Wrong,
        "/m/web.yaml: line 3: spec.x: Required value line 4: y",
        "correct the fields that the message names; the manifest is read again",
    );
    assert_eq!(explanation.since, Some(at(900)));
    let mut facts = Facts::new().container(running(), json!({}), 0);
    facts.problem = Some(problem("/m/copy.yaml", Some("default/web-n")));
    let fine = facts.says(Verdict::Fine, "The pod runs", "");
    assert!(
        fine.also[0].starts_with("The manifest /m/copy.yaml also defines this pod, and is not used"),
        "{fine:?}"
    );
    let mut facts = Facts::new().crashed(json!({"exitCode": 1}));
    facts.problem = Some(problem("/m/web.yaml", None));
    assert!(facts.says(Verdict::Wrong, "exit code 1", "").also[0].contains("/m/web.yaml is broken"));
}

#[test]
fn an_eviction_explains_its_pod() {
    let message = "Usage of EmptyDir volume \"data\" exceeds the limit \"1Mi\". ";
    let evicted = json!({"phase": "Failed", "reason": "Evicted", "message": message});
    let mut facts = Facts::new().status(evicted.clone());
    facts.terminating_since = Some(at(990));
    let stopping = Activity::StoppingContainers { grace_seconds: 1 };
    let why =
        "is being stopped: it was evicted: Usage of EmptyDir volume \"data\" exceeds the limit \"1Mi\"; ";
    facts.doing(stopping).says(Verdict::UnderWay, why, "wait");
    Facts::new().status(evicted.clone()).says(Verdict::Wrong, "exceeds the limit", "emptyDir.sizeLimit");
    // Its sandbox is gone.
    let mut ended = evicted;
    ended["conditions"] = json!([{
        "type": "PodReadyToStartContainers", "status": "False", "reason": "PodSandboxNotReady", "message": "pod sandbox is not ready",
    }]);
    Facts::new().status(ended).says(Verdict::Wrong, "exceeds the limit", "emptyDir.sizeLimit");
}

#[test]
fn a_shutdown_of_the_node_explains_its_pods() {
    let mut facts = Facts::new().container(running(), json!({}), 0);
    facts.shutdown = Some(at(980));
    let fine = facts.says(Verdict::Fine, "The pod runs", "");
    assert!(fine.also[0].contains("node is shutting down"), "{fine:?}");
    facts.terminating_since = Some(at(990));
    let stopping = Activity::StoppingContainers { grace_seconds: 20 };
    facts.doing(stopping).says(Verdict::UnderWay, "is being stopped: the node is shutting down", "wait");
    let ended = json!({"phase": "Failed", "reason": "Terminated", "message": "imminent node shutdown"});
    let mut facts = Facts::new().status(ended);
    facts.says(Verdict::Wrong, "imminent node shutdown", "it starts again with the host");
    let annotations = facts.pod.metadata.annotations.get_or_insert_default();
    annotations.insert(CONFIG_SOURCE_ANNOTATION.to_owned(), "api".to_owned());
    facts.says(Verdict::Wrong, "imminent node shutdown", "its controller replaces it");
}

#[test]
fn a_crash_loop_shows_exit_code_last_output_and_next_restart() {
    let ended = json!({"exitCode": 3, "reason": "Error", "message": "no such\ntable", "finishedAt": "1970-01-01T00:16:00Z"});
    let facts = Facts::new().crashed(ended).doing(Activity::BackingOff).retry(1020).next_work(1060);
    let explanation = facts.says(
        Verdict::Wrong,
        "Container c ended with exit code 3, and said last: \"no such table\"; restarted 3 times so far",
        "hostlet logs web-n --previous",
    );
    assert_eq!((explanation.since, explanation.next), (Some(at(960)), Some(at(1020))));
}

#[test]
fn control_characters_of_programs_and_runtimes_are_removed() {
    let explanation = Facts::new().waiting("CreateContainerError", "no\n\u{1b}[2J users found").explained();
    assert!(explanation.sentence.contains("no \\u{1b}[2J users found"), "{explanation:?}");
}

#[test]
fn the_remedy_names_the_logs_of_the_right_container() {
    let mut facts = Facts::new().crashed(json!({"exitCode": 1}));
    facts.pod = testing::pod("web-n", "u", "Always", &["a", "c"]);
    facts.says(Verdict::Wrong, "Container c", "hostlet logs web-n -c c --previous");
}

#[test]
fn a_failed_pull_shows_the_registrys_error() {
    let back_off = "Back-off pulling image \"img\": ErrImagePull: rpc error: code = Unknown desc = dial tcp: no such host";
    let facts = Facts::new().waiting("ImagePullBackOff", back_off).retry(1100).next_work(1012);
    let sentence = "The image img of container c cannot be pulled, because the name of its registry cannot be \
    resolved: dial tcp: \
         no such host";
    assert_eq!(facts.says(Verdict::Wrong, sentence, "DNS").next, Some(at(1100)));
    let facts = Facts::new().waiting("ErrImagePull", "img:9: not found").next_work(1012);
    assert_eq!(
        facts.says(Verdict::Wrong, "its registry does not have it", "name and tag").next,
        Some(at(1012))
    );
}

#[test]
fn a_container_may_wait_for_the_image_of_a_volume() {
    let with_volume = |mut facts: Facts| {
        let spec = facts.pod.spec.as_mut().unwrap();
        spec.volumes =
            serde_json::from_value(json!([{"name": "v", "image": {"reference": "img/model:1"}}])).unwrap();
        spec.containers[0].volume_mounts =
            serde_json::from_value(json!([{"name": "v", "mountPath": "/v"}])).unwrap();
        facts
    };
    let facts = with_volume(Facts::new().waiting("ErrImagePull", "\"docker.io/img/model:1\": not found"));
    let pulling = Activity::PullingImage(ImagePull {
        owner: ImageOwner::Volume("v".to_owned()),
        image: "img/model:1".to_owned(),
    });
    let explanation = facts.says(
        Verdict::Wrong,
        "The image img/model:1 of volume v, which container c mounts, cannot be pulled, because its registry does not have it",
        "check the name and tag in spec.volumes[].image.reference",
    );
    assert_eq!(explanation.step.as_deref(), Some("image (ErrImagePull)"));
    let again = facts.doing(pulling.clone()).explained();
    assert_eq!(again.step.as_deref(), Some("pulling the image img/model:1 once more"));
    let own =
        with_volume(Facts::new().waiting("ErrImagePull", "\"docker.io/library/img:latest\": not found"));
    own.says(Verdict::Wrong, "The image img of container c cannot be pulled", "spec.containers[].image");
    let first = with_volume(Facts::new().waiting("ContainerCreating", "")).doing(pulling);
    first.says(Verdict::UnderWay, "the image img/model:1 is being pulled for volume v", "");
    let old = "volume \"v\" is an image: containerd 1.6.20 does not support it; update it to 2.1 or newer";
    let old = with_volume(Facts::new().waiting("CreateContainerConfigError", old));
    old.says(Verdict::Wrong, "this version of containerd does not mount images", "update containerd");
}

#[test]
fn the_remedy_without_a_registry_is_the_preload_directory() {
    let mut facts = Facts::new().waiting("ErrImageNeverPull", "x");
    let sentence = "imagePullPolicy Never forbids";
    facts.says(Verdict::Wrong, sentence, "set imagePreloadDir in the configuration");
    facts.preload_dir = Some(PathBuf::from("/images"));
    let explanation = facts.says(
        Verdict::Wrong,
        sentence,
        "put an archive with the image (docker save, skopeo copy) into /images",
    );
    assert!(!explanation.remedy.unwrap().contains("ctr "));
    facts.archives = vec![("/images/x.tar.zst".to_owned(), "is compressed with zstd".to_owned())];
    let pull = facts.waiting("ErrImagePull", "not found");
    assert_eq!(pull.explained().also, ["The image archive /images/x.tar.zst is compressed with zstd."]);
    pull.says(Verdict::Wrong, "does not have it", "or put an archive with the image");
}

#[test]
fn a_pull_that_is_being_retried_says_so() {
    let pulling = Activity::PullingImage(pull("c", "img"));
    let explanation = Facts::new().waiting("ErrImagePull", "not found").doing(pulling.clone()).explained();
    assert_eq!(
        (explanation.step.as_deref(), explanation.next),
        (Some("pulling the image img once more"), None)
    );
    let first = Facts::new().waiting("ContainerCreating", "").doing(pulling);
    let explanation = first.says(Verdict::UnderWay, "the image img is being pulled for container c", "");
    assert_eq!(explanation.since, Some(at(990)));
}

#[test]
fn a_pull_shows_its_duration_and_progress() {
    let pulling = Activity::PullingImage(pull("c", "img"));
    let mut facts = Facts::new().waiting("ContainerCreating", "").doing(pulling);
    let pull =
        |bytes, pulls, waits_for_turn| Some(PullSoFar { since: at(970), waits_for_turn, bytes, pulls });
    for (pull, expected) in [
        (pull(None, 1, false), "The pull has taken 30s so far."),
        (pull(Some(34_500_000), 1, false), "The pull has taken 30s so far, and 34.5MB have arrived."),
        (pull(Some(34_500_000), 3, false), "together with what the other 2 pulls brought."),
        (pull(None, 2, true), "The pull has waited 30s in the queue"),
    ] {
        facts.pull = pull;
        let explanation = facts.says(Verdict::UnderWay, "the image img is being pulled", "");
        assert!(explanation.also[0].contains(expected), "{explanation:?}");
    }
    facts = facts.waiting("ErrImagePull", "not found");
    assert!(facts.explained().also[0].contains("has waited 30s"));
}

#[test]
fn a_pull_beside_another_step_is_told() {
    let mut facts = Facts::new().no_sandbox("No sandbox for pod can be found").doing(Activity::MakingSandbox);
    facts.doing.pulling = [pull("c", "img"), pull("d", "other")].into();
    let explanation = facts.says(Verdict::UnderWay, "its sandbox and network are being created", "");
    let beside = ["img is being pulled for container c.", "other is being pulled for container d."];
    assert_eq!(explanation.also, beside.map(|text| format!("Meanwhile the image {text}")));
    // The one that the pod waits for is in the sentence.
    let pulling = Activity::PullingImage(pull("c", "img"));
    let facts = facts.waiting("ContainerCreating", "").doing(pulling);
    let explanation = facts.says(Verdict::UnderWay, "the image img is being pulled for container c", "");
    assert_eq!(explanation.also, ["Meanwhile the image other is being pulled for container d."]);
}

#[test]
fn a_pod_without_a_sandbox_says_why() {
    let network = "network is not ready: NetworkReady=false reason:X message:no CNI configuration";
    let facts = Facts::new().no_sandbox(network).next_work(1001);
    assert_eq!(
        facts.says(Verdict::Wrong, "waits for the node's pod network", "/etc/cni/net.d").next,
        Some(at(1001))
    );
    let fresh = "No sandbox for pod can be found. Need to start a new one";
    Facts::new().no_sandbox(fresh).says(Verdict::UnderWay, "The pod is being started", "");
    let waits = Facts::new().no_sandbox(fresh).doing(Activity::QueuedStart);
    assert_eq!(waits.says(Verdict::UnderWay, "waits behind starts of other pods", "").since, Some(at(990)));
    let volume =
        "MountVolume.SetUp failed for volume \"v\" : hostPath type check failed: /x is not a directory";
    let facts = Facts::new().no_sandbox(fresh).retrying(volume).next_work(1011);
    let explanation = facts.says(
        Verdict::Wrong,
        "a hostPath volume requires a directory that does not exist on this host",
        "mkdir",
    );
    assert_eq!(
        (explanation.next, explanation.step.as_deref()),
        (Some(at(1011)), Some("setting up the volumes"))
    );
}

#[test]
fn a_terminating_pod_shows_what_still_runs_and_the_time_left() {
    let mut facts = Facts::new()
        .container(running(), json!({}), 0)
        .doing(Activity::StoppingContainers { grace_seconds: 30 });
    facts.disposition = Disposition::Removed;
    facts.terminating_since = Some(at(989));
    facts.running = vec!["c".to_owned()];
    let explanation = facts.says(Verdict::UnderWay, "container c still runs, with 20 s left", "SIGTERM");
    assert_eq!((explanation.since, explanation.next), (Some(at(989)), Some(at(1020))));
    let stuck = facts.retrying("error killing pod: stop_container: no answer within 32s").next_work(1010);
    let explanation = stuck.says(
        Verdict::Wrong,
        "cannot be stopped, because the container runtime takes too long",
        "journalctl",
    );
    assert_eq!(explanation.next, Some(at(1010)));
}

#[test]
fn a_successor_waits_for_its_predecessor() {
    let mut facts = Facts::new();
    facts.disposition = Disposition::WaitingForPredecessor;
    facts.says(
        Verdict::UnderWay,
        "until the earlier pod of the same name has terminated",
        "terminationGracePeriodSeconds",
    );
}

#[test]
fn without_a_runtime_nothing_starts_and_the_state_may_be_outdated() {
    let mut facts = Facts::new();
    facts.says(Verdict::UnderWay, "was admitted", "");
    facts.node_problem = Some(NodeProblem::Runtime("the container runtime has not answered yet".to_owned()));
    facts.says(
        Verdict::Wrong,
        "hostlet cannot act on the pod: the container runtime has not answered",
        "systemctl start",
    );
    let away = "the container runtime has not answered for a moment: list_containers: not implemented by this container runtime";
    facts.node_problem = Some(NodeProblem::Runtime(away.to_owned()));
    let failed = facts.no_sandbox("Failed to create pod sandbox: x");
    let explanation = failed.says(Verdict::Wrong, "hostlet cannot act", "disabled_plugins");
    assert!(
        explanation.also[0].contains("Before that: The pod's sandbox cannot be created: x."),
        "{explanation:?}"
    );
    let mut undecided = Facts::new();
    undecided.disposition = Disposition::Undecided(Some("the plugin of v.com/gpu is away".to_owned()));
    undecided.says(
        Verdict::UnderWay,
        "only one pod may use: the plugin of v.com/gpu is away",
        "hostlet devices",
    );
    undecided.disposition = Disposition::Undecided(None);
    undecided.says(
        Verdict::UnderWay,
        "not decided yet whether the pod may run",
        "once the container runtime",
    );
    undecided.node_problem = failed.node_problem.clone();
    let explanation = undecided.says(Verdict::Wrong, "hostlet cannot act", "disabled_plugins");
    assert_eq!(explanation.also, [""; 0], "nothing was before");
    let fine = failed.container(running(), json!({}), 0).says(Verdict::Fine, "The pod runs", "");
    assert!(fine.also[0].contains("the last observed state"), "{fine:?}");
}

#[test]
fn a_call_that_hangs_is_named() {
    let mut facts = Facts::new().container(running(), json!({}), 0);
    let mut hung = HungCall {
        call: "stop_container".to_owned(),
        subject: "container 1".to_owned(),
        took: Duration::from_secs(200),
        is_of_node: false,
    };
    facts.hung = Some(hung.clone());
    let sentence = "not answered for 3m20s: stop_container on container 1";
    let explanation = facts.says(Verdict::Wrong, sentence, "journalctl");
    assert_eq!(explanation.since, Some(at(800)));
    hung.is_of_node = true;
    facts.hung = Some(hung.clone());
    let fine = facts.says(Verdict::Fine, "The pod runs", "");
    assert!(fine.also[0].contains(sentence), "{fine:?}");
    let mut starting = Facts::new();
    starting.hung = Some(hung);
    starting.says(Verdict::Wrong, sentence, "journalctl");
}

#[test]
fn terminated_pods_are_explained_by_their_exit_codes() {
    let ended = |phase: &str, code: i32| {
        let mut facts = Facts::new().container(json!({"terminated": {"exitCode": code}}), json!({}), 0);
        facts.pod = testing::pod("web-n", "u", "Never", &["c"]);
        facts.status.as_mut().unwrap().phase = Some(phase.to_owned());
        facts
    };
    ended("Succeeded", 0).says(Verdict::Completed, "run to its end, with exit code 0", "");
    ended("Failed", 2).says(Verdict::Wrong, "exit code 2; restartPolicy Never", "hostlet logs web-n");
    let evicted = json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory"});
    Facts::new().status(evicted).says(Verdict::Wrong, "The node was low on memory", "again");
}

#[test]
fn an_eviction_or_a_rejection_says_what_the_node_is_short_of_now() {
    let evicted = |message: &str| {
        let mut facts =
            Facts::new().status(json!({"phase": "Failed", "reason": "Evicted", "message": message}));
        facts.pressure = [Pressure::Disk].into();
        facts
    };
    let is_named = |facts: &Facts| facts.explained().also.iter().any(|also| also.contains("DiskPressure"));
    let mut by_node = evicted("The node was low on resource: ephemeral-storage. ");
    by_node.says(Verdict::Wrong, "low on resource: ephemeral-storage", "evicted last");
    assert!(is_named(&by_node));
    by_node.pressure = [].into();
    assert_eq!(by_node.explained().also, ["The node is not under pressure any more."]);
    // Its own limit is the cause.
    let by_limit = evicted("Usage of EmptyDir volume \"v\" exceeds the limit \"1Mi\". ");
    by_limit.says(Verdict::Wrong, "exceeds the limit", "have it write less");
    assert!(!is_named(&by_limit));
    let mut rejected = evicted("Pod was rejected: The node had condition: [DiskPressure]. ");
    rejected.disposition = Disposition::Rejected;
    rejected.says(Verdict::Wrong, "condition: [DiskPressure]", "free what the node is short of");
    assert!(is_named(&rejected));
}

#[test]
fn names_match_with_and_without_node_and_namespace() {
    let pod = PodName { namespace: "default", name: "web-n" };
    for query in ["web", "web-n", "default/web", "default/web-n"] {
        assert!(matches_pod_name(query, pod, "n"), "{query}");
    }
    for query in ["we", "other/web", "web-", "n", ""] {
        assert!(!matches_pod_name(query, pod, "n"), "{query}");
    }
    let known = [pod, PodName { namespace: "default", name: "database-n" }];
    assert_eq!(nearest_names("wbe", &known, "n"), ["web-n"]);
    assert_eq!(nearest_names("default/databse", &known, "n"), ["database-n"]);
    assert!(nearest_names("xyz", &known, "n").is_empty());
}

#[test]
fn nobody_knows_a_pod_before_the_manifests_are_read() {
    let away = "the container runtime has not answered for a moment: the container runtime does not answer at /run/c.sock";
    let explanation = not_read_yet("web", Some(&NodeProblem::Runtime(away.to_owned())));
    assert_eq!((explanation.pod.as_str(), explanation.verdict), ("web", Verdict::Wrong));
    assert!(explanation.sentence.ends_with(away), "{explanation:?}");
    assert!(explanation.remedy.is_some_and(|remedy| remedy.contains("systemctl start")));
    assert_eq!(not_read_yet("web", None).verdict, Verdict::UnderWay);
}

#[test]
fn an_unknown_name_may_be_that_of_a_broken_manifest() {
    let problems = [problem("/m/api.yaml", None), problem("/m/x.yaml", Some("default/db-n"))];
    for query in ["api", "db", "default/db-n", "x"] {
        let explanation = unknown(query, &[], &problems, false, "n");
        assert_eq!(explanation.verdict, Verdict::Wrong);
        assert!(explanation.sentence.contains("manifest cannot be used: /m/"), "{explanation:?}");
    }
    let known = [PodName { namespace: "default", name: "web-n" }];
    let explanation = unknown("wbe", &known, &problems, true, "n");
    assert_eq!(explanation.verdict, Verdict::Unknown);
    assert!(explanation.sentence.ends_with("did you mean web-n?"), "{explanation:?}");
    assert_eq!(explanation.also.len(), 2, "{explanation:?}");
}
