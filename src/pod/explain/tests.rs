//! Case by case: each way a pod can fare, and what a newcomer is told of it.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use serde_json::{Value, json};

use super::{
    Case, Explanation, HungCall, Named, PullSoFar, Standing, Verdict, explain, is_meant, nearest_names,
    unknown,
};
use crate::pod::source::ManifestProblem;
use crate::pod::{Activity, Doing, testing};

const NOW: i64 = 1000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// What a test knows; the rest is a wanted pod of one container whose worker is idle.
struct Facts {
    pod: Pod,
    standing: Standing,
    status: Option<PodStatus>,
    doing: Doing,
    terminating_since: Option<Timestamp>,
    running: Vec<String>,
    hung: Option<HungCall>,
    pull: Option<PullSoFar>,
    problem: Option<ManifestProblem>,
    trouble: Option<String>,
}

impl Facts {
    fn new() -> Self {
        Self {
            pod: testing::pod("web-n", "u", "Always", &["c"]),
            standing: Standing::Wanted,
            status: None,
            doing: Doing {
                activity: Activity::Idle,
                since: at(990),
                retries: BTreeMap::new(),
                next_work: None,
            },
            terminating_since: None,
            running: Vec::new(),
            hung: None,
            pull: None,
            problem: None,
            trouble: None,
        }
    }

    fn status(mut self, status: Value) -> Self {
        self.status = Some(serde_json::from_value(status).unwrap());
        self
    }

    /// One container in this state, and how it ended before.
    fn container(self, state: Value, last: Value, restarts: i32) -> Self {
        self.status(json!({"phase": "Running", "containerStatuses": [{
            "name": "c", "image": "img", "imageID": "", "ready": false, "restartCount": restarts,
            "state": state, "lastState": last,
        }]}))
    }

    fn waiting(self, reason: &str, message: &str) -> Self {
        self.container(json!({"waiting": {"reason": reason, "message": message}}), json!({}), 0)
    }

    fn crashed(self, ended: Value) -> Self {
        let waiting = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}});
        self.container(waiting, json!({"terminated": ended}), 3)
    }

    fn no_sandbox(self, message: &str) -> Self {
        self.status(json!({"phase": "Pending", "conditions": [{
            "type": "PodReadyToStartContainers", "status": "False", "message": message,
        }]}))
    }

    fn doing(mut self, activity: Activity) -> Self {
        self.doing.activity = activity;
        self
    }

    fn next_work(mut self, second: i64) -> Self {
        self.doing.next_work = Some(at(second));
        self
    }

    fn retry(mut self, second: i64) -> Self {
        self.doing.retries.insert("c".to_owned(), at(second));
        self
    }

    fn explained(&self) -> Explanation {
        explain(&Case {
            pod: &self.pod,
            standing: self.standing.clone(),
            status: self.status.as_ref(),
            terminating_since: self.terminating_since,
            doing: Some(&self.doing),
            running: self.running.clone(),
            hung: self.hung.clone(),
            pull: self.pull.clone(),
            problem: self.problem.as_ref(),
            trouble: self.trouble.clone(),
            now: at(NOW),
        })
    }

    /// Holds the explanation against what it must say, word by word.
    #[track_caller]
    fn says(&self, verdict: Verdict, sentence: &str, remedy: &str) -> Explanation {
        let explanation = self.explained();
        assert_eq!(explanation.verdict, verdict, "{explanation:?}");
        assert!(explanation.sentence.contains(sentence), "{explanation:?}");
        assert!(explanation.remedy.as_deref().unwrap_or_default().contains(remedy), "{explanation:?}");
        assert_eq!(explanation.pod, "default/web-n");
        assert!(explanation.step.is_some(), "{explanation:?}");
        explanation
    }
}

fn problem(file: &str, pod: Option<&str>) -> ManifestProblem {
    ManifestProblem {
        file: file.into(),
        pod: pod.map(str::to_owned),
        message: "line 3: spec.x: Required value\nline 4: y".to_owned(),
        since: at(900),
    }
}

const RUNNING: &str = r#"{"running": {"startedAt": "1970-01-01T00:15:00Z"}}"#;

fn running() -> Value {
    serde_json::from_str(RUNNING).unwrap()
}

#[test]
fn a_pod_that_runs_is_fine() {
    let fine = Facts::new().container(running(), json!({}), 0);
    let said = fine.says(Verdict::Fine, "The pod runs: its container is up for 100s", "");
    assert_eq!((said.since, said.also.len()), (Some(at(900)), 0));
    let ended = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
    let said = Facts::new().container(running(), ended, 2).says(Verdict::Fine, "The pod runs", "");
    assert!(
        said.also[0].starts_with("There were 2 restarts, the last one after container c was killed"),
        "{said:?}"
    );
}

