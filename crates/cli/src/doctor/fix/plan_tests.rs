//! Hosts and the repairs that each needs.

use std::num::NonZeroU32;

use super::*;
use crate::doctor::checks::testing::{facts, settings};
use crate::doctor::facts::Unseen;

const ARCHIVE: &str = "/pause.tar";

fn planned(edit: impl FnOnce(&mut Facts)) -> Vec<Fix> {
    let mut facts = facts();
    edit(&mut facts);
    plan(&facts, Path::new(ARCHIVE))
}

#[test]
fn a_host_that_is_ready_needs_nothing() {
    assert_eq!(planned(|_| {}), []);
}

#[test]
fn the_cri_is_enabled_only_where_a_file_disables_it() {
    let disabled = |facts: &mut Facts, answer| {
        facts.runtime.answer = answer;
        facts.runtime.containerd_file = Some(("/c.toml".into(), Ok(DisabledCri::Yes)));
    };
    let fixes = planned(|facts| disabled(facts, RuntimeAnswer::NoCri));
    assert_eq!(fixes, [Fix::EnableCri { file: "/c.toml".into() }]);
    assert!(fixes[0].to_string().contains("/c.toml.before-hostlet"));
    assert_eq!(planned(|facts| disabled(facts, RuntimeAnswer::Silent("hangs".to_owned()))), []);
    assert_eq!(planned(|facts| disabled(facts, settings(|_| {}))), [], "another file enables it");
    assert_eq!(planned(|facts| facts.runtime.answer = RuntimeAnswer::NoCri), []);
}

#[test]
fn a_network_is_written_only_where_there_is_none_and_nobody_else_writes_it() {
    let fixes = planned(|facts| facts.network.configurations = Ok(Vec::new()));
    assert!(
        matches!(&fixes[..], [Fix::WriteNetwork { file, .. }] if file.ends_with("10-hostlet.conflist")),
        "{fixes:?}"
    );
    for edit in [
        // A broken one is a person's.
        (|facts| facts.network.configurations = Ok(vec![("/a.conf".into(), Err(Unseen(String::new())))]))
            as fn(&mut Facts),
        |facts| facts.network.configurations = Err(Unseen(String::new())),
        |facts| {
            facts.network.configurations = Ok(Vec::new());
            facts.network.plugins = Ok(Default::default());
        },
        |facts| {
            facts.network.configurations = Ok(Vec::new());
            facts.config.cluster = Some(hostlet_config::ClusterConfig {
                kubeconfig: "/kubeconfig".into(),
                bootstrap_kubeconfig: None,
                cert_dir: "/pki".into(),
                rotate_certificates: false,
                requests: (NonZeroU32::MIN, NonZeroU32::MIN),
                events: None,
                offline_objects: true,
                publish_resource_slices: false,
                projections: hostlet_config::Projections { trust_bundles: true, pod_certificates: true },
            });
        },
    ] {
        assert_eq!(planned(edit), []);
    }
}

#[test]
fn plugins_are_linked_only_where_the_runtime_misses_them() {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let debian = |facts: &mut Facts| {
        facts.network.plugins = Ok(words(&["calico"]));
        let names = words(&["bridge", "host-local", "loopback", "portmap"]);
        facts.network.elsewhere = Some(("/usr/lib/cni".into(), names));
    };
    let link = || Fix::LinkPlugins {
        from: "/usr/lib/cni".into(),
        to: "/opt/cni/bin".into(),
        names: ["bridge", "host-local", "loopback", "portmap"].map(str::to_owned).to_vec(),
    };
    assert_eq!(planned(debian), [link()], "for the configuration that there is");
    let without_configuration = |facts: &mut Facts| {
        debian(facts);
        facts.network.configurations = Ok(Vec::new());
    };
    assert_eq!(planned(without_configuration), [link()]);
    let of_another_network = |facts: &mut Facts| {
        debian(facts);
        facts.network.configurations = Ok(vec![("/a.conflist".into(), Ok(vec!["cilium-cni".to_owned()]))]);
    };
    assert_eq!(planned(of_another_network), []);
}

#[test]
fn the_image_is_imported_under_the_name_that_the_runtime_wants() {
    let without = |name: &str| {
        let name = name.to_owned();
        planned(move |facts| {
            facts.runtime.answer = settings(|settings| {
                settings.version.runtime_name = name;
                settings.pause_image = Some(("registry.k8s.io/pause:3.8".to_owned(), false));
            });
        })
    };
    let import = Fix::ImportPause { archive: ARCHIVE.into(), image: "registry.k8s.io/pause:3.8".to_owned() };
    assert_eq!(without("containerd"), [import]);
    assert_eq!(without("cri-o"), []);
}
