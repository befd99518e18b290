//! Whatever the API server accepts is valid for hostlet as well, and has hostlet's defaults. The API server itself is the reference:
//! dry runs ask it about pods with every field, changed at random: always the same ones, unless `HOSTLET_TEST_VALIDATION_PODS=100000`
//! asks about more, or `HOSTLET_TEST_VALIDATION_SEED=7` about others.

use std::collections::BTreeMap;

use futures::StreamExt;
use hostlet_integration::cluster::Tenant;
use hostlet_integration::samples::fields;
use hostlet_pod::defaults::set_defaults;
use hostlet_pod::validation::validate;
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use kube::core::Request;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

/// Requests at the same time.
const PARALLEL: usize = 8;

/// Values at the borders of upstream's rules, for any field.
const TEXTS: [&str; 40] = [
    "",
    "a",
    "A",
    "a b",
    "-a",
    "a.b",
    "a..b",
    "../x",
    "..x",
    "a/../b",
    "/abs",
    "a/b",
    "é",
    "a_b",
    "0",
    "80",
    "65536",
    "http",
    "10.0.0.1",
    "010.0.0.1",
    "::1",
    "::ffff:1.2.3.4",
    "example.com/x",
    "EXAMPLE.com/x",
    "a=b",
    "Always",
    "None",
    "metadata.labels['a']",
    "status.podIP",
    "$(A)",
    "*",
    "a.",
    "x--y",
    "100m",
    "-1",
    "1.5",
    "Localhost",
    "Exists",
    "SYS_ADMIN",
    "limits.cpu",
];
const NUMBERS: [i64; 14] =
    [0, 1, -1, 2, 80, 511, 512, 599, 600, 65_535, 65_536, 2_147_483_647, 2_147_483_648, 4_294_967_297];
const LENGTHS: [usize; 5] = [15, 63, 64, 253, 254];

#[tokio::test]
async fn what_the_api_server_accepts_is_valid_and_has_our_defaults() {
    let setting = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let count = setting("HOSTLET_TEST_VALIDATION_PODS").unwrap_or(3000);
    let seed = setting("HOSTLET_TEST_VALIDATION_SEED").unwrap_or(1);

    let tenant = Tenant::of("validation", &[], &json!({})).await.unwrap();
    let mut changes = Changes::new(seed);
    let written: Vec<Value> = (0..count).map(|_| changes.next_pod()).collect();
    let tenant = &tenant;
    let answers = written.iter().map(|pod| async move { (pod, accepted(tenant, pod).await) });
    let answers: Vec<_> = futures::stream::iter(answers).buffer_unordered(PARALLEL).collect().await;
    let accepted: Vec<_> = answers.into_iter().filter_map(|(pod, answer)| Some((pod, answer?))).collect();
    assert!(accepted.len() > written.len() / 4, "{} of {count} were accepted", accepted.len());
    for (written, pod) in accepted {
        let errors: Vec<String> = validate(&pod).iter().map(ToString::to_string).collect();
        assert_eq!(errors, [""; 0], "{written}");
        let mut defaulted = pod.clone();
        set_defaults(&mut defaulted);
        assert_eq!(defaulted, pod, "{written}");
    }
}

/// The pod as the API server would store it; `None` if it rejects it.
async fn accepted(tenant: &Tenant, pod: &Value) -> Option<Pod> {
    let url = format!("/api/v1/namespaces/{}/pods", tenant.namespace());
    let parameters = PostParams { dry_run: true, ..PostParams::default() };
    let request = Request::new(url).create(&parameters, serde_json::to_vec(pod).unwrap()).unwrap();
    match tenant.client().request::<Pod>(request).await {
        Ok(pod) => Some(pod),
        Err(kube::Error::Api(_)) => None,
        Err(error) => panic!("{error}: {pod}"),
    }
}

/// Makes pods that are valid except for one to three random changes.
struct Changes {
    random: StdRng,
    pods: Vec<Value>,
    /// All values of fields of the same name.
    values: BTreeMap<String, Vec<Value>>,
}

impl Changes {
    fn new(seed: u64) -> Self {
        let mut pods = fields().unwrap();
        let mut values = BTreeMap::new();
        for pod in &mut pods {
            collect(pod, &mut values);
            pod["metadata"]["name"] = json!("validated");
        }
        Self { random: StdRng::seed_from_u64(seed), pods, values }
    }

    fn next_pod(&mut self) -> Value {
        let mut pod = self.pods.choose(&mut self.random).unwrap().clone();
        for _ in 0..self.random.random_range(1..=3) {
            let mut places = Vec::new();
            add_places(&pod["spec"], "/spec", &mut places);
            add_places(&pod["metadata"], "/metadata", &mut places);
            let Some(place) = places.choose(&mut self.random) else { break };
            let (parent, field) = place.rsplit_once('/').unwrap();
            let field = field.replace("~1", "/");
            match (self.random.random_range(0..4), pod.pointer_mut(parent).unwrap()) {
                (0, Value::Object(parent)) => drop(parent.remove(&field)),
                (1, Value::Array(items)) => items.push(items.choose(&mut self.random).unwrap().clone()),
                _ => {
                    let value = pod.pointer_mut(place).unwrap();
                    *value = self.other(&field, value);
                }
            }
        }
        pod
    }

    /// Another value for a field.
    fn other(&mut self, field: &str, value: &Value) -> Value {
        let random = &mut self.random;
        match self.values.get(field) {
            Some(values) if random.random_bool(0.5) => return values.choose(random).unwrap().clone(),
            Some(_) | None => {}
        }
        match value {
            Value::String(_) if random.random_bool(0.1) => {
                json!("x".repeat(*LENGTHS.choose(random).unwrap()))
            }
            Value::String(_) => json!(TEXTS.choose(random).unwrap()),
            Value::Number(_) => json!(NUMBERS.choose(random).unwrap()),
            Value::Bool(value) => json!(!value),
            Value::Array(_) => json!([]),
            Value::Object(_) => json!({}),
            Value::Null => Value::Null,
        }
    }
}

fn collect(value: &Value, values: &mut BTreeMap<String, Vec<Value>>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                values.entry(field.clone()).or_default().push(value.clone());
                collect(value, values);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, values)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The JSON pointers of everything within a value.
fn add_places(value: &Value, at: &str, places: &mut Vec<String>) {
    let mut add = |name: String, value: &Value| {
        let place = format!("{at}/{name}");
        add_places(value, &place, places);
        places.push(place);
    };
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(field, value)| add(field.replace('/', "~1"), value));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| add(index.to_string(), item))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
