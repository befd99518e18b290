//! The tree on this machine's cgroups if the test may write them (as root), and on fake mounts and a v2 tree of plain files
//! everywhere. The plain files show which paths are read and written, not how a v2 kernel behaves.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use hostlet_base::CgroupDriver;
use hostlet_base::{MemoryProtection, PodUid, QosClass};
use nix::unistd::Uid;

use crate::testing::skipped;

use super::testing::settings;
use super::*;

const CLASSES: [QosClass; 3] = [QosClass::Guaranteed, QosClass::Burstable, QosClass::BestEffort];

fn resources(cpu_shares: u64, cpu_quota: Option<i64>, memory_limit: Option<i64>) -> PodResources {
    PodResources { cpu_shares, cpu_quota, memory_limit, ..PodResources::default() }
}

fn burstable(milli_cpu: i64) -> ClassResources {
    ClassResources { burstable_milli_cpu: milli_cpu, ..ClassResources::default() }
}

/// Whether this host has cgroup v2 only.
fn has_unified_hierarchy() -> bool {
    Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
}

/// A process that sleeps until killed.
struct Sleeper(Child);

impl Sleeper {
    fn within(cgroups: &[PathBuf]) -> Self {
        let sleeper = Self(Command::new("sleep").arg("1000").spawn().unwrap());
        for cgroup in cgroups {
            fs::write(cgroup.join("cgroup.procs"), sleeper.0.id().to_string()).unwrap();
        }
        sleeper
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

mod on_v1 {
    use super::*;

    /// A separate tree in every v1 hierarchy, removed on drop.
    struct Lab {
        cgroups: Cgroups,
        root: String,
    }

    impl Lab {
        /// `None` if the test cannot run: not root, not v1, or not writable.
        fn new() -> Option<Self> {
            let lab = Self::build();
            // The tests of version 2 are for such a host.
            if lab.is_none() && !has_unified_hierarchy() {
                skipped("needs root and writable cgroup v1 hierarchies");
            }
            lab
        }

        fn build() -> Option<Self> {
            if !Uid::effective().is_root() {
                return None;
            }
            let root = format!("hostlet-test-{:016x}", rand::random::<u64>());
            let settings = settings(&root, Path::new("/sys/fs/cgroup"), Path::new("/proc"));
            let cgroups = Cgroups::open(settings).ok()?;
            if cgroups.version() != CgroupVersion::V1 {
                return None;
            }
            cgroups.ensure_tree().unwrap();
            Some(Self { cgroups, root })
        }

        fn path(&self, hierarchy: &str, below: &str) -> PathBuf {
            Path::new("/sys/fs/cgroup").join(hierarchy).join(&self.root).join("kubepods").join(below)
        }

        fn read(&self, file: &str, below: &str) -> String {
            let hierarchy = file.split('.').next().unwrap();
            fs::read_to_string(self.path(hierarchy, below).join(file)).unwrap().trim().to_owned()
        }
    }

    impl Drop for Lab {
        fn drop(&mut self) {
            for entry in fs::read_dir("/sys/fs/cgroup").unwrap() {
                let tree = entry.unwrap().path().join(&self.root);
                for cgroup in files::leaf_first(&tree).unwrap() {
                    let _ = fs::remove_dir(cgroup);
                }
            }
        }
    }

    #[test]
    fn the_tree_and_pods_of_each_class_have_their_values() {
        let Some(lab) = Lab::new() else { return };
        lab.cgroups.ensure_tree().unwrap();
        assert_eq!(lab.read("cpu.shares", "besteffort"), "2");
        assert_ne!(lab.read("cpuset.cpus", "burstable"), "");

        let all = AllPods { milli_cpu: 1500, memory: 1 << 30, pids: 1000, ..AllPods::default() };
        lab.cgroups.limit_all_pods(&all).unwrap();
        assert_eq!(lab.read("cpu.shares", ""), "1536");
        assert_eq!(lab.read("memory.limit_in_bytes", ""), (1_u64 << 30).to_string());
        assert_eq!(lab.read("pids.max", ""), "1000");

        lab.cgroups.update_qos(&burstable(1500)).unwrap();
        assert_eq!(lab.read("cpu.shares", "burstable"), "1536");
        lab.cgroups.update_qos(&burstable(0)).unwrap();
        assert_eq!(lab.read("cpu.shares", "burstable"), "2");

        let uid = PodUid::from("91bfbf8e-bc69-4d82-8bd0-a527f7510d09");
        for qos in CLASSES {
            assert!(!lab.cgroups.pod_exists(&uid, qos).unwrap());
            lab.cgroups.ensure_pod(&uid, qos, &resources(102, None, None)).unwrap();
            assert!(lab.cgroups.pod_exists(&uid, qos).unwrap());
            let parent = lab.cgroups.parent(&uid, qos).unwrap();
            for hierarchy in ["cpu", "memory", "pids", "cpuset"] {
                assert!(
                    Path::new(&format!("/sys/fs/cgroup/{hierarchy}{parent}")).is_dir(),
                    "{hierarchy}{parent}"
                );
            }
        }
        let pod = "burstable/pod91bfbf8e-bc69-4d82-8bd0-a527f7510d09";
        // As a stock kubelet configures the cgroup of a burstable pod that requests 100m.
        assert_eq!(lab.read("cpu.shares", pod), "102");
        assert_eq!(lab.read("cpu.cfs_quota_us", pod), "-1");
        assert_eq!(lab.read("memory.limit_in_bytes", pod), "9223372036854771712");
        assert_eq!(lab.read("pids.max", pod), "50");
        assert_eq!(lab.cgroups.list_pods().unwrap(), std::slice::from_ref(&uid));

        let limited = resources(512, Some(50_000), Some(64 << 20));
        lab.cgroups.ensure_pod(&uid, QosClass::Burstable, &limited).unwrap();
        assert_eq!(lab.read("cpu.shares", pod), "512");
        assert_eq!(lab.read("cpu.cfs_quota_us", pod), "50000");
        assert_eq!(lab.read("memory.limit_in_bytes", pod), "67108864");
        lab.cgroups.ensure_pod(&uid, QosClass::Burstable, &resources(512, None, None)).unwrap();
        assert_eq!(lab.read("cpu.cfs_quota_us", pod), "-1");
        assert_eq!(lab.read("memory.limit_in_bytes", pod), "9223372036854771712");

        lab.cgroups.remove_pod(&uid).unwrap();
        assert!(lab.cgroups.list_pods().unwrap().is_empty());
        for qos in CLASSES {
            assert!(!lab.cgroups.pod_exists(&uid, qos).unwrap());
        }
        lab.cgroups.remove_pod(&uid).unwrap();
    }

    #[test]
    fn removing_a_pod_kills_what_runs_in_it_and_nothing_else() {
        let Some(lab) = Lab::new() else { return };
        let (doomed, spared) = (PodUid::from("doomed"), PodUid::from("spared"));
        for uid in [&doomed, &spared] {
            lab.cgroups.ensure_pod(uid, QosClass::BestEffort, &resources(2, None, None)).unwrap();
        }
        // A container's cgroup in two hierarchies only, as a runtime that died leaves it.
        let container: Vec<PathBuf> =
            ["memory", "pids"].map(|hierarchy| lab.path(hierarchy, "besteffort/poddoomed/c1")).into();
        container.iter().for_each(|path| fs::create_dir(path).unwrap());
        let mut inside = Sleeper::within(&container);
        let mut beside = Sleeper::within(&[lab.path("memory", "besteffort/podspared")]);
        assert!(
            lab.cgroups.populated(&doomed).unwrap().contains(&lab.path("memory", "besteffort/poddoomed"))
        );
        assert_eq!(lab.cgroups.populated(&spared).unwrap(), [lab.path("memory", "besteffort/podspared")]);

        lab.cgroups.remove_pod(&doomed).unwrap();
        assert_eq!(lab.cgroups.list_pods().unwrap(), [spared]);
        assert!(!container[0].exists());
        let status = inside.0.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
        assert!(beside.0.try_wait().unwrap().is_none(), "the neighbour runs on");
    }

    #[test]
    fn a_cgroup_left_in_one_hierarchy_is_a_pod_to_clean_up() {
        let Some(lab) = Lab::new() else { return };
        let uid = PodUid::from("half-gone");
        let left = lab.path("freezer", "podhalf-gone");
        fs::create_dir(&left).unwrap();
        assert_eq!(lab.cgroups.list_pods().unwrap(), std::slice::from_ref(&uid));
        lab.cgroups.remove_pod(&uid).unwrap();
        assert!(!left.exists());
    }

    #[test]
    fn the_v2_side_of_a_hybrid_host_is_cleaned_too() {
        let Some(lab) = Lab::new() else { return };
        let left = lab.path("unified", "podhybrid/c1");
        if !Path::new("/sys/fs/cgroup/unified/cgroup.procs").exists() {
            return skipped("needs a v2 hierarchy beside those of v1");
        }
        fs::create_dir_all(&left).unwrap();
        // Real v2: the kernel kills through cgroup.kill if it has that file.
        let mut inside = Sleeper::within(std::slice::from_ref(&left));
        assert_eq!(lab.cgroups.list_pods().unwrap(), ["hybrid".into()]);
        lab.cgroups.remove_pod(&"hybrid".into()).unwrap();
        assert!(!left.exists());
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&inside.0.wait().unwrap()), Some(9));
    }
}

