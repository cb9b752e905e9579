//! The host's own hub with one plugin in it, fed from the server in memory as list-watches feed it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use pilothouse_core::{
    ControllerSettings, Delta, Exchange, Granted, Grants, Hub, InformerId, InformerKey, Kind,
    KindName, Listing, Manifest, Object, ObjectKey, Plugin, PluginId, ReadDeclaration, ReadGrant,
    Rehearsal, ResourceVersion, Schema, ServedKind, SubjectKey, WriteDeclaration, WriteGrant,
};
use serde_json::Value;

use super::guest::Guest;
use super::server::Server;

/// See the module's documentation.
pub(super) struct Caches {
    pub hub: Hub,
    plugin: PluginId,
    settings: ControllerSettings,
    /// The kinds that are to be listed before anything is read.
    unlisted: BTreeSet<Kind>,
    /// Kinds that the cluster serves besides those of the objects that are there.
    served: BTreeMap<Kind, ServedKind>,
    /// Whether an object that is to be listed is older than what has been listed before.
    is_rollback: bool,
}

impl Caches {
    /// Everything that the manifest asks for is granted. The plugin is never put in quarantine:
    /// a test of failures would end there.
    pub fn new(guest: &Arc<Guest>) -> Self {
        let settings = ControllerSettings {
            secret_values: true,
            quarantine: false,
            grants: everything(guest.manifest()),
            ..ControllerSettings::default()
        };
        let mut hub = Hub::default();
        let plugin = hub.join(guest.clone(), &settings, Duration::ZERO);
        let reads = guest.manifest().reads.iter();
        Self {
            plugin: plugin.expect("nothing keeps the only plugin of a hub from joining"),
            unlisted: reads.map(|read| read.kind.clone()).collect(),
            hub,
            served: BTreeMap::new(),
            settings,
            is_rollback: false,
        }
    }

    pub fn configure(&mut self, config: String, now: Duration) {
        self.settings.config = config;
        self.hub.configure(self.plugin, &self.settings, now);
    }

    /// From now on, these optional kinds are not served.
    pub fn serve_all_but(&mut self, absent: BTreeSet<Kind>, guest: &Arc<Guest>, now: Duration) {
        self.settings.grants.absent = absent;
        let replaced = self
            .hub
            .replace(self.plugin, guest.clone(), &self.settings, now);
        replaced.expect("nothing keeps the only plugin of a hub from being replaced");
        let reads = guest.manifest().reads.iter();
        self.unlisted = reads.map(|read| read.kind.clone()).collect();
    }

    /// The optional kinds that are not served.
    pub fn absent(&self) -> &BTreeSet<Kind> {
        &self.settings.grants.absent
    }

    /// Objects of this kind were stored without a write. `is_older`: perhaps older ones than those
    /// that have been listed before.
    pub fn doubt(&mut self, kind: Kind, is_older: bool) {
        self.unlisted.insert(kind);
        self.is_rollback |= is_older;
    }

    /// From now on the cluster serves this kind, or does so no more.
    pub fn serve(&mut self, served: ServedKind, is_served: bool) {
        let kind = served.kind.clone();
        let is_version = |known: &&mut ServedKind| known.kind.is_version_of(&kind);
        let known = self.served.values_mut().find(is_version);
        match known.filter(|known| is_served && known.kind != kind) {
            // It is kept in the version that was defined first.
            Some(known) => known.versions.extend(served.versions),
            None if is_served => drop(self.served.insert(kind.clone(), served)),
            None => drop(self.served.remove(&kind)),
        }
        self.unlisted.insert(kind);
    }

    /// Tells a plugin with patterns which kinds there are, and has them all listed: a test of one
    /// reconcile is not about the runs in which it asks for the first time.
    fn show_kinds(&mut self, server: &Server, now: Duration) {
        if !self.hub.wants_kinds() {
            return;
        }
        let mut served: BTreeMap<Kind, ServedKind> = server.kinds();
        served.extend(self.served.clone());
        let watchable = served.values().filter(|served| served.is_watchable());
        let kinds: BTreeSet<Kind> = watchable.map(|served| served.kind.clone()).collect();
        drop(self.hub.set_kinds(served.into_values().collect(), now));
        self.hub.ask_for(self.plugin, &kinds);
        while let Some(mut widening) = self.hub.prepare_widening(usize::MAX, now) {
            loop {
                widening.build(now);
                match self.hub.exchange(widening, now) {
                    Exchange::Again(again) => widening = *again,
                    Exchange::Done(_) | Exchange::Refused(..) => break,
                }
            }
            self.unlisted.extend(kinds.iter().cloned());
        }
    }

