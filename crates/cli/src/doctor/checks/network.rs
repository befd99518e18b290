//! The pod network, and the ports of the kubelet.

use super::super::facts::{Facts, NetworkFacts, RuntimeAnswer};
use super::super::report::Finding;

const CHECK: &str = "network";

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let mut findings = configurations(facts);
    let broken = findings.iter().any(|finding| finding.level != super::super::report::Level::Ok);
    if let RuntimeAnswer::Cri(settings) = &facts.runtime.answer
        && !settings.status.network.status
        && !broken
    {
        let network = &settings.status.network;
        let text = format!("the runtime's pod network is not ready: {} {}", network.reason, network.message);
        findings.push(Finding::wrong(
            CHECK,
            text,
            "systemctl restart containerd makes it read the configuration again",
        ));
    }
    findings.extend(ports(facts));
    findings
}

fn configurations(facts: &Facts) -> Vec<Finding> {
    let network = &facts.network;
    let dir = network.conf_dir.display();
    let bins: Vec<String> = network.bin_dirs.iter().map(|dir| dir.display().to_string()).collect();
    let configurations = match &network.configurations {
        Ok(configurations) => configurations,
        Err(why) => return vec![Finding::unknown(CHECK, format!("{dir}: {why}"))],
    };
    // The runtime uses the first by name.
    let Some((file, plugins)) = configurations.first() else {
        return vec![if facts.config.cluster.is_some() {
            let text = format!("{dir} has no configuration; the cluster's network plugin writes it");
            Finding::warning(CHECK, text, "install a network plugin in the cluster, if it has none")
        } else {
            let text = format!("{dir} has no configuration, so only pods with hostNetwork start");
            let can_fix = network
                .missing(NetworkFacts::BRIDGE)
                .is_some_and(|missing| missing.is_empty() || network.are_elsewhere(&missing));
            let remedy = if can_fix {
                "hostlet doctor --fix writes one for a bridge"
            } else {
                "apt-get install containernetworking-plugins, then hostlet doctor --fix writes one for a bridge"
            };
            Finding::wrong(CHECK, text, remedy)
        }];
    };
    let plugins = match plugins {
        Ok(plugins) => plugins,
        Err(why) => {
            let text = format!("{} is not a CNI configuration: {why}", file.display());
            return vec![Finding::wrong(CHECK, text, "correct or remove it")];
        }
    };
    if let Err(why) = &network.plugins {
        return vec![Finding::unknown(CHECK, format!("{}: {why}", bins.join(", ")))];
    }
    let missing = network.missing(plugins.iter().map(String::as_str)).unwrap_or_default();
    if !missing.is_empty() {
        let text = format!(
            "{} needs the plugins {}, which are not in {}",
            file.display(),
            missing.join(", "),
            bins.join(", ")
        );
        let remedy = if network.are_elsewhere(&missing) {
            "hostlet doctor --fix links them"
        } else {
            "apt-get install containernetworking-plugins"
        };
        return vec![Finding::wrong(CHECK, text, remedy)];
    }
    vec![Finding::ok(CHECK, format!("{}: {}", file.display(), plugins.join(", ")))]
}

/// The daemon's ports: health checks, and the API.
fn ports(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "ports";
    let taken = match &facts.ports {
        Ok(taken) => taken,
        Err(why) => return vec![Finding::unknown(CHECK, why.to_string())],
    };
    let others: Vec<_> = taken.iter().filter(|(_, who)| !who.starts_with("hostlet ")).collect();
    if others.is_empty() {
        let wanted: Vec<String> = facts.wanted_ports().iter().map(ToString::to_string).collect();
        let text = match &*wanted {
            [] => "hostlet is to listen on none".to_owned(),
            [port] => format!("{port} is free or hostlet's"),
            [others @ .., last] => format!("{} and {last} are free or hostlet's", others.join(", ")),
        };
        return vec![Finding::ok(CHECK, text)];
    }
    let finding = |(port, who): (&u16, &String)| {
        let text = format!("port {port} is used by {who}");
        Finding::warning(CHECK, text, format!("stop it; ss -ltnp 'sport = :{port}' shows it"))
    };
    others.into_iter().map(finding).collect()
}
