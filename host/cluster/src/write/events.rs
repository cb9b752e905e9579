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

mod body;
mod series;
mod spam;

use http::Method;
use jiff::Timestamp;
use k8s_openapi::api::events::v1::EventSeries;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use parking_lot::{Mutex, MutexGuard};
use pilothouse_core::{ActionResult, HOST, Kind};
use serde_json::json;
use tokio::time::Instant;

use super::answer;
use super::request::{build, terms};
use crate::client::{CanRepeat, Client, RequestError};
use crate::discovery::path;
pub(crate) use body::EventBody;
use body::{controller_name, event_name, micro_time};
use series::{Series, SeriesMemory};
use spam::SpamFilter;

/// The reason given for a dropped Event.
const TOO_MANY: &str = "dropped: a plugin may write 25 Events about one object and then one each five minutes, and 100 in all and then ten a second";

/// Writes Events.
pub(crate) struct EventWriter {
    client: Client,
    /// Name of this process in the Events it writes.
    instance: String,
    /// The clock that dates Events.
    now: fn() -> Timestamp,
    series: Mutex<SeriesMemory>,
    spam: Mutex<SpamFilter>,
}

impl EventWriter {
    pub(crate) fn new(client: Client, instance: &str, now: fn() -> Timestamp) -> Self {
        Self {
            client,
            instance: instance.to_owned(),
            now,
            series: Mutex::default(),
            spam: Mutex::default(),
        }
    }

    fn series(&self) -> MutexGuard<'_, SeriesMemory> {
        self.series.lock()
    }

    /// Returns whether the limits allow this Event. If so, it is counted.
    fn takes(&self, event: &EventBody<'_>, now: Instant) -> bool {
        let mut spam = self.spam.lock();
        spam.takes(event.manager, event.kind, event.key, now)
    }

    /// Writes an Event, or repeats the series that it belongs to.
    pub(crate) async fn write(&self, event: EventBody<'_>) -> ActionResult {
        for (what, value) in [("name", &*event.key.name), ("namespace", event.namespace())] {
            if let Err(error) = path::check(what, value) {
                return ActionResult::Invalid(error.to_string());
            }
        }
        // The host's own Events are exempt: they are about all plugins, and few.
        if event.manager != HOST && !self.takes(&event, Instant::now()) {
            return ActionResult::Failed(TOO_MANY.to_owned());
        }
        let key = event.series_key();
        let repeated = self.series().repeat(&key, Instant::now());
        if let Some(series) = repeated {
            match self.patch_series(&event, &series).await {
                // The Event was removed after its time to live (an hour by default): write a new
                // one.
                Err(RequestError::Status(status)) if status.code == 404 => {}
                answer => return answer::result(false, answer),
            }
        }
        let now = (self.now)();
        let name = event_name(&event.key.name, &key, &micro_time(now));
        let body = json!(event.object(&name, &self.instance, now)).to_string();
        let answer = self
            .send_event(Method::POST, &event, None, "application/json", body)
            .await;
        let result = answer::result(false, answer);
        match result {
            ActionResult::Done(_) => self.series().begin(key, name, Instant::now()),
            // An Event with the same content was written in the same microsecond.
            ActionResult::AlreadyExists(_) => {
                self.series().join(key, name, Instant::now());
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
        let series_now = EventSeries {
            count: i32::try_from(series.count).unwrap_or(i32::MAX),
            last_observed_time: MicroTime((self.now)()),
        };
        let body = json!({ "series": series_now }).to_string();
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
        let terms = terms(event.manager, CanRepeat::IfRefused);
        self.client.fetch(&request, terms).await
    }
}

#[cfg(test)]
mod tests;
