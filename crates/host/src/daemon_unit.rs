//! The unit that runs the daemon on a host with the packages, and the command that systemd makes of it: the unit, its drop-ins, and
//! the files with its variables (systemd.unit(5), systemd.service(5), systemd.exec(5)). Reads files only, as the unit may be about to
//! start, or be gone soon.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Where units are, by precedence.
const DIRECTORIES: [&str; 4] =
    ["etc/systemd/system", "run/systemd/system", "usr/local/lib/systemd/system", "usr/lib/systemd/system"];

/// The link that makes hostlet the kubelet that kubeadm starts.
const LINK: &str = "usr/bin/kubelet";
const PROGRAM: &str = "hostlet";

/// The unit that runs the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DaemonUnit {
    /// hostlet.service.
    Hostlet,
    /// kubelet.service: hostlet is the kubelet that kubeadm starts.
    Kubelet,
}

/// The unit's command cannot be known.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum DaemonUnitError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// A quote is not closed.
    #[error("{}: {what} has a quote that is not closed", path.display())]
    Quote {
        path: PathBuf,
        /// The setting or variable.
        what: String,
    },
}

/// A variable, and the file that sets it.
#[derive(Clone, Debug)]
struct Variable {
    path: PathBuf,
    /// `None` if a quote is not closed, which matters only if the command has it.
    value: Option<String>,
}

type Variables = BTreeMap<String, Variable>;

impl DaemonUnit {
    /// The unit on the host below `root`.
    pub fn of(root: &Path) -> Self {
        let is_link = fs::read_link(root.join(LINK)).is_ok_and(|to| to.file_name() == Some(PROGRAM.as_ref()));
        if is_link { Self::Kubelet } else { Self::Hostlet }
    }

    /// The name as systemd lists it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hostlet => "hostlet.service",
            Self::Kubelet => "kubelet.service",
        }
    }

    /// The words of the command that systemd runs, with the values of variables; `None` without such a unit.
    pub fn command(self, root: &Path) -> Result<Option<Vec<String>>, DaemonUnitError> {
        let mut command = None;
        let (mut variables, mut environment_files) = (Variables::new(), Vec::new());
        for path in self.files(root)? {
            for (name, text) in settings(&read(&path)?) {
                match (name.as_str(), text.is_empty()) {
                    ("ExecStart", is_reset) => command = (!is_reset).then(|| (path.clone(), text)),
                    ("Environment", true) => variables.clear(),
                    ("Environment", false) => {
                        let words = words(&path, &name, &text)?;
                        let pairs = words.iter().filter_map(|word| word.split_once('='));
                        variables.extend(pairs.map(|(name, value)| {
                            (name.to_owned(), Variable { path: path.clone(), value: Some(value.to_owned()) })
                        }));
                    }
                    ("EnvironmentFile", true) => environment_files.clear(),
                    ("EnvironmentFile", false) => environment_files.push(text),
                    _ => {}
                }
            }
        }
        let Some((path, text)) = command else { return Ok(None) };
        // Environment files take precedence over the unit's own variables.
        for file in environment_files {
            variables.extend(variables_of(root, &file)?);
        }
        let mut expanded = Vec::new();
        for word in words(&path, "ExecStart", text.trim_start_matches(['-', '@', ':', '+', '!', '|']))? {
            match word.strip_prefix('$').filter(|name| is_name(name)) {
                // A variable that is a word of its own is any number of words.
                Some(name) => expanded.extend(words(&path, name, &value(name, &variables)?)?),
                None => expanded.push(with_values(&word, &variables)?),
            }
        }
        Ok(Some(expanded))
    }

    /// The unit's file and its drop-ins, in the order in which they apply.
    fn files(self, root: &Path) -> Result<Vec<PathBuf>, DaemonUnitError> {
        let directories = DIRECTORIES.map(|directory| root.join(directory));
        let Some(unit) = directories.iter().map(|dir| dir.join(self.name())).find(|path| path.exists())
        else {
            return Ok(Vec::new());
        };
        let mut drop_ins = BTreeMap::new();
        for directory in directories {
            let path = directory.join(format!("{}.d", self.name()));
            let entries = match fs::read_dir(&path) {
                Ok(entries) => entries,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(source) => return Err(DaemonUnitError::Read { path, source }),
            };
            for entry in entries.filter_map(Result::ok) {
                if entry.path().extension().is_some_and(|extension| extension == "conf") {
                    drop_ins.entry(entry.file_name()).or_insert(entry.path());
                }
            }
        }
        Ok([unit].into_iter().chain(drop_ins.into_values()).collect())
    }
}

