//! The file as stock kubelets wrote it.

use super::*;

/// Written by a stock kubelet 1.37.2's manager.
const THIRD: &str = include_str!("testdata/memory_manager_state_v3.json");

fn content() -> MemoryCheckpoint {
    MemoryCheckpoint::decode(THIRD.as_bytes()).unwrap()
}

#[test]
fn a_stock_file_is_read_and_written_byte_by_byte() {
    let content = content();
    assert_eq!(content.policy, "Static");
    assert!(!content.state.containers.is_empty() && !content.state.pods.is_empty());
    assert_eq!(content.encode().unwrap(), THIRD);
}

#[test]
fn older_files_are_read() {
    let second = include_str!("testdata/memory_manager_state_v2.json");
    assert_eq!(MemoryCheckpoint::decode(second.as_bytes()).unwrap(), content());
    let first = include_str!("testdata/memory_manager_state_v1.json");
    let mut expected = content();
    expected.state.pods.clear();
    assert_eq!(MemoryCheckpoint::decode(first.as_bytes()).unwrap(), expected);
    let none = r#"{"policyName":"None","machineState":null,"checksum":0}"#;
    let expected = MemoryCheckpoint { policy: "None".to_owned(), state: MemoryState::default() };
    assert_eq!(MemoryCheckpoint::decode(none.as_bytes()).unwrap(), expected);
}

#[test]
fn what_was_changed_or_cut_is_not_read() {
    for file in [
        THIRD,
        include_str!("testdata/memory_manager_state_v2.json"),
        include_str!("testdata/memory_manager_state_v1.json"),
    ] {
        let changed = file.replacen("Static", "Stable", 3);
        assert!(matches!(
            MemoryCheckpoint::decode(changed.as_bytes()),
            Err(MemoryCheckpointError::Checksum { .. })
        ));
        for end in [0, 1, file.len() / 2, file.len() - 1] {
            assert!(
                matches!(
                    MemoryCheckpoint::decode(&file.as_bytes()[..end]),
                    Err(MemoryCheckpointError::Json(_))
                ),
                "{end}"
            );
        }
    }
}

proptest::proptest! {
    /// Nothing in the file makes hostlet panic, and what is read is written so that it is read again.
    #[test]
    fn any_bytes_are_read_or_rejected(at in 0_usize..3000, bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..8)) {
        let mut file = THIRD.as_bytes().to_vec();
        let at = at.min(file.len());
        file.splice(at..(at + bytes.len()).min(file.len()), bytes);
        if let Ok(content) = MemoryCheckpoint::decode(&file) {
            proptest::prop_assert_eq!(MemoryCheckpoint::decode(content.encode().unwrap().as_bytes()).unwrap(), content);
        }
    }
}
