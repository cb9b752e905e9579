//! Reads by patterns: kinds that are listed once they are asked for, and the kinds themselves.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::access::scope::{KindScope, PatternKind, PatternScope, Scope};
use crate::model::key::Kind;
use crate::model::object::Object;
use crate::model::query::ListFilter;
use crate::model::served_kind::ServedKind;
use crate::reads::error::ReadError;
use crate::reads::read::{Filter, Read};
use crate::reads::source::Source;

use super::{
    BYTES_PER_FUEL, FUEL_PER_OBJECT, FUEL_PER_READ, ListPart, Reader, check_selector, resolve,
    spend,
};

/// Fuel for a read that is denied: its error is made into a text, and crosses to the guest.
const FUEL_PER_DENIAL: u64 = 20_000;

/// A kind that the cluster serves, as a plugin is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownKind {
    /// What discovery says.
    pub served: ServedKind,
    /// Why its objects cannot be read now, if the host has tried in vain.
    pub unavailable: Option<String>,
}

impl Reader {
    /// Where a kind is read. `None`: it is read by a pattern, and the cluster does not serve it.
    pub(super) fn scope_of<'a>(
        &mut self,
        scope: &'a Scope,
        kind: &Kind,
    ) -> Result<Option<&'a KindScope>, ReadError> {
        if let Some(named) = scope.kinds.get(kind) {
            return Ok(Some(named));
        }
        if kind.is_pattern() {
            return Err(ReadError::Pattern(kind.clone()));
        }
        let (Some(pattern), Some(served)) = (scope.pattern_of(kind), &scope.served) else {
            return Err(self.denied(scope, kind));
        };
        let served = served.informer;
        spend(&mut self.fuel, FUEL_PER_READ)?;
        let key = ServedKind::key_of(kind);
        // The keys of a kind go with it, whatever they have read.
        if !self.is_own_kind(kind) {
            self.record(Read::Object(served, key.clone()))?;
        }
        let found = self.snapshot.informers[served].get(key.parts());
        let Some(found) = found.and_then(|object| ServedKind::of_object(object.json())) else {
            return Ok(None);
        };
        let listed = self.listed_kind(pattern, &found);
        // Its list is waited for, so its informer must not end as one that nobody reads.
        if let Err(ReadError::Unavailable { .. }) = listed
            && let Some(informer) = pattern.kind(kind).and_then(PatternKind::informer)
        {
            self.record(Read::list(informer, None, Filter::Everything))?;
        }
        listed.map(Some)
    }

    fn is_own_kind(&self, kind: &Kind) -> bool {
        let subject = self.subject.as_ref();
        subject.is_some_and(|subject| subject.kind == *kind)
    }

    /// The error for a kind that the plugin may not read.
    fn denied(&mut self, scope: &Scope, kind: &Kind) -> ReadError {
        if let Err(exhausted) = spend(&mut self.fuel, FUEL_PER_DENIAL) {
            return exhausted;
        }
        let mut ungranted = scope.ungranted.iter();
        let is_asked = ungranted.any(|asked| asked == kind || asked.includes(kind));
        let denied = match is_asked {
            true => ReadError::NotGranted(kind.clone()),
            false => ReadError::Denied(kind.clone()),
        };
        self.note_denied(&denied);
        denied
    }

    /// Where a served kind of a pattern is read, once it is listed. Until then it is noted as
    /// unseen, and what the reconcile decides does not count.
    fn listed_kind<'a>(
        &mut self,
        pattern: &'a PatternScope,
        served: &ServedKind,
    ) -> Result<&'a KindScope, ReadError> {
        let kind = &served.kind;
        if let Some(reason) = unavailable(pattern, served, |kind| self.is_kind_listed(kind)) {
            return Err(ReadError::Unavailable {
                kind: kind.clone(),
                reason,
            });
        }
        let known = pattern.kind(kind).filter(|known| known.kind == *kind);
        match known.map(|known| &known.scope) {
            Some(scope) if self.is_kind_listed(scope) => Ok(scope),
            _ => {
                self.unseen.insert(kind.clone());
                Err(ReadError::NotYet(kind.clone()))
            }
        }
    }

    /// Why lists of a pattern leave a listed kind out, if they do.
    fn unreadable_of(&self, pattern: &PatternScope, kind: &Kind) -> Option<String> {
        let mut parts = pattern.kind(kind)?.scope.parts.iter();
        parts.find_map(|part| {
            let (key, reason) = self.cache(part).unreadable().first_key_value()?;
            Some(format!("{key} cannot be read: {reason}"))
        })
    }

    fn is_kind_listed(&self, scope: &KindScope) -> bool {
        scope.parts.iter().all(|part| self.is_listed(part))
    }

    /// The kinds that the cluster serves and that a pattern includes, or the one kind that is
    /// named, ordered by group and kind. They, and which of them cannot be listed, count as read.
    pub fn kinds(&mut self, pattern: &Kind) -> Result<Vec<KnownKind>, ReadError> {
        spend(&mut self.fuel, FUEL_PER_READ)?;
        let scope = self.scope.clone();
        let of_pattern = self.readable_pattern(&scope, pattern)?;
        self.record_kinds(&scope, pattern)?;
        let known = self.served(&scope, pattern)?;
        let known = known.into_iter().map(|served| {
            let why = unavailable(of_pattern, &served, |scope| self.is_kind_listed(scope));
            KnownKind {
                unavailable: why.or_else(|| self.unreadable_of(of_pattern, &served.kind)),
                served,
            }
        });
        Ok(known.collect())
    }

    /// The pattern that allows reads of this one, or of this kind.
    fn readable_pattern<'a>(
        &mut self,
        scope: &'a Scope,
        pattern: &Kind,
    ) -> Result<&'a PatternScope, ReadError> {
        let mut patterns = scope.patterns.iter();
        let found = patterns.find(|scope| scope.pattern.includes(pattern));
        found.ok_or_else(|| self.denied(scope, pattern))
    }

    /// Records which kinds the cluster serves, as far as a pattern includes them.
    fn record_kinds(&mut self, scope: &Scope, pattern: &Kind) -> Result<(), ReadError> {
        let Some(informer) = scope.served.as_ref().map(|part| part.informer) else {
            return Ok(());
        };
        spend(&mut self.fuel, FUEL_PER_READ)?;
        self.record(match pattern.is_pattern() {
            true => Read::list(informer, group_of(pattern), Filter::Everything),
            false => Read::Object(informer, ServedKind::key_of(pattern)),
        })
    }

    /// The kinds of a pattern whose objects are in no namespace.
    pub(super) fn without_namespaces(
        &mut self,
        scope: &Scope,
        pattern: &Kind,
    ) -> Result<BTreeSet<Kind>, ReadError> {
        let served = self.served(scope, pattern)?.into_iter();
        let outside = served.filter(|served| !served.is_namespaced);
        Ok(outside.map(|served| served.kind).collect())
    }

    /// The kinds that the cluster serves and that a pattern includes.
    fn served(&mut self, scope: &Scope, pattern: &Kind) -> Result<Vec<ServedKind>, ReadError> {
        let Some(informer) = scope.served.as_ref().map(|part| part.informer) else {
            return Ok(Vec::new());
        };
        let of_group = group_of(pattern);
        let cache = self.snapshot.informers[informer].clone();
        let objects: Vec<&Arc<Object>> = match pattern.is_pattern() {
            true => cache.list(of_group.as_deref()).collect(),
            false => cache
                .get(ServedKind::key_of(pattern).parts())
                .into_iter()
                .collect(),
        };
        let mut found = Vec::new();
        for object in objects {
            let fuel = FUEL_PER_OBJECT + object.json().len() as u64 / BYTES_PER_FUEL;
            spend(&mut self.fuel, fuel)?;
            found.extend(ServedKind::of_object(object.json()));
        }
        Ok(found)
    }

    /// Records a list of a pattern, as one read. It has the objects of every kind that the pattern
    /// includes, in the version that is served, as far as the kind is listed. A kind that comes
    /// later adds objects to it and is no change of its own; see `core::hub::widening`.
    pub(super) fn record_pattern_list<'a>(
        &mut self,
        scope: &'a Scope,
        pattern: &Kind,
        namespace: Option<&str>,
        filter: &ListFilter,
    ) -> Result<Vec<ListPart<'a>>, ReadError> {
        let of_pattern = self.readable_pattern(scope, pattern)?;
        check_selector(filter)?;
        spend(&mut self.fuel, FUEL_PER_READ)?;
        let by_position = in_pattern(of_pattern, pattern, filter)?;
        let mut scopes: Vec<(Kind, &KindScope)> = Vec::new();
        for served in self.served(scope, pattern)? {
            let mut named = scope.kinds.iter();
            let named = named.find(|(have, _)| have.is_version_of(&served.kind));
            match named {
                Some((kind, named)) => scopes.push((kind.clone(), named)),
                // It is named, and not granted.
                None if scope.pattern_of(&served.kind).is_none() => {}
                None => match self.listed_kind(of_pattern, &served) {
                    Ok(listed) => scopes.push((served.kind, listed)),
                    Err(ReadError::NotYet(_) | ReadError::Unavailable { .. }) => {}
                    Err(error) => return Err(error),
                },
            }
        }
        if let Some(kind) = self.unseen.first() {
            return Err(ReadError::NotYet(kind.clone()));
        }
        let source = Source::of_pattern(pattern);
        self.record(Read::List(source, namespace.map(Arc::from), by_position))?;
        scopes.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut parts = Vec::new();
        for (kind, scope) in scopes {
            for part in scope.parts_of(namespace) {
                spend(&mut self.fuel, FUEL_PER_OBJECT)?;
                let part = ListPart {
                    kind: kind.clone(),
                    part,
                    filter: resolve(scope, part, &kind, filter)?,
                };
                // One object that cannot be read stops no list of all kinds.
                if self.check_readable(&part, namespace).is_ok() {
                    parts.push(part);
                }
            }
        }
        Ok(parts)
    }

    /// An action is about an object of this kind. If the kind is read by a pattern and is not
    /// listed yet, nothing that was decided counts: what the action does depends on the object.
    pub(crate) fn see_kind(&mut self, kind: &Kind) {
        let scope = self.scope.clone();
        if !scope.kinds.contains_key(kind) && scope.pattern_of(kind).is_some() {
            // The error is noted where it matters, and the action is checked as any other.
            let _ = self.scope_of(&scope, kind);
        }
    }

    /// Takes the kinds of patterns that were asked about and are not listed yet. If there are any,
    /// nothing that was decided counts.
    pub(crate) fn take_unseen(&mut self) -> BTreeSet<Kind> {
        std::mem::take(&mut self.unseen)
    }
}

