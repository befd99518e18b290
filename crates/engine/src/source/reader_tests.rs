//! The reader against files that appear, disappear, break and are fixed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hostlet_base::CONFIG_SEEN_ANNOTATION;
use hostlet_base::testing::at;
use hostlet_pod::ManifestOrigin;
use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;

use super::merge::{fixed, new_problems};
use super::reader::{FileRead, Pass, Reader};
use super::{FileAccess, SourceState, StaticPod};

fn pod(name: &str, image: &str) -> Vec<u8> {
    format!("{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{containers: [{{name: c, image: {image}}}]}}}}")
        .into_bytes()
}

fn listed<const N: usize>(files: [(&'static str, FileRead); N]) -> Pass<'static> {
    Pass::Listed(Box::new(files.into_iter().map(|(file, read)| (PathBuf::from(file), read))))
}

fn bytes(content: &[u8]) -> FileRead {
    FileRead::Bytes(content.to_vec(), FileAccess::Private)
}

fn names(reader: &Reader) -> Vec<String> {
    reader.state().pods.iter().map(|pod| pod.pod.metadata.name.clone().unwrap()).collect()
}

#[test]
fn equal_content_changes_nothing() {
    let mut reader = Reader::new("n", true, &[]);
    assert!(reader.apply(listed([("a", bytes(&pod("a", "x")))]), at(1)));
    let first = reader.state();
    assert!(!reader.apply(listed([("a", bytes(&pod("a", "x")))]), at(2)));
    assert!(!reader.apply(listed([("a", FileRead::Unchanged)]), at(3)));
    assert!(Arc::ptr_eq(&first.pods[0], &reader.state().pods[0]));

    let mut commented = pod("a", "x");
    commented.extend_from_slice(b" # why");
    assert!(!reader.apply(listed([("a", bytes(&commented))]), at(4)));
    assert_eq!(reader.state(), first);

    assert!(reader.apply(listed([("a", bytes(&pod("a", "z")))]), at(5)));
    let second = reader.state();
    assert_ne!(second.pods[0].pod.metadata.uid, first.pods[0].pod.metadata.uid);
    let seen = &second.pods[0].pod.metadata.annotations.as_ref().unwrap()[CONFIG_SEEN_ANNOTATION];
    assert_eq!(*seen, at(5).to_string());
}

fn seen(reader: &Reader) -> String {
    reader.state().pods[0].pod.metadata.annotations.as_ref().unwrap()[CONFIG_SEEN_ANNOTATION].clone()
}

#[test]
fn a_file_that_was_deleted_and_written_again_defines_a_new_pod() {
    let mut reader = Reader::new("n", true, &[]);
    let deleted = BTreeSet::from([PathBuf::from("a"), PathBuf::from("other")]);
    reader.apply(listed([("a", bytes(&pod("a", "x")))]), at(1));
    let uid = reader.state().pods[0].pod.metadata.uid.clone();
    reader.forget(&deleted);
    assert!(reader.apply(listed([("a", bytes(&pod("a", "x")))]), at(2)));
    assert_eq!((seen(&reader), reader.state().pods[0].pod.metadata.uid.clone()), (at(2).to_string(), uid));
    assert!(!reader.apply(listed([("a", bytes(&pod("a", "x")))]), at(3)), "once");
    // What is broken in its place keeps the pod, as any broken file.
    reader.forget(&deleted);
    reader.apply(listed([("a", bytes(b"{half"))]), at(4));
    assert_eq!(seen(&reader), at(2).to_string());
    reader.apply(listed([("a", bytes(&pod("a", "x")))]), at(5));
    assert_eq!(seen(&reader), at(5).to_string(), "now it is complete");
    // A deleted file has no pod.
    reader.forget(&deleted);
    assert!(reader.apply(listed([]), at(6)));
    assert!(names(&reader).is_empty());
}

#[test]
fn a_changed_definition_with_a_fixed_uid_is_the_same_pod() {
    let fixed = |image: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: a, uid: u}}, spec: {{containers: [{{name: c, image: {image}}}]}}}}"
        )
    };
    let mut reader = Reader::new("n", true, &[]);
    reader.apply(listed([("a", bytes(fixed("x").as_bytes()))]), at(1));
    assert!(reader.apply(listed([("a", bytes(fixed("y").as_bytes()))]), at(2)));
    assert_eq!(seen(&reader), at(1).to_string());
}

const CONFIG: &[u8] = b"{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {k: v}}";

fn object_names(reader: &Reader) -> Vec<String> {
    reader.objects().map(|object| object.to_string()).collect()
}

