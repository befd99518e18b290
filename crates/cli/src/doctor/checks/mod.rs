//! The checks: each a pure function from the facts to findings.

mod configuration;
mod credentials;
mod machine;
mod network;
mod objects_key;
mod ownership;
mod runtime;
#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;

use super::facts::Facts;
use super::report::Finding;

/// All findings, in the order in which a host is set up.
pub(crate) fn check(facts: &Facts) -> Vec<Finding> {
    let mut findings = configuration::check(facts);
    findings.extend(machine::check(facts));
    findings.extend(runtime::check(facts));
    findings.extend(network::check(facts));
    findings.extend(credentials::check(facts));
    findings.extend(objects_key::check(facts));
    findings.extend(ownership::check(facts));
    findings
}
