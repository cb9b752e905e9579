//! What is remembered of each key, besides its place in the queue and what it has read.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::model::outcome::{Effect, shorten};
use crate::model::subject_key::SubjectKey;
use crate::queue::backoff::Backoff;
use crate::reads::error::MAX_FETCHED_BYTES;
use crate::reads::fetched::FetchedObjects;

/// Maximum memory of the effects of one plugin in bytes. A plugin can ask for a hundred Events for
/// each key that all are refused, and their effects would take several times the memory of the
/// objects.
const MAX_EFFECT_BYTES: usize = if cfg!(test) { 64 << 10 } else { 64 << 20 };

/// Maximum memory of the memos of one plugin in bytes: with the largest memos, those of 1,000 keys.
const MAX_MEMO_BYTES: usize = if cfg!(test) { 1 << 10 } else { 64 << 20 };

/// Minimum delay for a key that keeps asking for a short requeue. Any outside change wakes it
/// anyway, so it can only be waiting for time to pass.
pub(super) const REQUEUE_STREAK: Backoff = Backoff {
    base: Duration::from_millis(5),
    max: Duration::from_secs(1),
};

/// The delay of a key whose view of the cluster the API server keeps contradicting.
const CONTRADICTED: Backoff = Backoff {
    base: Duration::from_millis(5),
    max: Duration::from_secs(10),
};

/// Maximum memory of what was fetched for the keys of one plugin that wait to be told, in bytes.
/// What one key is told is about half of it at most ([`MAX_FETCHED_BYTES`] and one answer), so that
/// there is room for it at last. What running keys were told comes on top.
const MAX_KEPT_BYTES: usize = 4 * MAX_FETCHED_BYTES;

/// What is remembered of one key. Most keys have nothing to remember, and no record.
#[derive(Debug, Default)]
struct KeyRecord {
    /// How many times in a row the key's writes could not reach the cluster. A whole outage counts
    /// once.
    unreachable_streak: u32,
    /// How many times in a row the key has asked for a short requeue.
    requeue_streak: u32,
    /// How many times in a row the API server has contradicted what the key had seen.
    contradictions: u32,
    /// The last error, if the key is broken.
    error: Option<Box<str>>,
    effects: Box<[Effect]>,
    /// What the key's last outcome asked to be kept for its next run.
    memo: Option<Arc<str>>,
    /// What was fetched for the key's next run.
    fetched: Option<Box<FetchedObjects>>,
}

impl KeyRecord {
    fn is_empty(&self) -> bool {
        self.unreachable_streak == 0
            && self.requeue_streak == 0
            && self.contradictions == 0
            && self.error.is_none()
            && self.effects.is_empty()
            && self.memo.is_none()
            && self.fetched.is_none()
    }
}

/// The records of one plugin's keys. Invariant: none of them is empty, and `effect_bytes`,
/// `memo_bytes` and `fetched_bytes` are the sizes of all their effects, memos and fetched objects.
#[derive(Debug, Default)]
pub(super) struct KeyRecords {
    of: HashMap<SubjectKey, KeyRecord>,
    effect_bytes: usize,
    memo_bytes: usize,
    fetched_bytes: usize,
}

impl KeyRecords {
    fn get(&self, key: &SubjectKey) -> Option<&KeyRecord> {
        self.of.get(key)
    }

    /// Changes the record of a key.
    fn change<T>(&mut self, key: &SubjectKey, change: impl FnOnce(&mut KeyRecord) -> T) -> T {
        if let Some(record) = self.of.get_mut(key) {
            let changed = change(record);
            if record.is_empty() {
                self.of.remove(key);
            }
            return changed;
        }
        let mut record = KeyRecord::default();
        let changed = change(&mut record);
        if !record.is_empty() {
            self.of.insert(key.clone(), record);
        }
        changed
    }

