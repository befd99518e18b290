//! Discovery of what the server has of the group of certificates, whose resources depend on its version.

use serde_json::{Value, json};

use super::objects::RejectedRequest;
use super::server::{FakeApi, State};

/// The path of the group.
const GROUP: &str = "/apis/certificates.k8s.io/";

/// What not every server has.
const RESOURCES: [&str; 2] = ["clustertrustbundles", "podcertificaterequests"];

impl FakeApi {
    /// Makes the server have trust bundles and requests for certificates of pods in these versions only; at first it is `v1`.
    pub fn serve_certificates(&self, versions: &[&'static str]) {
        self.lock().lacks_certificates =
            ["v1", "v1beta1"].into_iter().filter(|one| !versions.contains(one)).collect();
        self.wake();
    }
}

/// The answer to a request for the resources of a version of the group, or for such a resource that the server does not have; `None` for
/// other requests.
pub(super) fn answer(state: &State, path: &str) -> Option<Result<Value, RejectedRequest>> {
    let (version, resource) = match path.strip_prefix(GROUP)?.split_once('/') {
        Some((version, rest)) => (version, RESOURCES.into_iter().find(|name| rest.contains(name))?),
        None => (path.strip_prefix(GROUP)?, ""),
    };
    let has_them = !state.lacks_certificates.contains(version);
    let missing = || Err((404, "NotFound", "the server could not find the requested resource".to_owned()));
    if !resource.is_empty() {
        return (!has_them).then(missing);
    }
    let resource =
        |name: &&str| json!({"name": name, "singularName": "", "namespaced": false, "kind": "", "verbs": []});
    let resources: Vec<Value> = RESOURCES.iter().filter(|_| has_them).map(resource).collect();
    let group = format!("certificates.k8s.io/{version}");
    Some(Ok(
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group, "resources": resources}),
    ))
}
