//! The life of one certificate, from its first request to its last renewal: what to do next, and what to report. Pure. All times are of
//! this host's steady clock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::PodEvent;
use hostlet_pod::objects::{CertificateError, CertificateState, Credential};
use jiff::{SignedDuration, Timestamp};

/// Maximum jitter of a renewal, so that pods that start together do not renew together; upstream's constant.
const MAX_JITTER: Duration = Duration::from_secs(5 * 60);

/// A certificate that was not renewed this long after its renewal was due is overdue; upstream's constant.
const OVERDUE: SignedDuration = SignedDuration::from_mins(10);

/// A created request, and the key that it is for.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Requested {
    /// `metadata.name` of the PodCertificateRequest.
    pub(super) name: String,
    /// The private key as PEM.
    pub(super) key: String,
    /// What the times of the API server are ahead of this host's.
    pub(super) ahead: SignedDuration,
}

/// Never prints the key.
impl fmt::Debug for Requested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A certificate that the pod has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) credential: Arc<Credential>,
    /// When it is to be renewed.
    pub(super) renew_at: Timestamp,
    /// When it expires.
    pub(super) expires: Timestamp,
    is_overdue_reported: bool,
    is_expiry_reported: bool,
}

impl Held {
    fn overdue_at(&self) -> Timestamp {
        self.renew_at.saturating_add(OVERDUE).unwrap_or(self.renew_at)
    }

    /// The next time at which something is to be reported.
    fn next_report(&self) -> Option<Timestamp> {
        let overdue = (!self.is_overdue_reported).then(|| self.overdue_at());
        // An expiry is reported only once its renewal was due, as upstream.
        let expiry = (!self.is_expiry_reported).then(|| self.expires.max(self.renew_at));
        overdue.into_iter().chain(expiry).min()
    }

    fn reports(&mut self, now: Timestamp) -> Vec<PodEvent> {
        let mut events = Vec::new();
        if !self.is_overdue_reported && now > self.overdue_at() {
            self.is_overdue_reported = true;
            events.push(PodEvent::warning("CertificateOverdueForRefresh", "PodCertificate refresh overdue"));
        }
        if !self.is_expiry_reported && now > self.expires.max(self.renew_at) {
            self.is_expiry_reported = true;
            events.push(PodEvent::warning("CertificateExpired", "PodCertificate expired"));
        }
        events
    }
}

/// Where a certificate is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lifecycle {
    /// Nothing is requested yet.
    Initial,
    /// The first request waits for its signer.
    Waiting(Requested),
    /// The pod has a certificate.
    Fresh(Held),
    /// The pod has one, and the request for its successor waits for its signer.
    Renewing(Held, Requested),
    /// The signer denied a request. Nothing more is requested.
    Denied { reason: String, message: String },
    /// The signer failed. Nothing more is requested.
    Failed { reason: String, message: String },
}

/// What a signer decided about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// A certificate with these times, of the API server's clock.
    Issued { chain: String, renew_at: Timestamp, expires: Timestamp },
    /// It was denied.
    Denied { reason: String, message: String },
    /// The signer failed.
    Failed { reason: String, message: String },
    /// The request was deleted undecided.
    Deleted,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Create a request.
    Request,
    /// Wait for the decision about the request with this name.
    Await(String),
    /// Nothing until then.
    Sleep(Timestamp),
    /// Nothing any more.
    Rest,
}

impl Lifecycle {
    /// What to do next.
    pub(super) fn step(&self, now: Timestamp) -> Step {
        match self {
            Self::Initial => Step::Request,
            Self::Waiting(requested) | Self::Renewing(_, requested) => Step::Await(requested.name.clone()),
            Self::Fresh(held) if now < held.renew_at => Step::Sleep(held.renew_at),
            Self::Fresh(_) => Step::Request,
            Self::Denied { .. } | Self::Failed { .. } => Step::Rest,
        }
    }

    /// A request was created. Without effect while another one waits.
    pub(super) fn requested(self, requested: Requested) -> Self {
        match self {
            Self::Initial => Self::Waiting(requested),
            Self::Fresh(held) => Self::Renewing(held, requested),
            Self::Waiting(_) | Self::Renewing(..) | Self::Denied { .. } | Self::Failed { .. } => self,
        }
    }

