//! The handle with a scripted image service and paused time.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hostlet_base::settings::ImageVerification;
use hostlet_base::{EventKind, PodEvent, PodRef, WallClock};
use hostlet_runtime::cri::wire::{AuthConfig, PodSandboxConfig};
use hostlet_runtime::cri::{CriError, ImageFilesystem, ImageInfo, ImageService, Operation};
use hostlet_store::Store;
use hostlet_telemetry::Metrics;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, advance, sleep};

use super::credentials::{
    DockerConfigFiles, NoSecrets, ObjectIdentity, PullSecret, PullSecrets, RegistryCredentials,
};
use super::*;

/// A runtime's images. A pull takes a second, and fails as scripted.
#[derive(Default)]
struct Registry {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    present: HashSet<String>,
    /// The errors of failing pulls, by image.
    broken: HashMap<String, String>,
    inspection_fails: bool,
    /// The users that may pull each private image.
    private: HashMap<String, &'static str>,
    /// All pulls started, in order.
    pulls: Vec<String>,
    /// Their users; empty for anonymous ones.
    users: Vec<String>,
    /// The annotations of all inspections.
    annotations: Vec<HashMap<String, String>>,
    running: usize,
    most_running: usize,
}

/// The annotations of every pod.
fn annotations() -> HashMap<String, String> {
    [("example.com/decryption-key".to_owned(), "k".to_owned())].into()
}

struct Running<'a>(&'a Registry);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.state.lock().running -= 1;
    }
}

fn failed(operation: Operation, message: &str) -> CriError {
    CriError::Failed { operation, message: message.to_owned() }
}

#[async_trait]
impl ImageService for Registry {
    async fn image_status(
        &self,
        image: &str,
        annotations: &HashMap<String, String>,
    ) -> Result<Option<ImageInfo>, CriError> {
        let mut state = self.state.lock();
        state.annotations.push(annotations.clone());
        if state.inspection_fails {
            return Err(failed(Operation::ImageStatus, "disk on fire"));
        }
        Ok(state.present.contains(image).then(|| ImageInfo {
            id: format!("id of {image}"),
            size: 4711,
            ..ImageInfo::default()
        }))
    }

    async fn pull_image(
        &self,
        image: &str,
        auth: Option<AuthConfig>,
        _sandbox: Option<PodSandboxConfig>,
    ) -> Result<String, CriError> {
        let user = auth.map(|auth| auth.username).unwrap_or_default();
        {
            let mut state = self.state.lock();
            state.pulls.push(image.to_owned());
            state.users.push(user.clone());
            state.running += 1;
            state.most_running = state.most_running.max(state.running);
        }
        let _running = Running(self);
        sleep(Duration::from_secs(1)).await;
        let mut state = self.state.lock();
        if state.private.get(image).is_some_and(|allowed| *allowed != user) {
            return Err(failed(Operation::PullImage, &format!("{image}: access denied")));
        }
        match state.broken.get(image) {
            Some(message) => Err(failed(Operation::PullImage, message)),
            None => {
                state.present.insert(image.to_owned());
                Ok(format!("id of {image}"))
            }
        }
    }

    async fn remove_image(&self, id: &str) -> Result<(), CriError> {
        Err(failed(Operation::RemoveImage, &format!("{id}: not removed by pulls")))
    }

    async fn list_images(&self) -> Result<Vec<ImageInfo>, CriError> {
        Ok(Vec::new())
    }

    async fn image_filesystems(&self) -> Result<Vec<ImageFilesystem>, CriError> {
        Ok(Vec::new())
    }
}

const UNLIMITED: PullLimits = PullLimits { serialize: false, max_parallel: None, qps: 0, burst: 0 };

struct Bench {
    registry: Arc<Registry>,
    images: Images,
    events: Arc<Mutex<Vec<PodEvent>>>,
}

