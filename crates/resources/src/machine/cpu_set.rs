//! Sets of CPUs. Text is the kernel's list format, as `k8s.io/utils/cpuset` reads and writes it.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use hostlet_base::{CpuListError, cpu_list};

/// A set of CPU numbers, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuSet(BTreeSet<u32>);

impl CpuSet {
    /// The set without CPUs.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many CPUs are in the set.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the set has no CPU.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a CPU is in the set.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// The CPUs that are in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self(self.0.union(&other.0).copied().collect())
    }

    /// The CPUs that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).copied().collect())
    }

    /// The CPUs of this set that are not in the other one.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).copied().collect())
    }

    /// Whether every CPU of this set is in the other one.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }

    /// Whether the sets share no CPU.
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.0.is_disjoint(&other.0)
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<T: IntoIterator<Item = u32>>(cpus: T) -> Self {
        Self(cpus.into_iter().collect())
    }
}

impl FromStr for CpuSet {
    type Err = CpuListError;

    /// Reads `0-2,4`; the empty text is the empty set.
    fn from_str(text: &str) -> Result<Self, CpuListError> {
        if text.is_empty() { Ok(Self::new()) } else { cpu_list(text).map(Self) }
    }
}

impl fmt::Display for CpuSet {
    /// The shortest list: neighbors become ranges.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if(|next| *next == last + 1) {
                last = next;
            }
            write!(f, "{separator}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_are_read_as_upstream_does() {
        for (text, shown) in [("", ""), ("5", "5"), ("3,0-1,2", "0-3"), ("1-1", "1"), ("0,2-3,9", "0,2-3,9")]
        {
            assert_eq!(text.parse::<CpuSet>().unwrap().to_string(), shown, "{text:?}");
        }
        for text in ["x", "1-", "-1", "3-1", "1,,2", "0x1", "99999999"] {
            assert!(text.parse::<CpuSet>().is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(cpus in proptest::collection::btree_set(0_u32..300, 0..64)) {
            let set: CpuSet = cpus.into_iter().collect();
            prop_assert_eq!(set.to_string().parse::<CpuSet>().unwrap(), set);
        }

        #[test]
        fn operations_divide_a_set(a in proptest::collection::btree_set(0_u32..99, 0..64), b in proptest::collection::btree_set(0_u32..99, 0..64)) {
            let (a, b): (CpuSet, CpuSet) = (a.into_iter().collect(), b.into_iter().collect());
            let (both, only) = (a.intersection(&b), a.difference(&b));
            prop_assert!(both.is_disjoint(&only));
            prop_assert!(both.is_subset(&b));
            prop_assert_eq!(both.union(&only), a);
        }
    }
}
