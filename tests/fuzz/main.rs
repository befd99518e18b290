//! The fuzz targets without a fuzzer: every input of the corpus, a bounded number of mutations of it from a seed, and
//! inputs too large for a repository.
//!
//! `HOSTLET_FUZZ_RUNS` sets how many mutations of each corpus are tried, `HOSTLET_FUZZ_SEED` from which seed.

#![allow(
    clippy::unwrap_used,
    reason = "what fails in a test is to fail the test; clippy knows only functions marked as tests"
)]

#[allow(unreachable_pub)] // a library for the fuzz targets
#[path = "../../fuzz/src/lib.rs"]
mod checks;
mod huge;
mod mutator;

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

use checks::{CHECKS, Check};
use mutator::Mutator;

const RUNS: u64 = 400;

/// The corpus of a target, by name.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut inputs: Vec<(String, Vec<u8>)> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(path).unwrap()))
        .collect();
    inputs.sort();
    inputs
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().map_or(default, |text| text.parse().unwrap())
}

fn run(target: &str) {
    let check: Check = CHECKS.iter().find(|(name, _)| *name == target).unwrap().1;
    let corpus = corpus(target);
    assert!(corpus.len() >= 5, "the corpus of {target} is missing");
    for (name, input) in &corpus {
        assert!(catch_unwind(|| check(input)).is_ok(), "fails on fuzz/corpus/{target}/{name}");
    }
    let seed = number("HOSTLET_FUZZ_SEED", 1);
    let inputs: Vec<Vec<u8>> = corpus.into_iter().map(|(_, input)| input).collect();
    for run in 0..number("HOSTLET_FUZZ_RUNS", RUNS) {
        let input = Mutator::new(seed, run).mutate(&inputs);
        let passed = catch_unwind(|| check(&input)).is_ok();
        assert!(passed, "fails with seed {seed} in run {run}; the input is b\"{}\"", input.escape_ascii());
    }
}

#[test]
fn queries_and_urls_of_streams() {
    run("stream_query");
}

#[test]
fn messages_of_streams() {
    run("stream_message");
}

#[test]
fn frames_of_a_runtime() {
    run("spdy_frames");
}

#[test]
fn queries_for_logs() {
    run("log_query");
}

#[test]
fn accepted_forms() {
    run("accept");
}

#[test]
fn manifests() {
    run("manifest");
}

#[test]
fn answers_of_a_url() {
    run("pod_answer");
}

#[test]
fn configurations() {
    run("config");
}

#[test]
fn log_lines() {
    run("log_line");
}

#[test]
fn kernel_files() {
    run("kernel_file");
}

#[test]
fn image_references() {
    run("image_reference");
}

#[test]
fn environment_files() {
    run("env_file");
}

#[test]
fn resolver_files() {
    run("resolv_conf");
}

#[test]
fn quantities() {
    run("quantity");
}

#[test]
fn store_files() {
    run("store_file");
}

#[test]
fn image_archives() {
    run("image_archive");
}

#[test]
fn plugin_infos() {
    run("plugin_info");
}

#[test]
fn messages_of_dra_drivers() {
    run("dra_message");
}

#[test]
fn docker_configurations() {
    run("docker_config");
}

#[test]
fn responses_of_credential_providers() {
    run("provider_response");
}

#[test]
fn messages_of_the_kernel() {
    run("kernel_log");
}

#[test]
fn redirects_of_probes() {
    run("probe_location");
}

/// Inputs that took gigabytes or minutes, or could; none may exhaust the memory of the host.
#[test]
fn huge_inputs_take_bounded_memory() {
    for (target, check) in CHECKS {
        for (what, input) in huge::inputs(target) {
            assert!(catch_unwind(|| check(&input)).is_ok(), "{target} fails on {what}");
        }
    }
    let peak =
        procfs::process::Process::myself().and_then(|process| process.status()).unwrap().vmhwm.unwrap();
    assert!(peak < 1 << 20, "{peak} KiB were in use at once");
}
