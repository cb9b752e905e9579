//! The content of an Event, and the names that follow from it.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use pilothouse_core::text::{hex, prefix};
use pilothouse_core::{Author, Kind, MAX_EVENT_NOTE, MAX_EVENT_WORD, ObjectKey, Operation, Write};
use sha2::{Digest, Sha256};

/// The content of an Event. Events with equal content belong to one series.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventBody<'a> {
    pub(super) manager: &'a str,
    /// The controller that reports it, if that is not named after the manager.
    reporting_controller: Option<&'a str>,
    pub(super) kind: &'a Kind,
    pub(super) key: &'a ObjectKey,
    pub(super) uid: Option<&'a str>,
    pub(super) is_warning: bool,
    pub(super) reason: &'a str,
    pub(super) action: &'a str,
    pub(super) note: &'a str,
}

/// SHA-256 over the content of an Event.
pub(super) type SeriesKey = [u8; 32];

impl<'a> EventBody<'a> {
    /// The Event that a write is about; `None` for any other write.
    pub(crate) fn of(author: &'a Author, write: &'a Write) -> Option<Self> {
        let Operation::Event {
            uid,
            is_warning,
            reason,
            action,
            note,
        } = &write.operation
        else {
            return None;
        };
        Some(Self {
            manager: &author.plugin,
            reporting_controller: author.reporting_controller.as_deref(),
            kind: &write.kind,
            key: &write.key,
            uid: uid.as_deref(),
            is_warning: *is_warning,
            reason,
            action,
            note,
        })
    }

    pub(super) fn series_key(&self) -> SeriesKey {
        let mut hasher = Sha256::new();
        let (group, version, kind) = (&*self.kind.group, &*self.kind.version, &*self.kind.kind);
        let regarding = [
            group,
            version,
            kind,
            &*self.key.namespace,
            &*self.key.name,
            self.uid.unwrap_or_default(),
        ];
        let says = [
            self.manager,
            self.reporting_controller.unwrap_or_default(),
            event_type(self.is_warning),
            self.reason,
            self.action,
            self.note,
        ];
        for part in regarding.iter().chain(&says) {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        hasher.finalize().into()
    }

    /// The namespace of the Event. Events about cluster-scoped objects live in `default`; the API
    /// server accepts no other namespace for them.
    pub(super) fn namespace(&self) -> &str {
        if self.key.namespace.is_empty() {
            "default"
        } else {
            &self.key.namespace
        }
    }

    fn reporting_controller(&self) -> String {
        let own = || controller_name(self.manager);
        self.reporting_controller.map_or_else(own, str::to_owned)
    }

    /// The Event as an object.
    pub(super) fn object(&self, name: &str, instance: &str, time: Timestamp) -> Event {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Event {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(self.namespace().to_owned()),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(time)),
            reporting_controller: Some(self.reporting_controller()),
            reporting_instance: Some(prefix(instance, MAX_EVENT_WORD).to_owned()),
            type_: Some(event_type(self.is_warning).to_owned()),
            reason: Some(prefix(self.reason, MAX_EVENT_WORD).to_owned()),
            action: Some(prefix(self.action, MAX_EVENT_WORD).to_owned()),
            note: Some(prefix(self.note, MAX_EVENT_NOTE).to_owned()),
            regarding: Some(ObjectReference {
                api_version: Some(self.kind.api_version()),
                kind: Some(self.kind.kind.to_string()),
                name: Some(self.key.name.to_string()),
                namespace: given(&self.key.namespace),
                uid: given(self.uid.unwrap_or_default()),
                ..ObjectReference::default()
            }),
            ..Event::default()
        }
    }
}

fn event_type(is_warning: bool) -> &'static str {
    if is_warning { "Warning" } else { "Normal" }
}

/// `2026-01-02T03:04:05.000006Z`: apimachinery's `MicroTime` has exactly six digits.
pub(super) fn micro_time(time: Timestamp) -> String {
    format!("{time:.6}")
}

/// A DNS subdomain: the object's name (`event` if that is not one) and 16 hex digits.
pub(super) fn event_name(about: &str, key: &SeriesKey, time: &str) -> String {
    let digest = Sha256::new()
        .chain_update(key)
        .chain_update(time)
        .finalize();
    let digits = hex(&digest[..8]);
    let is_dns = about.bytes().all(|byte| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.')
    });
    let about = prefix(if is_dns { about } else { "event" }, 253 - 17).trim_end_matches(['-', '.']);
    format!("{about}.{digits}")
}

/// The name under which a plugin reports an Event. It is a qualified name, as the API server
/// requires, with a prefix of our own, so that no plugin can pass for the kubelet.
pub(super) fn controller_name(plugin: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = plugin
        .chars()
        .map(|c| if fits(c) { c } else { '-' })
        .collect();
    let name = prefix(&name, 63).trim_matches(['-', '_', '.']);
    Author::prefixed(name)
}
