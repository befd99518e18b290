//! The pods of the storm: their kinds, manifests, and the expected behavior of their processes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::real::BUSYBOX_IMAGE;

/// First word of the process name of every container of the storm.
const MARK: &str = "storm";
/// A script that sleeps until SIGTERM.
const IDLE: &str = "trap 'exit 0' TERM; sleep 100000 & wait";

/// The behavior of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Runs until SIGTERM.
    Plain,
    /// The same with three containers.
    Trio,
    /// The same on the host's network.
    HostNetwork,
    /// Ignores SIGTERM.
    Deaf,
    /// Fails soon and repeatedly.
    Crash,
    /// Runs once, for a moment.
    Job,
    /// Runs until it succeeds, which is at once.
    Retry,
}

impl Kind {
    const ALL: [Self; 7] =
        [Self::Plain, Self::Trio, Self::HostNetwork, Self::Deaf, Self::Crash, Self::Job, Self::Retry];

    /// The kind of the `index`th pod: all kinds are equally frequent.
    pub fn of(index: usize) -> Self {
        Self::ALL[index % Self::ALL.len()]
    }

    fn containers(self) -> &'static [&'static str] {
        match self {
            Self::Trio => &["one", "two", "three"],
            _ => &["main"],
        }
    }

    fn script(self) -> &'static str {
        match self {
            Self::Plain | Self::Trio | Self::HostNetwork => IDLE,
            Self::Deaf => "trap '' TERM; while true; do sleep 1; done",
            Self::Crash => "sleep 0.2; exit 3",
            Self::Job => "sleep 0.5",
            Self::Retry => "true",
        }
    }

    /// Whether its containers run forever.
    pub fn is_lasting(self) -> bool {
        match self {
            Self::Plain | Self::Trio | Self::HostNetwork | Self::Deaf => true,
            Self::Crash | Self::Job | Self::Retry => false,
        }
    }

    /// Whether each container of a pod is started at most once.
    pub fn runs_once(self) -> bool {
        self.is_lasting() || self == Self::Job
    }
}

/// A pod in one version of its manifest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StormPod {
    /// The manifest's name.
    pub name: String,
    /// Its behavior.
    pub kind: Kind,
    /// The number of edits of the manifest.
    pub version: usize,
}

impl StormPod {
    /// The file of its manifest.
    pub fn file(&self) -> String {
        format!("{}.json", self.name)
    }

    /// Its manifest.
    pub fn manifest(&self) -> String {
        self.object().to_string()
    }

    /// The pod of its manifest.
    pub fn object(&self) -> Value {
        let names = self.kind.containers().iter();
        let containers: Vec<_> = names
            .map(|name| {
                let command = ["sh", "-c", self.kind.script(), &self.mark(name)];
                json!({"name": name, "image": BUSYBOX_IMAGE, "command": command})
            })
            .collect();
        let policy = match self.kind {
            Kind::Job => "Never",
            Kind::Retry => "OnFailure",
            _ => "Always",
        };
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self.name, "namespace": "default"},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "restartPolicy": policy,
                "hostNetwork": self.kind == Kind::HostNetwork,
                "containers": containers,
            },
        })
    }

    fn mark(&self, container: &str) -> String {
        Mark { pod: self.name.clone(), version: self.version, container: container.to_owned() }.to_string()
    }

    /// The process names of its containers.
    pub fn marks(&self) -> Vec<Mark> {
        let (pod, version) = (&self.name, self.version);
        let mark = |&name: &&str| Mark { pod: pod.clone(), version, container: name.to_owned() };
        self.kind.containers().iter().map(mark).collect()
    }
}

/// The owner of a process: the last word of its command line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// The manifest's name.
    pub pod: String,
    /// The manifest's version.
    pub version: usize,
    /// The container's name.
    pub container: String,
}

impl std::fmt::Display for Mark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{MARK}/{}/{}/{}", self.pod, self.version, self.container)
    }
}

impl Mark {
    /// Reads it from a command line; none if the process is not of the storm.
    pub fn of(command: &[String]) -> Option<Self> {
        let words: Vec<&str> = command.last()?.split('/').collect();
        let [MARK, pod, version, container] = words[..] else { return None };
        let version = version.parse().ok()?;
        Some(Self { pod: pod.to_owned(), version, container: container.to_owned() })
    }
}

/// The existing pods at one moment, by name.
pub type Present = BTreeMap<String, StormPod>;
