//! The task on a real directory. Tests wait for published states, not for time.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hostlet_base::Rescan;
use hostlet_pod::ManifestOrigin;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{SourceConfig, SourceState, StaticPod, run};

const FOREVER: Duration = Duration::from_secs(3600);

struct Source {
    rx: watch::Receiver<SourceState>,
    tasks: tokio::task::JoinSet<()>,
    _stop: DropGuard,
}

impl Source {
    fn start(path: Option<&Path>, check_frequency: Duration) -> Self {
        Self::start_after(Vec::new(), path, check_frequency)
    }

    /// Starts after a daemon that read these.
    fn start_after(known: Vec<StaticPod>, path: Option<&Path>, check_frequency: Duration) -> Self {
        let (tx, rx) = watch::channel(SourceState::default());
        let cancel = CancellationToken::new();
        let config = SourceConfig {
            path: path.map(Path::to_owned),
            node_name: "n".into(),
            check_frequency,
            rescan: Rescan::default(),
            objects: None,
            url: None,
        };
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(run(config, known, tx, cancel.clone()));
        Self { rx, tasks, _stop: cancel.drop_guard() }
    }

    async fn until(&mut self, condition: impl Fn(&SourceState) -> bool) -> SourceState {
        let waiting = self.rx.wait_for(|state| condition(state));
        if let Ok(state) = tokio::time::timeout(Duration::from_secs(60), waiting).await {
            return state.unwrap().clone();
        }
        panic!("not reached; last: {:#?}", self.rx.borrow().clone())
    }

    async fn until_pods(&mut self, images: &[&str]) -> SourceState {
        self.until(|state| state.ready && images_of(state) == images).await
    }
}

fn images_of(state: &SourceState) -> Vec<String> {
    let image =
        |pod: &k8s_openapi::api::core::v1::Pod| pod.spec.as_ref().unwrap().containers[0].image.clone();
    state.pods.iter().map(|pod| image(&pod.pod).unwrap()).collect()
}

fn pod(name: &str, image: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{containers: [{{name: c, image: {image}}}]}}}}"
    )
}

#[tokio::test]
async fn events_alone_keep_the_state_current() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    fs::write(at("a.yaml"), pod("a", "one")).unwrap();
    let mut source = Source::start(Some(root.path()), FOREVER);
    source.until_pods(&["one"]).await;

    fs::write(at("b.yaml"), pod("b", "two")).unwrap();
    let state = source.until_pods(&["one", "two"]).await;
    assert_eq!(state.pods[1].pod.metadata.name.as_deref(), Some("b-n"));

    fs::write(at(".b.yaml.swp"), pod("b", "three")).unwrap();
    fs::rename(at(".b.yaml.swp"), at("b.yaml")).unwrap();
    source.until_pods(&["one", "three"]).await;

    fs::write(at("a.yaml"), "{half").unwrap();
    let broken = source.until(|state| !state.problems.is_empty()).await;
    assert_eq!(images_of(&broken), ["one", "three"]);
    assert_eq!(broken.problems[0].origin, ManifestOrigin::File(at("a.yaml")));

    fs::write(at("a.yaml"), pod("a", "four")).unwrap();
    let mended = source.until_pods(&["four", "three"]).await;
    assert!(mended.problems.is_empty());

    fs::remove_file(at("a.yaml")).unwrap();
    source.until_pods(&["three"]).await;
    fs::remove_file(at("b.yaml")).unwrap();
    source.until_pods(&[]).await;
}

#[tokio::test]
async fn a_file_that_is_deleted_and_written_again_at_once_is_a_new_pod() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    fs::write(at("a.yaml"), pod("a", "one")).unwrap();
    let mut source = Source::start(Some(root.path()), FOREVER);
    let first = source.until_pods(&["one"]).await;
    fs::remove_file(at("a.yaml")).unwrap();
    fs::write(at("a.yaml"), pod("a", "one")).unwrap();
    let seen = |state: &SourceState| {
        state.pods.first().and_then(|pod| pod.pod.metadata.annotations.clone()).unwrap_or_default()
    };
    let before = seen(&first);
    let again = source.until(|state| state.pods.len() == 1 && seen(state) != before).await;
    assert_eq!(again.pods[0].pod.metadata.uid, first.pods[0].pod.metadata.uid);
}