#[test]
fn a_broken_manifest_counts_even_while_the_pod_runs() {
    let mut facts = Facts::new().container(running(), json!({}), 0);
    facts.problem = Some(problem("/m/web.yaml", Some("default/web-n")));
    let said = facts.says(
        Verdict::Wrong,
        "/m/web.yaml: line 3: spec.x: Required value line 4: y",
        "correct the manifest",
    );
    assert_eq!(said.since, Some(at(900)));
    let mut facts = Facts::new().crashed(json!({"exitCode": 1}));
    facts.problem = Some(problem("/m/web.yaml", None));
    assert!(facts.says(Verdict::Wrong, "exit code 1", "").also[0].contains("/m/web.yaml is broken"));
}

#[test]
fn a_crash_loop_tells_exit_code_last_words_and_the_next_restart() {
    let ended = json!({"exitCode": 3, "reason": "Error", "message": "no such\ntable", "finishedAt": "1970-01-01T00:16:00Z"});
    let facts = Facts::new().crashed(ended).doing(Activity::BackingOff).retry(1020).next_work(1060);
    let said = facts.says(
        Verdict::Wrong,
        "Container c ended with exit code 3, and said last: \"no such table\", restarted 3 times so far",
        "hostlet logs web-n --previous",
    );
    assert_eq!((said.since, said.next), (Some(at(960)), Some(at(1020))));
}

#[test]
fn exit_codes_that_mean_something_are_told_in_words() {
    for (ended, sentence, remedy) in [
        (
            json!({"exitCode": 137, "reason": "OOMKilled"}),
            "more memory than its limit",
            "resources.limits.memory",
        ),
        (json!({"exitCode": 0, "reason": "Completed"}), "exit code 0, which is success", "restartPolicy"),
        (json!({"exitCode": 127}), "its command was not found", "command and args"),
        (json!({"exitCode": 139}), "segmentation fault", "--previous"),
        (
            json!({"exitCode": 128, "reason": "StartError", "message": "failed to create shim task: runc create failed: \
                unable to start container process: exec: \"nope\": executable file not found in $PATH: unknown"}),
            "Container c cannot be started: exec: \"nope\": executable file not found in $PATH, restarted",
            "the program must be in its image",
        ),
    ] {
        Facts::new().crashed(ended).says(Verdict::Wrong, sentence, remedy);
    }
}

#[test]
fn of_several_containers_the_logs_of_the_right_one_are_named() {
    let mut facts = Facts::new().crashed(json!({"exitCode": 1}));
    facts.pod = testing::pod("web-n", "u", "Always", &["a", "c"]);
    facts.says(Verdict::Wrong, "Container c", "hostlet logs web-n -c c --previous");
}

#[test]
fn a_failed_pull_is_told_in_the_registrys_words() {
    let back_off = "Back-off pulling image \"img\": ErrImagePull: rpc error: code = Unknown desc = dial tcp: no such host";
    let facts = Facts::new().waiting("ImagePullBackOff", back_off).retry(1100).next_work(1012);
    let sentence = "The image img of container c cannot be pulled, because its registry does not answer: dial tcp: no such host";
    assert_eq!(facts.says(Verdict::Wrong, sentence, "DNS").next, Some(at(1100)));
    for (said, sentence, remedy) in [
        ("img:9: not found", "because its registry does not have it", "name and tag"),
        ("pull access denied", "asks for credentials", "credentials"),
        ("x509: unknown authority", "cannot be trusted", "certs.d"),
        ("pull QPS exceeded", "too many at once", "registryPullQPS"),
        ("write: no space left on device", "a disk of this host is full", "room"),
        ("something else", "says the container runtime", "name and tag"),
    ] {
        let facts = Facts::new().waiting("ErrImagePull", said).next_work(1012);
        assert_eq!(facts.says(Verdict::Wrong, sentence, remedy).next, Some(at(1012)));
    }
}

#[test]
fn other_trouble_with_images_has_its_own_remedy() {
    let invalid =
        "Failed to apply default image tag \"I\": couldn't parse image name \"I\": invalid reference format";
    for (reason, message, sentence, remedy) in [
        ("InvalidImageName", invalid, "makes no sense: invalid reference format", "image in the manifest"),
        ("ErrImageNeverPull", "x", "imagePullPolicy Never forbids", "images import"),
        ("ImageInspectError", "broken", "whether it has the image img: broken", "journalctl"),
        ("SignatureValidationFailed", "bad", "refused for its signature: bad", "signature is valid"),
        ("RegistryUnavailable", "connection refused", "does not answer", "DNS"),
    ] {
        Facts::new().waiting(reason, message).says(Verdict::Wrong, sentence, remedy);
    }
}

