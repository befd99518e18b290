//! Decides who gets which devices, from the plugins and what is allocated. Pure: is told the time, and calls no plugin.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hostlet_base::PodUid;
use tokio::time::Instant;

use crate::allocation::{Allocation, Allocations};
use crate::choice::{Choice, Offer, TooFew};
use crate::client::{DevicePlugin, PluginOptions};
use crate::device::DeviceIds;
use crate::error::{AllocateError, AllocateFailure, PreStartError};
use crate::hints::hints;
use crate::inventory::Inventory;
use crate::requests::PodRequests;
use hostlet_resources::Hint;

/// Whether a pod that requests devices runs already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodStage {
    /// None of its containers has run since the host booted.
    New,
    /// At least one has, so that the devices are its own, whatever their plugin says now.
    Running,
}

/// The plugins and the allocations.
pub(crate) struct State {
    pub(crate) inventory: Inventory,
    pub(crate) allocations: Allocations,
    /// The NUMA nodes of the machine.
    pub(crate) nodes: BTreeSet<u32>,
}

/// What is to be done for a container and a resource.
pub(crate) enum Step {
    /// It has its devices, or needs none of them.
    Held,
    /// The plugin is to be called.
    Allocate(Proposal),
}

/// A choice, and the plugin that has to agree.
pub(crate) struct Proposal {
    pub(crate) choice: Choice,
    pub(crate) options: PluginOptions,
    pub(crate) plugin: Arc<dyn DevicePlugin>,
}

/// A call before a container starts.
pub(crate) struct Preparation {
    pub(crate) plugin: Arc<dyn DevicePlugin>,
    pub(crate) devices: DeviceIds,
}

impl State {
    /// Whether a plugin allocates this resource, or did so for somebody who has it still.
    pub(crate) fn is_device(&self, resource: &str) -> bool {
        self.inventory.knows(resource)
            || self.allocations.iter().any(|(_, _, allocated, _)| allocated == resource)
    }

    /// All resources of that kind.
    pub(crate) fn resources(&self) -> BTreeSet<String> {
        let mut all = self.allocations.resources();
        all.extend(self.inventory.names().map(str::to_owned));
        all
    }

    /// What is to be done so that a container has its devices of a resource.
    pub(crate) fn step(
        &self,
        pod: &PodRequests,
        container: &str,
        resource: &str,
        affinity: Option<&Hint>,
        stage: PodStage,
        now: Instant,
    ) -> Result<Step, AllocateError> {
        let required = pod.container(container).and_then(|of| of.amounts.get(resource).copied());
        let Some(required) = required.filter(|_| self.is_device(resource)) else { return Ok(Step::Held) };
        match stage {
            // Nobody who runs loses a device, or gets another one.
            PodStage::Running => return Ok(Step::Held),
            PodStage::New => {}
        }
        let held = self.allocations.of(&pod.uid, container, resource).map(Allocation::ids);
        if let Some(from) = held.as_ref().map(DeviceIds::len).filter(|from| *from != required) {
            let (uid, container) = (pod.uid.to_string(), container.to_owned());
            let resource = resource.to_owned();
            return Err(AllocateFailure::Changed { uid, container, resource, from, to: required }.into());
        }
        let choice = self.choose(pod, container, resource, affinity, required, held.as_ref());
        let choice = choice.map_err(|failure| match self.inventory.awaited(resource, now) {
            Some(awaited) => AllocateError::NotYet(awaited),
            None => AllocateError::Failed(failure),
        })?;
        let serving = self.inventory.serving(resource);
        Ok(match (choice, serving) {
            (Some(choice), Some(serving)) => {
                Step::Allocate(Proposal { choice, options: serving.options, plugin: serving.plugin.clone() })
            }
            // Without an instance that serves there are no healthy devices, and no choice.
            (None, Some(_)) | (_, None) => Step::Held,
        })
    }