#[test]
fn objects_come_and_go_with_their_files_and_the_first_of_a_name_wins() {
    let mut reader = Reader::new("n", true, &[]);
    let beside = [&pod("a", "x")[..], b"\n---\n", CONFIG].concat();
    assert!(reader.apply(listed([("a", bytes(&beside)), ("b", bytes(CONFIG))]), at(1)));
    assert_eq!(
        (names(&reader), object_names(&reader)),
        (vec!["a-n".to_owned()], vec!["configmap default/c".to_owned()])
    );
    let problems = reader.state().problems;
    let expected = "configmap default/c is already defined by a; rename or remove one of the two";
    assert_eq!((problems.len(), problems[0].message.as_str()), (1, expected));
    // A pod without its object remains the same pod.
    let first = reader.state();
    assert!(reader.apply(listed([("a", bytes(&pod("a", "x"))), ("b", FileRead::Unchanged)]), at(2)));
    assert_eq!((object_names(&reader).len(), reader.state().problems.len()), (1, 0));
    assert!(Arc::ptr_eq(&first.pods[0], &reader.state().pods[0]));
    // Broken, the file keeps what it defined.
    reader.apply(listed([("a", FileRead::Unchanged), ("b", bytes(b"{half"))]), at(3));
    assert_eq!((object_names(&reader).len(), reader.state().problems.len()), (1, 1));
    reader.apply(listed([("a", FileRead::Unchanged)]), at(4));
    assert!(object_names(&reader).is_empty());
}

#[test]
fn a_secret_is_served_once_only_root_can_read_its_file() {
    let mut reader = Reader::new("n", true, &[]);
    let secret = b"{apiVersion: v1, kind: Secret, metadata: {name: s}, data: {k: dg==}}".to_vec();
    reader.apply(listed([("s", FileRead::Bytes(secret.clone(), FileAccess::Shared))]), at(1));
    let message = reader.state().problems[0].message.clone();
    assert!(object_names(&reader).is_empty() && message.ends_with("chmod 600 s"), "{message}");
    assert!(reader.apply(listed([("s", FileRead::Bytes(secret, FileAccess::Private))]), at(2)));
    assert_eq!(
        (object_names(&reader), reader.state().problems.len()),
        (vec!["secret default/s".to_owned()], 0)
    );
}

#[test]
fn with_an_api_server_objects_are_reported_as_ignored() {
    let mut reader = Reader::new("n", false, &[]);
    let beside = [&pod("a", "x")[..], b"\n---\n", CONFIG].concat();
    reader.apply(listed([("a", bytes(&beside))]), at(1));
    assert!(object_names(&reader).is_empty() && names(&reader) == ["a-n"]);
    let message = reader.state().problems[0].message.clone();
    assert!(message.starts_with("line 3: the ConfigMap \"c\" has no effect"), "{message}");
}

#[test]
fn a_file_that_breaks_keeps_its_pod_and_reports_its_problem_once() {
    let mut reader = Reader::new("n", true, &[]);
    reader.apply(listed([("a", bytes(&pod("a", "x"))), ("b", bytes(&pod("b", "x")))]), at(1));
    let good = reader.state();

    assert!(reader.apply(listed([("a", bytes(b"{half")), ("b", FileRead::Unchanged)]), at(2)));
    let broken = reader.state();
    assert_eq!(broken.pods, good.pods);
    assert_eq!(new_problems(&good, &broken).len(), 1);
    assert_eq!((broken.problems[0].origin.clone(), broken.problems[0].since), (file("a"), at(2)));

    assert!(!reader.apply(listed([("a", bytes(b"{half")), ("b", FileRead::Unchanged)]), at(3)));
    assert_eq!(reader.state(), broken);

    assert!(
        reader.apply(
            listed([("a", FileRead::Unusable("too large".into())), ("b", FileRead::Unchanged)]),
            at(4)
        )
    );
    assert_eq!(reader.state().pods, good.pods);
    assert_eq!(reader.state().problems[0].message, "too large");

    assert!(reader.apply(listed([("a", bytes(&pod("a", "x"))), ("b", FileRead::Unchanged)]), at(5)));
    assert_eq!(reader.state(), good);
    assert_eq!(fixed(&broken, &good).into_iter().collect::<Vec<_>>(), [file("a")]);
}

#[test]
fn a_file_that_was_never_valid_has_only_a_problem() {
    let mut reader = Reader::new("n", true, &[]);
    reader.apply(listed([("a", bytes(b"apiVersion: v1\nkind: Pod\nspec: {}\nmetadata: {name: A}"))]), at(1));
    let state = reader.state();
    assert_eq!(state.pods, Vec::new());
    assert_eq!(state.problems[0].pod.as_deref(), Some("default/A-n"));
    assert_eq!(state.problems[0].message.lines().count(), 2);
}

