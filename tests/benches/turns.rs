//! What benchmarks of single reconciles have in common: a hub in this process, with objects in its
//! caches and without a server, and a controller as a component or linked into this process.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use pilothouse_core::{
    ControllerSettings, Decision, Delta, Failure, FollowUp, Hub, Kind, LabelSelector, ListFilter,
    Listing, Manifest, Next, Object, ObjectKey, Outcome, Plugin, Reader, Request, ResourceVersion,
    RunError, SubjectKey,
};
use pilothouse_sdk as sdk;
use pilothouse_tests::{AgainSoon, guest, unwritten};
use pilothouse_wasm::{Engine, LimitPolicy, WasmPlugin};
use serde_json::Value;
use tokio::time::Instant;

pub fn row(what: &str, figure: &str, target: &str) {
    println!("  {what:<58} {figure:>12}   {target}");
}

pub fn load(engine: &Engine, name: &str) -> Result<Arc<WasmPlugin>> {
    let bytes = std::fs::read(guest(name))?;
    let plugin = pilothouse_wasm::load(engine, &bytes, &LimitPolicy::default())?;
    Ok(Arc::new(plugin))
}

/// Returns a hub with one plugin and these objects in its caches.
fn hub(plugin: Arc<dyn Plugin>, config: &str, objects: &[Value]) -> Result<Hub> {
    let mut hub = Hub::default();
    let settings = ControllerSettings {
        config: config.to_owned(),
        ..ControllerSettings::default()
    };
    hub.join(Arc::new(AgainSoon(plugin)), &settings, Duration::ZERO)?;
    for (informer, (informer_key, _)) in hub.wanted() {
        let kind = informer_key.kind;
        let of_kind = objects.iter().filter(|object| object["kind"] == *kind.kind);
        let parsed = of_kind.map(|object| {
            let text = object.to_string();
            Ok(Object::parse(&kind, &text, &hub.schema(informer))?)
        });
        let delta = Delta::Replace(Listing {
            objects: parsed.collect::<Result<_>>()?,
            resource_version: ResourceVersion::new("1"),
            ..Listing::default()
        });
        hub.apply(informer, delta, Duration::ZERO);
    }
    Ok(hub)
}

/// Returns the median time of so many reconciles of the keys that count: take the key, run the
/// guest, plan its actions, register its reads. Nothing is written.
pub fn time_turns(
    plugin: Arc<dyn Plugin>,
    config: &str,
    objects: &[Value],
    reconciles: usize,
    counts: impl Fn(&SubjectKey) -> bool,
) -> Result<Duration> {
    let mut hub = hub(plugin, config, objects)?;
    let mut times = Vec::with_capacity(reconciles);
    for turn in 0.. {
        if times.len() == reconciles {
            break;
        }
        anyhow::ensure!(turn < 100 * reconciles, "the keys that count do not run");
        // Keys run again after a second. Not all are due at once, so that each has its turn.
        let now = Duration::from_millis(40) * u32::try_from(turn)?;
        let started = Instant::now();
        let Next::Run(reconcile) = hub.next(now, 0) else {
            continue;
        };
        let is_counted = counts(&reconcile.held().request.key);
        match hub.ran(reconcile.run(), now) {
            Decision::Writing(writing) => {
                if is_counted {
                    times.push(started.elapsed());
                }
                hub.finished(unwritten(writing), now);
            }
            Decision::Finished(failed) => anyhow::bail!("{:?}", failed.error()),
            Decision::Confirming(_) => anyhow::bail!("nothing is to be confirmed"),
            Decision::Fetching(_) => anyhow::bail!("nothing is to be fetched"),
        }
    }
    times.sort();
    Ok(times[times.len() / 2])
}

/// A controller, linked into this process. The host calls it as it calls a component: the same
/// reader, the same outcome.
pub struct Native<C> {
    manifest: Manifest,
    controller: PhantomData<fn() -> C>,
}

