//! The metrics of the API, with upstream's names and labels.

use hostlet_telemetry::{Metrics, PlainCounter};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

type Labels = [(&'static str, &'static str); 1];

/// The calls, by version of the API. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct ApiMetrics {
    all: Family<Labels, Counter>,
    list: Family<Labels, PlainCounter>,
    get: Family<Labels, PlainCounter>,
    failed_get: Family<Labels, PlainCounter>,
    get_allocatable: Family<Labels, PlainCounter>,
}

impl ApiMetrics {
    pub(super) fn register(&self, metrics: &Metrics) {
        metrics.register(
            "kubelet_pod_resources_endpoint_requests",
            "Cumulative number of requests to the PodResource endpoint. Broken down by server api version",
            self.all.clone(),
        );
        let named = [
            ("requests_list", "Number of requests to the PodResource List endpoint", &self.list),
            ("requests_get", "Number of requests to the PodResource Get endpoint", &self.get),
            (
                "errors_get",
                "Number of requests to the PodResource Get endpoint which returned error",
                &self.failed_get,
            ),
            (
                "requests_get_allocatable",
                "Number of requests to the PodResource GetAllocatableResources endpoint",
                &self.get_allocatable,
            ),
        ];
        for (name, help, counter) in named {
            metrics.register(
                &format!("kubelet_pod_resources_endpoint_{name}"),
                &format!("{help}. Broken down by server api version"),
                counter.clone(),
            );
        }
    }

    pub(super) fn listed(&self, version: &'static str) {
        self.called(version);
        // Upstream does not count those of the old version here.
        if version == "v1" {
            self.list.get_or_create(&labels(version)).inc();
        }
    }

    pub(super) fn got(&self, is_found: bool) {
        self.called("v1");
        self.get.get_or_create(&labels("v1")).inc();
        if !is_found {
            self.failed_get.get_or_create(&labels("v1")).inc();
        }
    }

    pub(super) fn got_allocatable(&self) {
        self.called("v1");
        self.get_allocatable.get_or_create(&labels("v1")).inc();
    }

    fn called(&self, version: &'static str) {
        self.all.get_or_create(&labels(version)).inc();
    }
}

fn labels(version: &'static str) -> Labels {
    [("server_api_version", version)]
}