    /// How many times in a row the key's writes could not reach the cluster.
    pub fn unreachable_streak(&self, key: &SubjectKey) -> u32 {
        self.get(key).map_or(0, |record| record.unreachable_streak)
    }

    /// The key's writes could not reach the cluster. Returns how many times in a row that is.
    /// During an outage further failures tell nothing more about the key.
    pub fn count_unreachable(&mut self, key: &SubjectKey, is_outage: bool) -> u32 {
        self.change(key, |record| {
            if record.unreachable_streak == 0 || !is_outage {
                record.unreachable_streak += 1;
            }
            record.unreachable_streak
        })
    }

    /// A reconcile of the key has ended without having failed to reach the cluster.
    pub fn end_unreachable(&mut self, key: &SubjectKey) {
        self.change(key, |record| record.unreachable_streak = 0);
    }

    /// The key asks for a requeue after this delay. Returns after which delay it gets one.
    pub fn requeue(&mut self, key: &SubjectKey, delay: Duration) -> Duration {
        if delay >= REQUEUE_STREAK.max {
            self.end_requeues(key);
            return delay;
        }
        let streak = self.change(key, |record| {
            record.requeue_streak = record.requeue_streak.saturating_add(1);
            record.requeue_streak
        });
        delay.max(REQUEUE_STREAK.delay(streak))
    }

    /// The key has asked for no requeue.
    pub fn end_requeues(&mut self, key: &SubjectKey) {
        self.change(key, |record| record.requeue_streak = 0);
    }

    /// The API server has contradicted what the key had seen. Returns after which delay it runs
    /// again: none the first time. If it goes on, a watch is late, or the caches cannot take what
    /// the server has.
    pub fn count_contradiction(&mut self, key: &SubjectKey) -> Duration {
        let before = self.change(key, |record| {
            let before = record.contradictions;
            record.contradictions = before.saturating_add(1);
            before
        });
        CONTRADICTED.delay(before)
    }

    /// The key's outcome has been carried out.
    pub fn end_contradictions(&mut self, key: &SubjectKey) {
        self.change(key, |record| record.contradictions = 0);
    }

    /// Sets the last error of a key that is broken, or removes it.
    pub fn set_error(&mut self, key: &SubjectKey, error: Option<String>) {
        self.change(key, |record| record.error = error.map(String::into));
    }

    /// The last error of a broken key. Empty if the key is not broken.
    pub fn error(&self, key: &SubjectKey) -> &str {
        let record = self.get(key);
        let error = record.and_then(|record| record.error.as_deref());
        error.unwrap_or_default()
    }

    /// What became of the writes of the key's last outcome, which its next reconcile is told.
    /// Empty also if there was no room to keep it.
    pub fn effects(&self, key: &SubjectKey) -> &[Effect] {
        self.get(key).map_or(&[], |record| &record.effects)
    }

    /// Replaces the key's effects, with their texts shortened.
    pub fn set_effects(&mut self, key: &SubjectKey, mut effects: Vec<Effect>) {
        shorten(&mut effects);
        let others = self.effect_bytes - size(self.effects(key));
        let bytes = others + size(&effects);
        if bytes > MAX_EFFECT_BYTES {
            effects.clear();
        }
        self.effect_bytes = others + size(&effects);
        self.change(key, |record| record.effects = effects.into());
    }

    /// What the key's last outcome asked to be kept. `None` also if there was no room to keep it.
    pub fn memo(&self, key: &SubjectKey) -> Option<&Arc<str>> {
        self.get(key)?.memo.as_ref()
    }

    /// Replaces the key's memo.
    pub fn set_memo(&mut self, key: &SubjectKey, memo: Option<Arc<str>>) {
        let others = self.memo_bytes - memo_size(self.memo(key));
        let memo = memo.filter(|memo| others + memo.len() <= MAX_MEMO_BYTES);
        self.memo_bytes = others + memo_size(memo.as_ref());
        self.change(key, |record| record.memo = memo);
    }

