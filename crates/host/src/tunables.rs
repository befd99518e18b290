//! The kernel settings that a kubelet expects of its host: found, and set. Touches no other sysctl.

use std::fmt;
use std::fs;
use std::path::Path;

use super::SysError;

/// The settings with their values, as upstream's `setupKernelTunables` has them: memory may be overcommitted, so that requests
/// and limits decide; the OOM killer ends processes instead of the kernel; a kernel that panicked reboots; and root may own a
/// session key for each container.
const EXPECTED: [(&str, i64); 6] = [
    ("vm.overcommit_memory", 1),
    ("vm.panic_on_oom", 0),
    ("kernel.panic", 10),
    ("kernel.panic_on_oops", 1),
    ("kernel.keys.root_maxkeys", 1_000_000),
    ("kernel.keys.root_maxbytes", 25_000_000),
];

/// A kernel setting that is not as expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunable {
    name: &'static str,
    expected: i64,
    /// What the kernel has; `None` if it cannot be read.
    found: Option<String>,
}

impl Tunable {
    /// The kernel settings, read through procfs at `proc`, that are not as expected.
    pub fn unexpected(proc: &Path) -> Vec<Self> {
        let current = |name| fs::read_to_string(proc.join(file(name))).ok();
        EXPECTED
            .into_iter()
            .map(|(name, expected)| Self {
                name,
                expected,
                found: current(name).map(|text| text.trim().to_owned()),
            })
            .filter(|tunable| tunable.found.as_deref() != Some(tunable.expected.to_string().as_str()))
            .collect()
    }

    /// Sets it through procfs at `proc`.
    pub fn set(&self, proc: &Path) -> Result<(), SysError> {
        let (path, value) = (proc.join(file(self.name)), self.expected.to_string());
        fs::write(&path, &value).map_err(|source| SysError::Write { path, value, source })
    }

    /// The setting as an argument of `sysctl -w`.
    pub fn assignment(&self) -> String {
        format!("{}={}", self.name, self.expected)
    }
}

impl fmt::Display for Tunable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.found {
            Some(found) => write!(f, "{} is {found}, not {}", self.name, self.expected),
            None => write!(f, "{} cannot be read", self.name),
        }
    }
}

fn file(name: &str) -> String {
    format!("sys/{}", name.replace('.', "/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(values: &[(&str, &str)]) -> tempfile::TempDir {
        let proc = tempfile::tempdir().unwrap();
        for (name, value) in values {
            let path = proc.path().join(file(name));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, value).unwrap();
        }
        proc
    }

    #[test]
    fn only_settings_that_differ_are_named_and_set() {
        let proc = kernel(&[
            ("vm.overcommit_memory", "0\n"),
            ("vm.panic_on_oom", "0\n"),
            ("kernel.panic", "10\n"),
            ("kernel.panic_on_oops", "0\n"),
            ("kernel.keys.root_maxkeys", "1000000\n"),
            ("kernel.keys.root_maxbytes", "25000000\n"),
        ]);
        let found = Tunable::unexpected(proc.path());
        let texts: Vec<String> = found.iter().map(Tunable::to_string).collect();
        assert_eq!(texts, ["vm.overcommit_memory is 0, not 1", "kernel.panic_on_oops is 0, not 1"]);
        assert_eq!(found[1].assignment(), "kernel.panic_on_oops=1");
        for tunable in found {
            tunable.set(proc.path()).unwrap();
        }
        assert_eq!(Tunable::unexpected(proc.path()), []);
        assert_eq!(fs::read_to_string(proc.path().join("sys/kernel/panic")).unwrap(), "10\n", "left alone");
    }

    #[test]
    fn a_kernel_without_a_setting_has_it_named() {
        let proc = kernel(&[]);
        let found = Tunable::unexpected(proc.path());
        assert_eq!(found.len(), EXPECTED.len());
        assert_eq!(found[0].to_string(), "vm.overcommit_memory cannot be read");
        let error = found[0].set(proc.path()).unwrap_err();
        assert!(error.to_string().starts_with("cannot write 1 to "), "{error}");
    }
}
