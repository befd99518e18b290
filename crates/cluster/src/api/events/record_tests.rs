//! The task with a faulty API server.

use std::time::Duration;

use hostlet_base::{EventKind, QuietPeriod, WallClock};
use k8s_openapi::api::core::v1::{Event, ObjectReference};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{EventRecord, EventRecorder, recorder};
use crate::api::fake::{ApiFault, ApiRule, FakeApi};

fn start() -> (FakeApi, EventRecorder, DropGuard) {
    start_beside(&QuietPeriod::default())
}

fn start_beside(quiet_period: &QuietPeriod) -> (FakeApi, EventRecorder, DropGuard) {
    let api = FakeApi::new(WallClock::system());
    let (recorder, sink) = recorder(api.client(), "n1".to_owned(), WallClock::system());
    let cancel = CancellationToken::new();
    #[expect(clippy::disallowed_methods, reason = "a task of a test")]
    tokio::spawn(sink.run(quiet_period.clone(), cancel.clone()));
    (api, recorder, cancel.drop_guard())
}

fn event_record(message: &str) -> EventRecord {
    let object = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some("default".to_owned()),
        name: Some("web".to_owned()),
        uid: Some("u".to_owned()),
        field_path: Some("spec.containers{c}".to_owned()),
        ..ObjectReference::default()
    };
    EventRecord {
        object,
        kind: EventKind::Normal,
        reason: "Pulled".to_owned(),
        message: message.to_owned(),
        annotations: [("starved_resource".to_owned(), "memory".to_owned())].into(),
    }
}

fn events(api: &FakeApi) -> Vec<Event> {
    api.list("/api/v1/namespaces/default/events")
}

#[tokio::test(start_paused = true)]
async fn an_event_has_the_fields_of_a_stock_kubelets() {
    let (api, recorder, _running) = start();
    recorder.record(event_record("there"));
    recorder.record(event_record("there"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let [event] = &events(&api)[..] else { panic!("{:?}", events(&api)) };
    assert!(event.metadata.name.as_deref().unwrap().starts_with("web."));
    assert_eq!(event.metadata.annotations.as_ref().unwrap()["starved_resource"], "memory");
    assert_eq!(event.count, Some(2));
    assert_eq!(event.type_.as_deref(), Some("Normal"));
    let source = event.source.as_ref().unwrap();
    assert_eq!((source.component.as_deref(), source.host.as_deref()), (Some("kubelet"), Some("n1")));
    assert_eq!(event.reporting_component.as_deref(), Some("kubelet"));
    assert_eq!(event.reporting_instance.as_deref(), Some("n1"));
    assert_eq!(event.involved_object.field_path.as_deref(), Some("spec.containers{c}"));
}

#[tokio::test(start_paused = true)]
async fn transient_failures_are_retried_and_permanent_ones_dropped() {
    let (api, recorder, _running) = start();
    api.fail(ApiRule { times: 3, ..ApiRule::always("POST", "/events", ApiFault::Reset) });
    recorder.record(event_record("late"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(events(&api).len(), 1);
    let reject = ApiFault::Reject { code: 403, reason: "Forbidden", retry_after: 0 };
    api.fail(ApiRule::once("POST", "/events", reject));
    recorder.record(event_record("forbidden"));
    recorder.record(event_record("next"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let messages: Vec<_> = events(&api).into_iter().filter_map(|event| event.message).collect();
    assert_eq!(messages, ["late", "next"]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_event_object_is_replaced() {
    let (api, recorder, _running) = start();
    recorder.record(event_record("there"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let name = events(&api)[0].metadata.name.clone().unwrap();
    api.delete(&format!("/api/v1/namespaces/default/events/{name}"), None);
    recorder.record(event_record("there"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(events(&api)[0].count, Some(2));
}

#[tokio::test(start_paused = true)]
async fn beyond_the_queue_events_are_dropped_and_the_rest_is_written_once_the_server_answers() {
    let (api, recorder, _running) = start();
    api.fail(ApiRule::always("", "/events", ApiFault::Hang));
    let warning = |n: u32| {
        let mut record = EventRecord { kind: EventKind::Warning, ..event_record("no") };
        record.object.uid = Some(n.to_string());
        record
    };
    for n in 0..5000 {
        recorder.record(warning(n));
    }
    assert_eq!(recorder.dropped(), 1000);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(events(&api).is_empty());
    api.heal();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(events(&api).len(), 4000);
    assert_eq!(recorder.dropped(), 0, "they are reported");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_the_server_fails_on_holds_up_no_other() {
    let (api, recorder, _running) = start();
    let reject = |retry_after| ApiFault::Reject { code: 500, reason: "InternalError", retry_after };
    api.fail(ApiRule::always("POST", "/namespaces/hooked/events", reject(0)));
    let mut hooked = event_record("a webhook of this namespace is down");
    hooked.object.namespace = Some("hooked".to_owned());
    recorder.record_at_once(hooked);
    recorder.record_at_once(event_record("next"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let messages: Vec<_> = events(&api).into_iter().filter_map(|event| event.message).collect();
    assert_eq!(messages, ["next"]);
    // Unless it asks for it.
    api.fail(ApiRule { times: 2, ..ApiRule::always("POST", "/default/events", reject(3)) });
    recorder.record_at_once(event_record("later"));
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert_eq!(events(&api).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_object_whose_name_fills_a_name_has_events() {
    let (api, recorder, _running) = start();
    let names = ["a".repeat(236), "a".repeat(237), "a".repeat(253), "Not_A_Name".to_owned()];
    for name in &names {
        let mut record = event_record("there");
        record.object.name = Some(name.clone());
        recorder.record_at_once(record);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let events = events(&api);
    assert_eq!(events.len(), names.len());
    for event in events {
        let (name, object) = (event.metadata.name.unwrap(), event.involved_object.name.unwrap());
        assert!(name.len() <= 253 && name == name.to_lowercase(), "{name}");
        assert_eq!(name.starts_with(&format!("{object}.")), object.len() == 236, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn while_pods_start_warnings_are_written_at_once_and_normal_events_with_bounded_delay() {
    let quiet_period = QuietPeriod::default();
    let (api, recorder, _running) = start_beside(&quiet_period);
    let messages = || events(&api).into_iter().filter_map(|event| event.message).collect::<Vec<_>>();
    let starting = async {
        loop {
            quiet_period.note_work();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let seen = async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        recorder.record(event_record("pulled"));
        recorder.record(event_record("created"));
        recorder.record(EventRecord { kind: EventKind::Warning, ..event_record("failed") });
        tokio::time::sleep(Duration::from_secs(15)).await;
        assert_eq!(messages(), ["failed"]);
        tokio::time::sleep(Duration::from_secs(16)).await;
        assert_eq!(messages(), ["failed", "pulled", "created"]);
        recorder.record(event_record("started"));
    };
    tokio::select! {
        () = starting => panic!("it never ends"),
        () = seen => {}
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(messages().len(), 4, "none starts any more");
}

#[tokio::test(start_paused = true)]
async fn no_event_is_lost_when_a_full_node_starts() {
    let quiet_period = QuietPeriod::default();
    let (api, recorder, _running) = start_beside(&quiet_period);
    quiet_period.note_work();
    for pod in 0..110 {
        for container in 0..4 {
            for reason in ["Pulled", "Created", "Started"] {
                let mut one = event_record(reason);
                one.reason = reason.to_owned();
                one.object.uid = Some(format!("{pod}"));
                one.object.field_path = Some(format!("spec.containers{{c{container}}}"));
                recorder.record(one);
            }
        }
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(events(&api).len(), 110 * 4 * 3);
}
