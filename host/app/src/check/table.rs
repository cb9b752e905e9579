//! Settings that grant a plugin exactly what its file asks for, and only this file. They are for an
//! operator who has reviewed it.

use std::collections::{BTreeMap, BTreeSet};

use pilothouse_core::{Kind, KindName, Manifest, Verb, reads_secret_values};

/// The lines of a `NAME.toml`. There is no table among them that would swallow what follows, so
/// they can stand above whatever else is in the file. The names of kinds, subresources and
/// namespaces in a valid manifest need no escaping.
pub fn table(manifest: &Manifest, digest: &str) -> Vec<String> {
    let mut lines = vec![format!("sha256 = \"{digest}\"")];
    if reads_secret_values(manifest) {
        lines.push("secret-values = true    # it asks for the values of Secrets".to_owned());
    }
    lines.extend(list("grants.reads", reads(manifest)));
    lines.extend(list("grants.writes", writes(manifest)));
    let events = "# grants.events = true    # no manifest says whether its plugin writes Events";
    lines.push(events.to_owned());
    lines
}

fn list(key: &str, elements: Vec<String>) -> Vec<String> {
    if elements.is_empty() {
        return vec![format!("{key} = []")];
    }
    let elements = elements.into_iter().map(|element| format!("  {element},"));
    let first = std::iter::once(format!("{key} = ["));
    first.chain(elements).chain(["]".to_owned()]).collect()
}

/// The kinds to grant reads of. Those that the plugin reconciles by name need no grant.
fn reads(manifest: &Manifest) -> Vec<String> {
    let reads = manifest.reads.iter();
    let needs_grant = |kind: &Kind| kind.is_pattern() || manifest.selection_of(kind).is_none();
    let others = reads.filter(|read| needs_grant(&read.kind));
    let mut places: BTreeMap<KindName, Vec<&[String]>> = BTreeMap::new();
    for read in others {
        let kind = KindName::of(&read.kind);
        places.entry(kind).or_default().push(&read.namespaces);
    }
    let element = |(kind, places): (KindName, Vec<&[String]>)| {
        // One version of a kind may be read everywhere and another only in some namespaces.
        let is_everywhere = places.iter().any(|namespaces| namespaces.is_empty());
        let namespaces: BTreeSet<&String> = places.into_iter().flatten().collect();
        match is_everywhere {
            true => format!("\"{kind}\""),
            false => {
                let namespaces: Vec<&String> = namespaces.into_iter().collect();
                format!("{{ kind = \"{kind}\", namespaces = {namespaces:?} }}")
            }
        }
    };
    places.into_iter().map(element).collect()
}

fn writes(manifest: &Manifest) -> Vec<String> {
    let mut asked: BTreeMap<(KindName, Option<&str>), BTreeSet<Verb>> = BTreeMap::new();
    for write in &manifest.writes {
        let what = (KindName::of(&write.kind), write.subresource.as_deref());
        asked.entry(what).or_default().extend(&write.verbs);
    }
    // A grant without verbs would grant all of them.
    asked.retain(|_, verbs| !verbs.is_empty());
    let element = |((kind, subresource), verbs): ((KindName, Option<&str>), BTreeSet<Verb>)| {
        let verbs: Vec<&str> = verbs.into_iter().map(Verb::as_str).collect();
        let subresource = subresource.map(|name| format!(" subresource = \"{name}\","));
        let subresource = subresource.unwrap_or_default();
        format!("{{ kind = \"{kind}\",{subresource} verbs = {verbs:?} }}")
    };
    asked.into_iter().map(element).collect()
}

#[cfg(test)]
mod tests {
    use pilothouse_core::{
        Granted, Grants, LabelSelector, Limits, ReadDeclaration, Selection, WriteDeclaration,
    };

    use super::*;
    use crate::settings::parse;

    fn write(kind: &Kind, subresource: Option<&str>, verbs: &[Verb]) -> WriteDeclaration {
        WriteDeclaration {
            kind: kind.clone(),
            subresource: subresource.map(str::to_owned),
            verbs: verbs.into(),
            children: false,
        }
    }

