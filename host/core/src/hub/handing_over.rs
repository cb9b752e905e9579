//! What this host runs, where several hosts divide the work.

use super::controller::{Controller, RunningKeys};
use super::doubts::{Doubt, Proof};
use super::duties::{Duties, Duty, Relinquish};
use super::{Garbage, Hub, PluginId, is_watched};
use crate::model::division::Division;
use crate::model::subject_key::SubjectKey;
use crate::queue::Time;
use crate::sharing::{Offer, Shard};

/// What still runs of a plugin that has left the hub.
pub(super) struct Departed {
    /// The plugin's name.
    name: String,
    division: Division,
    running: RunningKeys,
}

impl Hub {
    /// From now on this host runs the keys of these duties. Plugins that join later take theirs
    /// from here. A new hub runs everything.
    ///
    /// Shards that are gained wait until the caches are proven to show what the host before has
    /// written: see [`doubted`](Self::doubted). Then they begin as after a restart: every subject
    /// gets a first run, and nothing is remembered of an earlier time. Keys of shards that were
    /// held before go on meanwhile, and do not run again.
    ///
    /// Shards that are lost are forgotten: what is queued of them, their failures and back-offs,
    /// memos, effects, timers, recorded reads and write gates. Changes queue none of their keys.
    /// What is running of them ends as `how` says, and its end counts for nothing: see
    /// [`is_unfinished`](Self::is_unfinished). With [`Relinquish::Stop`] this also stops what was
    /// to finish since an earlier call.
    ///
    /// A key never runs twice at once, even if its shard is gained again while it runs: then it
    /// runs once more after that, when the caches show what it has written.
    pub fn set_duties(&mut self, duties: Duties, how: Relinquish, now: Time) -> Garbage {
        let mut garbage = Garbage::default();
        let before = std::mem::replace(&mut self.duties, duties);
        if self.duties.exceed(&before) {
            self.doubt_caches(now);
        }
        for controller in self.controllers.values_mut() {
            let duty = controller.duty_of(&self.duties, controller.settings());
            controller.set_duty(duty, how, self.doubts.last(), &mut garbage);
        }
        self.settle_gains(now);
        for departed in self.departed.values_mut() {
            let duty = Duty::of(&self.duties, &departed.name, departed.division);
            departed.running.relinquish(&duty, how);
        }
        garbage
    }

    /// The keys that this host runs.
    pub fn duties(&self) -> &Duties {
        &self.duties
    }

    /// Whether keys of a shard that this host has lost are still running. Another host must not run
    /// them before they have ended here. The plugin may be divided in another way by now, or have
    /// left the hub.
    pub fn is_unfinished(&self, shard: &Shard) -> bool {
        let of_plugin = self.lost().filter(|(plugin, _)| *plugin == &*shard.plugin);
        let mut shards = of_plugin.map(|(_, key)| shard.of.shard_of(key.object.parts()));
        shards.any(|index| index == shard.index)
    }

    /// Whether keys are still running that this host has lost.
    pub fn has_unfinished(&self) -> bool {
        self.lost().next().is_some()
    }

    /// The keys that are running and that are not of this host's duties, with the plugins' names.
    fn lost(&self) -> impl Iterator<Item = (&str, &SubjectKey)> {
        let controllers = self.controllers.values();
        let present = controllers.map(|controller| {
            let division = controller.settings().division;
            (controller.name(), division, controller.running())
        });
        let departed = self.departed.values();
        let departed = departed.map(|gone| (&*gone.name, gone.division, &gone.running));
        present.chain(departed).flat_map(|(name, of, running)| {
            let duty = Duty::of(&self.duties, name, of);
            let keys = running.keys().filter(move |key| !duty.has(key));
            keys.map(move |key| (name, key))
        })
    }

    /// The plugins that this host can run, and how the keys of each are divided: those that have
    /// joined and are not paused.
    pub fn offer(&self) -> Offer {
        let settings = |controller: &Controller| {
            let settings = controller.settings();
            (!settings.is_paused).then(|| (controller.name().into(), settings.division))
        };
        self.controllers.values().filter_map(settings).collect()
    }

    /// Gives a controller the duty that its present settings ask for.
    pub(super) fn renew_duty(&mut self, id: PluginId, garbage: &mut Garbage, now: Time) {
        let Some(controller) = self.controllers.get(&id) else {
            return;
        };
        let duty = controller.duty_of(&self.duties, controller.settings());
        if controller.gains(&duty) {
            self.doubt_caches(now);
        }
        if let Some(controller) = self.controllers.get_mut(&id) {
            controller.set_duty(duty, Relinquish::Finish, self.doubts.last(), garbage);
        }
        self.settle_gains(now);
    }

    /// From now on every cache may be older than what another host has written. All of them: a
    /// plugin that joins later, or another version, may use any.
    fn doubt_caches(&mut self, now: Time) {
        let informers = self.snapshot.informers.iter();
        let watched = informers.filter(|(_, cache)| is_watched(cache));
        self.doubts
            .begin(watched.map(|(informer, _)| informer), now);
    }

    /// Lets each plugin take over what it has gained, if the caches that it uses are proven.
    pub(super) fn settle_gains(&mut self, now: Time) {
        for controller in self.controllers.values_mut() {
            controller.settle(&self.doubts, &self.snapshot, now);
        }
    }

    /// The informers that may be older than what another host has written before this one gained
    /// something. Each is to be [proven](Self::prove) by a list from the API server. To be asked
    /// after [`set_duties`](Self::set_duties) and again after a while, as long as there are some:
    /// what they show comes closer, and a change of settings or a server that went back in time can
    /// raise a doubt, too.
    pub fn doubted(&self) -> Vec<Doubt> {
        self.doubts.questions(&self.snapshot, &self.namespaces())
    }

    /// Takes the API server's answer about an informer in doubt. Returns whether the doubt is over;
    /// if not, what the list-watch brings ends it, or another answer. An answer to a doubt that
    /// was taken before a later gain proves nothing. Linear in the objects of the answer and of the
    /// cache: some ten milliseconds for 100,000.
    pub fn prove(&mut self, doubt: &Doubt, proof: &Proof, now: Time) -> bool {
        let Some(cache) = self.snapshot.informers.get(doubt.informer) else {
            return true;
        };
        self.doubts.answer(doubt, proof, cache);
        let is_over = self.doubts.settle(doubt.informer, cache);
        self.settle_gains(now);
        is_over
    }

    /// A plugin has left.
    pub(super) fn note_departed(&mut self, id: PluginId, controller: &mut Controller) {
        let departed = Departed {
            name: controller.name().to_owned(),
            division: controller.settings().division,
            running: controller.take_running(),
        };
        if !departed.running.is_empty() {
            self.departed.insert(id, departed);
        }
    }

    /// A key of a plugin that has left is given back.
    pub(super) fn departed_finished(&mut self, id: PluginId, key: &SubjectKey) {
        if let Some(departed) = self.departed.get_mut(&id) {
            departed.running.end(key);
            if departed.running.is_empty() {
                self.departed.remove(&id);
            }
        }
    }
}
