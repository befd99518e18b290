//! A violation of a rule by the configuration. Checks nothing itself.

/// A violation: the path of the field, and the rule.
pub(super) type Breach = (String, String);
