//! Informers for the kinds of plugins' patterns, and the kinds that the cluster serves.
//!
//! What a reconcile asks about, [`Hub::ran`] notes; [`Hub::prepare_widening`] begins to give those
//! kinds informers, and [`Hub::narrow`] takes them away again. Both are done when the host gets to
//! it: nothing waits under the hub's lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::controller::{Begun, Controller, Listed};
use super::joining::Garbage;
use super::preparation::{Preparation, Widening, WideningKind};
use super::{Hub, PluginId, is_watched, wanted_informers};
use crate::cache::snapshot::InformerId;
use crate::cache::{Delta, Listing, Subscribed};
use crate::model::detail::Detail;
use crate::model::informer_key::InformerKey;
use crate::model::key::{Kind, ResourceVersion};
use crate::model::object::Object;
use crate::model::served_kind::ServedKind;
use crate::queue::{NORMAL, Time};

/// The kinds that the cluster serves, as the host was last told.
#[derive(Default)]
pub(super) struct ServedKinds {
    /// `None`: not told yet.
    kinds: Option<BTreeMap<Kind, ServedKind>>,
    /// How often that has changed.
    version: u64,
}

impl ServedKinds {
    fn has(&self, kind: &Kind) -> bool {
        let kinds = self.kinds.as_ref();
        kinds.is_none_or(|kinds| kinds.contains_key(kind))
    }
}

impl Hub {
    /// Whether a plugin reads patterns, so that [`set_kinds`](Self::set_kinds) is needed.
    pub fn wants_kinds(&self) -> bool {
        self.served_informer().is_some()
    }

    /// Whether reconciles have asked about kinds that have no informer, so that
    /// [`prepare_widening`](Self::prepare_widening) has something to do.
    pub fn wants_informers(&self) -> bool {
        self.controllers.values().any(Controller::wants_kinds)
    }

    /// The kinds that the cluster serves now, each in the version that the server prefers. Wakes
    /// the keys for which that is news, and ends the informers of kinds that are served no more.
    pub fn set_kinds(&mut self, kinds: Vec<ServedKind>, now: Time) -> Garbage {
        // No other object of this kind may come into the cache of the served kinds.
        let is_other = |served: &ServedKind| !served.kind.is_version_of(&ServedKind::object_kind());
        let kinds = kinds.into_iter().filter(is_other);
        let kinds = kinds.map(|served| (served.kind.clone(), served));
        let kinds: BTreeMap<Kind, ServedKind> = kinds.collect();
        if self.served.kinds.as_ref() != Some(&kinds) {
            let before = self.served.kinds.replace(kinds);
            self.served.version += 1;
            self.show_served(now);
            self.turn_lists(&before.unwrap_or_default(), now);
        }
        self.ask_for_subjects(now);
        let garbage = self.narrow(now);
        for controller in self.controllers.values_mut() {
            let served = self.served.kinds.iter().flat_map(BTreeMap::values);
            controller.ask_for_lists(served);
        }
        garbage
    }

    /// Other kinds are served than before. The objects of some informers come into lists of
    /// patterns by that, or leave them.
    fn turn_lists(&mut self, before: &BTreeMap<Kind, ServedKind>, now: Time) {
        let Some(served) = &self.served.kinds else {
            return;
        };
        for controller in self.controllers.values_mut() {
            let (had, has) = (controller.in_lists(before), controller.in_lists(served));
            for informer in had.symmetric_difference(&has) {
                controller.wake_lists(*informer, &self.snapshot, now);
            }
        }
    }

    /// Has the kinds listed that plugins reconcile by patterns.
    pub(super) fn ask_for_subjects(&mut self, now: Time) {
        let kinds = self.served.kinds.iter().flatten();
        let watchable = kinds.filter(|(_, served)| served.is_watchable());
        let kinds: Vec<&Kind> = watchable.map(|(kind, _)| kind).collect();
        for controller in self.controllers.values_mut() {
            controller.ask_for_subjects(kinds.iter().copied(), &self.snapshot, now);
        }
    }

