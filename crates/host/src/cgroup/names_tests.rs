//! Names of cgroups with both drivers, there and back.

use proptest::prelude::*;

use super::*;

const CLASSES: [QosClass; 3] = [QosClass::Guaranteed, QosClass::Burstable, QosClass::BestEffort];
const DRIVERS: [CgroupDriver; 2] = [CgroupDriver::Cgroupfs, CgroupDriver::Systemd];

fn path(driver: CgroupDriver, root: &str, qos: QosClass, uid: &str) -> String {
    Layout::new(driver, root).unwrap().pod(&uid.into(), qos).unwrap().path(driver)
}

#[test]
fn cgroupfs_paths_are_the_components() {
    let driver = CgroupDriver::Cgroupfs;
    assert_eq!(path(driver, "", QosClass::Guaranteed, "1-2"), "/kubepods/pod1-2");
    assert_eq!(path(driver, "/", QosClass::Burstable, "1-2"), "/kubepods/burstable/pod1-2");
    assert_eq!(path(driver, "/a/b-c", QosClass::BestEffort, "1-2"), "/a/b-c/kubepods/besteffort/pod1-2");
}

#[test]
fn systemd_paths_nest_by_prefix_with_dashes_escaped() {
    let driver = CgroupDriver::Systemd;
    assert_eq!(path(driver, "", QosClass::Guaranteed, "1-2"), "/kubepods.slice/kubepods-pod1_2.slice");
    assert_eq!(
        path(driver, "", QosClass::Burstable, "1-2"),
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice"
    );
    assert_eq!(
        path(driver, "/x-y", QosClass::BestEffort, "1"),
        "/x_y.slice/x_y-kubepods.slice/x_y-kubepods-besteffort.slice/x_y-kubepods-besteffort-pod1.slice"
    );
}

#[test]
fn a_slice_names_its_parent() {
    let layout = Layout::new(CgroupDriver::Systemd, "").unwrap();
    assert_eq!(layout.qos(QosClass::Guaranteed).parent_slice(), "-.slice");
    assert_eq!(layout.qos(QosClass::Burstable).parent_slice(), "kubepods.slice");
    assert_eq!(layout.qos(QosClass::Burstable).slice(), "kubepods-burstable.slice");
}

#[test]
fn systemd_paths_are_what_the_crate_expands_a_slice_to() {
    for qos in CLASSES {
        let name = Layout::new(CgroupDriver::Systemd, "/my-root").unwrap().pod(&"a-b".into(), qos).unwrap();
        let expanded = cgroups_rs::systemd::utils::expand_slice(&name.slice()).unwrap();
        assert_eq!(name.path(CgroupDriver::Systemd), format!("/{expanded}"));
    }
}

#[test]
fn neighbours_are_not_pods() {
    let cgroupfs = Layout::new(CgroupDriver::Cgroupfs, "").unwrap();
    let systemd = Layout::new(CgroupDriver::Systemd, "").unwrap();
    for entry in
        ["burstable", "besteffort", "pod", "cri-containerd-1.scope", "cpu.shares", "pod../x", "pod a"]
    {
        assert_eq!(cgroupfs.uid_of(QosClass::Guaranteed, entry), None, "{entry}");
    }
    for entry in
        ["kubepods-burstable.slice", "kubepods-pod.slice", "pod1.slice", "kubepods-pod1", "other-pod1.slice"]
    {
        assert_eq!(systemd.uid_of(QosClass::Guaranteed, entry), None, "{entry}");
    }
}

#[test]
fn uids_and_roots_with_path_syntax_are_rejected() {
    let layout = Layout::new(CgroupDriver::Cgroupfs, "").unwrap();
    for uid in ["", "../../x", "a/b", "a_b", "a\nb", &"x".repeat(300)] {
        assert!(layout.pod(&uid.into(), QosClass::Burstable).is_err(), "{uid:?}");
    }
    for root in ["/a/../b", "..", "/./a", "/a b", "/-a", "/a\n"] {
        assert!(Layout::new(CgroupDriver::Cgroupfs, root).is_err(), "{root:?}");
    }
}

#[test]
fn cgroups_of_daemons_are_named_as_upstream_reads_them() {
    let path = |text: &str, driver| Ok(CgroupName::of_daemons(text, driver)?.path(driver));
    let cgroupfs =
        |text: &str| path(text, CgroupDriver::Cgroupfs).map_err(|error: CgroupError| error.to_string());
    assert_eq!(cgroupfs("/system.slice").as_deref(), Ok("/system.slice"));
    assert_eq!(cgroupfs("kube-reserved").as_deref(), Ok("/kube-reserved"));
    assert_eq!(cgroupfs("/runtime.slice/kubelet.service/").as_deref(), Ok("/runtime.slice/kubelet.service"));
    let systemd =
        |text: &str| path(text, CgroupDriver::Systemd).map_err(|error: CgroupError| error.to_string());
    for (text, slice) in [
        ("/system.slice", "/system.slice"),
        ("/system", "/system.slice"),
        ("/kube_reserved.slice", "/kube_reserved.slice"),
        ("kube-reserved", "/kube.slice/kube-reserved.slice"),
        ("/kube.slice/kube-reserved.slice", "/kube.slice/kube-reserved.slice"),
        (r"/a.slice/a-b\x2dc.slice", r"/a.slice/a-b\x2dc.slice"),
    ] {
        assert_eq!(systemd(text).as_deref(), Ok(slice), "{text}");
    }
    assert!(systemd("/system.slice/kubelet.service").unwrap_err().contains("is not a slice"));
    for bad in ["", "/", "/a/../b", "/a b", ".."] {
        assert!(cgroupfs(bad).is_err(), "{bad:?}");
        assert!(bad == "/a/../b" || systemd(bad).is_err(), "{bad:?}");
    }
    assert!(systemd("/a--b.slice").is_err() && systemd("/-.slice").is_err());
    assert_eq!(CgroupName::root("/a/b").unwrap().printed(), r#"["a" "b"]"#);
}

proptest! {
    #[test]
    fn a_directory_leads_back_to_its_pod(
        uid in "[a-zA-Z0-9.-]{1,64}", root in "(/[a-z][a-z0-9-]{0,8}){0,3}",
        class in 0usize..3, driver in 0usize..2,
    ) {
        let (qos, driver) = (CLASSES[class], DRIVERS[driver]);
        let layout = Layout::new(driver, &root).unwrap();
        let uid = PodUid::from(uid);
        let path = layout.pod(&uid, qos).unwrap().path(driver);
        let (parent, entry) = path.rsplit_once('/').unwrap();
        prop_assert_eq!(parent, layout.qos(qos).path(driver));
        prop_assert_eq!(layout.uid_of(qos, entry), Some(uid));
    }

    #[test]
    fn any_name_of_daemons_is_one_below_the_mount_or_an_error(text in "[a-z./_\\\\-]{0,12}(\\.slice)?") {
        for driver in DRIVERS {
            if let Ok(name) = CgroupName::of_daemons(&text, driver) {
                let path = name.path(driver);
                let parts: Vec<&str> = path.split('/').skip(1).collect();
                prop_assert!(parts.iter().all(|part| !["", ".", ".."].contains(part)), "{:?}: {}", text, path);
            }
        }
    }

    #[test]
    fn any_directory_name_is_handled(entry in ".{0,40}") {
        for driver in DRIVERS {
            let layout = Layout::new(driver, "").unwrap();
            for qos in CLASSES {
                if let Some(uid) = layout.uid_of(qos, &entry) {
                    prop_assert!(layout.pod(&uid, qos).is_ok());
                }
            }
        }
    }
}