#[test]
fn a_pull_that_is_tried_again_right_now_says_so() {
    let pulling = Activity::PullingImage { container: "c".to_owned(), image: "img".to_owned() };
    let said = Facts::new().waiting("ErrImagePull", "not found").doing(pulling.clone()).explained();
    assert_eq!((said.step.as_deref(), said.next), (Some("pulling the image img once more"), None));
    let first = Facts::new().waiting("ContainerCreating", "").doing(pulling);
    let said = first.says(Verdict::UnderWay, "the image img is being pulled for container c", "");
    assert_eq!(said.since, Some(at(990)));
}

#[test]
fn a_pull_tells_how_long_it_takes_and_what_has_arrived() {
    let pulling = Activity::PullingImage { container: "c".to_owned(), image: "img".to_owned() };
    let mut facts = Facts::new().waiting("ContainerCreating", "").doing(pulling);
    let pull =
        |bytes, pulls, waits_for_turn| Some(PullSoFar { since: at(970), waits_for_turn, bytes, pulls });
    for (pull, said) in [
        (pull(None, 1, false), "The pull has taken 30s so far."),
        (pull(Some(34_500_000), 1, false), "The pull has taken 30s so far, and 34.5MB have arrived."),
        (pull(Some(34_500_000), 3, false), "together with what the other 2 pulls brought."),
        (pull(None, 2, true), "The pull has waited 30s for its turn"),
    ] {
        facts.pull = pull;
        let explanation = facts.says(Verdict::UnderWay, "the image img is being pulled", "");
        assert!(explanation.also[0].contains(said), "{explanation:?}");
    }
    facts = facts.waiting("ErrImagePull", "not found");
    assert!(facts.explained().also[0].contains("has waited 30s"));
}

#[test]
fn containers_that_cannot_be_made_name_the_reason() {
    for (reason, message, sentence, remedy) in [
        ("CreateContainerConfigError", "no field", "what its manifest says: no field", "in the manifest"),
        (
            "CreateContainerConfigError",
            "services have not yet been read at least",
            "have not yet",
            "API server",
        ),
        ("CreateContainerConfigError", "secret \"x\" not found", "secret \"x\" not found", "starts at once"),
        (
            "CreateContainerConfigError",
            "couldn't find key k in ConfigMap a/b",
            "find key k",
            "starts at once",
        ),
        ("CreateContainerConfigError", "runAsUser breaks non-root policy", "non-root", "runAsUser"),
        (
            "CreateContainerError",
            "rpc error: code = Unknown desc = no command specified",
            "make container c: no command",
            "a command",
        ),
        ("RunContainerError", "exec: permission denied", "cannot start container c", "securityContext"),
    ] {
        Facts::new().waiting(reason, message).says(Verdict::Wrong, sentence, remedy);
    }
}

#[test]
fn a_pod_without_a_sandbox_tells_why() {
    let network = "network is not ready: NetworkReady=false reason:X message:no CNI configuration";
    let said = Facts::new().no_sandbox(network).next_work(1001);
    assert_eq!(
        said.says(Verdict::Wrong, "waits for the node's pod network", "/etc/cni/net.d").next,
        Some(at(1001))
    );
    let failed = "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox image \"pause\"";
    Facts::new().no_sandbox(failed).says(
        Verdict::Wrong,
        "cannot be made: failed to get sandbox image",
        "pause image",
    );
    let fresh = "No sandbox for pod can be found. Need to start a new one";
    Facts::new().no_sandbox(fresh).says(Verdict::UnderWay, "The pod is being started", "");
    let waits = Facts::new().no_sandbox(fresh).doing(Activity::WaitingForTurn);
    assert_eq!(waits.says(Verdict::UnderWay, "waits behind starts of other pods", "").since, Some(at(990)));
    let error = Some("unable to ensure pod container exists: mkdir".to_owned());
    let cgroup = Facts::new().no_sandbox(fresh).doing(Activity::Retrying { error }).next_work(1011);
    assert_eq!(cgroup.says(Verdict::Wrong, "mkdir", "on this host").next, Some(at(1011)));
}

