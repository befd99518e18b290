//! The container hash, which shows whether a running container matches its spec. Equal to the stock kubelet's since 1.31, so that
//! switching between them restarts no container.

use std::fmt::Write;

use k8s_openapi::api::core::v1::Container;
use serde::Serialize;

use hostlet_base::go_json;

/// The fields whose change requires a new container (upstream `pickFieldsToHash`), in Go's key order.
#[derive(Serialize)]
struct Hashed<'a> {
    image: &'a str,
    name: &'a str,
}

/// Hash of a container's image and name: 32-bit FNV-1a over Go's formatting of their JSON as a byte slice.
pub(crate) fn container_hash(container: &Container) -> u32 {
    let hashed = Hashed { image: container.image.as_deref().unwrap_or_default(), name: &container.name };
    // Two strings always serialize; on failure upstream hashes an empty slice.
    let json = go_json(&hashed).unwrap_or_default();
    let mut printed = String::from("([]uint8)[");
    for (index, byte) in json.bytes().enumerate() {
        let separator = if index == 0 { "" } else { " " };
        // Writing to a String cannot fail.
        let _ = write!(printed, "{separator}{byte}");
    }
    printed.push(']');
    fnv1a(printed.as_bytes())
}

fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(name: &str, image: &str) -> u32 {
        container_hash(&Container { name: name.into(), image: Some(image.into()), ..Default::default() })
    }

    #[test]
    fn equals_the_stock_kubelets() {
        assert_eq!(hash("test_container", "foo/image:v1"), 0x8e45_cbd0);
        let busybox = "registry.k8s.io/e2e-test-images/busybox:1.37.0-1";
        assert_eq!(hash("main", busybox), 0xa785_d335);
        assert_eq!(hash("side", busybox), 0x5f5f_5957);
        assert_eq!(hash("init", busybox), 0x6908_ec1b);
    }

    #[test]
    fn only_image_and_name_count() {
        let mut container = Container { name: "c".into(), image: Some("i".into()), ..Default::default() };
        let before = container_hash(&container);
        container.command = Some(vec!["sh".into()]);
        assert_eq!(container_hash(&container), before);
        assert_ne!(hash("c", "j"), before);
        assert_ne!(hash("d", "i"), before);
    }
}
