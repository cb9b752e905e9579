//! The files with cases.

use std::fs;
use std::path::{Path, PathBuf};

use pilothouse_sdk::{ActionResult, Effect, EffectVerb, Manifest, ObjectRef, Time};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::decision::normalised;
use crate::diff::differences;
use crate::expand::Named;

/// One case, as the README describes it, with everything expanded and filled in.
#[derive(Debug)]
pub struct Case {
    /// The file, without its ending.
    pub file: String,
    /// What happens, as a sentence.
    pub description: String,
    /// Where upstream says so.
    pub upstream: String,
    /// All that there is in the cluster.
    pub objects: Vec<Value>,
    /// Kinds that are not served with every verb.
    pub kinds: Vec<CaseKind>,
    /// What is reconciled. `None`: the only key of a singleton.
    pub key: Option<ObjectRef>,
    /// When.
    pub now: Time,
    /// The plugin's configuration. Null: none.
    pub config: Value,
    /// What the key's last outcome has left. Null: nothing.
    pub memo: Value,
    /// The reconcile's attempt.
    pub attempt: u32,
    /// What became of the key's previous outcome.
    pub previous: Vec<Effect>,
    /// What is to be decided, in the form of [`decision`](crate::decision()).
    pub expect: Value,
}

/// A kind, as the cluster of a case serves it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseKind {
    /// The kind.
    pub kind: String,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// The verbs with which it is served.
    pub verbs: Vec<String>,
}

impl Case {
    /// What is wrong when this has been decided, if something is.
    #[must_use]
    pub fn fault(&self, decided: &Value) -> Option<String> {
        let differences = differences(&self.expect, decided);
        let Self {
            file, description, ..
        } = self;
        let lines = differences.iter().map(|line| format!("\n    {line}"));
        let lines: String = lines.collect();
        (!differences.is_empty()).then(|| format!("{file}: {description}{lines}"))
    }
}

/// Reads the files of a folder whose names end in `.json`, in the order of their names.
///
/// # Panics
///
/// A file is not in the format, or there is none.
#[must_use]
pub fn load(folder: &Path, manifest: &Manifest) -> Vec<Case> {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("an entry of the folder can be read").path());
    let is_json = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "json");
    let mut paths: Vec<PathBuf> = paths.filter(is_json).collect();
    paths.sort();
    let cases = paths.iter().flat_map(|path| {
        read(path, manifest).unwrap_or_else(|fault| panic!("{}: {fault}", path.display()))
    });
    let cases: Vec<Case> = cases.collect();
    assert!(!cases.is_empty(), "{} has no cases", folder.display());
    cases
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    upstream: String,
    #[serde(default)]
    objects: Map<String, Value>,
    cases: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    description: String,
    upstream: Option<String>,
    objects: Vec<Value>,
    #[serde(default)]
    kinds: Vec<CaseKind>,
    key: Option<Name>,
    now: Option<Time>,
    #[serde(default)]
    config: Value,
    #[serde(default)]
    memo: Value,
    attempt: Option<u32>,
    #[serde(default)]
    previous: Vec<Became>,
    expect: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Name {
    kind: Option<String>,
    #[serde(default)]
    namespace: String,
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Became {
    object: Name,
    verb: String,
    outcome: Value,
}

fn read(path: &Path, manifest: &Manifest) -> Result<Vec<Case>, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let file: File = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    if file.upstream.is_empty() {
        return Err("`upstream` says which test or rule of Kubernetes this is".to_owned());
    }
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let named = Named::new(file.objects);
    let cases = file.cases.into_iter().map(|entry| {
        let described = entry.description.clone();
        let case = case(&name, &file.upstream, entry, &named, manifest);
        case.map_err(|fault| format!("{described:?}: {fault}"))
    });
    cases.collect()
}

fn case(
    file: &str,
    upstream: &str,
    entry: Entry,
    named: &Named,
    manifest: &Manifest,
) -> Result<Case, String> {
    if entry.key.is_none() != manifest.singleton {
        return Err("every case has a `key`, unless the plugin is a singleton".to_owned());
    }
    let previous = entry.previous.iter().map(effect);
    let only = match manifest.reconciles.as_slice() {
        [only] => Some(only.kind.as_str()),
        _ => None,
    };
    let default = || "2026-01-01T00:00:00Z".parse();
    let now = entry.now.map_or_else(default, Ok);
    let now: Time = now.map_err(|error| error.to_string())?;
    Ok(Case {
        file: file.to_owned(),
        description: entry.description,
        upstream: entry.upstream.unwrap_or_else(|| upstream.to_owned()),
        objects: named.objects(&entry.objects, now)?,
        kinds: entry.kinds,
        key: entry.key.map(|key| object_ref(&key, only)).transpose()?,
        now,
        config: entry.config,
        memo: entry.memo,
        attempt: entry.attempt.unwrap_or(1),
        previous: previous.collect::<Result<_, _>>()?,
        expect: normalised(named.expanded(&entry.expect, 0)?)?,
    })
}

fn object_ref(name: &Name, kind: Option<&str>) -> Result<ObjectRef, String> {
    let kind = name.kind.as_deref().or(kind);
    let kind = kind.ok_or("say the `kind` of the object, such as apps/v1/ReplicaSet")?;
    Ok(ObjectRef::new(kind, &name.namespace, &name.name))
}

fn effect(became: &Became) -> Result<Effect, String> {
    let verb = match became.verb.as_str() {
        "apply" => EffectVerb::Apply,
        "create" => EffectVerb::Create,
        "update" => EffectVerb::Update,
        "patch" => EffectVerb::Patch,
        "delete" => EffectVerb::Delete,
        "delete-all" => EffectVerb::DeleteAll,
        "event" => EffectVerb::Event,
        "finalizer" => EffectVerb::Finalizer,
        other => return Err(format!("`{other}` is no verb of the contract")),
    };
    Ok(Effect {
        object: object_ref(&became.object, None)?,
        verb,
        outcome: result(&became.outcome)?,
    })
}

fn result(outcome: &Value) -> Result<ActionResult, String> {
    let text = |name: &str| outcome[name].as_str().map(ToOwned::to_owned);
    let result = match outcome.as_str() {
        Some("done") => Some(ActionResult::Done(None)),
        Some("unchanged") => Some(ActionResult::Unchanged),
        Some("skipped") => Some(ActionResult::Skipped),
        Some(_) => None,
        None => None
            .or_else(|| text("done").map(|version| ActionResult::Done(Some(version))))
            .or_else(|| text("conflict").map(ActionResult::Conflict))
            .or_else(|| text("already-exists").map(ActionResult::AlreadyExists))
            .or_else(|| text("not-found").map(ActionResult::NotFound))
            .or_else(|| text("forbidden").map(ActionResult::Forbidden))
            .or_else(|| text("invalid").map(ActionResult::Invalid))
            .or_else(|| text("failed").map(ActionResult::Failed)),
    };
    result.ok_or_else(|| format!("{outcome} is no outcome of a write in the contract"))
}
