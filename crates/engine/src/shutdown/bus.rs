//! logind over the D-Bus system bus. No retries.

use std::convert::Infallible;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use zbus::connection::Builder;
use zbus::message::Type;
use zbus::zvariant::{self, OwnedFd, OwnedValue};
use zbus::{Connection, Message, MessageStream};

use super::logind::{InhibitLock, Logind, LogindError, LogindSession, SessionEvent};

const SERVICE: &str = "org.freedesktop.login1";
const PATH: &str = "/org/freedesktop/login1";
const MANAGER: &str = "org.freedesktop.login1.Manager";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

const SYSTEMD: &str = "org.freedesktop.systemd1";
const SYSTEMD_PATH: &str = "/org/freedesktop/systemd1";
const SYSTEMD_MANAGER: &str = "org.freedesktop.systemd1.Manager";

const BUS: &str = "org.freedesktop.DBus";
const BUS_PATH: &str = "/org/freedesktop/DBus";

/// The signals of logind, and changes of the process that is logind.
const MATCHES: [&str; 2] = [
    "type='signal',sender='org.freedesktop.login1',path='/org/freedesktop/login1',\
     interface='org.freedesktop.login1.Manager',member='PrepareForShutdown'",
    "type='signal',sender='org.freedesktop.DBus',path='/org/freedesktop/DBus',\
     interface='org.freedesktop.DBus',member='NameOwnerChanged',arg0='org.freedesktop.login1'",
];

/// Upstream's words for the lock, which `systemd-inhibit --list` shows.
const WHAT: &str = "shutdown";
const WHO: &str = "kubelet";
const WHY: &str = "Kubelet needs time to handle node shutdown";
const MODE: &str = "delay";

/// How long logind has to answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The system bus of this host, or the one in `DBUS_SYSTEM_BUS_ADDRESS`.
#[derive(Clone, Copy, Debug)]
pub struct SystemBus;

#[async_trait]
impl Logind for SystemBus {
    async fn connect(&self) -> Result<Box<dyn LogindSession>, LogindError> {
        let connect = |error: zbus::Error| LogindError::Connect(Box::new(error));
        let operation = "connect to the D-Bus system bus";
        // Its own executor would be a thread; what little there is to do is done while something is awaited here.
        let building = Builder::system().map_err(connect)?.internal_executor(false).build();
        let connection = in_time(operation, building).await?.map_err(connect)?;
        // Not a stream per match rule: dropping such a stream leaves a task with the connection that would never run.
        let messages = MessageStream::from(&connection);
        let session = BusSession { connection, messages };
        for rule in MATCHES {
            session.call::<_, ()>(operation, (BUS, BUS_PATH, BUS, "AddMatch"), &rule).await?;
        }
        Ok(Box::new(session))
    }
}

struct BusSession {
    connection: Connection,
    messages: MessageStream,
}

impl BusSession {
    async fn call<B, T>(
        &self,
        operation: &'static str,
        (service, path, interface, method): (&str, &str, &str, &str),
        body: &B,
    ) -> Result<T, LogindError>
    where
        B: Serialize + zvariant::DynamicType + Sync,
        T: DeserializeOwned + zvariant::Type,
    {
        let called = async {
            let answer =
                self.connection.call_method(Some(service), path, Some(interface), method, body).await?;
            answer.body().deserialize::<T>()
        };
        let called = in_time(operation, driven(&self.connection, called)).await?;
        called.map_err(|source| LogindError::Request { operation, source: Box::new(source) })
    }

    async fn property<T>(&self, operation: &'static str, name: &str) -> Result<T, LogindError>
    where
        T: TryFrom<OwnedValue>,
        zbus::Error: From<T::Error>,
    {
        let get = (SERVICE, PATH, PROPERTIES, "Get");
        let value: OwnedValue = self.call(operation, get, &(MANAGER, name)).await?;
        T::try_from(value).map_err(|error| LogindError::Request { operation, source: Box::new(error.into()) })
    }
}

#[async_trait]
impl LogindSession for BusSession {
    async fn inhibit_delay_max(&self) -> Result<Duration, LogindError> {
        let operation = "read InhibitDelayMaxUSec of systemd-logind";
        let micros: u64 = self.property(operation, "InhibitDelayMaxUSec").await?;
        Ok(Duration::from_micros(micros))
    }

    async fn is_preparing(&self) -> Result<bool, LogindError> {
        self.property("read PreparingForShutdown of systemd-logind", "PreparingForShutdown").await
    }

    async fn inhibit(&self) -> Result<InhibitLock, LogindError> {
        let operation = "take an inhibitor lock of systemd-logind";
        let inhibit = (SERVICE, PATH, MANAGER, "Inhibit");
        let lock: OwnedFd = self.call(operation, inhibit, &(WHAT, WHO, WHY, MODE)).await?;
        Ok(InhibitLock::new(lock))
    }

    async fn reload(&self) -> Result<(), LogindError> {
        let operation = "have systemd-logind read its configuration again";
        let kill = (SYSTEMD, SYSTEMD_PATH, SYSTEMD_MANAGER, "KillUnit");
        let hang_up = nix::sys::signal::Signal::SIGHUP as i32;
        self.call(operation, kill, &("systemd-logind.service", "all", hang_up)).await
    }

    async fn next(&mut self) -> Result<SessionEvent, LogindError> {
        let Self { connection, messages } = self;
        loop {
            tokio::select! {
                biased;
                // Cancel-safe: a stream gives an item only when `next` returns it.
                message = messages.next() => {
                    if let Some(event) = event(&received(message)?) {
                        return Ok(event);
                    }
                }
                // Cancel-safe: waits for a state.
                () = connection.closed() => return Err(LogindError::Closed),
                // Cancel-safe: see `drive`.
                never = drive(connection) => match never {},
            }
        }
    }
}

/// What a message reports; `None` for answers, and for messages that are malformed.
fn event(message: &Message) -> Option<SessionEvent> {
    let header = message.header();
    if header.message_type() != Type::Signal {
        return None;
    }
    match (header.interface()?.as_str(), header.member()?.as_str()) {
        (MANAGER, "PrepareForShutdown") => Some(SessionEvent::PrepareForShutdown),
        (BUS, "NameOwnerChanged") => {
            let (name, _, new): (String, String, String) = message.body().deserialize().ok()?;
            (name == SERVICE && !new.is_empty()).then_some(SessionEvent::Restarted)
        }
        _ => None,
    }
}

/// A message of a stream, which ends with the connection.
fn received(message: Option<zbus::Result<Message>>) -> Result<Message, LogindError> {
    message.and_then(Result::ok).ok_or(LogindError::Closed)
}

/// Runs the tasks of the connection while `work` runs.
async fn driven<T>(connection: &Connection, work: impl Future<Output = T>) -> T {
    tokio::select! {
        biased;
        // Not cancelled by the other arm, which never ends.
        done = work => done,
        // Cancel-safe: see `drive`.
        never = drive(connection) => match never {},
    }
}

/// Runs the tasks of the connection. Cancel-safe: a task is run in one step, or stays in the executor.
async fn drive(connection: &Connection) -> Infallible {
    loop {
        connection.executor().tick().await;
    }
}

async fn in_time<T>(operation: &'static str, work: impl Future<Output = T>) -> Result<T, LogindError> {
    timeout(TIMEOUT, work).await.map_err(|_| LogindError::NoAnswer { operation, waited: TIMEOUT })
}
