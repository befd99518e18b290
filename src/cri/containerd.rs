//! What is common to all questions to containerd's own services, which answer on the CRI's socket. Asks nothing itself.

use tonic::Request;
use tonic::metadata::MetadataValue;

/// The namespace of what the CRI has in containerd.
pub const NAMESPACE: &str = "k8s.io";

/// A request about what the CRI has.
pub fn request<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("containerd-namespace", MetadataValue::from_static(NAMESPACE));
    request
}
