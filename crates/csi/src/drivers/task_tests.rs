//! Tests of the handler and its task with drivers in memory, under paused time.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use hostlet_base::WallClock;
use hostlet_plugins::{InstanceId, PluginEvent, PluginHandler, PluginInstance};
use jiff::Timestamp;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tonic::Code;

use super::CsiHandler;
use crate::client::CallMetrics;
use crate::fake::{FakeDriver, Method, Outcome};
use crate::{NodeCapabilities, NodeInfo, NodeService};

const DRIVER: &str = "csi.example.com";

fn instance(id: u64) -> Arc<PluginInstance> {
    Arc::new(PluginInstance {
        id: InstanceId(id),
        name: DRIVER.to_owned(),
        endpoint: PathBuf::from(format!("/{id}.sock")),
        versions: vec!["1.0.0".to_owned()],
        socket: PathBuf::from(format!("/reg-{id}.sock")),
        since: Timestamp::UNIX_EPOCH,
    })
}

fn info(node_id: &str, max_volumes: Option<i64>) -> NodeInfo {
    let topology = BTreeMap::from([("zone".to_owned(), "a".to_owned())]);
    NodeInfo { node_id: node_id.to_owned(), max_volumes, topology }
}

/// Runs `test` with a handler whose instances are all this driver.
async fn with_handler(driver: &FakeDriver, test: impl AsyncFnOnce(CsiHandler)) {
    let served = driver.clone();
    let dial = Arc::new(move |_: &PluginInstance| Arc::new(served.clone()) as Arc<dyn NodeService>);
    let (task, handler) = CsiHandler::with_dial(WallClock::system(), CallMetrics::default(), dial);
    let cancel = CancellationToken::new();
    let work = async {
        test(handler).await;
        cancel.cancel();
    };
    tokio::join!(task.run(cancel.clone()), work);
}

#[tokio::test(start_paused = true)]
async fn a_driver_serves_at_once_and_is_asked_until_it_says_where_it_is() {
    let driver = FakeDriver::new(NodeCapabilities { stage: true, expand: true, ..Default::default() });
    driver.set_info(info("i-1", Some(25)));
    driver.next(Method::Info, [Outcome::Fails(Code::Unavailable), Outcome::Hangs]);
    driver.next(Method::Capabilities, [Outcome::Fails(Code::Internal)]);
    with_handler(&driver, async |handler| {
        let mut infos = handler.infos();
        handler.changed(PluginEvent::Registered(instance(1)));
        assert!(handler.services().borrow().contains_key(DRIVER));
        driver.called(Method::Info, 2).await;
        let report = handler.describe(DRIVER).unwrap();
        assert_eq!(
            report["lastError"],
            "NodeGetInfo: rpc error: code = Unavailable desc = scripted"
        );
        assert_eq!((&report["nodeID"], &report["nextRetry"]), (&json!(null), &json!(null)));
        let known = infos.wait_for(|infos| infos.contains_key(DRIVER)).await.unwrap().clone();
        assert_eq!(known[DRIVER], info("i-1", Some(25)));
        driver.called(Method::Capabilities, 1).await;
        tokio::task::yield_now().await;
        let report = handler.describe(DRIVER).unwrap();
        assert!(report["lastError"].as_str().unwrap().starts_with("NodeGetCapabilities: rpc error: code = Internal"));
        assert!(report["nextRetry"].is_string(), "{report}");
        driver.called(Method::Capabilities, 2).await;
        tokio::task::yield_now().await;
        assert_eq!(
            handler.describe(DRIVER).unwrap(),
            json!({
                "nodeID": "i-1", "capabilities": ["STAGE_UNSTAGE_VOLUME", "EXPAND_VOLUME"], "topology": {"zone": "a"},
                "maxVolumes": 25, "lastError": null, "nextRetry": null
            })
        );
        handler.changed(PluginEvent::Deregistered(instance(1)));
        infos.wait_for(BTreeMap::is_empty).await.unwrap();
        assert!(handler.services().borrow().is_empty() && handler.describe(DRIVER).is_none());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_refresh_asks_again() {
    let driver = FakeDriver::new(NodeCapabilities::default());
    with_handler(&driver, async |handler| {
        let (mut infos, mut services) = (handler.infos(), handler.services());
        handler.changed(PluginEvent::Registered(instance(1)));
        infos.wait_for(|infos| infos.contains_key(DRIVER)).await.unwrap();
        services.mark_unchanged();
        driver.set_info(info("node-1", Some(7)));
        handler.refresh(DRIVER);
        infos.wait_for(|infos| infos[DRIVER].max_volumes == Some(7)).await.unwrap();
        assert!(!services.has_changed().unwrap());
        handler.refresh("unknown.example.com");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_driver_without_an_identifier_of_the_node_is_asked_again() {
    let driver = FakeDriver::new(NodeCapabilities::default());
    driver.set_info(info("", None));
    with_handler(&driver, async |handler| {
        handler.changed(PluginEvent::Registered(instance(1)));
        driver.called(Method::Info, 2).await;
        let report = handler.describe(DRIVER).unwrap();
        assert!(
            report["lastError"].as_str().unwrap().ends_with("driverNodeID must not be empty"),
            "{report}"
        );
        assert!(handler.infos().borrow().is_empty());
    })
    .await;
}
