//! Shared parts of requests to containerd's own services on the CRI socket. Sends nothing itself.

use tonic::Request;
use tonic::metadata::MetadataValue;

/// The CRI's namespace in containerd.
pub const NAMESPACE: &str = "k8s.io";

/// A request in the CRI's namespace.
pub fn request<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("containerd-namespace", MetadataValue::from_static(NAMESPACE));
    request
}
