//! The checkpoint of devices: a file that a stock kubelet, an older hostlet or a broken disk wrote.

use hostlet_devices::recode_checkpoint;

/// Whatever the file says, what is written of it is a sound checkpoint that says the same.
pub fn device_checkpoint(input: &[u8]) {
    let (written, _) = recode_checkpoint(input);
    let (again, is_wrong) = recode_checkpoint(&written);
    assert!(!is_wrong, "what is written is not sound");
    assert_eq!(again, written, "what is written says something else");
}