mod on_v2 {
    use super::*;

    /// A separate tree, removed on drop.
    struct Lab {
        cgroups: Cgroups,
        driver: CgroupDriver,
        top: PathBuf,
        top_slice: String,
    }

    impl Lab {
        fn new(driver: CgroupDriver) -> Option<Self> {
            let lab = Self::build(driver);
            let has_driver = driver == CgroupDriver::Cgroupfs || Path::new("/run/systemd/system").exists();
            // The tests of version 1 are for a host without it.
            if lab.is_none() && has_unified_hierarchy() && has_driver {
                skipped(&format!("needs root and cgroup v2 that {driver:?} can write"));
            }
            lab
        }

        fn build(driver: CgroupDriver) -> Option<Self> {
            if !Uid::effective().is_root() {
                return None;
            }
            let root = format!("hostlet-test-{:016x}", rand::random::<u64>());
            let settings = settings(&root, Path::new("/sys/fs/cgroup"), Path::new("/proc"));
            let cgroups = Cgroups::open(CgroupSettings { driver, ..settings }).ok()?;
            if cgroups.version() != CgroupVersion::V2 {
                return None;
            }
            cgroups.ensure_tree().unwrap();
            let top_slice = format!("{}.slice", root.replace('-', "_"));
            let top = match driver {
                CgroupDriver::Cgroupfs => root,
                CgroupDriver::Systemd => top_slice.clone(),
            };
            Some(Self { cgroups, driver, top: Path::new("/sys/fs/cgroup").join(top), top_slice })
        }

