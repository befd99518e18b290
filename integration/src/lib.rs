//! Integration.
