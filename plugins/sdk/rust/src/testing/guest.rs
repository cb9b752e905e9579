//! The controller under test, as the host sees a plugin: it reads through the host's own reader.

use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pilothouse_core as host;

use super::convert;
use crate::{
    Cluster, Failure, Filter, Kind, Level, Manifest, ObjectKey, Outcome, ReadError, Request,
};

/// [`Controller::reconcile`](crate::Controller::reconcile) of the controller under test.
pub(super) type Reconcile = fn(&Request, &dyn Cluster) -> Result<Outcome, Failure>;

/// The plugin that has joined the hub.
pub(super) struct Guest {
    manifest: host::Manifest,
    /// What the hub runs. `None` while it is to run nothing.
    controller: Mutex<Option<Reconcile>>,
    lines: Lines,
}

/// The lines that the controller has logged.
#[derive(Default)]
pub(super) struct Lines(Mutex<Vec<String>>);

impl Lines {
    pub fn all(&self) -> Vec<String> {
        lock(&self.0).clone()
    }

    /// `INFO message name=value`.
    pub fn add(&self, level: Level, message: &str, fields: &[(&str, &str)]) {
        let level = match level {
            Level::Debug => "DEBUG",
            Level::Info => "INFO",
            Level::Warn => "WARN",
            Level::Error => "ERROR",
        };
        let fields = fields
            .iter()
            .map(|(name, value)| format!(" {name}={value}"));
        let fields: String = fields.collect();
        lock(&self.0).push(format!("{level} {message}{fields}"));
    }
}

impl Guest {
    pub fn new(manifest: Manifest) -> Self {
        Self {
            manifest: convert::manifest(manifest),
            controller: Mutex::default(),
            lines: Lines::default(),
        }
    }

    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    /// Sets what the hub runs from now on.
    pub fn set(&self, controller: Option<Reconcile>) {
        *lock(&self.controller) = controller;
    }

    /// Runs a controller. A read that was denied fails the reconcile, even if the controller went
    /// on without an answer: the operator grants a test all that the manifest asks for.
    ///
    /// # Panics
    ///
    /// The controller decides otherwise when it is asked again, or reads something else. The host
    /// would stop it.
    pub fn run(
        &self,
        controller: Reconcile,
        request: &Request,
        reader: &mut host::Reader,
    ) -> Result<Outcome, Failure> {
        let mut again = reader.clone();
        let outcome = controller(request, &Reading::new(reader, &self.lines));
        // The lines of the second run say nothing new.
        let repeated = controller(request, &Reading::new(&mut again, &Lines::default()));
        assert!(
            outcome == repeated,
            "the controller is not pure: run twice on the same request and snapshot, it returned\n\
             {outcome:?}\nand then\n{repeated:?}"
        );
        let (reads, repeated) = (reader.clone().into_reads(), again.into_reads());
        assert!(
            reads == repeated,
            "the controller is not pure: run twice on the same request and snapshot, it read\n\
             {reads:?}\nand then\n{repeated:?}"
        );
        match reader.take_denied() {
            Some(denied) if outcome.is_ok() => Err(convert::read_error(&denied).into()),
            _ => outcome,
        }
    }
}

impl host::Plugin for Guest {
    fn manifest(&self) -> &host::Manifest {
        &self.manifest
    }

    fn reconcile(
        &self,
        request: &host::Request,
        reader: &mut host::Reader,
    ) -> Result<host::Outcome, host::RunError> {
        let controller = *lock(&self.controller);
        let controller = controller.expect("the hub runs nothing until a controller is set");
        let outcome = self.run(controller, &request.into(), reader);
        let outcome = outcome.map_err(host::Failure::from)?;
        Ok(convert::outcome(&outcome))
    }
}

/// One reconcile's reads.
pub(super) struct Reading<'a> {
    reader: RefCell<&'a mut host::Reader>,
    lines: &'a Lines,
}

impl<'a> Reading<'a> {
    pub fn new(reader: &'a mut host::Reader, lines: &'a Lines) -> Self {
        Self {
            reader: RefCell::new(reader),
            lines,
        }
    }
}

impl Cluster for Reading<'_> {
    fn get_json(&self, kind: &Kind, key: &ObjectKey) -> Result<Option<String>, ReadError> {
        let mut reader = self.reader.borrow_mut();
        let found = reader.get(&convert::kind(kind), &convert::key(key));
        let found = found.map(|json| json.map(str::to_owned));
        found.map_err(|error| convert::read_error(&error))
    }

    fn get_part_json(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        pointer: &str,
    ) -> Result<Option<String>, ReadError> {
        let mut reader = self.reader.borrow_mut();
        let found = reader.get_part(&convert::kind(kind), &convert::key(key), pointer);
        found.map_err(|error| convert::read_error(&error))
    }

    fn list_json(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        filter: &Filter,
    ) -> Result<String, ReadError> {
        let mut reader = self.reader.borrow_mut();
        let found = reader.list(&convert::kind(kind), namespace, &convert::filter(filter));
        found.map_err(|error| convert::read_error(&error))
    }

    fn now(&self) -> Duration {
        Duration::from_millis(self.reader.borrow_mut().now_ms())
    }

    fn log(&self, level: Level, message: &str, fields: &[(&str, &str)]) {
        self.lines.add(level, message, fields);
    }
}

/// What a test has panicked over is still there for its other threads.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
