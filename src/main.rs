//! hostlet.
fn main() {}
