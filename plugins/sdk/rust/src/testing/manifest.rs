//! The host's checks of a manifest, with the host's messages. `wit/cases/manifests.json` tests that
//! both give the same answers.

use std::collections::BTreeSet;

use serde_json::Value;

use super::names::{is_dns_label, kind_text};
use super::{fields, texts};
use crate::{Kind, Manifest, Subject, Verb, Write};

const CONFIG_SCHEMA_BYTES: usize = 256 << 10;

/// Checks a manifest as the host does.
///
/// # Errors
///
/// The host's message for a manifest that it would refuse.
pub fn check_manifest(manifest: &Manifest) -> Result<(), String> {
    if !is_dns_label(&manifest.name) {
        return Err(format!(
            "name {:?} is not a DNS label (a-z, 0-9 and '-', at most 63 characters, starting and \
             ending with a letter or digit)",
            manifest.name
        ));
    }
    if manifest.name == "pilothouse" {
        return Err("the name \"pilothouse\" is the host's own; choose another".to_owned());
    }
    counts(manifest)?;
    texts::check(manifest)?;
    reads(manifest)?;
    subject(manifest)?;
    indexes(manifest)?;
    writes(manifest)?;
    limits(manifest)?;
    config_schema(manifest)
}

fn counts(manifest: &Manifest) -> Result<(), String> {
    let fields = manifest.reads.iter().map(|read| read.fields.len()).sum();
    let of_reads = || manifest.reads.iter().map(|read| read.namespaces.len());
    let (namespaces, most) = (of_reads().sum(), of_reads().max().unwrap_or_default());
    let paths = manifest.indexes.iter().map(|index| index.paths.len()).sum();
    let (companions, selected) = match &manifest.subject {
        Subject::Each(selection) => (selection.companions.len(), selection.namespaces.len()),
        Subject::Singleton => (0, 0),
    };
    let verbs = manifest.writes.iter().map(|write| write.verbs.len()).max();
    for (what, count, max) in [
        ("verbs of a write", verbs.unwrap_or_default(), 5),
        ("companions", companions, 100),
        ("namespaces of the subject", selected, 500),
        ("kinds in reads", manifest.reads.len(), 100),
        ("namespaces in a read", most, 20),
        ("namespaces in reads", namespaces, 200),
        ("fields in reads", fields, 1_000),
        ("indexes", manifest.indexes.len(), 16),
        ("index paths", paths, 64),
        ("writes", manifest.writes.len(), 500),
    ] {
        at_most(max, count, what)?;
    }
    Ok(())
}

pub(super) fn at_most(max: usize, count: usize, what: &str) -> Result<(), String> {
    if count > max {
        return Err(format!("{count} {what}; a manifest has at most {max}"));
    }
    Ok(())
}

fn reads(manifest: &Manifest) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for read in &manifest.reads {
        if !seen.insert(kind_text(&read.kind)) {
            return Err(format!(
                "{} is declared twice in reads; one declaration lists all its fields",
                kind_text(&read.kind)
            ));
        }
        for field in &read.fields {
            fields::parse(field)?;
        }
        if let Some(selector) = &read.field_selector {
            field_selector(selector)?;
        }
    }
    Ok(())
}

fn subject(manifest: &Manifest) -> Result<(), String> {
    let Subject::Each(selection) = &manifest.subject else {
        return Ok(());
    };
    must_read(manifest, "the subject", &selection.kind)?;
    for companion in &selection.companions {
        must_read(manifest, "the companion", companion)?;
    }
    match &selection.fields {
        Some(selector) => field_selector(selector),
        None => Ok(()),
    }
}

/// Most `[*]` in a path of an index.
const MAX_BRANCHINGS: usize = 2;