#[tokio::test]
async fn a_half_written_file_delays_no_other_and_is_valid_when_complete() {
    let root = tempfile::tempdir().unwrap();
    let mut source = Source::start(Some(root.path()), FOREVER);
    source.until_pods(&[]).await;
    let text = pod("a", "one");
    let (half, rest) = text.split_at(text.len() / 2);
    let mut slow = File::create(root.path().join("a.yaml")).unwrap();
    slow.write_all(half.as_bytes()).unwrap();
    fs::write(root.path().join("b.yaml"), pod("b", "two")).unwrap();
    source.until_pods(&["two"]).await;

    slow.write_all(rest.as_bytes()).unwrap();
    drop(slow);
    let whole = source.until_pods(&["one", "two"]).await;
    assert!(whole.problems.is_empty(), "{:?}", whole.problems);
}

#[tokio::test]
async fn the_directory_may_appear_late_and_reappear() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("x/manifests");
    let mut source = Source::start(Some(&directory), FOREVER);
    source.until_pods(&[]).await;
    for image in ["one", "two", "three"] {
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("a.yaml"), pod("a", image)).unwrap();
        source.until_pods(&[image]).await;
        fs::write(directory.join("b.yaml"), pod("b", "more")).unwrap();
        source.until_pods(&[image, "more"]).await;
        fs::remove_dir_all(root.path().join("x")).unwrap();
        source.until_pods(&[]).await;
    }
}

#[tokio::test]
async fn an_atomically_replaced_directory_is_still_watched() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("manifests");
    fs::create_dir(&directory).unwrap();
    let mut source = Source::start(Some(&directory), FOREVER);
    source.until_pods(&[]).await;
    for image in ["one", "two", "three"] {
        fs::remove_dir_all(&directory).unwrap();
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("a.yaml"), pod("a", image)).unwrap();
        source.until_pods(&[image]).await;
        fs::write(directory.join("b.yaml"), pod("b", image)).unwrap();
        source.until_pods(&[image, image]).await;
    }
}

#[tokio::test]
async fn a_directory_swapped_by_renames_is_still_watched() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    fs::create_dir(at("manifests")).unwrap();
    fs::write(at("manifests/a.yaml"), pod("a", "zero")).unwrap();
    let mut source = Source::start(Some(&at("manifests")), FOREVER);
    source.until_pods(&["zero"]).await;
    for (index, image) in ["one", "two"].into_iter().enumerate() {
        fs::create_dir(at("next")).unwrap();
        fs::write(at("next/a.yaml"), pod("a", image)).unwrap();
        fs::rename(at("manifests"), at(&format!("old{index}"))).unwrap();
        fs::rename(at("next"), at("manifests")).unwrap();
        source.until_pods(&[image]).await;
        fs::write(at("manifests/b.yaml"), pod("b", "more")).unwrap();
        source.until_pods(&[image, "more"]).await;
    }
}

#[tokio::test]
async fn one_file_may_be_the_source() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("pod.yaml");
    let mut source = Source::start(Some(&file), FOREVER);
    source.until_pods(&[]).await;
    fs::write(&file, pod("a", "one")).unwrap();
    source.until_pods(&["one"]).await;
    let other = root.path().join("other");
    fs::write(&other, pod("a", "two")).unwrap();
    fs::rename(&other, &file).unwrap();
    source.until_pods(&["two"]).await;
}

