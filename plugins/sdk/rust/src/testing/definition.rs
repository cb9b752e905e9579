//! The kind that a CustomResourceDefinition defines.

use pilothouse_core::{Kind, ServedKind};
use serde_json::Value;

use super::server;

/// The kind, as discovery would describe it. `None`: the object is no definition, or serves no
/// version.
pub(super) fn served_kind(object: &Value) -> Option<ServedKind> {
    let group = text(object, "/apiVersion")?.strip_prefix("apiextensions.k8s.io/");
    if group.is_none() || text(object, "/kind") != Some("CustomResourceDefinition") {
        return None;
    }
    let versions = object.pointer("/spec/versions")?.as_array()?.iter();
    let served: Vec<&Value> = versions.filter(|it| it["served"] == true).collect();
    let preferred = served.first()?;
    let kind = Kind::new(
        text(object, "/spec/group")?,
        text(preferred, "/name")?,
        text(object, "/spec/names/kind")?,
    );
    let names = served.iter().filter_map(|version| text(version, "/name"));
    let parts = preferred["subresources"].as_object().into_iter().flatten();
    let is_namespaced = text(object, "/spec/scope") == Some("Namespaced");
    Some(ServedKind {
        versions: names.map(str::to_owned).collect(),
        resource: text(object, "/spec/names/plural")?.to_owned(),
        subresources: parts.map(|(name, _)| name.clone()).collect(),
        ..server::served_kind(&kind, is_namespaced)
    })
}

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}
