//! How plugins join the hub, are replaced, and leave it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::changelog::Missed;
use super::controller::Controller;
use super::preparation::{Caches, FirstKeys, Joining, Preparation, PreparationStep};
use super::{ControllerSettings, Hub, PluginId, wanted_informers};
use crate::cache::snapshot::InformerId;
use crate::cache::{Cache, Change, Subscribed};
use crate::hub::plugin::Plugin;
use crate::model::informer_key::Detail;
use crate::queue::Time;

/// Maximum number of changes applied to the prepared caches while the hub is locked: about three
/// milliseconds.
const MAX_WAITING: usize = if cfg!(test) { 2 } else { 100 };

/// After this many rounds that each missed more than [`MAX_WAITING`] changes, the rest is applied
/// under the hub's lock.
const MAX_ROUNDS: usize = 8;

/// Maximum number of a new version's first keys queued at a time: about two milliseconds.
const MAX_KEYS: usize = if cfg!(test) { 2 } else { 1_000 };

/// Why a plugin cannot join.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum JoinError {
    /// Names are unique because they are used in field managers and metric labels.
    #[error("a plugin named {0:?} is already loaded")]
    DuplicateName(String),
    /// The values of Secrets are read only if the operator allows it.
    #[error(
        "{0:?} reads the values of Secrets: allow it with secret-values = true in the plugin's settings, or have its manifest name the fields of v1/Secret that it needs, without .data"
    )]
    SecretValues(String),
    /// The host finishes what it has and accepts nothing new.
    #[error("the host is stopping")]
    Draining,
}

/// The result of an attempt to exchange a [`Preparation`].
pub enum Exchange {
    /// Not finished, or too much has changed meanwhile. Build it again and exchange it again.
    Again(Box<Preparation>),
    /// Done. The plugin has joined, unless it has left meanwhile or nothing was to join.
    Done(Garbage),
    /// The plugin cannot join.
    Refused(JoinError, Garbage),
}

/// What the hub no longer needs. Freeing it takes a while (a tenth of a second for 100,000
/// objects), so drop it where nothing waits for the hub.
#[derive(Default)]
#[must_use = "drop it where nobody waits for the hub"]
pub struct Garbage(Vec<Box<dyn Send>>);

impl Garbage {
    pub(super) fn add(&mut self, what: impl Send + 'static) {
        self.0.push(Box::new(what));
    }
}

impl Hub {
    /// Adds a plugin at once: its informers, views and indexes, and a first reconcile for every
    /// object of its subject. Takes a second for 100,000 objects. If others wait for the hub, use
    /// [`prepare`](Self::prepare) instead.
    pub fn join(
        &mut self,
        plugin: Arc<dyn Plugin>,
        settings: &ControllerSettings,
        now: Time,
    ) -> Result<PluginId, JoinError> {
        let (id, preparation) = self.prepare(plugin, settings)?;
        self.finish(preparation, now)?;
        Ok(id)
    }

    /// Swaps a plugin's version at once; see [`prepare_replacement`](Self::prepare_replacement).
    pub fn replace(
        &mut self,
        id: PluginId,
        plugin: Arc<dyn Plugin>,
        settings: &ControllerSettings,
        now: Time,
    ) -> Result<(), JoinError> {
        let preparation = self.prepare_replacement(id, plugin, settings)?;
        self.finish(preparation, now)
    }

    fn finish(&mut self, mut preparation: Preparation, now: Time) -> Result<(), JoinError> {
        loop {
            preparation.build(now);
            match self.exchange(preparation, now) {
                Exchange::Again(again) => preparation = *again,
                Exchange::Done(_) => return Ok(()),
                Exchange::Refused(error, _) => return Err(error),
            }
        }
    }

    /// Begins to add a plugin. The caller builds the preparation without the hub and then passes it
    /// to [`exchange`](Self::exchange). Until then the hub keeps all changes.
    pub fn prepare(
        &mut self,
        plugin: Arc<dyn Plugin>,
        settings: &ControllerSettings,
    ) -> Result<(PluginId, Preparation), JoinError> {
        let id = self.last_plugin + 1;
        let joining = Joining::new(id, plugin, settings, false);
        self.check(&joining)?;
        self.last_plugin = id;
        Ok((id, self.begin(Some(joining))))
    }