impl Bench {
    fn new(limits: PullLimits) -> Self {
        let registry = Arc::new(Registry::default());
        let images = Images::new(
            registry.clone(),
            limits,
            ImageVerification::ExceptPreloaded,
            RegistryCredentials::default(),
            Store::default(),
            WallClock::system(),
        );
        Self { images, registry, events: Arc::default() }
    }

    fn broken(self, image: &str, message: &str) -> Self {
        self.registry.state.lock().broken.insert(image.to_owned(), message.to_owned());
        self
    }

    fn present(self, image: &str) -> Self {
        self.registry.state.lock().present.insert(image.to_owned());
        self
    }

    fn pulls(&self) -> Vec<String> {
        self.registry.state.lock().pulls.clone()
    }

    /// Ensures an image for a pod's container, as a future that can be spawned.
    fn ensure(
        &self,
        pod: &str,
        image: &str,
        policy: PullPolicy,
    ) -> impl Future<Output = Result<EnsuredImage, ImageError>> + Send + use<> {
        self.ensure_as(pod, image, policy, NoSecrets)
    }

    /// The same with pull Secrets.
    fn ensure_as<S: PullSecrets + 'static>(
        &self,
        pod: &str,
        image: &str,
        policy: PullPolicy,
        secrets: S,
    ) -> impl Future<Output = Result<EnsuredImage, ImageError>> + Send + use<S> {
        let (images, events) = (self.images.clone(), self.events.clone());
        let (pod, image) = (PodRef::new("default", pod, pod), image.to_owned());
        async move {
            let request = ImageRequest {
                pod: &pod,
                image: &image,
                policy,
                sandbox: PodSandboxConfig { annotations: annotations(), ..PodSandboxConfig::default() },
                secrets: &secrets,
            };
            images.ensure(request, &mut |event| events.lock().push(event)).await
        }
    }

    /// The events since the last call, as `type reason message`.
    fn events(&self) -> Vec<String> {
        let events = std::mem::take(&mut *self.events.lock());
        events.into_iter().map(|e| format!("{} {} {}", e.kind.as_str(), e.reason, e.message)).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_image_is_pulled_with_a_default_tag_and_then_found() {
    let bench = Bench::new(UNLIMITED);
    let ensured = bench.ensure("p", "busybox", PullPolicy::IfNotPresent).await.unwrap();
    assert_eq!(ensured.image.id, "id of busybox:latest");
    let second = Duration::from_secs(1);
    assert_eq!(ensured.pulled, Some(PulledIn { pull: second, total: second }));
    assert_eq!(
        bench.events(),
        [
            "Normal Pulling Pulling image \"busybox\"",
            "Normal Pulled Successfully pulled image \"busybox\" in 1s (1s including waiting). Image size: 4711 bytes.",
        ]
    );

    let ensured = bench.ensure("p", "busybox", PullPolicy::IfNotPresent).await.unwrap();
    assert_eq!(ensured.pulled, None);
    assert_eq!(
        bench.events(),
        [
            "Normal Pulled Container image \"busybox\" already present on machine and can be accessed by the pod"
        ]
    );

    bench.ensure("p", "busybox", PullPolicy::Always).await.unwrap();
    assert_eq!(bench.pulls(), ["busybox:latest"; 2]);
}

#[tokio::test(start_paused = true)]
async fn the_runtime_gets_the_pods_annotations_with_the_image() {
    let bench = Bench::new(UNLIMITED);
    for policy in [PullPolicy::IfNotPresent, PullPolicy::Always, PullPolicy::Never] {
        bench.ensure("p", "busybox", policy).await.unwrap();
    }
    let state = bench.registry.state.lock();
    assert!(state.annotations.len() >= 3, "{:?}", state.annotations);
    assert!(state.annotations.iter().all(|seen| *seen == annotations()), "{:?}", state.annotations);
}

#[tokio::test(start_paused = true)]
async fn the_never_policy_uses_a_present_image_and_pulls_nothing() {
    let bench = Bench::new(UNLIMITED).present("here:1");
    assert!(bench.ensure("p", "here:1", PullPolicy::Never).await.is_ok());
    bench.events();

    let error = bench.ensure("p", "gone:1", PullPolicy::Never).await.unwrap_err();
    assert_eq!(error.reason(), "ErrImageNeverPull");
    let message = "Container image \"gone:1\" is not present with pull policy of Never";
    assert_eq!(error.to_string(), message);
    assert_eq!(bench.events(), [format!("Warning ErrImageNeverPull {message}")]);
    assert!(bench.pulls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_invalid_name_and_a_failed_inspection_are_different_errors() {
    let bench = Bench::new(UNLIMITED);
    let error = bench.ensure("p", "a b", PullPolicy::Always).await.unwrap_err();
    assert_eq!(error.reason(), "InvalidImageName");
    let message = "Failed to apply default image tag \"a b\": couldn't parse image name \"a b\": invalid reference format";
    assert_eq!(error.to_string(), message);
    assert_eq!(bench.events(), [format!("Warning InspectFailed {message}")]);

    bench.registry.state.lock().inspection_fails = true;
    let error = bench.ensure("p", "a", PullPolicy::IfNotPresent).await.unwrap_err();
    assert_eq!(error.reason(), "ImageInspectError");
    assert_eq!(bench.events(), ["Warning InspectFailed Failed to inspect image \"a\": disk on fire"]);
    // Pulled but not returned by the runtime: not a failure of the registry, so no back-off.
    let error = bench.ensure("p", "a", PullPolicy::Always).await.unwrap_err();
    assert_eq!(error.reason(), "ImageInspectError");
    bench.registry.state.lock().inspection_fails = false;
    assert!(bench.ensure("p", "a", PullPolicy::Always).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_failed_pull_backs_off_and_reports_the_cause_meanwhile() {
    let bench = Bench::new(UNLIMITED).broken("nope:1", "failed to resolve image: no such host");
    let ensure = || bench.ensure("p", "nope:1", PullPolicy::IfNotPresent);

    let error = ensure().await.unwrap_err();
    assert_eq!(
        (error.reason(), &*error.to_string()),
        ("ErrImagePull", "failed to resolve image: no such host")
    );
    assert_eq!(
        bench.events(),
        [
            "Normal Pulling Pulling image \"nope:1\"",
            "Warning Failed Failed to pull image \"nope:1\": failed to resolve image: no such host",
        ]
    );

    let error = ensure().await.unwrap_err();
    assert_eq!(error.reason(), "ImagePullBackOff");
    assert_eq!(
        error.to_string(),
        "Back-off pulling image \"nope:1\": ErrImagePull: failed to resolve image: no such host"
    );
    assert_eq!(bench.events(), ["Normal BackOff Back-off pulling image \"nope:1\""]);
    assert_eq!(bench.pulls().len(), 1);

    // Another pod, and another image of this pod, are not delayed.
    assert_eq!(bench.ensure("q", "nope:1", PullPolicy::Always).await.unwrap_err().reason(), "ErrImagePull");
    assert!(bench.ensure("p", "fine:1", PullPolicy::Always).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_back_off_doubles_to_its_cap() {
    let bench = Bench::new(UNLIMITED).broken("nope:1", "no");
    let mut waits = Vec::new();
    for _ in 0..7 {
        let error = bench.ensure("p", "nope:1", PullPolicy::Always).await.unwrap_err();
        assert_eq!(error.reason(), "ErrImagePull");
        let error = bench.ensure("p", "nope:1", PullPolicy::Always).await.unwrap_err();
        let ImageError::BackOff { remaining, .. } = error else { panic!("{error:?}") };
        waits.push(remaining.as_secs());
        advance(remaining).await;
    }
    assert_eq!(waits, [10, 20, 40, 80, 160, 300, 300]);
}

#[tokio::test(start_paused = true)]
async fn causes_known_to_the_runtime_have_their_own_reasons() {
    let bench = Bench::new(UNLIMITED)
        .broken("a:1", "RegistryUnavailable: 503")
        .broken("b:1", "SignatureValidationFailed");
    let error = bench.ensure("p", "a:1", PullPolicy::Always).await.unwrap_err();
    assert_eq!(error.reason(), "RegistryUnavailable");
    assert_eq!(error.to_string(), "image pull failed for a:1 because the registry is unavailable: 503");
    let error = bench.ensure("p", "b:1", PullPolicy::Always).await.unwrap_err();
    assert_eq!(error.reason(), "SignatureValidationFailed");
    assert_eq!(error.to_string(), "image pull failed for b:1 because the signature validation failed");
    let error = bench.ensure("p", "a:1", PullPolicy::Always).await.unwrap_err();
    assert!(error.to_string().starts_with("Back-off pulling image \"a:1\": RegistryUnavailable: image pull"));
}

/// Ensures ten images of ten pods at once. Returns the maximum number of parallel pulls and the total time in seconds.
async fn ten_at_once(limits: PullLimits) -> (usize, u64) {
    let bench = Bench::new(limits);
    let started = Instant::now();
    let mut pods = JoinSet::new();
    for n in 0..10 {
        pods.spawn(bench.ensure(&format!("p{n}"), &format!("img{n}"), PullPolicy::Always));
    }
    assert!(pods.join_all().await.iter().all(Result::is_ok));
    let most_running = bench.registry.state.lock().most_running;
    (most_running, started.elapsed().as_secs())
}

#[tokio::test(start_paused = true)]
async fn pulls_run_in_parallel_up_to_the_limit() {
    let three = NonZeroUsize::new(3);
    assert_eq!(ten_at_once(UNLIMITED).await, (10, 1));
    assert_eq!(ten_at_once(PullLimits { max_parallel: three, ..UNLIMITED }).await, (3, 4));
    assert_eq!(ten_at_once(PullLimits { serialize: true, max_parallel: three, ..UNLIMITED }).await, (1, 10));
}

#[tokio::test(start_paused = true)]
async fn the_wait_in_the_queue_is_measured_apart_from_the_pull() {
    let bench = Bench::new(PullLimits { serialize: true, ..UNLIMITED });
    let (_, second) =
        tokio::join!(bench.ensure("p", "a", PullPolicy::Always), bench.ensure("q", "b", PullPolicy::Always),);
    let took = second.unwrap().pulled.unwrap();
    assert_eq!((took.pull.as_secs(), took.total.as_secs()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_pull_over_the_rate_fails_and_backs_off() {
    let bench = Bench::new(PullLimits { qps: 1, burst: 1, ..UNLIMITED });
    assert!(bench.ensure("p", "a", PullPolicy::Always).await.is_ok());
    assert!(bench.ensure("p", "b", PullPolicy::Always).await.is_ok(), "a second later");
    let (third, fourth) =
        tokio::join!(bench.ensure("p", "c", PullPolicy::Always), bench.ensure("p", "d", PullPolicy::Always));
    assert!(third.is_ok());
    let error = fourth.unwrap_err();
    assert_eq!((error.reason(), &*error.to_string()), ("ErrImagePull", "pull QPS exceeded"));
    assert!(
        bench.events().contains(&"Warning Failed Failed to pull image \"d\": pull QPS exceeded".to_owned())
    );
    assert_eq!(bench.ensure("p", "d", PullPolicy::Always).await.unwrap_err().reason(), "ImagePullBackOff");
}

#[tokio::test(start_paused = true)]
async fn pods_with_the_same_image_share_one_pull() {
    let bench = Bench::new(UNLIMITED).broken("nope:1", "no");
    let mut pods = JoinSet::new();
    for n in 0..5 {
        pods.spawn(bench.ensure(&format!("p{n}"), "busybox", PullPolicy::Always));
        pods.spawn(bench.ensure(&format!("p{n}"), "nope:1", PullPolicy::Always));
    }
    let outcomes = pods.join_all().await;
    assert_eq!(outcomes.iter().filter(|o| o.is_ok()).count(), 5);
    assert_eq!(bench.pulls().len(), 2);
    // Each pod failed and has a back-off of its own.
    for n in 0..5 {
        let error = bench.ensure(&format!("p{n}"), "nope:1", PullPolicy::Always).await.unwrap_err();
        assert_eq!(error.reason(), "ImagePullBackOff");
    }
    // A finished pull cannot be joined.
    bench.ensure("late", "busybox", PullPolicy::Always).await.unwrap();
    assert_eq!(bench.pulls().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_pull_outlives_its_first_requester() {
    let bench = Bench::new(PullLimits { serialize: true, ..UNLIMITED });
    let mut first = JoinSet::new();
    first.spawn(bench.ensure("first", "busybox", PullPolicy::Always));
    sleep(Duration::from_millis(300)).await;
    let mut second = JoinSet::new();
    second.spawn(bench.ensure("second", "busybox", PullPolicy::Always));
    sleep(Duration::from_millis(300)).await;
    first.shutdown().await;

    let ensured = second.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(ensured.pulled.unwrap().total, Duration::from_millis(700), "the pull went on");
    assert_eq!(bench.pulls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pull_without_waiters_is_cancelled_and_frees_its_slot() {
    let bench = Bench::new(PullLimits { serialize: true, ..UNLIMITED });
    for _ in 0..2 {
        let mut pod = JoinSet::new();
        pod.spawn(bench.ensure("p", "busybox", PullPolicy::Always));
        sleep(Duration::from_millis(300)).await;
        assert_eq!(bench.registry.state.lock().running, 1);
        pod.shutdown().await;
        assert_eq!(bench.registry.state.lock().running, 0);
    }
    assert!(bench.ensure("q", "busybox", PullPolicy::Always).await.is_ok());
    assert_eq!(bench.pulls().len(), 3);
    assert!(bench.events.lock().iter().all(|e| e.kind == EventKind::Normal));
}

fn secret(name: &str) -> ObjectIdentity {
    let [namespace, uid] = ["default", "u"].map(str::to_owned);
    ObjectIdentity { namespace, name: name.to_owned(), uid }
}

/// Pull Secrets with these users, one after the other, for every location named.
struct Users(&'static str, &'static [&'static str]);

#[async_trait]
impl PullSecrets for Users {
    async fn get(&self) -> Vec<PullSecret> {
        let secret = |user: &&str| {
            let data = format!(r#"{{"{}": {{"username": "{user}", "password": "p"}}}}"#, self.0);
            PullSecret::new(secret(user), "kubernetes.io/dockercfg", |_| Some(data.as_bytes())).unwrap()
        };
        self.1.iter().map(secret).collect()
    }
}

impl Bench {
    fn private(self, image: &str, user: &'static str) -> Self {
        self.registry.state.lock().private.insert(image.to_owned(), user);
        self
    }

    /// The users of the pulls so far.
    fn users(&self) -> Vec<String> {
        self.registry.state.lock().users.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn logins_are_tried_in_order_and_their_errors_joined() {
    let bench = Bench::new(UNLIMITED).private("r.io/a:1", "third");
    let all = || Users("r.io", &["first", "second", "third"]);
    bench.ensure_as("p", "r.io/a:1", PullPolicy::Always, all()).await.unwrap();
    assert_eq!(bench.users(), ["first", "second", "third"]);
    // Of another registry: anonymous.
    bench.ensure_as("p", "other.io/a:1", PullPolicy::Always, all()).await.unwrap();
    assert_eq!(bench.users()[3..], [""]);

    let some = Users("r.io", &["first", "second"]);
    let error = bench.ensure_as("q", "r.io/a:1", PullPolicy::Always, some).await.unwrap_err();
    assert_eq!((error.reason(), &*error.to_string()), ("ErrImagePull", "r.io/a:1: access denied"));
    assert!(bench.events().iter().all(|event| !event.contains("first")));
}

#[tokio::test(start_paused = true)]
async fn a_pull_is_shared_only_with_the_same_logins() {
    let bench = Bench::new(UNLIMITED).private("r.io/a:1", "owner");
    let owner = || bench.ensure_as("p", "r.io/a:1", PullPolicy::Always, Users("r.io", &["owner"]));
    let (first, second, stranger) =
        tokio::join!(owner(), owner(), bench.ensure("s", "r.io/a:1", PullPolicy::Always));
    assert!(first.is_ok() && second.is_ok());
    assert_eq!(stranger.unwrap_err().to_string(), "r.io/a:1: access denied");
    assert_eq!(bench.pulls().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_pull_secret_is_named() {
    struct Invalid;
    #[async_trait]
    impl PullSecrets for Invalid {
        async fn get(&self) -> Vec<PullSecret> {
            vec![PullSecret::new(secret("s"), "kubernetes.io/dockercfg", |_| Some(b"hunter2")).unwrap()]
        }
    }
    let bench = Bench::new(UNLIMITED).present("here:1");
    let ensure = || bench.ensure_as("p", "r.io/a:1", PullPolicy::Always, Invalid);
    let error = ensure().await.unwrap_err();
    let message = r#"image pull secret "s": invalid JSON of registry credentials at line 1, column 1"#;
    assert_eq!((error.reason(), &*error.to_string()), ("ErrImagePull", message));
    assert_eq!(bench.events(), [format!("Warning Failed Failed to pull image \"r.io/a:1\": {message}")]);
    // A present image needs no credentials.
    assert!(bench.ensure_as("p", "here:1", PullPolicy::IfNotPresent, Invalid).await.is_ok());

    // Whether it suffices for one that is somebody's cannot be checked.
    let bench = bench.private("r.io/b:1", "owner");
    let metrics = Metrics::default();
    bench.images.register(&metrics);
    let policy = PullPolicy::IfNotPresent;
    bench.ensure_as("o", "r.io/b:1", policy, Users("r.io", &["owner"])).await.unwrap();
    assert!(bench.ensure_as("p", "r.io/b:1", policy, Invalid).await.is_err());
    let text = metrics.encode();
    assert!(text.contains("mustpull_checks_total{result=\"error\"} 1\n"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn the_hosts_credentials_apply_without_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let auths = r#"{"auths": {"r.io": {"username": "host", "password": "p"}}}"#;
    std::fs::write(dir.path().join("config.json"), auths).unwrap();
    let files = DockerConfigFiles::new(dir.path(), dir.path(), None, dir.path());
    let mut bench = Bench::new(UNLIMITED).private("r.io/a:1", "host");
    let (clock, store) = (WallClock::system(), Store::default());
    let registry = bench.registry.clone();
    bench.images = Images::new(
        registry,
        UNLIMITED,
        ImageVerification::Never,
        RegistryCredentials::new(files),
        store,
        clock,
    );
    bench.ensure("p", "r.io/a:1", PullPolicy::Always).await.unwrap();
    bench.ensure_as("p", "r.io/a:1", PullPolicy::Always, Users("r.io", &["pod"])).await.unwrap();
    assert_eq!(bench.users(), ["host", "pod", "host"]);
}

#[tokio::test(start_paused = true)]
async fn a_private_image_is_not_for_pods_without_its_credentials() {
    let bench = Bench::new(UNLIMITED).private("r.io/a:1", "owner").present("preloaded:1");
    let ensure = |pod: &str, policy, users| bench.ensure_as(pod, "r.io/a:1", policy, Users("r.io", users));
    ensure("owner", PullPolicy::IfNotPresent, &["owner"]).await.unwrap();
    bench.events();

    // Without the Secret: the registry decides, and nothing shows that the image is present.
    let error = ensure("stranger", PullPolicy::Never, &[]).await.unwrap_err();
    assert_eq!(error.reason(), "ErrImageNeverPull");
    let message = "Container image \"r.io/a:1\" is not present with pull policy of Never";
    assert_eq!(bench.events(), [format!("Warning ErrImageNeverPull {message}")]);
    for users in [&[] as &[_], &["stranger"]] {
        let error =
            ensure(users.first().unwrap_or(&"nobody"), PullPolicy::IfNotPresent, users).await.unwrap_err();
        assert_eq!((error.reason(), &*error.to_string()), ("ErrImagePull", "r.io/a:1: access denied"));
    }
    assert_eq!(bench.users(), ["owner", "", "stranger"]);

    // With it, no pull is needed.
    for policy in [PullPolicy::IfNotPresent, PullPolicy::Never] {
        assert_eq!(ensure("other", policy, &["stranger", "owner"]).await.unwrap().pulled, None);
    }
    assert_eq!(bench.pulls().len(), 3);
    // Images that this node did not pull, or pulled anonymously, are for all.
    bench.ensure("p", "preloaded:1", PullPolicy::Never).await.unwrap();
    bench.ensure_as("p", "public:1", PullPolicy::Always, Users("r.io", &["owner"])).await.unwrap();
    bench.ensure("q", "public:1", PullPolicy::Never).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_shared_pull_is_recorded_for_the_secret_of_each_pod() {
    let bench = Bench::new(UNLIMITED).private("r.io/a:1", "owner");
    let always = |pod: &str| bench.ensure_as(pod, "r.io/a:1", PullPolicy::Always, Users("r.io", &["owner"]));
    let (first, second) = tokio::join!(always("p"), always("q"));
    assert!(first.is_ok() && second.is_ok());
    assert_eq!(bench.pulls().len(), 1);
    let never = bench.ensure_as("q", "r.io/a:1", PullPolicy::Never, Users("r.io", &["owner"]));
    never.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_image_whose_pull_was_cut_short_is_not_for_everybody() {
    let bench = Bench::new(UNLIMITED).private("r.io/a:1", "owner");
    let mut pod = JoinSet::new();
    pod.spawn(bench.ensure_as("p", "r.io/a:1", PullPolicy::Always, Users("r.io", &["owner"])));
    sleep(Duration::from_millis(300)).await;
    pod.shutdown().await;
    // The runtime completes it.
    let bench = bench.present("r.io/a:1");
    let error = bench.ensure("q", "r.io/a:1", PullPolicy::Never).await.unwrap_err();
    assert_eq!(error.reason(), "ErrImageNeverPull");
}

#[tokio::test(start_paused = true)]
async fn a_preloaded_image_is_for_everybody_also_after_a_pull_of_it_was_cut_short() {
    let bench = Bench::new(UNLIMITED).present("r.io/a:1");
    let mut pod = JoinSet::new();
    pod.spawn(bench.ensure("p", "r.io/a:1", PullPolicy::Always));
    sleep(Duration::from_millis(300)).await;
    pod.shutdown().await;
    assert_eq!(bench.ensure("q", "r.io/a:1", PullPolicy::IfNotPresent).await.unwrap().pulled, None);
}

#[tokio::test(start_paused = true)]
async fn without_verification_nothing_is_said_about_access() {
    let mut bench = Bench::new(UNLIMITED).present("here:1");
    let (credentials, store) = (RegistryCredentials::default(), Store::default());
    let (registry, off) = (bench.registry.clone(), ImageVerification::Disabled);
    bench.images = Images::new(registry, UNLIMITED, off, credentials, store, WallClock::system());
    bench.ensure("p", "here:1", PullPolicy::Never).await.unwrap();
    assert_eq!(bench.events(), ["Normal Pulled Container image \"here:1\" already present on machine"]);
}
