//! The file as stock kubelets wrote it.

use super::*;
use crate::testing::cpu_set;

/// Written by a stock kubelet 1.37.2's manager.
const FOURTH: &str = include_str!("testdata/cpu_manager_state_v4.json");

fn content() -> CpuCheckpoint {
    CpuCheckpoint::decode(FOURTH.as_bytes()).unwrap()
}

#[test]
fn a_stock_file_is_read_and_written_byte_by_byte() {
    let content = content();
    assert_eq!(content.policy, "static");
    assert!(!content.state.containers.is_empty() && !content.state.pods.is_empty());
    assert_eq!(content.encode().unwrap(), FOURTH);
}

#[test]
fn older_files_are_read() {
    let third = include_str!("testdata/cpu_manager_state_v3.json");
    assert_eq!(CpuCheckpoint::decode(third.as_bytes()).unwrap(), content());
    let second = include_str!("testdata/cpu_manager_state_v2.json");
    let mut expected = content();
    expected.state.pods.clear();
    assert_eq!(CpuCheckpoint::decode(second.as_bytes()).unwrap(), expected);
    // Before there were checksums.
    let old = r#"{"policyName":"none","defaultCpuSet":"0-3","checksum":0}"#;
    let state = CpuState { shared: cpu_set("0-3"), ..CpuState::default() };
    assert_eq!(
        CpuCheckpoint::decode(old.as_bytes()).unwrap(),
        CpuCheckpoint { policy: "none".to_owned(), state }
    );
}

#[test]
fn what_was_changed_or_cut_is_not_read() {
    for file in [
        FOURTH,
        include_str!("testdata/cpu_manager_state_v3.json"),
        include_str!("testdata/cpu_manager_state_v2.json"),
    ] {
        let changed = file.replacen("static", "stable", 3);
        assert!(
            matches!(CpuCheckpoint::decode(changed.as_bytes()), Err(CpuCheckpointError::Checksum { .. })),
            "{changed}"
        );
        for end in [0, 1, file.len() / 2, file.len() - 1] {
            assert!(
                matches!(CpuCheckpoint::decode(&file.as_bytes()[..end]), Err(CpuCheckpointError::Json(_))),
                "{end}"
            );
        }
    }
    let list = r#"{"policyName":"static","defaultCpuSet":"3-1","checksum":0}"#;
    assert!(matches!(CpuCheckpoint::decode(list.as_bytes()), Err(CpuCheckpointError::CpuList(_))));
}

proptest::proptest! {
    /// Nothing in the file makes hostlet panic, and what is read is written so that it is read again.
    #[test]
    fn any_bytes_are_read_or_rejected(at in 0_usize..600, bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..8), version in 0_usize..3) {
        let files =
            [FOURTH, include_str!("testdata/cpu_manager_state_v3.json"), include_str!("testdata/cpu_manager_state_v2.json")];
        let mut file = files[version].as_bytes().to_vec();
        let at = at.min(file.len());
        file.splice(at..(at + bytes.len()).min(file.len()), bytes);
        if let Ok(content) = CpuCheckpoint::decode(&file) {
            proptest::prop_assert_eq!(CpuCheckpoint::decode(content.encode().unwrap().as_bytes()).unwrap(), content);
        }
    }
}
