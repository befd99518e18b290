//! The runtime endpoint of a kubelet, from its command line and configuration files. Reads files; blocks its thread.

use std::fs;
use std::path::{Path, PathBuf};

use hostlet_base::yaml::parse_documents;
use hostlet_host::KubeletProcess;

/// The kubelet's default runtime endpoint.
const DEFAULT: &str = "unix:///run/containerd/containerd.sock";

/// The runtime socket of a kubelet. Flags win over drop-ins, and these over the configuration file, as upstream. A file that
/// cannot be read is skipped.
pub(super) fn runtime_socket(kubelet: &KubeletProcess) -> PathBuf {
    let endpoint = flag(&kubelet.arguments, "container-runtime-endpoint")
        .map(str::to_owned)
        .or_else(|| in_files(kubelet))
        .unwrap_or_else(|| DEFAULT.to_owned());
    PathBuf::from(endpoint.strip_prefix("unix://").unwrap_or(&endpoint))
}

/// The last value of a flag, which is the effective one.
fn flag<'a>(arguments: &'a [String], name: &str) -> Option<&'a str> {
    let mut values = arguments.iter().enumerate().filter_map(|(at, argument)| {
        let rest = argument.strip_prefix("--")?.strip_prefix(name)?;
        match rest.strip_prefix('=') {
            Some(value) => Some(value),
            None if rest.is_empty() => arguments.get(at + 1).map(String::as_str),
            None => None,
        }
    });
    values.next_back().filter(|value| !value.is_empty())
}

fn in_files(kubelet: &KubeletProcess) -> Option<String> {
    let path = |name| flag(&kubelet.arguments, name).map(|path| kubelet.cwd.join(path));
    let mut files: Vec<PathBuf> = path("config").into_iter().collect();
    let entries = path("config-dir").and_then(|dir| fs::read_dir(dir).ok());
    let mut drop_ins: Vec<PathBuf> =
        entries.into_iter().flatten().filter_map(|e| Some(e.ok()?.path())).collect();
    drop_ins.retain(|file| file.extension().is_some_and(|extension| extension == "conf"));
    drop_ins.sort();
    files.extend(drop_ins);
    files.iter().rev().find_map(|file| in_file(file))
}

fn in_file(file: &Path) -> Option<String> {
    let documents = parse_documents(&fs::read_to_string(file).ok()?).ok()?;
    let endpoint = documents.first()?.value.get("containerRuntimeEndpoint")?.as_str()?;
    (!endpoint.is_empty()).then(|| endpoint.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_win_over_drop_ins_and_these_over_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, endpoint: &str| {
            fs::write(dir.path().join(name), format!("containerRuntimeEndpoint: {endpoint:?}\n")).unwrap();
        };
        fs::create_dir(dir.path().join("d")).unwrap();
        write("file.yaml", "unix:///file.sock");
        write("d/20.conf", "");
        write("d/10.conf", "unix:///drop-in.sock");
        write("d/30.yaml", "unix:///none.sock");
        let socket = |line: &str| {
            let arguments = line.split_whitespace().map(str::to_owned).collect();
            runtime_socket(&KubeletProcess { pid: 1, arguments, cwd: dir.path().to_owned() })
        };
        for (line, expected) in [
            ("", "/run/containerd/containerd.sock"),
            ("--config none.yaml", "/run/containerd/containerd.sock"),
            ("--config file.yaml", "/file.sock"),
            ("--config=file.yaml --config-dir d -v 2", "/drop-in.sock"),
            ("--config=file.yaml --container-runtime-endpoint unix:///flag.sock", "/flag.sock"),
            ("--container-runtime-endpoint=/a.sock --container-runtime-endpoint=/b.sock", "/b.sock"),
            ("--container-runtime-endpoint-of-others=/a.sock", "/run/containerd/containerd.sock"),
        ] {
            assert_eq!(socket(line), Path::new(expected), "{line}");
        }
    }
}
