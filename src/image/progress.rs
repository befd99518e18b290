//! How much of the pulls under way has arrived, as far as containerd's content store tells. Asked when a person wants to
//! know, never by itself.

use std::time::Duration;

use async_trait::async_trait;
use containerd_client::services::v1::content_client::ContentClient;
use containerd_client::services::v1::{Info, ListContentRequest, ListStatusesRequest, Status as Ingest};
use jiff::Timestamp;
use tonic::Status;
use tonic::transport::Channel;

use super::preload::PRELOAD_REFERENCE;
use crate::cri::containerd::request;

/// A person waits for the answer, and can do without.
const DEADLINE: Duration = Duration::from_secs(2);

/// What arrived from registries.
#[async_trait]
pub trait Arrivals: Send + Sync + 'static {
    /// The bytes, compressed as they are, that pulls have brought since `since`: of blobs that are there and of blobs that
    /// are arriving. Which pull brought them is not told. `None` if nobody can say.
    async fn bytes_since(&self, since: Timestamp) -> Option<u64>;
}

/// What containerd's content store tells; nothing with a runtime that has none.
#[derive(Clone, Debug)]
pub struct ContainerdArrivals {
    channel: Channel,
}

impl ContainerdArrivals {
    /// Of the runtime at the other end of `channel`.
    pub fn new(channel: Channel) -> Self {
        Self { channel }
    }

    async fn ask(&self, since: Timestamp) -> Result<u64, Status> {
        let mut content = ContentClient::new(self.channel.clone());
        // Those first: a blob that becomes complete between the two calls is counted twice rather than not at all.
        let ingests = content.list_statuses(request(ListStatusesRequest { filters: Vec::new() })).await?;
        let mut bytes = arriving(&ingests.into_inner().statuses, since);
        let mut blobs = content.list(request(ListContentRequest { filters: Vec::new() })).await?.into_inner();
        while let Some(message) = blobs.message().await? {
            bytes = bytes.saturating_add(arrived(&message.info, since));
        }
        Ok(bytes)
    }
}

#[async_trait]
impl Arrivals for ContainerdArrivals {
    async fn bytes_since(&self, since: Timestamp) -> Option<u64> {
        match tokio::time::timeout(DEADLINE, self.ask(since)).await {
            Ok(Ok(bytes)) => Some(bytes),
            Ok(Err(_)) | Err(_) => None,
        }
    }
}

/// Bytes of blobs that are arriving. One that was begun before, and left off, is gone on with.
fn arriving(ingests: &[Ingest], since: Timestamp) -> u64 {
    let is_pulled = |ingest: &&Ingest| {
        let name = ingest.r#ref.rsplit('/').next().unwrap_or_default();
        !name.starts_with(PRELOAD_REFERENCE) && is_later(ingest.updated_at.as_ref(), since)
    };
    ingests.iter().filter(is_pulled).map(|ingest| u64::try_from(ingest.offset).unwrap_or(0)).sum()
}

/// Bytes of blobs that are there.
fn arrived(blobs: &[Info], since: Timestamp) -> u64 {
    let new = blobs.iter().filter(|blob| is_later(blob.created_at.as_ref(), since));
    new.map(|blob| u64::try_from(blob.size).unwrap_or(0)).sum()
}

fn is_later(time: Option<&prost_types::Timestamp>, since: Timestamp) -> bool {
    time.is_some_and(|time| (time.seconds, time.nanos) >= (since.as_second(), since.subsec_nanosecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Option<prost_types::Timestamp> {
        Some(prost_types::Timestamp { seconds, nanos: 0 })
    }

    #[test]
    fn what_came_since_is_counted_and_what_is_preloaded_is_not() {
        let since = Timestamp::from_second(100).unwrap();
        let ingest = |name: &str, offset, updated| Ingest {
            r#ref: name.to_owned(),
            offset,
            updated_at: at(updated),
            ..Ingest::default()
        };
        let ingests = [
            ingest("layer-sha256:aa", 5000, 130),
            ingest("k8s.io/4/layer-sha256:bb", 700, 100),
            ingest("layer-sha256:left-behind", 9, 99),
            ingest("hostlet-preload-sha256:cc", 10_000, 130),
            ingest("layer-sha256:odd", -1, 130),
        ];
        assert_eq!(arriving(&ingests, since), 5700);
        let blob = |size, created| Info { size, created_at: at(created), ..Info::default() };
        assert_eq!(arrived(&[blob(30, 120), blob(40, 90), blob(2, 100)], since), 32);
        assert_eq!(arrived(&[Info { size: 5, ..Info::default() }], since), 0);
    }
}
