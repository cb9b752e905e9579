//! The plugin's side of the contract: the world's exports and imports. Exists only in wasm.

use std::marker::PhantomData;
use std::time::Duration;

use crate::bindings::exports::pilothouse::controller::plugin::Guest;
use crate::bindings::pilothouse::controller::{clock, log, snapshot};
use crate::{
    Controller, Failure, Host, Level, ObjectRef, Outcome, Query, ReadError, Request, ServedKind,
};

/// Exports a controller to the host. [`register!`](crate::register) uses it.
pub struct Exported<C>(PhantomData<C>);

impl<C: Controller> Guest for Exported<C> {
    fn describe() -> String {
        log_panics();
        C::manifest().to_json()
    }

    fn reconcile(request: Request) -> Result<Outcome, Failure> {
        log_panics();
        #[cfg(feature = "log")]
        FACADE.install();
        C::reconcile(&request, &Imports)
    }
}

#[cfg(feature = "log")]
static FACADE: crate::facade::Facade = crate::facade::Facade::new(log::log);

/// Logs the message of a panic before it becomes a trap. The host sees of a trap only where it
/// happened, and begins its error with the text in the field `panic`.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        log::log(
            Level::Error,
            "plugin panicked",
            &[("panic".to_owned(), panic.to_string())],
        );
    }));
}

/// The plugin's imports as a [`Host`].
struct Imports;

impl Host for Imports {
    fn get_json(&self, object: &ObjectRef) -> Result<Option<String>, ReadError> {
        snapshot::get(object)
    }

    fn list_json(&self, query: &Query) -> Result<String, ReadError> {
        snapshot::list(query)
    }

    fn list_page_json(
        &self,
        query: &Query,
        after: Option<&ObjectRef>,
        limit: u32,
    ) -> Result<String, ReadError> {
        snapshot::list_page(query, after, limit)
    }

    fn served_kinds(&self, pattern: &str) -> Result<Vec<ServedKind>, ReadError> {
        snapshot::kinds(pattern)
    }

    fn now(&self) -> Duration {
        Duration::from_millis(clock::now())
    }

    fn log(&self, level: Level, message: &str, fields: &[(&str, &str)]) {
        let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        let fields: Vec<_> = fields.iter().map(owned).collect();
        log::log(level, message, &fields);
    }
}
