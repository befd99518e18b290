//! The findings in the store, by pod: a new daemon neither makes a ready pod unready nor forgets that a container has to be restarted. A row
//! is written when a finding changes.

use serde::{Deserialize, Serialize};

use hostlet_base::{ContainerId, PodUid};
use hostlet_pod::{ContainerProbes, PodProbes, ProbeKind, ProbeResults};
use hostlet_store::{Store, Table};

/// The findings for an instance of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StoredFindings {
    container: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    started: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    ready: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed: Option<StoredKind>,
}

/// The probe that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum StoredKind {
    Startup,
    Liveness,
}

/// Restores the findings of an earlier daemon.
pub(super) fn restore(store: &Store, results: &ProbeResults) {
    for (uid, rows) in store.all::<Vec<StoredFindings>>(Table::ProbeResults) {
        let one = |row: StoredFindings| {
            let failed = row.failed.map(|failed| match failed {
                StoredKind::Startup => ProbeKind::Startup,
                StoredKind::Liveness => ProbeKind::Liveness,
            });
            let found = ContainerProbes { started: row.started, ready: row.ready, failed };
            (ContainerId::from(row.container), found)
        };
        results.set(&PodUid::from(uid), PodProbes(rows.into_iter().map(one).collect()));
    }
}

/// Stores the findings for a pod: those that say something.
pub(super) fn put(store: &Store, pod: &PodUid, found: &PodProbes) {
    let one = |(id, found): (&ContainerId, &ContainerProbes)| StoredFindings {
        container: id.to_string(),
        started: found.started,
        ready: found.ready,
        failed: match found.failed {
            Some(ProbeKind::Startup) => Some(StoredKind::Startup),
            Some(ProbeKind::Liveness) => Some(StoredKind::Liveness),
            Some(ProbeKind::Readiness) | None => None,
        },
    };
    let known = found.0.iter().filter(|(_, found)| **found != ContainerProbes::default());
    let rows: Vec<StoredFindings> = known.map(one).collect();
    match rows.is_empty() {
        true => store.remove(Table::ProbeResults, pod.as_str()),
        false => store.put(Table::ProbeResults, pod.as_str(), &rows),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_survive_the_daemon() {
        let store = Store::default();
        let found = |started, ready, failed| ContainerProbes { started, ready, failed };
        let all = [
            found(false, false, None),
            found(true, true, None),
            found(true, false, Some(ProbeKind::Liveness)),
            found(false, false, Some(ProbeKind::Startup)),
        ];
        let ids = ["a", "b", "c", "d"].map(ContainerId::from);
        let found = PodProbes(ids.into_iter().zip(all).collect());
        let pod = PodUid::from("u");
        put(&store, &pod, &found);
        let results = ProbeResults::default();
        restore(&store.copy(), &results);
        let known: Vec<_> = found.0.into_iter().skip(1).collect();
        assert_eq!(*results.of(&pod), PodProbes(known.into_iter().collect()));
        let row: serde_json::Value = store.get(Table::ProbeResults, "u").unwrap();
        assert_eq!(row[1], serde_json::json!({"container": "c", "started": true, "failed": "liveness"}));
        put(&store, &pod, &PodProbes([("a".into(), ContainerProbes::default())].into()));
        assert!(store.keys(Table::ProbeResults).is_empty());
    }
}
