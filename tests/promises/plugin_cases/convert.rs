//! The host's types as those of the SDK, in which the cases are.

use anyhow::Result;
use pilothouse_core as host;
use pilothouse_sdk::{
    Action, ActionResult, Apply, Children, Create, Delete, DeleteAll, Effect, EffectVerb, Event,
    EventType, Failure, Filter, Finalizer, IndexValue, Next, ObjectRef, Outcome, Patch, PatchType,
    Propagation, Query, Question, Stage, Update,
};

pub fn outcome(outcome: host::Outcome) -> Outcome {
    let milliseconds =
        |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let stage = |stage: host::Stage| Stage {
        actions: stage.actions.into_iter().map(action).collect(),
        always: stage.always,
    };
    let follow_up = outcome.follow_up;
    Outcome {
        stages: outcome.stages.into_iter().map(stage).collect(),
        confirm: outcome.confirm.into_iter().map(question).collect(),
        next: match follow_up.next {
            host::NextRun::OnChange => Next::OnChange,
            host::NextRun::After(time) => Next::After(milliseconds(time)),
            host::NextRun::Retry(text) => Next::Retry(text),
        },
        not_before: milliseconds(follow_up.not_before),
        settled: follow_up.is_settled,
        memo: follow_up.memo.map(|memo| memo.to_string()),
    }
}

pub fn failure(failure: host::Failure) -> Failure {
    match failure {
        host::Failure::Retry(text) => Failure::Retry(text),
        host::Failure::Terminal(text) => Failure::Terminal(text),
    }
}

/// The other way.
pub fn effect(effect: &Effect) -> Result<host::Effect> {
    let object = &effect.object;
    let text = Clone::clone;
    Ok(host::Effect {
        kind: object.kind.parse()?,
        key: host::ObjectKey::new(&object.namespace, &object.name),
        verb: match effect.verb {
            EffectVerb::Apply => host::EffectVerb::Apply,
            EffectVerb::Create => host::EffectVerb::Create,
            EffectVerb::Update => host::EffectVerb::Update,
            EffectVerb::Patch => host::EffectVerb::Patch,
            EffectVerb::Delete => host::EffectVerb::Delete,
            EffectVerb::DeleteAll => host::EffectVerb::DeleteAll,
            EffectVerb::Event => host::EffectVerb::Event,
            EffectVerb::Finalizer => host::EffectVerb::Finalizer,
            EffectVerb::Call => anyhow::bail!("this host offers no calls"),
        },
        result: match &effect.outcome {
            ActionResult::Done(version) => host::ActionResult::Done(version.clone()),
            ActionResult::Unchanged => host::ActionResult::Unchanged,
            ActionResult::Skipped => host::ActionResult::Skipped,
            ActionResult::Conflict(fault) => host::ActionResult::Conflict(text(fault)),
            ActionResult::AlreadyExists(fault) => host::ActionResult::AlreadyExists(text(fault)),
            ActionResult::NotFound(fault) => host::ActionResult::NotFound(text(fault)),
            ActionResult::Forbidden(fault) => host::ActionResult::Forbidden(text(fault)),
            ActionResult::Invalid(fault) => host::ActionResult::Invalid(text(fault)),
            ActionResult::Failed(fault) => host::ActionResult::Failed(text(fault)),
            ActionResult::Answered(_) => anyhow::bail!("this host offers no calls"),
        },
    })
}

fn object_ref(kind: &host::Kind, key: &host::ObjectKey) -> ObjectRef {
    ObjectRef::new(&kind.to_string(), &key.namespace, &key.name)
}

fn question(question: host::Confirmation) -> Question {
    match question {
        host::Confirmation::Object(kind, key) => Question::Object(object_ref(&kind, &key)),
        host::Confirmation::Unchanged(kind, key) => Question::Unchanged(object_ref(&kind, &key)),
        host::Confirmation::Objects {
            kind,
            namespace,
            filter,
        } => Question::Objects(Query {
            kind: kind.to_string(),
            namespace,
            filter: match filter {
                host::ListFilter::Everything => Filter::Everything,
                host::ListFilter::Labels(selector) => Filter::Labels(selector.to_string()),
                host::ListFilter::Index(name, value) => Filter::Index(IndexValue { name, value }),
            },
        }),
    }
}

fn action(action: host::Action) -> Action {
    match action {
        host::Action::Apply {
            object,
            subresource,
            force,
        } => Action::Apply(Apply {
            object,
            subresource,
            force,
        }),
        host::Action::Create {
            object,
            subresource,
        } => Action::Create(Create {
            object,
            subresource,
        }),
        host::Action::Update {
            object,
            subresource,
        } => Action::Update(Update {
            object,
            subresource,
        }),
        host::Action::Patch {
            kind,
            key,
            subresource,
            patch_type,
            body,
        } => Action::Patch(Patch {
            object: object_ref(&kind, &key),
            subresource,
            patch_type: match patch_type {
                host::PatchType::Json => PatchType::JsonPatch,
                host::PatchType::Merge => PatchType::MergePatch,
                host::PatchType::Strategic => PatchType::StrategicMergePatch,
            },
            body,
        }),
        host::Action::Delete(delete) => Action::Delete(Delete {
            object: object_ref(&delete.kind, &delete.key),
            uid: delete.uid,
            resource_version: delete.resource_version,
            propagation: delete.propagation.map(propagation),
            grace_period_seconds: delete.grace_period_seconds,
        }),
        host::Action::DeleteAll(all) => Action::DeleteAll(DeleteAll {
            kind: all.kind.to_string(),
            namespace: all.namespace,
            labels: all.labels,
            propagation: all.propagation.map(propagation),
        }),
        host::Action::Event(event) => Action::Event(Event {
            object: object_ref(&event.kind, &event.key),
            event_type: if event.is_warning {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: event.reason,
            action: event.action,
            note: event.note,
        }),
        host::Action::Finalizer {
            kind,
            key,
            name,
            present,
        } => Action::Finalizer(Finalizer {
            object: object_ref(&kind, &key),
            name,
            present,
        }),
        host::Action::Children { objects } => Action::Children(Children { objects }),
    }
}

fn propagation(propagation: host::Propagation) -> Propagation {
    match propagation {
        host::Propagation::Background => Propagation::Background,
        host::Propagation::Foreground => Propagation::Foreground,
        host::Propagation::Orphan => Propagation::Orphan,
    }
}
