//! What an untrusted plugin could do with what its manifest asks for, so that the operator knows
//! before granting it. Covers what is asked for, not what is granted: names and namespaces in the
//! settings narrow it further.

mod table;

use pilothouse_core::{Kind, Manifest, Verb, WriteDeclaration, reads_secret_values};

use table::{CHANGE, DELETE, GROUPS, MAKE, OBJECTS, OfObject, OfPart, PARTS};

/// The risks, one line each.
pub fn risks(manifest: &Manifest) -> Vec<String> {
    let writes = manifest.writes.iter().flat_map(of_write);
    of_reads(manifest).into_iter().chain(writes).collect()
}

fn of_reads(manifest: &Manifest) -> Vec<String> {
    let values = reads_secret_values(manifest)
        .then(|| "reads v1/Secret: could see their values, if secret-values is set".to_owned());
    let reads = manifest.reads.iter();
    let patterns = reads.filter(|read| read.kind.is_pattern()).map(|read| {
        let fields = read.fields.join(" ");
        let secrets = match read.kind.includes(&secret()) {
            true => ", Secrets included",
            false => "",
        };
        format!(
            "reads {}: could see names, namespaces and {fields} of every object of {}{secrets}, and makes the host watch each kind that it asks about",
            read.kind,
            extent(&read.kind)
        )
    });
    values.into_iter().chain(patterns).collect()
}

fn secret() -> Kind {
    Kind::new("", "v1", "Secret")
}

/// The kinds that a pattern includes.
fn extent(pattern: &Kind) -> String {
    match &*pattern.group {
        "*" => "every kind, also of those that are defined later".to_owned(),
        "" => "every kind of the core group".to_owned(),
        group => format!("every kind of the group {group}"),
    }
}

/// What could be done to objects of whatever kind.
fn of_pattern(write: &WriteDeclaration) -> Vec<String> {
    let could = [
        (
            Verb::Patch,
            "change any object: what runs (Pods), who may do what (RBAC), what admission asks (webhooks)",
        ),
        (Verb::Delete, "delete any object"),
        (
            Verb::DeleteCollection,
            "delete all objects of a kind in a namespace with one request",
        ),
    ];
    let could = could
        .into_iter()
        .filter(|(verb, _)| write.verbs.contains(verb));
    let could = could.map(|(_, could)| {
        format!(
            "writes {}: could {could}, of {}",
            write.kind,
            extent(&write.kind)
        )
    });
    could.collect()
}

fn of_write(write: &WriteDeclaration) -> Vec<String> {
    if write.kind.is_pattern() {
        return of_pattern(write);
    }
    let WriteDeclaration {
        kind, subresource, ..
    } = write;
    let part = subresource.as_ref().map(|name| format!("/{name}"));
    let what = format!("{kind}{}", part.unwrap_or_default());
    let objects = OBJECTS.iter().filter(|risk| risk.is_in(write));
    let parts = PARTS.iter().filter(|risk| risk.is_in(write));
    let could = objects
        .map(|risk| risk.could)
        .chain(parts.map(|risk| risk.could))
        .chain(of_strange_group(write));
    let mut lines: Vec<String> = could
        .map(|could| format!("writes {what}: could {could}"))
        .collect();
    lines.extend(of_metadata(write));
    lines
}

/// A plugin that changes an object also changes its metadata, by which others find and delete it.
/// `children` makes no difference: an object that `children` apply to may exist already and belong
/// to somebody else.
fn of_metadata(write: &WriteDeclaration) -> Option<String> {
    let is_change = write.subresource.is_none() && has_any(write, CHANGE);
    let kind = &write.kind;
    let selected = match is_selected(kind) {
        true => " take it into or out of what Services and controllers select (labels),",
        false => "",
    };
    is_change.then(|| {
        format!(
            "writes {kind}: could change any such object,{selected} keep it from being deleted (finalizers), have it deleted (owner references)"
        )
    })
}

fn is_selected(kind: &Kind) -> bool {
    kind.group.is_empty() && &*kind.kind == "Pod"
}

fn has_any(write: &WriteDeclaration, verbs: &[Verb]) -> bool {
    write.verbs.iter().any(|verb| verbs.contains(verb))
}

/// The risks of a write to an object of an API group whose controllers are not known here.
fn of_strange_group(write: &WriteDeclaration) -> Vec<&'static str> {
    let is_known = GROUPS.contains(&&*write.kind.group)
        || OBJECTS.iter().any(|risk| risk.group == &*write.kind.group);
    let could = [
        (
            MAKE,
            "have its controller do whatever that does for such an object",
        ),
        (
            DELETE,
            "have its controller end whatever there is behind such an object",
        ),
    ];
    let could = could
        .into_iter()
        .filter(|(verbs, _)| !is_known && has_any(write, verbs));
    could.map(|(_, could)| could).collect()
}

impl OfObject {
    fn is_in(&self, write: &WriteDeclaration) -> bool {
        let is_kind = self.kinds.is_empty() || self.kinds.contains(&&*write.kind.kind);
        write.subresource.is_none()
            && *write.kind.group == *self.group
            && is_kind
            && has_any(write, self.verbs)
    }
}

impl OfPart {
    fn is_in(&self, write: &WriteDeclaration) -> bool {
        let part = write.subresource.as_deref();
        part.is_some_and(|part| self.names.contains(&part)) && !write.verbs.is_empty()
    }
}

#[cfg(test)]
mod tests;
