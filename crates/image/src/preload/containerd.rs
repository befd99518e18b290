//! containerd's own services as an image store: content, leases and images of the namespace that the CRI uses. They are
//! served on the CRI socket and have been stable since containerd 1.0. One call at a time, each with a deadline.

use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use containerd_client::services::v1::content_client::ContentClient;
use containerd_client::services::v1::images_client::ImagesClient;
use containerd_client::services::v1::leases_client::LeasesClient;
use containerd_client::services::v1::{
    AbortRequest, AddResourceRequest, CreateImageRequest, CreateRequest, DeleteRequest, GetImageRequest,
    Image, Info, InfoRequest, Resource, UpdateImageRequest, UpdateRequest, WriteAction, WriteContentRequest,
    WriteContentResponse,
};
use containerd_client::types::Descriptor;
use futures::stream;
use hostlet_runtime::cri::containerd::request;
use jiff::{Timestamp, ToSpan};
use tokio::sync::mpsc;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Code, Response, Status, Streaming};

use super::import::{BlobWriter, ImageStore, LeasedBlob};
use super::target::Target;
use super::{Digest, StoreError};

/// The label that makes an image visible to the CRI.
const MANAGED: (&str, &str) = ("io.cri-containerd.image", "managed");
/// Prefix of the ingest references of preloaded content.
pub(crate) const PRELOAD_REFERENCE: &str = "hostlet-preload-";
/// Expiry of a lease that was not deleted.
const EXPIRE_LABEL: &str = "containerd.io/gc.expire";
/// Deadline of a content call, which writes to disk and, at the end, syncs.
const DEADLINE: Duration = Duration::from_secs(120);

/// A connection to containerd.
#[derive(Clone, Debug)]
pub struct Containerd {
    channel: Channel,
}

impl Containerd {
    /// Uses the containerd behind `channel`.
    pub fn new(channel: Channel) -> Self {
        Self { channel }
    }

    fn content(&self) -> ContentClient<Channel> {
        ContentClient::new(self.channel.clone())
    }

    fn images(&self) -> ImagesClient<Channel> {
        ImagesClient::new(self.channel.clone())
    }

    fn leases(&self) -> LeasesClient<Channel> {
        LeasesClient::new(self.channel.clone())
    }

    async fn image(&self, name: &str) -> Result<Option<Image>, StoreError> {
        let request = request(GetImageRequest { name: name.to_owned() });
        Ok(found(call("looking for an image", self.images().get(request)).await?)?.and_then(|got| got.image))
    }
}

