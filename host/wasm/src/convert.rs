//! Converts the contract's types to and from the host's. Only shapes change here; `core` checks
//! what the values mean.

use std::time::Duration;

use pilothouse_core::{
    Action, ActionResult, Confirmation, Delete, DeleteAll, Effect, EffectVerb, Event, Failure,
    FollowUp, Kind, KindError, KnownKind, LabelSelector, LabelSelectorError, ListFilter, NextRun,
    ObjectKey, Outcome, PatchType, Propagation, Request, Stage, SubjectKey,
};

use crate::bindings::{changes, plugin, snapshot, types};

/// The kind and the key of an object that a guest names. The error ends the run: it is a mistake of
/// the plugin's author.
pub(crate) fn object_ref(object: &types::ObjectRef) -> Result<(Kind, ObjectKey), KindError> {
    let key = ObjectKey::new(&object.namespace, &object.name);
    Ok((object.kind.parse()?, key))
}

/// The request for a guest. `object` is the key's own object as the guest would read it, and `memo`
/// what the guest is given of the request's.
pub(crate) fn request(
    request: &Request,
    object: Option<String>,
    memo: Option<&str>,
) -> plugin::Request {
    let SubjectKey { kind, object: key } = &request.key;
    plugin::Request {
        key: kind.as_ref().map(|kind| types::ObjectRef {
            kind: kind.to_string(),
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
        }),
        object,
        attempt: request.attempt,
        previous: request.previous.iter().cloned().map(Into::into).collect(),
        memo: memo.map(ToOwned::to_owned),
        config: request.config.clone(),
    }
}

impl From<Effect> for changes::Effect {
    fn from(effect: Effect) -> Self {
        Self {
            object: types::ObjectRef {
                kind: effect.kind.to_string(),
                namespace: effect.key.namespace.to_string(),
                name: effect.key.name.to_string(),
            },
            verb: match effect.verb {
                EffectVerb::Apply => changes::Verb::Apply,
                EffectVerb::Create => changes::Verb::Create,
                EffectVerb::Update => changes::Verb::Update,
                EffectVerb::Patch => changes::Verb::Patch,
                EffectVerb::Delete => changes::Verb::Delete,
                EffectVerb::DeleteAll => changes::Verb::DeleteAll,
                EffectVerb::Event => changes::Verb::Event,
                EffectVerb::Finalizer => changes::Verb::Finalizer,
            },
            outcome: effect.result.into(),
        }
    }
}

impl From<ActionResult> for changes::ActionResult {
    fn from(result: ActionResult) -> Self {
        match result {
            ActionResult::Done(resource_version) => Self::Done(resource_version),
            ActionResult::Unchanged => Self::Unchanged,
            ActionResult::Skipped => Self::Skipped,
            ActionResult::Conflict(text) => Self::Conflict(text),
            ActionResult::AlreadyExists(text) => Self::AlreadyExists(text),
            ActionResult::NotFound(text) => Self::NotFound(text),
            ActionResult::Forbidden(text) => Self::Forbidden(text),
            ActionResult::Invalid(text) => Self::Invalid(text),
            ActionResult::Failed(text)
            | ActionResult::Busy(text, _)
            | ActionResult::Unknown(text)
            | ActionResult::Unavailable(text) => Self::Failed(text),
        }
    }
}

