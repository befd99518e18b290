//! Wire definitions.
