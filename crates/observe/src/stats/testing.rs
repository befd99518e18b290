//! Test fixtures: a host of plain files with procfs and cgroups of either version, and pods on the fake runtime.

#![allow(
    clippy::unwrap_used,
    reason = "what fails in a test is to fail the test; clippy knows only cfg(test)"
)]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::stat::{major, minor};
use tempfile::TempDir;

use hostlet_base::{
    CONTAINER_NAME_LABEL, CgroupDriver, ContainerId, POD_NAME_LABEL, POD_NAMESPACE_LABEL, POD_UID_LABEL,
    PodRef, SandboxId,
};
use hostlet_host::cgroup::{CgroupSettings, CgroupVersion, Cgroups};
use hostlet_runtime::cri::RuntimeService;
use hostlet_runtime::cri::fake::FakeRuntime;
use hostlet_runtime::cri::wire::{
    ContainerConfig, ContainerMetadata, ImageSpec, PodSandboxConfig, PodSandboxMetadata,
};

/// The files of a cgroup v1 with a quota, a memory limit of 64 MiB and some use. The first part is the hierarchy.
const V1: [(&str, &str); 20] = [
    ("cpuacct/cpuacct.usage", "2500000000\n"),
    ("cpuacct/cpuacct.stat", "user 150\nsystem 100\n"),
    ("cpu/cpu.stat", "nr_periods 40\nnr_throttled 3\nthrottled_time 750000000\n"),
    ("cpu/cpu.shares", "102\n"),
    ("cpu/cpu.cfs_period_us", "100000\n"),
    ("cpu/cpu.cfs_quota_us", "50000\n"),
    ("memory/memory.usage_in_bytes", "8388608\n"),
    ("memory/memory.max_usage_in_bytes", "9437184\n"),
    ("memory/memory.failcnt", "2\n"),
    ("memory/memory.kmem.usage_in_bytes", "1048576\n"),
    ("memory/memory.limit_in_bytes", "67108864\n"),
    ("memory/memory.memsw.limit_in_bytes", "9223372036854771712\n"),
    ("memory/memory.soft_limit_in_bytes", "9223372036854771712\n"),
    ("memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"),
    (
        "memory/memory.stat",
        "cache 1\nrss 2\npgfault 500\npgmajfault 7\ninactive_file 3\ntotal_cache 3145728\ntotal_rss 4194304\n\
         total_mapped_file 65536\ntotal_swap 0\ntotal_inactive_file 2097152\ntotal_active_file 1048576\n",
    ),
    ("memory/cgroup.procs", "4711\n4712\n"),
    ("pids/pids.current", "5\n"),
    ("pids/pids.max", "max\n"),
    (
        "blkio/blkio.throttle.io_service_bytes_recursive",
        "254:0 Read 4096\n254:0 Write 8192\n254:0 Sync 0\n254:0 Total 12288\nTotal 12288\n",
    ),
    ("blkio/blkio.throttle.io_serviced_recursive", "254:0 Read 1\n254:0 Write 2\n254:0 Total 3\nTotal 3\n"),
];

/// The same on cgroup v2, with pressure and swap.
const V2: [(&str, &str); 18] = [
    (
        "cpu.stat",
        "usage_usec 2500000\nuser_usec 1500000\nsystem_usec 1000000\nnr_periods 40\nnr_throttled 3\n\
         throttled_usec 750000\nnr_bursts 1\nburst_usec 2000\n",
    ),
    ("cpu.weight", "4\n"),
    ("cpu.max", "50000 100000\n"),
    (
        "cpu.pressure",
        "some avg10=1.50 avg60=0.25 avg300=0.00 total=123456\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=42\n",
    ),
    ("memory.current", "8388608\n"),
    ("memory.peak", "9437184\n"),
    ("memory.max", "67108864\n"),
    ("memory.min", "0\n"),
    ("memory.swap.current", "4096\n"),
    ("memory.swap.max", "1048576\n"),
    ("memory.events", "low 0\nhigh 4\nmax 2\noom 1\noom_kill 1\n"),
    (
        "memory.pressure",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=7\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=6\n",
    ),
    (
        "memory.stat",
        "anon 4194304\nfile 3145728\nkernel 1048576\nfile_mapped 65536\nfile_dirty 4096\nfile_writeback 0\n\
         inactive_file 2097152\nactive_file 1048576\nworkingset_refault_anon 1\nworkingset_refault_file 2\npgscan 30\n\
         pgsteal 20\npgfault 500\npgmajfault 7\n",
    ),
    ("cgroup.procs", "4711\n4712\n"),
    ("pids.current", "5\n"),
    ("pids.max", "max\n"),
    ("io.stat", "254:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n"),
    (
        "io.pressure",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=9\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=8\n",
    ),
];

