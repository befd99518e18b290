//! Certificate signing requests: approved and signed, denied or failed, like by an administrator and the controller manager.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::objects::RejectedRequest;
use super::path::Target;
use super::server::{FakeApi, State};

/// The path of certificate signing requests.
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

impl FakeApi {
    /// Approves and signs requests at once, with certificates that are valid for this long from now.
    pub fn issue_certificates(&self, lifetime: Option<Duration>) {
        self.lock().issues = lifetime;
    }

    /// Approves the request and signs a certificate that is valid for this long from now. Does nothing to other requests.
    pub fn issue_certificate(&self, name: &str, lifetime: Duration) {
        let now = self.clock.now();
        self.decide(name, |state, request| issue(state, request, now, lifetime));
    }

    /// Approves the request without signing it.
    pub fn approve_certificate(&self, name: &str) {
        self.decide(name, |_, request| Some(with_condition(request, "Approved", "")));
    }

    /// Denies the request.
    pub fn deny_certificate(&self, name: &str, message: &str) {
        self.decide(name, |_, request| Some(with_condition(request, "Denied", message)));
    }

    /// Lets the signer fail.
    pub fn fail_certificate(&self, name: &str, message: &str) {
        self.decide(name, |_, request| Some(with_condition(request, "Failed", message)));
    }

    fn decide(&self, name: &str, decided: impl FnOnce(&State, Value) -> Option<Value>) {
        let Some(target) = Target::of(&format!("{REQUESTS}/{name}")) else { return };
        let mut state = self.lock();
        if let Ok(request) = state.objects.get(&target)
            && let Some(request) = decided(&state, request)
        {
            // It was read under the same lock.
            let _ = state.objects.replace(&target, request);
        }
        drop(state);
        self.wake();
    }
}

/// Approves and signs a created request, if requests are to be.
pub(super) fn issue_at_once(
    state: &mut State,
    target: &Target,
    created: &Value,
    now: Timestamp,
) -> Result<(), RejectedRequest> {
    let (Some(lifetime), true) =
        (state.issues, target.resource.0 == "certificates.k8s.io/v1/certificatesigningrequests")
    else {
        return Ok(());
    };
    let name = created["metadata"]["name"].as_str().map(str::to_owned);
    match issue(state, created.clone(), now, lifetime) {
        Some(issued) => state.objects.replace(&Target { name, ..target.clone() }, issued).map(drop),
        None => Err((422, "Invalid", "spec.request: Invalid value: not a certificate request".to_owned())),
    }
}

fn issue(state: &State, request: Value, now: Timestamp, lifetime: Duration) -> Option<Value> {
    let pem = STANDARD.decode(request["spec"]["request"].as_str()?).ok()?;
    let pem = String::from_utf8(pem).ok()?;
    let certificate = state.authority.issue(&pem, now, lifetime).ok()?;
    let mut issued = with_condition(request, "Approved", "");
    issued["status"]["certificate"] = STANDARD.encode(certificate).into();
    Some(issued)
}

fn with_condition(mut request: Value, kind: &str, message: &str) -> Value {
    let condition = json!({"type": kind, "status": "True", "reason": "Test", "message": message});
    request["status"]["conditions"] = json!([condition]);
    request
}
