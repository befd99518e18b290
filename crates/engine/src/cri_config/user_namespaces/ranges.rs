//! Which ranges are in use. Pure.

use std::collections::{BTreeMap, BTreeSet};

use hostlet_base::PodUid;

/// Consecutive IDs of the host. ID 0 of a pod is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdRange {
    /// The first ID.
    pub first: u32,
    /// How many there are.
    pub length: u32,
}

/// Why a range cannot be used. The texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RangeError {
    /// The IDs of the user `kubelet` do not begin at a multiple of the length of a range.
    #[error("kubelet user assigned ID {first} is not a multiple of {length}")]
    NotAligned {
        /// Where they begin.
        first: u32,
        /// The length of a range.
        length: u32,
    },
    /// They include IDs of the host's own users.
    #[error("kubelet user assigned ID {first} must be greater or equal to {length}")]
    TooLow {
        /// Where they begin.
        first: u32,
        /// The length of a range.
        length: u32,
    },
    /// They do not end with a range.
    #[error("kubelet user assigned IDs length {all} is not a multiple of {length}")]
    NotDivisible {
        /// How many they are.
        all: u32,
        /// The length of a range.
        length: u32,
    },
    /// They are fewer than the pods that may run.
    #[error("kubelet user assigned IDs are not enough to support {0} pods")]
    TooFew(usize),
    /// All ranges are in use.
    #[error("could not find an empty slot to allocate a user namespace")]
    Exhausted,
    /// A pod's range has another length than now configured.
    #[error("wrong user namespace length {0}")]
    Length(u32),
    /// A pod's range does not begin at a multiple of its length.
    #[error("wrong user namespace offset specified {0}")]
    Offset(u32),
    /// A pod's range is not among the IDs of the user `kubelet`.
    #[error("id {0} is out of range")]
    OutOfRange(u32),
    /// Another pod has this range.
    #[error("range picked for pod {0:?} already taken")]
    Taken(String),
    /// The pod has another range.
    #[error("different user namespace range already used by pod {0:?}")]
    Different(String),
}

/// The ranges of a pool of IDs, and the pods that use them.
#[derive(Debug)]
pub(super) struct Ranges {
    pool: IdRange,
    /// The length of each.
    length: u32,
    /// First IDs by pod.
    used: BTreeMap<PodUid, u32>,
    taken: BTreeSet<u32>,
    /// Where the next search begins, so that a range is not used again at once.
    next: u32,
}

impl Ranges {
    /// The ranges of `length` IDs in `pool`, for at least `most` pods.
    pub(super) fn new(pool: IdRange, length: u32, most: usize) -> Result<Self, RangeError> {
        let (first, all) = (pool.first, pool.length);
        if length == 0 || first % length != 0 {
            return Err(RangeError::NotAligned { first, length });
        }
        if first < length {
            return Err(RangeError::TooLow { first, length });
        }
        if all % length != 0 {
            return Err(RangeError::NotDivisible { all, length });
        }
        if u32::try_from(most).map_or(true, |most| all / length < most) {
            return Err(RangeError::TooFew(most));
        }
        Ok(Self { pool, length, used: BTreeMap::new(), taken: BTreeSet::new(), next: first })
    }

    /// Records the range that a pod has.
    pub(super) fn record(&mut self, uid: &PodUid, range: IdRange) -> Result<(), RangeError> {
        let IdRange { first, length } = range;
        if length != self.length {
            return Err(RangeError::Length(length));
        }
        if first % length != 0 {
            return Err(RangeError::Offset(first));
        }
        match self.used.get(uid) {
            Some(known) if *known == first => return Ok(()),
            Some(_) => return Err(RangeError::Different(uid.to_string())),
            None => {}
        }
        if first < self.pool.first || first - self.pool.first >= self.pool.length {
            return Err(RangeError::OutOfRange(first));
        }
        if !self.taken.insert(first) {
            return Err(RangeError::Taken(uid.to_string()));
        }
        self.used.insert(uid.clone(), first);
        Ok(())
    }

