//! Loading: files and flags in, configuration or errors out.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Command, FromArgMatches};
use hostlet_base::CgroupDriver;
use hostlet_base::node::{Signal, Threshold, Thresholds};
use hostlet_telemetry::LogFormat;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Loaded, control_socket, load};
use crate::served::FIELDS;
use crate::wire::KubeletConfiguration;
use crate::{
    CertificateFiles, KubeletFlags, ParallelPulls, Projections, ServingCertificate, is_called_kubelet,
};

const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

/// The files of a test.
struct Host {
    dir: TempDir,
}

impl Host {
    /// Creates these files, by path and text.
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Loads with these arguments, in which DIR stands for the directory of the files.
    fn load(&self, arguments: &[&str]) -> Result<Loaded, String> {
        self.load_called("/usr/bin/hostlet", arguments)
    }

    /// The same with a program of this name.
    fn load_called(&self, program: &str, arguments: &[&str]) -> Result<Loaded, String> {
        let dir = self.dir.path().to_str().unwrap();
        let arguments =
            std::iter::once(&program).chain(arguments).map(|argument| argument.replace("DIR", dir));
        let command = KubeletFlags::augment_args(Command::new("hostlet").disable_version_flag(true));
        let matches = command.try_get_matches_from(arguments).map_err(|error| error.to_string())?;
        let mut flags = KubeletFlags::from_arg_matches(&matches).map_err(|error| error.to_string())?;
        flags.is_called_kubelet = is_called_kubelet(Some(OsStr::new(program)));
        load(&flags, "Host1").map_err(|errors| errors.to_string().replace(dir, "DIR"))
    }

    fn warnings(&self, arguments: &[&str]) -> Vec<String> {
        let dir = self.dir.path().to_str().unwrap();
        let warnings = self.load(arguments).unwrap().warnings;
        warnings.iter().map(|warning| warning.to_string().replace(dir, "DIR")).collect()
    }
}

/// Loads a file with `text` after the two-line head of a KubeletConfiguration.
fn load_file(text: &str) -> Result<Loaded, String> {
    Host::new(&[("a.yaml", &format!("{HEAD}{text}"))]).load(&["--config=DIR/a.yaml"])
}

/// As upstream: client-go takes a rate of 0 for 5, the kubelet replaces that of events by none, and a burst of 0 is the default.
#[test]
fn request_limits_have_upstreams_meaning() {
    let limits = |text: &str| {
        let host = Host::new(&[("a.yaml", &format!("{HEAD}{text}"))]);
        let joined = host.load(&["--config=DIR/a.yaml", "--kubeconfig=/k"]).unwrap().config.cluster.unwrap();
        let numbers = |(rate, burst): (NonZeroU32, NonZeroU32)| (rate.get(), burst.get());
        (numbers(joined.requests), joined.events.map(numbers))
    };
    assert_eq!(limits(""), ((50, 100), Some((50, 100))));
    let zero = "kubeAPIQPS: 0\nkubeAPIBurst: 0\neventRecordQPS: 0\neventBurst: 0\n";
    assert_eq!(limits(zero), ((5, 100), None));
    let given = "kubeAPIQPS: 7\nkubeAPIBurst: 3\neventRecordQPS: 2\neventBurst: 1\n";
    assert_eq!(limits(given), ((7, 3), Some((2, 1))));
    for field in ["kubeAPIQPS", "kubeAPIBurst", "eventRecordQPS", "eventBurst"] {
        assert!(errors(&format!("{field}: -1\n"))[0].contains(field));
    }
}

fn errors(text: &str) -> Vec<String> {
    load_file(text).unwrap_err().lines().map(str::to_owned).collect()
}

#[test]
fn without_settings_the_node_is_standalone() {
    let loaded = Host::new(&[]).load(&[]).unwrap();
    assert_eq!(loaded.warnings, []);
    let config = loaded.config;
    assert_eq!(config.node_name, "host1");
    assert_eq!(config.root_dir, Path::new("/var/lib/kubelet"));
    assert_eq!(config.socket, Path::new("/run/hostlet/hostlet.sock"));
    assert_eq!(config.max_concurrent_starts.get(), 3);
    assert_eq!(config.image_preload_dir, None);
    assert_eq!(config.sources.static_pod_path, None);
    assert_eq!(config.sources.file_check_frequency, Duration::from_secs(20));
    assert_eq!(config.runtime.runtime_socket, Path::new("/run/containerd/containerd.sock"));
    assert_eq!(config.runtime.image_socket, config.runtime.runtime_socket);
    assert_eq!(config.pulls.parallel, ParallelPulls::AtMost(4.try_into().unwrap()));
    assert_eq!(config.pulls.per_second.unwrap().get(), 5);
    assert_eq!(config.cgroups.pids_limit, None);
    assert_eq!(config.pods.max_restart_wait, Duration::from_secs(300));
    assert!(config.host.fail_swap_on && config.host.fail_cgroup_v1 && config.cgroups.per_qos);
}