/// A change behind a symbolic link raises no event; only the periodic read finds it.
#[tokio::test(start_paused = true)]
async fn the_periodic_read_finds_what_events_miss() {
    let (root, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let target: PathBuf = elsewhere.path().join("pod");
    fs::write(&target, pod("a", "one")).unwrap();
    std::os::unix::fs::symlink(&target, root.path().join("link.yaml")).unwrap();
    let mut source = Source::start(Some(root.path()), Duration::ZERO);
    source.until_pods(&["one"]).await;
    fs::write(&target, pod("a", "two-and-more")).unwrap();
    source.until_pods(&["two-and-more"]).await;
}

#[tokio::test]
async fn adopted_pods_count_only_below_the_path() {
    let (root, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(root.path().join("a.yaml"), pod("a", "one")).unwrap();
    let before = Source::start(Some(root.path()), FOREVER).until_pods(&["one"]).await;
    let known = || before.pods.iter().map(|pod| StaticPod::clone(pod)).collect();

    fs::write(root.path().join("a.yaml"), "{half").unwrap();
    let mut source = Source::start_after(known(), Some(root.path()), FOREVER);
    let state = source.until_pods(&["one"]).await;
    assert_eq!(state.problems.len(), 1);
    // A parent of the path is a file, so that listing fails.
    let file = elsewhere.path().join("file");
    fs::write(&file, pod("b", "two")).unwrap();
    let mut source = Source::start_after(known(), Some(&file.join("below")), FOREVER);
    let state = source.until_pods(&[]).await;
    assert!(state.problems[0].message.contains("cannot list"), "{state:?}");
}

#[tokio::test]
async fn without_a_path_the_source_is_ready_and_empty() {
    let mut source = Source::start(None, FOREVER);
    let state = source.until(|state| state.ready).await;
    assert_eq!(state, SourceState { ready: true, ..SourceState::default() });
    drop(source._stop);
    assert!(source.tasks.join_next().await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn reading_again_without_a_change_publishes_nothing() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("a.yaml"), pod("a", "one")).unwrap();
    fs::write(root.path().join("bad.yaml"), "[").unwrap();
    let mut source = Source::start(Some(root.path()), Duration::ZERO);
    source.until_pods(&["one"]).await;
    source.rx.mark_unchanged();
    // A hundred of the shortest intervals.
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(!source.rx.has_changed().unwrap());
}

#[tokio::test]
async fn objects_of_files_reach_their_receivers_at_once() {
    use std::os::unix::fs::PermissionsExt;

    use hostlet_pod::objects::{ObjectRef, ObjectSource, ObjectState, Standalone};

    let directory = tempfile::tempdir().unwrap();
    let objects = Standalone::default();
    let (tx, _rx) = watch::channel(SourceState::default());
    let cancel = CancellationToken::new();
    let _stop = cancel.clone().drop_guard();
    let config = SourceConfig {
        path: Some(directory.path().to_owned()),
        node_name: "n".into(),
        check_frequency: FOREVER,
        rescan: Rescan::default(),
        objects: Some(objects.clone()),
        url: None,
    };
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(run(config, Vec::new(), tx, cancel));
    let mut known = objects.watch(&ObjectRef::secret("s", "default"));
    let mut until = async |expected: Option<&[u8]>| {
        let fits = |state: &ObjectState| match state {
            ObjectState::Found(object) => object.get("k") == expected,
            ObjectState::Failed(_) => expected.is_none(),
            ObjectState::Pending => false,
        };
        let waited = tokio::time::timeout(Duration::from_secs(60), known.wait_for(fits)).await.is_ok();
        assert!(waited, "expected {expected:?}, known is {:?}", known.borrow());
    };
    until(None).await;
    let path = directory.path().join("s.yaml");
    for value in ["one", "two"] {
        let text =
            format!("{{apiVersion: v1, kind: Secret, metadata: {{name: s}}, stringData: {{k: {value}}}}}");
        let new = directory.path().join(".new");
        fs::write(&new, text).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(&new, &path).unwrap();
        until(Some(value.as_bytes())).await;
    }
    fs::remove_file(&path).unwrap();
    until(None).await;
}