        /// The cgroup whose name ends with this.
        fn find(&self, end: &str) -> PathBuf {
            let all = files::leaf_first(&self.top).unwrap();
            all.into_iter()
                .find(|path| path.to_str().unwrap().trim_end_matches(".slice").ends_with(end))
                .unwrap()
        }

        fn read(&self, end: &str, file: &str) -> String {
            fs::read_to_string(self.find(end).join(file)).unwrap().trim().to_owned()
        }
    }

    impl Drop for Lab {
        fn drop(&mut self) {
            if self.driver == CgroupDriver::Systemd {
                let _ = systemd::Slices::connect().and_then(|slices| slices.stop(&self.top_slice));
            }
            for cgroup in files::leaf_first(&self.top).unwrap() {
                let _ = fs::remove_dir(cgroup);
            }
        }
    }

    fn a_pod_is_made_set_and_removed(driver: CgroupDriver) {
        let Some(lab) = Lab::new(driver) else { return };
        lab.cgroups.ensure_tree().unwrap();
        assert_eq!(lab.read("besteffort", "cpu.weight"), "1");
        lab.cgroups.update_qos(&burstable(1000)).unwrap();
        assert_eq!(lab.read("burstable", "cpu.weight"), "39");

        let uid = PodUid::from("91bfbf8e-bc69-4d82-8bd0-a527f7510d09");
        let end = match driver {
            CgroupDriver::Cgroupfs => "pod91bfbf8e-bc69-4d82-8bd0-a527f7510d09",
            CgroupDriver::Systemd => "pod91bfbf8e_bc69_4d82_8bd0_a527f7510d09",
        };
        let limited = resources(102, Some(50_000), Some(64 << 20));
        lab.cgroups.ensure_pod(&uid, QosClass::Burstable, &limited).unwrap();
        assert!(lab.cgroups.pod_exists(&uid, QosClass::Burstable).unwrap());
        assert_eq!(lab.cgroups.list_pods().unwrap(), std::slice::from_ref(&uid));
        let parent = lab.cgroups.parent(&uid, QosClass::Burstable).unwrap();
        assert_eq!(Path::new(&format!("/sys/fs/cgroup{parent}")), lab.find(end));
        let limits = || ["cpu.weight", "cpu.max", "memory.max", "pids.max"].map(|file| lab.read(end, file));
        assert_eq!(limits(), ["4", "50000 100000", "67108864", "50"]);
        if driver == CgroupDriver::Systemd {
            // systemd writes its properties again; values set behind its back would be lost.
            assert!(Command::new("systemctl").arg("daemon-reload").status().unwrap().success());
            assert_eq!(limits(), ["4", "50000 100000", "67108864", "50"]);
        }
        lab.cgroups.ensure_pod(&uid, QosClass::Burstable, &resources(102, None, None)).unwrap();
        assert_eq!(limits(), ["4", "max 100000", "max", "50"]);

        let container = lab.find(end).join("c1");
        fs::create_dir(&container).unwrap();
        let mut inside = Sleeper::within(&[container]);
        lab.cgroups.remove_pod(&uid).unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&inside.0.wait().unwrap()), Some(9));
        assert!(lab.cgroups.list_pods().unwrap().is_empty());
        assert!(!lab.cgroups.pod_exists(&uid, QosClass::Burstable).unwrap());
        lab.cgroups.remove_pod(&uid).unwrap();
        // The same pod may come back, as static pods do.
        lab.cgroups.ensure_pod(&uid, QosClass::Burstable, &limited).unwrap();
        assert_eq!(limits(), ["4", "50000 100000", "67108864", "50"]);
        lab.cgroups.remove_pod(&uid).unwrap();
    }

    #[test]
    fn a_pod_is_made_set_and_removed_by_cgroupfs() {
        a_pod_is_made_set_and_removed(CgroupDriver::Cgroupfs);
    }

    #[test]
    fn a_pod_is_made_set_and_removed_by_systemd() {
        a_pod_is_made_set_and_removed(CgroupDriver::Systemd);
    }
}

