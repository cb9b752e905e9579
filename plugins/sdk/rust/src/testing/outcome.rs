//! The host's checks of an outcome before anything is written, with the host's messages.
//! `wit/cases/actions.json` tests that both give the same answers.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::FakeCluster;
use super::documents::pointer;
use super::fields;
use super::names::{check_key, kind_from, kind_text};
use crate::{
    Action, Children, Create, Delete, Event, Finalizer, Kind, ObjectKey, Patch, PatchType, Read,
    Stage, Update, Verb,
};

/// Metadata that a JSON Patch may test even if the plugin does not read the kind.
const IDENTITY: [&str; 5] = ["name", "namespace", "uid", "resourceVersion", "generation"];
/// Fields that are in no view of an object.
const BOOKKEPT: [&[&str]; 2] = [
    &["metadata", "managedFields"],
    &[
        "metadata",
        "annotations",
        "kubectl.kubernetes.io/last-applied-configuration",
    ],
];

const MAX_STAGES: usize = 1_000;
const MAX_ACTIONS: usize = 10_000;
const MAX_EVENTS: usize = 100;
const MAX_BODY: usize = 3 * 1024 * 1024;

/// Checks all actions. The first error refuses the whole outcome.
pub(super) fn check(stages: &[Stage], cluster: &FakeCluster) -> Result<(), String> {
    if stages.len() > MAX_STAGES {
        return Err(format!(
            "{} stages; an outcome has at most {MAX_STAGES}",
            stages.len()
        ));
    }
    let actions = || stages.iter().flat_map(|stage| &stage.actions);
    let count = actions().count();
    if count > MAX_ACTIONS {
        return Err(format!(
            "{count} actions; an outcome has at most {MAX_ACTIONS}"
        ));
    }
    let events = actions().filter(|action| matches!(action, Action::Event(_)));
    let events = events.count();
    if events > MAX_EVENTS {
        return Err(format!(
            "{events} Events; an outcome has at most {MAX_EVENTS}"
        ));
    }
    let mut check = Check {
        cluster,
        written: BTreeSet::new(),
        has_children: false,
    };
    for (number, action) in actions().enumerate() {
        check
            .action(action)
            .map_err(|reason| format!("action {} ({}): {reason}", number + 1, verb_of(action)))?;
    }
    Ok(())
}

fn verb_of(action: &Action) -> &'static str {
    match action {
        Action::Apply(_) => "apply",
        Action::Create(_) => "create",
        Action::Update(_) => "update",
        Action::Patch(_) => "patch",
        Action::Delete(_) => "delete",
        Action::Event(_) => "event",
        Action::Finalizer(_) => "finalizer",
        Action::Children(_) => "children",
    }
}

fn verb_text(verb: Verb) -> &'static str {
    match verb {
        Verb::Apply => "apply",
        Verb::Create => "create",
        Verb::Update => "update",
        Verb::Patch => "patch",
        Verb::Delete => "delete",
    }
}

/// How a body is used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Apply,
    Create,
    Update,
    Patch,
}

/// What the plugin can know about the object that a body addresses.
enum Shown<'a> {
    Object(&'a Value),
    Nothing,
    /// The plugin does not read the kind there, or the object may exist outside its selectors.
    Unknown,
}

impl Shown<'_> {
    fn metadata(&self, field: &str) -> &Value {
        match self {
            Self::Object(object) => &object["metadata"][field],
            _ => &Value::Null,
        }
    }
}

struct Check<'a> {
    cluster: &'a FakeCluster,
    /// The objects that earlier actions of the outcome write.
    written: BTreeSet<(String, String)>,
    has_children: bool,
}

