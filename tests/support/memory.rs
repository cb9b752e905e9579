//! Runs a plugin without a host and a server: one reconcile on objects in memory, through the hub
//! that the host uses.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use pilothouse_core::{
    ActionResult, ControllerSettings, Delta, Exchange, Finished, FollowUp, Granted, Grants, Hub,
    Kind, KindName, Listing, Manifest, Next, NextRun, Object, ObjectKey, Outcome, Plugin, PluginId,
    ReadGrant, Reader, Rehearsal, Request, ResourceVersion, RunError, ServedKind, SubjectKey,
    WriteGrant, Writing,
};
use serde_json::Value;

/// Runs the plugin, which reconciles one kind, for one key of a cluster with these objects. Returns
/// false if the hub does not run this key, because it is no key of the plugin. The error is that of
/// the reconcile.
pub fn run_in_memory(plugin: Arc<dyn Plugin>, objects: &[Value], key: &ObjectKey) -> Result<bool> {
    let (mut hub, _) = hub_with(plugin, objects, &[])?;
    while let Next::Run(reconcile) = hub.next(Duration::ZERO, 0) {
        if reconcile.held().request.key.object == *key {
            let ran = reconcile.run();
            let plan = ran.plan().map(|_| true);
            return plan.map_err(|error| anyhow::anyhow!("{error}"));
        }
    }
    Ok(false)
}

/// A reconcile of any key by the plugin, at this time since the Unix epoch, in a cluster with these
/// objects.
pub fn rehearse(
    plugin: Arc<dyn Plugin>,
    objects: &[Value],
    key: &SubjectKey,
    now: Duration,
) -> Result<Rehearsal> {
    rehearse_serving(plugin, objects, &[], key, now)
}

/// As [`rehearse`], in a cluster that serves these kinds as they say, and all others with every
/// verb.
pub fn rehearse_serving(
    plugin: Arc<dyn Plugin>,
    objects: &[Value],
    kinds: &[ServedKind],
    key: &SubjectKey,
    now: Duration,
) -> Result<Rehearsal> {
    let (hub, plugin) = hub_with(plugin, objects, kinds)?;
    let rehearsal = hub.rehearse(plugin, key, u64::try_from(now.as_millis())?);
    rehearsal.context("the plugin has joined")
}

/// A hub with this plugin, that has listed these objects.
fn hub_with(
    plugin: Arc<dyn Plugin>,
    objects: &[Value],
    kinds: &[ServedKind],
) -> Result<(Hub, PluginId)> {
    let mut hub = Hub::default();
    // Reconciles of other keys are taken from the hub and never ended, so they must not use up the
    // concurrency.
    let settings = ControllerSettings {
        concurrency: u32::MAX,
        grants: everything(plugin.manifest()),
        secret_values: true,
        ..ControllerSettings::default()
    };
    let plugin = hub.join(plugin, &settings, Duration::ZERO)?;
    serve_kinds(&mut hub, plugin, objects, kinds);
    for (informer, (source, _)) in hub.wanted() {
        let schema = hub.schema(informer);
        let mut listed = Vec::new();
        for object in objects {
            if kind_of(object) == source.kind {
                let text = object.to_string();
                let parsed = Object::parse(&source.kind, &text, &schema)?;
                if source.selects(&parsed, &text) {
                    listed.push(parsed);
                }
            }
        }
        let delta = Delta::Replace(Listing {
            objects: listed,
            resource_version: ResourceVersion::new("1"),
            ..Listing::default()
        });
        hub.apply(informer, delta, Duration::ZERO);
    }
    Ok((hub, plugin))
}

/// Grants all that a manifest asks for, patterns included.
fn everything(manifest: &Manifest) -> Grants {
    let reads = manifest.reads.iter().map(|read| ReadGrant {
        kind: KindName::of(&read.kind),
        namespaces: BTreeSet::new(),
    });
    let writes = manifest.writes.iter().map(|write| WriteGrant {
        kind: KindName::of(&write.kind),
        subresource: write.subresource.clone(),
        verbs: write.verbs.iter().copied().collect(),
        namespaces: BTreeSet::new(),
        names: BTreeSet::new(),
        force: true,
    });
    Grants {
        what: Granted::Listed {
            reads: reads.collect(),
            writes: writes.collect(),
            events: true,
        },
        ..Grants::default()
    }
}

