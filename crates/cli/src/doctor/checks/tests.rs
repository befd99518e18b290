//! Every check, by what is wrong with an otherwise healthy host.

use hostlet_base::{CgroupDriver, PodRef};
use hostlet_engine::ownership::{OtherKubelet, Remains, Unrunnable};

use super::testing::{facts, settings};
use super::*;
use crate::doctor::facts::{
    CertificateFacts, CgroupHierarchy, CredentialFacts, DisabledCri, DiskFacts, ObjectsKeyFacts,
    ReservedCgroup, RuntimeAnswer, Unseen,
};
use crate::doctor::report::Level;

/// The findings that are not fine, as `level check: text | remedy`.
fn found(edit: impl FnOnce(&mut Facts)) -> Vec<String> {
    let mut facts = facts();
    edit(&mut facts);
    let bad = check(&facts).into_iter().filter(|finding| finding.level != Level::Ok);
    let line =
        |f: Finding| format!("{:?} {}: {} | {}", f.level, f.check, f.text, f.remedy.unwrap_or_default());
    bad.map(line).collect()
}

/// Asserts that exactly one finding is not fine, and has these parts.
#[track_caller]
fn only(edit: impl FnOnce(&mut Facts), start: &str, parts: &[&str]) {
    let found = found(edit);
    let [one] = &found[..] else { panic!("{start}: {found:#?}") };
    assert!(one.starts_with(start), "{one} does not start with {start}");
    for part in parts {
        assert!(one.contains(part), "{part:?} is not in {one}");
    }
}

fn unseen() -> Unseen {
    Unseen("permission denied".to_owned())
}

#[test]
fn a_healthy_host_has_a_line_per_check() {
    assert_eq!(found(|_| {}), Vec::<String>::new());
    let checks: Vec<String> = check(&facts()).into_iter().map(|finding| finding.check).collect();
    assert_eq!(
        checks,
        [
            "configuration",
            "kernel",
            "cgroups",
            "swap",
            "clock",
            "disk",
            "mounts",
            "inotify",
            "runtime",
            "cgroup driver",
            "snapshotter",
            "pause image",
            "network",
            "ports",
            "kubelet",
            "pods"
        ]
    );
}

#[test]
fn the_configuration_is_checked() {
    let wrong = |facts: &mut Facts| facts.configuration.errors.push("a.yaml:3: unknown field".to_owned());
    only(wrong, "Wrong configuration: a.yaml:3", &["config check"]);
    only(
        |f| f.configuration.missing_manifests = Some("/m".into()),
        "Warning manifests: /m",
        &["mkdir -p /m"],
    );
    only(|f| f.config.sources.static_pod_path = None, "Warning manifests", &["no pods", "staticPodPath"]);
}

#[test]
fn the_machine_is_checked() {
    only(|f| f.machine.kernel = Ok("5.4.0".to_owned()), "Warning kernel: 5.4.0 is older than 5.8", &[]);
    only(|f| f.machine.filesystems = Ok(Default::default()), "Warning kernel", &["modprobe overlay"]);
    let swap = |facts: &mut Facts| facts.machine.swap = Ok(vec!["/dev/sda2".to_owned()]);
    only(swap, "Wrong swap: /dev/sda2", &["swapoff -a", "failSwapOn: false"]);
    let permitted = |facts: &mut Facts| {
        swap(facts);
        facts.config.host.fail_swap_on = false;
    };
    assert!(found(permitted).is_empty());
    only(
        |f| f.now = "2024-01-01T00:00:00Z".parse().unwrap(),
        "Wrong clock",
        &["2024-01-01", "set the clock"],
    );
    only(|f| f.machine.is_synchronized = Some(false), "Warning clock", &["timedatectl"]);
    only(
        |f| f.machine.unshared_mount = Ok(Some("/".into())),
        "Warning mounts: the mount / is not shared",
        &["--make-rshared /"],
    );
    only(|f| f.machine.inotify_instances = Ok(64), "Warning inotify: max_user_instances 64", &["sysctl -w"]);
}

