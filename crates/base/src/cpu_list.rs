//! Lists of CPUs as the kernel writes them, `0-2,4` (cpuset(7), "List format"). Pure.

use std::collections::BTreeSet;

/// Upper bound of CPU numbers, so that a range never expands to a huge set.
const MAX_CPUS: u32 = 1 << 16;

/// Why a text is not a list of CPUs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpuListError {
    /// A part of it is neither a number nor a range.
    #[error("{0:?} is not a list of CPUs such as \"0-2,4\"")]
    NotAList(String),
    /// The first CPU of a range is above the last.
    #[error("{0:?} has a range that ends before it begins")]
    Reversed(String),
}

/// The CPUs in a list.
pub fn cpu_list(text: &str) -> Result<BTreeSet<u32>, CpuListError> {
    let mut set = BTreeSet::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| text.trim().parse::<u32>().ok().filter(|cpu| *cpu < MAX_CPUS);
        let (Some(first), Some(last)) = (number(first), number(last)) else {
            return Err(CpuListError::NotAList(text.to_owned()));
        };
        if first > last {
            return Err(CpuListError::Reversed(text.to_owned()));
        }
        set.extend(first..=last);
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_numbers_and_ranges() {
        assert_eq!(cpu_list("0-2,4, 4\n").unwrap(), BTreeSet::from([0, 1, 2, 4]));
        for bad in ["", "a", "2-1", "0-", "0,,1", "0-4294967295"] {
            assert!(cpu_list(bad).is_err(), "{bad}");
        }
    }
}