/// The group that a pattern is restricted to, if it is to one.
fn group_of(pattern: &Kind) -> Option<Arc<str>> {
    (*pattern != Kind::any()).then(|| pattern.group.clone())
}

/// A filter of a list of a pattern as it is recorded: with the index's position among those of the
/// pattern that the manifest reads. `asked`: the pattern that is listed.
fn in_pattern(
    pattern: &PatternScope,
    asked: &Kind,
    filter: &ListFilter,
) -> Result<Filter, ReadError> {
    Ok(match filter {
        ListFilter::Everything => Filter::Everything,
        ListFilter::Labels(selector) => Filter::Labels(selector.clone()),
        ListFilter::Index(name, value) => {
            let position = pattern.indexes.get(name);
            let position = position.ok_or_else(|| ReadError::UnknownIndex {
                name: name.clone(),
                kind: asked.clone(),
            })?;
            Filter::Index(*position, value.as_str().into())
        }
    })
}

/// Why the objects of a served kind cannot be read by a pattern, if the host has found that out.
fn unavailable(
    pattern: &PatternScope,
    served: &ServedKind,
    is_listed: impl Fn(&KindScope) -> bool,
) -> Option<String> {
    if !served.is_watchable() {
        return Some("the server does not let it be listed and watched".to_owned());
    }
    if let Some(reason) = pattern.refused.get(&served.kind) {
        return Some(reason.to_string());
    }
    let known = pattern.kind(&served.kind);
    let known = known.filter(|known| known.kind == served.kind);
    let is_unlisted = known.is_none_or(|known| !is_listed(&known.scope));
    let is_late = is_unlisted && pattern.late.contains(&served.kind);
    is_late.then(|| "the server has not answered its list yet".to_owned())
}