#[test]
fn cgroups_of_enforced_reservations_are_checked() {
    let with = |exists| {
        move |facts: &mut Facts| {
            facts.cgroups.reserved =
                vec![ReservedCgroup { word: "kube-reserved", cgroup: "/kube".to_owned(), exists }];
        }
    };
    assert_eq!(found(with(Ok(()))), Vec::<String>::new());
    let absent = with(Err(Unseen("it does not exist".to_owned())));
    only(
        absent,
        "Wrong reserved cgroup: kube-reserved: it does not exist",
        &["create /kube", "enforceNodeAllocatable"],
    );
}

#[test]
fn disks_are_checked() {
    let disk =
        |edit: fn(&mut DiskFacts)| move |facts: &mut Facts| edit(facts.machine.disks[0].1.as_mut().unwrap());
    only(disk(|d| d.free = 9), "Warning disk: /var/lib/kubelet: 9B of 100B free", &["df -h"]);
    only(disk(|d| d.inodes_free = 4), "Warning disk: /var/lib/kubelet: 4 of 100 inodes", &["df -i"]);
    only(disk(|d| d.is_read_only = true), "Wrong disk", &["remount,rw"]);
    assert!(found(disk(|d| (d.inodes, d.inodes_free) = (0, 0))).is_empty(), "btrfs has no number of inodes");
}

#[test]
fn control_groups_are_checked() {
    let without_memory = |f: &mut Facts| {
        f.cgroups.hierarchy.as_mut().unwrap().1.remove("memory");
    };
    only(
        without_memory,
        "Wrong cgroups: version 2, without the controllers memory",
        &["cgroup_enable=memory"],
    );
    let first = |f: &mut Facts| f.cgroups.hierarchy.as_mut().unwrap().0 = CgroupHierarchy::V1;
    only(first, "Wrong cgroups: version 1", &["failCgroupV1"]);
    only(|f| f.cgroups.hierarchy = Err(unseen()), "Wrong cgroups", &["mount"]);
}

#[test]
fn the_runtimes_cgroup_driver_counts() {
    let driver = |driver| move |f: &mut Facts| f.runtime.answer = settings(|s| s.driver = driver);
    for known in [CgroupDriver::Systemd, CgroupDriver::Cgroupfs] {
        assert!(found(driver(Some(known))).is_empty(), "hostlet uses {known:?}");
    }
    only(driver(None), "Unknown cgroup driver", &[]);
    let without_systemd = |driver| {
        move |f: &mut Facts| {
            f.config.cgroups.driver = CgroupDriver::Systemd;
            f.runtime.answer = settings(|s| s.driver = driver);
            f.cgroups.has_systemd = false;
        }
    };
    for effective in [None, Some(CgroupDriver::Systemd)] {
        only(without_systemd(effective), "Wrong cgroup driver", &["systemd does not run this host"]);
    }
    assert!(found(without_systemd(Some(CgroupDriver::Cgroupfs))).is_empty());
}

