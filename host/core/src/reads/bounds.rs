//! Limits how much may be recorded for one plugin.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use crate::model::selector::LabelSelector;
use crate::model::subject_key::SubjectKey;
use crate::reads::read::{Filter, Read};

/// The maximum number of bytes that the reads of one plugin take, each read counted once for each
/// key. This is some 350,000 reads with names of the usual length.
const BYTES: usize = 64 << 20;
/// Bytes of one read besides its texts: its entries in the maps.
const OVERHEAD: usize = 140;
/// `UNANCHORED_OF_KEY` limits the label reads of one key that have no label which their objects
/// must have. `UNANCHORED` limits the conditions and values in such reads of all keys. Each change
/// is compared with each of these reads, and the hub can do nothing else meanwhile.
const UNANCHORED_OF_KEY: usize = 64;
const UNANCHORED: usize = 4_096;
/// The maximum number of label reads that the same label leads to.
pub(super) const OF_LABEL: usize = 4_096;

/// What is recorded for a plugin.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) reads: usize,
    bytes: usize,
    /// Conditions and values in label reads without an anchor. Each read is counted once, however
    /// many keys make it.
    pub(super) unanchored: usize,
    /// The keys of which the host assumes that they have read more than they did.
    pub(super) coarse: HashSet<Arc<SubjectKey>>,
}

fn bytes(read: &Read) -> usize {
    OVERHEAD + read.size()
}

fn unanchored(read: &Read) -> Option<&LabelSelector> {
    match read {
        Read::List(_, _, Filter::Labels(selector)) => {
            Some(selector).filter(|selector| selector.anchor().is_none())
        }
        _ => None,
    }
}

/// Widens a read to all objects of its kind, in its namespace or in all namespaces. A read of what
/// was applied stays as it is: it is no question of the guest, but about an object that the plugin
/// may write.
pub(super) fn widened(read: Read, is_everywhere: bool) -> Read {
    match read {
        Read::List(source, namespace, _) => Read::List(
            source,
            namespace.filter(|_| !is_everywhere),
            Filter::Everything,
        ),
        applied @ Read::Applied(..) => applied,
        Read::Object(informer, _) => Read::list(informer, None, Filter::Everything),
    }
}

impl Held {
    pub(super) fn add(&mut self, read: &Read) {
        self.reads += 1;
        self.bytes += bytes(read);
    }

    pub(super) fn remove(&mut self, read: &Read) {
        self.reads -= 1;
        self.bytes -= bytes(read);
    }

