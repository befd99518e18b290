//! The metrics of the API, with upstream's names and labels.

use hostlet_telemetry::Metrics;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tonic::{Code, Status};

type Labels = [(&'static str, String); 2];
type Calls = Family<Labels, Counter>;

/// The calls, by their result. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct ApiMetrics {
    all: Calls,
    list: Calls,
    get: Calls,
    watch: Calls,
}

/// A call of the API.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    List,
    Get,
    Watch,
}

impl ApiMetrics {
    pub(super) fn register(&self, metrics: &Metrics) {
        let all = [
            ("kubelet_pod_requests", "Cumulative number of requests to the PodsAPI endpoint", &self.all),
            ("kubelet_pod_requests_list", "Number of requests to the PodsAPI List endpoint", &self.list),
            ("kubelet_pod_requests_get", "Number of requests to the PodsAPI Get endpoint", &self.get),
            ("kubelet_pod_requests_watch", "Number of requests to the PodsAPI Watch endpoint", &self.watch),
        ];
        for (name, help, calls) in all {
            let help = format!("{help}. Broken down by server api version and status code");
            metrics.register(name, &help, calls.clone());
        }
    }

    /// Counts a call that ended with this, and returns it.
    pub(super) fn ended<T>(&self, call: Call, result: Result<T, Status>) -> Result<T, Status> {
        let code = match &result {
            Ok(_) => "OK".to_owned(),
            Err(status) if status.code() == Code::Cancelled => "Canceled".to_owned(),
            Err(status) => format!("{:?}", status.code()),
        };
        let labels = [("server_api_version", "v1alpha1".to_owned()), ("status_code", code)];
        let of = match call {
            Call::List => &self.list,
            Call::Get => &self.get,
            Call::Watch => &self.watch,
        };
        of.get_or_create(&labels).inc();
        self.all.get_or_create(&labels).inc();
        result
    }
}