#[test]
fn a_pod_that_is_refused_names_the_fields() {
    for (reason, remedy) in [
        ("PodFeatureUnsupported", "remove these fields"),
        ("SysctlForbidden", "allowedUnsafeSysctls"),
        ("OutOfpods", "maxPods"),
        ("Other", "as the message says"),
    ] {
        let mut facts = Facts::new().status(json!({
            "phase": "Failed", "reason": reason, "message": "Pod was rejected: spec.volumes: no",
        }));
        facts.standing = Standing::Refused;
        facts.says(Verdict::Wrong, "This node does not take the pod: spec.volumes: no", remedy);
    }
}

#[test]
fn a_pod_that_ends_tells_what_still_runs_and_how_long_it_has() {
    let mut facts = Facts::new()
        .container(running(), json!({}), 0)
        .doing(Activity::StoppingContainers { grace_seconds: 30 });
    facts.standing = Standing::Unwanted;
    facts.terminating_since = Some(at(989));
    facts.running = vec!["c".to_owned()];
    let said = facts.says(Verdict::UnderWay, "container c still runs, with 20 s left", "SIGTERM");
    assert_eq!((said.since, said.next), (Some(at(989)), Some(at(1020))));
    let error = Some("error killing pod: deadline".to_owned());
    let stuck = facts.doing(Activity::Retrying { error }).next_work(1010);
    assert_eq!(
        stuck.says(Verdict::Wrong, "cannot be ended: error killing pod", "journalctl").next,
        Some(at(1010))
    );
}

#[test]
fn a_successor_waits_for_its_predecessor() {
    let mut facts = Facts::new();
    facts.standing = Standing::Behind;
    facts.says(
        Verdict::UnderWay,
        "until the earlier pod of the same name has ended",
        "terminationGracePeriodSeconds",
    );
}

#[test]
fn without_a_runtime_nothing_starts() {
    let mut facts = Facts::new();
    facts.says(Verdict::UnderWay, "was admitted", "");
    facts.trouble = Some("the container runtime has not answered yet".to_owned());
    facts.says(Verdict::Wrong, "has not answered yet", "containerRuntimeEndpoint");
}

#[test]
fn a_call_that_hangs_is_named() {
    let mut facts = Facts::new().container(running(), json!({}), 0);
    facts.hung = Some(HungCall {
        call: "stop_container".to_owned(),
        subject: "container 1".to_owned(),
        took: Duration::from_secs(200),
    });
    let said =
        facts.says(Verdict::Wrong, "not answered for 3m20s: stop_container on container 1", "journalctl");
    assert_eq!(said.since, Some(at(800)));
}

#[test]
fn pods_that_ended_for_good_are_judged_by_their_exit_codes() {
    let ended = |phase: &str, code: i32| {
        let mut facts = Facts::new().container(json!({"terminated": {"exitCode": code}}), json!({}), 0);
        facts.pod = testing::pod("web-n", "u", "Never", &["c"]);
        facts.status.as_mut().unwrap().phase = Some(phase.to_owned());
        facts
    };
    ended("Succeeded", 0).says(Verdict::Completed, "run to its end, with exit code 0", "");
    ended("Failed", 2).says(Verdict::Wrong, "exit code 2; restartPolicy Never", "hostlet logs web-n");
    let evicted = json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory"});
    Facts::new().status(evicted).says(Verdict::Wrong, "The node was low on memory", "anew");
}

#[test]
fn names_match_with_and_without_node_and_namespace() {
    let pod = Named { namespace: "default", name: "web-n" };
    for query in ["web", "web-n", "default/web", "default/web-n"] {
        assert!(is_meant(query, pod, "n"), "{query}");
    }
    for query in ["we", "other/web", "web-", "n", ""] {
        assert!(!is_meant(query, pod, "n"), "{query}");
    }
    let known = [pod, Named { namespace: "default", name: "database-n" }];
    assert_eq!(nearest_names("wbe", &known, "n"), ["web-n"]);
    assert_eq!(nearest_names("default/databse", &known, "n"), ["database-n"]);
    assert!(nearest_names("xyz", &known, "n").is_empty());
}

#[test]
fn an_unknown_name_may_be_that_of_a_broken_manifest() {
    let problems = [problem("/m/api.yaml", None), problem("/m/x.yaml", Some("default/db-n"))];
    for query in ["api", "db", "default/db-n"] {
        let said = unknown(query, &[], &problems, false, "n");
        assert_eq!(said.verdict, Verdict::Wrong);
        assert!(said.sentence.contains("manifest is broken: /m/"), "{said:?}");
    }
    let known = [Named { namespace: "default", name: "web-n" }];
    let said = unknown("wbe", &known, &problems, true, "n");
    assert_eq!(said.verdict, Verdict::Unknown);
    assert!(said.sentence.ends_with("did you mean web-n?"), "{said:?}");
    assert_eq!(said.also.len(), 2, "{said:?}");
}