    /// Sets what the key's next run is told of the objects that it has asked about. Returns whether
    /// there is room to keep it. If not, that run asks again.
    pub fn set_fetched(&mut self, key: &SubjectKey, fetched: FetchedObjects) -> bool {
        drop(self.take_fetched(key));
        let bytes = fetched.size();
        let has_room = self.fetched_bytes + bytes <= MAX_KEPT_BYTES;
        if has_room {
            self.fetched_bytes += bytes;
            let fetched = Some(Box::new(fetched));
            self.change(key, |record| record.fetched = fetched);
        }
        has_room
    }

    /// Takes what the key's next run is told of the objects that it has asked about.
    pub fn take_fetched(&mut self, key: &SubjectKey) -> FetchedObjects {
        if self.get(key).is_none() {
            return FetchedObjects::default();
        }
        let fetched = self.change(key, |record| record.fetched.take());
        self.fetched_bytes -= fetched_size(fetched.as_deref());
        fetched.map(|fetched| *fetched).unwrap_or_default()
    }

    /// Forgets the memos of all keys, and what was fetched for them.
    pub fn forget_memos(&mut self) {
        self.memo_bytes = 0;
        self.fetched_bytes = 0;
        self.of.retain(|_, record| {
            record.memo = None;
            record.fetched = None;
            !record.is_empty()
        });
    }

    /// Forgets that writes could not reach the cluster. Returns the keys whose writes could not.
    pub fn forget_unreachable(&mut self) -> Vec<SubjectKey> {
        let records = self.of.iter();
        let unreachable = records.filter(|(_, record)| record.unreachable_streak > 0);
        let keys: Vec<SubjectKey> = unreachable.map(|(key, _)| key.clone()).collect();
        keys.iter().for_each(|key| self.end_unreachable(key));
        keys
    }

    /// Forgets all keys but these.
    pub fn retain(&mut self, is_kept: impl Fn(&SubjectKey) -> bool) {
        for (_, record) in self.of.extract_if(|key, _| !is_kept(key)) {
            self.effect_bytes -= size(&record.effects);
            self.memo_bytes -= memo_size(record.memo.as_ref());
            self.fetched_bytes -= fetched_size(record.fetched.as_deref());
        }
    }

    pub fn forget(&mut self, key: &SubjectKey) {
        self.set_memo(key, None);
        if let Some(record) = self.of.remove(key) {
            self.effect_bytes -= size(&record.effects);
            self.fetched_bytes -= fetched_size(record.fetched.as_deref());
        }
    }
}

/// Bytes that the effects of one key take. Their kinds are shared with the manifest, and are not
/// counted.
fn size(effects: &[Effect]) -> usize {
    let of_texts = |effect: &Effect| {
        let text = effect.result.text().map_or(0, str::len);
        text + effect.key.namespace.len() + effect.key.name.len()
    };
    size_of_val(effects) + effects.iter().map(of_texts).sum::<usize>()
}

fn fetched_size(fetched: Option<&FetchedObjects>) -> usize {
    fetched.map_or(0, FetchedObjects::size)
}

