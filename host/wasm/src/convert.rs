//! Converts the contract's types to and from the host's. Only shapes change here; `core` checks
//! what the values mean.

use std::time::Duration;

use pilothouse_core::{
    Action, ActionResult, Delete, Effect, EffectVerb, Event, Failure, IndexDeclaration, Kind,
    LabelSelector, Limits, Manifest, NextRun, ObjectKey, Outcome, PatchType, Propagation,
    ReadDeclaration, Request, Requirement, Selection, Stage, Subject, Verb, WriteDeclaration,
};

use crate::bindings::{self as wit, changes, manifest, types};

impl From<types::Kind> for Kind {
    fn from(kind: types::Kind) -> Self {
        Self::new(&kind.group, &kind.version, &kind.kind)
    }
}

impl From<types::ObjectKey> for ObjectKey {
    fn from(key: types::ObjectKey) -> Self {
        Self::new(&key.namespace, &key.name)
    }
}

pub(crate) fn selector(selector: types::LabelSelector) -> LabelSelector {
    LabelSelector {
        requirements: all(selector),
    }
}

fn all<T, U: From<T>>(values: Vec<T>) -> Vec<U> {
    values.into_iter().map(U::from).collect()
}

impl From<types::LabelRequirement> for Requirement {
    fn from(requirement: types::LabelRequirement) -> Self {
        use types::LabelRequirement as Wit;
        match requirement {
            Wit::Equals((key, value)) => Self::Equals(key, value),
            Wit::OneOf((key, values)) => Self::OneOf(key, values),
            Wit::NoneOf((key, values)) => Self::NoneOf(key, values),
            Wit::Exists(key) => Self::Exists(key),
            Wit::Absent(key) => Self::Absent(key),
        }
    }
}

impl From<manifest::Manifest> for Manifest {
    fn from(manifest: manifest::Manifest) -> Self {
        Self {
            name: manifest.name,
            version: manifest.version,
            subject: match manifest.subject {
                manifest::Subject::Each(selection) => Subject::Each(selection.into()),
                manifest::Subject::Singleton => Subject::Singleton,
            },
            reads: all(manifest.reads),
            indexes: all(manifest.indexes),
            writes: all(manifest.writes),
            limits: manifest.limits.into(),
            config_schema: manifest.config_schema,
        }
    }
}

impl From<manifest::Selection> for Selection {
    fn from(selection: manifest::Selection) -> Self {
        Self {
            kind: selection.kind.into(),
            labels: selector(selection.labels),
            fields: selection.fields,
            namespaces: selection.namespaces,
            companions: all(selection.companions),
        }
    }
}

impl From<manifest::Read> for ReadDeclaration {
    fn from(read: manifest::Read) -> Self {
        Self {
            kind: read.kind.into(),
            fields: read.fields,
            namespaces: read.namespaces,
            labels: selector(read.labels),
            field_selector: read.field_selector,
        }
    }
}

impl From<manifest::Index> for IndexDeclaration {
    fn from(index: manifest::Index) -> Self {
        Self {
            name: index.name,
            kind: index.kind.into(),
            paths: index.paths,
        }
    }
}

impl From<manifest::Write> for WriteDeclaration {
    fn from(write: manifest::Write) -> Self {
        Self {
            kind: write.kind.into(),
            subresource: write.subresource,
            verbs: all(write.verbs),
            children: write.children,
        }
    }
}

impl From<manifest::Verb> for Verb {
    fn from(verb: manifest::Verb) -> Self {
        match verb {
            manifest::Verb::Apply => Self::Apply,
            manifest::Verb::Create => Self::Create,
            manifest::Verb::Update => Self::Update,
            manifest::Verb::Patch => Self::Patch,
            manifest::Verb::Delete => Self::Delete,
        }
    }
}

impl From<manifest::Limits> for Limits {
    fn from(limits: manifest::Limits) -> Self {
        Self {
            memory_bytes: limits.memory_bytes,
            fuel: limits.fuel,
            timeout: limits.timeout.map(Duration::from_millis),
            concurrency: limits.concurrency,
        }
    }
}