fn read(path: &Path) -> Result<String, DaemonUnitError> {
    fs::read_to_string(path).map_err(|source| DaemonUnitError::Read { path: path.to_owned(), source })
}

/// The settings of a unit's section `[Service]`, in order.
fn settings(text: &str) -> Vec<(String, String)> {
    let mut is_service = false;
    let mut found = Vec::new();
    for line in joined(text) {
        if line.starts_with('[') {
            is_service = line == "[Service]";
        } else if let Some((name, value)) = line.split_once('=').filter(|_| is_service) {
            found.push((name.trim().to_owned(), value.trim().to_owned()));
        }
    }
    found
}

/// The variables of an environment file, which need not exist if its name starts with a dash.
fn variables_of(root: &Path, file: &str) -> Result<Variables, DaemonUnitError> {
    let (file, is_optional) = file.strip_prefix('-').map_or((file, false), |file| (file, true));
    let path = root.join(file.trim_start_matches('/'));
    let text = match read(&path) {
        Err(DaemonUnitError::Read { source, .. }) if is_optional && source.kind() == ErrorKind::NotFound => {
            return Ok(Variables::new());
        }
        read => read?,
    };
    let lines = joined(&text).into_iter();
    let pairs = lines.filter_map(|line| {
        let (name, value) = line.split_once('=').filter(|(name, _)| is_name(name))?;
        Some((name.to_owned(), Variable { path: path.clone(), value: unquoted(value) }))
    });
    Ok(pairs.collect())
}

/// A value in an environment file without its quotes; `None` if one is not closed. Only a value that begins with a quote has any:
/// in the middle of another they belong to the words that the command makes of it.
fn unquoted(text: &str) -> Option<String> {
    let text = text.trim();
    if text.starts_with(['"', '\'']) {
        shlex::split(text).map(|words| words.join(" "))
    } else {
        Some(text.to_owned())
    }
}

/// The value of a variable; empty if nobody sets it.
fn value(name: &str, variables: &Variables) -> Result<String, DaemonUnitError> {
    let Some(Variable { path, value }) = variables.get(name) else { return Ok(String::new()) };
    value.clone().ok_or_else(|| DaemonUnitError::Quote { path: path.clone(), what: name.to_owned() })
}

/// The lines without comments, each joined with those that continue it after a backslash.
fn joined(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut is_continued = false;
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        let part = line.strip_suffix('\\');
        match lines.last_mut().filter(|_| is_continued) {
            Some(last) => last.push_str(part.unwrap_or(line)),
            None => lines.push(part.unwrap_or(line).to_owned()),
        }
        is_continued = part.is_some();
    }
    lines
}

fn words(path: &Path, what: &str, text: &str) -> Result<Vec<String>, DaemonUnitError> {
    shlex::split(text).ok_or_else(|| DaemonUnitError::Quote { path: path.to_owned(), what: what.to_owned() })
}

fn is_name(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !text.is_empty() && !text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(is_part)
}

