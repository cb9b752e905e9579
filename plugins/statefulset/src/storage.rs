//! The storage of a pod: a claim for each template, and the volumes that mount them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::identity;
use crate::objects::{Pod, StatefulSet};

/// A claim that a pod needs.
pub struct Wanted {
    /// The name of the template, and of the volume.
    pub volume: String,
    /// The name of the claim.
    pub name: String,
    /// The claim, as it would be created.
    pub object: Value,
}

/// The claims of the pod with this ordinal, in the order of the templates.
pub fn claims(set: &StatefulSet, ordinal: i64) -> Vec<Wanted> {
    let templates = set.spec.volume_claim_templates.iter();
    templates
        .map(|template| claim(set, template, ordinal))
        .collect()
}

fn claim(set: &StatefulSet, template: &Value, ordinal: i64) -> Wanted {
    let volume = template["metadata"]["name"].as_str().unwrap_or_default();
    let name = format!("{volume}-{}-{ordinal}", set.name());
    let mut object = template.as_object().cloned().unwrap_or_default();
    object.insert("apiVersion".to_owned(), "v1".into());
    object.insert("kind".to_owned(), "PersistentVolumeClaim".into());
    let mut metadata = template["metadata"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    metadata.insert("name".to_owned(), name.as_str().into());
    metadata.insert("namespace".to_owned(), set.namespace().into());
    let mut labels = template["metadata"]["labels"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    let selected = set.spec.selector["matchLabels"].as_object().cloned();
    labels.extend(selected.unwrap_or_default());
    if !labels.is_empty() {
        metadata.insert("labels".to_owned(), Value::Object(labels));
    }
    object.insert("metadata".to_owned(), Value::Object(metadata));
    Wanted {
        volume: volume.to_owned(),
        name,
        object: Value::Object(object),
    }
}

/// True if the pod mounts the claims of its ordinal.
pub fn matches(set: &StatefulSet, pod: &Pod, ordinal: i64) -> bool {
    let volumes = pod.spec.volumes.iter();
    let volumes: BTreeMap<&str, Option<&str>> = volumes
        .map(|volume| {
            let claim = volume.persistent_volume_claim.as_ref();
            (
                volume.name.as_str(),
                claim.map(|claim| claim.claim_name.as_str()),
            )
        })
        .collect();
    let is_mounted =
        |claim: &Wanted| volumes.get(claim.volume.as_str()) == Some(&Some(claim.name.as_str()));
    claims(set, ordinal).iter().all(is_mounted)
}

/// The volumes that mount the claims of an ordinal.
pub fn volumes(set: &StatefulSet, ordinal: i64) -> Vec<Value> {
    let claims = claims(set, ordinal).into_iter();
    let volume = |claim: Wanted| json!({"name": claim.volume, "persistentVolumeClaim": {"claimName": claim.name}});
    claims.map(volume).collect()
}

/// Puts the volumes of an ordinal into the spec of a pod. They replace those of the same name.
pub fn mount(set: &StatefulSet, ordinal: i64, spec: &mut Map<String, Value>) {
    let mut all = volumes(set, ordinal);
    let names: Vec<Value> = all.iter().map(|volume| volume["name"].clone()).collect();
    let others = spec.get("volumes").and_then(Value::as_array);
    let others = others.into_iter().flatten();
    all.extend(
        others
            .filter(|volume| !names.contains(&volume["name"]))
            .cloned(),
    );
    if !all.is_empty() {
        spec.insert("volumes".to_owned(), Value::Array(all));
    }
}

/// The ordinal of the pod that needs a claim of this name. `None`: it is no claim of the set.
pub fn ordinal_of(set: &StatefulSet, claim: &str) -> Option<i64> {
    let templates = set.spec.volume_claim_templates.iter();
    let mut ordinals = templates.filter_map(|template| {
        let volume = template["metadata"]["name"].as_str()?;
        let pod = claim.strip_prefix(volume)?.strip_prefix('-')?;
        let (parent, ordinal) = identity::parent_and_ordinal(pod)?;
        ordinal.filter(|_| parent == set.name())
    });
    ordinals.next()
}
