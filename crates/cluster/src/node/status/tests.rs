//! The whole status against that of a stock kubelet on the same machine, and each setter by itself.

use std::borrow::Cow;
use std::net::IpAddr;

use hostlet_base::Quantity;
use hostlet_base::node::{
    NodeEvent, NodePressure, Pressure, PressureState, PressureStates, Signal, Threshold,
};
use hostlet_runtime::cri::ImageInfo;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NodeCondition, NodeStatus};
use k8s_openapi::apimachinery::pkg::api::resource;
use serde_json::{Value, json};

use super::{absent_cpus, aggregate, set_heartbeats, status_event, unreserved, update};
use crate::node::testing::{facts, settings};
use crate::node::{KernelCondition, KernelConditions, KernelFinding, NodeFacts, NodeSettings};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn noon() -> Timestamp {
    at("2026-11-21T12:00:00Z")
}

fn made(settings: &NodeSettings, facts: &NodeFacts) -> NodeStatus {
    let mut status = NodeStatus::default();
    update(&mut status, settings, facts, noon());
    status
}

fn reasons(events: Vec<NodeEvent>) -> Vec<Cow<'static, str>> {
    events.into_iter().map(|event| event.reason).collect()
}

/// The Node of a stock kubelet 1.37.2 on a machine with these facts.
fn stock() -> Value {
    serde_json::from_str(include_str!("testdata/stock_node.json")).unwrap()
}

#[test]
fn the_status_equals_the_stock_kubelets() {
    let mut status = NodeStatus::default();
    update(&mut status, &settings(), &facts(), at("2026-11-21T07:04:55Z"));
    set_heartbeats(&mut status, &KernelConditions::NotOurs, at("2026-11-21T07:51:05Z"));
    let mut expected = stock()["status"].clone();
    // It had become ready a second after it registered.
    expected["conditions"][3]["lastTransitionTime"] = json!("2026-11-21T07:04:55Z");
    assert_eq!(serde_json::to_value(&status).unwrap(), expected);
}

#[test]
fn nothing_changes_when_nothing_changed() {
    let status = made(&settings(), &facts());
    let mut again = status.clone();
    let events = update(&mut again, &settings(), &facts(), at("2026-11-21T13:00:00Z"));
    assert_eq!((again, events), (status, Vec::new()));
}

#[test]
fn conditions_and_resources_of_others_stay() {
    let mut status = made(&settings(), &facts());
    let theirs = NodeCondition {
        type_: "NetworkUnavailable".to_owned(),
        status: "False".to_owned(),
        ..NodeCondition::default()
    };
    status.conditions.as_mut().unwrap().insert(0, theirs.clone());
    status
        .capacity
        .as_mut()
        .unwrap()
        .insert("example.com/dongle".to_owned(), resource::Quantity("4".to_owned()));
    update(&mut status, &settings(), &facts(), noon());
    set_heartbeats(&mut status, &KernelConditions::NotOurs, at("2026-11-21T13:00:00Z"));
    assert_eq!(status.conditions.as_ref().unwrap()[0], theirs);
    assert_eq!(status.capacity.unwrap()["example.com/dongle"].0, "4");
    assert_eq!(status.allocatable.unwrap()["example.com/dongle"].0, "4");
}

/// Type, status and reason of the conditions of the kernel, and the heartbeat of the first.
fn of_kernel(status: &NodeStatus) -> (Vec<[String; 3]>, Option<Timestamp>) {
    let all = status.conditions.iter().flatten();
    let is_kernels = |c: &&NodeCondition| KernelCondition::ALL.iter().any(|known| known.name() == c.type_);
    let found: Vec<&NodeCondition> = all.filter(is_kernels).collect();
    let line = |c: &&NodeCondition| [c.type_.clone(), c.status.clone(), c.reason.clone().unwrap_or_default()];
    let heartbeat = found.first().and_then(|c| c.last_heartbeat_time.as_ref()).map(|time| time.0);
    (found.iter().map(line).collect(), heartbeat)
}

