//! The fuzz targets without a fuzzer: every input of the corpus, a bounded number of mutations of it from a seed, and
//! inputs too large for a repository.
//!
//! `HOSTLET_FUZZ_RUNS` sets how many mutations of each corpus are tried, `HOSTLET_FUZZ_SEED` from which seed.

#![allow(
    clippy::unwrap_used,
    reason = "what fails in a test is to fail the test; clippy knows only functions marked as tests"
)]

// The targets' own files, for which this program is the two crates that they name.
extern crate self as hostlet_fuzz;
extern crate self as libfuzzer_sys;

#[allow(unreachable_pub)] // a library for the fuzz targets
#[path = "../../fuzz/src/lib.rs"]
mod checks;
mod huge;
mod mutator;
#[allow(unused_attributes, reason = "a program of its own has no `main`")]
#[path = "../../fuzz/fuzz_targets"]
mod targets {
    pub(crate) mod accept;
    pub(crate) mod claims_state;
    pub(crate) mod config;
    pub(crate) mod device_checkpoint;
    pub(crate) mod docker_config;
    pub(crate) mod dra_message;
    pub(crate) mod env_file;
    pub(crate) mod image_archive;
    pub(crate) mod image_reference;
    pub(crate) mod kernel_file;
    pub(crate) mod kernel_log;
    pub(crate) mod log_line;
    pub(crate) mod log_query;
    pub(crate) mod manifest;
    pub(crate) mod numa_state;
    pub(crate) mod plugin_info;
    pub(crate) mod pod_answer;
    pub(crate) mod probe_location;
    pub(crate) mod provider_response;
    pub(crate) mod quantity;
    pub(crate) mod resolv_conf;
    pub(crate) mod spdy_frames;
    pub(crate) mod store_file;
    pub(crate) mod stream_message;
    pub(crate) mod stream_query;
}

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;

use checks::*;
use mutator::Mutator;

/// libFuzzer's macro: the target as a function.
macro_rules! fuzz_target {
    (|$data:ident: &[u8]| $body:expr) => {
        pub(crate) fn target($data: &[u8]) {
            $body;
        }
    };
}
pub(crate) use fuzz_target;

const RUNS: u64 = 400;
/// The package of the fuzz targets.
const FUZZ: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz");

/// The corpus of a target, by name.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let directory = Path::new(FUZZ).join("corpus").join(target);
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

/// Runs a target, whose name is that of its corpus.
fn run(target: &str, check: Check) {
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
    run("stream_query", targets::stream_query::target);
}

#[test]
fn messages_of_streams() {
    run("stream_message", targets::stream_message::target);
}

#[test]
fn frames_of_a_runtime() {
    run("spdy_frames", targets::spdy_frames::target);
}

#[test]
fn queries_for_logs() {
    run("log_query", targets::log_query::target);
}

#[test]
fn accepted_forms() {
    run("accept", targets::accept::target);
}

#[test]
fn manifests() {
    run("manifest", targets::manifest::target);
}

#[test]
fn answers_of_a_url() {
    run("pod_answer", targets::pod_answer::target);
}

#[test]
fn state_files_of_cpus_and_memory() {
    run("numa_state", targets::numa_state::target);
}

#[test]
fn configurations() {
    run("config", targets::config::target);
}

#[test]
fn log_lines() {
    run("log_line", targets::log_line::target);
}

#[test]
fn kernel_files() {
    run("kernel_file", targets::kernel_file::target);
}

#[test]
fn image_references() {
    run("image_reference", targets::image_reference::target);
}

#[test]
fn environment_files() {
    run("env_file", targets::env_file::target);
}

#[test]
fn resolver_files() {
    run("resolv_conf", targets::resolv_conf::target);
}

#[test]
fn quantities() {
    run("quantity", targets::quantity::target);
}

#[test]
fn store_files() {
    run("store_file", targets::store_file::target);
}

#[test]
fn image_archives() {
    run("image_archive", targets::image_archive::target);
}

#[test]
fn checkpoints_of_devices() {
    run("device_checkpoint", targets::device_checkpoint::target);
}

#[test]
fn plugin_infos() {
    run("plugin_info", targets::plugin_info::target);
}

#[test]
fn messages_of_dra_drivers() {
    run("dra_message", targets::dra_message::target);
}

#[test]
fn records_of_claims() {
    run("claims_state", targets::claims_state::target);
}

#[test]
fn docker_configurations() {
    run("docker_config", targets::docker_config::target);
}

#[test]
fn responses_of_credential_providers() {
    run("provider_response", targets::provider_response::target);
}

#[test]
fn messages_of_the_kernel() {
    run("kernel_log", targets::kernel_log::target);
}

#[test]
fn redirects_of_probes() {
    run("probe_location", targets::probe_location::target);
}

/// The names of these files, without what follows a dot.
fn names(directory: &str) -> Vec<String> {
    let entries = fs::read_dir(Path::new(FUZZ).join(directory)).unwrap();
    let stem = |path: PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
    let mut names: Vec<String> = entries.map(|entry| stem(entry.unwrap().path())).collect();
    names.sort();
    names
}

#[test]
fn every_target_is_a_program_a_check_and_a_corpus_and_is_run_here() {
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    let quoted = |text: &str, before: &str| {
        let rest = text.split(before).skip(1);
        sorted(rest.map(|rest| rest.split('"').next().unwrap().to_owned()).collect())
    };
    let targets = names("fuzz_targets");
    assert_eq!(quoted(include_str!("../../fuzz/Cargo.toml"), "[[bin]]\nname = \""), targets);
    assert_eq!(sorted(CHECKS.iter().map(|(name, _)| (*name).to_owned()).collect()), targets);
    assert_eq!(names("corpus"), targets);
    assert_eq!(quoted(include_str!("main.rs"), "\n    run(\""), targets);
}

/// Set in the process that measures the memory: it is that of all tests where they run in one process.
const ALONE: &str = "HOSTLET_FUZZ_ALONE";

/// Inputs that took gigabytes or minutes, or could; none may exhaust the memory of the host.
#[test]
fn huge_inputs_take_bounded_memory() {
    if std::env::var_os(ALONE).is_none() {
        let mut alone = Command::new(std::env::current_exe().unwrap());
        alone.args(["--exact", "huge_inputs_take_bounded_memory"]).env(ALONE, "1");
        let output = alone.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    for (target, check) in CHECKS {
        for (what, input) in huge::inputs(target) {
            assert!(catch_unwind(|| check(&input)).is_ok(), "{target} fails on {what}");
        }
    }
    let peak =
        procfs::process::Process::myself().and_then(|process| process.status()).unwrap().vmhwm.unwrap();
    assert!(peak < 1 << 20, "{peak} KiB were in use at once");
}