fn indexes(manifest: &Manifest) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for index in &manifest.indexes {
        must_read(manifest, "the indexed kind", &index.kind)?;
        let what = format!("index {:?} of {}", index.name, kind_text(&index.kind));
        if !seen.insert(what.clone()) {
            return Err(format!("{what} is declared twice"));
        }
        if index.paths.is_empty() {
            return Err(format!("{what} has no path"));
        }
        for path in &index.paths {
            let branchings = fields::parse(path)?
                .iter()
                .filter(|step| step.is_none())
                .count();
            if branchings > MAX_BRANCHINGS {
                return Err(format!(
                    "{what}: {path:?} has more than {MAX_BRANCHINGS} [*]; each multiplies what is indexed of an object"
                ));
            }
        }
    }
    Ok(())
}

fn writes(manifest: &Manifest) -> Result<(), String> {
    for write in &manifest.writes {
        whole_update(manifest, write)?;
        if write.children {
            children(manifest, write)?;
        }
    }
    Ok(())
}

/// An update made from a reduced view would remove the fields that the view lacks.
fn whole_update(manifest: &Manifest, write: &Write) -> Result<(), String> {
    let of = |kind: &Kind| (kind.group.clone(), kind.kind.clone());
    let reads = manifest.reads.iter();
    let reads = reads.filter(|read| of(&read.kind) == of(&write.kind));
    let read = reads.min_by_key(|read| read.kind != write.kind);
    let is_cut = read.is_some_and(|read| !read.fields.is_empty());
    if write.subresource.is_none() && write.verbs.contains(&Verb::Update) && is_cut {
        return Err(format!(
            "writes: update of {} replaces the whole object, but the manifest reads only some fields of it: read it whole (no fields), or write it with patch or apply",
            kind_text(&write.kind)
        ));
    }
    Ok(())
}

fn children(manifest: &Manifest, write: &Write) -> Result<(), String> {
    must_read(manifest, "the children kind", &write.kind)?;
    let kind = kind_text(&write.kind);
    let mut reads = manifest.reads.iter();
    if reads.any(|read| {
        read.kind == write.kind && (!read.labels.is_empty() || read.field_selector.is_some())
    }) {
        return Err(format!(
            "reads: {kind} has children among the writes, so it cannot be narrowed by labels or fields"
        ));
    }
    let has = |verb| write.verbs.contains(&verb);
    if write.subresource.is_some() || !has(Verb::Apply) || !has(Verb::Delete) {
        return Err(format!(
            "writes: {kind} is marked children, which needs the verbs apply and delete on the object itself"
        ));
    }
    Ok(())
}

fn limits(manifest: &Manifest) -> Result<(), String> {
    let limits = &manifest.limits;
    for (name, is_zero) in [
        ("memory-bytes", limits.memory_bytes == Some(0)),
        ("fuel", limits.fuel == Some(0)),
        ("timeout", limits.timeout == Some(0)),
        ("concurrency", limits.concurrency == Some(0)),
    ] {
        if is_zero {
            return Err(format!("limits: {name} must be more than 0"));
        }
    }
    Ok(())
}

fn config_schema(manifest: &Manifest) -> Result<(), String> {
    let Some(schema) = &manifest.config_schema else {
        return Ok(());
    };
    at_most(CONFIG_SCHEMA_BYTES, schema.len(), "bytes of config-schema")?;
    let parsed = serde_json::from_str::<Value>(schema).map(drop);
    parsed.map_err(|error| format!("config-schema is not JSON: {error}"))
}

fn must_read(manifest: &Manifest, what: &str, kind: &Kind) -> Result<(), String> {
    if manifest.reads.iter().any(|read| read.kind == *kind) {
        return Ok(());
    }
    Err(format!(
        "{what} {} is not among the manifest's reads; add it there",
        kind_text(kind)
    ))
}

fn field_selector(selector: &str) -> Result<(), String> {
    for term in selector.split(',').filter(|term| !term.is_empty()) {
        let Some((field, _)) = term.split_once("!=").or_else(|| term.split_once('=')) else {
            return Err(format!(
                "field selector: {term:?} is not of the form field=value or field!=value"
            ));
        };
        fields::parse(&format!(".{}", field.trim()))
            .map_err(|error| format!("field selector: {error}"))?;
    }
    Ok(())
}