    fn served_informer(&self) -> Option<InformerId> {
        let id = *self.ids.get(&wanted_informers::served_kinds())?;
        (self.snapshot.informers[id].users() > 0).then_some(id)
    }

    /// Brings the cache of the served kinds up to date, if there is one. An object that is as
    /// before keeps its version, so that nobody is woken by it.
    pub(super) fn show_served(&mut self, now: Time) {
        let (Some(id), Some(kinds)) = (self.served_informer(), &self.served.kinds) else {
            return;
        };
        let cache = &self.snapshot.informers[id];
        let version = ResourceVersion::new(&self.served.version.to_string());
        if *cache.resource_version() == version {
            return;
        }
        let object = |served: &ServedKind| {
            let before = cache.get(ServedKind::key_of(&served.kind).parts());
            let before = before
                .filter(|before| ServedKind::of_object(before.json()).as_ref() == Some(served));
            let json = match before {
                Some(before) => before.json().to_owned(),
                None => served.object(self.served.version),
            };
            Object::parse(cache.kind(), &json, cache.schema()).ok()
        };
        let listing = Listing {
            objects: kinds.values().filter_map(object).collect(),
            resource_version: version,
            extent: Detail::Full.into(),
            ..Listing::default()
        };
        self.apply(id, Delta::Replace(listing), now);
    }

    /// How many list-watches run for patterns alone, of kinds that no plugin names.
    pub fn watched_for_patterns(&self) -> usize {
        let controllers = self.controllers.values();
        let named: BTreeSet<InformerId> = controllers.flat_map(Controller::named).collect();
        let informers = self.snapshot.informers.iter();
        let of_patterns = informers.filter(|(id, cache)| is_watched(cache) && !named.contains(id));
        of_patterns.count()
    }

    /// The kinds of patterns that there is no room for, with the plugins' names, and why.
    pub fn refused_kinds(&self) -> Vec<(String, Kind, Arc<str>)> {
        let controllers = self.controllers.values();
        let refused = controllers.flat_map(|controller| {
            let kinds = controller.refused_kinds().into_iter();
            kinds.map(|(kind, reason)| (controller.name().to_owned(), kind, reason))
        });
        refused.collect()
    }

    /// As if a reconcile of this plugin had asked about these kinds.
    pub fn ask_for(&mut self, plugin: PluginId, kinds: &BTreeSet<Kind>) {
        if let Some(controller) = self.controllers.get_mut(&plugin) {
            controller.ask_for(kinds);
        }
    }

    /// Begins to give informers to the kinds of patterns that reconciles have asked about: at most
    /// `room` list-watches that do not run yet. `None` if there are none. The result is built and
    /// exchanged like a plugin's preparation.
    pub fn prepare_widening(&mut self, mut room: usize, now: Time) -> Option<Preparation> {
        let whole = room;
        for controller in self.controllers.values_mut() {
            controller.keep_served(|kind| self.served.has(kind));
        }
        let mut kinds = Vec::new();
        let mut begun = BTreeSet::new();
        for (plugin, controller) in &mut self.controllers {
            let mut refused = Vec::new();
            for (kind, subscription) in controller.wanted_kinds() {
                let informer_key = InformerKey::all(kind.clone());
                let id = self.ids.get(&informer_key);
                let is_there = id.is_some_and(|id| self.snapshot.informers[*id].users() > 0);
                let is_new = !is_there && !begun.contains(&kind);
                if is_new && room == 0 {
                    refused.push(kind);
                    continue;
                }
                room -= usize::from(is_new);
                begun.insert(kind.clone());
                kinds.push(WideningKind {
                    plugin: *plugin,
                    kind,
                    subscription,
                });
            }
            if !refused.is_empty() {
                controller.refuse_kinds(&refused, NO_ROOM, now);
            }
        }
        self.settle_kinds(Listed::Anything, now);
        let widening = Widening { kinds, room: whole };
        (!widening.kinds.is_empty()).then(|| self.begin(None, Some(widening)))
    }

