//! The known Services and their environment variables. Pure. Every node has all Services of the cluster in memory, so only
//! the fields that the variables need are stored.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use serde::{Deserialize, Serialize};

/// Environment variables by name.
pub type ServiceVariables = BTreeMap<String, String>;

/// The namespace and name of the API server's Service, whose variables every pod gets.
const MASTER_NAMESPACE: &str = "default";
const MASTER_SERVICES: [&str; 1] = ["kubernetes"];

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Port {
    name: Box<str>,
    number: i32,
    /// `TCP`, `UDP` or `SCTP`.
    protocol: Box<str>,
}

/// What the variables need of a Service with a cluster IP.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KnownService {
    address: Box<str>,
    ports: Box<[Port]>,
}

impl KnownService {
    /// `None` for a Service without a cluster IP, which has no variables.
    pub fn new(service: Service) -> Option<Self> {
        let spec = service.spec?;
        let address = spec.cluster_ip.filter(|address| !matches!(address.as_str(), "" | "None"))?;
        let ports = spec.ports.into_iter().flatten().map(|port| Port {
            name: port.name.unwrap_or_default().into(),
            number: port.port,
            protocol: port
                .protocol
                .filter(|name| !name.is_empty())
                .unwrap_or_else(|| "TCP".to_owned())
                .into(),
        });
        Some(Self { address: address.into(), ports: ports.collect() })
    }

    /// Upstream's `envvars.FromServices`: the Kubernetes names, then the names of Docker links.
    fn add_variables(&self, name: &str, variables: &mut ServiceVariables) {
        let prefix = variable_name(name);
        let mut set = |suffix: String, value: String| variables.insert(format!("{prefix}_{suffix}"), value);
        set("SERVICE_HOST".to_owned(), self.address.to_string());
        let host =
            if self.address.contains(':') { format!("[{}]", self.address) } else { self.address.to_string() };
        for (index, port) in self.ports.iter().enumerate() {
            let (number, protocol) = (port.number, port.protocol.to_lowercase());
            let url = format!("{protocol}://{host}:{number}");
            if index == 0 {
                set("SERVICE_PORT".to_owned(), number.to_string());
                set("PORT".to_owned(), url.clone());
            }
            if !port.name.is_empty() {
                set(format!("SERVICE_PORT_{}", variable_name(&port.name)), number.to_string());
            }
            let port = format!("PORT_{number}_{}", port.protocol.to_uppercase());
            set(format!("{port}_PROTO"), protocol);
            set(format!("{port}_PORT"), number.to_string());
            set(format!("{port}_ADDR"), self.address.to_string());
            set(port, url);
        }
    }
}

fn variable_name(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}

/// The cluster's Services by namespace and name.
#[derive(Debug, Default)]
pub struct KnownServices {
    services: BTreeMap<Box<str>, BTreeMap<Box<str>, KnownService>>,
    is_listed: bool,
}

impl KnownServices {
    /// The Services of a standalone host: none, and listed.
    pub(super) fn none() -> Self {
        Self { is_listed: true, ..Self::default() }
    }

    /// Whether the Services are known, so that variables can be made.
    pub fn is_listed(&self) -> bool {
        self.is_listed
    }

    /// Records that the Services are known.
    pub fn set_listed(&mut self) {
        self.is_listed = true;
    }

    /// Sets or removes a Service.
    pub fn set(&mut self, namespace: &str, name: &str, service: Option<KnownService>) {
        match service {
            Some(known) => {
                drop(self.services.entry(namespace.into()).or_default().insert(name.into(), known));
            }
            None => {
                if let Some(of_namespace) = self.services.get_mut(namespace) {
                    of_namespace.remove(name);
                    if of_namespace.is_empty() {
                        self.services.remove(namespace);
                    }
                }
            }
        }
    }

