//! Objects of any kind, of which only the number is limited: `count/deployments.apps`.

use pilothouse_sdk::{Failure, Filter, Host, Metadata, ReadError, ServedKind};
use serde::Deserialize;

use crate::resources::Resources;
use crate::usage::{PAGE, Tally, number};

/// Every kind that the cluster serves.
pub const EVERY_KIND: &str = "*";

/// What these kinds are called without `count/` as well, from the time before there was that.
const ALIASES: [&str; 4] = [
    "configmaps",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
];

/// What is counted together with more of it.
const COUNTED_ELSEWHERE: [&str; 4] = [
    "count/pods",
    "count/services",
    "count/persistentvolumeclaims",
    "count/resourceclaims.resource.k8s.io",
];

/// What the API server does not limit.
const IGNORED: [&str; 2] = ["events", "events.events.k8s.io"];

#[derive(Deserialize)]
struct Counted {
    metadata: Metadata,
}

/// Counts the objects of each kind whose number is limited. None has a scope.
pub fn count(tally: &mut Tally) -> Result<(), Failure> {
    let mut wanted: Vec<&str> = tally.limited().filter_map(resource).collect();
    wanted.sort_unstable();
    wanted.dedup();
    if wanted.is_empty() {
        return Ok(());
    }
    let served = match tally.host.served_kinds(EVERY_KIND) {
        Ok(served) => served,
        Err(ReadError::Denied(why) | ReadError::Unavailable(why)) => {
            tally.uncounted.push(why);
            return Ok(());
        }
    };
    for resource in wanted {
        let mut kinds = served.iter().filter(|kind| can_be_counted(kind));
        if let Some(kind) = kinds.find(|kind| resource_of(kind) == resource) {
            count_kind(tally, kind, resource)?;
        }
    }
    Ok(())
}

/// The resource with its group, if its number is limited by this name.
fn resource(name: &str) -> Option<&str> {
    if COUNTED_ELSEWHERE.contains(&name) {
        return None;
    }
    let alias = ALIASES.iter().find(|alias| **alias == name).copied();
    name.strip_prefix("count/").or(alias)
}

/// `deployments.apps`, `configmaps`.
fn resource_of(kind: &ServedKind) -> String {
    let group = match kind.kind.split('/').collect::<Vec<_>>()[..] {
        [group, _, _] => group,
        _ => "",
    };
    format!("{}.{group}", kind.resource)
        .trim_end_matches('.')
        .to_owned()
}

fn can_be_counted(kind: &ServedKind) -> bool {
    let has = |verb: &str| kind.verbs.iter().any(|own| own == verb);
    kind.namespaced
        && ["create", "list", "watch", "delete"].into_iter().all(has)
        && !IGNORED.contains(&&*resource_of(kind))
}

fn count_kind(tally: &mut Tally, kind: &ServedKind, resource: &str) -> Result<(), Failure> {
    if let Some(why) = &kind.unavailable {
        tally.uncounted.push(format!("{resource}: {why}"));
        return Ok(());
    }
    if !tally.begin(|name| self::resource(name) == Some(resource)) || !tally.scopes.are_none() {
        return Ok(());
    }
    let names = tally
        .limited()
        .filter(|name| self::resource(name) == Some(resource));
    let usage: Resources = names.map(|name| (name.to_owned(), number(1))).collect();
    let (host, namespace): (&dyn Host, _) = (tally.host, tally.namespace);
    for page in host.pages::<Counted>(&kind.kind, Some(namespace), &Filter::Everything, PAGE) {
        for object in page? {
            tally.objects += 1;
            tally.add(&kind.kind, &object.metadata.uid, &usage);
        }
    }
    Ok(())
}