mod on_made_up_mounts {
    use super::*;
    use crate::cgroup::testing::{host, v2_cgroup, v2_host};

    const HYBRID: [&str; 9] = [
        "20 1 0:20 / / rw - ext4 /dev/sda rw",
        "31 20 0:28 / @/cgroup rw - tmpfs tmpfs rw,mode=755",
        "32 31 0:29 / @/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd",
        "33 31 0:30 / @/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct",
        "34 31 0:31 / @/cgroup/cpuset rw - cgroup cgroup rw,cpuset,clone_children",
        "35 31 0:32 / @/cgroup/memory rw - cgroup cgroup rw,memory",
        "36 31 0:33 / @/cgroup/pids rw - cgroup cgroup rw,pids",
        "37 31 0:34 / @/cgroup/unified rw - cgroup2 cgroup2 rw",
        "38 31 0:30 / @/cgroup/second/mount/of/cpu rw - cgroup cgroup rw,cpu,cpuacct",
    ];

    #[test]
    fn a_hybrid_host_is_v1_with_each_hierarchy_once() {
        let (dir, settings) = host(&HYBRID);
        let (version, found) = hierarchy::detect(&settings).unwrap();
        assert_eq!(version, CgroupVersion::V1);
        let seen: Vec<(String, String)> = found
            .iter()
            .map(|found| {
                let mount = found.mount.strip_prefix(dir.path().join("cgroup")).unwrap();
                (mount.display().to_string(), found.controllers.join("+"))
            })
            .collect();
        let expected = [
            ("systemd", "name=systemd"),
            ("cpu,cpuacct", "cpu+cpuacct"),
            ("cpuset", "cpuset"),
            ("memory", "memory"),
            ("pids", "pids"),
            ("unified", ""),
        ];
        assert_eq!(seen, expected.map(|(mount, names)| (mount.to_owned(), names.to_owned())));
    }