    /// Installs informers that have been prepared.
    pub(super) fn widen(&mut self, widened: Widened, garbage: &mut Garbage, now: Time) {
        let mut ended = Vec::new();
        let mut by_plugin: BTreeMap<PluginId, Vec<Begun>> = BTreeMap::new();
        for (plugin, begun) in widened {
            by_plugin.entry(plugin).or_default().push(begun);
        }
        for (plugin, begun) in by_plugin {
            let Some(controller) = self.controllers.get_mut(&plugin) else {
                continue;
            };
            let of = |begun: &Begun| (begun.informer, self.served.has(&begun.kind));
            let informers: Vec<(InformerId, bool)> = begun.iter().map(of).collect();
            ended.push(controller.widen(begun, &self.snapshot));
            for (informer, is_served) in &informers {
                // Another plugin may have had its objects listed already.
                if *is_served {
                    controller.wake_lists(*informer, &self.snapshot, now);
                }
            }
            let informers: Vec<InformerId> = informers.into_iter().map(|(id, _)| id).collect();
            controller.start_widened(&informers, &self.snapshot, now);
        }
        for subscriptions in ended.into_iter().filter(|ended| !ended.is_empty()) {
            self.layout += 1;
            self.release(subscriptions, garbage);
        }
        self.settle_kinds(Listed::Anything, now);
    }

    /// Ends the informers of the kinds of patterns that no key's last run has read for a minute, or
    /// that are served no more. To be called now and then.
    pub fn narrow(&mut self, now: Time) -> Garbage {
        let mut garbage = Garbage::default();
        let served = &self.served;
        let mut ended: Vec<BTreeMap<InformerId, Subscribed>> = Vec::new();
        for controller in self.controllers.values_mut() {
            ended.push(controller.narrow(|kind| served.has(kind), &self.snapshot, now));
        }
        for subscriptions in ended.into_iter().filter(|ended| !ended.is_empty()) {
            self.layout += 1;
            self.release(subscriptions, &mut garbage);
        }
        self.settle_kinds(Listed::Anything, now);
        garbage
    }

    /// The first list of a kind may have come.
    pub(super) fn settle_kind(&mut self, informer: InformerId, now: Time) {
        let kind = self.snapshot.informers[informer].kind().clone();
        self.settle_kinds(Listed::Kind(&kind), now);
    }

    /// Lets each plugin note which kinds of its patterns have been listed, or have had their time.
    pub(super) fn settle_kinds(&mut self, listed: Listed<'_>, now: Time) {
        let mut turned: Vec<(PluginId, Vec<Kind>)> = Vec::new();
        for (id, controller) in &mut self.controllers {
            let kinds = controller.settle_kinds(listed, &self.snapshot, now);
            if !kinds.is_empty() {
                turned.push((*id, kinds));
            }
        }
        let Some(served) = self.served_informer().filter(|_| !turned.is_empty()) else {
            return;
        };
        // As when an object becomes unreadable: what a running reconcile was told is out of date.
        self.snapshot.sequence += 1;
        self.changelog.push(self.snapshot.sequence, served, vec![]);
        for (id, kinds) in turned {
            if let Some(controller) = self.controllers.get_mut(&id) {
                for kind in kinds {
                    let key = ServedKind::key_of(&kind);
                    controller.wake_readers(served, &key, NORMAL, now);
                }
                controller.note_turned(served, self.snapshot.sequence);
            }
        }
    }
}

/// The kinds that have got informers, and for which plugins.
pub(super) type Widened = Vec<(PluginId, Begun)>;

/// Why a kind gets no informer.
const NO_ROOM: &str =
    "there are as many list-watches as --watch-limit allows, but for those kept for named kinds";
