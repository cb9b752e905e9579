//! The results of the actions of each key's last outcome, which the key's next reconcile is given.

use std::collections::HashMap;

use crate::model::key::ObjectKey;
use crate::model::outcome::{ActionResult, shorten};

/// Maximum memory of the results of one plugin in bytes. A plugin can ask for a hundred Events for
/// each key that all are refused, and their results would take several times the memory of the
/// objects.
const MAX_BYTES: usize = if cfg!(test) { 64 << 10 } else { 64 << 20 };

/// See the module's documentation. Keys whose last outcome had no actions are not in it.
/// Invariant: `bytes` is the sum of the sizes of what it holds.
#[derive(Debug, Default)]
pub(super) struct Results {
    of: HashMap<ObjectKey, Box<[ActionResult]>>,
    bytes: usize,
}

impl Results {
    /// The results of the key's last outcome. Empty also if there was no room to keep them.
    pub fn get(&self, key: &ObjectKey) -> &[ActionResult] {
        self.of.get(key).map_or(&[], |results| results)
    }

    /// Replaces the key's results, with their texts shortened.
    pub fn set(&mut self, key: &ObjectKey, mut results: Vec<ActionResult>) {
        self.remove(key);
        shorten(&mut results);
        let bytes = size(&results);
        if !results.is_empty() && self.bytes + bytes <= MAX_BYTES {
            self.bytes += bytes;
            self.of.insert(key.clone(), results.into());
        }
    }

    pub fn remove(&mut self, key: &ObjectKey) {
        if let Some(results) = self.of.remove(key) {
            self.bytes -= size(&results);
        }
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Bytes that the results of one key take.
fn size(results: &[ActionResult]) -> usize {
    let texts = results.iter().filter_map(ActionResult::text);
    size_of::<ObjectKey>() + size_of_val(results) + texts.map(str::len).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_beyond_the_limit_are_not_kept_until_others_go() {
        let mut all = Results::default();
        let key = |number: usize| ObjectKey::new("default", &number.to_string());
        let refused = || vec![ActionResult::Forbidden("x".repeat(100)); 100];
        for number in 0..100 {
            all.set(&key(number), refused());
        }
        assert_eq!(all.get(&key(0)).len(), 100);
        assert!(all.get(&key(99)).is_empty());
        assert!(all.bytes <= MAX_BYTES);
        (0..100).for_each(|number| all.remove(&key(number)));
        assert_eq!(all.bytes, 0);
        all.set(&key(99), refused());
        assert_eq!(all.get(&key(99)).len(), 100);
        all.set(&key(99), vec![ActionResult::Done(Some("name".into()))]);
        assert_eq!(all.get(&key(99)), [ActionResult::Done(Some("name".into()))]);
        all.set(&key(99), vec![]);
        assert_eq!(all.bytes, 0);
    }
}