#[test]
fn settings_of_a_file_take_effect() {
    let text = "staticPodPath: manifests\nserializeImagePulls: true\ncgroupDriver: systemd\npodPidsLimit: 100\n\
                logging: {format: json, verbosity: 4}\nresolvConf: \"\"\nsingleProcessOOMKill: false\n\
                imageServiceEndpoint: /run/images.sock\nregistryPullQPS: 0\ncrashLoopBackOff:\n  \
                maxContainerRestartPeriod: 10s\nclusterDNS: [10.0.0.10]\nallowedUnsafeSysctls: \
                [net.core.somaxconn]\n---\n\
                apiVersion: hostlet.dev/v1alpha1\nkind: HostletConfiguration\nmaxConcurrentStarts: 8\nsocket: \
                /run/h.sock\n\
                imagePreloadDir: /srv/images\nkernelConditions: true\n";
    let host = Host::new(&[("a.yaml", &format!("{HEAD}{text}"))]);
    let loaded = host.load(&["--config=DIR/a.yaml"]).unwrap();
    assert_eq!(loaded.warnings, []);
    let config = loaded.config;
    assert_eq!(config.sources.static_pod_path, Some(host.path("manifests")));
    assert_eq!(config.pulls.parallel, ParallelPulls::Serial);
    assert_eq!(config.pulls.per_second, None);
    assert_eq!(config.cgroups.driver, CgroupDriver::Systemd);
    assert_eq!(config.cgroups.pids_limit, Some(100));
    assert_eq!(config.cgroups.single_process_oom_kill, Some(false));
    assert_eq!((config.logging.format, config.logging.verbosity), (LogFormat::Json, 4));
    assert_eq!(config.dns.resolv_conf, None);
    assert_eq!(config.dns.cluster_dns.len(), 1);
    assert_eq!(config.runtime.image_socket, Path::new("/run/images.sock"));
    assert_eq!(config.pods.max_restart_wait, Duration::from_secs(10));
    assert_eq!((config.max_concurrent_starts.get(), config.socket.to_str()), (8, Some("/run/h.sock")));
    assert_eq!(config.image_preload_dir.as_deref(), Some(Path::new("/srv/images")));
    assert!(config.kernel_conditions);
    assert_eq!(loaded.effective.hostlet()["imagePreloadDir"], "/srv/images");
}

#[test]
fn objects_are_stored_for_offline_starts_unless_that_is_switched_off() {
    let text = "apiVersion: hostlet.dev/v1alpha1\nkind: HostletConfiguration\nofflineObjects: false\n";
    let host = Host::new(&[("a.yaml", &format!("{HEAD}---\n{text}"))]);
    let stores = |args: &[&str]| host.load(args).unwrap().config.cluster.unwrap().offline_objects;
    assert!(!stores(&["--config=DIR/a.yaml", "--kubeconfig=/k"]) && stores(&["--kubeconfig=/k"]));
}

#[test]
fn trust_bundles_and_certificates_are_in_volumes_unless_their_gates_are_off() {
    let gates = |text: &str| {
        let host = Host::new(&[("a.yaml", &format!("{HEAD}featureGates: {{{text}}}\n"))]);
        let joined = host.load(&["--config=DIR/a.yaml", "--kubeconfig=/k"]).unwrap();
        assert_eq!(joined.warnings, []);
        let Projections { trust_bundles, pod_certificates } = joined.config.cluster.unwrap().projections;
        (trust_bundles, pod_certificates)
    };
    assert_eq!(gates(""), (true, true));
    assert_eq!(gates("ClusterTrustBundleProjection: false"), (false, true));
    assert_eq!(gates("PodCertificateRequest: false"), (true, false));
}

#[test]
fn the_pods_api_is_served_unless_its_gate_is_off() {
    let is_served = |text: &str| {
        let host = Host::new(&[("a.yaml", &format!("{HEAD}featureGates: {{{text}}}\n"))]);
        let loaded = host.load(&["--config=DIR/a.yaml"]).unwrap();
        assert_eq!(loaded.warnings, []);
        loaded.config.pods_api
    };
    assert!(is_served("") && !is_served("PodsAPI: false"));
}