const PROC: [(&str, &str); 7] = [
    ("meminfo", "MemTotal:        1048576 kB\nMemFree: 1 kB\nSwapTotal: 2048 kB\nSwapFree: 1024 kB\n"),
    ("loadavg", "0.10 0.20 0.30 2/345 6789\n"),
    ("sys/kernel/pid_max", "32768\n"),
    ("sys/kernel/threads-max", "190000\n"),
    ("self/net/dev", NET_DEV),
    ("4711/net/dev", NET_DEV),
    (
        "4711/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n\
         Max open files            1024                 524288               files     \n",
    ),
];

const NET_DEV: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:     100       1    0    0    0     0          0         0      100       1    0    0    0     0       0          0
  eth0: 1000000    2000    1    2    0     0          0         0   500000    1500    3    4    0     0       0          0
veth12:       5       5    0    0    0     0          0         0        5       5    0    0    0     0       0          0
";

/// A disk, and the device of this directory.
fn disk_stats(directory: &Path) -> String {
    let number = fs::metadata(directory).unwrap().dev();
    let activity = "100 1 800 1500 200 2 1600 2500 3 3500 4500 0 0 0 0 0 0";
    let mut text = format!(" 254       0 vda {activity}\n");
    let (major, minor) = (major(number), minor(number));
    if (major, minor) != (254, 0) {
        text.push_str(&format!(" {major} {minor} root {activity}\n"));
    }
    text
}

/// A host of plain files.
pub struct FakeHost {
    dir: TempDir,
    pub cgroups: Arc<Cgroups>,
    version: CgroupVersion,
}

impl FakeHost {
    /// A host with this version, whose root and cgroup of all pods use what every cgroup here uses.
    pub fn new(version: CgroupVersion) -> Self {
        Self::with(version, true)
    }

    /// The same, on which pods have cgroups or not.
    pub fn with(version: CgroupVersion, per_qos: bool) -> Self {
        let dir = TempDir::new().unwrap();
        let (mount, proc) = (dir.path().join("cgroup"), dir.path().join("proc"));
        let controllers = ["cpu", "cpuacct", "cpuset", "memory", "pids", "blkio"];
        let mounts: String = match version {
            CgroupVersion::V1 => controllers
                .iter()
                .enumerate()
                .map(|(number, name)| {
                    format!(
                        "{} 31 0:{number} / {}/{name} rw - cgroup cgroup rw,{name}\n",
                        40 + number,
                        mount.display()
                    )
                })
                .collect(),
            CgroupVersion::V2 => format!("31 20 0:28 / {} rw - cgroup2 cgroup rw\n", mount.display()),
        };
        write(&proc.join("self/mountinfo"), &mounts);
        for (file, text) in PROC {
            write(&proc.join(file), text);
        }
        write(&proc.join("diskstats"), &disk_stats(dir.path()));
        fs::create_dir_all(proc.join("4711/fd")).unwrap();
        for (number, target) in ["/dev/null", "socket:[17]", "pipe:[3]"].iter().enumerate() {
            std::os::unix::fs::symlink(target, proc.join(format!("4711/fd/{number}"))).unwrap();
        }
        match version {
            CgroupVersion::V1 => {
                controllers.iter().for_each(|name| fs::create_dir_all(mount.join(name)).unwrap())
            }
            CgroupVersion::V2 => {
                write(&mount.join("cgroup.controllers"), "cpuset cpu io memory pids\n");
                write(&proc.join("self/cgroup"), "0::/system.slice/hostlet.service\n");
            }
        }
        let settings = CgroupSettings {
            driver: CgroupDriver::Cgroupfs,
            root: String::new(),
            mount,
            proc,
            per_qos,
            huge_page_sizes: Vec::new(),
            pids_limit: None,
            cfs_quota: true,
            cfs_period: Duration::from_millis(100),
        };
        let host = Self { dir, cgroups: Arc::new(Cgroups::open(settings).unwrap()), version };
        for path in ["/", "/kubepods", "/system.slice/hostlet.service"] {
            host.add_cgroup(path);
        }
        if version == CgroupVersion::V2 {
            for file in
                ["memory.current", "memory.max", "memory.swap.current", "memory.swap.max", "pids.current"]
            {
                fs::remove_file(host.file("", file)).unwrap();
            }
        }
        host
    }