#[test]
fn conditions_of_the_kernel_are_reported_only_if_they_are_hostlets() {
    let later = at("2026-11-21T13:00:00Z");
    let mut facts = facts();
    let mut status = made(&settings(), &facts);
    assert_eq!(of_kernel(&status), (vec![], None));

    let finding =
        KernelFinding { reason: "FilesystemIsReadOnly".to_owned(), message: "EXT4-fs (sda1)".to_owned() };
    facts.kernel = KernelConditions::Reported([(KernelCondition::ReadonlyFilesystem, finding)].into());
    assert_eq!(update(&mut status, &settings(), &facts, noon()), []);
    set_heartbeats(&mut status, &facts.kernel, later);
    let reported = vec![
        ["KernelDeadlock", "False", "KernelHasNoDeadlock"].map(str::to_owned),
        ["ReadonlyFilesystem", "True", "FilesystemIsReadOnly"].map(str::to_owned),
        ["XfsShutdown", "False", "XfsHasNotShutDown"].map(str::to_owned),
    ];
    assert_eq!(of_kernel(&status), (reported.clone(), Some(later)));

    // Those of node-problem-detector.
    facts.kernel = KernelConditions::NotOurs;
    update(&mut status, &settings(), &facts, noon());
    set_heartbeats(&mut status, &facts.kernel, at("2026-11-21T14:00:00Z"));
    assert_eq!(of_kernel(&status), (reported, Some(later)));

    facts.kernel = KernelConditions::Withdrawn;
    update(&mut status, &settings(), &facts, noon());
    assert_eq!(of_kernel(&status), (vec![], None));
    assert_eq!(status.conditions.unwrap().len(), 4);
}

#[test]
fn declared_features_of_another_kubelet_are_replaced() {
    let mut status: NodeStatus = serde_json::from_value(stock()["status"].clone()).unwrap();
    status.volumes_in_use = Some(vec!["kubernetes.io/csi/d^v".to_owned()]);
    update(&mut status, &settings(), &facts(), noon());
    let declared = status.declared_features.unwrap();
    assert!(declared.contains(&"RestartAllContainersOnContainerExits".to_owned()) && declared.len() == 4);
    assert_eq!(status.volumes_in_use, None);
}

#[test]
fn huge_pages_and_storage_that_no_longer_exist_are_removed() {
    let mut status = made(&settings(), &facts());
    let mut settings = settings();
    settings.node.local_storage_isolation = false;
    let mut facts = facts();
    facts.host.machine.huge_pages.remove(&(1 << 30));
    update(&mut status, &settings, &facts, noon());
    let names: Vec<String> = status.capacity.unwrap().into_keys().collect();
    assert_eq!(names, ["cpu", "hugepages-2Mi", "memory", "pods"]);
}