#[test]
fn slices_are_published_on_request_by_a_node_of_a_cluster() {
    let text = "apiVersion: hostlet.dev/v1alpha1\nkind: HostletConfiguration\npublishResourceSlices: true\n";
    let host = Host::new(&[("a.yaml", &format!("{HEAD}---\n{text}"))]);
    let joined = host.load(&["--config=DIR/a.yaml", "--kubeconfig=/k"]).unwrap();
    assert!(joined.config.cluster.unwrap().publish_resource_slices);
    assert_eq!(joined.warnings, []);
    let silent = host.load(&["--kubeconfig=/k"]).unwrap();
    assert!(!silent.config.cluster.unwrap().publish_resource_slices);
    assert_eq!(silent.effective.hostlet()["publishResourceSlices"], false);

    let warnings = host.warnings(&["--config=DIR/a.yaml"]);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with("DIR/a.yaml:6: publishResourceSlices: "), "{warnings:?}");
    assert!(warnings[0].contains("--kubeconfig"), "{warnings:?}");
}

#[test]
fn stronger_sources_win() {
    let drop_in = |text: &str| format!("{HEAD}{text}");
    let host = Host::new(&[
        (
            "a.yaml",
            &drop_in(
                "maxPods: 10\nclusterDomain: a\nfeatureGates: {EventedPLEG: false}\nclusterDNS: [1.1.1.1, 2.2.2.2]\n",
            ),
        ),
        (
            "d/10.conf",
            &drop_in("maxPods: 20\nclusterDNS: [3.3.3.3]\nlogging: {verbosity: 2}\nstaticPodPath: pods\n"),
        ),
        ("d/20/x.conf", &drop_in("maxPods: 30\nfeatureGates: {MemoryQoS: false}\nclusterDomain: null\n")),
        (
            "d/30.conf",
            "{\"apiVersion\": \"hostlet.dev/v1alpha1\", \"kind\": \"HostletConfiguration\", \
             \"maxConcurrentStarts\": 1}",
        ),
        ("d/ignored.yaml", "not: [read"),
    ]);
    let arguments = ["--config=DIR/a.yaml", "--config-dir=DIR/d"];
    let loaded = host.load(&arguments).unwrap();
    assert_eq!(loaded.config.pods.max_pods, 30);
    assert_eq!(loaded.config.dns.cluster_domain, "");
    assert_eq!(loaded.config.dns.cluster_dns.len(), 1);
    assert_eq!(loaded.config.logging.verbosity, 2);
    assert_eq!(loaded.config.max_concurrent_starts.get(), 1);
    assert_eq!(loaded.config.sources.static_pod_path, Some(host.path("d/pods")));

    let flags = ["--max-pods=40", "--feature-gates=NodeSwap=true", "--eviction-hard=memory.available<1Gi"];
    let loaded = host.load(&[&arguments[..], &flags[..]].concat()).unwrap();
    assert_eq!(loaded.config.pods.max_pods, 40);
    let effective = loaded.effective.kubelet();
    assert_eq!(
        effective["featureGates"],
        json!({"EventedPLEG": false, "MemoryQoS": false, "NodeSwap": true})
    );
    assert_eq!(effective["evictionHard"], json!({"memory.available": "1Gi"}));
}

#[test]
fn a_map_in_a_flag_replaces_the_one_in_a_file() {
    let host = Host::new(&[("a.yaml", &format!("{HEAD}evictionHard: {{nodefs.available: 3%}}\n"))]);
    let loaded = host.load(&["--config=DIR/a.yaml", "--eviction-hard=memory.available<1Gi"]).unwrap();
    assert_eq!(loaded.effective.kubelet()["evictionHard"], json!({"memory.available": "1Gi"}));
    assert!(loaded.warnings.is_empty());
}

#[test]
fn every_error_names_file_line_and_field() {
    assert_eq!(
        errors("staticPodPth: /a\nport: x\nmaxPods: 5\nlogging:\n  fromat: json\nmaxPods: 6\n"),
        [
            "DIR/a.yaml:3: unknown field \"staticPodPth\" (did you mean \"staticPodPath\"?)",
            "DIR/a.yaml:4: port: found string \"x\", expected a 32-bit integer",
            "DIR/a.yaml:7: unknown field \"logging.fromat\" (did you mean \"logging.format\"?)",
            "DIR/a.yaml:8:1: duplicate field \"maxPods\", first set on line 5",
        ]
    );
    assert_eq!(
        errors("staticPodPth: /a\nport: x\nlogging:\n  fromat: json\nclientCAFile: /ca\nsyncFrequency: 10\n"),
        [
            "DIR/a.yaml:3: unknown field \"staticPodPth\" (did you mean \"staticPodPath\"?)",
            "DIR/a.yaml:4: port: found string \"x\", expected a 32-bit integer",
            "DIR/a.yaml:6: unknown field \"logging.fromat\" (did you mean \"logging.format\"?)",
            "DIR/a.yaml:7: unknown field \"clientCAFile\" (did you mean \"authentication.x509.clientCAFile\"?)",
            "DIR/a.yaml:8: syncFrequency: found integer `10`, expected a duration such as \"1m30s\"",
        ]
    );
    assert_eq!(
        errors("port: 0x1FFFF\nevictionSoft:\n  memory.available: 1Gi\n"),
        [
            "DIR/a.yaml:3: port: 131071 must be between 1 and 65535",
            "DIR/a.yaml:5: evictionSoft.memory.available: needs an entry in evictionSoftGracePeriod",
        ]
    );
}