    /// Reconciles Deployments, and asks for several of everything.
    fn manifest() -> Manifest {
        let deployment = Kind::new("apps", "v1", "Deployment");
        let secret = Kind::new("", "v1", "Secret");
        let mut secrets = ReadDeclaration::new(secret.clone(), vec![]);
        secrets.namespaces = vec!["web".into(), "shop".into()];
        Manifest {
            name: "web".into(),
            version: "1.0.0".into(),
            reconciles: vec![Selection {
                kind: deployment.clone(),
                labels: LabelSelector::default(),
                fields: None,
                namespaces: vec![],
                companions: vec![],
            }],
            reads: vec![
                ReadDeclaration::new(deployment.clone(), vec![]),
                ReadDeclaration::new(Kind::new("", "v1", "Pod"), vec![]),
                secrets,
            ],
            indexes: vec![],
            writes: vec![
                write(&deployment, None, &[Verb::Apply, Verb::Delete]),
                write(&deployment, Some("status"), &[Verb::Patch]),
                write(&secret, None, &[]),
            ],
            limits: Limits::default(),
            config_schema: None,
            optional: BTreeSet::new(),
        }
    }

    #[test]
    fn the_table_grants_what_is_asked_for_and_to_this_file_alone() {
        let (manifest, digest) = (manifest(), "a".repeat(64));
        let text = table(&manifest, &digest).join("\n");
        let wanted = format!(
            "sha256 = \"{digest}\"
secret-values = true    # it asks for the values of Secrets
grants.reads = [
  \"Pod\",
  {{ kind = \"Secret\", namespaces = [\"shop\", \"web\"] }},
]
grants.writes = [
  {{ kind = \"apps/Deployment\", verbs = [\"apply\", \"delete\"] }},
  {{ kind = \"apps/Deployment\", subresource = \"status\", verbs = [\"patch\"] }},
]
# grants.events = true    # no manifest says whether its plugin writes Events"
        );
        assert_eq!(text, wanted);
        let settings = parse(&text).unwrap();
        assert_eq!(settings.sha256, Some([digest].into()));
        let granted = Grants {
            what: Granted::from(settings.grants.unwrap()),
            ..Grants::default()
        }
        .limit(&manifest);
        let places = |manifest: &Manifest| -> Vec<_> {
            let reads = manifest.reads.iter();
            reads
                .map(|read| (read.kind.clone(), read.namespaces.clone()))
                .collect()
        };
        assert_eq!(places(&granted), places(&manifest));
        let verbs: Vec<_> = granted.writes.iter().map(|write| &write.verbs).collect();
        assert_eq!(
            verbs,
            [&manifest.writes[0].verbs, &manifest.writes[1].verbs]
        );
    }

    #[test]
    fn the_lines_can_stand_above_keys_and_tables() {
        let text = table(&manifest(), &"a".repeat(64)).join("\n");
        let below = "weight = 2\n\n[limits]\nmemory = \"1Mi\"\n\n[config]\nsize = 3";
        let settings = parse(&format!("{text}\n{below}")).unwrap();
        assert_eq!(settings.weight, Some(2), "it is no key of the grants");
        assert_eq!(
            (settings.limits.memory, settings.config.len()),
            (Some(1 << 20), 1)
        );
        let events = text.replace("# grants.events", "grants.events");
        let granted = parse(&events).unwrap().grants.map(Granted::from);
        assert!(matches!(
            granted,
            Some(Granted::Listed { events: true, .. })
        ));
    }

    #[test]
    fn what_asks_for_nothing_is_granted_nothing() {
        let mut manifest = manifest();
        manifest.reads.truncate(1);
        manifest.writes.clear();
        let text = table(&manifest, &"a".repeat(64)).join("\n");
        let settings = parse(&text).unwrap();
        let nothing = Granted::Listed {
            reads: vec![],
            writes: vec![],
            events: false,
        };
        assert_eq!(Granted::from(settings.grants.unwrap()), nothing);
    }
}
