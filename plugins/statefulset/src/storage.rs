//! The storage of a pod: a claim for each template, and the volumes that mount them.

use serde_json::{Map, Value, json};

use crate::identity;
use crate::objects::{Pod, StatefulSet};

/// A claim that a pod needs.
pub struct Wanted<'a> {
    /// The name of the template, and of the volume.
    pub volume: &'a str,
    /// The name of the claim.
    pub name: String,
    template: &'a Value,
}

/// The claims of the pod with this ordinal, in the order of the templates.
pub fn claims(set: &StatefulSet, ordinal: i64) -> impl Iterator<Item = Wanted<'_>> {
    let templates = set.spec.volume_claim_templates.iter();
    templates.map(move |template| {
        let volume = template["metadata"]["name"].as_str().unwrap_or_default();
        let name = format!("{volume}-{}-{ordinal}", set.name());
        Wanted {
            volume,
            name,
            template,
        }
    })
}

impl Wanted<'_> {
    /// The claim, as it is created.
    pub fn object(&self, set: &StatefulSet) -> Value {
        let template = self.template;
        let mut object = template.as_object().cloned().unwrap_or_default();
        object.insert("apiVersion".to_owned(), "v1".into());
        object.insert("kind".to_owned(), "PersistentVolumeClaim".into());
        let mut metadata = template["metadata"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        metadata.insert("name".to_owned(), self.name.as_str().into());
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
        Value::Object(object)
    }
}

/// True if the pod mounts the claims of its ordinal.
pub fn matches(set: &StatefulSet, pod: &Pod, ordinal: i64) -> bool {
    let mounts = |claim: &Wanted<'_>| {
        let mut volumes = pod.spec.volumes.iter();
        let volume = volumes.rfind(|volume| volume.name == claim.volume);
        let source = volume.and_then(|volume| volume.persistent_volume_claim.as_ref());
        source.is_some_and(|source| source.claim_name == claim.name)
    };
    claims(set, ordinal).all(|claim| mounts(&claim))
}

/// The volumes that mount the claims of an ordinal.
pub fn volumes(set: &StatefulSet, ordinal: i64) -> Vec<Value> {
    let claims = claims(set, ordinal);
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
