//! hostlet's managers of CPUs, memory and topology against a stock kubelet's, on random machines with random pods that come and go. Upstream's
//! run in a Go program (`integration/managers_oracle`), which is built once per version.
//!
//! `HOSTLET_TEST_MANAGERS_CASES` sets how many cases are compared, `HOSTLET_TEST_MANAGERS_SEED` from which seed.

mod case;
mod compare;
mod machines;
mod oracle;
mod pods;

use anyhow::{Context, Result, ensure};

use case::Case;
use compare::{Compared, compare};
use oracle::Oracle;

/// How many cases are compared by default.
const CASES: u64 = 400;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn choices_are_those_of_a_stock_kubelet() -> Result<()> {
    let Some(program) = oracle::program()? else {
        ensure!(
            std::env::var_os("HOSTLET_TEST_ALL").is_none(),
            "upstream's managers are built with Go (https://go.dev/dl/)"
        );
        eprintln!(
            "NOT TESTED: the choices of a stock kubelet: its managers are built with Go (https://go.dev/dl/)"
        );
        return Ok(());
    };
    let mut oracle = Oracle::new(&program);
    let first = number("HOSTLET_TEST_MANAGERS_SEED").unwrap_or(0);
    let cases = number("HOSTLET_TEST_MANAGERS_CASES").unwrap_or(CASES);
    println!("{cases} seeds from {first}");
    let (mut equal, mut invalid, mut broken, mut uneven) = (0, 0, 0, 0);
    for seed in first..first + cases {
        let case = Case::new(seed);
        let compared = oracle.ask(&case).and_then(|answer| compare(&case, &answer));
        match compared.with_context(|| format!("seed {seed}"))? {
            Compared::Equal => equal += 1,
            Compared::Invalid => invalid += 1,
            Compared::UpstreamBroken => broken += 1,
            Compared::Uneven => uneven += 1,
        }
    }
    println!(
        "{equal} equal, {invalid} invalid, {broken} in which upstream breaks its own rules, {uneven} on uneven machines"
    );
    ensure!(equal * 10 > cases * 7, "only {equal} of {cases} cases say anything");
    ensure!((broken + uneven) * 5 <= cases, "{broken} and {uneven} of {cases} cases say nothing");
    ensure!(invalid > 0 || cases < 100, "no configuration is invalid");
    Ok(())
}
