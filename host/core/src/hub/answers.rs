//! What the API server has answered about one object, and what of it a cache can take over.

use crate::cache::snapshot::Snapshot;
use crate::cache::{Cache, Change, Delta, Unreadable};
use crate::hub::fetch::Question;
use crate::model::key::{ObjectKey, ResourceVersion};
use crate::model::object::Object;

/// A question whose answer has come, and the caches that it is about.
pub(super) struct Answered<'a> {
    pub question: &'a Question,
    pub snapshot: &'a mut Snapshot,
}

/// What an answer tells about an object that a key has written.
pub(super) enum Known {
    /// Nothing, or nothing that is still valid.
    Nothing,
    /// Everything that can be known, and the cache shows it.
    All,
    /// The server has reached this version of the object. Once the informer has reached it too, the
    /// cache shows the current state.
    Version(ResourceVersion),
}

/// The result of a fetch.
enum Found {
    Object(Object),
    /// There is no such object, or the informer does not select it.
    Nothing,
    /// The object exists, but only its name can be read. Holds the reason.
    Unreadable(String),
}

impl Answered<'_> {
    fn cache(&self) -> &Cache {
        &self.snapshot.informers[self.question.informer]
    }

    /// Whether the cache has no such object now.
    pub fn is_absent(&self) -> bool {
        self.cache().version_of(&self.question.key).is_none()
    }

    /// Whether the cache still shows of the object what it showed when the question was asked. An
    /// absent object may have come and gone since, which is ruled out only if nothing at all has
    /// come to the cache.
    pub fn is_as_asked(&self) -> bool {
        let (question, cache) = (self.question, self.cache());
        let is_same = cache.version_of(&question.key) == question.cached.as_ref();
        let is_still = question.cached.is_some() || *cache.resource_version() == question.at;
        cache.users() > 0 && is_same && is_still
    }

    /// Puts the API server's state of the object into the cache, if the cache shows something else
    /// that is not newer. Returns what changed, and whether this was a repair: the cache had
    /// already come past that state, so it should have shown it.
    pub fn put_right(self, found: Option<&str>) -> (Option<Change>, bool) {
        let Question { kind, key, uid, .. } = self.question;
        let Some(cache) = self.snapshot.cache_mut(self.question.informer) else {
            return (None, false);
        };
        let repairs = cache.repairs();
        let change = match found {
            None => cache.repair_gone(key, uid.as_deref()),
            Some(json) => Object::parse(kind, json, cache.schema())
                .ok()
                .filter(|object| object.key() == key.parts())
                .filter(|object| cache.informer_key().selects(object, json))
                .and_then(|object| cache.repair(object)),
        };
        let is_repair = cache.repairs() > repairs;
        (change, is_repair)
    }

    /// Stores the fetched state of the object in the cache. Returns what changed, and how far that
    /// answers the question.
    pub fn overlay(self, found: Option<&str>) -> (Vec<Change>, Known) {
        let nothing = |known| (Vec::new(), known);
        let question = self.question;
        let Question { kind, key, .. } = question;
        let Some(cache) = self.snapshot.cache_mut(question.informer) else {
            return nothing(Known::All);
        };
        let state = match found.map(|json| (json, Object::parse(kind, json, cache.schema()))) {
            None => Found::Nothing,
            Some((json, Ok(object))) if object.key() == key.parts() => {
                match cache.informer_key().selects(&object, json) {
                    true => Found::Object(object),
                    // Only the server knows what its field selectors select, so the watch must
                    // decide.
                    false if cache.informer_key().labels.matches(&object) => {
                        let version = object.resource_version().clone();
                        return nothing(Known::Version(version));
                    }
                    // For this informer the object counts as gone, but the cache already has a
                    // newer state.
                    false if cache.is_newer_than(&object) => return nothing(Known::All),
                    false => Found::Nothing,
                }
            }
            Some((json, Err(error))) if is_of(json, key) => Found::Unreadable(error.to_string()),
            Some(_) => return nothing(Known::Nothing),
        };
        let has_moved = cache.version_of(key) != question.cached.as_ref();
        let changes = match state {
            // The object is unreadable in the cache, in an unknown version, which may be newer than
            // the answer.
            Found::Object(_)
                if cache.unreadable().contains_key(key)
                    && *cache.resource_version() != question.at =>
            {
                return nothing(Known::Nothing);
            }
            Found::Object(object) => cache.apply(Delta::Read(object)),
            // The watch has brought something since, and it is not known which of the two is older.
            // The watch will show the write, or the question is asked again.
            _ if has_moved => return nothing(Known::Nothing),
            Found::Nothing => {
                let gone = cache.overlay_gone(key, question.uid.as_deref());
                gone.into_iter().collect()
            }
            Found::Unreadable(reason) => cache.apply(Delta::Unreadable(Unreadable {
                key: key.clone(),
                resource_version: ResourceVersion::default(),
                reason,
            })),
        };
        (changes, Known::All)
    }
}

/// Whether a text that cannot be parsed as an object at least has this key's name and namespace.
fn is_of(json: &str, key: &ObjectKey) -> bool {
    let object: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    let text = |path| object.pointer(path).and_then(serde_json::Value::as_str);
    text("/metadata/name") == Some(&*key.name)
        && text("/metadata/namespace").unwrap_or_default() == &*key.namespace
}
