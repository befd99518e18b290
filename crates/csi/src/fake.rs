//! A driver in memory for tests: does what it is scripted to, remembers each call, and says what broke the CSI specification. Has the
//! state that a driver has: what is staged and published, and perhaps mounts that look real.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hostlet_host::Origin;
use hostlet_host::testing::FakeMounts;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;
use tonic::Code;

use crate::{
    AccessMode, CallError, Capability, ExpandCall, Form, NodeCapabilities, NodeInfo, NodeService,
    PublishCall, StageCall, VolumeStats,
};

/// How long a call that hangs lasts: the deadline of each call of a [`NodeService`].
const CALL_DEADLINE: Duration = Duration::from_secs(120);

/// How long a test waits for a call.
const PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);

/// A method of the node service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// `NodeGetCapabilities`.
    Capabilities,
    /// `NodeGetInfo`.
    Info,
    /// `NodeStageVolume`.
    Stage,
    /// `NodeUnstageVolume`.
    Unstage,
    /// `NodePublishVolume`.
    Publish,
    /// `NodeUnpublishVolume`.
    Unpublish,
    /// `NodeExpandVolume`.
    Expand,
    /// `NodeGetVolumeStats`.
    Stats,
}

impl Method {
    /// Its name in the specification.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Capabilities => "NodeGetCapabilities",
            Self::Info => "NodeGetInfo",
            Self::Stage => "NodeStageVolume",
            Self::Unstage => "NodeUnstageVolume",
            Self::Publish => "NodePublishVolume",
            Self::Unpublish => "NodeUnpublishVolume",
            Self::Expand => "NodeExpandVolume",
            Self::Stats => "NodeGetVolumeStats",
        }
    }
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// It fails, and was not done.
    Fails(Code),
    /// It fails, but was done: the answer is lost.
    Lost(Code),
    /// It is done once [`FakeDriver::release`] is called. Until then nothing happens, up to the deadline of a call.
    Hangs,
    /// It is done, and answered once [`FakeDriver::release`] is called, up to the deadline of a call.
    HangsDone,
}

/// A call that the driver received.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of the calls")]
pub enum Call {
    Capabilities,
    Info,
    Stage(StageCall),
    Unstage { handle: String, staging: PathBuf },
    Publish(PublishCall),
    Unpublish { handle: String, target: PathBuf },
    Expand(ExpandCall),
    Stats { handle: String, path: PathBuf },
}

impl Call {
    /// Its method.
    pub fn method(&self) -> Method {
        match self {
            Self::Capabilities => Method::Capabilities,
            Self::Info => Method::Info,
            Self::Stage(_) => Method::Stage,
            Self::Unstage { .. } => Method::Unstage,
            Self::Publish(_) => Method::Publish,
            Self::Unpublish { .. } => Method::Unpublish,
            Self::Expand(_) => Method::Expand,
            Self::Stats { .. } => Method::Stats,
        }
    }

    /// The volume that it is about.
    pub fn handle(&self) -> Option<&str> {
        match self {
            Self::Capabilities | Self::Info => None,
            Self::Stage(call) => Some(&call.handle),
            Self::Publish(call) => Some(&call.handle),
            Self::Expand(call) => Some(&call.handle),
            Self::Unstage { handle, .. } | Self::Unpublish { handle, .. } | Self::Stats { handle, .. } => {
                Some(handle)
            }
        }
    }

    /// One line: `NodeStageVolume vol-1`.
    pub fn line(&self) -> String {
        match self.handle() {
            Some(handle) => format!("{} {handle}", self.method().as_str()),
            None => self.method().as_str().to_owned(),
        }
    }
}

/// A target that a volume is published at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The volume.
    pub handle: String,
    /// For what.
    pub capability: Capability,
    /// Whether it can only be read there.
    pub read_only: bool,
}

