//! The plugin's side of the boundary: exists only in wasm.

use std::marker::PhantomData;
use std::time::Duration;

use crate::bindings::Guest;
use crate::bindings::pilothouse::controller::{clock, cluster, log};
use crate::{
    Cluster, Controller, Failure, Filter, Kind, Level, Manifest, ObjectKey, Outcome, ReadError,
    Request,
};

/// A controller as the world's exports. Made by [`register!`](crate::register).
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

/// A panic is a trap, of which the host sees only where it happened. What was said goes to the log before, in the field that the host
/// leads the error with.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        log::log(
            Level::Error,
            "plugin panicked",
            &[("panic".to_owned(), panic.to_string())],
        );
    }));
}

/// The host's imports.
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
