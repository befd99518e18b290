//! Small shared types. No I/O.
