//! The controller under test, as the host sees a plugin: it reads through the host's own reader.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pilothouse_core as host;

use super::convert;
use crate::{Failure, Host, Level, ObjectRef, Outcome, Query, ReadError, Request, ServedKind};

/// [`Controller::reconcile`](crate::Controller::reconcile) of the controller under test.
pub(super) type Reconcile = fn(&Request, &dyn Host) -> Result<Outcome, Failure>;

/// The plugin that has joined the hub.
pub(super) struct Guest {
    manifest: host::Manifest,
    /// What the hub runs. `None` while it is to run nothing.
    controller: Mutex<Option<Reconcile>>,
    forgets_memos: AtomicBool,
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
    pub fn new(manifest: host::Manifest) -> Self {
        Self {
            manifest,
            controller: Mutex::default(),
            forgets_memos: AtomicBool::default(),
            lines: Lines::default(),
        }
    }

    /// The key of this namespace and name.
    ///
    /// # Panics
    ///
    /// The plugin reconciles several kinds.
    pub fn only_key(&self, namespace: &str, name: &str) -> host::SubjectKey {
        let kinds = &self.manifest.reconciles;
        assert!(
            kinds.len() < 2 && !kinds.iter().any(|only| only.kind.is_pattern()),
            "the plugin reconciles several kinds, so use the functions that take the kind of the \
             key: reconcile_key, turn_key, apply_key"
        );
        host::SubjectKey {
            kind: kinds.first().map(|only| Arc::new(only.kind.clone())),
            object: host::ObjectKey::new(namespace, name),
        }
    }

    pub fn is_optional(&self, kind: &host::Kind) -> bool {
        self.manifest.optional.contains(kind)
    }

    /// The key of an object.
    ///
    /// # Panics
    ///
    /// The plugin does not reconcile the kind.
    pub fn key_of(&self, object: &ObjectRef) -> host::SubjectKey {
        let (kind, key) = convert::object_ref(object);
        let mut kinds = self.manifest.reconciles.iter().map(|it| &it.kind);
        assert!(
            kinds.any(|named| *named == kind || named.includes(&kind)),
            "the manifest's `reconciles` does not name {kind}"
        );
        host::SubjectKey::of(&Arc::new(kind), key)
    }

    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    /// Sets what the hub runs from now on.
    pub fn set(&self, controller: Option<Reconcile>) {
        *lock(&self.controller) = controller;
    }

    /// From now on no run is given a memo.
    pub fn forget_memos(&self) {
        self.forgets_memos.store(true, Ordering::Relaxed);
    }

    pub fn forgets_memos(&self) -> bool {
        self.forgets_memos.load(Ordering::Relaxed)
    }

    /// The request for a run, with the key's own object, which counts as read.
    pub fn request(
        &self,
        request: &host::Request,
        reader: &mut host::Reader,
    ) -> Result<Request, Failure> {
        let key = &request.key;
        let object = key.kind.as_ref().map(|kind| reader.get(kind, &key.object));
        let object = object.transpose();
        let object = object.map_err(|error| convert::read_error(&error))?;
        let object = object.flatten().map(str::to_owned);
        let memo = request.memo.as_deref();
        let memo = memo.filter(|_| !self.forgets_memos());
        Ok(convert::request(request, object, memo))
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
        let request = self.request(request, reader);
        let outcome = request.and_then(|request| self.run(controller, &request, reader));
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

impl Host for Reading<'_> {
    fn get_json(&self, object: &ObjectRef) -> Result<Option<String>, ReadError> {
        let mut reader = self.reader.borrow_mut();
        let (kind, key) = convert::object_ref(object);
        let found = reader.get(&kind, &key);
        let found = found.map(|json| json.map(str::to_owned));
        found.map_err(|error| convert::read_error(&error))
    }

    fn list_json(&self, query: &Query) -> Result<String, ReadError> {
        let mut reader = self.reader.borrow_mut();
        let (kind, filter) = (convert::kind(&query.kind), convert::filter(&query.filter));
        let found = reader.list(&kind, query.namespace.as_deref(), &filter);
        found.map_err(|error| convert::read_error(&error))
    }

    fn list_page_json(
        &self,
        query: &Query,
        after: Option<&ObjectRef>,
        limit: u32,
    ) -> Result<String, ReadError> {
        let mut reader = self.reader.borrow_mut();
        let (kind, filter) = (convert::kind(&query.kind), convert::filter(&query.filter));
        let after = after.map(convert::object_ref);
        let after = after.as_ref().map(|(kind, key)| (kind, key.parts()));
        let found = reader.list_page(&kind, query.namespace.as_deref(), &filter, after, limit);
        found.map_err(|error| convert::read_error(&error))
    }

    fn served_kinds(&self, pattern: &str) -> Result<Vec<ServedKind>, ReadError> {
        let mut reader = self.reader.borrow_mut();
        let known = reader.kinds(&convert::kind(pattern));
        let known = known.map_err(|error| convert::read_error(&error))?;
        Ok(known.into_iter().map(convert::served_kind).collect())
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