fn memo_size(memo: Option<&Arc<str>>) -> usize {
    memo.map_or(0, |memo| memo.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::ReadFailure;
    use crate::model::key::{Kind, ObjectKey};
    use crate::model::outcome::{ActionResult, EffectVerb};
    use crate::queue::Time;
    use crate::reads::fetched::UnwatchedObject;

    fn key(number: usize) -> SubjectKey {
        SubjectKey {
            object: ObjectKey::new("default", &number.to_string()),
            ..SubjectKey::singleton()
        }
    }

    fn effect(result: ActionResult) -> Effect {
        Effect {
            kind: Kind::new("", "v1", "Pod"),
            key: key(0).object,
            verb: EffectVerb::Event,
            result,
        }
    }

    #[test]
    fn effects_beyond_the_limit_are_not_kept_until_others_go() {
        let mut all = KeyRecords::default();
        let refused = || vec![effect(ActionResult::Forbidden("x".repeat(100))); 100];
        for number in 0..100 {
            all.set_effects(&key(number), refused());
        }
        assert_eq!(all.effects(&key(0)).len(), 100);
        assert!(all.effects(&key(99)).is_empty());
        assert!(all.effect_bytes <= MAX_EFFECT_BYTES);
        (0..100).for_each(|number| all.forget(&key(number)));
        assert_eq!(all.effect_bytes, 0);
        all.set_effects(&key(98), refused());
        all.set_effects(&key(99), refused());
        all.retain(|kept| *kept == key(99));
        assert!(all.effects(&key(98)).is_empty());
        assert_eq!(all.effects(&key(99)).len(), 100);
        let done = effect(ActionResult::Done(Some("7".into())));
        all.set_effects(&key(99), vec![done.clone()]);
        assert_eq!(all.effects(&key(99)), [done]);
        all.set_effects(&key(99), vec![]);
        assert_eq!((all.effect_bytes, all.of.len()), (0, 0));
    }

    #[test]
    fn fetched_objects_beyond_the_limit_are_not_kept() {
        let mut all = KeyRecords::default();
        let fetched = || {
            let mut fetched = FetchedObjects::default();
            let asked = UnwatchedObject::of(Kind::new("a.b", "v1", "C"), key(0).object);
            let why = ReadFailure::NoAnswer("x".repeat(MAX_KEPT_BYTES / 2 - 1024));
            fetched.add(&asked, Err(why), Time::ZERO);
            fetched
        };
        let kept = [0, 1, 2].map(|number| all.set_fetched(&key(number), fetched()));
        assert_eq!(kept, [true, true, false]);
        assert_eq!(all.take_fetched(&key(0)).len(), 1);
        assert_eq!(all.take_fetched(&key(0)).len(), 0, "it is told once");
        assert_eq!(all.take_fetched(&key(2)).len(), 0, "there was no room");
        all.set_fetched(&key(1), fetched());
        all.forget_memos();
        assert_eq!((all.fetched_bytes, all.of.len()), (0, 0));
        all.set_fetched(&key(1), fetched());
        all.forget(&key(1));
        all.set_fetched(&key(1), fetched());
        all.retain(|_| false);
        assert_eq!((all.fetched_bytes, all.of.len()), (0, 0));
    }

    #[test]
    fn memos_beyond_the_limit_are_not_kept_until_others_go() {
        let mut all = KeyRecords::default();
        let memo = |length: usize| Some(Arc::from("x".repeat(length)));
        all.set_memo(&key(0), memo(1000));
        all.set_memo(&key(1), memo(25));
        assert_eq!((all.memo(&key(1)), all.memo_bytes), (None, 1000));
        all.set_memo(&key(1), memo(24));
        assert_eq!(all.memo_bytes, MAX_MEMO_BYTES);
        all.set_memo(&key(0), memo(1));
        all.forget(&key(1));
        assert_eq!((all.memo_bytes, all.of.len()), (1, 1));
        all.forget_memos();
        assert_eq!((all.memo_bytes, all.of.len()), (0, 0));
    }

    #[test]
    fn a_key_with_nothing_to_remember_has_no_record() {
        let mut all = KeyRecords::default();
        all.change(&key(0), |record| record.requeue_streak = 0);
        assert!(all.get(&key(0)).is_none());
        all.change(&key(0), |record| record.unreachable_streak = 2);
        all.change(&key(1), |record| record.error = Some("e".into()));
        assert_eq!(all.forget_unreachable(), [key(0)]);
        assert!(all.get(&key(0)).is_none() && all.get(&key(1)).is_some());
        all.change(&key(1), |record| record.error = None);
        assert!(all.get(&key(1)).is_none());
    }
}
