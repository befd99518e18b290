//! The program without a daemon: what scripts and service managers rely on before anything runs. Whatever needs a runtime or a socket is
//! tested in `integration`, which also relies on this file: with it, cargo builds the program together with the tests.

use std::process::{Command, Output};

#[allow(
    clippy::unwrap_used,
    reason = "what fails in a test is to fail the test; clippy knows only functions marked as tests"
)]
fn hostlet(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hostlet")).args(arguments).output().unwrap()
}

#[test]
fn the_version_is_that_of_the_workspace() {
    let output = hostlet(&["--version"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        concat!("hostlet ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

#[test]
fn an_unknown_flag_is_named_and_help_is_no_error() {
    let output = hostlet(&["--no-such-flag"]);
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
    assert!(String::from_utf8(output.stderr).unwrap().contains("--no-such-flag"));

    let output = hostlet(&["--help"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("doctor"));
}