#[test]
fn errors_of_all_sources_come_together() {
    let host = Host::new(&[
        ("a.yaml", &format!("{HEAD}port: x\n")),
        ("d/1.conf", "maxPods: 5\n"),
        ("d/2.conf", &format!("{HEAD}a: 1\n")),
    ]);
    let found = host
        .load(&[
            "--config=DIR/a.yaml",
            "--config-dir=DIR/d",
            "--max-pods=many",
            "--sync-frequency=1",
            "--kubeconfig=/k",
        ])
        .unwrap_err();
    assert_eq!(
        found.lines().collect::<Vec<_>>(),
        [
            "DIR/a.yaml:3: port: found string \"x\", expected a 32-bit integer",
            "DIR/d/1.conf:1: apiVersion is missing; expected apiVersion \"kubelet.config.k8s.io/v1beta1\" with kind \
             \"KubeletConfiguration\", or apiVersion \"hostlet.dev/v1alpha1\" with kind \"HostletConfiguration\"",
            "DIR/d/2.conf:3: unknown field \"a\"",
            "--max-pods: maxPods: \"many\" is not a whole number",
            "--sync-frequency: syncFrequency: \"1\" is not a duration; write a number with a unit, such as \"30s\", \
             \"1m30s\" or \"100ms\"",
        ]
    );
}

#[test]
fn other_documents_are_rejected() {
    let message = |text: &str| Host::new(&[("a.yaml", text)]).load(&["--config=DIR/a.yaml"]).unwrap_err();
    assert!(message("").starts_with("DIR/a.yaml: the file is empty; it needs at least apiVersion"));
    assert!(message("---\n# nothing\n").starts_with("DIR/a.yaml: the file is empty"));
    assert!(message("- 1\n").starts_with("DIR/a.yaml:1: found no object; expected"));
    let pod = message("\napiVersion: v1\nkind: Pod\n");
    assert!(pod.starts_with("DIR/a.yaml:3: found apiVersion \"v1\" with kind \"Pod\"; expected"), "{pod}");
    let old = message("kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1\n");
    assert!(old.starts_with("DIR/a.yaml:2: found apiVersion \"kubelet.config.k8s.io/v1\""), "{old}");
    assert!(
        message(&format!("{HEAD}---\n{HEAD}")).starts_with("DIR/a.yaml:4: the file already has a document")
    );
    assert!(message(&format!("{HEAD}a: [\n")).starts_with("DIR/a.yaml:"));
    assert!(message("apiVersion: hostlet.dev/v1alpha1\nkind: HostletConfiguration\nmaxConcurrentStarts: 0\nsokcet: a\n").contains(
        "DIR/a.yaml:3: maxConcurrentStarts: found integer `0`, expected an integer above 0\n\
         DIR/a.yaml:4: unknown field \"sokcet\" (did you mean \"socket\"?)"
    ));
    assert!(
        message("apiVersion: hostlet.dev/v1alpha1\nkind: HostletConfiguration\nsocket: h.sock\n")
            .contains("DIR/a.yaml:3: socket: must be")
    );
    assert!(
        message("apiVersion: hostlet.dev/v1alpha1\nkind: HostletConfiguration\nimagePreloadDir: images\n")
            .contains("DIR/a.yaml:3: imagePreloadDir: must be an absolute path")
    );
    let host = Host::new(&[]);
    assert_eq!(
        host.load(&["--config=DIR/none.yaml", "--config-dir=DIR/none.d"]).unwrap_err(),
        "DIR/none.d: cannot list the directory: No such file or directory (os error 2)\n\
         DIR/none.yaml: cannot open the file: No such file or directory (os error 2)"
    );
}