#[test]
fn allocatable_is_capacity_without_reservations_and_thresholds() {
    let amount = |text: &str| Quantity::parse(text).unwrap();
    let mut settings = settings();
    let reserved = &mut settings.node.reserved;
    reserved.resources.insert("cpu".to_owned(), vec![amount("100m"), amount("0.25")]);
    reserved.resources.insert("memory".to_owned(), vec![amount("1Gi"), amount("512Mi")]);
    reserved.resources.insert("ephemeral-storage".to_owned(), vec![amount("1Gi")]);
    reserved.eviction_hard = [
        (Signal::MemoryAvailable, Threshold::Part(0.5)),
        (Signal::NodefsAvailable, Threshold::Amount(amount("1Gi"))),
        // Nothing is subtracted for these.
        (Signal::NodefsInodesFree, Threshold::Part(0.5)),
        (Signal::ImagefsAvailable, Threshold::Amount(amount("1Gi"))),
        (Signal::PidAvailable, Threshold::Part(0.5)),
    ]
    .into();
    let mut facts = facts();
    facts.host.machine.memory = 8 << 30;
    facts.host.machine.filesystem = 10 << 30;
    facts.host.machine.huge_pages = [(2 << 20, 512 << 20)].into();
    let allocatable = |settings: &NodeSettings| {
        let all = made(settings, &facts).allocatable.unwrap();
        ["cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "pods"].map(|name| all[name].0.clone())
    };
    // 8 - 1 - 0.5 - 4 - 0.5 GiB of memory.
    assert_eq!(allocatable(&settings), ["1650m", "2Gi", "8589934592", "512Mi", "250"]);
    settings.node.reserved.system_cpus = Some([1].into());
    settings.node.reserved.resources.insert("memory".to_owned(), vec![amount("20Gi")]);
    let [cpu, memory, ..] = allocatable(&settings);
    assert_eq!((cpu.as_str(), memory.as_str()), ("1", "0"));
}

#[test]
fn the_limit_of_all_pods_ignores_eviction_thresholds() {
    let (mut settings, facts) = (settings(), facts());
    let machine = &facts.host.machine;
    let of = |settings: &NodeSettings| {
        let left = unreserved(settings, machine);
        ["cpu", "memory", "pid"].map(|name| left.get(name).unwrap().to_string())
    };
    assert_eq!(of(&settings), ["2", "24684096Ki", "32768"]);
    let quantity = |text: &str| Quantity::parse(text).unwrap();
    let reserved = &mut settings.node.reserved;
    reserved.resources.insert("memory".to_owned(), vec![quantity("1Gi"), quantity("96Ki")]);
    reserved.resources.insert("pid".to_owned(), vec![quantity("768")]);
    reserved.system_cpus = Some([1].into());
    reserved.eviction_hard = [(Signal::MemoryAvailable, Threshold::Amount(quantity("100Mi")))].into();
    assert_eq!(of(&settings), ["1", "23635424Ki", "32k"]);
}

#[test]
fn reservations_above_capacity_are_found() {
    let (mut settings, facts) = (settings(), facts());
    let mut overdrawn = |reserved: &[(&str, &[&str])]| {
        let amounts = |amounts: &[&str]| amounts.iter().map(|text| Quantity::parse(text).unwrap()).collect();
        let reserved = reserved.iter().map(|(name, parts)| ((*name).to_owned(), amounts(parts)));
        settings.node.reserved.resources = reserved.collect();
        super::overdrawn(&settings, &facts.host.machine)
    };
    assert_eq!(overdrawn(&[]), None);
    assert_eq!(overdrawn(&[("cpu", &["1500m", "500m"]), ("memory", &["1Gi"])]), None);
    assert_eq!(overdrawn(&[("cpu", &["1500m", "501m"])]).as_deref(), Some("cpu"));
    assert_eq!(overdrawn(&[("memory", &["24684096Ki"])]).as_deref(), Some("memory"));
    // Eviction begins at 100Mi and 1%.
    assert_eq!(overdrawn(&[("memory", &["24581697Ki"])]).as_deref(), Some("memory"));
    assert_eq!(overdrawn(&[("memory", &["24581696Ki"])]), None);
    assert_eq!(overdrawn(&[("ephemeral-storage", &["264212084Ki"])]).as_deref(), Some("ephemeral-storage"));
    assert_eq!(overdrawn(&[("pid", &["32k", "768"])]).as_deref(), Some("pid"));
}

#[test]
fn reserved_cpus_are_online() {
    let (mut settings, mut facts) = (settings(), facts());
    settings.node.reserved.system_cpus = Some([1, 2, 3].into());
    assert_eq!(absent_cpus(&settings, &facts.host.machine), [2, 3]);
    settings.node.reserved.system_cpus = Some([0].into());
    assert_eq!(absent_cpus(&settings, &facts.host.machine), Vec::<u32>::new());
    settings.node.reserved.system_cpus = Some([7].into());
    facts.host.machine.cpu_list.clear();
    assert_eq!(absent_cpus(&settings, &facts.host.machine), Vec::<u32>::new(), "the kernel shows none");
}

#[test]
fn addresses_keep_their_order_and_the_name_comes_last() {
    let mut facts = facts();
    facts.host.addresses = vec!["fd00::1".parse().unwrap(), "10.0.0.1".parse().unwrap()];
    let reported = |settings: &NodeSettings, facts: &NodeFacts, before: Option<&str>| {
        let mut status = NodeStatus::default();
        if let Some(address) = before {
            status.addresses =
                serde_json::from_value(json!([{"type": "ExternalIP", "address": address}])).unwrap();
        }
        update(&mut status, settings, facts, noon());
        let addresses = status.addresses.unwrap_or_default().into_iter();
        addresses.map(|a| format!("{}={}", a.type_, a.address)).collect::<Vec<_>>().join(" ")
    };
    let mut settings = settings();
    let both = "InternalIP=fd00::1 InternalIP=10.0.0.1 Hostname=node1";
    assert_eq!(reported(&settings, &facts, None), both);
    assert_eq!(reported(&settings, &facts, Some("1.2.3.4")), both);
    settings.node.external_cloud = true;
    assert_eq!(reported(&settings, &facts, None), "Hostname=node1");
    assert_eq!(reported(&settings, &facts, Some("1.2.3.4")), "ExternalIP=1.2.3.4");
    settings.node_ips = vec![IpAddr::from([10, 0, 0, 1])];
    assert_eq!(reported(&settings, &facts, None), both);
    settings.node.external_cloud = false;
    facts.host.addresses.clear();
    assert_eq!(
        reported(&settings, &facts, Some("1.2.3.4")),
        "ExternalIP=1.2.3.4",
        "none found is no reason to forget"
    );
}

#[test]
fn the_largest_images_are_reported_with_few_names() {
    let mut facts = facts();
    let names = |kind: &str, most: usize| (0..most).map(|n| format!("{kind}{n}")).collect::<Vec<_>>();
    let image = |id: &str, size: u64| ImageInfo { id: id.to_owned(), size, ..ImageInfo::default() };
    facts.runtime.images = vec![
        image("a", 1),
        image("b", 2),
        image("c", 2),
        ImageInfo { tags: names("t", 4), digests: names("d", 3), ..image("e", 3) },
        ImageInfo { tags: vec!["<none>:<none>".to_owned()], ..image("f", 4) },
    ];
    let mut settings = settings();
    let reported = |settings: &NodeSettings| {
        let images = made(settings, &facts).images.unwrap_or_default().into_iter();
        images.map(|i| (i.size_bytes.unwrap(), i.names.unwrap_or_default().join(" "))).collect::<Vec<_>>()
    };
    settings.node.max_images = Some(2);
    assert_eq!(reported(&settings), [(4, String::new()), (3, "d0 d1 d2 t0 t1".to_owned())]);
    settings.node.max_images = None;
    assert_eq!(reported(&settings).len(), 5);
    settings.node.max_images = Some(0);
    assert!(reported(&settings).is_empty());
}

#[test]
fn without_an_answer_of_the_runtime_reported_values_stay() {
    let mut status = made(&settings(), &facts());
    let before = status.clone();
    let mut silent = facts();
    (silent.status, silent.runtime.version) = (None, None);
    update(&mut status, &settings(), &silent, noon());
    assert_eq!(status, before);
}

#[test]
fn readiness_has_reasons_and_a_transition_time() {
    let mut status = NodeStatus::default();
    let mut facts = facts();
    let ready = |status: &NodeStatus| {
        let c = status.conditions.as_ref().unwrap().iter().find(|c| c.type_ == "Ready").unwrap().clone();
        let since = c.last_transition_time.unwrap().0.to_string();
        (c.status, c.reason.unwrap(), c.message.unwrap(), since)
    };
    facts.unready = vec!["container runtime is down".to_owned()];
    let events = reasons(update(&mut status, &settings(), &facts, at("2026-11-21T12:00:00Z")));
    assert_eq!(events, ["NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID"]);
    let not_ready = |message: &str| {
        let [status, reason, since] = ["False", "KubeletNotReady", "2026-11-21T12:00:00Z"].map(str::to_owned);
        (status, reason, message.to_owned(), since)
    };
    assert_eq!(ready(&status), not_ready("container runtime is down"));

    facts.unready = ["a", "b", "a"].map(str::to_owned).to_vec();
    let events = update(&mut status, &settings(), &facts, at("2026-11-21T12:00:10Z"));
    assert_eq!((ready(&status), events), (not_ready("[a, b]"), Vec::new()));

    facts.unready.clear();
    let events = update(&mut status, &settings(), &facts, at("2026-11-21T12:00:20Z"));
    assert_eq!(events, [status_event("node1", "NodeReady")]);
    assert_eq!(events[0].message, "Node node1 status is now: NodeReady");
    let [condition, reason, message, since] =
        ["True", "KubeletReady", "kubelet is posting ready status", "2026-11-21T12:00:20Z"]
            .map(str::to_owned);
    assert_eq!(ready(&status), (condition, reason, message, since));

    facts.unready = vec!["c".to_owned()];
    assert_eq!(reasons(update(&mut status, &settings(), &facts, noon())), ["NodeNotReady"]);
}

/// Upstream's words.
#[test]
fn pressure_conditions_follow_the_observed_pressures() {
    let mut status = made(&settings(), &facts());
    let mut facts = facts();
    for (pressure, under, without) in [
        (
            Pressure::Memory,
            [
                "KubeletHasInsufficientMemory",
                "kubelet has insufficient memory available",
                "NodeHasInsufficientMemory",
            ],
            [
                "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available",
                "NodeHasSufficientMemory",
            ],
        ),
        (
            Pressure::Disk,
            ["KubeletHasDiskPressure", "kubelet has disk pressure", "NodeHasDiskPressure"],
            ["KubeletHasNoDiskPressure", "kubelet has no disk pressure", "NodeHasNoDiskPressure"],
        ),
        (
            Pressure::Pid,
            ["KubeletHasInsufficientPID", "kubelet has insufficient PID available", "NodeHasInsufficientPID"],
            ["KubeletHasSufficientPID", "kubelet has sufficient PID available", "NodeHasSufficientPID"],
        ),
    ] {
        let mut reported = |pressures: &[Pressure], at: &str| {
            facts.pressures = states(pressures);
            let events = update(&mut status, &settings(), &facts, at.parse().unwrap());
            let conditions = status.conditions.as_ref().unwrap();
            let c = conditions.iter().find(|c| c.type_ == pressure.condition()).unwrap().clone();
            let others = conditions.iter().filter(|c| c.type_ != pressure.condition() && c.type_ != "Ready");
            assert!(others.clone().count() == 2 && others.clone().all(|c| c.status == "False"));
            let since = c.last_transition_time.unwrap().0.to_string();
            (c.status, [c.reason.unwrap(), c.message.unwrap()], since, reasons(events))
        };
        let said = |status: &str, [reason, message, _]: [&'static str; 3], since: &str| {
            (status.to_owned(), [reason, message].map(str::to_owned), since.to_owned())
        };
        let (one, two, three) = ("2026-11-21T13:00:00Z", "2026-11-21T13:00:10Z", "2026-11-21T13:00:20Z");
        let (status, words, since, events) = reported(&[pressure], one);
        assert_eq!(((status, words, since), events), (said("True", under, one), vec![under[2].into()]));
        let (status, words, since, events) = reported(&[pressure], two);
        assert_eq!(((status, words, since), events), (said("True", under, one), Vec::new()));
        let (status, words, since, events) = reported(&[], three);
        assert_eq!(
            ((status, words, since), events),
            (said("False", without, three), vec![without[2].into()])
        );
    }
}

/// All pressures are observed, and these are present.
fn states(present: &[Pressure]) -> PressureStates {
    let mut states = NodePressure::from([]).states;
    states.extend(present.iter().map(|pressure| (*pressure, PressureState::Present)));
    states
}

#[test]
fn a_pressure_that_nobody_sees_is_unknown_and_one_not_looked_at_yet_stays_as_it_was() {
    let (mut facts, mut status) = (facts(), NodeStatus::default());
    let mut disk = |state: PressureState, status: &mut NodeStatus| {
        facts.pressures.insert(Pressure::Disk, state);
        let events = update(status, &settings(), &facts, at("2026-11-21T13:00:00Z"));
        let conditions = status.conditions.as_ref().unwrap();
        let c = conditions.iter().find(|c| c.type_ == "DiskPressure").unwrap().clone();
        let of_disk = reasons(events).into_iter().filter(|reason| reason.contains("Disk"));
        (c.status, c.message.unwrap_or_default(), of_disk.collect::<Vec<_>>())
    };
    let words = |status: &str, message: &str, events: &[&'static str]| {
        (status.to_owned(), message.to_owned(), events.iter().map(|event| (*event).into()).collect())
    };
    let not_yet = words("Unknown", "kubelet has not looked at it yet", &[]);
    assert_eq!(disk(PressureState::NotYet, &mut status), not_yet);
    let present = words("True", "kubelet has disk pressure", &["NodeHasDiskPressure"]);
    assert_eq!(disk(PressureState::Present, &mut status), present);
    // The next daemon starts.
    assert_eq!(disk(PressureState::NotYet, &mut status), words("True", "kubelet has disk pressure", &[]));
    let why = "nodefs.available cannot be read".to_owned();
    assert_eq!(disk(PressureState::Unknown(why.clone()), &mut status), words("Unknown", &why, &[]));
    let absent = words("False", "kubelet has no disk pressure", &["NodeHasNoDiskPressure"]);
    assert_eq!(disk(PressureState::Absent, &mut status), absent);
}

#[test]
fn distinct_errors_are_joined() {
    let reported = |errors: &[&str]| aggregate(&errors.iter().map(|e| (*e).to_owned()).collect::<Vec<_>>());
    assert_eq!(reported(&[]), None);
    assert_eq!(reported(&["a", "a"]).as_deref(), Some("a"));
    assert_eq!(reported(&["a", "b", "a"]).as_deref(), Some("[a, b]"));
}

#[test]
fn a_reboot_is_reported_once() {
    let mut status = made(&settings(), &facts());
    let mut facts = facts();
    facts.host.machine.boot_id = "another".to_owned();
    let events = update(&mut status, &settings(), &facts, noon());
    assert_eq!(events[0].message, "Node node1 has been rebooted, boot id: another");
    assert_eq!(reasons(events), ["Rebooted"]);
    assert!(update(&mut status, &settings(), &facts, noon()).is_empty());
}

#[test]
fn swap_is_reported_if_there_is_any() {
    let mut facts = facts();
    facts.host.machine.swap = 4096;
    let info = made(&settings(), &facts).node_info.unwrap();
    assert_eq!(info.swap.unwrap().capacity, Some(4096));
}

#[test]
fn without_a_server_the_port_is_zero_as_the_api_server_shows_it() {
    let settings = NodeSettings { server_port: None, ..settings() };
    let shown = serde_json::to_value(made(&settings, &facts())).unwrap();
    assert_eq!(shown["daemonEndpoints"], json!({"kubeletEndpoint": {"Port": 0}}));
}