/// The kind that a CustomResourceDefinition defines. `None` for any other object.
fn defined(object: &Value, verbs: &str) -> Option<ServedKind> {
    if object["kind"] != "CustomResourceDefinition" {
        return None;
    }
    let spec = &object["spec"];
    let versions = spec["versions"].as_array()?.iter();
    let served: Vec<&Value> = versions.filter(|it| it["served"] == true).collect();
    let name = |version: &Value| version["name"].as_str().map(str::to_owned);
    let preferred = served.first()?;
    let parts = preferred["subresources"].as_object().into_iter().flatten();
    Some(ServedKind {
        kind: Kind::new(
            spec["group"].as_str()?,
            &name(preferred)?,
            spec["names"]["kind"].as_str()?,
        ),
        versions: served.iter().filter_map(|version| name(version)).collect(),
        resource: spec["names"]["plural"].as_str()?.to_owned(),
        is_namespaced: spec["scope"] == "Namespaced",
        verbs: verbs.split(' ').map(str::to_owned).collect(),
        subresources: parts.map(|(name, _)| name.clone()).collect(),
    })
}

/// Has a plugin with patterns watch the kinds of these objects, which are served with every verb,
/// but for those of `others`.
fn serve_kinds(hub: &mut Hub, plugin: PluginId, objects: &[Value], others: &[ServedKind]) {
    if !hub.wants_kinds() {
        return;
    }
    let mut served: BTreeMap<Kind, bool> = BTreeMap::new();
    for object in objects {
        let is_namespaced = object["metadata"]["namespace"].is_string();
        *served.entry(kind_of(object)).or_default() |= is_namespaced;
    }
    let verbs = "create delete deletecollection get list patch update watch";
    let kinds = served.iter().map(|(kind, is_namespaced)| ServedKind {
        kind: kind.clone(),
        versions: vec![kind.version.to_string()],
        resource: format!("{}s", kind.kind.to_lowercase()),
        is_namespaced: *is_namespaced,
        verbs: verbs.split(' ').map(str::to_owned).collect(),
        subresources: vec!["status".to_owned()],
    });
    let mut kinds: BTreeMap<Kind, ServedKind> =
        kinds.map(|served| (served.kind.clone(), served)).collect();
    let defined = objects.iter().filter_map(|object| defined(object, verbs));
    kinds.extend(defined.map(|served| (served.kind.clone(), served)));
    let others = others.iter().cloned();
    kinds.extend(others.map(|served| (served.kind.clone(), served)));
    let watchable = kinds.values().filter(|served| served.is_watchable());
    let known = watchable.map(|served| served.kind.clone()).collect();
    drop(hub.set_kinds(kinds.into_values().collect(), Duration::ZERO));
    hub.ask_for(plugin, &known);
    while let Some(mut widening) = hub.prepare_widening(usize::MAX, Duration::ZERO) {
        loop {
            widening.build(Duration::ZERO);
            match hub.exchange(widening, Duration::ZERO) {
                Exchange::Again(again) => widening = *again,
                Exchange::Done(_) | Exchange::Refused(..) => break,
            }
        }
    }
}

/// Runs each key of a plugin again a second after it has succeeded, on the same request: it is not
/// told what became of its last outcome.
pub struct AgainSoon(pub Arc<dyn Plugin>);

impl Plugin for AgainSoon {
    fn manifest(&self) -> &Manifest {
        self.0.manifest()
    }

    fn reconcile(&self, request: &Request, reader: &mut Reader) -> Result<Outcome, RunError> {
        let request = Request {
            previous: Vec::new(),
            memo: None,
            ..request.clone()
        };
        let outcome = self.0.reconcile(&request, reader)?;
        Ok(Outcome {
            follow_up: FollowUp {
                next: NextRun::After(Duration::from_secs(1)),
                ..outcome.follow_up
            },
            ..outcome
        })
    }
}

/// Ends a reconcile as if each of its writes had found nothing to change.
pub fn unwritten(mut writing: Writing) -> Finished {
    let mut pending = VecDeque::new();
    loop {
        match writing.advance() {
            ControlFlow::Continue((begun, sending)) => {
                pending.extend(begun);
                let next = pending.pop_front().expect("a write is under way");
                writing = sending.answered(next, ActionResult::Unchanged.into());
            }
            ControlFlow::Break(finished) => return finished,
        }
    }
}

fn kind_of(object: &Value) -> Kind {
    Kind::from_api_version(
        object["apiVersion"].as_str().unwrap_or_default(),
        object["kind"].as_str().unwrap_or_default(),
    )
}