#[test]
fn unsupported_fields_are_errors_or_warnings() {
    let host = Host::new(&[(
        "a.yaml",
        &format!("{HEAD}volumePluginDir: /plugins\nhairpinMode: none\nfeatureGates:\n  EventedPLEG: true\n"),
    )]);
    assert_eq!(
        host.warnings(&["--config=DIR/a.yaml"]),
        [
            "DIR/a.yaml:3: volumePluginDir: hostlet does not run volume plugins yet, so this has no effect",
            "DIR/a.yaml:4: hairpinMode: this has no effect with container runtimes that are reached over CRI",
            "DIR/a.yaml:6: featureGates.EventedPLEG: hostlet does not depend on this gate; setting it changes nothing",
        ]
    );
    assert_eq!(
        errors(
            "protectKernelDefaults: true\nshutdownGracePeriod: 30s\nsystemReserved: {cpu: 1}\nkubeReserved: \
             {cpu: \"1\"}\n"
        ),
        ["DIR/a.yaml:5: systemReserved.cpu: 1 is not text; put it in quotes"]
    );
    assert_eq!(
        errors("kubeReserved: {disk: \"1\", cpu: \"-1\"}\nsystemReserved: {memory: much}\nreservedSystemCPUs: a\nevictionHard: {memory: 1%}\n").len(),
        5
    );
    let found = errors("qosReserved: {memory: half}\nmemoryManagerPolicy: BestEffort\n");
    assert_eq!(found.len(), 2, "{found:?}");
    let host = Host::new(&[("a.yaml", &format!("{HEAD}qosReserved: {{memory: 50%}}\n"))]);
    assert_eq!(
        host.warnings(&["--config=DIR/a.yaml"]),
        [
            "DIR/a.yaml:3: qosReserved: this has no effect without the feature gate QOSReserved; switch that on, or remove this"
        ]
    );
}

/// Images of EKS set both; the kubelet reads them only to enforce these reservations.
#[test]
fn cgroups_of_reservations_matter_only_where_they_are_enforced() {
    let cgroups = "systemReservedCgroup: /system\nkubeReservedCgroup: /runtime\n";
    let loaded = load_file(&format!("{cgroups}enforceNodeAllocatable: [pods]\n")).unwrap();
    assert_eq!((loaded.warnings, loaded.config.cgroups.enforced_reservations), (Vec::new(), Vec::new()));
    let amounts = "kubeReserved: {cpu: 100m}\n";
    for word in ["kube-reserved", "kube-reserved-compressible"] {
        let text = format!("{cgroups}{amounts}enforceNodeAllocatable: [pods, {word}]\n");
        let [enforced] = load_file(&text).unwrap().config.cgroups.enforced_reservations.try_into().unwrap();
        assert_eq!((enforced.word(), enforced.cgroup.as_str()), (word, "/runtime"));
    }
}

#[test]
fn a_field_that_a_merge_key_sets_is_not_missed() {
    let text = "logging:\n  <<: {vmodule: [{filePattern: a, verbosity: 1}]}\n";
    let host = Host::new(&[("a.yaml", &format!("{HEAD}{text}"))]);
    assert_eq!(
        host.warnings(&["--config=DIR/a.yaml"]),
        ["DIR/a.yaml:4: logging.vmodule: hostlet does not support verbosity by source file"]
    );
}

#[test]
fn a_kubelet_takes_fields_that_it_does_not_know_or_that_are_set_twice() {
    let text = format!("{HEAD}maxPods: 10\nzzz: 5\nmaxPods: 20\nlogging: {{verbose: 3}}\n");
    let host = Host::new(&[("a.yaml", &text), ("d/10.conf", &format!("{HEAD}maxPod: 5\n"))]);
    let arguments = ["--config=DIR/a.yaml", "--config-dir=DIR/d"];
    let strict = host.load(&arguments).unwrap_err();
    assert_eq!(strict.lines().count(), 4, "{strict}");
    let loaded = host.load_called("/usr/bin/kubelet", &arguments).unwrap();
    assert_eq!(loaded.effective.kubelet()["maxPods"], 20);
    let dir = host.dir.path().to_str().unwrap();
    let warnings: Vec<String> =
        loaded.warnings.iter().map(|warning| warning.to_string().replace(dir, "DIR")).collect();
    assert_eq!(
        warnings,
        [
            "DIR/a.yaml:4: zzz: hostlet does not know this field, so it has no effect",
            "DIR/a.yaml:5: duplicate field \"maxPods\", first set on line 3; this one applies",
            "DIR/a.yaml:6: logging.verbose: hostlet does not know this field, so it has no effect \
             (did you mean \"logging.verbosity\"?)",
            "DIR/d/10.conf:3: maxPod: hostlet does not know this field, so it has no effect \
             (did you mean \"maxPods\"?)",
        ]
    );
    // The kubelet decodes drop-ins strictly, without knowing which fields there are.
    let twice = Host::new(&[("d/10.conf", &format!("{HEAD}maxPods: 5\nzzz: 1\nmaxPods: 6\n"))]);
    let error = twice.load_called("kubelet", &["--config-dir=DIR/d"]).unwrap_err();
    assert!(error.contains("maxPods") && !error.contains("zzz"), "{error}");
    let wrong = Host::new(&[("a.yaml", &format!("{HEAD}maxPods: many\n"))]);
    assert!(wrong.load_called("kubelet", &["--config=DIR/a.yaml"]).is_err(), "a wrong value stays one");
    let own =
        format!("{HEAD}---\napiVersion: hostlet.dev/v1alpha1\nkind: HostletConfiguration\nsockets: /a\n");
    let own = Host::new(&[("a.yaml", &own)]);
    assert!(
        own.load_called("kubelet", &["--config=DIR/a.yaml"]).is_err(),
        "the kubelet has no such document"
    );
}