/// A word with the values of its `${VARIABLES}`.
fn with_values(word: &str, variables: &Variables) -> Result<String, DaemonUnitError> {
    let mut text = String::new();
    let mut rest = word;
    while let Some((before, (name, after))) =
        rest.split_once("${").and_then(|(before, after)| Some((before, after.split_once('}')?)))
    {
        text.push_str(before);
        text.push_str(&value(name, variables)?);
        rest = after;
    }
    text.push_str(rest);
    Ok(text.replace("$$", "$"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// What kubeadm's package writes beside the unit.
    const KUBEADM: &str = "# Note: This dropin only works with kubeadm and kubelet v1.11+\n[Service]\n\
        Environment=\"KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf\"\n\
        Environment=\"KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml\"\n\
        EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env\n\
        EnvironmentFile=-/etc/default/kubelet\n\
        ExecStart=\n\
        ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS\n";

    fn host(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn command(unit: DaemonUnit, files: &[(&str, &str)]) -> Vec<String> {
        unit.command(host(files).path()).unwrap().unwrap()
    }

    #[test]
    fn the_link_of_hostlet_kubelet_decides_about_the_unit() {
        let root = host(&[("usr/bin/hostlet", "")]);
        let link = root.path().join(LINK);
        assert_eq!(DaemonUnit::of(root.path()), DaemonUnit::Hostlet);
        fs::write(&link, "stock").unwrap();
        assert_eq!(DaemonUnit::of(root.path()), DaemonUnit::Hostlet);
        fs::remove_file(&link).unwrap();
        symlink("hostlet", &link).unwrap();
        assert_eq!(DaemonUnit::of(root.path()), DaemonUnit::Kubelet);
    }

    #[test]
    fn the_packaged_unit_runs_with_the_flags_of_its_files() {
        let unit =
            ("usr/lib/systemd/system/hostlet.service", include_str!("../../../systemd/hostlet.service"));
        let hostlet = |files: &[_]| command(DaemonUnit::Hostlet, &[&[unit], files].concat());
        let without = ["/usr/bin/hostlet", "--config=/etc/hostlet/config.yaml"];
        assert_eq!(hostlet(&[]), without);
        let deb = "# HOSTLET_FLAGS=x\nHOSTLET_FLAGS=\"-v 4 --root-dir '/data/a b'\"\n";
        assert_eq!(hostlet(&[("etc/default/hostlet", deb)])[2..], ["-v", "4", "--root-dir", "/data/a b"]);
        let rpm = ("etc/sysconfig/hostlet", "HOSTLET_FLAGS=-v 5 --root-dir='/data/a b'");
        assert_eq!(hostlet(&[("etc/default/hostlet", deb), rpm])[2..], ["-v", "5", "--root-dir=/data/a b"]);
    }

    #[test]
    fn drop_ins_and_kubeadms_files_are_read_as_systemd_reads_them() {
        let kubelet = |files: &[_]| {
            let own = [
                ("usr/lib/systemd/system/kubelet.service", "[Service]\nExecStart=/usr/bin/kubelet\n"),
                ("usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf", KUBEADM),
            ];
            command(DaemonUnit::Kubelet, &[&own, files].concat())
        };
        let joined = [
            "/usr/bin/kubelet",
            "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf",
            "--kubeconfig=/etc/kubernetes/kubelet.conf",
            "--config=/var/lib/kubelet/config.yaml",
        ];
        assert_eq!(kubelet(&[]), joined);
        let files = [
            ("var/lib/kubelet/kubeadm-flags.env", "KUBELET_KUBEADM_ARGS=\"--node-ip=10.0.0.1 --v=2\"\n"),
            ("etc/default/kubelet", "NOTE=don't\nKUBELET_EXTRA_ARGS=--root-dir=/data\n"),
        ];
        assert_eq!(kubelet(&files)[4..], ["--node-ip=10.0.0.1", "--v=2", "--root-dir=/data"]);
        let drop_in = "[Unit]\nExecStart=/none\n[Service]\nEnvironment=A=1 \"B=2 3\"\nExecStart=\n\
            ExecStart=-/usr/bin/kubelet \\\n  # between\n  --a=${A}-${B} $B $NONE '$$x'\n";
        let ours = [("etc/systemd/system/kubelet.service.d/20-mine.conf", drop_in)];
        assert_eq!(kubelet(&ours), ["/usr/bin/kubelet", "--a=1-2 3", "2", "3", "$x"]);
        let masked = [("etc/systemd/system/kubelet.service.d/10-kubeadm.conf", "")];
        assert_eq!(kubelet(&masked), ["/usr/bin/kubelet"]);
    }

    #[test]
    fn a_host_without_the_unit_has_no_command() {
        assert_eq!(DaemonUnit::Hostlet.command(host(&[]).path()).unwrap(), None);
        let root = host(&[("etc/systemd/system/hostlet.service.d/a.conf", "[Service]\nExecStart=/x\n")]);
        assert_eq!(DaemonUnit::Hostlet.command(root.path()).unwrap(), None);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let unit = "[Service]\nEnvironmentFile=/etc/needed\nExecStart=/usr/bin/hostlet $A\n";
        let at = "etc/systemd/system/hostlet.service";
        let error = |files: &[_]| DaemonUnit::Hostlet.command(host(files).path()).unwrap_err().to_string();
        let missing = error(&[(at, unit)]);
        assert!(missing.starts_with("cannot read") && missing.ends_with("etc/needed"), "{missing}");
        let open = error(&[(at, unit), ("etc/needed", "A='x\n")]);
        assert!(open.ends_with("etc/needed: A has a quote that is not closed"), "{open}");
    }
}