    #[test]
    fn missing_controllers_are_named() {
        let (_dir, settings) = host(&HYBRID[..4]);
        let error = Cgroups::open(settings.clone()).unwrap_err();
        assert!(
            matches!(&error, CgroupError::MissingControllers { missing, .. } if *missing == ["memory", "pids", "cpuset"]),
            "{error}"
        );
        assert!(error.to_string().contains("no memory, pids, cpuset controller"), "{error}");
        let off = Cgroups::open(CgroupSettings { per_qos: false, ..settings }).unwrap();
        off.ensure_tree().unwrap();
        assert_eq!(off.parent(&"1".into(), QosClass::Burstable).unwrap(), "");
        assert!(off.list_pods().unwrap().is_empty());
    }

    #[test]
    fn missing_or_unwritable_hierarchies_are_errors() {
        let (_dir, settings) = host(&HYBRID[..2]);
        assert!(matches!(Cgroups::open(settings).unwrap_err(), CgroupError::NotMounted { .. }));
        // The directories of these mounts do not exist, so they are not writable.
        let (_dir, settings) = host(&HYBRID);
        let error = Cgroups::open(settings).unwrap_err();
        assert!(matches!(error, CgroupError::NotWritable { .. }), "{error}");
        assert!(error.to_string().contains("cgroupsPerQOS: false"), "{error}");
    }

    #[test]
    fn the_systemd_driver_needs_systemd() {
        let (dir, settings) = v2_host("cpuset cpu io memory pids");
        let settings = CgroupSettings { driver: CgroupDriver::Systemd, ..settings };
        let error = Cgroups::open_booted(settings.clone(), &dir.path().join("no-systemd")).unwrap_err();
        assert!(matches!(error, CgroupError::NoSystemd { .. }), "{error}");
        let cgroups = Cgroups::open_booted(settings.clone(), dir.path()).unwrap();
        let burstable = settings.mount.join("kubepods.slice/kubepods-burstable.slice");
        fs::create_dir_all(burstable.join("kubepods-burstable-poda_b.slice/cri-containerd-1.scope")).unwrap();
        fs::create_dir_all(settings.mount.join("kubepods.slice/kubepods-podc_d.slice")).unwrap();
        assert_eq!(cgroups.list_pods().unwrap(), ["a-b".into(), "c-d".into()]);
        assert!(cgroups.pod_exists(&"a-b".into(), QosClass::Burstable).unwrap());
        assert!(!cgroups.pod_exists(&"c-d".into(), QosClass::Burstable).unwrap());
    }