#[test]
fn the_control_socket_is_found_in_any_configuration() {
    let socket = |files: &[(&str, &str)], config: &str| {
        let host = Host::new(files);
        let mut flags = KubeletFlags::default();
        flags.process.config = Some(host.path(config));
        flags.process.config_dir = Some(host.path("d"));
        control_socket(&flags)
    };
    let own = "apiVersion: hostlet.dev/v1alpha1\nkind: HostletConfiguration\n";
    let kubelet = format!("{HEAD}maxPods: wrong\n---\n{own}socket: /run/a.sock\n");
    assert_eq!(socket(&[("a.yaml", &kubelet)], "a.yaml"), Path::new("/run/a.sock"));
    let drop_in = format!("{own}socket: /run/b.sock\n");
    assert_eq!(socket(&[("a.yaml", &kubelet), ("d/1.conf", &drop_in)], "a.yaml"), Path::new("/run/b.sock"));
    assert_eq!(socket(&[], "none.yaml"), Path::new("/run/hostlet/hostlet.sock"));
}

#[test]
fn yaml_is_read_like_by_the_kubelet() {
    let loaded = load_file(
        "maxPods: 1e2\nregistryPullQPS: 5.0\nregistryBurst: 08\nfailSwapOn: Off\nkubeAPIQPS: 1_000\n\
         kubeReserved: &reserved {cpu: \"1\"}\nsystemReserved:\n  <<: *reserved\n  memory: 1Gi\n",
    )
    .unwrap();
    let kubelet = loaded.effective.kubelet();
    let fields =
        ["maxPods", "registryPullQPS", "registryBurst", "failSwapOn", "kubeAPIQPS", "systemReserved"];
    let values: Vec<Value> = fields.iter().map(|field| kubelet[field].clone()).collect();
    assert_eq!(Value::from(values), json!([100, 5, 8, false, 1000, {"cpu": "1", "memory": "1Gi"}]));
}

#[test]
fn the_configuration_in_the_log_has_merged_values_and_no_secrets() {
    let text =
        "eventBurst: 100\nstaticPodURL: http://h/pods\nstaticPodURLHeader: {Authorization: [secret]}\n";
    let host = Host::new(&[
        ("a.yaml", &format!("{HEAD}{text}")),
        ("d/10.conf", &format!("{HEAD}eventBurst: 101\n")),
    ]);
    let loaded = host.load(&["--config=DIR/a.yaml", "--config-dir=DIR/d"]).unwrap();
    let logged = loaded.effective.masked().to_string();
    for part in ["kind: KubeletConfiguration\n", "eventBurst: 101\n", "Authorization:", "<masked>"] {
        assert!(logged.contains(part), "{part}: {logged}");
    }
    assert!(!logged.contains("secret"), "{logged}");
    assert!(loaded.effective.to_string().contains("secret"), "only the log is masked");
}

#[test]
fn the_nodes_api_has_upstreams_defaults_and_needs_a_cluster_for_reviews() {
    let (minutes, seconds) = (|n: u64| Duration::from_secs(60 * n), Duration::from_secs);
    let host = Host::new(&[("tls.crt", ""), ("tls.key", "")]);
    let joined = host.load(&["--kubeconfig=/k"]).unwrap().config.node_api;
    assert_eq!(joined.listen, Some("0.0.0.0:10250".parse().unwrap()));
    assert_eq!(
        (joined.read_only, joined.client_ca_file, joined.certificate),
        (None, None, ServingCertificate::SelfSigned)
    );
    assert_eq!((joined.tokens, joined.authorization), (Some(minutes(2)), Some((minutes(5), seconds(30)))));
    assert!(joined.has_debugging && !joined.is_anonymous_permitted && !joined.streams_need_get_only);
    let alone = host.load(&[]).unwrap().config.node_api;
    assert_eq!((alone.listen, alone.tokens, alone.authorization), (joined.listen, None, None));

    let set = host.load(&[
        "--tls-cert-file=DIR/tls.crt",
        "--tls-private-key-file=DIR/tls.key",
        "--tls-min-version=VersionTLS13",
        "--read-only-port=10255",
        "--address=10.0.0.1",
    ]);
    let set = set.unwrap().config.node_api;
    let files = CertificateFiles { certificate: host.path("tls.crt"), key: host.path("tls.key") };
    assert_eq!(set.certificate, ServingCertificate::Files(files));
    assert_eq!((set.needs_tls_1_3, set.read_only), (true, Some("10.0.0.1:10255".parse().unwrap())));

    let found = errors(
        "tlsCertFile: a.crt\ntlsCipherSuites: [TLS_RSA_WITH_RC4_128_SHA, TLS_NONE]\ntlsCurvePreferences: [29, 0, 29]\n\
         authentication: {webhook: {enabled: true}}\nauthorization: {mode: Webhook}\nserverTLSBootstrap: true\n",
    );
    for (error, expected) in found.iter().zip([
        "DIR/a.yaml:3: tlsCertFile: needs tlsPrivateKeyFile",
        "DIR/a.yaml:4: tlsCipherSuites: \"TLS_NONE\" is no cipher suite that Go knows",
        "DIR/a.yaml:5: tlsCurvePreferences: 0 must be between 1 and 65535",
        "DIR/a.yaml:5: tlsCurvePreferences: 29 is listed twice",
        "DIR/a.yaml:6: authentication.webhook.enabled: this node is standalone, without an API server that knows",
        "DIR/a.yaml:7: authorization.mode: this node is standalone",
        "DIR/a.yaml:8: serverTLSBootstrap: this node is standalone",
    ]) {
        assert!(error.starts_with(expected), "{found:?}");
    }
    assert_eq!(found.len(), 7, "{found:?}");
    let off = "enableServer: false\nauthorization: {mode: Webhook}\ntlsCurvePreferences: [29, 23]\n";
    let off = load_file(off).unwrap().config.node_api;
    assert_eq!((off.listen, &off.groups[..]), (None, &[29, 23][..]));
}

