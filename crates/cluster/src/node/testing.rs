//! Settings and facts of the node in `status/testdata/stock_node.json`.

#![allow(
    clippy::unwrap_used,
    reason = "what fails in a test is to fail the test; clippy knows only cfg(test)"
)]

use std::collections::BTreeMap;
use std::time::Duration;

use hostlet_base::Quantity;
use hostlet_base::node::{NodePressure, PluginResources, Signal, Threshold};
use hostlet_base::settings::Reserved;
use hostlet_config::Node;
use hostlet_host::Machine;
use hostlet_runtime::cri::{
    ImageInfo, RuntimeCondition, RuntimeFeatures, RuntimeHandler, RuntimeStatus, Version,
};

use crate::node::{HostFacts, KernelConditions, NodeFacts, NodeSettings, RuntimeFacts};

pub fn settings() -> NodeSettings {
    NodeSettings {
        name: "node1".to_owned(),
        node_ips: Vec::new(),
        max_pods: 250,
        server_port: Some(10250),
        node: Node {
            register: true,
            taints: Vec::new(),
            labels: BTreeMap::new(),
            provider_id: None,
            external_cloud: false,
            controller_attach_detach: true,
            status_update_frequency: Duration::from_secs(10),
            status_report_frequency: Duration::from_secs(300),
            lease_duration: Duration::from_secs(40),
            max_images: Some(50),
            local_storage_isolation: true,
            reserved: Reserved {
                eviction_hard: [
                    (Signal::MemoryAvailable, Threshold::Amount(Quantity::bytes(100 << 20))),
                    (Signal::NodefsAvailable, Threshold::Part(0.01)),
                ]
                .into(),
                ..Reserved::default()
            },
        },
    }
}

pub fn facts() -> NodeFacts {
    let handler = |name: &str| RuntimeHandler {
        name: name.to_owned(),
        recursive_read_only_mounts: true,
        user_namespaces: false,
    };
    let ready = RuntimeCondition { status: true, ..RuntimeCondition::default() };
    let nulls = "0".repeat(32);
    NodeFacts {
        host: HostFacts {
            machine: Machine {
                pids: 32_768,
                cpus: 2,
                cpu_list: "0-1".to_owned(),
                memory: 24_684_096 << 10,
                swap: 0,
                huge_pages: BTreeMap::from([(2 << 20, 0), (1 << 30, 0)]),
                filesystem: 264_212_084 << 10,
                machine_id: nulls.clone(),
                system_uuid: nulls.clone(),
                boot_id: nulls,
                kernel_version: "6.18.44-fc-v595".to_owned(),
                os_image: "Debian GNU/Linux 12 (bookworm)".to_owned(),
                app_armor: true,
                in_user_namespace: false,
            },
            addresses: vec!["10.77.0.1".parse().unwrap()],
        },
        runtime: RuntimeFacts {
            version: Some(Version {
                runtime_name: "containerd".to_owned(),
                runtime_version: "2.4.2".to_owned(),
                api_version: "v1".to_owned(),
            }),
            images: images(),
        },
        status: Some(RuntimeStatus {
            runtime: ready.clone(),
            network: ready,
            handlers: vec![handler("runc"), handler("")],
            features: Some(RuntimeFeatures { supplemental_groups_policy: true }),
        }),
        pressures: NodePressure::from([]).states,
        kernel: KernelConditions::default(),
        volumes_in_use: Vec::new(),
        devices: PluginResources::default(),
        unready: Vec::new(),
    }
}

/// In another order than in the Node's status.
fn images() -> Vec<ImageInfo> {
    let image = |size: u64, tags: &[&str]| ImageInfo {
        id: format!("sha256:{size}"),
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        size,
        ..ImageInfo::default()
    };
    const E2E: &str = "registry.k8s.io/e2e-test-images";
    vec![
        image(1_411_357, &[&format!("{E2E}/nonewprivs:1.4")]),
        image(
            322_339,
            &[
                "registry.k8s.io/pause:3.10",
                "registry.k8s.io/pause:3.10.2",
                "registry.k8s.io/pause:3.6",
                "registry.k8s.io/pause:3.8",
            ],
        ),
        image(21_029_954, &[&format!("{E2E}/agnhost:2.55"), &format!("{E2E}/agnhost:2.63.0")]),
        image(1_089_056, &[&format!("{E2E}/ipc-utils:1.4")]),
        image(1_411_613, &[&format!("{E2E}/nonroot:1.5")]),
        image(
            1_089_487,
            &[
                "docker.io/library/import-2026-11-21:x",
                &format!("{E2E}/nginx:1.15-4"),
                &format!("{E2E}/nginx:1.27-0"),
            ],
        ),
        image(
            1_089_354,
            &[
                "docker.io/library/busybox:latest",
                &format!("{E2E}/busybox:1.36.1-1"),
                &format!("{E2E}/busybox:1.37.0-1"),
            ],
        ),
    ]
}
