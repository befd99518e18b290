//! What every call has in common: its lines in the journal, its scripted fault, and that there is one at a time for a volume.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use hostlet_integration::csi::{Fault, Faults};
use nix::sys::signal::{Signal, raise};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::sleep;
use tonic::{Code, Response, Status};

/// How often a call that hangs looks whether it was released.
const LOOK: Duration = Duration::from_millis(50);

/// The calls of this process.
pub(crate) struct Calls {
    faults: Option<Faults>,
    journal: Option<Mutex<File>>,
    /// Volumes with a call under way.
    busy: Mutex<BTreeSet<String>>,
}

/// A failed call: what a kubelet that follows the specification can meet, and what it cannot.
pub(crate) enum Failed {
    Status(Status),
    /// The caller broke the specification.
    Violation(String),
}

impl From<Status> for Failed {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl From<anyhow::Error> for Failed {
    fn from(error: anyhow::Error) -> Self {
        Self::Status(Status::internal(format!("{error:#}")))
    }
}

/// Wrong arguments.
pub(crate) fn invalid(what: &str) -> Failed {
    Failed::Status(Status::invalid_argument(what))
}

/// Something unknown.
pub(crate) fn not_found(what: &str) -> Failed {
    Failed::Status(Status::not_found(what))
}

/// A required field.
pub(crate) fn required<'v>(value: &'v str, field: &str) -> Result<&'v str, Failed> {
    if value.is_empty() { Err(invalid(&format!("{field} is missing"))) } else { Ok(value) }
}

impl Calls {
    pub(crate) fn new(faults: Option<&Path>, journal: Option<&Path>) -> Result<Self> {
        let open = |path: &Path| {
            let file = File::options().create(true).append(true).open(path);
            file.map(Mutex::new).with_context(|| format!("opening {}", path.display()))
        };
        let journal = journal.map(open).transpose()?;
        Ok(Self { faults: faults.map(Faults::at), journal, busy: Mutex::default() })
    }

    /// Serves a call. `about` are its fields for the journal, of which `volume` is the volume. The work goes on if the caller has gone,
    /// as it does in real drivers.
    pub(crate) async fn serve<T: Send + 'static>(
        self: &Arc<Self>,
        call: &'static str,
        about: Value,
        work: impl FnOnce() -> Result<T, Failed> + Send + 'static,
    ) -> Result<Response<T>, Status> {
        let calls = self.clone();
        #[expect(clippy::disallowed_methods, reason = "it ends with this process, or by itself")]
        let served = tokio::spawn(async move {
            calls.note(call, &about, None);
            let served = calls.work(call, &about, work).await;
            let outcome = match &served {
                Ok(_) => json!({"code": "OK"}),
                Err(Failed::Status(status)) => {
                    json!({"code": format!("{:?}", status.code()), "message": status.message()})
                }
                Err(Failed::Violation(what)) => json!({"code": "FailedPrecondition", "violation": what}),
            };
            calls.note(call, &about, Some(outcome));
            served.map(Response::new).map_err(|failed| match failed {
                Failed::Status(status) => status,
                Failed::Violation(what) => Status::failed_precondition(what),
            })
        });
        served.await.unwrap_or_else(|error| Err(Status::internal(error.to_string())))
    }

    async fn work<T: Send + 'static>(
        &self,
        call: &str,
        about: &Value,
        work: impl FnOnce() -> Result<T, Failed> + Send + 'static,
    ) -> Result<T, Failed> {
        let volume = about.get("volume").and_then(Value::as_str).unwrap_or_default().to_owned();
        let _busy = Busy::new(&self.busy, &volume)?;
        let Some(faults) = &self.faults else { return blocking(work).await };
        let (releases, fault) = (faults.releases()?, faults.take(call)?);
        let released = async || {
            while faults.releases()? == releases {
                sleep(LOOK).await;
            }
            Ok::<_, Failed>(())
        };
        match fault {
            None => blocking(work).await,
            Some(Fault::Fails(code)) => Err(Status::new(Code::from_i32(code), "scripted").into()),
            Some(Fault::Loses(code)) => {
                blocking(work).await?;
                Err(Status::new(Code::from_i32(code), "scripted").into())
            }
            Some(Fault::Hangs) => {
                released().await?;
                blocking(work).await
            }
            Some(Fault::HangsDone) => {
                let answer = blocking(work).await?;
                released().await?;
                Ok(answer)
            }
            Some(Fault::Dies) => Err(die().into()),
            Some(Fault::DiesDone) => {
                blocking(work).await?;
                Err(die().into())
            }
        }
    }

    /// Writes a line. The journal is for tests, which fail without it.
    fn note(&self, call: &str, about: &Value, outcome: Option<Value>) {
        let Some(journal) = &self.journal else { return };
        let mut line = json!({"call": call});
        for fields in [Some(about), outcome.as_ref()].into_iter().flatten() {
            if let (Some(line), Some(fields)) = (line.as_object_mut(), fields.as_object()) {
                line.extend(fields.clone());
            }
        }
        let _ = journal.lock().write_all(format!("{line}\n").as_bytes());
    }
}

/// Ends this process at once.
fn die() -> Status {
    let failed = raise(Signal::SIGKILL);
    Status::internal(format!("SIGKILL did not kill: {failed:?}"))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failed> + Send + 'static,
) -> Result<T, Failed> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Status::internal(error.to_string()).into()))
}

/// A call under way about a volume.
struct Busy<'c> {
    busy: &'c Mutex<BTreeSet<String>>,
    volume: String,
}

impl<'c> Busy<'c> {
    fn new(busy: &'c Mutex<BTreeSet<String>>, volume: &str) -> Result<Self, Failed> {
        if !volume.is_empty() && !busy.lock().insert(volume.to_owned()) {
            return Err(Status::aborted(format!("a call for the volume {volume} is under way")).into());
        }
        Ok(Self { busy, volume: volume.to_owned() })
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.busy.lock().remove(&self.volume);
    }
}
