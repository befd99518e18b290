//! Encodes a pod as Kubernetes' API types are encoded in Protobuf, from its JSON and the table of messages. Pure.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hostlet_proto::pod_message::{Count, Field, Kind, MESSAGES, POD};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use prost::encoding::{WireType, encode_key, encode_varint};
use serde_json::{Map, Value};

/// Messages whose fields are, in JSON, those of the message that has them.
const INLINE: [&str; 4] = ["volumeSource", "handler", "localObjectReference", "ephemeralContainerCommon"];

/// A pod in Protobuf.
pub(super) fn pod(pod: &Pod) -> Vec<u8> {
    match serde_json::to_value(pod) {
        Ok(Value::Object(fields)) => message(&fields, POD),
        // A pod is an object, which can always be written.
        Ok(_) | Err(_) => Vec::new(),
    }
}

/// Whether the fields of a message are those of the message around it.
pub(super) fn is_inline(field: &Field) -> bool {
    INLINE.contains(&field.name)
}

fn message(fields: &Map<String, Value>, of: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for field in MESSAGES[of] {
        if let (true, Kind::Message(inner)) = (is_inline(field), field.kind) {
            bytes(field.number, &message(fields, inner), &mut out);
            continue;
        }
        match (field.count, fields.get(field.name)) {
            (_, None | Some(Value::Null)) => {}
            (Count::One, Some(value)) => encode(field.number, field.kind, value, &mut out),
            (Count::Many, Some(values)) => {
                for value in values.as_array().into_iter().flatten() {
                    encode(field.number, field.kind, value, &mut out);
                }
            }
            (Count::Map, Some(values)) => {
                for (key, value) in values.as_object().into_iter().flatten() {
                    let mut entry = Vec::new();
                    bytes(1, key.as_bytes(), &mut entry);
                    encode(2, field.kind, value, &mut entry);
                    bytes(field.number, &entry, &mut out);
                }
            }
        }
    }
    out
}

/// Encodes one value. A value of another kind, which a typed pod does not have, is left out.
fn encode(number: u32, kind: Kind, value: &Value, out: &mut Vec<u8>) {
    match kind {
        Kind::Text => value.as_str().into_iter().for_each(|text| bytes(number, text.as_bytes(), out)),
        Kind::Bytes => {
            let decoded = value.as_str().and_then(|text| BASE64_STANDARD.decode(text).ok());
            decoded.into_iter().for_each(|decoded| bytes(number, &decoded, out));
        }
        Kind::Bool => value.as_bool().into_iter().for_each(|is| integer(number, is.into(), out)),
        Kind::Integer => value.as_i64().into_iter().for_each(|value| integer(number, value, out)),
        Kind::Time | Kind::MicroTime => {
            let time = value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
            if let Some(time) = time {
                let mut inner = Vec::new();
                integer(1, time.as_second(), &mut inner);
                integer(2, time.subsec_nanosecond().into(), &mut inner);
                bytes(number, &inner, out);
            }
        }
        Kind::Quantity => {
            let mut inner = Vec::new();
            value.as_str().into_iter().for_each(|text| bytes(1, text.as_bytes(), &mut inner));
            bytes(number, &inner, out);
        }
        Kind::IntOrString => {
            let mut inner = Vec::new();
            match value {
                Value::String(text) => {
                    integer(1, 1, &mut inner);
                    bytes(3, text.as_bytes(), &mut inner);
                }
                number => {
                    integer(1, 0, &mut inner);
                    integer(2, number.as_i64().unwrap_or_default(), &mut inner);
                }
            }
            bytes(number, &inner, out);
        }
        Kind::FieldsV1 => {
            let mut inner = Vec::new();
            bytes(1, value.to_string().as_bytes(), &mut inner);
            bytes(number, &inner, out);
        }
        Kind::Message(of) => {
            let empty = Map::new();
            bytes(number, &message(value.as_object().unwrap_or(&empty), of), out);
        }
    }
}

fn bytes(number: u32, content: &[u8], out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(u64::try_from(content.len()).unwrap_or(u64::MAX), out);
    out.extend_from_slice(content);
}

fn integer(number: u32, value: i64, out: &mut Vec<u8>) {
    encode_key(number, WireType::Varint, out);
    // Negative numbers have ten bytes, of 32 and of 64 bits.
    encode_varint(value.cast_unsigned(), out);
}