    /// Where procfs is.
    pub fn proc(&self) -> PathBuf {
        self.dir.path().join("proc")
    }

    /// Its directory, which has nothing else.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Adds a cgroup with some use.
    pub fn add_cgroup(&self, path: &str) {
        match self.version {
            CgroupVersion::V1 => V1.iter().for_each(|(file, text)| {
                let (hierarchy, file) = file.split_once('/').unwrap();
                write(&self.dir.path().join("cgroup").join(hierarchy).join(&path[1..]).join(file), text);
            }),
            CgroupVersion::V2 => V2.iter().for_each(|(file, text)| write(&self.file(path, file), text)),
        }
    }

    /// Changes a file of a cgroup on v2.
    pub fn set(&self, path: &str, file: &str, text: &str) {
        write(&self.file(path, file), text);
    }

    fn file(&self, path: &str, file: &str) -> PathBuf {
        self.dir.path().join("cgroup").join(path.trim_start_matches('/')).join(file)
    }

    /// The cgroup of a BestEffort pod, with those of its sandbox and containers.
    pub fn add_pod(&self, pod: &PodRef, ids: &[&str]) -> String {
        let path = format!("/kubepods/besteffort/pod{}", pod.uid);
        self.add_cgroup(&path);
        ids.iter().for_each(|id| self.add_cgroup(&format!("{path}/{id}")));
        path
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Starts a container of a pod, with a sandbox if there is none.
pub async fn run(fake: &FakeRuntime, pod: &PodRef, name: &str) -> (SandboxId, ContainerId) {
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let mut labels = [
        label(POD_NAME_LABEL, &pod.name),
        label(POD_NAMESPACE_LABEL, &pod.namespace),
        label(POD_UID_LABEL, pod.uid.as_str()),
    ]
    .to_vec();
    let metadata = PodSandboxMetadata {
        name: pod.name.to_string(),
        uid: pod.uid.to_string(),
        namespace: pod.namespace.to_string(),
        attempt: 0,
    };
    let sandbox = PodSandboxConfig {
        metadata: Some(metadata),
        labels: labels.iter().cloned().collect(),
        ..PodSandboxConfig::default()
    };
    let id = match fake.list_sandboxes(Some(&pod.uid)).await.unwrap().first() {
        Some(sandbox) => sandbox.id.clone(),
        None => fake.run_sandbox(sandbox.clone(), "").await.unwrap(),
    };
    labels.push(label(CONTAINER_NAME_LABEL, name));
    let config = ContainerConfig {
        metadata: Some(ContainerMetadata { name: name.to_owned(), attempt: 0 }),
        image: Some(ImageSpec { image: "img".to_owned(), ..ImageSpec::default() }),
        labels: labels.into_iter().collect(),
        ..ContainerConfig::default()
    };
    let container = fake.create_container(&id, config, sandbox).await.unwrap();
    fake.start_container(&container).await.unwrap();
    (id, container)
}