#[test]
fn a_url_of_pods_is_checked_with_its_headers() {
    let config = load_file(
        "staticPodURL: https://h/pods\nstaticPodURLHeader: {X-Site: [a, b]}\nhttpCheckFrequency: 1m\n",
    );
    let sources = config.unwrap().config.sources;
    let source = sources.static_pod_url.unwrap();
    assert_eq!((source.url.host(), source.headers.len()), (Some("h"), 2));
    assert_eq!(sources.http_check_frequency, Duration::from_secs(60));
    assert_eq!(
        errors("staticPodURL: ftp://a\nstaticPodURLHeader: {\"X A\": [b]}\n"),
        [
            "DIR/a.yaml:3: staticPodURL: must be an absolute URL of http or https, like https://example.com/pods.yaml",
            "DIR/a.yaml:4: staticPodURLHeader: \"X A\" is not the name of a header",
        ]
    );
}

#[test]
fn explicit_defaults_and_zeroes_give_no_warning() {
    // As kubeadm writes its file.
    let loaded = load_file(
        "authentication:\n  anonymous: {enabled: false}\n  webhook: {cacheTTL: 0s, enabled: \
         false}\nauthorization:\n  \
         mode: AlwaysAllow\n  webhook: {cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 0s}\ncgroupDriver: systemd\n\
         cpuManagerReconcilePeriod: 0s\nevictionPressureTransitionPeriod: 0s\nfileCheckFrequency: 0s\n\
         healthzBindAddress: 127.0.0.1\nhealthzPort: 10248\nhttpCheckFrequency: 0s\nimageMaximumGCAge: 0s\n\
         imageMinimumGCAge: 0s\nlogging: {flushFrequency: 0, options: {json: {infoBufferSize: \"0\"}}, \
         verbosity: 0}\n\
         memorySwap: {}\nnodeStatusReportFrequency: 0s\nrotateCertificates: false\nruntimeRequestTimeout: 0s\n\
         shutdownGracePeriod: 0s\nshutdownGracePeriodCriticalPods: 0s\nstaticPodURL: \"\"\nreadOnlyPort: 0\n\
         syncFrequency: 0s\nvolumeStatsAggPeriod: 0s\nsystemReserved: {}\nvolumePluginDir: \"\"\n",
    )
    .unwrap();
    assert_eq!(loaded.warnings, []);
}

#[test]
fn the_effective_configuration_loads_back() {
    let host = Host::new(&[]);
    let flags = [
        "--max-pods=7",
        "--cluster-dns=fd00::a",
        "--feature-gates=NodeSwap=true",
        "--cluster-domain=yes",
        "-v=3",
    ];
    let long = format!("--cluster-domain={}", "a long one: \"#\", ".repeat(20));
    for arguments in [&[][..], &flags[..], &[long.as_str()]] {
        let shown = host.load(arguments).unwrap().effective;
        let text = shown.to_string();
        assert!(
            text.starts_with("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"),
            "{text}"
        );
        fs::write(host.path("shown.yaml"), &text).unwrap();
        let loaded = host.load(&["--config=DIR/shown.yaml"]).unwrap();
        assert_eq!(loaded.effective, shown);
        assert_eq!(loaded.warnings, []);
    }
}

