//! Upstream's checksum of a checkpoint: FNV-1a of the data as its library for printing Go values (`spew`, `%#v`) shows it. Pure.

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter, Result};

use super::data::{Data, Entry};

/// The checksum of `data`.
pub(super) fn checksum(data: &Data) -> u64 {
    let hash = GoData(data)
        .to_string()
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    u64::from(hash)
}

/// Data as Go shows it, with the names of upstream's types. Go's `nil` differs from an empty list.
struct GoData<'a>(&'a Data);

impl Display for GoData<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Data { pod_device_entries, registered_devices } = self.0;
        f.write_str("(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)")?;
        list(f, pod_device_entries.as_deref(), entry)?;
        f.write_str(" RegisteredDevices:(map[string][]string)")?;
        map(f, registered_devices.as_ref())?;
        f.write_str("}")
    }
}

fn entry(f: &mut Formatter<'_>, entry: &Entry) -> Result {
    let Entry { pod_uid, container_name, resource_name, device_ids, alloc_resp } = entry;
    write!(
        f,
        "{{PodUID:(string){pod_uid} ContainerName:(string){container_name} ResourceName:(string){resource_name} \
         DeviceIDs:(checkpoint.DevicesPerNUMA)"
    )?;
    map(f, device_ids.as_ref())?;
    f.write_str(" AllocResp:([]uint8)")?;
    list(f, alloc_resp.as_ref().map(|bytes| bytes.0.as_slice()), |f, byte| byte.fmt(f))?;
    f.write_str("}")
}

fn map<K: Display>(f: &mut Formatter<'_>, map: Option<&BTreeMap<K, Option<Vec<String>>>>) -> Result {
    let Some(map) = map else { return f.write_str("<nil>") };
    f.write_str("map[")?;
    for (number, (key, values)) in map.iter().enumerate() {
        f.write_str(if number == 0 { "" } else { " " })?;
        write!(f, "{key}:")?;
        list(f, values.as_deref(), |f, value| value.fmt(f))?;
    }
    f.write_str("]")
}

fn list<T>(
    f: &mut Formatter<'_>,
    list: Option<&[T]>,
    show: impl Fn(&mut Formatter<'_>, &T) -> Result,
) -> Result {
    let Some(list) = list else { return f.write_str("<nil>") };
    f.write_str("[")?;
    for (number, item) in list.iter().enumerate() {
        f.write_str(if number == 0 { "" } else { " " })?;
        show(f, item)?;
    }
    f.write_str("]")
}