    /// The choice for a new pod; `None` if it has devices that can be used.
    fn choose(
        &self,
        pod: &PodRequests,
        container: &str,
        resource: &str,
        affinity: Option<&Hint>,
        required: usize,
        held: Option<&DeviceIds>,
    ) -> Result<Option<Choice>, AllocateFailure> {
        let Some(list) = self.inventory.devices(resource) else {
            return Err(AllocateFailure::Unregistered { resource: resource.to_owned() });
        };
        let healthy = self.inventory.healthy(resource);
        if healthy.is_empty() {
            return Err(AllocateFailure::NoneHealthy { resource: resource.to_owned() });
        }
        if let Some(held) = held {
            return match held.is_subset(&healthy) {
                true => Ok(None),
                false => Err(AllocateFailure::Unhealthy { resource: resource.to_owned() }),
            };
        }
        let reusable = self.allocations.reusable(pod, container, resource);
        let offer = Offer {
            required,
            list,
            free: &healthy - &self.allocations.in_use(resource),
            reusable: &reusable & &healthy,
            affinity,
        };
        Choice::new(offer).map(Some).map_err(|TooFew { needed, available }| AllocateFailure::TooFew {
            resource: resource.to_owned(),
            requested: needed,
            available,
        })
    }

    /// The NUMA nodes on which a container's devices can be allocated, by resource. A resource without a preference is left out; one
    /// without hints cannot be allocated.
    pub(crate) fn hints(&self, pod: &PodRequests, container: &str) -> BTreeMap<String, Vec<Hint>> {
        let Some(requests) = pod.container(container) else { return BTreeMap::new() };
        let hinted = requests.amounts.iter().filter_map(|(resource, requested)| {
            let held = self.allocations.of(&pod.uid, container, resource).map(Allocation::ids);
            let reusable = self.allocations.reusable(pod, container, resource);
            Some((resource.clone(), self.hints_of(resource, *requested, held, &reusable)?))
        });
        hinted.collect()
    }

    /// The same for all containers of a pod together.
    pub(crate) fn pod_hints(&self, pod: &PodRequests) -> BTreeMap<String, Vec<Hint>> {
        let hinted = pod.together().into_iter().filter_map(|(resource, requested)| {
            let held = Some(self.allocations.of_pod(&pod.uid, &resource)).filter(|held| !held.is_empty());
            let hints = self.hints_of(&resource, requested, held, &DeviceIds::new())?;
            Some((resource, hints))
        });
        hinted.collect()
    }

    fn hints_of(
        &self,
        resource: &str,
        requested: usize,
        held: Option<DeviceIds>,
        reusable: &DeviceIds,
    ) -> Option<Vec<Hint>> {
        let list = self.inventory.devices(resource)?;
        match held {
            Some(held) if held.len() != requested => {
                hints(list, &self.nodes, &held, &DeviceIds::new(), requested).map(|_| Vec::new())
            }
            Some(held) => hints(list, &self.nodes, &held, &DeviceIds::new(), requested),
            None => {
                let free = &self.inventory.healthy(resource) - &self.allocations.in_use(resource);
                hints(list, &self.nodes, &free, reusable, requested)
            }
        }
    }

    /// The calls before a container starts with what it was allocated.
    pub(crate) fn preparations(
        &self,
        uid: &PodUid,
        container: &str,
        stage: PodStage,
        now: Instant,
    ) -> Result<Vec<Preparation>, PreStartError> {
        let mut preparations = Vec::new();
        for (resource, allocation) in self.allocations.of_container(uid, container).into_iter().flatten() {
            let devices = allocation.ids();
            match stage {
                PodStage::New => self.check_usable(resource, &devices, now)?,
                PodStage::Running => {}
            }
            match self.inventory.serving(resource) {
                Some(serving) if serving.options.pre_start => {
                    preparations.push(Preparation { plugin: serving.plugin.clone(), devices });
                }
                Some(_) => {}
                // What was allocated can be used without the plugin, unless it is to prepare it.
                None if self.inventory.last_options(resource).pre_start => {
                    return Err(PreStartError::Call {
                        message: format!("endpoint of {resource} has been stopped"),
                    });
                }
                None => {}
            }
        }
        Ok(preparations)
    }

    /// Whether devices that were allocated before the host booted are there.
    fn check_usable(&self, resource: &str, devices: &DeviceIds, now: Instant) -> Result<(), PreStartError> {
        let healthy = self.inventory.healthy(resource);
        if devices.is_subset(&healthy) {
            return Ok(());
        }
        let resource = resource.to_owned();
        match self.inventory.awaited(&resource, now) {
            Some(awaited) => Err(awaited.into()),
            None if !self.inventory.is_registered(&resource) => {
                Err(AllocateFailure::Unregistered { resource }.into())
            }
            None if healthy.is_empty() => Err(AllocateFailure::NoneHealthy { resource }.into()),
            None => Err(AllocateFailure::Unhealthy { resource }.into()),
        }
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
