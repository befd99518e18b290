//! Lists that the runtime streams, a batch a message (KEP-5825; containerd 2.4), so that no list is too large to be sent. A
//! runtime that has no such streams is remembered, and asked again once the connection to it was lost: it may be a newer one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::uri::PathAndQuery;
use prost::Message;
use tonic::client::Grpc;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use super::super::calls::Subject;
use super::super::{CriError, Operation};
use super::connection::{CriClient, MAX_MESSAGE_BYTES};

/// Whether the runtime streams lists, as far as is known. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct StreamSupport(Arc<AtomicBool>);

impl Default for StreamSupport {
    /// A runtime that was not asked yet may have them.
    fn default() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }
}

impl StreamSupport {
    /// What is at the socket next may be another runtime.
    pub(super) fn ask_again(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_possible(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn is_missing(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// A list that the runtime streams.
pub(super) struct StreamedList {
    /// What is asked, as the plain list is called.
    pub(super) operation: Operation,
    /// The method's full name.
    pub(super) method: &'static str,
}

/// Everything that the stream carries; none if the runtime has no such stream. All batches together have the deadline
/// of an ordinary call, and a stream that breaks gives nothing, as a list would.
pub(super) async fn collect<Q, B, T>(
    client: &CriClient,
    list: StreamedList,
    request: Q,
    items: fn(B) -> Vec<T>,
) -> Result<Option<Vec<T>>, CriError>
where
    Q: Message + 'static,
    B: Message + Default + 'static,
    T: Send + 'static,
{
    if !client.streams().is_possible() {
        return Ok(None);
    }
    let StreamedList { operation, method } = list;
    let call = async {
        let mut grpc = Grpc::new(client.channel()).max_decoding_message_size(MAX_MESSAGE_BYTES);
        grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
        let (codec, path) = (ProstCodec::<Q, B>::default(), PathAndQuery::from_static(method));
        let mut batches = grpc.server_streaming(Request::new(request), path, codec).await?.into_inner();
        let mut all = Vec::new();
        while let Some(batch) = batches.message().await? {
            all.extend(items(batch));
        }
        Ok(Response::new(all))
    };
    match client.call(operation, Subject::Node, call).await {
        Ok(all) => Ok(Some(all)),
        Err(CriError::Unimplemented { .. }) => {
            client.streams().is_missing();
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
