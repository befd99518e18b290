//! Tests of the life of volumes.