#[test]
fn pods_and_problems_are_removed_with_their_files() {
    let mut reader = Reader::new("n", true, &[]);
    reader.apply(listed([("a", bytes(&pod("a", "x"))), ("b", bytes(b"["))]), at(1));
    assert!(reader.apply(listed([]), at(2)));
    assert_eq!(reader.state(), SourceState { ready: true, ..Default::default() });
    assert!(!reader.apply(listed([]), at(3)));
}

#[test]
fn the_state_stays_if_listing_fails() {
    let mut reader = Reader::new("n", true, &[]);
    reader.apply(listed([("/m/a", bytes(&pod("a", "x")))]), at(1));
    let failed = || Pass::Failed { path: "/m".into(), message: "not permitted".into() };
    assert!(reader.apply(failed(), at(2)));
    assert!(!reader.apply(failed(), at(3)));
    assert_eq!(names(&reader), ["a-n"]);
    assert_eq!(reader.state().problems[0].since, at(2));
    assert!(reader.apply(listed([("/m/a", FileRead::Unchanged)]), at(4)));
    assert_eq!(reader.state().problems, []);
}

#[test]
fn of_two_files_with_the_same_pod_the_first_by_name_wins() {
    let mut reader = Reader::new("n", true, &[]);
    reader.apply(listed([("b", bytes(&pod("same", "x")))]), at(1));
    reader.apply(listed([("a", bytes(&pod("same", "z"))), ("b", FileRead::Unchanged)]), at(2));
    let state = reader.state();
    assert_eq!(state.pods.iter().map(|pod| pod.origin.clone()).collect::<Vec<_>>(), [file("a")]);
    assert_eq!(state.problems[0].origin, file("b"));
    assert!(state.problems[0].message.contains("already defined by a"), "{}", state.problems[0].message);

    assert!(reader.apply(listed([("b", FileRead::Unchanged)]), at(3)));
    assert_eq!(reader.state().pods[0].origin, file("b"));
    assert_eq!(reader.state().problems, []);
}

/// The pods of a reader, as the next daemon's reader adopts them.
fn adopted(reader: &Reader) -> Vec<StaticPod> {
    reader.state().pods.iter().map(|pod| StaticPod::clone(pod)).collect()
}

#[test]
fn a_new_reader_continues_from_adopted_pods() {
    let mut before = Reader::new("n", true, &[]);
    before.apply(
        listed([("a", bytes(&pod("a", "x"))), ("b", bytes(&pod("b", "x"))), ("c", bytes(&pod("c", "x")))]),
        at(1),
    );
    let good = before.state();

    // Broken or unreadable from the start: as if it had become so later.
    let mut reader = Reader::new("n", true, &adopted(&before));
    reader.apply(
        listed([
            ("a", bytes(b"{half")),
            ("b", FileRead::Unusable("not permitted".into())),
            ("c", bytes(&pod("c", "x"))),
        ]),
        at(5),
    );
    let state = reader.state();
    assert_eq!(state.pods, good.pods, "first seen when they were");
    let problems: Vec<_> =
        state.problems.iter().map(|problem| (problem.origin.clone(), problem.since)).collect();
    assert_eq!(problems, [(file("a"), at(5)), (file("b"), at(5))]);
    // It is removed in the same way.
    reader.apply(listed([("a", bytes(&pod("a", "z"))), ("c", FileRead::Unchanged)]), at(6));
    assert_eq!(names(&reader), ["a-n", "c-n"]);
    assert_eq!(reader.state().problems, []);

    // Edited, and removed.
    let mut reader = Reader::new("n", true, &adopted(&before));
    reader.apply(listed([("a", bytes(&pod("a", "z"))), ("b", bytes(&pod("b", "x")))]), at(5));
    assert_eq!(names(&reader), ["a-n", "b-n"]);
    assert_ne!(reader.state().pods[0], good.pods[0]);

    // Listing fails.
    let mut reader = Reader::new("n", true, &adopted(&before));
    reader.apply(Pass::Failed { path: "/m".into(), message: "not permitted".into() }, at(5));
    assert_eq!(reader.state().pods, good.pods);

    // Pods of another node are ignored.
    let mut reader = Reader::new("other", true, &adopted(&before));
    reader.apply(listed([("a", bytes(b"{half"))]), at(5));
    assert_eq!(names(&reader), Vec::<String>::new());
}

#[test]
fn of_two_adopted_pods_of_a_file_the_newer_counts() {
    let mut reader = Reader::new("n", true, &[]);
    let mut all = Vec::new();
    for image in ["x", "z"] {
        reader.apply(listed([("a", bytes(&pod("a", image)))]), at(1));
        all.extend(adopted(&reader));
    }
    let mut next = Reader::new("n", true, &all);
    next.apply(listed([("a", bytes(b"{half"))]), at(5));
    assert_eq!(*next.state().pods[0], all[1]);
}