#[test]
fn invalid_process_flags_are_rejected() {
    let host = Host::new(&[]);
    for (arguments, message) in [
        (
            ["--exit-on-lock-contention", "--v=1"],
            "--exit-on-lock-contention: is not supported yet; without it hostlet holds its lock until it exits",
        ),
        (["--node-ip=10.0.0.1,10.0.0.2", "--v=1"], "--node-ip: takes one address, or one of each family"),
        (["--root-dir=kubelet", "--v=1"], "--root-dir: must be an absolute path"),
        (["--kubeconfig=/a", "--cert-dir=pki"], "--cert-dir: must be an absolute path"),
        (
            ["--bootstrap-kubeconfig=/a", "--v=1"],
            "--bootstrap-kubeconfig: needs --kubeconfig, the file that is written when this node has joined",
        ),
    ] {
        assert_eq!(host.load(&arguments).unwrap_err(), message);
    }
}

/// Paths of all fields in a document that are not objects with known fields.
fn paths(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    let object = |path: &str| path.is_empty() || crate::served::is_object(path);
    match value {
        Value::Object(fields) if object(path) => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                paths(value, &path, found);
            }
        }
        _ => {
            found.insert(path.to_owned());
        }
    }
}

#[test]
fn every_field_is_in_the_table() {
    let full: Value = serde_json::from_str(include_str!("testdata/every_field.json")).unwrap();
    let document: KubeletConfiguration = serde_json::from_value(full.clone()).unwrap();
    let written = serde_json::to_value(&document).unwrap();
    // A field missing from the test data would be null here.
    assert_eq!(written, full);
    let mut found = BTreeSet::new();
    paths(&written, "", &mut found);
    let table: BTreeSet<String> = FIELDS.iter().map(|(path, _)| (*path).to_owned()).collect();
    assert_eq!(table.len(), FIELDS.len());
    assert_eq!(found, table);
}

#[test]
fn settings_of_the_node() {
    let host = Host::new(&[(
        "a.yaml",
        &format!(
            "{HEAD}nodeStatusUpdateFrequency: 4s\nnodeLeaseDurationSeconds: 20\nnodeStatusMaxImages: \
             -1\nproviderID: x://y\n\
             registerWithTaints: [{{key: a, effect: NoSchedule}}]\npodsPerCore: 3\n"
        ),
    )]);
    let loaded = host
        .load(&[
            "--config=DIR/a.yaml",
            "--node-labels=a=b,c=",
            "--cloud-provider=external",
            "--register-node=false",
        ])
        .unwrap();
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let (node, pods) = (loaded.config.node, loaded.config.pods);
    assert!(node.external_cloud && !node.register && node.controller_attach_detach);
    assert_eq!(
        node.labels.into_iter().collect::<Vec<_>>(),
        [("a", "b"), ("c", "")].map(|(k, v)| (k.to_owned(), v.to_owned()))
    );
    assert_eq!(
        (node.status_update_frequency, node.status_report_frequency),
        (Duration::from_secs(4), Duration::from_secs(4))
    );
    assert_eq!((node.lease_duration, node.max_images), (Duration::from_secs(20), None));
    assert_eq!((node.provider_id.as_deref(), node.taints[0].key.as_str()), (Some("x://y"), "a"));
    assert_eq!((pods.most_pods(2), pods.most_pods(100)), (6, 110));
    let threshold = |signal: &str| loaded.effective.kubelet()["evictionHard"][signal].clone();
    assert_eq!(threshold("memory.available"), "100Mi");
    let part = Threshold::Part(0.1);
    assert_eq!(node.reserved.eviction_hard.get(&Signal::NodefsAvailable), Some(&part));
    let without = host.load(&["--experimental-allocatable-ignore-eviction"]).unwrap();
    assert_eq!(without.config.node.reserved.eviction_hard, Thresholds::new());
    let wrong = host.load(&["--node-labels=node-role.kubernetes.io/x=", "--cloud-provider=aws"]).unwrap_err();
    assert!(wrong.contains("--node-labels: a node must not set the label"), "{wrong}");
    assert!(wrong.contains("--cloud-provider: must be external"), "{wrong}");
}

#[test]
fn reservations_limit_all_pods_by_default() {
    let text = "systemReserved: {memory: 1Gi}\nkubeReserved: {cpu: 100m, pid: \"10\"}\n";
    let host = Host::new(&[("a.yaml", &format!("{HEAD}{text}"))]);
    let loaded = host.load(&["--config=DIR/a.yaml"]).unwrap();
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    assert!(loaded.config.cgroups.limit_all_pods);
    assert_eq!(loaded.config.node.reserved.resources["memory"], [hostlet_base::Quantity::bytes(1 << 30)]);
    let without = host.load(&["--config=DIR/a.yaml", "--enforce-node-allocatable=none"]).unwrap();
    assert!(!without.config.cgroups.limit_all_pods);
}
