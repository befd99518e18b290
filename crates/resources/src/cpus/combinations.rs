//! Small tools for lists of groups.

use std::collections::BTreeSet;

/// Every choice of `size` items, in the order of the items; calls `f` until it returns false.
pub(super) fn each_combination(items: &[u32], size: usize, f: &mut impl FnMut(&[u32]) -> bool) {
    let mut chosen: Vec<usize> = (0..size).collect();
    while size > 0 && size <= items.len() {
        let combination: Vec<u32> = chosen.iter().map(|at| items[*at]).collect();
        // The last position that can move on; those after it follow it closely.
        let movable = (0..size).rev().find(|at| chosen[*at] < items.len() - size + at);
        if !f(&combination) {
            return;
        }
        let Some(at) = movable else { return };
        let first = chosen[at] + 1;
        for (offset, position) in chosen[at..].iter_mut().enumerate() {
            *position = first + offset;
        }
    }
}

/// An iterator of which each item is listed once, where it comes first.
pub(super) trait Distinct {
    /// The list.
    fn distinct(self) -> Vec<u32>;
}

impl<I: Iterator<Item = u32>> Distinct for I {
    fn distinct(self) -> Vec<u32> {
        let mut seen = BTreeSet::new();
        self.filter(|item| seen.insert(*item)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_are_in_order_and_end_early() {
        let all = |items: &[u32], size| {
            let mut all = Vec::new();
            each_combination(items, size, &mut |combination| {
                all.push(combination.to_vec());
                all.len() < 4
            });
            all
        };
        assert_eq!(all(&[7, 5, 9], 2), [vec![7, 5], vec![7, 9], vec![5, 9]]);
        assert_eq!(all(&[1, 2, 3, 4, 5], 4).len(), 4);
        assert_eq!(all(&[1, 2], 2), [vec![1, 2]]);
        assert!(all(&[1, 2], 0).is_empty() && all(&[1], 2).is_empty());
        assert_eq!([3, 1, 3, 2, 1].into_iter().distinct(), [3, 1, 2]);
    }
}