    /// The request of `pod` that waits was decided; `jitter` is from 0 to 1. Returns what to report. Without effect while none waits.
    pub(super) fn decided(self, decision: Decision, pod: &str, jitter: f64) -> (Self, Option<PodEvent>) {
        let (held, requested) = match self {
            Self::Waiting(requested) => (None, requested),
            Self::Renewing(held, requested) => (Some(held), requested),
            Self::Initial | Self::Fresh(_) | Self::Denied { .. } | Self::Failed { .. } => {
                return (self, None);
            }
        };
        let event = |verb: &str, kind: &'static str, reason: &str, message: &str| {
            let name = &requested.name;
            let text =
                format!("PodCertificateRequest {pod}/{name} {verb}, reason={reason:?}, message={message:?}");
            Some(PodEvent::warning(kind, text))
        };
        match decision {
            Decision::Issued { chain, renew_at, expires } => {
                let here = |at: Timestamp| at.saturating_sub(requested.ahead).unwrap_or(at);
                let later = here(renew_at).saturating_add(MAX_JITTER.mul_f64(jitter.clamp(0.0, 1.0)));
                let held = Held {
                    renew_at: later.unwrap_or_else(|_| here(renew_at)),
                    expires: here(expires),
                    credential: Arc::new(Credential { key: requested.key, chain }),
                    is_overdue_reported: false,
                    is_expiry_reported: false,
                };
                (Self::Fresh(held), None)
            }
            Decision::Denied { reason, message } => {
                let event = event("was denied", "Denied", &reason, &message);
                (Self::Denied { reason, message }, event)
            }
            Decision::Failed { reason, message } => {
                let event = event("failed", "Failed", &reason, &message);
                (Self::Failed { reason, message }, event)
            }
            Decision::Deleted => (held.map_or(Self::Initial, Self::Fresh), None),
        }
    }

    /// The certificate that the pod has.
    pub(super) fn held(&self) -> Option<&Held> {
        match self {
            Self::Fresh(held) | Self::Renewing(held, _) => Some(held),
            Self::Initial | Self::Waiting(_) | Self::Denied { .. } | Self::Failed { .. } => None,
        }
    }

    /// The events that are due, each of which is reported once.
    pub(super) fn reports(&mut self, now: Timestamp) -> Vec<PodEvent> {
        match self {
            Self::Fresh(held) | Self::Renewing(held, _) => held.reports(now),
            Self::Initial | Self::Waiting(_) | Self::Denied { .. } | Self::Failed { .. } => Vec::new(),
        }
    }

    /// The next time at which an event is due.
    pub(super) fn next_report(&self) -> Option<Timestamp> {
        self.held().and_then(Held::next_report)
    }

    /// What the pod's volume gets; `None` if nothing has been decided.
    pub(super) fn published(&self) -> Option<CertificateState> {
        let failed = CertificateState::Failed;
        match self {
            Self::Initial | Self::Waiting(_) => None,
            Self::Fresh(held) | Self::Renewing(held, _) => {
                Some(CertificateState::Issued(held.credential.clone()))
            }
            Self::Denied { reason, message } => {
                let (reason, message) = (reason.clone(), message.clone());
                Some(failed(CertificateError::Denied { reason, message }))
            }
            Self::Failed { reason, message } => {
                let (reason, message) = (reason.clone(), message.clone());
                Some(failed(CertificateError::Failed { reason, message }))
            }
        }
    }

    /// What metrics need of it.
    pub(super) fn counted(&self) -> Counted {
        match self {
            Self::Initial | Self::Waiting(_) => Counted::NotYetIssued,
            Self::Fresh(held) | Self::Renewing(held, _) => {
                Counted::Held { overdue_at: held.overdue_at(), expires: held.expires }
            }
            Self::Denied { .. } => Counted::Denied,
            Self::Failed { .. } => Counted::Failed,
        }
    }
}

/// A certificate as metrics count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// The pod has none yet.
    NotYetIssued,
    /// It was denied.
    Denied,
    /// The signer failed.
    Failed,
    /// The pod has one.
    Held {
        /// From when on it is overdue.
        overdue_at: Timestamp,
        /// When it expires.
        expires: Timestamp,
    },
}

impl Counted {
    /// Upstream's label.
    pub(super) fn label(self, now: Timestamp) -> &'static str {
        match self {
            Self::NotYetIssued => "not_yet_issued",
            Self::Denied => "denied",
            Self::Failed => "failed",
            Self::Held { expires, .. } if now > expires => "expired",
            Self::Held { overdue_at, .. } if now > overdue_at => "overdue_for_refresh",
            Self::Held { .. } => "fresh",
        }
    }
}
