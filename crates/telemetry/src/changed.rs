//! Suppresses repeated log lines of periodic checks. Pure.

/// The last value of something observed in a loop, so that a line is logged only on a change.
#[derive(Clone, Debug)]
pub struct Changed<T> {
    last: Option<T>,
}

impl<T: PartialEq> Changed<T> {
    /// Without a value yet.
    pub const fn new() -> Self {
        Self { last: None }
    }

    /// Whether `value` differs from the previous one; always true for the first.
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
    fn only_changes_are_reported() {
        let mut condition = Changed::new();
        let seen = ["down", "down", "up", "up", "down"].map(|value| condition.see(value));
        assert_eq!(seen, [true, false, true, false, true]);
    }
}