/// The response of a call, or its status with the operation that failed.
type Answer<T> = Result<T, (&'static str, Status)>;

async fn call<T>(
    operation: &'static str,
    call: impl Future<Output = Result<Response<T>, Status>> + Send,
) -> Result<Answer<T>, StoreError> {
    match tokio::time::timeout(DEADLINE, call).await {
        Ok(answer) => Ok(answer.map(Response::into_inner).map_err(|status| (operation, status))),
        Err(_) => Err(StoreError::TimedOut { operation }),
    }
}

fn done<T>(answer: Answer<T>) -> Result<T, StoreError> {
    answer.map_err(|(operation, status)| failed(operation, &status))
}

/// Maps `NOT_FOUND` to `None`.
fn found<T>(answer: Answer<T>) -> Result<Option<T>, StoreError> {
    match answer {
        Err((_, status)) if status.code() == Code::NotFound => Ok(None),
        answer => done(answer).map(Some),
    }
}

fn failed(operation: &'static str, status: &Status) -> StoreError {
    match status.code() {
        Code::Unimplemented => StoreError::Unsupported(operation),
        _ => StoreError::Failed { operation, message: status.message().to_owned() },
    }
}

#[async_trait]
impl ImageStore for Containerd {
    async fn target(&self, name: &str) -> Result<Option<Digest>, StoreError> {
        let managed = |image: &Image| image.labels.get(MANAGED.0).is_some_and(|value| value == MANAGED.1);
        let image = self.image(name).await?.filter(managed);
        Ok(image.and_then(|image| Digest::parse(&image.target?.digest)))
    }

    async fn put(&self, name: &str, target: &Target) -> Result<(), StoreError> {
        let mut image = self.image(name).await?.unwrap_or_default();
        let exists = !image.name.is_empty();
        image.name = name.to_owned();
        image.labels.insert(MANAGED.0.to_owned(), MANAGED.1.to_owned());
        image.target = Some(Descriptor {
            media_type: target.media_type.clone(),
            digest: target.digest.to_string(),
            size: size(target.size)?,
            annotations: HashMap::new(),
        });
        // The CRI plugin learns of both from containerd's events.
        if exists {
            let update = UpdateImageRequest { image: Some(image), ..UpdateImageRequest::default() };
            done(call("updating an image", self.images().update(request(update))).await?)?;
        } else {
            let create = CreateImageRequest { image: Some(image), ..CreateImageRequest::default() };
            done(call("creating an image", self.images().create(request(create))).await?)?;
        }
        Ok(())
    }

    async fn lease(&self) -> Result<String, StoreError> {
        let now = Timestamp::now();
        let id = format!("hostlet-preload-{}-{}", std::process::id(), now.as_nanosecond());
        // In case the daemon is killed before it deletes the lease.
        let end = now.checked_add(24.hours()).unwrap_or(Timestamp::MAX);
        let create =
            CreateRequest { id, labels: HashMap::from([(EXPIRE_LABEL.to_owned(), end.to_string())]) };
        let answer = done(call("creating a lease", self.leases().create(request(create))).await?)?;
        Ok(answer.lease.map(|lease| lease.id).unwrap_or_default())
    }

    async fn release(&self, lease: &str) -> Result<(), StoreError> {
        let delete = DeleteRequest { id: lease.to_owned(), sync: false };
        found(call("ending a lease", self.leases().delete(request(delete))).await?)?;
        Ok(())
    }

    async fn hold(&self, blob: LeasedBlob<'_>) -> Result<bool, StoreError> {
        // Added to the lease first, so that a blob found afterwards cannot be collected.
        let resource = Resource { id: blob.digest.to_string(), r#type: "content".to_owned() };
        let add = AddResourceRequest { id: blob.lease.to_owned(), resource: Some(resource) };
        done(call("leasing content", self.leases().add_resource(request(add))).await?)?;
        let info = InfoRequest { digest: blob.digest.to_string() };
        let info = found(call("looking for content", self.content().info(request(info))).await?)?;
        let Some(info) = info.and_then(|answer| answer.info) else { return Ok(false) };
        let mut labels = info.labels.clone();
        labels.extend(blob.labels.iter().map(|(key, value)| (key.clone(), value.clone())));
        if labels != info.labels {
            let info = Info { labels, ..info };
            let update = UpdateRequest { info: Some(info), update_mask: None };
            done(call("labeling content", self.content().update(request(update))).await?)?;
        }
        Ok(true)
    }

    async fn write(&self, blob: LeasedBlob<'_>) -> Result<Box<dyn BlobWriter>, StoreError> {
        let reference = format!("{PRELOAD_REFERENCE}{}", blob.digest);
        // Starting over is quicker than comparing what an earlier attempt left.
        let abort = AbortRequest { r#ref: reference.clone() };
        found(call("giving up an earlier write", self.content().abort(request(abort))).await?)?;

        let begin = WriteContentRequest {
            action: WriteAction::Stat as i32,
            r#ref: reference,
            total: size(blob.size)?,
            expected: blob.digest.to_string(),
            ..WriteContentRequest::default()
        };
        // Only one request is outstanding at a time, so the queue always has room.
        let (requests, mut queue) = mpsc::channel(1);
        let _ = requests.try_send(begin);
        let queue = stream::poll_fn(move |context| queue.poll_recv(context));
        let mut opening = request(queue);
        if let Ok(lease) = MetadataValue::try_from(blob.lease) {
            opening.metadata_mut().insert("containerd-lease", lease);
        }
        let labels = blob.labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        let mut content = self.content();
        let opened = call("writing content", content.write(opening)).await?;
        let responses = match opened {
            Err((_, status)) if status.code() == Code::AlreadyExists => None,
            opened => Some(done(opened)?),
        };
        let mut writer = Writer {
            requests,
            responses,
            digest: blob.digest.clone(),
            total: size(blob.size)?,
            labels,
            offset: 0,
        };
        writer.answer().await?;
        Ok(Box::new(writer))
    }
}

/// Sizes are signed integers in the API.
fn size(size: u64) -> Result<i64, StoreError> {
    i64::try_from(size).map_err(|_| StoreError::Failed {
        operation: "naming a size",
        message: format!("{size} is out of range"),
    })
}

/// A write in progress. Each request is answered before the next is sent.
struct Writer {
    requests: mpsc::Sender<WriteContentRequest>,
    /// `None` once the store has reported that it has the blob.
    responses: Option<Streaming<WriteContentResponse>>,
    digest: Digest,
    total: i64,
    labels: HashMap<String, String>,
    offset: i64,
}

impl Writer {
    /// Waits for the response to the last request.
    async fn answer(&mut self) -> Result<(), StoreError> {
        let operation = "writing content";
        let Some(responses) = &mut self.responses else { return Ok(()) };
        let message = tokio::time::timeout(DEADLINE, responses.message()).await;
        match message.map_err(|_| StoreError::TimedOut { operation })? {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(StoreError::Failed { operation, message: "the runtime hung up".to_owned() }),
            Err(status) if status.code() == Code::AlreadyExists => {
                self.responses = None;
                Ok(())
            }
            Err(status) => Err(failed(operation, &status)),
        }
    }

    async fn send(&mut self, message: WriteContentRequest) -> Result<(), StoreError> {
        if self.responses.is_some() {
            // A closed queue shows up in the response.
            let _ = self.requests.send(message).await;
        }
        self.answer().await
    }
}

#[async_trait]
impl BlobWriter for Writer {
    async fn write(&mut self, content: Bytes) -> Result<(), StoreError> {
        let offset = self.offset;
        self.offset = self.offset.saturating_add(size(content.len() as u64)?);
        let message = WriteContentRequest {
            action: WriteAction::Write as i32,
            offset,
            data: content.to_vec(),
            ..WriteContentRequest::default()
        };
        self.send(message).await
    }

    async fn commit(mut self: Box<Self>) -> Result<(), StoreError> {
        let message = WriteContentRequest {
            action: WriteAction::Commit as i32,
            total: self.total,
            expected: self.digest.to_string(),
            offset: self.offset,
            labels: std::mem::take(&mut self.labels),
            ..WriteContentRequest::default()
        };
        self.send(message).await
    }
}
