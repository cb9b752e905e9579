//! Events about objects, as `events.k8s.io/v1`.
//!
//! An Event that repeats an earlier one within six minutes does not become another object: the
//! `series` of the first one is patched, as client-go's broadcaster for this API does
//! (`tools/events/event_broadcaster.go`). Three differences:
//! - Repeats must have the same note. In client-go, a later note with another text is lost.
//! - Each repeat is sent. client-go counts repeats in memory and sends them when the series ends,
//!   from a background task, and loses them with the process. Here a controller repeats an Event
//!   when it retries, and retries back off.
//! - The name ends in a hash of the Event's content and time, not of the time alone, so that a
//!   coarse clock never gives two Events one name.

mod spam;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use pilothouse_core::{ActionResult, FIELD_MANAGER_PREFIX, HOST, Kind, ObjectKey};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::ApiCluster;
use crate::client::{CanRepeat, RequestError};
use crate::discovery::path;
use crate::write::{answer, build};
use spam::SpamFilter;

/// A series ends after this long without a repeat (client-go's `finishTime`).
const SERIES_TIMEOUT: Duration = Duration::from_secs(6 * 60);

/// Series remembered at once. Beyond this number, the one repeated longest ago is forgotten.
const MAX_SERIES: usize = 4096;

/// Limits of the API server's validation, in bytes.
const MAX_NOTE: usize = 1024;
const MAX_WORD: usize = 128;

/// The reason given for a dropped Event.
const TOO_MANY: &str = "dropped: a plugin may write 25 Events about one object and then one each five minutes, and 100 in all and then ten a second";

/// The content of an Event. Events with equal content belong to one series.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventBody<'a> {
    pub(crate) manager: &'a str,
    pub(crate) kind: &'a Kind,
    pub(crate) key: &'a ObjectKey,
    pub(crate) uid: Option<&'a str>,
    pub(crate) is_warning: bool,
    pub(crate) reason: &'a str,
    pub(crate) action: &'a str,
    pub(crate) note: &'a str,
}

/// SHA-256 over the content of an Event.
type SeriesKey = [u8; 32];

/// An Event that was written, and how often.
#[derive(Clone, Debug)]
struct Series {
    name: String,
    count: u32,
    last: Instant,
}

/// The series that may still get repeats, and the limit on Events.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    series: Mutex<HashMap<SeriesKey, Series>>,
    spam: Mutex<SpamFilter>,
}

impl Recorder {
    /// Returns whether the limits allow this Event. If so, it is counted.
    fn takes(&self, event: &EventBody<'_>, now: Instant) -> bool {
        let mut spam = self.spam.lock().unwrap_or_else(PoisonError::into_inner);
        spam.takes(event.manager, event.kind, event.key, now)
    }

    /// Counts a repeat and returns its series, if there is a current one. As in client-go, a repeat
    /// that then cannot be written is counted too: the next one that can be tells of both.
    fn repeat(&self, key: &SeriesKey, now: Instant) -> Option<Series> {
        let mut all = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        let series = all
            .get_mut(key)
            .filter(|series| now.duration_since(series.last) < SERIES_TIMEOUT)?;
        series.count = series.count.saturating_add(1);
        series.last = now;
        Some(series.clone())
    }

    /// Begins the series of an Event that was there already, unless the write that has put it there
    /// has begun it.
    fn join(&self, key: SeriesKey, name: String, now: Instant) {
        let all = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        let has_begun = all.get(&key).is_some_and(|series| series.name == name);
        drop(all);
        if !has_begun {
            self.begin(key, name, now);
        }
    }

    fn begin(&self, key: SeriesKey, name: String, now: Instant) {
        let mut all = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MAX_SERIES {
            all.retain(|_, series| now.duration_since(series.last) < SERIES_TIMEOUT);
        }
        if all.len() >= MAX_SERIES
            && let Some(oldest) = all
                .iter()
                .min_by_key(|(_, series)| series.last)
                .map(|(key, _)| *key)
        {
            all.remove(&oldest);
        }
        all.insert(
            key,
            Series {
                name,
                count: 1,
                last: now,
            },
        );
    }
}

impl EventBody<'_> {
    fn series_key(&self) -> SeriesKey {
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
    fn namespace(&self) -> &str {
        if self.key.namespace.is_empty() {
            "default"
        } else {
            &self.key.namespace
        }
    }

    fn body(&self, name: &str, instance: &str, time: &str) -> Value {
        let mut regarding = json!({"apiVersion": self.kind.api_version(), "kind": &*self.kind.kind, "name": &*self.key.name});
        for (field, value) in [
            ("namespace", &*self.key.namespace),
            ("uid", self.uid.unwrap_or_default()),
        ] {
            if !value.is_empty() {
                regarding[field] = value.into();
            }
        }
        json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": self.namespace()},
            "eventTime": time,
            "reportingController": controller_name(self.manager),
            "reportingInstance": cut(instance, MAX_WORD),
            "type": event_type(self.is_warning),
            "reason": cut(self.reason, MAX_WORD),
            "action": cut(self.action, MAX_WORD),
            "note": cut(self.note, MAX_NOTE),
            "regarding": regarding,
        })
    }
}

