//! Drives the socket with a plain client, and with hostlet's own.

use std::collections::HashMap;
use std::time::Duration;

use futures::StreamExt;
use hostlet_base::CgroupDriver as Driver;
use hostlet_base::{CONTAINER_NAME_LABEL, POD_NAME_LABEL, POD_NAMESPACE_LABEL, POD_UID_LABEL};
use hostlet_runtime::cri::fake::{EventMode, Failure, Fault, Rule};
use hostlet_runtime::cri::wire::image_service_client::ImageServiceClient;
use hostlet_runtime::cri::wire::runtime_service_client::RuntimeServiceClient;
use hostlet_runtime::cri::wire::*;
use hostlet_runtime::cri::{CriClient, CriError, Operation, RuntimeHint, RuntimeService as _};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

use super::{FakeCri, FakeRuntime};

/// Longer than any response takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn channel(fake: &FakeCri) -> Channel {
    let socket = fake.socket();
    Endpoint::from_static("http://cri.invalid").connect_with_connector_lazy(tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { Ok::<_, std::io::Error>(TokioIo::new(UnixStream::connect(socket).await?)) }
    }))
}

fn labels(uid: &str) -> HashMap<String, String> {
    let pairs = [(POD_NAME_LABEL, "web"), (POD_NAMESPACE_LABEL, "default"), (POD_UID_LABEL, uid)];
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

fn sandbox(uid: &str) -> PodSandboxConfig {
    let metadata = PodSandboxMetadata {
        name: "web".into(),
        namespace: "default".into(),
        uid: uid.into(),
        ..Default::default()
    };
    PodSandboxConfig { metadata: Some(metadata), labels: labels(uid), ..Default::default() }
}

fn image(name: &str) -> Option<ImageSpec> {
    Some(ImageSpec { image: name.into(), ..Default::default() })
}

fn container(uid: &str, name: &str) -> ContainerConfig {
    let mut labels = labels(uid);
    labels.insert(CONTAINER_NAME_LABEL.into(), name.into());
    let metadata = ContainerMetadata { name: name.into(), attempt: 0 };
    ContainerConfig { metadata: Some(metadata), image: image("busybox"), labels, ..Default::default() }
}

#[tokio::test]
async fn a_pod_starts_and_stops_over_grpc() {
    let fake = FakeCri::start(FakeRuntime::new()).unwrap();
    let mut runtime = RuntimeServiceClient::new(channel(&fake));
    let mut images = ImageServiceClient::new(channel(&fake));

    let version = runtime.version(VersionRequest::default()).await.unwrap().into_inner();
    assert_eq!(version.runtime_name, "containerd");
    let conditions =
        runtime.status(StatusRequest::default()).await.unwrap().into_inner().status.unwrap().conditions;
    assert!(conditions.iter().all(|condition| condition.status) && conditions.len() == 2);

    let status = ImageStatusRequest { image: image("busybox"), verbose: false };
    assert_eq!(images.image_status(status.clone()).await.unwrap().into_inner().image, None);
    let pull = PullImageRequest { image: image("busybox"), ..Default::default() };
    let image_ref = images.pull_image(pull).await.unwrap().into_inner().image_ref;
    assert_eq!(images.image_status(status).await.unwrap().into_inner().image.unwrap().id, image_ref);
    assert_eq!(images.list_images(ListImagesRequest::default()).await.unwrap().into_inner().images.len(), 1);

    let mut ids = Vec::new();
    for uid in ["u1", "u2"] {
        let run = RunPodSandboxRequest { config: Some(sandbox(uid)), ..Default::default() };
        let pod_sandbox_id = runtime.run_pod_sandbox(run).await.unwrap().into_inner().pod_sandbox_id;
        let create = CreateContainerRequest {
            pod_sandbox_id: pod_sandbox_id.clone(),
            config: Some(container(uid, "c")),
            sandbox_config: Some(sandbox(uid)),
        };
        let container_id = runtime.create_container(create).await.unwrap().into_inner().container_id;
        let start = StartContainerRequest { container_id: container_id.clone() };
        runtime.start_container(start).await.unwrap();
        ids.push((pod_sandbox_id, container_id));
    }
    let (pod, id) = ids[1].clone();

    let selector = HashMap::from([(POD_UID_LABEL.to_owned(), "u2".to_owned())]);
    let filter = PodSandboxFilter { label_selector: selector.clone(), ..Default::default() };
    let listed = runtime.list_pod_sandbox(ListPodSandboxRequest { filter: Some(filter) }).await.unwrap();
    assert_eq!(listed.into_inner().items.iter().map(|s| &s.id).collect::<Vec<_>>(), [&pod]);
    let by_label = ContainerFilter { label_selector: selector, ..Default::default() };
    let by_sandbox = ContainerFilter { pod_sandbox_id: pod.clone(), ..Default::default() };
    let by_id = ContainerFilter { id: id[..12].to_owned(), ..Default::default() };
    for filter in [by_label, by_sandbox, by_id] {
        let listed = runtime.list_containers(ListContainersRequest { filter: Some(filter) }).await.unwrap();
        assert_eq!(listed.into_inner().containers.iter().map(|c| &c.id).collect::<Vec<_>>(), [&id]);
    }
    let exited = ContainerStateValue { state: ContainerState::ContainerExited as i32 };
    let filter = ContainerFilter { state: Some(exited), ..Default::default() };
    let listed = runtime.list_containers(ListContainersRequest { filter: Some(filter) }).await.unwrap();
    assert!(listed.into_inner().containers.is_empty());

    let inspect = PodSandboxStatusRequest { pod_sandbox_id: pod.clone(), verbose: false };
    let status = runtime.pod_sandbox_status(inspect.clone()).await.unwrap().into_inner().status.unwrap();
    assert!(status.network.unwrap().ip.starts_with("10."));
    let stop = StopContainerRequest { container_id: id.clone(), timeout: 30 };
    runtime.stop_container(stop).await.unwrap();
    let status = ContainerStatusRequest { container_id: id.clone(), verbose: false };
    let status = runtime.container_status(status).await.unwrap().into_inner().status.unwrap();
    assert_eq!((status.state(), status.exit_code), (ContainerState::ContainerExited, 143));
    runtime.remove_container(RemoveContainerRequest { container_id: id }).await.unwrap();
    let stop = StopPodSandboxRequest { pod_sandbox_id: pod.clone() };
    runtime.stop_pod_sandbox(stop).await.unwrap();
    runtime.remove_pod_sandbox(RemovePodSandboxRequest { pod_sandbox_id: pod }).await.unwrap();
    assert_eq!(runtime.pod_sandbox_status(inspect).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn optional_features_are_unimplemented_until_enabled() {
    let fake = FakeCri::start(FakeRuntime::new()).unwrap();
    let mut runtime = RuntimeServiceClient::new(channel(&fake));
    let lacking = runtime.runtime_config(RuntimeConfigRequest {}).await.unwrap_err();
    assert_eq!(lacking.code(), Code::Unimplemented);
    fake.runtime().set_cgroup_driver(Some(Driver::Systemd));
    let config = runtime.runtime_config(RuntimeConfigRequest {}).await.unwrap().into_inner();
    assert_eq!(config.linux.unwrap().cgroup_driver(), CgroupDriver::Systemd);
    let lacking = runtime.attach(AttachRequest::default()).await.unwrap_err();
    assert_eq!(lacking.code(), Code::Unimplemented);
}

#[tokio::test]
async fn hostlets_client_observes_scripted_faults_and_events() {
    let fake = FakeCri::start(FakeRuntime::new()).unwrap();
    let client = CriClient::new(&fake.socket(), PATIENCE);
    let impatient = CriClient::new(&fake.socket(), Duration::from_millis(50));

    fake.runtime().faults().add(Rule::new(Operation::ListSandboxes, Fault::Hang).times(1));
    assert!(matches!(impatient.list_sandboxes(None).await, Err(CriError::TimedOut { .. })));
    let unreachable = Fault::Fail { after: Duration::ZERO, failure: Failure::Unreachable };
    fake.runtime().faults().add(Rule::new(Operation::Version, unreachable).times(1));
    assert!(matches!(client.version().await, Err(CriError::Unreachable { .. })));
    fake.runtime().faults().add(Rule::new(Operation::RunSandbox, Fault::fail("no room")).times(1));
    assert_eq!(client.run_sandbox(sandbox("u1"), "").await.unwrap_err().to_string(), "no room");

    let mut events = client.events();
    let first = tokio::time::timeout(PATIENCE, async {
        // The subscription starts some time after the first poll; changes are repeated until one is reported.
        for round in 0.. {
            tokio::select! {
                biased;
                hint = events.next() => return hint,
                made = client.run_sandbox(sandbox(&format!("u{round}")), "") => drop(made.unwrap()),
            }
        }
        None
    });
    assert!(matches!(first.await.unwrap(), Some(Ok(RuntimeHint::Pod(_)))));

    fake.runtime().set_event_mode(EventMode::Unimplemented);
    let absent = tokio::time::timeout(PATIENCE, client.events().next()).await.unwrap();
    assert!(
        matches!(absent, Some(Err(CriError::Unimplemented { .. }))),
        "containerd's events are absent too"
    );
}

#[tokio::test]
async fn a_crash_aborts_calls_and_the_client_reconnects() {
    let mut fake = FakeCri::start(FakeRuntime::new()).unwrap();
    let client = CriClient::new(&fake.socket(), PATIENCE);
    client.run_sandbox(sandbox("u1"), "").await.unwrap();
    fake.runtime().faults().add(Rule::new(Operation::Status, Fault::Hang));
    let hung = client.status();
    tokio::pin!(hung);
    let arrived = async {
        while fake.runtime().calls_of(Operation::Status).is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        answer = &mut hung => panic!("answered: {answer:?}"),
        () = arrived => {}
    }
    fake.crash();
    let cut = tokio::time::timeout(PATIENCE, hung).await.unwrap();
    assert!(cut.is_err(), "{cut:?}");
    assert!(matches!(client.version().await, Err(CriError::Unreachable { .. })));
    fake.resume().unwrap();
    assert_eq!(client.list_sandboxes(None).await.unwrap().len(), 1);
}