impl Check<'_> {
    fn action(&mut self, action: &Action) -> Result<(), String> {
        let (kind, key) = match action {
            Action::Apply(apply) => {
                let subresource = apply.subresource.as_deref();
                self.body(&apply.object, subresource, Verb::Apply)?
            }
            Action::Create(create) => self.create(create)?,
            Action::Update(update) => self.update(update)?,
            Action::Patch(patch) => self.patch(patch)?,
            Action::Delete(Delete { kind, key, .. }) => {
                self.declared(Verb::Delete, kind, key, None)?;
                (kind.clone(), key.clone())
            }
            Action::Event(event) => return self.event(event),
            Action::Finalizer(finalizer) => self.finalizer(finalizer)?,
            Action::Children(children) => return self.children(children),
        };
        self.written.insert((kind_text(&kind), key.to_string()));
        Ok(())
    }

    /// Checks the object of an apply or update: it is permitted and valid.
    fn body(
        &self,
        text: &str,
        subresource: Option<&str>,
        verb: Verb,
    ) -> Result<(Kind, ObjectKey), String> {
        let object = parse(text)?;
        let (kind, key) = address(&object)?;
        self.declared(verb, &kind, &key, subresource)?;
        let how = if verb == Verb::Update {
            Use::Update
        } else {
            Use::Apply
        };
        self.settle(&object, how, &kind, &key)?;
        Ok((kind, key))
    }

    fn create(&self, create: &Create) -> Result<(Kind, ObjectKey), String> {
        let mut object = parse(&create.object)?;
        super::writes::derive_name(&mut object, &create.object, 0);
        let (kind, key) = address(&object)?;
        let subresource = create.subresource.as_deref();
        self.declared(Verb::Create, &kind, &key, subresource)?;
        if subresource.is_none() {
            self.settle(&object, Use::Create, &kind, &key)?;
        }
        Ok((kind, key))
    }

    fn update(&self, update: &Update) -> Result<(Kind, ObjectKey), String> {
        let object = parse(&update.object)?;
        let (kind, key) = address(&object)?;
        let subresource = update.subresource.as_deref();
        self.declared(Verb::Update, &kind, &key, subresource)?;
        let is_unknown = matches!(self.shown(&kind, &key), Shown::Unknown);
        let version = object["metadata"]["resourceVersion"].as_str();
        if is_unknown && subresource.is_none() && matches!(version, None | Some("" | "0")) {
            return Err(metadata(
                "an update of an object that is not read says of which resourceVersion it is",
            ));
        }
        self.body(&update.object, subresource, Verb::Update)
    }

    fn patch(&self, patch: &Patch) -> Result<(Kind, ObjectKey), String> {
        let Patch { kind, key, .. } = patch;
        self.declared(Verb::Patch, kind, key, patch.subresource.as_deref())?;
        let body = parse(&patch.body)?;
        same_object(&body, kind, key)?;
        match patch.patch_type {
            PatchType::JsonPatch => {
                json_patch(&body)?;
                self.json_patch_reads(&body, kind, key)?;
            }
            _ => self.settle(&body, Use::Patch, kind, key)?,
        }
        Ok((kind.clone(), key.clone()))
    }

    /// Checks that a JSON Patch copies, moves and tests only what the plugin reads.
    fn json_patch_reads(&self, body: &Value, kind: &Kind, key: &ObjectKey) -> Result<(), String> {
        for step in body.as_array().into_iter().flatten() {
            let op = step["op"].as_str().unwrap_or_default();
            let from = match op {
                "copy" | "move" => step["from"].as_str(),
                "test" => step["path"].as_str(),
                _ => continue,
            };
            let from = from.unwrap_or_default();
            let names = pointer(from)?;
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let is_identity =
                op == "test" && matches!(names[..], ["metadata", name] if IDENTITY.contains(&name));
            let is_bookkept = BOOKKEPT
                .iter()
                .any(|path| path.starts_with(&names) || names.starts_with(path));
            let is_shown = self.read_of(kind).is_some_and(|read| {
                let is_in_reach =
                    read.namespaces.is_empty() || read.namespaces.contains(&key.namespace);
                is_in_reach && fields::keeps(&read.fields, &names)
            });
            if !is_identity && (is_bookkept || !is_shown) {
                let from: String = from.chars().take(200).collect();
                return Err(format!(
                    "a JSON Patch may {op} only what the plugin reads, and it does not read {from} whole"
                ));
            }
        }
        Ok(())
    }

    fn finalizer(&self, finalizer: &Finalizer) -> Result<(Kind, ObjectKey), String> {
        let Finalizer { kind, key, .. } = finalizer;
        self.declared(Verb::Patch, kind, key, None)?;
        if self.cluster.declared(kind).is_err() {
            return Err(format!(
                "denied: {} is not among the manifest's reads, which a finalizer action needs",
                kind_text(kind)
            ));
        }
        Ok((kind.clone(), key.clone()))
    }

    fn event(&self, event: &Event) -> Result<(), String> {
        let manifest = &self.cluster.manifest;
        let reads = manifest.reads.iter().map(|read| &read.kind);
        let mut kinds = reads.chain(manifest.writes.iter().map(|write| &write.kind));
        if !kinds.any(|kind| *kind == event.kind) {
            return Err(format!(
                "denied: {} is not among the manifest's kinds",
                kind_text(&event.kind)
            ));
        }
        denied(check_key(&event.key))
    }

    fn children(&mut self, children: &Children) -> Result<(), String> {
        if std::mem::replace(&mut self.has_children, true) {
            return Err("an outcome has one children action; list all of them in it".to_owned());
        }
        for text in &children.objects {
            let object = parse(text)?;
            let (kind, key) = address(&object)?;
            let mut writes = self.cluster.manifest.writes.iter();
            if !writes.any(|write| write.children && write.kind == kind) {
                return Err(format!(
                    "denied: {} is not marked children in the manifest's writes, or not granted with the verbs apply and delete",
                    kind_text(&kind)
                ));
            }
            self.body(text, None, Verb::Apply)?;
            let is_map = |name: &str| {
                let place = &object["metadata"][name];
                place.is_object() || object["metadata"].get(name).is_none()
            };
            if !is_map("labels") || !is_map("annotations") {
                return Err(invalid("metadata.labels and .annotations must be objects"));
            }
            self.written.insert((kind_text(&kind), key.to_string()));
        }
        Ok(())
    }

    fn declared(
        &self,
        verb: Verb,
        kind: &Kind,
        key: &ObjectKey,
        subresource: Option<&str>,
    ) -> Result<(), String> {
        denied(check_key(key))?;
        let mut writes = self.cluster.manifest.writes.iter();
        let is_declared = writes.any(|write| {
            write.kind == *kind
                && write.subresource.as_deref() == subresource
                && write.verbs.contains(&verb)
        });
        if is_declared {
            return Ok(());
        }
        let part = subresource.map(|name| format!("/{name}"));
        Err(format!(
            "denied: {} of {}{} is not among the manifest's writes",
            verb_text(verb),
            kind_text(kind),
            part.unwrap_or_default()
        ))
    }

    /// The read through which the plugin sees a kind, in this version or another one.
    fn read_of(&self, kind: &Kind) -> Option<&Read> {
        let reads = &self.cluster.manifest.reads;
        let exact = reads.iter().find(|read| read.kind == *kind);
        let is_it = |read: &&Read| read.kind.group == kind.group && read.kind.kind == kind.kind;
        exact.or_else(|| reads.iter().find(is_it))
    }

    fn shown(&self, kind: &Kind, key: &ObjectKey) -> Shown<'_> {
        let Some(read) = self.read_of(kind) else {
            return Shown::Unknown;
        };
        let is_in_reach = read.namespaces.is_empty() || read.namespaces.contains(&key.namespace);
        let object = self.cluster.object(&read.kind, key);
        match object.filter(|object| is_in_reach && super::is_selected(read, object)) {
            Some(object) => Shown::Object(object),
            None if is_in_reach && read.labels.is_empty() && read.field_selector.is_none() => {
                Shown::Nothing
            }
            None => Shown::Unknown,
        }
    }

    /// Checks the identity, owners and finalizers in the metadata of a body.
    fn settle(&self, body: &Value, how: Use, kind: &Kind, key: &ObjectKey) -> Result<(), String> {
        if how == Use::Patch && body.get("$patch").is_some() {
            return Err(metadata("a patch may not replace a whole object"));
        }
        let fields = match body.get("metadata") {
            None => return Ok(()),
            Some(Value::Object(fields)) => fields,
            Some(_) => return Err(metadata("must be an object")),
        };
        if how == Use::Patch && fields.keys().any(|name| name.starts_with('$')) {
            return Err(metadata(
                "directives of a strategic merge patch are not for it",
            ));
        }
        let shown = self.shown(kind, key);
        self.owners(fields, &key.namespace, &shown)?;
        finalizers(fields, how, &shown)?;
        // An earlier action of this outcome may have replaced the object, so its uid is not known
        // here.
        let is_written = self.written.contains(&(kind_text(kind), key.to_string()));
        if how != Use::Create && !is_written {
            uid(fields, &shown)?;
        }
        Ok(())
    }

    /// Checks owners: each must be an object that the plugin sees, with its uid, or an owner that
    /// the object already has.
    fn owners(
        &self,
        fields: &Map<String, Value>,
        namespace: &str,
        shown: &Shown<'_>,
    ) -> Result<(), String> {
        let owners = match fields.get("ownerReferences") {
            None | Some(Value::Null) => return Ok(()),
            Some(Value::Array(owners)) => owners,
            Some(_) => return Err(metadata("ownerReferences must be a list")),
        };
        const IDENTITY: [&str; 4] = ["apiVersion", "kind", "name", "uid"];
        let had = shown.metadata("ownerReferences").as_array();
        let had = had.into_iter().flatten();
        let had: Vec<_> = had.map(|had| IDENTITY.map(|name| &had[name])).collect();
        for owner in owners {
            let [api_version, kind, name, uid] =
                IDENTITY.map(|name| owner[name].as_str().unwrap_or_default());
            let kind = kind_from(api_version, kind);
            let is_seen = |namespace: &str| {
                let shown = self.shown(&kind, &ObjectKey::new(namespace, name));
                !uid.is_empty() && shown.metadata("uid") == uid
            };
            let is_had = had.contains(&IDENTITY.map(|name| &owner[name]));
            if !is_had && !is_seen(namespace) && !is_seen("") {
                return Err(format!(
                    "denied: ownerReferences names {} {name:?}, which the plugin does not see, or not with this uid",
                    kind_text(&kind)
                ));
            }
        }
        Ok(())
    }
}

