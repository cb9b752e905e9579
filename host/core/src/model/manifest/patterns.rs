//! What a manifest may say of patterns: kinds by group, or all of them ([`Kind::is_pattern`]).

use super::{Manifest, ManifestError, ReadDeclaration, Selection, Verb};
use crate::model::fields::FieldPath;
use crate::model::key::Kind;

/// The verbs that can be asked for of a pattern: those that need nothing of the object but its
/// metadata.
const VERBS: [Verb; 3] = [Verb::Patch, Verb::Delete, Verb::DeleteCollection];

/// The parts of an object that can be read by a pattern. A kind whose values are secret has none of
/// them in its spec: they are in `data`.
const READABLE: [&str; 2] = ["metadata", "spec"];

/// Checks the patterns of a manifest that is sound otherwise.
pub(super) fn validate(manifest: &Manifest) -> Result<(), ManifestError> {
    only_kinds(manifest)?;
    exceptions(manifest)?;
    let reads = manifest.reads.iter();
    let patterns: Vec<&ReadDeclaration> = reads.filter(|read| read.kind.is_pattern()).collect();
    for read in &patterns {
        let is_narrowed = read.is_narrowed() || !read.namespaces.is_empty();
        let is_readable = |path: &String| is_below(path, &READABLE);
        let are_readable = !read.fields.is_empty() && read.fields.iter().all(is_readable);
        if is_narrowed || !are_readable {
            return Err(ManifestError::PatternOfMore(read.kind.clone()));
        }
        let other = patterns.iter().find(|other| other.kind != read.kind);
        if let Some(other) = other.filter(|other| read.kind.includes(&other.kind)) {
            let (wider, other) = (read.kind.clone(), other.kind.clone());
            return Err(ManifestError::PatternTwice(wider, other));
        }
    }
    for index in manifest.indexes.iter().filter(|it| it.kind.is_pattern()) {
        if !index.paths.iter().all(|path| is_below(path, &["metadata"])) {
            let (name, kind) = (index.name.clone(), index.kind.clone());
            return Err(ManifestError::PatternIndex(name, kind));
        }
    }
    let mut writes = manifest.writes.iter().filter(|it| it.kind.is_pattern());
    let more = writes.find(|write| {
        let has_other = !write.verbs.iter().all(|verb| VERBS.contains(verb));
        has_other || write.subresource.is_some() || write.children
    });
    more.map_or(Ok(()), |write| {
        Err(ManifestError::PatternWrite(write.kind.clone()))
    })
}

/// What a pattern's read leaves out is a part of it, and is not declared in another place.
fn exceptions(manifest: &Manifest) -> Result<(), ManifestError> {
    for read in &manifest.reads {
        let is_part = |kind: &&Kind| read.kind.includes(kind) && read.kind != **kind;
        let mut except = read.except.iter();
        if let Some(other) = except.find(|kind| !is_part(kind) || kind.is_pattern()) {
            let (pattern, other) = (read.kind.clone(), other.clone());
            return Err(ManifestError::NoException(pattern, other));
        }
    }
    Ok(())
}

/// No pattern is optional, because one that includes nothing is served, too; and what selects keys
/// of a pattern is in the metadata.
fn only_kinds(manifest: &Manifest) -> Result<(), ManifestError> {
    let check = |place, mut kinds: Box<dyn Iterator<Item = &Kind> + '_>| {
        let pattern = kinds.find(|kind| kind.is_pattern());
        pattern.map_or(Ok(()), |kind| {
            Err(ManifestError::Pattern(place, kind.clone()))
        })
    };
    let reconciles = || manifest.reconciles.iter();
    let is_more = |selection: &&Selection| {
        let has_more = selection.fields.is_some() || !selection.companions.is_empty();
        selection.kind.is_pattern() && has_more
    };
    if let Some(selection) = reconciles().find(is_more) {
        return Err(ManifestError::PatternSelected(selection.kind.clone()));
    }
    let companions = reconciles().flat_map(|selection| &selection.companions);
    check("alsoEnqueuedBy", Box::new(companions))?;
    check("optional", Box::new(manifest.optional.iter()))
}

