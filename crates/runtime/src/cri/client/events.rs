//! Runtime events as hints: the CRI's `GetContainerEvents` if the runtime has it (containerd 1.7 and later), otherwise
//! containerd's own event service on the same socket.

use std::time::Duration;

use containerd_client::events as ctrd;
use containerd_client::services::v1::SubscribeRequest;
use containerd_client::services::v1::events_client::EventsClient;
use futures::future::Either;
use futures::stream::{self, Stream, StreamExt, TryStreamExt};
use hostlet_base::POD_UID_LABEL;
use prost::Message;

use super::super::wire;
use super::super::{CriError, EventStream, Operation, RuntimeHint};
use super::connection::CriClient;

/// Filters for relevant events of containers and sandboxes, which are tasks too. An exit is seen as `/tasks/delete`: at
/// `/tasks/exit` containerd's CRI plugin has not deleted the task yet and still reports the container as running.
const CONTAINERD_FILTERS: [&str; 4] = [
    "namespace==k8s.io,topic==\"/tasks/start\"",
    "namespace==k8s.io,topic==\"/tasks/delete\"",
    "namespace==k8s.io,topic==\"/tasks/oom\"",
    "namespace==k8s.io,topic==\"/containers/delete\"",
];

/// Delays of the hints for one exit. containerd sends the event before its CRI plugin has updated its state, for which it
/// writes a file; the relist of each second finds anything later.
const EXIT_DELAYS: [Duration; 3] =
    [Duration::from_millis(3), Duration::from_millis(12), Duration::from_millis(50)];

/// The client's event stream. A runtime sends no response before its first event, so support cannot be checked beforehand:
/// both streams are opened, and containerd's is used if the CRI's turns out to be unimplemented.
pub(super) fn stream(client: CriClient) -> EventStream {
    let fallback = containerd_events(client.clone());
    let mut fallback = Some(fallback);
    cri_events(client)
        .flat_map(move |item| match (item, fallback.take()) {
            (Err(CriError::Unimplemented { .. }), Some(instead)) => Either::Left(instead),
            // The CRI's stream has sent an item and is therefore supported; the other one is dropped.
            (item, _) => Either::Right(stream::iter([item])),
        })
        .boxed()
}

fn cri_events(client: CriClient) -> EventStream {
    let open = async move {
        let mut runtime = client.runtime();
        let answer = runtime.get_container_events(wire::GetEventsRequest {}).await;
        let events = answer.map_err(|status| client.error(Operation::ContainerEvents, &status))?.into_inner();
        Ok(events.map_err(move |status| client.error(Operation::ContainerEvents, &status)))
    };
    stream::once(open)
        .try_flatten()
        .map_ok(|event: wire::ContainerEventResponse| {
            let uid = event.pod_sandbox_status.as_ref().and_then(|s| s.labels.get(POD_UID_LABEL));
            match uid {
                Some(uid) => RuntimeHint::Pod(uid.as_str().into()),
                None => RuntimeHint::Object(event.container_id),
            }
        })
        .boxed()
}

fn containerd_events(client: CriClient) -> EventStream {
    let open = async move {
        let mut events = EventsClient::new(client.channel());
        let request = SubscribeRequest { filters: CONTAINERD_FILTERS.map(str::to_owned).to_vec() };
        let answer = events.subscribe(request).await;
        let events = answer.map_err(|status| client.error(Operation::ContainerEvents, &status))?.into_inner();
        Ok(events.map_err(move |status| client.error(Operation::ContainerEvents, &status)))
    };
    stream::once(open)
        .try_flatten()
        .flat_map_unordered(None, |envelope: Result<containerd_client::types::Envelope, CriError>| {
            match envelope {
                Err(error) => stream::iter([Err(error)]).boxed(),
                Ok(envelope) => envelope.event.map_or_else(
                    || stream::empty().boxed(),
                    |event| hints(&event.type_url, &event.value).map(Ok).boxed(),
                ),
            }
        })
        .boxed()
}

/// The hints for an event of containerd, each at a time when the change may be visible.
fn hints(type_url: &str, value: &[u8]) -> impl Stream<Item = RuntimeHint> + Send + use<> {
    let pauses: &[Duration] = if is_exit(type_url) { &EXIT_DELAYS } else { &[Duration::ZERO] };
    let object = object_of(type_url, value);
    stream::iter(
        object.map(|object| pauses.iter().map(move |pause| (object.clone(), *pause))).into_iter().flatten(),
    )
    .then(|(object, pause)| async move {
        tokio::time::sleep(pause).await;
        RuntimeHint::Object(object)
    })
}

fn is_exit(type_url: &str) -> bool {
    type_url.ends_with("containerd.events.TaskDelete")
}

/// The container of a containerd event; `None` for other events or if it cannot be decoded.
fn object_of(type_url: &str, value: &[u8]) -> Option<String> {
    let id = match type_url.rsplit('/').next()? {
        "containerd.events.TaskStart" => ctrd::TaskStart::decode(value).ok()?.container_id,
        "containerd.events.TaskDelete" => ctrd::TaskDelete::decode(value).ok()?.container_id,
        "containerd.events.TaskOOM" => ctrd::TaskOom::decode(value).ok()?.container_id,
        "containerd.events.ContainerDelete" => ctrd::ContainerDelete::decode(value).ok()?.id,
        _ => return None,
    };
    (!id.is_empty()).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containerd_events_name_their_container() {
        let end = ctrd::TaskDelete { container_id: "c1".into(), ..Default::default() };
        assert_eq!(object_of("containerd.events.TaskDelete", &end.encode_to_vec()), Some("c1".to_owned()));
        let delete = ctrd::ContainerDelete { id: "c2".into() };
        let url = "type.googleapis.com/containerd.events.ContainerDelete";
        assert_eq!(object_of(url, &delete.encode_to_vec()), Some("c2".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn an_exit_causes_hints_until_it_is_visible() {
        let end = ctrd::TaskDelete { container_id: "c1".into(), ..Default::default() };
        let hinted: Vec<_> = hints("containerd.events.TaskDelete", &end.encode_to_vec()).collect().await;
        assert_eq!(hinted, vec![RuntimeHint::Object("c1".to_owned()); EXIT_DELAYS.len()]);
        let start = ctrd::TaskStart { container_id: "c2".into(), ..Default::default() };
        let hinted: Vec<_> = hints("containerd.events.TaskStart", &start.encode_to_vec()).collect().await;
        assert_eq!(hinted, [RuntimeHint::Object("c2".to_owned())]);
    }

    #[test]
    fn other_or_malformed_events_are_skipped() {
        assert_eq!(object_of("containerd.events.ImageCreate", b""), None);
        assert_eq!(object_of("containerd.events.TaskDelete", b"\xff\xff"), None);
        assert_eq!(object_of("", b""), None);
    }
}
