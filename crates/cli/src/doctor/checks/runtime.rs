//! The container runtime: whether it answers, its cgroup driver, its snapshotter, the image of sandboxes.

use hostlet_base::CgroupDriver;

use super::super::facts::{DisabledCri, Facts, RuntimeAnswer, RuntimeSettings};
use super::super::report::Finding;

const CHECK: &str = "runtime";

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let socket = facts.config.runtime.runtime_socket.display();
    let disabled = facts.runtime.containerd_file.as_ref();
    let disabled = disabled.filter(|(_, cri)| *cri == Ok(DisabledCri::Yes)).map(|(file, _)| file.display());
    let finding = match (&facts.runtime.answer, disabled) {
        (RuntimeAnswer::Cri(settings), _) => return answering(facts, settings),
        (RuntimeAnswer::NotPermitted, _) => {
            Finding::unknown(CHECK, format!("{socket} can only be opened by root: run this with sudo"))
        }
        (RuntimeAnswer::NoCri, Some(file)) => Finding::wrong(
            CHECK,
            format!("{file} disables the CRI (disabled_plugins), as Docker's packages do"),
            "hostlet doctor --fix, or remove \"cri\" from disabled_plugins and systemctl restart containerd",
        ),
        (RuntimeAnswer::NoCri, None) => Finding::wrong(
            CHECK,
            format!("what answers on {socket} does not implement the CRI"),
            "enable the CRI in the runtime, or set containerRuntimeEndpoint to a runtime that implements it",
        ),
        (RuntimeAnswer::NoSocket, _) if !facts.runtime.has_containerd => Finding::wrong(
            CHECK,
            format!("there is no {socket}, and containerd is not installed"),
            "install it, e.g. apt-get install containerd, or set containerRuntimeEndpoint",
        ),
        (RuntimeAnswer::NoSocket, _) => Finding::wrong(
            CHECK,
            format!("there is no {socket}"),
            "systemctl enable --now containerd, or set containerRuntimeEndpoint",
        ),
        (RuntimeAnswer::Silent(why), _) => Finding::wrong(
            CHECK,
            format!("{socket} does not answer: {why}"),
            "systemctl restart containerd; journalctl -u containerd says why it failed",
        ),
    };
    vec![finding]
}

fn answering(facts: &Facts, settings: &RuntimeSettings) -> Vec<Finding> {
    let version = &settings.version;
    let name = format!("{} {}", version.runtime_name, version.runtime_version);
    let ready = &settings.status.runtime;
    let mut findings = vec![if version.api_version != "v1" {
        Finding::wrong(
            CHECK,
            format!("{name} implements the CRI {}, not v1", version.api_version),
            "upgrade it: containerd 1.6 or later has v1",
        )
    } else if ready.status {
        Finding::ok(CHECK, name)
    } else {
        let remedy = "journalctl -u containerd says why";
        Finding::wrong(CHECK, format!("{name} is not ready: {} {}", ready.reason, ready.message), remedy)
    }];
    findings.extend([driver(facts, settings), snapshotter(settings), pause_image(settings)]);
    findings
}

/// The runtime decides, if its driver is known.
fn driver(facts: &Facts, settings: &RuntimeSettings) -> Finding {
    const CHECK: &str = "cgroup driver";
    let configured = facts.config.cgroups.driver;
    let own = word(configured);
    match settings.driver.unwrap_or(configured) {
        CgroupDriver::Systemd if !facts.cgroups.has_systemd => Finding::wrong(
            CHECK,
            "systemd, and systemd does not run this host",
            "set cgroupDriver: cgroupfs, and SystemdCgroup = false in containerd's configuration, and restart both",
        ),
        _ if settings.driver.is_none() => {
            Finding::unknown(CHECK, format!("the runtime does not report its driver; cgroupDriver is {own}"))
        }
        driver if driver == configured => {
            Finding::ok(CHECK, format!("{own}, in the runtime and in cgroupDriver"))
        }
        driver => Finding::ok(
            CHECK,
            format!("{}, as the runtime reports; cgroupDriver ({own}) has no effect", word(driver)),
        ),
    }
}

fn word(driver: CgroupDriver) -> &'static str {
    match driver {
        CgroupDriver::Systemd => "systemd",
        CgroupDriver::Cgroupfs => "cgroupfs",
    }
}

fn snapshotter(settings: &RuntimeSettings) -> Finding {
    const CHECK: &str = "snapshotter";
    match settings.snapshotter.as_deref() {
        None | Some("") => Finding::unknown(CHECK, "the runtime does not report it"),
        Some("native") => Finding::warning(
            CHECK,
            "native copies every layer of every image",
            "use overlayfs in containerd's configuration, if the filesystem permits it",
        ),
        Some(name) => Finding::ok(CHECK, name.to_owned()),
    }
}

fn pause_image(settings: &RuntimeSettings) -> Finding {
    const CHECK: &str = "pause image";
    match &settings.pause_image {
        None => Finding::unknown(CHECK, "the runtime does not report which image it uses for sandboxes"),
        Some((image, true)) => Finding::ok(CHECK, image.clone()),
        Some((image, false)) => Finding::warning(
            CHECK,
            format!("the runtime does not have {image}, and pulls it when the first pod starts"),
            "hostlet doctor --fix imports it without a registry",
        ),
    }
}