/// True if a path leads into one of these parts of an object.
fn is_below(path: &str, parts: &[&str]) -> bool {
    let path = FieldPath::parse(path).ok();
    let root = path.as_ref().and_then(FieldPath::root);
    root.is_some_and(|root| parts.contains(&root))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of a manifest with these members, or nothing.
    fn fault(members: &str) -> String {
        let text = format!(r#"{{"name": "p", "version": "1", {members}}}"#);
        let manifest = Manifest::from_json(&text).unwrap();
        let fault = manifest.validate();
        fault
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    }

    const METADATA: &str = r#"{"kind": "*", "fields": [".metadata.labels"]}"#;

    #[test]
    fn a_pattern_may_be_read_indexed_and_written() {
        let sound = format!(
            r#""singleton": true, "reads": [{METADATA}, {{"kind": "v1/Pod"}}],
            "indexes": [{{"name": "owner", "kind": "*", "paths": [".metadata.ownerReferences[*].uid"]}}],
            "writes": [{{"kind": "*", "verbs": ["patch", "delete", "deletecollection"]}}]"#
        );
        assert_eq!(fault(&sound), "");
    }

    #[test]
    fn a_pattern_reads_metadata_and_spec_of_all_objects_and_nothing_else() {
        let both = r#"{"kind": "*", "fields": [".metadata.labels", ".spec"]}"#;
        let both = format!(r#""singleton": true, "reads": [{both}]"#);
        assert_eq!(fault(&both), "");
        for read in [
            r#"{"kind": "*"}"#,
            r#"{"kind": "*", "fields": [".metadata.labels", ".status"]}"#,
            r#"{"kind": "*", "fields": [".data"]}"#,
            r#"{"kind": "*", "fields": ["[*].replicas"]}"#,
            r#"{"kind": "*", "fields": [".spec"], "namespaces": ["a"]}"#,
            r#"{"kind": "*", "fields": [".metadata"], "namespaces": ["a"]}"#,
            r#"{"kind": "apps/*", "fields": [".metadata"], "labels": "a=b"}"#,
            r#"{"kind": "*", "fields": [".metadata"], "fieldSelector": "metadata.name=a"}"#,
        ] {
            let fault = fault(&format!(r#""singleton": true, "reads": [{read}]"#));
            assert!(fault.contains("metadata and spec alone"), "{read}: {fault}");
        }
        let of_spec = fault(&format!(
            r#""singleton": true, "reads": [{METADATA}],
            "indexes": [{{"name": "i", "kind": "*", "paths": [".spec.nodeName"]}}]"#
        ));
        assert!(of_spec.contains("paths below .metadata alone"), "{of_spec}");
    }

    #[test]
    fn patterns_do_not_overlap() {
        let both = fault(&format!(
            r#""singleton": true, "reads": [{METADATA}, {{"kind": "apps/*", "fields": [".metadata"]}}]"#
        ));
        assert_eq!(both, "reads: * includes apps/*; declare one of them");
    }

    #[test]
    fn a_pattern_is_reconciled_by_what_metadata_selects() {
        let sound = format!(
            r#""reconciles": [{{"kind": "*", "labels": "a", "namespaces": ["b"]}}],
            "reads": [{METADATA}]"#
        );
        assert_eq!(fault(&sound), "");
        let unread = fault(r#""reconciles": [{"kind": "*"}]"#);
        assert!(unread.starts_with("the reconciled kind *"), "{unread}");
        for more in [
            r#""fieldSelector": "metadata.name=a""#,
            r#""alsoEnqueuedBy": ["v1/Pod"]"#,
        ] {
            let fault = fault(&format!(
                r#""reconciles": [{{"kind": "*", {more}}}],
                "reads": [{METADATA}, {{"kind": "v1/Pod"}}]"#
            ));
            assert!(fault.starts_with("reconciles: the keys of *"), "{fault}");
        }
        let optional = fault(
            r#""singleton": true, "reads": [{"kind": "*", "fields": [".metadata"], "optional": true}]"#,
        );
        assert!(optional.starts_with("optional *: a pattern"), "{optional}");
    }

    #[test]
    fn a_pattern_leaves_out_kinds_of_its_own() {
        let with = |except: &str| {
            fault(&format!(
                r#""singleton": true, "reads": [{{"kind": "apps/*", "fields": [".metadata"],
                "except": [{except}]}}]"#
            ))
        };
        assert_eq!(with(r#""apps/v1/Deployment""#), "");
        for other in ["v1/Event", "apps/*"] {
            let fault = with(&format!("{other:?}"));
            assert!(
                fault.starts_with("reads: apps/* cannot leave out"),
                "{fault}"
            );
        }
        let of_kind =
            fault(r#""singleton": true, "reads": [{"kind": "v1/Pod", "except": ["v1/Pod"]}]"#);
        assert!(
            of_kind.starts_with("reads: v1/Pod cannot leave out"),
            "{of_kind}"
        );
    }

    #[test]
    fn what_is_written_of_a_pattern_needs_no_more_than_metadata() {
        for write in [
            r#"{"kind": "*", "verbs": ["apply"]}"#,
            r#"{"kind": "*", "verbs": ["update"]}"#,
            r#"{"kind": "*", "verbs": ["create"]}"#,
            r#"{"kind": "*", "verbs": ["patch"], "subresource": "status"}"#,
        ] {
            let fault = fault(&format!(
                r#""singleton": true, "reads": [{METADATA}], "writes": [{write}]"#
            ));
            assert!(fault.starts_with("writes: of * only"), "{write}: {fault}");
        }
    }
}