impl<C: sdk::Controller> Native<C> {
    /// The same controller as this component.
    pub fn like(component: &WasmPlugin) -> Arc<Self> {
        Arc::new(Self {
            manifest: component.manifest().clone(),
            controller: PhantomData,
        })
    }
}

impl<C: sdk::Controller + 'static> Plugin for Native<C> {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn reconcile(&self, request: &Request, reader: &mut Reader) -> Result<Outcome, RunError> {
        let key = &request.key;
        let kind = key.kind.as_ref().expect("the shipped plugins have keys");
        let key = &key.object;
        let key = sdk::ObjectRef::new(&kind.to_string(), &key.namespace, &key.name);
        let host = ReaderHost(RefCell::new(reader));
        let object = sdk::Host::get_json(&host, &key);
        let request = sdk::Request {
            object: object.map_err(|error| Failure::Terminal(format!("{error:?}")))?,
            key: Some(key),
            attempt: request.attempt,
            previous: Vec::new(),
            memo: None,
            config: request.config.clone(),
        };
        let outcome = C::reconcile(&request, &host).map_err(Failure::from)?;
        Ok(Outcome {
            stages: outcome.stages.into_iter().map(Into::into).collect(),
            confirm: Vec::new(),
            // `AgainSoon` says when it runs again.
            follow_up: FollowUp::default(),
        })
    }
}

/// The SDK's `Host`, served by the host's reader.
struct ReaderHost<'a>(RefCell<&'a mut Reader>);

fn kind(kind: &str) -> Kind {
    kind.parse().expect("the plugins' kinds are kinds")
}

fn filter(filter: &sdk::Filter) -> ListFilter {
    match filter {
        sdk::Filter::Everything => ListFilter::Everything,
        sdk::Filter::Labels(selector) => {
            let selector = LabelSelector::parse(selector);
            ListFilter::Labels(selector.expect("the benchmark's selectors are selectors"))
        }
        sdk::Filter::Index(index) => ListFilter::Index(index.name.clone(), index.value.clone()),
    }
}

impl sdk::Host for ReaderHost<'_> {
    fn get_json(&self, object: &sdk::ObjectRef) -> Result<Option<String>, sdk::ReadError> {
        let key = ObjectKey::new(&object.namespace, &object.name);
        let mut reader = self.0.borrow_mut();
        let found = reader
            .get(&kind(&object.kind), &key)
            .map_err(|error| sdk::ReadError::Denied(error.to_string()))?;
        Ok(found.map(str::to_owned))
    }

    fn list_json(&self, query: &sdk::Query) -> Result<String, sdk::ReadError> {
        let filter = filter(&query.filter);
        let mut reader = self.0.borrow_mut();
        reader
            .list(&kind(&query.kind), query.namespace.as_deref(), &filter)
            .map_err(|error| sdk::ReadError::Denied(error.to_string()))
    }

    fn list_page_json(
        &self,
        query: &sdk::Query,
        after: Option<&sdk::ObjectRef>,
        limit: u32,
    ) -> Result<String, sdk::ReadError> {
        let filter = filter(&query.filter);
        let of = kind(&query.kind);
        let after = after.map(|after| ObjectKey::new(&after.namespace, &after.name));
        let after = after.as_ref().map(|key| (&of, key.parts()));
        let mut reader = self.0.borrow_mut();
        let namespace = query.namespace.as_deref();
        reader
            .list_page(&of, namespace, &filter, after, limit)
            .map_err(|error| sdk::ReadError::Denied(error.to_string()))
    }

    fn served_kinds(&self, _: &str) -> Result<Vec<sdk::ServedKind>, sdk::ReadError> {
        unreachable!("no shipped plugin asks for kinds")
    }

    fn now(&self) -> Duration {
        Duration::from_millis(self.0.borrow_mut().now_ms())
    }

    fn log(&self, _: sdk::Level, _: &str, _: &[(&str, &str)]) {}
}
