//! Names of objects, and kinds as the host prints them.

use serde_json::Value;

use crate::{Kind, ObjectKey};

const MAX_NAME: usize = 253;

/// The form in which the host's messages name a kind: `v1/Pod`, `apps/v1/Deployment`.
pub(super) fn kind_text(kind: &Kind) -> String {
    format!("{}/{}", kind.api_version(), kind.kind)
}

/// True for a DNS label (RFC 1123).
pub(super) fn is_dns_label(name: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    let is_of_label = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    bytes.len() <= 63 && edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(is_of_label)
}

/// Checks that this names an object and contains nothing that could change the path of a URL.
pub(super) fn check_key(key: &ObjectKey) -> Result<(), String> {
    let name = key.name.as_str();
    let is_segment = !matches!(name, "" | "." | "..") && !name.contains(['/', '%']);
    let is_printable = name.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_segment || !is_printable || name.len() > MAX_NAME {
        let name: String = name.chars().take(MAX_NAME).collect();
        return Err(format!("{name:?} is not an object's name"));
    }
    if !key.namespace.is_empty() && !is_dns_label(&key.namespace) {
        let namespace: String = key.namespace.chars().take(MAX_NAME).collect();
        return Err(format!("{namespace:?} is not a namespace's name"));
    }
    Ok(())
}

/// The kind given by the fields `apiVersion` and `kind`.
pub(super) fn kind_from(api_version: &str, kind: &str) -> Kind {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    Kind::new(group, version, kind)
}

/// The kind that an object declares.
pub(super) fn kind_of(object: &Value) -> Option<Kind> {
    let text = |name: &str| object.get(name).and_then(Value::as_str);
    Some(kind_from(text("apiVersion")?, text("kind")?))
}
