//! A test's part of the shared cluster: a namespace, and nodes for its pods only.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use futures::future::try_join_all;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, ServiceAccount};
use kube::api::{Api, PostParams};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::agent::{Agent, Joining};
use super::control_plane::Cluster;
use super::node::Node;
use crate::wait::{Look, wait_for};

/// The label with a node's tenant.
const LABEL: &str = "hostlet.dev/tenant";
const NAMESPACE_TIMEOUT: Duration = Duration::from_secs(120);

/// Distinguishes the namespaces of one test process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A namespace with its own nodes. Dropping it removes both.
pub struct Tenant {
    /// Its nodes, removed before the cluster.
    pub nodes: Vec<Node>,
    client: Client,
    namespace: String,
    cluster: Arc<Cluster>,
}

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenant")
            .field("namespace", &self.namespace)
            .field("nodes", &self.nodes)
            .finish_non_exhaustive()
    }
}

impl Tenant {
    /// A tenant of the shared cluster with this many nodes, all ready.
    pub async fn new(name: &str, nodes: usize) -> Result<Self> {
        Self::with(name, nodes, &json!({})).await
    }

    /// The same with further fields of `KubeletConfiguration` for its nodes; those of `HostletConfiguration` in a field `hostlet`.
    pub async fn with(name: &str, nodes: usize, extra: &Value) -> Result<Self> {
        Self::of(name, &vec![Agent::chosen()?; nodes], extra).await
    }

    /// The same with a node for each of these agents, in their order.
    pub async fn of(name: &str, agents: &[Agent], extra: &Value) -> Result<Self> {
        Self::joining(name, agents, Joining::Certificate, extra).await
    }

    /// The same, with nodes that join in this way.
    pub async fn joining(name: &str, agents: &[Agent], joining: Joining, extra: &Value) -> Result<Self> {
        Self::on(Cluster::shared().await?, name, agents, joining, extra).await
    }

    /// A tenant of a cluster of its own, which it may stop.
    pub async fn alone(name: &str, nodes: usize, extra: &Value) -> Result<Self> {
        let cluster = Arc::new(Cluster::start().await?);
        Self::on(cluster, name, &vec![Agent::chosen()?; nodes], Joining::Certificate, extra).await
    }

    async fn on(
        cluster: Arc<Cluster>,
        name: &str,
        agents: &[Agent],
        joining: Joining,
        extra: &Value,
    ) -> Result<Self> {
        let client = cluster.client().await?;
        let namespace = format!("{name}-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let mut tenant = Self { nodes: Vec::new(), client, namespace, cluster };
        tenant.make_namespace().await?;
        let labels = format!("{LABEL}={}", tenant.namespace);
        tenant.nodes = try_join_all(
            agents.iter().map(|agent| Node::join(&tenant.cluster, *agent, joining, &labels, extra)),
        )
        .await?;
        for node in &mut tenant.nodes {
            node.wait_until_ready(&tenant.client).await?;
        }
        Ok(tenant)
    }

    /// Creates the namespace and waits for the objects that every pod in it needs.
    async fn make_namespace(&self) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let namespace = serde_json::from_value(json!({"metadata": {"name": self.namespace}}))?;
        namespaces.create(&PostParams::default(), &namespace).await.context("making a namespace")?;
        wait_for("a service account and a root CA", NAMESPACE_TIMEOUT, async || {
            self.api::<ServiceAccount>().get("default").await?;
            self.api::<ConfigMap>().get("kube-root-ca.crt").await?;
            Ok(Look::Done(()))
        })
        .await
    }

    /// An administrator's client.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The namespace's name.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The objects of a kind in its namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Creates an object.
    pub async fn create<K>(&self, object: Value) -> Result<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + fmt::Debug
            + DeserializeOwned
            + Serialize,
    {
        let object = serde_json::from_value(object).context("an object")?;
        self.api().create(&PostParams::default(), &object).await.context("creating an object")
    }

    /// Creates a pod for one of its nodes.
    pub async fn create_pod(&self, mut pod: Value) -> Result<Pod> {
        self.keep_home(&mut pod["spec"]);
        self.create(pod).await
    }

    /// Creates a controller's object whose pods run on its nodes.
    pub async fn create_controller<K>(&self, mut object: Value) -> Result<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + fmt::Debug
            + DeserializeOwned
            + Serialize,
    {
        self.keep_home(&mut object["spec"]["template"]["spec"]);
        self.create(object).await
    }

    /// Adds its node selector to a pod spec, unless the spec names a node.
    pub fn keep_home(&self, spec: &mut Value) {
        if spec["nodeName"].is_null() {
            spec["nodeSelector"][LABEL] = json!(self.namespace);
        }
    }
}

impl Drop for Tenant {
    #[allow(clippy::print_stderr, reason = "a failed clean-up is no secret")]
    fn drop(&mut self) {
        let nodes = self.nodes.iter().map(Node::name);
        let nodes: Vec<&str> =
            ["delete", "node", "--wait=false", "--ignore-not-found"].into_iter().chain(nodes).collect();
        let namespace = ["delete", "namespace", "--wait=false", "--ignore-not-found", &self.namespace];
        // kubectl refuses to delete no node.
        let skipped = usize::from(self.nodes.is_empty());
        for args in [&nodes[..], &namespace].into_iter().skip(skipped) {
            if let Err(error) = self.cluster.kubectl(args) {
                eprintln!("{} is not removed: {error:#}", self.namespace);
            }
        }
    }
}
