//! What is known of the registered drivers: their instances, and when which of them is asked about the node. Pure: takes `now`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::{Backoff, BackoffPolicy};
use hostlet_plugins::InstanceId;
use tokio::time::Instant;

use crate::{NodeCapabilities, NodeInfo, NodeService, Services};

/// Pauses before a driver that does not say what it must is asked again; those of the stock kubelet's registrations.
const BACKOFF: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_millis(500),
    max: Duration::from_secs(122),
    reset_after: Duration::from_secs(244),
};

/// What a driver said of this node and itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    /// It is known even if the driver then failed to say what it can do.
    pub(super) info: Option<NodeInfo>,
    pub(super) capabilities: Option<NodeCapabilities>,
    /// Why one is missing.
    pub(super) failure: Option<String>,
}

/// Whether an instance is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    /// At this time.
    Due(Instant),
    /// It is being asked.
    Asked {
        /// Once more after that.
        again: bool,
    },
    /// It has answered.
    Answered,
}

/// A registered instance of a driver.
struct Instance {
    service: Arc<dyn NodeService>,
    /// What it said last; what it fails to say again stays.
    said: Answer,
    question: Question,
    backoff: Option<Backoff<Instant>>,
}

/// A driver: its registered instances. The newest serves.
#[derive(Default)]
struct Driver(BTreeMap<InstanceId, Instance>);

/// An instance that is to be asked.
pub(super) struct Ask {
    pub(super) driver: String,
    pub(super) id: InstanceId,
    pub(super) service: Arc<dyn NodeService>,
}

/// A driver, for a person.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub(super) said: Answer,
    pub(super) next: Option<Instant>,
}

/// The registered drivers by name.
#[derive(Default)]
pub(super) struct State(BTreeMap<String, Driver>);

impl Driver {
    fn serving(&self) -> Option<(InstanceId, &Instance)> {
        self.0.last_key_value().map(|(id, instance)| (*id, instance))
    }

    fn serving_mut(&mut self) -> Option<&mut Instance> {
        self.0.last_entry().map(|entry| entry.into_mut())
    }
}

impl Instance {
    fn due(&self) -> Option<Instant> {
        match self.question {
            Question::Due(at) => Some(at),
            Question::Asked { .. } | Question::Answered => None,
        }
    }
}

impl State {
    /// An instance was registered. It is asked at once.
    pub(super) fn registered(
        &mut self,
        driver: &str,
        id: InstanceId,
        service: Arc<dyn NodeService>,
        now: Instant,
    ) {
        let instance =
            Instance { service, said: Answer::default(), question: Question::Due(now), backoff: None };
        self.0.entry(driver.to_owned()).or_default().0.insert(id, instance);
    }

    /// An instance was deregistered.
    pub(super) fn deregistered(&mut self, driver: &str, id: InstanceId) {
        if let Some(known) = self.0.get_mut(driver) {
            known.0.remove(&id);
            if known.0.is_empty() {
                self.0.remove(driver);
            }
        }
    }

    /// The serving instance of a driver is asked again now, or once it has answered.
    pub(super) fn refresh(&mut self, driver: &str, now: Instant) {
        if let Some(instance) = self.0.get_mut(driver).and_then(Driver::serving_mut) {
            instance.question = match instance.question {
                Question::Asked { .. } => Question::Asked { again: true },
                Question::Due(_) | Question::Answered => Question::Due(now),
            };
        }
    }

    /// The serving instances that are to be asked now. They count as asked.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Ask> {
        let mut asks = Vec::new();
        for (name, driver) in &mut self.0 {
            let Some(id) = driver.serving().map(|(id, _)| id) else { continue };
            if let Some(instance) = driver.serving_mut()
                && instance.due().is_some_and(|due| due <= now)
            {
                instance.question = Question::Asked { again: false };
                asks.push(Ask { driver: name.clone(), id, service: instance.service.clone() });
            }
        }
        asks
    }

    /// When the next serving instance is to be asked.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.0.values().filter_map(|driver| driver.serving()?.1.due()).min()
    }

    /// An instance has answered. It is asked again if it failed, or if somebody wants that. Returns why it failed unless it failed for
    /// the same reason before.
    pub(super) fn answered(
        &mut self,
        driver: &str,
        id: InstanceId,
        answer: Answer,
        now: Instant,
    ) -> Option<String> {
        let instance = self.0.get_mut(driver)?.0.get_mut(&id)?;
        let is_wanted = instance.question == Question::Asked { again: true };
        let failed = answer.failure.as_ref();
        instance.backoff = failed.map(|_| Backoff::next(instance.backoff, &BACKOFF, now, now));
        instance.question = match instance.backoff {
            Some(backoff) if !is_wanted => Question::Due(now + backoff.delay),
            None if !is_wanted => Question::Answered,
            Some(_) | None => Question::Due(now),
        };
        let news = failed.filter(|failure| instance.said.failure.as_ref() != Some(failure)).cloned();
        let said = &mut instance.said;
        *said = Answer {
            info: answer.info.or(said.info.take()),
            capabilities: answer.capabilities.or(said.capabilities),
            failure: answer.failure,
        };
        news
    }

    /// The services of the serving instances.
    pub(super) fn services(&self) -> Services {
        let serving = self.0.iter().filter_map(|(name, driver)| Some((name, driver.serving()?.1)));
        serving.map(|(name, instance)| (name.clone(), instance.service.clone())).collect()
    }

    /// What drivers said of the node: the newest instance that said something.
    pub(super) fn infos(&self) -> BTreeMap<String, NodeInfo> {
        let newest =
            |driver: &Driver| driver.0.values().rev().find_map(|instance| instance.said.info.clone());
        self.0.iter().filter_map(|(name, driver)| Some((name.clone(), newest(driver)?))).collect()
    }

    /// The serving instance of a driver.
    pub(super) fn view(&self, driver: &str) -> Option<View> {
        let (_, instance) = self.0.get(driver)?.serving()?;
        let next = instance.said.failure.as_ref().and(instance.due());
        Some(View { said: instance.said.clone(), next })
    }
}