    /// A free range for a pod that has none.
    pub(super) fn allocate(&mut self, uid: &PodUid) -> Result<IdRange, RangeError> {
        let count = self.pool.length / self.length;
        let start = (self.next - self.pool.first) / self.length;
        let at = |offset: u32| self.pool.first + ((start + offset) % count) * self.length;
        let free = (0..count).map(at).find(|first| !self.taken.contains(first));
        let first = free.ok_or(RangeError::Exhausted)?;
        let range = IdRange { first, length: self.length };
        self.record(uid, range)?;
        self.next = first;
        Ok(range)
    }

    /// Frees the pod's range.
    pub(super) fn release(&mut self, uid: &PodUid) {
        if let Some(first) = self.used.remove(uid) {
            self.taken.remove(&first);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LENGTH: u32 = 65_536;

    fn ranges(count: u32) -> Ranges {
        Ranges::new(IdRange { first: 2 * LENGTH, length: count * LENGTH }, LENGTH, 2).unwrap()
    }

    #[test]
    fn a_pool_consists_of_whole_ranges_beyond_the_hosts_users() {
        let error = |first, length| Ranges::new(IdRange { first, length }, LENGTH, 2).unwrap_err();
        assert_eq!(error(LENGTH + 1, LENGTH), RangeError::NotAligned { first: LENGTH + 1, length: LENGTH });
        assert_eq!(error(0, LENGTH), RangeError::TooLow { first: 0, length: LENGTH });
        assert_eq!(error(LENGTH, LENGTH + 1), RangeError::NotDivisible { all: LENGTH + 1, length: LENGTH });
        assert_eq!(error(LENGTH, LENGTH), RangeError::TooFew(2));
        // All IDs of a host.
        let all = IdRange { first: LENGTH, length: u32::MAX - LENGTH + 1 };
        let mut all = Ranges::new(all, LENGTH, 110).unwrap();
        let last = IdRange { first: u32::MAX - LENGTH + 1, length: LENGTH };
        all.record(&"last".into(), last).unwrap();
        assert_eq!(all.allocate(&"first".into()).unwrap().first, LENGTH);
    }

    #[test]
    fn only_ranges_of_the_pool_are_recorded_and_each_once() {
        let mut ranges = ranges(4);
        let of = |first, length| IdRange { first, length };
        let uid = PodUid::from("a");
        assert_eq!(ranges.record(&uid, of(2 * LENGTH, 5)), Err(RangeError::Length(5)));
        assert_eq!(ranges.record(&uid, of(7, LENGTH)), Err(RangeError::Offset(7)));
        for first in [LENGTH, 6 * LENGTH] {
            assert_eq!(ranges.record(&uid, of(first, LENGTH)), Err(RangeError::OutOfRange(first)));
        }
        assert_eq!(ranges.record(&uid, of(3 * LENGTH, LENGTH)), Ok(()));
        assert_eq!(ranges.record(&uid, of(3 * LENGTH, LENGTH)), Ok(()));
        assert_eq!(ranges.record(&uid, of(4 * LENGTH, LENGTH)), Err(RangeError::Different("a".to_owned())));
        let other = ranges.record(&"b".into(), of(3 * LENGTH, LENGTH));
        assert_eq!(other, Err(RangeError::Taken("b".to_owned())));
    }

    proptest! {
        #[test]
        fn no_two_pods_share_ids(steps in prop::collection::vec((0..12_u8, any::<bool>()), 0..200)) {
            let mut ranges = ranges(8);
            let mut model = BTreeMap::<u8, IdRange>::new();
            for (pod, allocates) in steps {
                let uid = PodUid::from(format!("pod-{pod}"));
                if !allocates {
                    ranges.release(&uid);
                    model.remove(&pod);
                } else if !model.contains_key(&pod) {
                    match ranges.allocate(&uid) {
                        Ok(range) => {
                            prop_assert!(model.values().all(|other| *other != range));
                            prop_assert!(range.first >= 2 * LENGTH && range.first < 10 * LENGTH);
                            prop_assert_eq!((range.first % LENGTH, range.length), (0, LENGTH));
                            model.insert(pod, range);
                        }
                        Err(error) => {
                            prop_assert_eq!(error, RangeError::Exhausted);
                            prop_assert_eq!(model.len(), 8);
                        }
                    }
                }
            }
        }
    }
}