fn finalizers(fields: &Map<String, Value>, how: Use, shown: &Shown<'_>) -> Result<(), String> {
    let is_new = how == Use::Create || (how == Use::Apply && matches!(shown, Shown::Nothing));
    let said = fields.get("finalizers");
    let wanted: BTreeSet<&str> = match said {
        None | Some(Value::Null) => BTreeSet::new(),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        Some(_) => return Err(metadata("finalizers must be a list")),
    };
    let have = shown.metadata("finalizers").as_array();
    let have: BTreeSet<&str> = have
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let is_fine = match how {
        _ if is_new => true,
        Use::Patch => said.is_none(),
        Use::Apply => wanted.is_subset(&have),
        _ => said.is_none() || wanted == have,
    };
    if is_fine {
        return Ok(());
    }
    Err(metadata(
        "finalizers of an object that exists are changed by a finalizer action alone",
    ))
}

fn uid(fields: &Map<String, Value>, shown: &Shown<'_>) -> Result<(), String> {
    let (Some(uid), Shown::Object(_)) = (fields.get("uid"), shown) else {
        return Ok(());
    };
    let have = shown.metadata("uid").as_str().unwrap_or_default();
    if uid.is_null() || *uid == have {
        return Ok(());
    }
    Err(format!(
        "body is of uid {uid}, but the action is for uid {have}"
    ))
}