/// A driver. Clones are the same one.
#[derive(Clone)]
pub struct FakeDriver {
    state: Arc<Mutex<State>>,
    calls: watch::Sender<Vec<Call>>,
    /// Counts releases.
    released: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    capabilities: NodeCapabilities,
    info: NodeInfo,
    /// Outcomes of the next calls of a method, and then of all others.
    scripts: BTreeMap<Method, (VecDeque<Outcome>, Option<Outcome>)>,
    mounts: Option<FakeMounts>,
    staged: BTreeMap<String, (PathBuf, Capability)>,
    published: BTreeMap<PathBuf, Target>,
    stats: BTreeMap<String, VolumeStats>,
    sizes: BTreeMap<String, u64>,
    /// Volumes with a call under way.
    busy: BTreeSet<String>,
    violations: Vec<String>,
}

impl FakeDriver {
    /// A driver that can do this. It mounts nothing, and does as it is asked.
    pub fn new(capabilities: NodeCapabilities) -> Self {
        let info = NodeInfo { node_id: "node-1".to_owned(), ..NodeInfo::default() };
        let state = State { capabilities, info, ..State::default() };
        Self {
            state: Arc::new(Mutex::new(state)),
            calls: watch::Sender::default(),
            released: watch::Sender::default(),
        }
    }

    /// The same with mounts: it adds those of volumes that it stages and publishes, and creates and removes their targets.
    #[must_use]
    pub fn with_mounts(self, mounts: FakeMounts) -> Self {
        self.state.lock().mounts = Some(mounts);
        self
    }

    /// What becomes of the next calls of a method, after those that are scripted already. Then all are done.
    pub fn next(&self, method: Method, outcomes: impl IntoIterator<Item = Outcome>) {
        self.state.lock().scripts.entry(method).or_default().0.extend(outcomes);
    }

    /// What becomes of all calls of a method from now on, in place of what was scripted.
    pub fn always(&self, method: Method, outcome: Outcome) {
        self.state.lock().scripts.insert(method, (VecDeque::new(), Some(outcome)));
    }

    /// All calls that hang are answered.
    pub fn release(&self) {
        self.released.send_modify(|count| *count += 1);
    }

    /// It can do this from now on.
    pub fn set_capabilities(&self, capabilities: NodeCapabilities) {
        self.state.lock().capabilities = capabilities;
    }

    /// What it can do.
    pub fn capabilities_now(&self) -> NodeCapabilities {
        self.state.lock().capabilities
    }

    /// It says this of the node from now on.
    pub fn set_info(&self, info: NodeInfo) {
        self.state.lock().info = info;
    }

    /// It says this of a volume from now on.
    pub fn set_stats(&self, handle: &str, stats: VolumeStats) {
        self.state.lock().stats.insert(handle.to_owned(), stats);
    }

    /// The host was restarted: nothing is staged or published any more.
    pub fn reboot(&self) {
        let mut state = self.state.lock();
        state.staged.clear();
        state.published.clear();
        if let Some(mounts) = &state.mounts {
            mounts.clear();
        }
    }

    /// All calls, oldest first.
    pub fn calls(&self) -> Vec<Call> {
        self.calls.borrow().clone()
    }

    /// The calls that are about volumes, as lines.
    pub fn lines(&self) -> Vec<String> {
        self.calls.borrow().iter().filter(|call| call.handle().is_some()).map(Call::line).collect()
    }

    /// Waits until a method was called `count` times since the driver exists. Returns the last of these calls.
    pub async fn called(&self, method: Method, count: usize) -> Call {
        let mut calls = self.calls.subscribe();
        let nth =
            |calls: &[Call]| calls.iter().filter(|call| call.method() == method).nth(count - 1).cloned();
        let seen = timeout(PATIENCE, calls.wait_for(|calls| nth(calls).is_some())).await;
        #[expect(clippy::unwrap_used, reason = "what fails in a test is to fail the test")]
        let seen = seen.ok().and_then(Result::ok).and_then(|calls| nth(&calls)).unwrap();
        seen
    }

