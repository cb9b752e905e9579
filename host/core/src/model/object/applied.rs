//! The part of `metadata.managedFields` that is kept: the fields that plugins of this host have
//! applied. It shows, also after a restart, whether an apply would change anything.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::model::fields::push_string;

/// An entry of `managedFields`, reduced to the fields that are needed here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    #[serde(borrow, default)]
    manager: Cow<'a, str>,
    #[serde(borrow, default)]
    operation: Cow<'a, str>,
    #[serde(borrow, default)]
    subresource: Cow<'a, str>,
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    fields_v1: Option<&'a RawValue>,
}

/// Returns the entries of applies by these managers, as a JSON array. Empty if there are none, or
/// if `managed_fields` cannot be read. In the latter case the object is still valid, and the only
/// cost is an apply that changes nothing.
pub(super) fn of_managers(managed_fields: &str, managers: &[String]) -> String {
    let is_named = |manager: &String| managed_fields.contains(manager.as_str());
    if !managers.iter().any(is_named) {
        return String::new();
    }
    let mut kept = String::new();
    for entry in entries(managed_fields) {
        let is_ours = managers.iter().any(|manager| **manager == *entry.manager);
        let (true, "Apply", Some(fields)) = (is_ours, &*entry.operation, entry.fields_v1) else {
            continue;
        };
        kept.push(if kept.is_empty() { '[' } else { ',' });
        for (before, text) in [
            ("{\"operation\":\"Apply\",\"manager\":", &entry.manager),
            (",\"subresource\":", &entry.subresource),
            (",\"apiVersion\":", &entry.api_version),
        ] {
            kept.push_str(before);
            push_string(&mut kept, text);
        }
        kept.push_str(",\"fieldsV1\":");
        kept.push_str(fields.get());
        kept.push('}');
    }
    if !kept.is_empty() {
        kept.push(']');
    }
    kept
}

/// The fields (fieldsV1) that a manager has applied, in terms of this apiVersion. `None` if there
/// are none, or if some of them are in terms of another apiVersion.
pub(crate) fn find<'a>(
    entries_json: &'a str,
    manager: &str,
    subresource: Option<&str>,
    api_version: &str,
) -> Option<&'a str> {
    let subresource = subresource.unwrap_or_default();
    let mut own = entries(entries_json).into_iter().filter(|entry| {
        let of = (&*entry.manager, &*entry.subresource, &*entry.operation);
        of == (manager, subresource, "Apply")
    });
    match (own.next(), own.next()) {
        (Some(entry), None) if entry.api_version == api_version => {
            entry.fields_v1.map(RawValue::get)
        }
        _ => None,
    }
}

fn entries(json: &str) -> Vec<Entry<'_>> {
    serde_json::from_str(json).unwrap_or_default()
}
