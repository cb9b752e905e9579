//! Where the objects of a list come from, and where a change comes from.
//!
//! A list of a pattern is one read, whatever the number of kinds: 50,000 keys that each ask all of
//! sixty kinds would otherwise record three million reads. So a change of an informer concerns the
//! lists of that informer and those of the patterns that include its kind.

use std::sync::Arc;

use super::read::{Filter, Read};
use crate::access::scope::{KindScope, PatternScope, ScopePart};
use crate::cache::snapshot::InformerId;
use crate::model::key::Kind;
use crate::model::object::{IndexId, ViewId};

/// Where the objects of a list come from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// One informer.
    Informer(InformerId),
    /// The informers of a pattern's kinds that are served and listed. The pattern is named by its
    /// group, `*` for all groups.
    Pattern(Arc<str>),
}

impl Source {
    /// All kinds of a pattern.
    pub(crate) fn of_pattern(pattern: &Kind) -> Self {
        Self::Pattern(pattern.group.clone())
    }
}

/// Where a change comes from, as one plugin sees it.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The informer that has brought it.
    pub informer: InformerId,
    /// The view through which the plugin sees the informer's objects.
    pub view: ViewId,
    /// What the informer's kind is in lists of patterns. `None`: no pattern of the plugin includes
    /// it.
    pub of_pattern: Option<&'a PatternPart>,
}

impl<'a> Origin<'a> {
    /// An informer of a kind that no pattern of the plugin includes.
    pub fn of(informer: InformerId, view: ViewId) -> Self {
        Self {
            informer,
            view,
            of_pattern: None,
        }
    }

    /// The sources of the lists that may have an object of the informer.
    pub(crate) fn sources(self) -> impl Iterator<Item = Source> + use<'a> {
        let own = std::iter::once(Source::Informer(self.informer));
        own.chain(self.patterns().cloned())
    }

    /// Those of them that are patterns.
    pub(crate) fn patterns(self) -> impl Iterator<Item = &'a Source> {
        let patterns = self.of_pattern.map(|part| &part.patterns);
        patterns.into_iter().flatten()
    }

    /// The informer's id of an index that a read names. `None`: the informer has no such index.
    pub(super) fn index(self, source: &Source, index: IndexId) -> Option<IndexId> {
        match source {
            Source::Informer(_) => Some(index),
            Source::Pattern(_) => *self.of_pattern?.indexes.get(index)?,
        }
    }
}

/// What an informer is in lists of patterns.
#[derive(Clone, Debug)]
pub struct PatternPart {
    /// Every pattern that includes the kind.
    patterns: [Source; 2],
    /// The informer's ids of the indexes, by their positions among those of the plugin's pattern.
    indexes: Vec<Option<IndexId>>,
}

impl PatternPart {
    /// `pattern`: the plugin's pattern that includes the kind. `scope`, `part`: where the plugin
    /// reads the kind, perhaps by its name.
    pub(crate) fn new(
        pattern: &PatternScope,
        kind: &Kind,
        scope: &KindScope,
        part: &ScopePart,
    ) -> Self {
        let mut indexes = vec![None; pattern.indexes.len()];
        for (name, position) in &pattern.indexes {
            let place = scope.indexes.get(name);
            let index = place.and_then(|place| part.subscribed.indexes.get(*place));
            if let Some(slot) = indexes.get_mut(*position) {
                *slot = index.copied();
            }
        }
        let all = Source::Pattern(Kind::any().group);
        Self {
            patterns: [all, Source::Pattern(kind.group.clone())],
            indexes,
        }
    }

    /// The part of a list of a pattern that this informer brings. `None` for other reads, and if
    /// the informer brings none of it.
    pub(crate) fn part_of(&self, read: &Read, informer: InformerId) -> Option<Read> {
        let Read::List(source, namespace, filter) = read else {
            return None;
        };
        if !self.patterns.contains(source) {
            return None;
        }
        let filter = match filter {
            Filter::Index(index, value) => {
                Filter::Index((*self.indexes.get(*index)?)?, value.clone())
            }
            other => other.clone(),
        };
        let source = Source::Informer(informer);
        Some(Read::List(source, namespace.clone(), filter))
    }
}
