//! A frozen view of all caches at one instant.

use std::ops::Index;
use std::sync::{Arc, LazyLock};

use crate::cache::Cache;
use crate::model::informer_key::InformerKey;
use crate::model::key::Kind;

/// Identifies an informer: its place in a [`Snapshot`], and how many informers had the place before
/// it. The place of an informer that has ended is used again, because kinds of patterns may come
/// and go as often as guests change their questions. The number is not: who still has it finds
/// nothing with it, and never another informer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InformerId {
    place: u32,
    generation: u32,
}

impl InformerId {
    /// The informer that was the first at this place.
    pub const fn first_at(place: u32) -> Self {
        Self {
            place,
            generation: 0,
        }
    }
}

/// A frozen view of every informer's cache at one instant of the host. Cloning copies one pointer.
///
/// It is not a causal cut: each informer's watch lags behind the server on its own.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// How many changes the host had stored when this snapshot was taken.
    pub sequence: u64,
    /// The caches.
    pub informers: Arc<Informers>,
}

impl Snapshot {
    /// One cache, for changing it, unless the informer has ended. Copies the parts that a clone of
    /// this snapshot still shares.
    pub(crate) fn cache_mut(&mut self, informer: InformerId) -> Option<&mut Cache> {
        self.informers.get(informer)?;
        let place = Arc::make_mut(&mut self.informers).place_mut(informer)?;
        place.cache.as_mut().map(Arc::make_mut)
    }
}

/// The caches of all informers.
#[derive(Clone, Debug, Default)]
pub struct Informers {
    places: Vec<Place>,
    /// No place before this one is free.
    first_free: usize,
}

/// The place of an informer.
#[derive(Clone, Debug, Default)]
struct Place {
    /// How many informers have had this place and ended.
    generation: u32,
    /// `None`: the place is free.
    cache: Option<Arc<Cache>>,
}

/// What there is to read of an informer that has ended.
static ENDED: LazyLock<Arc<Cache>> = LazyLock::new(|| {
    let nothing = InformerKey::all(Kind::new("", "", ""));
    Arc::new(Cache::new(nothing))
});

impl Informers {
    /// The cache of an informer, unless the informer has ended.
    pub fn get(&self, informer: InformerId) -> Option<&Arc<Cache>> {
        let place = self.places.get(index(informer.place))?;
        let cache = place.cache.as_ref();
        cache.filter(|_| place.generation == informer.generation)
    }

    /// All caches, ordered by the informers' places.
    pub fn iter(&self) -> impl Iterator<Item = (InformerId, &Arc<Cache>)> {
        self.places.iter().zip(0..).filter_map(|(place, number)| {
            let informer = InformerId {
                place: number,
                generation: place.generation,
            };
            Some((informer, place.cache.as_ref()?))
        })
    }

    /// How many places there are, those of informers that have ended included.
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// Adds an informer, in the place of one that has ended if there is such a place.
    pub(crate) fn add(&mut self, cache: Cache) -> InformerId {
        let is_free = |number: &usize| self.places[*number].cache.is_none();
        let free = (self.first_free..self.places.len()).find(is_free);
        let number = free.unwrap_or(self.places.len());
        let generation = free.map_or(0, |free| self.places[free].generation);
        self.first_free = number + 1;
        let informer = InformerId {
            place: u32::try_from(number).expect("each place has a cache, so they are fewer"),
            generation,
        };
        self.put(informer, Arc::new(cache));
        informer
    }

    /// Puts the cache of an informer into its place. Returns what was there.
    pub(crate) fn put(&mut self, informer: InformerId, cache: Arc<Cache>) -> Option<Arc<Cache>> {
        let number = index(informer.place);
        if number >= self.places.len() {
            self.places.resize_with(number + 1, Place::default);
        }
        let place = &mut self.places[number];
        place.generation = informer.generation;
        place.cache.replace(cache)
    }

    /// Ends an informer. Returns its cache.
    pub(crate) fn end(&mut self, informer: InformerId) -> Option<Arc<Cache>> {
        let place = self.place_mut(informer)?;
        let cache = place.cache.take();
        place.generation = place.generation.wrapping_add(1);
        self.first_free = self.first_free.min(index(informer.place));
        cache
    }

    fn place_mut(&mut self, informer: InformerId) -> Option<&mut Place> {
        let place = self.places.get_mut(index(informer.place))?;
        (place.generation == informer.generation).then_some(place)
    }
}

/// The caches of informers that were added in this order.
impl FromIterator<Cache> for Informers {
    fn from_iter<T: IntoIterator<Item = Cache>>(caches: T) -> Self {
        let mut informers = Self::default();
        caches.into_iter().for_each(|cache| {
            informers.add(cache);
        });
        informers
    }
}

/// The cache of an informer. One that has ended has no objects, and nobody uses it. Panics if no
/// informer ever had the place.
impl Index<InformerId> for Informers {
    type Output = Arc<Cache>;

    fn index(&self, informer: InformerId) -> &Arc<Cache> {
        let place = &self.places[index(informer.place)];
        let cache = place.cache.as_ref();
        let is_same = place.generation == informer.generation;
        cache.filter(|_| is_same).unwrap_or(&ENDED)
    }
}

fn index(place: u32) -> usize {
    usize::try_from(place).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(kind: &str) -> Cache {
        Cache::new(InformerKey::all(Kind::new("", "v1", kind)))
    }

    #[test]
    fn a_place_is_used_again_and_the_number_of_who_had_it_finds_nothing() {
        let mut informers: Informers = ["A", "B"].map(cache).into_iter().collect();
        let (a, b) = (InformerId::first_at(0), InformerId::first_at(1));
        assert_eq!(&*informers[b].kind().kind, "B");
        assert!(informers.end(a).is_some() && informers.end(a).is_none());
        assert!(informers.get(a).is_none() && informers[a].is_empty());
        let c = informers.add(cache("C"));
        assert_eq!((informers.places(), c == a), (2, false));
        let kinds = [a, c].map(|informer| &*informers[informer].kind().kind);
        assert_eq!(
            kinds,
            ["", "C"],
            "the number that has ended is not that of C"
        );
        assert!(informers.get(a).is_none() && informers.end(a).is_none());
        let mut snapshot = Snapshot {
            sequence: 0,
            informers: Arc::new(informers),
        };
        assert!(snapshot.cache_mut(a).is_none() && snapshot.cache_mut(c).is_some());
        let all: Vec<InformerId> = snapshot.informers.iter().map(|(id, _)| id).collect();
        assert_eq!(all, [c, b]);
    }
}
