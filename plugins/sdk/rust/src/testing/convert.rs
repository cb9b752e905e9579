//! Converts the contract's types, as this crate has them, to and from the host's. Only shapes
//! change here; the host's code checks what the values mean. `host/wasm` has the same for the types
//! of its own bindings.

use std::time::Duration;

use pilothouse_core as host;

use crate::bindings::pilothouse::controller::changes;
use crate::{
    Action, ActionResult, Delete, DeleteAll, Effect, Event, Failure, Filter, Next, ObjectRef,
    Outcome, Question, ReadError, Request, ServedKind, Stage,
};

/// A kind that a plugin names.
///
/// # Panics
///
/// It is none.
pub(super) fn kind(kind: &str) -> host::Kind {
    kind.parse().unwrap_or_else(stopped)
}

/// An object that a plugin names.
///
/// # Panics
///
/// Its kind is none.
pub(super) fn object_ref(object: &ObjectRef) -> (host::Kind, host::ObjectKey) {
    let key = host::ObjectKey::new(&object.namespace, &object.name);
    (kind(&object.kind), key)
}

/// The filter of a query.
///
/// # Panics
///
/// It has a selector that cannot be parsed.
pub(super) fn filter(filter: &Filter) -> host::ListFilter {
    match filter.clone() {
        Filter::Everything => host::ListFilter::Everything,
        Filter::Labels(selector) => {
            host::ListFilter::Labels(host::LabelSelector::parse(&selector).unwrap_or_else(stopped))
        }
        Filter::Index(index) => host::ListFilter::Index(index.name, index.value),
    }
}

/// The object of a key. A singleton's key has none.
pub(super) fn subject(key: &host::SubjectKey) -> Option<ObjectRef> {
    let host::SubjectKey { kind, object } = key;
    let kind = kind.as_ref()?.to_string();
    Some(ObjectRef::new(&kind, &object.namespace, &object.name))
}

/// The request for a guest. `object` is the key's own object as the guest would read it, and `memo`
/// what the guest is given of the request's.
pub(super) fn request(
    request: &host::Request,
    object: Option<String>,
    memo: Option<&str>,
) -> Request {
    Request {
        key: subject(&request.key),
        object,
        attempt: request.attempt,
        previous: request.previous.iter().cloned().map(Into::into).collect(),
        memo: memo.map(ToOwned::to_owned),
        config: request.config.clone(),
    }
}

impl From<host::Effect> for Effect {
    fn from(effect: host::Effect) -> Self {
        let key = &effect.key;
        Self {
            object: ObjectRef::new(&effect.kind.to_string(), &key.namespace, &key.name),
            verb: match effect.verb {
                host::EffectVerb::Apply => changes::Verb::Apply,
                host::EffectVerb::Create => changes::Verb::Create,
                host::EffectVerb::Update => changes::Verb::Update,
                host::EffectVerb::Patch => changes::Verb::Patch,
                host::EffectVerb::Delete => changes::Verb::Delete,
                host::EffectVerb::DeleteAll => changes::Verb::DeleteAll,
                host::EffectVerb::Event => changes::Verb::Event,
                host::EffectVerb::Finalizer => changes::Verb::Finalizer,
            },
            outcome: effect.result.into(),
        }
    }
}

impl From<host::ActionResult> for ActionResult {
    fn from(result: host::ActionResult) -> Self {
        use host::ActionResult as Host;
        match result {
            Host::Done(resource_version) => Self::Done(resource_version),
            Host::Unchanged => Self::Unchanged,
            Host::Skipped => Self::Skipped,
            Host::Conflict(text) => Self::Conflict(text),
            Host::AlreadyExists(text) => Self::AlreadyExists(text),
            Host::NotFound(text) => Self::NotFound(text),
            Host::Forbidden(text) => Self::Forbidden(text),
            Host::Invalid(text) => Self::Invalid(text),
            Host::Failed(text)
            | Host::Busy(text, _)
            | Host::Unknown(text)
            | Host::Unavailable(text) => Self::Failed(text),
        }
    }
}

/// What a guest is told of a read that has no answer.
///
/// # Panics
///
/// The host would not tell it anything, but stop it.
pub(super) fn read_error(error: &host::ReadError) -> ReadError {
    use host::ReadError as Host;
    let text = error.to_string();
    match error {
        Host::Denied(_)
        | Host::NotGranted(_)
        | Host::OtherNamespace { .. }
        | Host::NotOwnNamespace { .. } => ReadError::Denied(text),
        // What is decided on an object that is to be fetched first does not count.
        Host::Unavailable { .. } | Host::NotFetched { .. } => ReadError::Unavailable(text),
        Host::Pattern(_)
        | Host::NotYet(_)
        | Host::UnknownIndex { .. }
        | Host::OutOfFuel
        | Host::TooMany
        | Host::TooManyFetched
        | Host::TooMuchFetched
        | Host::TooLarge(_)
        | Host::Selector
        | Host::EmptyPage
        | Host::Unreadable { .. } => stopped(text),
    }
}