    /// Where volumes are staged.
    pub fn staged(&self) -> BTreeMap<String, PathBuf> {
        let state = self.state.lock();
        state.staged.iter().map(|(handle, (staging, _))| (handle.clone(), staging.clone())).collect()
    }

    /// What is published, by target.
    pub fn published(&self) -> BTreeMap<PathBuf, Target> {
        self.state.lock().published.clone()
    }

    /// The size that a volume was grown to, bytes.
    pub fn size(&self, handle: &str) -> Option<u64> {
        self.state.lock().sizes.get(handle).copied()
    }

    /// What broke the specification, oldest first. A test that ends with some fails.
    pub fn violations(&self) -> Vec<String> {
        self.state.lock().violations.clone()
    }

    /// Takes a call: remembers it, does it or not, and answers as scripted.
    async fn take<T>(
        &self,
        call: Call,
        work: impl FnOnce(&mut State) -> Result<T, Code>,
    ) -> Result<T, CallError> {
        let method = call.method();
        let handle = call.handle().map(str::to_owned);
        let mut releases = self.released.subscribe();
        releases.mark_unchanged();
        let outcome = self.state.lock().outcome(method);
        let _busy = handle.map(|handle| Busy::new(self.state.clone(), method, handle));
        self.calls.send_modify(|calls| calls.push(call));
        let failed = |code| CallError { call: method.as_str(), code, message: "scripted".to_owned() };
        let mut released = async || match timeout(CALL_DEADLINE, releases.changed()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(failed(Code::DeadlineExceeded)),
        };
        let done = || work(&mut self.state.lock()).map_err(failed);
        match outcome {
            Outcome::Done => done(),
            Outcome::Fails(code) => Err(failed(code)),
            Outcome::Lost(code) => {
                done()?;
                Err(failed(code))
            }
            Outcome::Hangs => {
                released().await?;
                done()
            }
            Outcome::HangsDone => {
                let answer = done()?;
                released().await?;
                Ok(answer)
            }
        }
    }
}

/// A call under way about a volume, of which there should be one at a time.
struct Busy {
    state: Arc<Mutex<State>>,
    handle: String,
}

impl Busy {
    fn new(state: Arc<Mutex<State>>, method: Method, handle: String) -> Self {
        let mut locked = state.lock();
        let reads = method == Method::Stats;
        if !reads && !locked.busy.insert(handle.clone()) {
            let method = method.as_str();
            locked.violations.push(format!("{method} {handle} during another call for the volume"));
        }
        drop(locked);
        Self { state, handle: if reads { String::new() } else { handle } }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.state.lock().busy.remove(&self.handle);
    }
}

impl State {
    fn outcome(&mut self, method: Method) -> Outcome {
        let (next, always) = self.scripts.entry(method).or_default();
        next.pop_front().or(*always).unwrap_or(Outcome::Done)
    }

    /// A violation of the specification, which fails the call as a driver would fail it.
    fn violation<T>(&mut self, what: String) -> Result<T, Code> {
        self.violations.push(what);
        Err(Code::FailedPrecondition)
    }

    fn check_capability(&mut self, method: &str, handle: &str, capability: &Capability) {
        if capability.group.is_some() && !self.capabilities.mount_group {
            self.violations.push(format!("{method} {handle} with a group without VOLUME_MOUNT_GROUP"));
        }
    }

    /// Mounts a volume on a path, which exists.
    fn mount(&mut self, handle: &str, path: &Path, form: &Form) {
        if let Some(mounts) = &self.mounts {
            let (filesystem, device) = match form {
                Form::Filesystem { fs_type, .. } => {
                    (if fs_type.is_empty() { "ext4" } else { fs_type }, handle)
                }
                Form::Block => ("devtmpfs", "devtmpfs"),
            };
            let origin = Origin { device: format!("volume:{device}"), dir: PathBuf::from("/") };
            mounts.add(path, filesystem, origin);
        }
    }

