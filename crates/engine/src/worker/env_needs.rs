//! The objects that a pod and the environments of its containers refer to. ConfigMaps and Secrets are watched from the pod's
//! first sync until it terminates, so that a restart needs no request. Knows what was lacking.

use std::collections::{BTreeMap, BTreeSet};

use hostlet_pod::AdmittedPod;
use hostlet_pod::objects::services::ServiceEnv;
use hostlet_pod::objects::{ObjectSource, ObjectStates, RuntimeClasses, Watched};

use crate::cri_config::env_references;
use futures::future::{FutureExt, pending, select_all};

/// The references of one pod. Each container has its own receivers, so that reading for one container hides no news from another.
#[derive(Debug, Default)]
pub(super) struct EnvNeeds {
    containers: BTreeMap<String, Watched>,
    /// Containers that could not be configured with the known objects.
    lacking: BTreeSet<String>,
    /// The services, if a container needs them and they were not known.
    services: Option<ServiceEnv>,
    /// The pod's runtime class, if it was not known.
    class: Option<(RuntimeClasses, String)>,
}

impl EnvNeeds {
    /// Watches what the containers of `pod` refer to, and nothing else.
    pub(super) fn follow(&mut self, pod: &AdmittedPod, source: &dyn ObjectSource) {
        self.containers.retain(|name, _| pod.kind_of(name).is_some());
        let namespace = &pod.reference.namespace;
        for container in pod.all_containers().map(|container| container.spec) {
            let wanted = env_references(container, namespace);
            if wanted.is_empty() {
                self.containers.remove(&container.name);
            } else {
                self.containers
                    .entry(container.name.clone())
                    .or_default()
                    .follow(&wanted, |object| source.watch(object));
            }
        }
    }

    /// The known objects of a container. Waits briefly for unknown ones.
    pub(super) async fn of(&mut self, container: &str) -> ObjectStates {
        self.lacking.remove(container);
        let Some(watched) = self.containers.get_mut(container) else { return ObjectStates::default() };
        watched.first_answers().await;
        watched.snapshot()
    }

    /// Records that a container could not be configured with what [`EnvNeeds::of`] returned.
    pub(super) fn lacks(&mut self, container: &str) {
        if self.containers.contains_key(container) {
            self.lacking.insert(container.to_owned());
        }
    }

    /// Records that a container could not be configured before the services are known.
    pub(super) fn lacks_services(&mut self, services: &ServiceEnv) {
        self.services = Some(services.clone());
    }

    /// Records that the pod could not be started without this runtime class.
    pub(super) fn lacks_class(&mut self, classes: &RuntimeClasses, name: &str) {
        self.class = Some((classes.clone(), name.to_owned()));
    }

    /// Waits for news of something that the pod lacks. Cancel-safe: news is consumed only when this returns.
    pub(super) async fn news(&mut self) {
        let Self { containers, lacking, services, class } = self;
        let waiting = containers.iter_mut().filter(|(name, _)| lacking.contains(*name));
        let mut news: Vec<_> = waiting.map(|(_, watched)| watched.changed().boxed()).collect();
        if let Some(services) = services.clone() {
            news.push(async move { services.listed().await }.boxed());
        }
        if let Some((classes, name)) = class.clone() {
            news.push(async move { classes.appears(&name).await }.boxed());
        }
        if news.is_empty() {
            return pending().await;
        }
        select_all(news).await;
        if services.as_ref().is_some_and(ServiceEnv::is_listed) {
            *services = None;
        }
        if class.as_ref().is_some_and(|(classes, name)| classes.known(name).is_some()) {
            *class = None;
        }
    }
}