/// What a guest is told of a kind that the cluster serves.
pub(super) fn served_kind(known: host::KnownKind) -> ServedKind {
    let served = known.served;
    ServedKind {
        kind: served.kind.to_string(),
        versions: served.versions,
        resource: served.resource,
        namespaced: served.is_namespaced,
        verbs: served.verbs,
        subresources: served.subresources,
        unavailable: known.unavailable,
    }
}

/// The end of a run that the host would end.
fn stopped<T>(reason: impl std::fmt::Display) -> T {
    panic!("the host stops the plugin: {reason}")
}

/// What a guest has returned.
///
/// # Panics
///
/// An action is on a kind that is none.
pub(super) fn outcome(outcome: &Outcome) -> host::Outcome {
    host::Outcome {
        stages: outcome.stages.iter().cloned().map(Into::into).collect(),
        confirm: outcome.confirm.iter().map(confirmation).collect(),
        follow_up: host::FollowUp {
            next: match outcome.next.clone() {
                Next::OnChange => host::NextRun::OnChange,
                Next::After(time) => host::NextRun::After(Duration::from_millis(time)),
                Next::Retry(text) => host::NextRun::Retry(text),
            },
            not_before: Duration::from_millis(outcome.not_before),
            is_settled: outcome.settled,
            memo: outcome.memo.as_deref().map(Into::into),
        },
    }
}

fn confirmation(question: &Question) -> host::Confirmation {
    match question {
        Question::Object(object) => {
            let (kind, key) = object_ref(object);
            host::Confirmation::Object(kind, key)
        }
        Question::Unchanged(object) => {
            let (kind, key) = object_ref(object);
            host::Confirmation::Unchanged(kind, key)
        }
        Question::Objects(query) => host::Confirmation::Objects {
            kind: kind(&query.kind),
            namespace: query.namespace.clone(),
            filter: filter(&query.filter),
        },
    }
}

impl From<Stage> for host::Stage {
    fn from(stage: Stage) -> Self {
        Self {
            actions: stage.actions.into_iter().map(Into::into).collect(),
            always: stage.always,
        }
    }
}

impl From<Failure> for host::Failure {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Retry(text) => Self::Retry(text),
            Failure::Terminal(text) => Self::Terminal(text),
        }
    }
}

impl From<Action> for host::Action {
    fn from(action: Action) -> Self {
        match action {
            Action::Apply(apply) => Self::Apply {
                object: apply.object,
                subresource: apply.subresource,
                force: apply.force,
            },
            Action::Create(create) => Self::Create {
                object: create.object,
                subresource: create.subresource,
            },
            Action::Update(update) => Self::Update {
                object: update.object,
                subresource: update.subresource,
            },
            Action::Patch(patch) => {
                let (kind, key) = object_ref(&patch.object);
                Self::Patch {
                    kind,
                    key,
                    subresource: patch.subresource,
                    patch_type: match patch.patch_type {
                        changes::PatchType::JsonPatch => host::PatchType::Json,
                        changes::PatchType::MergePatch => host::PatchType::Merge,
                        changes::PatchType::StrategicMergePatch => host::PatchType::Strategic,
                    },
                    body: patch.body,
                }
            }
            Action::Delete(delete) => Self::Delete(delete.into()),
            Action::DeleteAll(all) => Self::DeleteAll(all.into()),
            Action::Event(event) => Self::Event(event.into()),
            Action::Finalizer(finalizer) => {
                let (kind, key) = object_ref(&finalizer.object);
                Self::Finalizer {
                    kind,
                    key,
                    name: finalizer.name,
                    present: finalizer.present,
                }
            }
            Action::Children(children) => Self::Children {
                objects: children.objects,
            },
            Action::Call(_) => stopped("this host offers no calls"),
        }
    }
}

impl From<Delete> for host::Delete {
    fn from(delete: Delete) -> Self {
        let (kind, key) = object_ref(&delete.object);
        Self {
            kind,
            key,
            uid: delete.uid,
            resource_version: delete.resource_version,
            propagation: delete.propagation.map(Into::into),
            grace_period_seconds: delete.grace_period_seconds,
        }
    }
}

impl From<DeleteAll> for host::DeleteAll {
    fn from(all: DeleteAll) -> Self {
        Self {
            kind: kind(&all.kind),
            namespace: all.namespace,
            labels: all.labels,
            propagation: all.propagation.map(Into::into),
        }
    }
}

impl From<changes::Propagation> for host::Propagation {
    fn from(propagation: changes::Propagation) -> Self {
        match propagation {
            changes::Propagation::Background => Self::Background,
            changes::Propagation::Foreground => Self::Foreground,
            changes::Propagation::Orphan => Self::Orphan,
        }
    }
}

impl From<Event> for host::Event {
    fn from(event: Event) -> Self {
        let (kind, key) = object_ref(&event.object);
        Self {
            kind,
            key,
            is_warning: matches!(event.event_type, changes::EventType::Warning),
            reason: event.reason,
            action: event.action,
            note: event.note,
        }
    }
}
