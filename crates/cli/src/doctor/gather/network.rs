//! Facts of the pod network, and of the ports of the kubelet.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use hostlet_base::json;
use serde_json::Value;

use super::super::facts::{NetworkFacts, Seen, Unseen};
use super::machine::text;
use super::runtime::CniDirs;

/// The state of a listening socket in procfs (`TCP_LISTEN`).
const LISTEN: &str = "0A";

pub(super) fn network(root: &Path, dirs: &CniDirs) -> NetworkFacts {
    NetworkFacts {
        conf_dir: dirs.conf.clone(),
        bin_dirs: dirs.bin.clone(),
        configurations: configurations(&dirs.conf),
        plugins: plugins(&dirs.bin),
        elsewhere: elsewhere(root, &dirs.bin),
        routes: routes(&text(&root.join("proc/net/route")).unwrap_or_default()),
    }
}

/// Files that a runtime reads, by name (<https://www.cni.dev/docs/spec/>, libcni's `ConfFiles`).
fn configurations(dir: &Path) -> Seen<Vec<(PathBuf, Seen<Vec<String>>)>> {
    let mut files: Vec<PathBuf> = names(dir)?.into_iter().map(|name| dir.join(name)).collect();
    files.retain(|file| {
        let extension = file.extension().and_then(|extension| extension.to_str());
        matches!(extension, Some("conf" | "conflist" | "json")) && file.is_file()
    });
    files.sort();
    Ok(files.into_iter().map(|file| (file.clone(), used_plugins(&file))).collect())
}

/// The plugins that a configuration, or a list of them, uses.
fn used_plugins(file: &Path) -> Seen<Vec<String>> {
    let value: Value = json::from_slice(text(file)?.as_bytes()).map_err(|error| Unseen(error.to_string()))?;
    let single = vec![value.clone()];
    let plugins = value["plugins"].as_array().unwrap_or(&single);
    let types = plugins.iter().flat_map(|plugin| [&plugin["type"], &plugin["ipam"]["type"]]);
    let types: Vec<String> = types.filter_map(Value::as_str).map(str::to_owned).collect();
    if types.is_empty() { Err(Unseen("it names no plugin".to_owned())) } else { Ok(types) }
}

fn plugins(dirs: &[PathBuf]) -> Seen<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    for dir in dirs {
        all.extend(names(dir)?);
    }
    Ok(all)
}

/// The first directory of plugins of a distribution (Debian, Fedora) or of most installers, unless the runtime looks there.
fn elsewhere(root: &Path, dirs: &[PathBuf]) -> Option<(PathBuf, BTreeSet<String>)> {
    let known = ["usr/lib/cni", "usr/libexec/cni", "opt/cni/bin"].map(|dir| root.join(dir));
    let with_names = |dir: PathBuf| {
        let names: BTreeSet<String> = names(&dir).ok()?.into_iter().collect();
        (!names.is_empty()).then_some((dir, names))
    };
    known.into_iter().filter(|dir| !dirs.contains(dir)).find_map(with_names)
}

/// The names in a directory; none if it does not exist.
fn names(dir: &Path) -> Seen<Vec<String>> {
    match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Unseen(error.to_string())),
        Ok(entries) => Ok(entries.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect()),
    }
}

/// The subnets in `/proc/net/route`, whose numbers are in the machine's byte order, which is the network's reversed on all
/// supported machines.
fn routes(text: &str) -> Vec<(u32, u8)> {
    let number = |hex: &str| u32::from_str_radix(hex, 16).ok().map(u32::swap_bytes);
    let route = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let mask = number(fields.get(7)?)?;
        Some((number(fields.get(1)?)?, u8::try_from(mask.leading_ones()).ok()?))
    };
    // The default route overlaps everything and means nothing here.
    text.lines().skip(1).filter_map(route).filter(|(_, length)| *length > 0).collect()
}

/// Who listens on these ports. `daemon` is the process of hostlet, if it runs.
pub(super) fn ports(root: &Path, wanted: &[u16], daemon: Option<i32>) -> Seen<BTreeMap<u16, String>> {
    let proc = root.join("proc");
    let mut listening = listeners(&text(&proc.join("net/tcp"))?);
    // A kernel without IPv6 has no such file.
    listening.extend(listeners(&text(&proc.join("net/tcp6")).unwrap_or_default()));
    listening.retain(|(port, _)| wanted.contains(port));
    let mut found = BTreeMap::new();
    for (port, inode) in listening {
        let owner = owner(&proc, inode, daemon).unwrap_or_else(|| "a process that cannot be seen".to_owned());
        found.insert(port, owner);
    }
    Ok(found)
}

/// Ports and inodes of listening sockets (proc_net(5)).
fn listeners(text: &str) -> Vec<(u16, u64)> {
    let line = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let port = fields.get(1)?.rsplit(':').next()?;
        let is_listening = *fields.get(3)? == LISTEN;
        is_listening.then_some((u16::from_str_radix(port, 16).ok()?, fields.get(9)?.parse().ok()?))
    };
    text.lines().skip(1).filter_map(line).collect()
}

