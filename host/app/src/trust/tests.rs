use pilothouse_core::{Kind, Limits, Verb, WriteDeclaration};

use super::*;
use crate::settings::parse;

/// Deletes objects of these kinds.
pub fn manifest(kinds: &[&str]) -> Manifest {
    let write = |kind: &&str| WriteDeclaration {
        kind: Kind::new("", "v1", kind),
        subresource: None,
        verbs: vec![Verb::Delete],
        children: false,
    };
    Manifest {
        name: "web".into(),
        version: "1.0.0".into(),
        reconciles: vec![],
        reads: vec![],
        indexes: vec![],
        writes: kinds.iter().map(write).collect(),
        limits: Limits::default(),
        config_schema: None,
        optional: [].into(),
    }
}

fn asked<'a>(digest: &'a str, manifest: &'a Manifest) -> Asked<'a> {
    Asked {
        file: "a.wasm",
        name: "web",
        digest,
        manifest,
    }
}

/// The objection to the second version of a plugin. Its first one, which deletes Pods, has been
/// accepted.
fn against(settings: &str, host: &HostDefaults, digest: &str, kinds: &[&str]) -> Option<Objection> {
    let mut accepted = AcceptedStore::new(None);
    let first = manifest(&["Pod"]);
    accepted.accept(asked("first", &first), &Wants::of(&first));
    let second = manifest(kinds);
    let settings = parse(settings).unwrap();
    objection(&settings, host, &accepted, asked(digest, &second))
}

#[test]
fn a_version_that_asks_for_more_waits_only_where_grants_are_as_requested() {
    let run = HostDefaults::of_run();
    let against = |settings: &str| against(settings, &run, "second", &["Pod", "Node"]);
    let objection = against("grants = \"as-requested\"").expect("it asks for more");
    assert_eq!(objection.more(), ["delete Node"]);
    assert_eq!(
        objection.to_string(),
        "it asks for more than was accepted: delete Node. After a look at it (pilothouse check): pilothouse accept web --sha256 second"
    );
    for settings in ["", "grants = \"own-kind\"", "[grants]\nreads = [\"Pod\"]"] {
        assert_eq!(against(settings), None, "{settings}");
    }
}

#[test]
fn in_dev_everything_is_accepted() {
    let dev = HostDefaults::of_dev();
    for settings in ["", "grants = \"as-requested\""] {
        assert_eq!(against(settings, &dev, "second", &["Node"]), None);
    }
}

#[test]
fn a_digest_that_is_not_among_those_in_the_settings_waits_whatever_is_granted() {
    let (one, two) = ("1".repeat(64), "2".repeat(64));
    for host in [HostDefaults::of_run(), HostDefaults::of_dev()] {
        let against = |settings: &str| against(settings, &host, &two, &["Pod"]);
        let objection = against(&format!("sha256 = \"{one}\"")).expect("it is another one");
        assert_eq!(objection.more(), Vec::<String>::new());
        assert_eq!(
            objection.to_string(),
            format!(
                "its digest {two} is not in sha256 of a.toml; if it is the file that is meant (see pilothouse check), write it there"
            )
        );
        assert_eq!(against(&format!("sha256 = [\"{one}\", \"{two}\"]")), None);
    }
}

#[test]
fn a_file_that_is_named_by_its_digest_has_all_that_it_asks_for_accepted() {
    let run = HostDefaults::of_run();
    let (one, two) = ("1".repeat(64), "2".repeat(64));
    let against = |digest: &str| {
        let settings = format!("grants = \"as-requested\"\nsha256 = \"{one}\"");
        against(&settings, &run, digest, &["Node"])
    };
    assert_eq!(against(&one), None);
    assert!(matches!(against(&two), Some(Objection::Unpinned(_))));
}

#[test]
fn much_that_is_asked_for_is_named_in_part() {
    let kinds = ["A", "B", "C", "D", "E", "F", "G"];
    let run = HostDefaults::of_run();
    let objection = against("grants = \"as-requested\"", &run, "second", &kinds);
    let objection = objection.expect("it asks for more");
    assert_eq!(objection.more().len(), 7);
    let text = objection.to_string();
    assert!(
        text.contains("delete E and 2 more, see notAccepted in /plugins."),
        "{text}"
    );
}