    /// Begins to swap a plugin's version, or the settings of the same version. Running reconciles
    /// end on the version they began on. Every key runs again on the new version. The queue stays,
    /// and with it each key's failures and the plugin's used share of the workers' time.
    pub fn prepare_replacement(
        &mut self,
        id: PluginId,
        plugin: Arc<dyn Plugin>,
        settings: &ControllerSettings,
    ) -> Result<Preparation, JoinError> {
        let joining = Joining::new(id, plugin, settings, true);
        self.check(&joining)?;
        Ok(self.begin(Some(joining)))
    }

    /// Begins to free what only plugins that have left needed; `None` if there is nothing to free.
    /// The result is built and exchanged like a plugin's preparation.
    pub fn prepare_trim(&mut self) -> Option<Preparation> {
        let mut informers = self.snapshot.informers.iter();
        let is_loose = informers.any(|cache| cache.is_loose());
        is_loose.then(|| self.begin(None))
    }

    fn begin(&mut self, joining: Option<Joining>) -> Preparation {
        self.changelog.open(self.snapshot.sequence);
        Preparation::of_caches(self, joining)
    }

    fn check(&self, joining: &Joining) -> Result<(), JoinError> {
        if self.is_draining {
            return Err(JoinError::Draining);
        }
        let manifest = &joining.manifest;
        let name = &manifest.name;
        let mut others = self.controllers.iter().filter(|(id, _)| **id != joining.id);
        if others.any(|(_, controller)| controller.name() == name) {
            return Err(JoinError::DuplicateName(name.clone()));
        }
        let reads_values = manifest.reads.iter().any(|read| {
            read.kind.is_secret() && wanted_informers::detail(manifest, read) == Detail::Full
        });
        if reads_values && !joining.settings.secret_values {
            return Err(JoinError::SecretValues(name.clone()));
        }
        Ok(())
    }

    /// Installs what has been prepared and built. When this returns [`Exchange::Done`], the plugin
    /// has joined.
    pub fn exchange(&mut self, preparation: Preparation, now: Time) -> Exchange {
        let Preparation { step, garbage } = preparation;
        match step {
            PreparationStep::Keys(first) => self.queue_some(first, garbage, now),
            PreparationStep::Caches(caches) => self.exchange_caches(caches, garbage, now),
        }
    }

    /// Queues the next of a new version's first keys.
    fn queue_some(&mut self, mut first: FirstKeys, garbage: Garbage, now: Time) -> Exchange {
        if first.is_built() {
            let rest = first.keys.split_off(first.keys.len().min(MAX_KEYS));
            let some = std::mem::replace(&mut first.keys, rest);
            if let Some(controller) = self.controllers.get_mut(&first.plugin) {
                controller.queue_first(&some, now);
            }
            if first.keys.is_empty() {
                return Exchange::Done(garbage);
            }
        }
        let step = PreparationStep::Keys(first);
        Exchange::Again(Box::new(Preparation { step, garbage }))
    }

    fn exchange_caches(
        &mut self,
        mut caches: Box<Caches>,
        mut garbage: Garbage,
        now: Time,
    ) -> Exchange {
        let again = |caches, garbage| {
            let step = PreparationStep::Caches(caches);
            Exchange::Again(Box::new(Preparation { step, garbage }))
        };
        if !caches.is_built() {
            return again(caches, garbage);
        }
        let missed = self.missed(&caches);
        let joining = caches.joining.as_ref();
        if let Some(Err(error)) = joining.map(|joining| self.check(joining)) {
            garbage.add((caches, missed, self.changelog.trim()));
            return Exchange::Refused(error, garbage);
        }
        if joining
            .is_some_and(|joining| joining.replaces && !self.controllers.contains_key(&joining.id))
        {
            // The plugin has left meanwhile.
            garbage.add((caches, missed, self.changelog.trim()));
            return Exchange::Done(garbage);
        }
        let Some(missed) = missed else {
            // `None`: what was missed is not known, so start again from the present caches.
            let mut anew = self.begin(caches.joining.take());
            garbage.add((caches, self.changelog.trim()));
            anew.garbage = garbage;
            return Exchange::Again(Box::new(anew));
        };
        if missed.len() > MAX_WAITING && caches.rounds < MAX_ROUNDS {
            // Still too much to do under the lock: another round outside it. The changelog is
            // opened at the present state before it is trimmed, so that nothing in between is lost.
            self.changelog.open(self.snapshot.sequence);
            let before = std::mem::replace(&mut caches.live, self.snapshot.clone());
            garbage.add((before, self.changelog.trim()));
            caches.missed = missed;
            caches.rounds += 1;
            return again(caches, garbage);
        }
        self.take_over(&mut caches, &missed, &mut garbage, now);
        let joining = caches.joining.take();
        let replacement = joining.and_then(|joining| self.controller(joining, &mut garbage, now));
        garbage.add((caches, missed, self.changelog.trim()));
        match replacement {
            None => Exchange::Done(garbage),
            Some((id, prepared)) => {
                let keys = Preparation::of_keys(id, prepared, garbage);
                Exchange::Again(Box::new(keys))
            }
        }
    }