/// Checks a JSON Patch. It is not known what it changes, only where, so it may not touch fields
/// that are checked in other bodies.
fn json_patch(body: &Value) -> Result<(), String> {
    const GUARDED: [&str; 3] = ["finalizers", "ownerReferences", "managedFields"];
    let steps = body.as_array().into_iter().flatten();
    for step in steps.filter(|step| step["op"] != "test") {
        let paths = [&step["path"], &step["from"]];
        for path in paths.into_iter().filter_map(Value::as_str) {
            let names = pointer(path).map_err(|reason| invalid(&reason))?;
            let is_at = |field: &str| names.iter().zip(["metadata", field]).all(|(a, b)| a == b);
            if let Some(field) = GUARDED.into_iter().find(|field| is_at(field)) {
                return Err(metadata(&format!(
                    "a JSON Patch may not change {field}; see what a finalizer action and a merge patch may"
                )));
            }
        }
    }
    Ok(())
}

fn parse(text: &str) -> Result<Value, String> {
    if text.len() > MAX_BODY {
        return Err(format!(
            "{} bytes; an API server takes at most {MAX_BODY}",
            text.len()
        ));
    }
    serde_json::from_str(text).map_err(|error| invalid(&error.to_string()))
}

/// The kind and key that a body addresses.
pub(super) fn address(object: &Value) -> Result<(Kind, ObjectKey), String> {
    let text = |path: &str| match object.pointer(path) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(_) => Err(invalid(&format!("{path} is not a string"))),
    };
    let (api_version, kind) = (text("/apiVersion")?, text("/kind")?);
    for (path, value) in [("apiVersion", api_version), ("kind", kind)] {
        if value.is_empty() {
            return Err(invalid(&format!("{path} is missing")));
        }
    }
    let key = ObjectKey::new(text("/metadata/namespace")?, text("/metadata/name")?);
    Ok((kind_from(api_version, kind), key))
}

/// Checks that a patch does not carry another object's identity.
fn same_object(body: &Value, kind: &Kind, key: &ObjectKey) -> Result<(), String> {
    for (path, wanted) in [
        ("/apiVersion", &kind.api_version()),
        ("/kind", &kind.kind),
        ("/metadata/name", &key.name),
        ("/metadata/namespace", &key.namespace),
    ] {
        let have = body.pointer(path);
        if let Some(have) = have.filter(|have| have.as_str() != Some(wanted)) {
            return Err(format!(
                "body is of {} {have}, but the action is for {} {key}",
                &path[1..],
                kind_text(kind)
            ));
        }
    }
    Ok(())
}

fn metadata(reason: &str) -> String {
    format!("metadata: {reason}")
}

fn invalid(reason: &str) -> String {
    format!("invalid JSON: {reason}")
}

fn denied(checked: Result<(), String>) -> Result<(), String> {
    checked.map_err(|reason| format!("denied: {reason}"))
}