    fn stage(&mut self, call: &StageCall) -> Result<(), Code> {
        let StageCall { handle, staging, capability, .. } = call;
        if !self.capabilities.stage {
            return self.violation(format!("NodeStageVolume {handle} without STAGE_UNSTAGE_VOLUME"));
        }
        self.check_capability("NodeStageVolume", handle, capability);
        match self.staged.get(handle) {
            Some((at, _)) if at != staging => {
                let at = at.display().to_string();
                return self.violation(format!("NodeStageVolume {handle} while staged at {at}"));
            }
            // For another purpose: a driver says so, and nothing happens.
            Some((_, staged)) if staged.form != capability.form => return Err(Code::AlreadyExists),
            Some(_) => return Ok(()),
            None => {}
        }
        if self.mounts.is_some() && !staging.is_dir() {
            return self
                .violation(format!("NodeStageVolume {handle}: no directory at {}", staging.display()));
        }
        if capability.form != Form::Block {
            self.mount(handle, staging, &capability.form);
        }
        self.staged.insert(handle.clone(), (staging.clone(), capability.clone()));
        Ok(())
    }

    fn unstage(&mut self, handle: &str, staging: &Path) -> Result<(), Code> {
        if !self.capabilities.stage {
            return self.violation(format!("NodeUnstageVolume {handle} without STAGE_UNSTAGE_VOLUME"));
        }
        if let Some((at, _)) = self.published.iter().find(|(_, target)| target.handle == handle) {
            let at = at.display().to_string();
            return self.violation(format!("NodeUnstageVolume {handle} while published at {at}"));
        }
        match self.staged.get(handle) {
            Some((at, _)) if at != staging => {
                let at = at.display().to_string();
                return self.violation(format!("NodeUnstageVolume {handle} while staged at {at}"));
            }
            Some(_) => {}
            None => return Ok(()),
        }
        self.staged.remove(handle);
        if let Some(mounts) = &self.mounts {
            mounts.remove(staging);
        }
        Ok(())
    }

    fn publish(&mut self, call: &PublishCall) -> Result<(), Code> {
        let PublishCall { handle, target, capability, read_only, staging, .. } = call;
        self.check_capability("NodePublishVolume", handle, capability);
        if self.capabilities.stage && !is_ephemeral(handle) {
            match (self.staged.get(handle), staging) {
                (None, _) => {
                    return self.violation(format!("NodePublishVolume {handle} which is not staged"));
                }
                (Some((at, _)), staging) if Some(at) != staging.as_ref() => {
                    let at = at.display().to_string();
                    return self
                        .violation(format!("NodePublishVolume {handle} from {staging:?}, staged at {at}"));
                }
                (Some(_), _) => {}
            }
        }
        let published =
            Target { handle: handle.clone(), capability: capability.clone(), read_only: *read_only };
        match self.published.get(target) {
            Some(old) if old.handle != *handle => {
                let old = old.handle.clone();
                return self.violation(format!("NodePublishVolume {handle} where {old} is published"));
            }
            Some(old) if old.capability.form != capability.form || old.read_only != *read_only => {
                return Err(Code::AlreadyExists);
            }
            Some(_) => return Ok(()),
            None => {}
        }
        let other = self.published.iter().find(|(_, other)| other.handle == *handle);
        if let Some((at, other)) = other
            && [other.capability.access_mode, capability.access_mode].contains(&AccessMode::ReadWriteOncePod)
        {
            let at = at.display().to_string();
            return self.violation(format!("NodePublishVolume {handle} of one pod while published at {at}"));
        }
        if self.mounts.is_some() {
            if !target.parent().is_some_and(Path::is_dir) {
                return self
                    .violation(format!("NodePublishVolume {handle}: no directory of {}", target.display()));
            }
            let created = match &capability.form {
                Form::Filesystem { .. } => fs::create_dir_all(target),
                Form::Block => fs::write(target, ""),
            };
            created.map_err(|_| Code::Internal)?;
            self.mount(handle, target, &capability.form);
        }
        self.published.insert(target.clone(), published);
        Ok(())
    }

