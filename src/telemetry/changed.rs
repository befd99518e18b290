//! For what is looked at again and again: is it worth a line this time? Pure.

/// The last value seen of something that is observed in a loop, so that a line is logged when it changes and not each
/// time round.
#[derive(Clone, Debug)]
pub struct Changed<T> {
    last: Option<T>,
}

impl<T: PartialEq> Changed<T> {
    /// Nothing was seen yet.
    pub const fn new() -> Self {
        Self { last: None }
    }

    /// Whether `value` differs from the one before; the first always does.
    #[must_use]
    pub fn see(&mut self, value: T) -> bool {
        let changed = self.last.as_ref() != Some(&value);
        self.last = Some(value);
        changed
    }
}

impl<T: PartialEq> Default for Changed<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_are_worth_a_line() {
        let mut condition = Changed::new();
        let seen = ["down", "down", "up", "up", "down"].map(|value| condition.see(value));
        assert_eq!(seen, [true, false, true, false, true]);
    }
}