impl From<&Request> for wit::Request {
    fn from(request: &Request) -> Self {
        Self {
            key: types::ObjectKey {
                namespace: request.key.namespace.to_string(),
                name: request.key.name.to_string(),
            },
            attempt: request.attempt,
            previous: all(request.previous.clone()),
            config: request.config.clone(),
        }
    }
}

impl From<Effect> for changes::Effect {
    fn from(effect: Effect) -> Self {
        Self {
            kind: types::Kind {
                group: effect.kind.group.to_string(),
                version: effect.kind.version.to_string(),
                kind: effect.kind.kind.to_string(),
            },
            key: types::ObjectKey {
                namespace: effect.key.namespace.to_string(),
                name: effect.key.name.to_string(),
            },
            verb: match effect.verb {
                EffectVerb::Apply => changes::Verb::Apply,
                EffectVerb::Create => changes::Verb::Create,
                EffectVerb::Update => changes::Verb::Update,
                EffectVerb::Patch => changes::Verb::Patch,
                EffectVerb::Delete => changes::Verb::Delete,
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

impl From<wit::Outcome> for Outcome {
    fn from(outcome: wit::Outcome) -> Self {
        Self {
            stages: all(outcome.stages),
            next: outcome.next.into(),
        }
    }
}

impl From<changes::Stage> for Stage {
    fn from(stage: changes::Stage) -> Self {
        Self {
            actions: all(stage.actions),
            always: stage.always,
        }
    }
}

impl From<wit::Next> for NextRun {
    fn from(next: wit::Next) -> Self {
        match next {
            wit::Next::OnChange => Self::OnChange,
            wit::Next::After(time) => Self::After(Duration::from_millis(time)),
            wit::Next::Retry(text) => Self::Retry(text),
        }
    }
}

impl From<wit::Failure> for Failure {
    fn from(failure: wit::Failure) -> Self {
        match failure {
            wit::Failure::Retry(text) => Self::Retry(text),
            wit::Failure::Terminal(text) => Self::Terminal(text),
        }
    }
}

impl From<changes::Action> for Action {
    fn from(action: changes::Action) -> Self {
        use changes::Action as Wit;
        match action {
            Wit::Apply(changes::Apply {
                object,
                subresource,
                force,
            }) => Self::Apply {
                object,
                subresource,
                force,
            },
            Wit::Create(changes::Create {
                object,
                subresource,
            }) => Self::Create {
                object,
                subresource,
            },
            Wit::Update(changes::Update {
                object,
                subresource,
            }) => Self::Update {
                object,
                subresource,
            },
            Wit::Patch(patch) => Self::Patch {
                kind: patch.kind.into(),
                key: patch.key.into(),
                subresource: patch.subresource,
                patch_type: match patch.patch_type {
                    changes::PatchType::JsonPatch => PatchType::Json,
                    changes::PatchType::MergePatch => PatchType::Merge,
                    changes::PatchType::StrategicMergePatch => PatchType::Strategic,
                },
                body: patch.body,
            },
            Wit::Delete(delete) => Self::Delete(delete.into()),
            Wit::Event(event) => Self::Event(event.into()),
            Wit::Finalizer(finalizer) => Self::Finalizer {
                kind: finalizer.kind.into(),
                key: finalizer.key.into(),
                name: finalizer.name,
                present: finalizer.present,
            },
            Wit::Children(changes::Children { objects }) => Self::Children { objects },
        }
    }
}

impl From<changes::Delete> for Delete {
    fn from(delete: changes::Delete) -> Self {
        Self {
            kind: delete.kind.into(),
            key: delete.key.into(),
            uid: delete.uid,
            resource_version: delete.resource_version,
            propagation: delete.propagation.map(|propagation| match propagation {
                changes::Propagation::Background => Propagation::Background,
                changes::Propagation::Foreground => Propagation::Foreground,
                changes::Propagation::Orphan => Propagation::Orphan,
            }),
            grace_period_seconds: delete.grace_period_seconds,
        }
    }
}

impl From<changes::Event> for Event {
    fn from(event: changes::Event) -> Self {
        Self {
            kind: event.kind.into(),
            key: event.key.into(),
            is_warning: matches!(event.event_type, changes::EventType::Warning),
            reason: event.reason,
            action: event.action,
            note: event.note,
        }
    }
}