    /// The Service of this name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&KnownService> {
        self.services.get(namespace)?.get(name)
    }

    /// All Services with their namespaces and names.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &str, &KnownService)> {
        self.services.iter().flat_map(|(namespace, services)| {
            services.iter().map(move |(name, known)| (&**namespace, &**name, known))
        })
    }

    /// The variables for a pod in `namespace`: the API server's Service and, with `links`, of the Services in the
    /// pod's namespace, which take precedence.
    pub fn variables(&self, namespace: &str, links: bool) -> ServiceVariables {
        let mut variables = ServiceVariables::new();
        let own = self.services.get(namespace).filter(|_| links);
        for name in MASTER_SERVICES {
            let master = self.services.get(MASTER_NAMESPACE).and_then(|services| services.get(name));
            if let Some(master) = master.filter(|_| own.is_none_or(|own| !own.contains_key(name))) {
                master.add_variables(name, &mut variables);
            }
        }
        for (name, service) in own.into_iter().flatten() {
            service.add_variables(name, &mut variables);
        }
        variables
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(namespace: &str, name: &str, spec: Value) -> Service {
        let metadata = json!({"namespace": namespace, "name": name});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    fn kubernetes() -> Service {
        let ports = json!([{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}]);
        service("default", "kubernetes", json!({"clusterIP": "10.96.0.1", "ports": ports}))
    }

    fn known(services: impl IntoIterator<Item = Service>) -> KnownServices {
        let mut known = KnownServices::default();
        for service in services {
            let (namespace, name) =
                (service.metadata.namespace.clone().unwrap(), service.metadata.name.clone().unwrap());
            known.set(&namespace, &name, KnownService::new(service));
        }
        known
    }

    fn texts(variables: ServiceVariables) -> Vec<String> {
        variables.into_iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    /// As in the containers of the golden file.
    const KUBERNETES: [&str; 8] = [
        "KUBERNETES_PORT=tcp://10.96.0.1:443",
        "KUBERNETES_PORT_443_TCP=tcp://10.96.0.1:443",
        "KUBERNETES_PORT_443_TCP_ADDR=10.96.0.1",
        "KUBERNETES_PORT_443_TCP_PORT=443",
        "KUBERNETES_PORT_443_TCP_PROTO=tcp",
        "KUBERNETES_SERVICE_HOST=10.96.0.1",
        "KUBERNETES_SERVICE_PORT=443",
        "KUBERNETES_SERVICE_PORT_HTTPS=443",
    ];

    #[test]
    fn every_pod_gets_the_api_servers_variables_and_with_links_those_of_its_namespace() {
        let dns =
            json!([{"name": "dns-udp", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53}]);
        let services = [
            kubernetes(),
            service("default", "other", json!({"clusterIP": "10.96.0.2", "ports": [{"port": 1}]})),
            service("shop", "kube-dns", json!({"clusterIP": "fd00::a", "ports": dns})),
            service("shop", "headless", json!({"clusterIP": "None", "ports": [{"port": 1}]})),
            service("shop", "external", json!({"type": "ExternalName", "externalName": "x.example"})),
        ];
        let known = known(services);
        assert_eq!(texts(known.variables("shop", false)), KUBERNETES);
        assert_eq!(texts(known.variables("empty", true)), KUBERNETES);
        let of_shop = [
            "KUBE_DNS_PORT=udp://[fd00::a]:53",
            "KUBE_DNS_PORT_53_TCP=tcp://[fd00::a]:53",
            "KUBE_DNS_PORT_53_TCP_ADDR=fd00::a",
            "KUBE_DNS_PORT_53_TCP_PORT=53",
            "KUBE_DNS_PORT_53_TCP_PROTO=tcp",
            "KUBE_DNS_PORT_53_UDP=udp://[fd00::a]:53",
            "KUBE_DNS_PORT_53_UDP_ADDR=fd00::a",
            "KUBE_DNS_PORT_53_UDP_PORT=53",
            "KUBE_DNS_PORT_53_UDP_PROTO=udp",
            "KUBE_DNS_SERVICE_HOST=fd00::a",
            "KUBE_DNS_SERVICE_PORT=53",
            "KUBE_DNS_SERVICE_PORT_DNS_TCP=53",
            "KUBE_DNS_SERVICE_PORT_DNS_UDP=53",
        ];
        assert_eq!(texts(known.variables("shop", true)), [&KUBERNETES[..], &of_shop].concat());
        assert_eq!(known.variables("default", true)["OTHER_SERVICE_HOST"], "10.96.0.2");
    }

    #[test]
    fn a_service_in_the_namespace_takes_precedence_over_the_api_servers_of_the_same_name() {
        let own = service("shop", "kubernetes", json!({"clusterIP": "10.96.0.9", "ports": [{"port": 80}]}));
        let known = known([kubernetes(), own]);
        assert_eq!(known.variables("shop", true)["KUBERNETES_SERVICE_HOST"], "10.96.0.9");
        assert!(!known.variables("shop", true).contains_key("KUBERNETES_PORT_443_TCP"));
        assert_eq!(known.variables("shop", false)["KUBERNETES_SERVICE_HOST"], "10.96.0.1");
    }
}