impl ApiCluster {
    pub(crate) async fn event(&self, event: EventBody<'_>) -> ActionResult {
        for (what, value) in [("name", &*event.key.name), ("namespace", event.namespace())] {
            if let Err(error) = path::check(what, value) {
                return ActionResult::Invalid(error.to_string());
            }
        }
        // The host's own Events are exempt: they are about all plugins, and few.
        if event.manager != HOST && !self.events.takes(&event, Instant::now()) {
            return ActionResult::Failed(TOO_MANY.to_owned());
        }
        let key = event.series_key();
        if let Some(series) = self.events.repeat(&key, Instant::now()) {
            match self.patch_series(&event, &series).await {
                // The Event was removed after its time to live (an hour by default): write a new
                // one.
                Err(RequestError::Status(status)) if status.code == 404 => {}
                answer => return answer::result(false, answer),
            }
        }
        let time = micro_time((self.now)());
        let name = event_name(&event.key.name, &key, &time);
        let body = event.body(&name, &self.instance, &time).to_string();
        let answer = self
            .send_event(Method::POST, &event, None, "application/json", body)
            .await;
        let result = answer::result(false, answer);
        match result {
            ActionResult::Done(_) => self.events.begin(key, name, Instant::now()),
            // An Event with the same content was written in the same microsecond.
            ActionResult::AlreadyExists(_) => {
                self.events.join(key, name, Instant::now());
                return ActionResult::Done(None);
            }
            _ => {}
        }
        result
    }

    async fn patch_series(
        &self,
        event: &EventBody<'_>,
        series: &Series,
    ) -> Result<Vec<u8>, RequestError> {
        let body = json!({"series": {"count": series.count, "lastObservedTime": micro_time((self.now)())}}).to_string();
        self.send_event(
            Method::PATCH,
            event,
            Some(&series.name),
            "application/merge-patch+json",
            body,
        )
        .await
    }

    async fn send_event(
        &self,
        method: Method,
        event: &EventBody<'_>,
        name: Option<&str>,
        content_type: &str,
        body: String,
    ) -> Result<Vec<u8>, RequestError> {
        let mut uri = path::collection(
            &Kind::new("events.k8s.io", "v1", "Event"),
            "events",
            Some(event.namespace()),
        );
        if let Some(name) = name {
            uri = uri + "/" + name;
        }
        uri += &path::query(&[("fieldManager", controller_name(event.manager))]);
        let request = build(method, uri, content_type, body.into_bytes());
        let request =
            request.map_err(|error| RequestError::Transport(kube::Error::HttpError(error)))?;
        self.send(event.manager, &request, CanRepeat::IfRefused)
            .await
    }
}

fn event_type(is_warning: bool) -> &'static str {
    if is_warning { "Warning" } else { "Normal" }
}

/// `2026-01-02T03:04:05.000006Z`: apimachinery's `MicroTime` has exactly six digits.
fn micro_time(time: Timestamp) -> String {
    format!("{time:.6}")
}

/// A DNS subdomain: the object's name (`event` if that is not one) and 16 hex digits.
fn event_name(about: &str, key: &SeriesKey, time: &str) -> String {
    let digest = Sha256::new()
        .chain_update(key)
        .chain_update(time)
        .finalize();
    let digits: String = digest[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let is_dns = about.bytes().all(|byte| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.')
    });
    let about = cut(if is_dns { about } else { "event" }, 253 - 17).trim_end_matches(['-', '.']);
    format!("{about}.{digits}")
}

/// The name under which a plugin reports an Event. It is a qualified name, as the API server
/// requires, with a prefix of our own, so that no plugin can pass for the kubelet.
fn controller_name(plugin: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = plugin
        .chars()
        .map(|c| if fits(c) { c } else { '-' })
        .collect();
    let name = cut(&name, 63).trim_matches(['-', '_', '.']);
    format!("{FIELD_MANAGER_PREFIX}{name}")
}

/// The longest prefix of at most `limit` bytes that ends at a character boundary.
fn cut(text: &str, limit: usize) -> &str {
    let end = (0..=limit.min(text.len()))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or_default()]
}

#[cfg(test)]
mod tests;
