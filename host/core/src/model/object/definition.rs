//! A CustomResourceDefinition without the schemas of its versions: they can be a hundred times as
//! long as all the rest.

use serde_json::value::RawValue;

use super::normalise::push_member;
use crate::model::fields::members;
use crate::model::key::Kind;

/// True for the kind of CustomResourceDefinitions, in every version.
pub(super) fn is_one(kind: &Kind) -> bool {
    (&*kind.group, &*kind.kind) == ("apiextensions.k8s.io", "CustomResourceDefinition")
}

/// The `spec` without `versions[*].schema`.
pub(super) fn without_schemas(spec: &str) -> Result<String, serde_json::Error> {
    let mut out = String::from("{");
    for (name, value) in members(spec)? {
        if &*name == "versions" {
            push_member(&mut out, &name, &versions(value.get())?);
        } else {
            push_member(&mut out, &name, value.get());
        }
    }
    out.push('}');
    Ok(out)
}

fn versions(versions: &str) -> Result<String, serde_json::Error> {
    let versions: Vec<&RawValue> = serde_json::from_str(versions)?;
    let versions = versions.into_iter().map(|version| {
        let mut out = String::from("{");
        for (name, value) in members(version.get())? {
            if &*name != "schema" {
                push_member(&mut out, &name, value.get());
            }
        }
        out.push('}');
        Ok(out)
    });
    let versions: Result<Vec<String>, serde_json::Error> = versions.collect();
    Ok(format!("[{}]", versions?.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_versions_all_but_the_schema_stays() {
        let spec = r#"{"group":"a.b","versions":[{"name":"v1","schema":{"openAPIV3Schema":{}},
            "subresources":{"scale":{"specReplicasPath":".spec.n"}}},{"schema":null,"name":"v2"}]}"#;
        let kept = r#"{"group":"a.b","versions":[{"name":"v1","subresources":{"scale":{"specReplicasPath":".spec.n"}}},{"name":"v2"}]}"#;
        assert_eq!(without_schemas(spec).expect("it is a spec"), kept);
        assert_eq!(without_schemas("{}").expect("it is empty"), "{}");
    }
}