    /// Makes the prepared caches the hub's own, after the changes that they have missed.
    fn take_over(
        &mut self,
        caches: &mut Caches,
        missed: &[(InformerId, Change)],
        garbage: &mut Garbage,
        now: Time,
    ) {
        caches.follow(missed, &self.snapshot, now);
        let informers = Arc::make_mut(&mut self.snapshot.informers);
        for id in &caches.informers {
            let cache = caches.snapshot.informers[*id].clone();
            match informers.get_mut(*id) {
                Some(place) => garbage.add(std::mem::replace(place, cache)),
                None => informers.push(cache),
            }
        }
        self.ids = std::mem::take(&mut caches.ids);
        self.layout += 1;
    }

    /// Installs the plugin, or swaps its version. For a swap, returns what has been prepared,
    /// because its first keys are still to be queued.
    fn controller(
        &mut self,
        joining: Joining,
        garbage: &mut Garbage,
        now: Time,
    ) -> Option<(PluginId, Controller)> {
        let prepared = joining.controller?;
        if !joining.replaces {
            self.controllers.insert(joining.id, prepared);
            return None;
        }
        let controller = self.controllers.get_mut(&joining.id)?;
        let subscriptions = controller.replace(&prepared, &self.snapshot, garbage, now);
        // Only after the new version has subscribed, so that informers used by both versions stay.
        self.release(subscriptions, garbage);
        Some((joining.id, prepared))
    }

    /// The changes of the prepared caches since the preparation was last brought up to date. The
    /// changelog no longer keeps them for it afterwards. `None` if more changed than is kept, or if
    /// other plugins have joined or left: then the preparation cannot be used.
    fn missed(&mut self, caches: &Caches) -> Option<Vec<(InformerId, Change)>> {
        let missed = match self.changelog.close(caches.live.sequence) {
            Missed::Changes(changes) if caches.layout == self.layout => changes,
            _ => return None,
        };
        let concern = missed.filter(|(informer, _)| caches.informers.contains(informer));
        Some(concern.map(|(id, change)| (id, change.clone())).collect())
    }

    /// Removes a plugin, whatever it has queued. What still runs may end, but has no effect any
    /// more. An informer that no other plugin uses ends too, and its cache is emptied. What the
    /// other caches hold for this plugin alone stays until [`prepare_trim`](Self::prepare_trim).
    pub fn leave(&mut self, plugin: PluginId) -> Garbage {
        let mut garbage = Garbage::default();
        let Some(controller) = self.controllers.remove(&plugin) else {
            return garbage;
        };
        self.layout += 1;
        self.release(controller.subscriptions().clone(), &mut garbage);
        garbage.add(controller);
        garbage
    }

    fn release(&mut self, subscriptions: BTreeMap<InformerId, Subscribed>, garbage: &mut Garbage) {
        for (informer, subscribed) in subscriptions {
            let cache = self.snapshot.cache_mut(informer);
            cache.leave(&subscribed);
            if cache.users() == 0 {
                let informer_key = cache.informer_key().clone();
                self.ids.remove(&informer_key);
                garbage.add(std::mem::replace(cache, Cache::new(informer_key)));
            }
        }
    }
}
