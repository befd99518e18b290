//! Which stored copies a pod uses because the API server has not answered.

use hostlet_cluster::api_objects::ServedCopy;
use jiff::Timestamp;

/// The sentence about these copies, if there are any.
pub(crate) fn stored_copies(copies: &[ServedCopy], now: Timestamp) -> Option<String> {
    let time = |at: Timestamp| at.strftime("%Y-%m-%d %H:%MZ").to_string();
    let described = |copy: &ServedCopy| {
        let state = match copy.expires {
            None => format!("sent {}", time(copy.sent_at)),
            Some(expires) if expires <= now => format!("expired {}", time(expires)),
            Some(expires) => format!("issued {}, expires {}", time(copy.sent_at), time(expires)),
        };
        format!("{} ({state})", copy.subject)
    };
    let list: Vec<String> = copies.iter().map(described).collect();
    let text = "Without an answer of the API server, the pod uses what it sent before";
    (!list.is_empty()).then(|| format!("{text}: {}.", list.join(", ")))
}

#[cfg(test)]
mod tests {
    use hostlet_cluster::api_objects::CopySubject;
    use hostlet_pod::objects::{ObjectRef, TokenRequest};

    use super::*;

    #[test]
    fn copies_are_listed_with_their_age() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let request = TokenRequest {
            namespace: "ns".to_owned(),
            service_account: "sa".to_owned(),
            service_account_uid: None,
            audiences: Vec::new(),
            expiration_seconds: 3600,
            pod_name: "web".to_owned(),
            pod_uid: "u1".to_owned(),
        };
        let copies = [
            ServedCopy {
                subject: CopySubject::Object(ObjectRef::secret("db", "ns")),
                sent_at: at("2026-11-21T07:00:30Z"),
                expires: None,
            },
            ServedCopy {
                subject: CopySubject::Token(request),
                sent_at: at("2026-11-21T07:01:00Z"),
                expires: Some(at("2026-11-21T08:01:00Z")),
            },
        ];
        let sentence = |now: &str| stored_copies(&copies, at(now)).unwrap();
        assert_eq!(
            sentence("2026-11-21T07:30:00Z"),
            "Without an answer of the API server, the pod uses what it sent before: secret ns/db (sent 2026-11-21 07:00Z), \
             token of serviceaccount ns/sa (issued 2026-11-21 07:01Z, expires 2026-11-21 08:01Z)."
        );
        assert!(sentence("2026-11-21T09:00:00Z").ends_with("ns/sa (expired 2026-11-21 08:01Z)."));
        assert_eq!(stored_copies(&[], at("2026-11-21T07:30:00Z")), None);
    }
}