    fn unpublish(&mut self, handle: &str, target: &Path) -> Result<(), Code> {
        match self.published.get(target) {
            Some(other) if other.handle != handle => {
                let other = other.handle.clone();
                return self.violation(format!("NodeUnpublishVolume {handle} where {other} is published"));
            }
            Some(_) | None => {}
        }
        let target_form = self.published.remove(target).map(|target| target.capability.form);
        if let (Some(mounts), Some(form)) = (&self.mounts, target_form) {
            mounts.remove(target);
            let removed = match form {
                Form::Filesystem { .. } => fs::remove_dir_all(target),
                Form::Block => fs::remove_file(target),
            };
            removed.map_err(|_| Code::Internal)?;
        }
        Ok(())
    }

    fn expand(&mut self, call: &ExpandCall) -> Result<Option<u64>, Code> {
        let ExpandCall { handle, path, size, .. } = call;
        if !self.capabilities.expand {
            return self.violation(format!("NodeExpandVolume {handle} without EXPAND_VOLUME"));
        }
        let is_published = self.published.get(path).is_some_and(|target| target.handle == *handle);
        let is_staged = self.staged.get(handle).is_some_and(|(at, _)| at == path);
        if !is_published && !is_staged {
            return Err(Code::NotFound);
        }
        let grown = self.sizes.get(handle).copied().unwrap_or(0).max(*size);
        self.sizes.insert(handle.clone(), grown);
        Ok(Some(grown))
    }

    fn stats(&mut self, handle: &str, path: &Path) -> Result<VolumeStats, Code> {
        if !self.capabilities.stats {
            return self.violation(format!("NodeGetVolumeStats {handle} without GET_VOLUME_STATS"));
        }
        if self.published.get(path).is_none_or(|target| target.handle != handle) {
            return Err(Code::NotFound);
        }
        Ok(self.stats.get(handle).cloned().unwrap_or_default())
    }
}

/// Whether a volume only lives in a pod, by its identifier (`ephemeral_handle`). Such a volume is never staged.
fn is_ephemeral(handle: &str) -> bool {
    handle.strip_prefix("csi-").is_some_and(|hash| hash.len() == 64)
}

#[async_trait]
impl NodeService for FakeDriver {
    async fn capabilities(&self) -> Result<NodeCapabilities, CallError> {
        self.take(Call::Capabilities, |state| Ok(state.capabilities)).await
    }

    async fn info(&self) -> Result<NodeInfo, CallError> {
        self.take(Call::Info, |state| Ok(state.info.clone())).await
    }

    async fn stage(&self, call: &StageCall) -> Result<(), CallError> {
        self.take(Call::Stage(call.clone()), |state| state.stage(call)).await
    }

    async fn unstage(&self, handle: &str, staging: &Path) -> Result<(), CallError> {
        let call = Call::Unstage { handle: handle.to_owned(), staging: staging.to_owned() };
        self.take(call, |state| state.unstage(handle, staging)).await
    }

    async fn publish(&self, call: &PublishCall) -> Result<(), CallError> {
        self.take(Call::Publish(call.clone()), |state| state.publish(call)).await
    }

    async fn unpublish(&self, handle: &str, target: &Path) -> Result<(), CallError> {
        let call = Call::Unpublish { handle: handle.to_owned(), target: target.to_owned() };
        self.take(call, |state| state.unpublish(handle, target)).await
    }

    async fn expand(&self, call: &ExpandCall) -> Result<Option<u64>, CallError> {
        self.take(Call::Expand(call.clone()), |state| state.expand(call)).await
    }

    async fn stats(&self, handle: &str, path: &Path) -> Result<VolumeStats, CallError> {
        let call = Call::Stats { handle: handle.to_owned(), path: path.to_owned() };
        self.take(call, |state| state.stats(handle, path)).await
    }
}