/// A guest has returned what is no outcome of this host's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ContractError {
    #[error(transparent)]
    Kind(#[from] KindError),
    #[error(transparent)]
    Labels(#[from] LabelSelectorError),
    #[error("this host offers no calls")]
    Call,
}

/// The outcome that a guest has returned.
pub(crate) fn outcome(outcome: plugin::Outcome) -> Result<Outcome, ContractError> {
    let stages = outcome.stages.into_iter().map(stage);
    let confirm = outcome.confirm.into_iter().map(question);
    Ok(Outcome {
        stages: stages.collect::<Result<_, _>>()?,
        confirm: confirm.collect::<Result<_, _>>()?,
        follow_up: FollowUp {
            next: outcome.next.into(),
            not_before: Duration::from_millis(outcome.not_before),
            is_settled: outcome.settled,
            memo: outcome.memo.map(Into::into),
        },
    })
}

fn question(question: snapshot::Question) -> Result<Confirmation, ContractError> {
    Ok(match question {
        snapshot::Question::Object(object) => {
            let (kind, key) = object_ref(&object)?;
            Confirmation::Object(kind, key)
        }
        snapshot::Question::Unchanged(object) => {
            let (kind, key) = object_ref(&object)?;
            Confirmation::Unchanged(kind, key)
        }
        snapshot::Question::Objects(query) => Confirmation::Objects {
            kind: query.kind.parse()?,
            namespace: query.namespace,
            filter: filter(query.filter)?,
        },
    })
}

/// A kind that the cluster serves.
pub(crate) fn served_kind(known: KnownKind) -> snapshot::ServedKind {
    let served = known.served;
    snapshot::ServedKind {
        kind: served.kind.to_string(),
        versions: served.versions,
        resource: served.resource,
        namespaced: served.is_namespaced,
        verbs: served.verbs,
        subresources: served.subresources,
        unavailable: known.unavailable,
    }
}

/// The filter that a guest asks with. The error ends the run: it is a mistake of the plugin's
/// author.
pub(crate) fn filter(filter: snapshot::Filter) -> Result<ListFilter, LabelSelectorError> {
    Ok(match filter {
        snapshot::Filter::Everything => ListFilter::Everything,
        snapshot::Filter::Labels(selector) => ListFilter::Labels(LabelSelector::parse(&selector)?),
        snapshot::Filter::Index(index) => ListFilter::Index(index.name, index.value),
    })
}

fn stage(stage: changes::Stage) -> Result<Stage, ContractError> {
    let actions = stage.actions.into_iter().map(action);
    Ok(Stage {
        actions: actions.collect::<Result<_, _>>()?,
        always: stage.always,
    })
}

impl From<plugin::Next> for NextRun {
    fn from(next: plugin::Next) -> Self {
        match next {
            plugin::Next::OnChange => Self::OnChange,
            plugin::Next::After(time) => Self::After(Duration::from_millis(time)),
            plugin::Next::Retry(text) => Self::Retry(text),
        }
    }
}

impl From<plugin::Failure> for Failure {
    fn from(failure: plugin::Failure) -> Self {
        match failure {
            plugin::Failure::Retry(text) => Self::Retry(text),
            plugin::Failure::Terminal(text) => Self::Terminal(text),
        }
    }
}

fn action(action: changes::Action) -> Result<Action, ContractError> {
    use changes::Action as Wit;
    Ok(match action {
        Wit::Apply(changes::Apply {
            object,
            subresource,
            force,
        }) => Action::Apply {
            object,
            subresource,
            force,
        },
        Wit::Create(changes::Create {
            object,
            subresource,
        }) => Action::Create {
            object,
            subresource,
        },
        Wit::Update(changes::Update {
            object,
            subresource,
        }) => Action::Update {
            object,
            subresource,
        },
        Wit::Patch(patch) => {
            let (kind, key) = object_ref(&patch.object)?;
            Action::Patch {
                kind,
                key,
                subresource: patch.subresource,
                patch_type: match patch.patch_type {
                    changes::PatchType::JsonPatch => PatchType::Json,
                    changes::PatchType::MergePatch => PatchType::Merge,
                    changes::PatchType::StrategicMergePatch => PatchType::Strategic,
                },
                body: patch.body,
            }
        }
        Wit::Delete(it) => Action::Delete(delete(it)?),
        Wit::DeleteAll(it) => Action::DeleteAll(delete_all(it)?),
        Wit::Event(it) => Action::Event(event(it)?),
        Wit::Finalizer(finalizer) => {
            let (kind, key) = object_ref(&finalizer.object)?;
            Action::Finalizer {
                kind,
                key,
                name: finalizer.name,
                present: finalizer.present,
            }
        }
        Wit::Children(changes::Children { objects }) => Action::Children { objects },
        Wit::Call(_) => return Err(ContractError::Call),
    })
}

fn delete(delete: changes::Delete) -> Result<Delete, KindError> {
    let (kind, key) = object_ref(&delete.object)?;
    Ok(Delete {
        kind,
        key,
        uid: delete.uid,
        resource_version: delete.resource_version,
        propagation: delete.propagation.map(Into::into),
        grace_period_seconds: delete.grace_period_seconds,
    })
}

fn delete_all(all: changes::DeleteAll) -> Result<DeleteAll, ContractError> {
    Ok(DeleteAll {
        kind: all.kind.parse()?,
        namespace: all.namespace,
        labels: all.labels,
        propagation: all.propagation.map(Into::into),
    })
}

impl From<changes::Propagation> for Propagation {
    fn from(propagation: changes::Propagation) -> Self {
        match propagation {
            changes::Propagation::Background => Self::Background,
            changes::Propagation::Foreground => Self::Foreground,
            changes::Propagation::Orphan => Self::Orphan,
        }
    }
}

fn event(event: changes::Event) -> Result<Event, KindError> {
    let (kind, key) = object_ref(&event.object)?;
    Ok(Event {
        kind,
        key,
        is_warning: matches!(event.event_type, changes::EventType::Warning),
        reason: event.reason,
        action: event.action,
        note: event.note,
    })
}
