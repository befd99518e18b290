//! Tells the linker in which order the program's code is to be.
//!
//! The kernel maps 64 KB around each page of code that is used. Where rarely used code lies between the rest, nearly all of it
//! ends up mapped; in a place of its own it stays on disk.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=layout.ld");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    // Both linkers that are usual there, lld and GNU's, know such scripts.
    if is("PROFILE", "release") && is("CARGO_CFG_TARGET_OS", "linux") {
        let root = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{root}/layout.ld");
    }
}
