//! How the limits stand that keep reserved resources free, as `hostlet node` and `hostlet explain` show them. Sets no limit.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// The limit of a cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CgroupLimit {
    /// What is limited: `pods`, or the value of `enforceNodeAllocatable` for daemons of the host.
    pub of: String,
    /// The cgroup.
    pub cgroup: String,
    /// The amounts, by resource.
    pub amounts: BTreeMap<String, String>,
    /// Why it is not in force; `None` if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Where limits are published, one for each value of `of`.
pub type CgroupLimits = watch::Sender<Vec<CgroupLimit>>;

impl CgroupLimit {
    /// Publishes it in place of an earlier one of the same.
    pub fn publish(self, limits: &CgroupLimits) {
        limits.send_if_modified(|all| match all.iter_mut().find(|known| known.of == self.of) {
            Some(known) if *known == self => false,
            Some(known) => {
                *known = self;
                true
            }
            None => {
                all.push(self);
                true
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_replaces_an_earlier_one_of_the_same() {
        let (limits, mut seen) = watch::channel(Vec::new());
        let limit = |of: &str, problem: Option<&str>| CgroupLimit {
            of: of.to_owned(),
            problem: problem.map(str::to_owned),
            ..CgroupLimit::default()
        };
        for (of, problem, is_news) in [
            ("pods", Some("busy"), true),
            ("pods", Some("busy"), false),
            ("kube-reserved", None, true),
            ("pods", None, true),
        ] {
            limit(of, problem).publish(&limits);
            assert_eq!(seen.has_changed().unwrap(), is_news, "{of} {problem:?}");
            seen.mark_unchanged();
        }
        assert_eq!(*seen.borrow(), [limit("pods", None), limit("kube-reserved", None)]);
    }
}
