//! The plugin's side of the contract: the world's exports and imports. Exists only in wasm.

use std::marker::PhantomData;
use std::time::Duration;

use crate::bindings::Guest;
use crate::bindings::pilothouse::controller::{clock, cluster, log};
use crate::{
    Cluster, Controller, Failure, Filter, Kind, Level, Manifest, ObjectKey, Outcome, ReadError,
    Request,
};

/// Exports a controller to the host. [`register!`](crate::register) uses it.
pub struct Exported<C>(PhantomData<C>);

impl<C: Controller> Guest for Exported<C> {
    fn describe() -> Manifest {
        log_panics();
        C::manifest()
    }

    fn reconcile(request: Request) -> Result<Outcome, Failure> {
        log_panics();
        #[cfg(feature = "log")]
        FACADE.install();
        C::reconcile(&request, &Host)
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

/// The host's imports as a [`Cluster`].
struct Host;

impl Cluster for Host {
    fn get_json(&self, kind: &Kind, key: &ObjectKey) -> Result<Option<String>, ReadError> {
        cluster::get(kind, key)
    }

    fn get_part_json(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        pointer: &str,
    ) -> Result<Option<String>, ReadError> {
        cluster::get_part(kind, key, pointer)
    }

    fn list_json(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        filter: &Filter,
    ) -> Result<String, ReadError> {
        cluster::list(kind, namespace, filter)
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