#[test]
fn one_uid_belongs_to_one_pod() {
    let with_uid = |name: &str| {
        format!("{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, uid: u1}}, spec: {{containers: [{{name: c, image: x}}]}}}}")
            .into_bytes()
    };
    let mut reader = Reader::new("n", true, &[]);
    reader.apply(listed([("a", bytes(&with_uid("a"))), ("b", bytes(&with_uid("b")))]), at(1));
    assert_eq!(names(&reader), ["a-n"]);
    assert!(reader.state().problems[0].message.contains("uid u1"));
}

#[derive(Debug, Clone)]
enum Edit {
    Good { file: usize, name: usize, image: usize },
    Bad { file: usize, how: usize },
    Remove { file: usize },
    Nothing,
    ListingFails,
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let edit = prop_oneof![
        4 => (0_usize..4, 0_usize..4, 0_usize..3).prop_map(|(file, name, image)| Edit::Good { file, name, image }),
        2 => (0_usize..4, 0_usize..3).prop_map(|(file, how)| Edit::Bad { file, how }),
        1 => (0_usize..4).prop_map(|file| Edit::Remove { file }),
        1 => Just(Edit::Nothing),
        1 => Just(Edit::ListingFails),
    ];
    proptest::collection::vec(edit, 1..30)
}

fn file(name: &str) -> ManifestOrigin {
    ManifestOrigin::File(name.into())
}

/// Pods without the time they were first seen, the only difference between two histories of equal content.
fn timeless(reader: &Reader) -> Vec<(ManifestOrigin, Pod)> {
    let pods = reader.state().pods;
    pods.iter()
        .map(|read| {
            let mut pod = Pod::clone(&read.pod);
            pod.metadata.annotations.as_mut().unwrap().remove(CONFIG_SEEN_ANNOTATION);
            (read.origin.clone(), pod)
        })
        .collect()
}

proptest! {
    /// After any history, the pods are those of a fresh read of each file's last valid version.
    #[test]
    fn any_history_gives_the_pods_of_the_last_valid_versions(edits in edits()) {
        const BAD: [&[u8]; 3] = [b"", b"{half", b"apiVersion: v1\nkind: Pod\nmetadata: {name: x}"];
        let mut reader = Reader::new("n", true, &[]);
        let mut present: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
        let mut good: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
        for (step, edit) in edits.into_iter().enumerate() {
            let now = at(i64::try_from(step).unwrap());
            let before = reader.state();
            let mut touched = None;
            let mut fails = false;
            match edit {
                Edit::Good { file, name, image } => {
                    let file = PathBuf::from(format!("f{file}"));
                    let content = pod(&format!("p{name}"), &format!("i{image}"));
                    good.insert(file.clone(), content.clone());
                    present.insert(file.clone(), content);
                    touched = Some(file);
                }
                Edit::Bad { file, how } => {
                    let file = PathBuf::from(format!("f{file}"));
                    present.insert(file.clone(), BAD[how].to_vec());
                    touched = Some(file);
                }
                Edit::Remove { file } => {
                    let file = PathBuf::from(format!("f{file}"));
                    present.remove(&file);
                    good.remove(&file);
                }
                Edit::Nothing => {}
                Edit::ListingFails => fails = true,
            }
            let read = |file: &PathBuf, content: &Vec<u8>| match touched.as_ref() {
                Some(touched) if touched == file => FileRead::Bytes(content.clone(), FileAccess::Private),
                _ => FileRead::Unchanged,
            };
            let pass = if fails {
                Pass::Failed { path: "/m".into(), message: "no".into() }
            } else {
                Pass::Listed(Box::new(present.iter().map(|(file, content)| (file.clone(), read(file, content)))))
            };
            let changed = reader.apply(pass, now);
            prop_assert!(changed || reader.state() == before, "a change was not reported");

            let mut fresh = Reader::new("n", true, &[]);
            let all = good.iter().map(|(file, content)| (file.clone(), FileRead::Bytes(content.clone(), FileAccess::Private)));
            fresh.apply(Pass::Listed(Box::new(all)), now);
            prop_assert_eq!(timeless(&reader), timeless(&fresh));

            let files_of = |reader: &Reader| -> BTreeSet<PathBuf> {
                let problems = reader.state().problems.into_iter();
                let files = problems.filter_map(|problem| problem.origin.file().map(Path::to_owned));
                files.filter(|file| file != Path::new("/m")).collect()
            };
            let bad = present.iter().filter(|(file, content)| good.get(*file) != Some(*content));
            let mut expected = files_of(&fresh);
            expected.extend(bad.map(|(file, _)| file.clone()));
            prop_assert_eq!(files_of(&reader), expected);
        }
    }
}
