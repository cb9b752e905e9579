//! What of each shard runs on this host.

use std::collections::BTreeMap;

use super::event::SharingEffect;
use super::records::Shard;

/// How this host runs a shard. A shard of which nothing runs has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DutyState {
    /// Its keys run.
    Running,
    /// What has begun may end, and write.
    Finishing,
    /// What has begun is being halted. Nothing may be written.
    Stopping,
}

/// The shards of which something runs on this host.
#[derive(Debug, Default)]
pub(super) struct Duties {
    shards: BTreeMap<Shard, DutyState>,
    /// How many are being halted.
    stopping: usize,
}

impl Duties {
    pub fn is_idle(&self, shard: &Shard) -> bool {
        !self.shards.contains_key(shard)
    }

    pub fn is_empty(&self) -> bool {
        self.shards.is_empty()
    }

    /// Is something being halted?
    pub fn is_stopping(&self) -> bool {
        self.stopping > 0
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Shard, DutyState)> {
        self.shards.iter().map(|(shard, state)| (shard, *state))
    }

    pub fn gain(&mut self, shard: Shard, effects: &mut Vec<SharingEffect>) {
        self.shards.insert(shard.clone(), DutyState::Running);
        effects.push(SharingEffect::Gained(shard));
    }

    pub fn finish(&mut self, shard: &Shard, effects: &mut Vec<SharingEffect>) {
        if let Some(state @ DutyState::Running) = self.shards.get_mut(shard) {
            *state = DutyState::Finishing;
            effects.push(SharingEffect::Finish(shard.clone()));
        }
    }

    /// Stops what `is_lost` names.
    pub fn stop(&mut self, is_lost: impl Fn(&Shard) -> bool, effects: &mut Vec<SharingEffect>) {
        for (shard, state) in &mut self.shards {
            if *state != DutyState::Stopping && is_lost(shard) {
                *state = DutyState::Stopping;
                self.stopping += 1;
                effects.push(SharingEffect::Stop(shard.clone()));
            }
        }
    }

    pub fn released(&mut self, shard: &Shard) {
        // What was not told to finish still runs.
        if self.shards.get(shard) == Some(&DutyState::Running) {
            return;
        }
        if self.shards.remove(shard) == Some(DutyState::Stopping) {
            self.stopping -= 1;
        }
    }
}