    #[test]
    fn v2_passes_controllers_down_and_writes_its_own_knobs() {
        let all = "cpuset cpu io memory pids";
        let (_dir, settings) = v2_host(all);
        let kubepods = settings.mount.join("kubepods");
        for below in ["", "besteffort", "burstable", "burstable/poda-b"] {
            v2_cgroup(&kubepods.join(below), all);
        }
        let read = |file: &str| fs::read_to_string(kubepods.join(file)).unwrap();
        let cgroups = Cgroups::open(settings.clone()).unwrap();
        assert_eq!(cgroups.version(), CgroupVersion::V2);
        cgroups.ensure_tree().unwrap();
        assert_eq!(read("cgroup.subtree_control"), "+cpuset +cpu +io +memory +pids");
        assert_eq!(read("burstable/cgroup.subtree_control"), "\n", "nothing below needs it yet");
        assert_eq!(read("besteffort/cpu.weight"), "1");

        let limited = resources(1024, Some(50_000), Some(4096));
        cgroups.ensure_pod(&"a-b".into(), QosClass::Burstable, &limited).unwrap();
        assert_eq!(read("burstable/cgroup.subtree_control"), "+cpuset +cpu +io +memory +pids");
        assert_eq!(read("burstable/poda-b/cpu.weight"), "39\n", "left alone: it was so already");
        assert_eq!(read("burstable/poda-b/cpu.max"), "50000 100000");
        assert_eq!(read("burstable/poda-b/memory.max"), "4096");
        assert_eq!(read("burstable/poda-b/pids.max"), "50");
        assert_eq!(cgroups.list_pods().unwrap(), ["a-b".into()]);
        let protection = |min, low| MemoryProtection { min, low };
        let resources = ClassResources {
            burstable_milli_cpu: 2000,
            all_memory: protection(12288, 8192),
            burstable_memory: protection(0, 8192),
            burstable_memory_limit: Some(1 << 20),
            best_effort_memory_limit: None,
        };
        cgroups.protect_all_pods(resources.all_memory).unwrap();
        cgroups.update_qos(&resources).unwrap();
        assert_eq!(read("burstable/cpu.weight"), "79");
        assert_eq!(
            (read("burstable/memory.max"), read("besteffort/memory.max")),
            ("1048576".to_owned(), "max\n".to_owned())
        );
        assert_eq!((read("memory.min"), read("memory.low")), ("12288".to_owned(), "8192".to_owned()));
        assert_eq!(
            (read("burstable/memory.min"), read("burstable/memory.low")),
            ("0\n".to_owned(), "8192".to_owned())
        );
    }

    #[test]
    fn all_pods_are_limited_and_may_use_the_cpus_that_are_online() {
        let all = "cpuset cpu io memory pids hugetlb";
        let (_dir, settings) = v2_host(all);
        let kubepods = settings.mount.join("kubepods");
        v2_cgroup(&kubepods, all);
        let cgroups = Cgroups::open(settings).unwrap();
        let huge_pages = [(2 << 20, 4 << 20)].into();
        let limit =
            AllPods { milli_cpu: 2000, memory: 1 << 30, pids: 1000, huge_pages, cpus: "0-3,5".to_owned() };
        cgroups.limit_all_pods(&limit).unwrap();
        let read = |file: &str| fs::read_to_string(kubepods.join(file)).unwrap();
        let files = ["cpu.weight", "memory.max", "pids.max", "hugetlb.2MB.max", "cpuset.cpus"];
        assert_eq!(files.map(read), ["79", "1073741824", "1000", "4194304", "0-3,5"]);
        assert_eq!(cgroups.all_pods_printed(), "[\"kubepods\"]");
        // Where the controller is missing, and where the kernel shows no list.
        fs::remove_file(kubepods.join("cpuset.cpus")).unwrap();
        cgroups.limit_all_pods(&limit).unwrap();
        cgroups.limit_all_pods(&AllPods { cpus: String::new(), ..limit }).unwrap();
        assert!(!kubepods.join("cpuset.cpus").exists());
    }

    #[test]
    fn v2_says_which_controllers_did_not_come_down() {
        let (_dir, settings) = v2_host("cpuset cpu memory pids");
        v2_cgroup(&settings.mount.join("kubepods"), "cpu pids");
        let error = Cgroups::open(settings).unwrap().ensure_tree().unwrap_err();
        assert!(
            matches!(&error, CgroupError::NotDelegated { missing, .. } if *missing == ["memory"]),
            "{error}"
        );
    }
}