#[test]
fn the_runtime_is_checked() {
    let answer = |answer: RuntimeAnswer| {
        move |f: &mut Facts| {
            f.runtime.answer = answer;
            f.ownership.pods = None;
        }
    };
    let first = |edit: Box<dyn FnOnce(&mut Facts)>| {
        let found = found(edit);
        assert_eq!(found.len(), 2, "{found:#?}");
        assert!(found[1].starts_with("Unknown pods"), "{found:#?}");
        found.into_iter().next().unwrap()
    };
    for (answered, start, part) in [
        (RuntimeAnswer::NoSocket, "Wrong runtime: there is no", "systemctl enable --now containerd"),
        (RuntimeAnswer::NotPermitted, "Unknown runtime", "sudo"),
        (RuntimeAnswer::Silent("refused".to_owned()), "Wrong runtime", "refused"),
        (RuntimeAnswer::NoCri, "Wrong runtime", "does not implement the CRI"),
    ] {
        let line = first(Box::new(answer(answered)));
        assert!(line.starts_with(start) && line.contains(part), "{line}");
    }
    let docker = first(Box::new(move |f| {
        answer(RuntimeAnswer::NoCri)(f);
        f.runtime.containerd_file = Some(("/etc/containerd/config.toml".into(), Ok(DisabledCri::Yes)));
    }));
    assert!(docker.contains("disabled_plugins") && docker.contains("hostlet doctor --fix"), "{docker}");
    let missing = first(Box::new(move |f| {
        answer(RuntimeAnswer::NoSocket)(f);
        f.runtime.has_containerd = false;
    }));
    assert!(missing.contains("apt-get install containerd"), "{missing}");

    let with = |edit: fn(&mut crate::doctor::facts::RuntimeSettings)| {
        move |f: &mut Facts| f.runtime.answer = settings(edit)
    };
    only(with(|s| s.version.api_version = "v1alpha2".to_owned()), "Wrong runtime", &["v1alpha2", "upgrade"]);
    only(with(|s| s.snapshotter = Some("native".to_owned())), "Warning snapshotter", &["overlayfs"]);
    only(with(|s| s.snapshotter = None), "Unknown snapshotter", &[]);
    only(with(|s| s.pause_image.as_mut().unwrap().1 = false), "Warning pause image", &["pause:3.8", "--fix"]);
    only(with(|s| s.status.runtime.status = false), "Wrong runtime: containerd 1.7.1 is not ready", &[]);
    only(with(|s| s.status.network.status = false), "Wrong network", &["restart containerd"]);
}

#[test]
fn the_network_is_checked() {
    only(|f| f.network.configurations = Ok(Vec::new()), "Wrong network: /etc/cni/net.d has no", &["--fix"]);
    let without = |f: &mut Facts| f.network.plugins = Ok(["bridge".to_owned()].into());
    only(
        without,
        "Wrong network",
        &["needs the plugins host-local", "/opt/cni/bin", "containernetworking-plugins"],
    );
    let broken = |f: &mut Facts| f.network.configurations.as_mut().unwrap()[0].1 = Err(unseen());
    only(broken, "Wrong network: /etc/cni/net.d/10-a.conflist is not", &[]);
    let port = |f: &mut Facts| f.ports = Ok([(10_250, "kubelet (process 7)".to_owned())].into());
    only(port, "Warning ports: port 10250 is used by kubelet (process 7)", &["ss -ltnp"]);
    let own = |f: &mut Facts| f.ports = Ok([(10_250, "hostlet (process 7)".to_owned())].into());
    assert!(found(own).is_empty());
    let text = |edit: fn(&mut Facts)| {
        let mut facts = facts();
        edit(&mut facts);
        check(&facts).into_iter().find(|finding| finding.check == "ports").unwrap().text
    };
    assert_eq!(text(|_| {}), "10248 and 10250 are free or hostlet's");
    assert_eq!(text(|f| f.config.node_api.listen = None), "10248 is free or hostlet's");
}

#[test]
fn a_key_on_the_disk_is_a_warning_with_a_remedy_where_there_is_a_tpm() {
    let key = |has_tpm| {
        move |f: &mut Facts| f.objects_key = Some(ObjectsKeyFacts { file: "/k/objects.key".into(), has_tpm })
    };
    let start = "Warning stored objects: ";
    only(
        key(true),
        start,
        &["/k/objects.key", "systemd-creds encrypt", "hostlet.objects-key", "offlineObjects: false"],
    );
    only(key(false), start, &["encrypt the disk", "offlineObjects: false"]);
}