/// The process that has a socket open.
fn owner(proc: &Path, inode: u64, daemon: Option<i32>) -> Option<String> {
    let link = format!("socket:[{inode}]");
    fs::read_dir(proc).ok()?.filter_map(Result::ok).find_map(|process| {
        let pid: i32 = process.file_name().to_str()?.parse().ok()?;
        let mut open = fs::read_dir(process.path().join("fd")).ok()?.filter_map(Result::ok);
        let is_owner =
            open.any(|fd| fs::read_link(fd.path()).is_ok_and(|target| target.as_os_str() == link.as_str()));
        is_owner.then(|| match daemon {
            Some(daemon) if daemon == pid => format!("hostlet (process {pid})"),
            _ => format!("{} (process {pid})", program(&process.path())),
        })
    })
}

/// The program of a process: the file, since hostlet may run as `kubelet` by a link; for who may not see it, the name.
fn program(process: &Path) -> String {
    let file = fs::read_link(process.join("exe")).ok();
    let name = file.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let name = name.or_else(|| fs::read_to_string(process.join("comm")).ok()).unwrap_or_default();
    // A file that was replaced while it runs.
    name.trim().trim_end_matches(" (deleted)").to_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_owner_of_a_port_is_found() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join("proc").join(path);
        fs::create_dir_all(at("net")).unwrap();
        fs::create_dir_all(at("7/fd")).unwrap();
        fs::write(at("7/comm"), "kubelet\n").unwrap();
        symlink("socket:[99]", at("7/fd/3")).unwrap();
        let line = |port: &str, state: &str, inode: u32| {
            format!(
                "   0: 00000000:{port} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 0 0 {inode} 1\n"
            )
        };
        let tcp =
            format!("heading\n{}{}{}", line("2808", "01", 5), line("280A", "0A", 99), line("0016", "0A", 6));
        fs::write(at("net/tcp"), tcp).unwrap();
        let found = || ports(root.path(), &[10_248, 10_250], None);
        assert_eq!(found(), Ok([(10_250, "kubelet (process 7)".to_owned())].into()));
        let of_a_copy = ports(root.path(), &[10_250], Some(7));
        assert_eq!(of_a_copy, Ok([(10_250, "hostlet (process 7)".to_owned())].into()));
        symlink("/usr/bin/hostlet (deleted)", at("7/exe")).unwrap();
        assert_eq!(
            found(),
            Ok([(10_250, "hostlet (process 7)".to_owned())].into()),
            "a link has another name"
        );
        assert_eq!(ports(root.path(), &[10_248], None), Ok(BTreeMap::new()));
        let tcp6 = format!("heading\n{}", line("2808", "0A", 5));
        fs::write(at("net/tcp6"), tcp6).unwrap();
        assert_eq!(found().unwrap()[&10_248], "a process that cannot be seen");
    }

    #[test]
    fn plugins_are_found_where_the_runtime_does_not_look() {
        let root = tempfile::tempdir().unwrap();
        let (own, debian) = (root.path().join("opt/cni/bin"), root.path().join("usr/lib/cni"));
        fs::create_dir_all(&debian).unwrap();
        assert_eq!(elsewhere(root.path(), std::slice::from_ref(&own)), None, "an empty directory");
        fs::write(debian.join("bridge"), "").unwrap();
        assert_eq!(elsewhere(root.path(), &[own]), Some((debian.clone(), ["bridge".to_owned()].into())));
        assert_eq!(elsewhere(root.path(), &[debian]), None);
    }

    #[test]
    fn configurations_are_read_in_their_order_with_their_plugins() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        assert_eq!(configurations(&dir.path().join("none")), Ok(Vec::new()));
        write("20-b.conf", r#"{"type": "bridge", "ipam": {"type": "host-local"}}"#);
        write("10-a.conflist", r#"{"plugins": [{"type": "ptp"}, {"type": "portmap"}]}"#);
        write("05-c.json", "{");
        write("README", "");
        let found = configurations(dir.path()).unwrap();
        let names: Vec<_> =
            found.iter().map(|(file, _)| file.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["05-c.json", "10-a.conflist", "20-b.conf"]);
        assert!(found[0].1.is_err());
        assert_eq!(found[1].1, Ok(vec!["ptp".to_owned(), "portmap".to_owned()]));
        assert_eq!(found[2].1, Ok(vec!["bridge".to_owned(), "host-local".to_owned()]));
    }

    #[test]
    fn subnets_of_routes_are_read() {
        let text = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\nlo\t00000000\t0\t3\t0\t0\t0\t00000000\n\
                    eth0\t0000F40A\t0\t1\t0\t0\t0\t0000FFFF\n";
        assert_eq!(routes(text), [(0x0af4_0000, 16)]);
    }
}