    /// Lists what is unlisted.
    pub fn list(&mut self, server: &Server, now: Duration) {
        self.show_kinds(server, now);
        if self.unlisted.is_empty() {
            return;
        }
        let unlisted = std::mem::take(&mut self.unlisted);
        for (informer, (informer_key, extent)) in self.hub.wanted() {
            if !unlisted.contains(&informer_key.kind) {
                continue;
            }
            let schema = self.hub.schema(informer);
            let objects = server.all(&informer_key.kind);
            let objects = objects.filter_map(|object| show(object, &informer_key, &schema));
            let listing = Listing {
                objects: objects.collect(),
                unreadable: Vec::new(),
                resource_version: ResourceVersion::new(&server.version().to_string()),
                extent,
                is_rollback: self.is_rollback,
            };
            self.hub.apply(informer, Delta::Replace(listing), now);
        }
        self.is_rollback = false;
    }

    /// An object has been written.
    pub fn watch(&mut self, server: &Server, kind: &Kind, key: &ObjectKey, now: Duration) {
        self.show(kind, key, server.get(kind, key), server.version(), now);
    }

    /// The watches bring an object in this state; `None` if it is gone since this version.
    pub fn show(
        &mut self,
        kind: &Kind,
        key: &ObjectKey,
        object: Option<&Value>,
        version: u64,
        now: Duration,
    ) {
        if self.unlisted.contains(kind) {
            return;
        }
        let informers = self.hub.wanted().into_iter();
        let informers: Vec<(InformerId, InformerKey)> = informers
            .map(|(informer, (informer_key, _))| (informer, informer_key))
            .filter(|(_, informer_key)| informer_key.kind == *kind)
            .collect();
        for (informer, informer_key) in informers {
            let schema = self.hub.schema(informer);
            let shown = object.and_then(|object| show(object, &informer_key, &schema));
            let delta = match shown {
                Some(object) => Delta::Upsert(object),
                None => Delta::Delete {
                    key: key.clone(),
                    resource_version: ResourceVersion::new(&version.to_string()),
                },
            };
            self.hub.apply(informer, delta, now);
        }
    }

    /// Whether a key is to run, now or later.
    pub fn is_queued(&self, key: &SubjectKey) -> bool {
        self.hub.is_queued(self.plugin, key)
    }

    /// Whether the caches show each object of these kinds as the server has it.
    pub fn are_current(&self, server: &Server) -> bool {
        let informers = self.hub.wanted().into_iter();
        let mut informers = informers.filter(|(_, (of, _))| !self.unlisted.contains(&of.kind));
        informers.all(|(informer, (informer_key, _))| {
            let (cache, schema) = (
                &self.hub.snapshot().informers[informer],
                self.hub.schema(informer),
            );
            let objects = server.all(&informer_key.kind);
            let mut objects = objects.filter_map(|object| show(object, &informer_key, &schema));
            objects.all(|object| {
                let cached = cache.get(object.key());
                cached.is_some_and(|it| it.resource_version() == object.resource_version())
            })
        })
    }

    /// A reconcile of this key on the caches as they are.
    pub fn rehearse(&self, key: &SubjectKey, now: Duration) -> Rehearsal {
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let rehearsal = self.hub.rehearse(self.plugin, key, now);
        rehearsal.expect("the plugin does not leave")
    }
}

/// Grants all that a manifest asks for, and the verbs, too, that are granted by name only.
fn everything(manifest: &Manifest) -> Grants {
    let read = |read: &ReadDeclaration| ReadGrant {
        kind: KindName::of(&read.kind),
        namespaces: BTreeSet::new(),
    };
    let write = |write: &WriteDeclaration| WriteGrant {
        kind: KindName::of(&write.kind),
        subresource: write.subresource.clone(),
        verbs: write.verbs.iter().copied().collect(),
        namespaces: BTreeSet::new(),
        names: BTreeSet::new(),
        force: true,
    };
    Grants {
        what: Granted::Listed {
            reads: manifest.reads.iter().map(read).collect(),
            writes: manifest.writes.iter().map(write).collect(),
            events: true,
        },
        ..Grants::default()
    }
}

/// An object as an informer brings it. `None` if it is not one of its objects.
fn show(object: &Value, informer_key: &InformerKey, schema: &Schema) -> Option<Object> {
    let json = object.to_string();
    let parsed = Object::parse(&informer_key.kind, &json, schema);
    let parsed = parsed.unwrap_or_else(|error| panic!("the host cannot read {json}: {error}"));
    let namespace = informer_key.namespace.as_deref();
    let is_there = namespace.is_none_or(|namespace| parsed.key().namespace == namespace);
    (is_there && informer_key.selects(&parsed, &json)).then_some(parsed)
}