#[test]
fn credentials_are_checked() {
    let with = |days: i64, edit: fn(&mut CredentialFacts)| {
        move |f: &mut Facts| {
            let hours = |hours| f.now + jiff::SignedDuration::from_hours(hours);
            let validity = CertificateFacts { from: hours(-24), until: hours(24 * days) };
            let mut credentials = CredentialFacts {
                file: "/k".into(),
                exposed: Vec::new(),
                certificates: vec![("the client certificate".to_owned(), Ok(validity))],
            };
            edit(&mut credentials);
            f.credentials = Some(Ok(credentials));
        }
    };
    assert!(found(with(90, |_| {})).is_empty());
    only(with(10, |_| {}), "Warning credentials: the client certificate expires on 2026-01-11", &["renew"]);
    only(with(-2, |_| {}), "Wrong credentials: the client certificate expired on 2025-12-30", &["replace"]);
    only(with(90, |c| c.exposed.push("/k".into())), "Warning credentials: /k can be read", &["chmod 600 /k"]);
    only(with(90, |c| c.certificates[0].1 = Err(unseen())), "Wrong credentials", &["cannot be used"]);
    only(|f| f.credentials = Some(Err(unseen())), "Wrong credentials", &["permission denied"]);
}

#[test]
fn other_kubelets_and_their_pods_are_found() {
    let web = PodRef::new("default", "web", "u");
    let foreign = |f: &mut Facts| f.ownership.pods = Some([web.clone()].into());
    only(
        foreign,
        "Wrong pods: 1 pod in the runtime; the first start would be refused",
        &["default/web", "adopt"],
    );
    let adopted = |f: &mut Facts| {
        foreign(f);
        f.config.adopt_foreign_pods = true;
    };
    assert!(found(adopted).is_empty());
    // The pods that a takeover would end are named before it is permitted, too.
    for may_adopt in [true, false] {
        let unrunnable = |f: &mut Facts| {
            foreign(f);
            f.config.adopt_foreign_pods = may_adopt;
            f.ownership.unrunnable =
                Ok(vec![Unrunnable { pod: web.clone(), why: "it uses a disk".to_owned() }]);
        };
        only(
            unrunnable,
            "Wrong pods: 1 pod in the runtime; the first start would be refused",
            &["default/web (it uses a disk)", "drain this node"],
        );
    }
    let unread = |f: &mut Facts| {
        foreign(f);
        f.ownership.unrunnable = Err(Unseen("the API server does not answer".to_owned()));
    };
    only(unread, "Wrong pods: 1 pod in the runtime", &["if it can run these (the API server does not"]);
    let own = |f: &mut Facts| {
        foreign(f);
        f.ownership.history = hostlet_engine::ownership::History::RanBefore;
    };
    assert!(found(own).is_empty());
    let remains = |f: &mut Facts| {
        let directories = vec!["/var/lib/kubelet/pods/theirs".into()];
        let remains = Remains { directories, ..Remains::default() };
        f.ownership.remains = Ok([("theirs".into(), remains)].into());
    };
    only(
        remains,
        "Wrong pods: 0 pods in the runtime; the first start would be refused",
        &["rm -r", "theirs"],
    );
    let beside = |f: &mut Facts| {
        own(f);
        remains(f);
    };
    only(beside, "Warning pods: 1 pod in the runtime; hostlet ran here before, and there is", &["leaves it"]);
    let running = found(|f| f.ownership.kubelets = Ok(vec![OtherKubelet::Process(7)]));
    assert!(running[0].starts_with("Wrong kubelet") && running[0].contains("disable --now"), "{running:#?}");
    assert!(running[1].starts_with("Wrong pods"), "{running:#?}");
    only(|f| f.ownership.is_kubelet_enabled = true, "Warning kubelet", &["next boot"]);
    only(|f| f.ownership.leftovers = vec!["/var/lib/kubelet/pki".into()], "Warning kubelet", &["pki"]);
}

#[test]
fn an_ordinary_user_is_told_what_could_not_be_seen() {
    let found = found(|f| {
        f.is_root = false;
        f.runtime.answer = RuntimeAnswer::NotPermitted;
        f.ownership.pods = None;
        f.ownership.kubelets = Err(unseen());
        f.ownership.remains = Err(unseen());
        f.machine.swap = Err(unseen());
    });
    assert!(found.iter().all(|line| line.starts_with("Unknown")), "{found:#?}");
    assert!(found[0].contains("not root"), "{found:#?}");
}