    /// Returns the reads to record for a key that made these reads, and whether they are wider than
    /// what it read.
    pub(super) fn bounded(&self, reads: BTreeSet<Read>) -> (BTreeSet<Read>, bool) {
        let bytes: usize = reads.iter().map(bytes).sum();
        if self.bytes + bytes > BYTES {
            let all = reads.into_iter().map(|read| widened(read, true));
            return (all.collect(), true);
        }
        let found = reads.iter().filter_map(unanchored);
        let (count, comparisons) = found.fold((0, 0), |(count, comparisons), selector| {
            (count + 1, comparisons + selector.comparisons())
        });
        if count == 0 || count <= UNANCHORED_OF_KEY && self.unanchored + comparisons <= UNANCHORED {
            return (reads, false);
        }
        let widen = |read: Read| match unanchored(&read) {
            Some(_) => widened(read, false),
            None => read,
        };
        (reads.into_iter().map(widen).collect(), true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ReadSets;
    use super::*;
    use crate::cache::snapshot::InformerId;
    use crate::model::key::ObjectKey;
    use crate::model::selector::Requirement;
    use crate::reads::source::Source;

    const PODS: InformerId = InformerId::first_at(7);
    const OTHER: InformerId = InformerId::first_at(3);

    fn absent(number: usize) -> Read {
        let requirements = vec![Requirement::Absent(format!("k{number}"))];
        let filter = Filter::Labels(LabelSelector { requirements });
        Read::list(PODS, Some("default".into()), filter)
    }

    fn key(number: usize) -> SubjectKey {
        SubjectKey {
            object: object(number),
            ..SubjectKey::singleton()
        }
    }

    fn object(number: usize) -> ObjectKey {
        ObjectKey::new("default", &number.to_string())
    }

    fn everything(namespace: Option<&str>) -> Read {
        Read::list(PODS, namespace.map(Arc::from), Filter::Everything)
    }

    #[test]
    fn a_key_with_many_selectors_that_no_label_leads_to_has_read_the_namespace() {
        let mut sets = ReadSets::default();
        sets.set(&key(0), (0..UNANCHORED_OF_KEY).map(absent).collect());
        assert_eq!((sets.len(), sets.coarse()), (UNANCHORED_OF_KEY, 0));
        let object = Read::Object(OTHER, object(1));
        let reads = (0..10_000).map(absent).chain([object.clone()]);
        sets.set(&key(0), reads.collect());
        let found: Vec<Read> = sets.of(&key(0)).cloned().collect();
        assert_eq!(found, [object, everything(Some("default"))]);
        assert_eq!(sets.coarse(), 1);
        sets.clear(&key(0));
        assert_eq!((sets.len(), sets.coarse()), (0, 0));
    }

    #[test]
    fn all_keys_together_have_some_thousand_of_them() {
        let mut sets = ReadSets::default();
        for number in 0..10_000 {
            sets.set(&key(number), [absent(number)].into());
        }
        assert_eq!(sets.held.unanchored, UNANCHORED);
        assert_eq!(sets.coarse(), 10_000 - UNANCHORED);
        (0..10_000).for_each(|number| sets.clear(&key(number)));
        assert_eq!((sets.held.unanchored, sets.held.bytes), (0, 0));
    }

    #[test]
    fn beyond_the_memory_of_a_plugin_a_key_has_read_all_of_its_kinds() {
        let mut sets = ReadSets::default();
        let name = "n".repeat(250);
        let names = |number: usize| {
            let name = &name;
            (0..10_000).map(move |read| {
                Read::Object(PODS, ObjectKey::new(name, &format!("{number}-{read}")))
            })
        };
        for number in 0..100 {
            sets.set(&key(number), names(number).collect());
        }
        assert!(sets.held.bytes <= BYTES, "{}", sets.held.bytes);
        assert!(sets.coarse() > 50);
        let last: Vec<&Read> = sets.of(&key(99)).collect();
        assert_eq!(last, [&everything(None)]);
    }

    #[test]
    fn fifty_thousand_keys_that_list_a_pattern_are_within_the_memory_of_a_plugin() {
        let mut sets = ReadSets::default();
        for number in 0..50_000 {
            let uid = format!("22222222-2222-3333-4444-{number:012}");
            let all = Source::Pattern("*".into());
            let read = Read::List(all, None, Filter::Index(0, uid.into()));
            sets.set(&key(number), [read].into());
        }
        assert_eq!((sets.len(), sets.coarse()), (50_000, 0));
        assert!(sets.held.bytes < BYTES / 4, "{}", sets.held.bytes);
        let last = key(49_999);
        let widened = sets
            .of(&last)
            .next()
            .map(|read| widened(read.clone(), true));
        let all = Source::Pattern("*".into());
        assert_eq!(widened, Some(Read::List(all, None, Filter::Everything)));
    }

    #[test]
    fn one_label_leads_to_some_thousand_reads() {
        let mut sets = ReadSets::default();
        let linux = |number: usize| {
            let requirements = vec![
                Requirement::Equals("os".into(), "linux".into()),
                Requirement::Absent(format!("k{number}")),
            ];
            let filter = Filter::Labels(LabelSelector { requirements });
            Read::list(PODS, Some("default".into()), filter)
        };
        for number in 0..OF_LABEL + 10 {
            sets.set(&key(number), [linux(number)].into());
        }
        assert_eq!(sets.coarse(), 10);
        sets.join(&key(OF_LABEL), [Read::Object(OTHER, object(1))].into());
        assert_eq!(sets.coarse(), 10, "what it asks besides makes it no finer");
    }

    #[test]
    fn what_was_applied_is_remembered_whatever_else_is_not() {
        let mut sets = ReadSets::default();
        let applied = Read::Applied(PODS, object(1), crate::model::object::Side::Main);
        let name = "n".repeat(250);
        let names =
            (0..300_000).map(|read| Read::Object(PODS, ObjectKey::new(&name, &read.to_string())));
        sets.set(&key(0), names.chain([applied.clone()]).collect());
        let found: Vec<&Read> = sets.of(&key(0)).collect();
        assert_eq!(found.len(), 2);
        assert!(found.contains(&&applied) && found.contains(&&everything(None)));
    }
}
