//! Download progress of pulls, from containerd's content store. Queried only on a user's request.

use std::time::Duration;

use async_trait::async_trait;
use containerd_client::services::v1::content_client::ContentClient;
use containerd_client::services::v1::{Info, ListContentRequest, ListStatusesRequest, Status as Ingest};
use hostlet_runtime::cri::containerd::request;
use jiff::Timestamp;
use tonic::Status;
use tonic::transport::Channel;

use super::preload::PRELOAD_REFERENCE;

/// Short, because a user waits for the response, which is optional.
const DEADLINE: Duration = Duration::from_secs(2);

/// A source of download progress.
#[async_trait]
pub trait Arrivals: Send + Sync + 'static {
    /// Compressed bytes downloaded since `since`, in complete and incomplete blobs of all pulls together. `None` if
    /// unknown.
    async fn bytes_since(&self, since: Timestamp) -> Option<u64>;
}

/// Progress from containerd's content store; unknown with other runtimes.
#[derive(Clone, Debug)]
pub struct ContainerdArrivals {
    channel: Channel,
}

impl ContainerdArrivals {
    /// Uses the runtime behind `channel`.
    pub fn new(channel: Channel) -> Self {
        Self { channel }
    }

    async fn query(&self, since: Timestamp) -> Result<u64, Status> {
        let mut content = ContentClient::new(self.channel.clone());
        // In this order, a blob completed between the two calls is counted twice rather than not at all.
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
        match tokio::time::timeout(DEADLINE, self.query(since)).await {
            Ok(Ok(bytes)) => Some(bytes),
            Ok(Err(_)) | Err(_) => None,
        }
    }
}

/// Bytes of incomplete blobs. A download interrupted earlier is resumed, so it counts too.
fn arriving(ingests: &[Ingest], since: Timestamp) -> u64 {
    let is_pulled = |ingest: &&Ingest| {
        let name = ingest.r#ref.rsplit('/').next().unwrap_or_default();
        !name.starts_with(PRELOAD_REFERENCE) && is_later(ingest.updated_at.as_ref(), since)
    };
    ingests.iter().filter(is_pulled).map(|ingest| u64::try_from(ingest.offset).unwrap_or(0)).sum()
}

/// Bytes of complete blobs.
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
    fn new_downloads_are_counted_and_preloaded_blobs_are_not() {
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
