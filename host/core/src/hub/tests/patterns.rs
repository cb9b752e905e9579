//! Kinds by pattern: listed when a key asks, let go when none does, and the kinds themselves.

use super::*;
use crate::access::grants::{Granted, Grants, KindName, ReadGrant};
use crate::model::detail::Detail;
use crate::model::manifest::IndexDeclaration;
use crate::model::served_kind::ServedKind;
use crate::reads::error::ReadError;

mod model;
mod subjects;
mod unwatched;

/// A kind of the group `example.com`.
pub(super) fn kind(name: &str) -> Kind {
    Kind::new("example.com", "v1", name)
}

fn any() -> Kind {
    "*".parse().unwrap()
}

/// The settings of a plugin that is granted its pattern.
pub(super) fn settings() -> ControllerSettings {
    let reads = [("*", "*"), ("", "Pod")].map(|(group, kind)| ReadGrant {
        kind: KindName {
            group: group.into(),
            kind: kind.into(),
        },
        namespaces: BTreeSet::new(),
    });
    ControllerSettings {
        grants: Grants {
            what: Granted::Listed {
                reads: reads.into(),
                writes: vec![],
                events: false,
            },
            ..Grants::default()
        },
        ..ControllerSettings::default()
    }
}

/// A plugin that reconciles Services and reads `*`, with an index of a label.
pub(super) fn reads_all(name: &str) -> Manifest {
    let mut manifest = manifest(name);
    manifest.writes = vec![];
    manifest.reads = vec![
        ReadDeclaration::new(service(), vec![".spec".into()]),
        ReadDeclaration::new(any(), vec![".metadata.labels".into()]),
    ];
    manifest.indexes = vec![IndexDeclaration {
        name: "team".into(),
        kind: any(),
        paths: vec![".metadata.labels.team".into()],
    }];
    manifest
}

pub(super) fn served(kind: Kind) -> ServedKind {
    ServedKind {
        resource: format!("{}s", kind.kind.to_lowercase()),
        versions: vec![kind.version.to_string()],
        kind,
        is_namespaced: true,
        verbs: ["delete", "get", "list", "watch"].map(String::from).into(),
        subresources: vec![],
    }
}

impl Rig {
    /// The cluster serves these kinds.
    fn serve(&mut self, kinds: &[Kind]) {
        let kinds = kinds.iter().cloned().map(served).collect();
        drop(self.hub.set_kinds(kinds, self.now));
    }

    /// Gives informers to the kinds that were asked about, if there is room for as many.
    fn widen(&mut self, room: usize) {
        if let Some(preparation) = self.hub.prepare_widening(room, self.now) {
            self.hub.finish(preparation, self.now).unwrap();
        }
    }

    fn watched_kinds(&self) -> Vec<String> {
        let wanted = self.hub.wanted().into_values();
        wanted.map(|(key, _)| key.to_string()).collect()
    }

    fn list(&mut self, kind: &Kind, names: &[&str]) {
        let objects = names.iter().map(|name| self.object(kind, name, ""));
        let objects: Vec<Object> = objects.collect();
        let delta = Delta::Replace(Listing {
            objects,
            resource_version: ResourceVersion::new(&self.version.to_string()),
            extent: Detail::Metadata.into(),
            ..Listing::default()
        });
        let id = self.id(kind);
        self.hub.apply(id, delta, self.now);
    }
}

/// What a guest has answered, one line for each of its runs that had an answer.
type Seen = Arc<Mutex<Vec<String>>>;

/// The names and kinds of the objects in a list.
fn names(json: &str) -> String {
    let objects: Vec<serde_json::Value> = serde_json::from_str(json).unwrap();
    let name = |object: &serde_json::Value| {
        let text = |path| {
            object
                .pointer(path)
                .and_then(|value| value.as_str())
                .unwrap()
        };
        format!("{}/{}", text("/kind"), text("/metadata/name"))
    };
    objects.iter().map(name).collect::<Vec<_>>().join(" ")
}

/// A guest that reads something, and how its reads ended.
fn reading(
    read: impl Fn(&mut Reader) -> Result<String, ReadError> + Send + Sync + 'static,
) -> (
    Seen,
    impl Fn(&Request, &mut Reader) -> Result<Outcome, RunError> + Send + Sync + 'static,
) {
    let seen = Seen::default();
    let said = seen.clone();
    let behaviour = move |_: &Request, reader: &mut Reader| match read(reader) {
        Err(error @ (ReadError::NotYet(_) | ReadError::NotFetched { .. })) => {
            Err(RunError::Trap(error.to_string()))
        }
        answer => {
            let text = answer.unwrap_or_else(|error| error.to_string());
            said.lock().unwrap().push(text);
            Ok(Outcome::default())
        }
    };
    (seen, behaviour)
}

fn list_all(reader: &mut Reader) -> Result<String, ReadError> {
    list_of(reader, &any())
}

fn list_of(reader: &mut Reader, kind: &Kind) -> Result<String, ReadError> {
    let json = reader.list(kind, None, &ListFilter::Everything)?;
    Ok(names(&json))
}

/// A rig with one plugin that reads `*`, a Service, and these kinds served.
fn rig(
    kinds: &[Kind],
    read: impl Fn(&mut Reader) -> Result<String, ReadError> + Send + Sync + 'static,
) -> (Rig, Seen) {
    let mut rig = Rig::default();
    let (seen, behaviour) = reading(read);
    rig.join_with(reads_all("p"), &settings(), behaviour);
    rig.serve(kinds);
    rig.sync_with(&service(), "s");
    (rig, seen)
}

fn last(seen: &Seen) -> String {
    seen.lock().unwrap().last().cloned().unwrap_or_default()
}

fn runs(seen: &Seen) -> usize {
    seen.lock().unwrap().len()
}

#[test]
fn a_kind_of_a_pattern_is_listed_when_a_key_asks_and_the_key_runs_then() {
    let (mut rig, seen) = rig(&[kind("A"), kind("B")], list_all);
    assert_eq!(rig.watched_kinds(), ["v1/Service"], "nothing has asked");
    assert_eq!(rig.run(), ["s"]);
    assert_eq!(runs(&seen), 0, "it decides nothing before it has an answer");
    rig.widen(10);
    let all = ["v1/Service", "example.com/v1/A", "example.com/v1/B"];
    assert_eq!(rig.watched_kinds(), all);
    rig.list(&kind("A"), &["x"]);
    assert!(rig.run().is_empty(), "B is to be listed, too");
    rig.list(&kind("B"), &["y"]);
    assert_eq!(rig.run(), ["s"]);
    assert_eq!(last(&seen), "A/x B/y");
    rig.put(&kind("B"), "z", "");
    assert_eq!(rig.run(), ["s"]);
    assert_eq!(last(&seen), "A/x B/y B/z");
    let status = &rig.hub.status(rig.now)[0];
    assert_eq!(status.reconciles.error, 0, "asking is no failure");
    let details: Vec<Detail> = rig
        .hub
        .wanted()
        .into_values()
        .map(|(_, it)| it.detail)
        .collect();
    assert_eq!(details[1..], [Detail::Metadata, Detail::Metadata]);
}

#[test]
fn a_kind_that_cannot_be_listed_stops_nobody_for_longer_than_ten_seconds() {
    let (mut rig, seen) = rig(&[kind("A"), kind("B")], |reader| {
        let known = reader.kinds(&any())?;
        let late = known.iter().filter(|known| known.unavailable.is_some());
        let late: Vec<String> = late.map(|known| known.served.kind.to_string()).collect();
        Ok(format!("{} without {}", list_all(reader)?, late.join(" ")))
    });
    rig.run();
    rig.widen(10);
    rig.list(&kind("A"), &["x"]);
    rig.now += Duration::from_secs(9);
    assert!(rig.run().is_empty());
    rig.now += Duration::from_secs(1);
    assert_eq!(rig.run(), ["s"]);
    assert_eq!(last(&seen), "A/x without example.com/v1/B");
    rig.list(&kind("B"), &[]);
    assert_eq!(rig.run(), ["s"], "it is listed at last");
    assert_eq!(last(&seen), "A/x without ");
}

#[test]
fn the_ten_seconds_of_a_kind_begin_with_the_question_and_not_with_its_informer() {
    let mut rig = Rig::default();
    teams(&mut rig, &[kind("A")], &["x"]);
    rig.serve(&[kind("A"), kind("B")]);
    rig.widen(10);
    rig.now += Duration::from_secs(9);
    rig.put(&service(), "y", "");
    assert_eq!(rig.run(), ["y"], "it asks, and has no answer");
    rig.now += Duration::from_secs(5);
    rig.put(&service(), "z", "");
    assert_eq!(rig.run(), ["z"], "it waits with the other");
    rig.now += Duration::from_secs(4);
    assert!(rig.run().is_empty());
    rig.now += Duration::from_secs(1);
    assert_eq!(rig.run(), ["y", "z"]);
}

#[test]
fn nobody_waits_longer_because_the_host_does_not_get_to_a_kind() {
    let (mut rig, seen) = rig(&[kind("A")], |reader| {
        let known = reader.kinds(&kind("A"))?;
        let why = known[0].unavailable.clone().unwrap_or_default();
        Ok(format!("{} {why}", list_all(reader)?))
    });
    rig.run();
    rig.now += Duration::from_secs(9);
    assert!(rig.run().is_empty());
    rig.now += Duration::from_secs(1);
    assert_eq!(rig.run(), ["s"]);
    assert_eq!(last(&seen), " the server has not answered its list yet");
    rig.widen(10);
    assert!(rig.run().is_empty());
    rig.list(&kind("A"), &["x"]);
    assert_eq!(rig.run(), ["s"]);
    assert_eq!(last(&seen), "A/x ");
}

#[test]
fn a_key_waits_for_what_keys_have_asked_about_and_not_for_what_comes_into_their_lists() {
    let mut rig = Rig::default();
    rig.join_with(reads_all("p"), &settings(), |request, reader| {
        let listed = match &*request.key.object.name {
            "a" => list_of(reader, &kind("A")),
            _ => list_all(reader),
        };
        listed.map_err(|error| RunError::Trap(error.to_string()))?;
        Ok(Outcome::default())
    });
    rig.serve(&[]);
    rig.sync(&service());
    rig.put(&service(), "a", "");
    rig.put(&service(), "all", "");
    assert_eq!(rig.run(), ["a", "all"]);
    rig.serve(&[kind("A"), kind("B")]);
    assert_eq!(rig.run(), ["a"], "it asks about A");
    rig.widen(10);
    rig.list(&kind("A"), &[]);
    assert_eq!(
        rig.run(),
        ["a"],
        "B is not listed, and it has not asked about B"
    );
}

#[test]
fn an_object_of_a_kind_that_cannot_be_listed_cannot_be_read_and_is_woken_for() {
    let get = |reader: &mut Reader| {
        let found = reader.get(&kind("A"), &ObjectKey::new("default", "x"))?;
        Ok(found.unwrap_or("none").to_owned())
    };
    let (mut rig, seen) = rig(&[kind("A")], get);
    rig.run();
    rig.widen(10);
    rig.now += Duration::from_secs(10);
    assert_eq!(rig.run(), ["s"]);
    assert!(last(&seen).starts_with("example.com/v1/A cannot be read now"));
    rig.list(&kind("A"), &[]);
    assert_eq!(rig.run(), ["s"]);
    assert_eq!(last(&seen), "none");
    rig.put(&kind("A"), "x", "");
    assert_eq!(rig.run(), ["s"]);
    assert!(last(&seen).contains("\"kind\":\"A\""), "{}", last(&seen));
}

#[test]
fn a_kind_that_comes_and_goes_wakes_who_lists_its_objects_and_lets_its_informer_go() {
    let (mut rig, seen) = rig(&[], list_all);
    assert_eq!(rig.run(), ["s"]);
    assert_eq!(last(&seen), "");
    rig.serve(&[kind("A")]);
    assert!(rig.run().is_empty(), "nobody is woken to ask for it");
    rig.widen(10);
    assert!(rig.run().is_empty(), "it has no object yet");
    rig.list(&kind("A"), &["x"]);
    assert_eq!(rig.run(), ["s"]);
    assert_eq!(last(&seen), "A/x");
    rig.serve(&[]);
    assert_eq!(rig.watched_kinds(), ["v1/Service"]);
    assert_eq!(rig.run(), ["s"]);
    assert_eq!(last(&seen), "");
    rig.serve(&[]);
    assert!(rig.run().is_empty(), "nothing has changed");
}

/// A plugin with a key for each of these teams, which lists the objects of its team.
fn teams(rig: &mut Rig, kinds: &[Kind], teams: &[&str]) {
    rig.join_with(reads_all("p"), &settings(), |request, reader| {
        let team = request.key.object.name.to_string();
        let filter = ListFilter::Index("team".into(), team);
        let listed = reader.list(&any(), None, &filter);
        listed.map_err(|error| RunError::Trap(error.to_string()))?;
        Ok(Outcome::default())
    });
    rig.serve(kinds);
    rig.sync(&service());
    for team in teams {
        rig.put(&service(), team, "");
    }
    rig.run();
    rig.widen(100);
    for kind in kinds.iter().filter(|kind| **kind != service()) {
        rig.list(kind, &[]);
    }
    rig.run();
}

#[test]
fn a_list_of_a_pattern_is_one_read_and_a_change_of_any_of_its_kinds_wakes_who_it_concerns() {
    let kinds: Vec<Kind> = (10..70).map(|number| kind(&format!("K{number}"))).collect();
    let mut rig = Rig::default();
    teams(&mut rig, &kinds, &["x", "y", "z"]);
    let keys = |rig: &Rig| rig.hub.status(rig.now).remove(0).keys;
    assert_eq!(keys(&rig).recorded_reads, 3, "one for each key");
    for kind in &kinds {
        rig.put(kind, "o", r#""team":"y""#);
        assert_eq!(rig.run(), ["y"]);
    }
    rig.put(&kinds[7], "o", r#""team":"z""#);
    assert_eq!(rig.run(), ["y", "z"], "it leaves one list for another");
    rig.put(&kinds[8], "p", r#""team":"w""#);
    assert!(rig.run().is_empty());
    rig.remove(&kinds[9], "o");
    assert_eq!(rig.run(), ["y"]);
    assert_eq!(keys(&rig).recorded_reads, 3);
}

#[test]
fn an_object_of_a_kind_that_comes_later_wakes_who_lists_it_and_nobody_else() {
    let mut rig = Rig::default();
    teams(&mut rig, &[kind("A")], &["x", "y"]);
    rig.serve(&[kind("A"), kind("B")]);
    rig.widen(10);
    rig.list(&kind("B"), &["o"]);
    assert!(rig.run().is_empty(), "it is of no team");
    rig.put(&kind("B"), "p", r#""team":"x""#);
    assert_eq!(rig.run(), ["x"]);
    rig.serve(&[kind("A")]);
    assert_eq!(rig.run(), ["x"], "the object leaves its list");
}

#[test]
fn objects_that_another_plugin_has_had_listed_come_into_the_lists_of_a_pattern() {
    let mut rig = Rig::default();
    teams(&mut rig, &[kind("A")], &["x", "y"]);
    let mut other = manifest("other");
    other.reads = vec![ReadDeclaration::new(kind("B"), vec![])];
    other.reconciles = vec![];
    other.writes = vec![];
    rig.join(other, |_: &Request, _: &mut Reader| Ok(Outcome::default()));
    rig.sync(&kind("B"));
    rig.put(&kind("B"), "o", r#""team":"x""#);
    rig.run();
    rig.serve(&[kind("A"), kind("B")]);
    rig.widen(10);
    assert_eq!(rig.run(), ["x"]);
    // Of a kind with many objects it is not found out whose lists they are in.
    for name in ["p", "q", "r"] {
        rig.put(&kind("B"), name, "");
    }
    rig.serve(&[kind("A")]);
    assert_eq!(rig.run(), ["x", "y"]);
}

#[test]
fn a_kind_that_is_named_is_in_the_lists_of_a_pattern_while_it_is_served() {
    let mut rig = Rig::default();
    teams(&mut rig, &[service()], &["x", "y"]);
    rig.put(&service(), "x", r#""team":"y""#);
    assert_eq!(rig.run(), ["y"]);
    rig.serve(&[kind("A")]);
    assert_eq!(rig.run(), ["y"]);
    rig.put(&service(), "x", r#""team":"x""#);
    rig.run();
    rig.widen(10);
    rig.list(&kind("A"), &[]);
    rig.run();
    rig.serve(&[kind("A"), service()]);
    assert_eq!(rig.run(), ["x"]);
}

#[test]
fn a_kind_is_read_in_the_version_that_the_server_prefers_whatever_version_is_asked_for() {
    let beta = Kind::new("example.com", "v1beta1", "A");
    let asked = beta.clone();
    let (mut rig, seen) = rig(&[kind("A")], move |reader| {
        let found = reader.get(&asked, &ObjectKey::new("default", "x"))?;
        Ok(found.unwrap_or("none").to_owned())
    });
    rig.run();
    rig.widen(10);
    rig.list(&kind("A"), &["x"]);
    rig.run();
    assert!(last(&seen).contains("example.com/v1\""), "{}", last(&seen));
    // The server prefers another version from now on.
    rig.serve(std::slice::from_ref(&beta));
    rig.run();
    rig.widen(10);
    assert_eq!(rig.watched_kinds(), ["v1/Service", "example.com/v1beta1/A"]);
    rig.list(&beta, &["x"]);
    rig.run();
    assert!(last(&seen).contains("v1beta1"), "{}", last(&seen));
}

#[test]
fn an_informer_that_no_keys_last_run_has_read_ends_after_a_minute() {
    let is_asking = Arc::new(Mutex::new(true));
    let asks = is_asking.clone();
    let (mut rig, seen) = rig(&[kind("A")], move |reader| {
        let asks = *asks.lock().unwrap();
        if asks {
            list_all(reader)
        } else {
            Ok("-".into())
        }
    });
    rig.run();
    rig.widen(10);
    rig.list(&kind("A"), &["x"]);
    rig.run();
    let narrow = |rig: &mut Rig| drop(rig.hub.narrow(rig.now));
    rig.now += Duration::from_secs(600);
    narrow(&mut rig);
    assert_eq!(rig.watched_kinds().len(), 2, "it is read");
    *is_asking.lock().unwrap() = false;
    rig.put(&kind("A"), "x", r#""a":"b""#);
    rig.run();
    assert_eq!(last(&seen), "-");
    narrow(&mut rig);
    rig.now += Duration::from_secs(59);
    narrow(&mut rig);
    assert_eq!(rig.watched_kinds().len(), 2);
    rig.now += Duration::from_secs(1);
    narrow(&mut rig);
    assert_eq!(rig.watched_kinds(), ["v1/Service"]);
    // It begins anew when somebody asks again.
    *is_asking.lock().unwrap() = true;
    rig.put(&service(), "t", "");
    rig.run();
    rig.widen(10);
    rig.list(&kind("A"), &["y"]);
    rig.run();
    assert_eq!(last(&seen), "A/y");
}

#[test]
fn a_reconcile_whose_informer_ends_meanwhile_runs_again() {
    let (mut rig, seen) = rig(&[kind("A")], list_all);
    rig.run();
    rig.widen(10);
    rig.list(&kind("A"), &["x"]);
    let reconcile = rig.take().expect("it may run");
    rig.serve(&[]);
    rig.finish(reconcile.run());
    assert_eq!(last(&seen), "A/x", "that was its snapshot");
    assert_eq!(rig.run(), ["s"]);
    assert_eq!(last(&seen), "");
}

#[test]
fn a_reconcile_that_reads_what_nobody_else_did_and_what_ends_meanwhile_runs_again() {
    let is_asking = Arc::new(Mutex::new(true));
    let asks = is_asking.clone();
    let (mut rig, seen) = rig(&[kind("A")], move |reader| {
        let asks = *asks.lock().unwrap();
        if asks {
            list_all(reader)
        } else {
            Ok("-".into())
        }
    });
    rig.run();
    rig.widen(10);
    rig.list(&kind("A"), &["x"]);
    *is_asking.lock().unwrap() = false;
    rig.run();
    drop(rig.hub.narrow(rig.now));
    rig.now += Duration::from_secs(60);
    rig.put(&service(), "t", "");
    let reconcile = rig.take().expect("it may run");
    *is_asking.lock().unwrap() = true;
    let ran = reconcile.run();
    assert_eq!(last(&seen), "A/x");
    drop(rig.hub.narrow(rig.now));
    assert_eq!(rig.watched_kinds(), ["v1/Service"]);
    rig.finish(ran);
    assert_eq!(rig.run(), ["t"]);
    rig.widen(10);
    rig.list(&kind("A"), &["y"]);
    rig.run();
    assert_eq!(last(&seen), "A/y");
}

#[test]
fn a_guest_that_alternates_its_questions_takes_no_more_numbers_of_informers_than_it_needs() {
    let asked = Arc::new(Mutex::new("A"));
    let asks = asked.clone();
    let (mut rig, seen) = rig(&[kind("A"), kind("B")], move |reader| {
        let asks = *asks.lock().unwrap();
        list_of(reader, &kind(asks))
    });
    rig.run();
    rig.widen(10);
    rig.list(&kind("A"), &["x"]);
    rig.run();
    let places = rig.hub.snapshot().informers.places();
    for (round, other) in ["B", "A"].into_iter().cycle().take(20).enumerate() {
        let was = std::mem::replace(&mut *asked.lock().unwrap(), other);
        let old = rig.id(&kind(was));
        rig.put(&service(), &format!("s{round}"), "");
        rig.run();
        rig.put(&kind(was), &format!("y{round}"), "");
        rig.run();
        rig.widen(10);
        rig.list(&kind(other), &["z"]);
        rig.run();
        assert_eq!(last(&seen), format!("{other}/z"));
        let late = rig.object(&kind(was), "late", "");
        drop(rig.hub.narrow(rig.now));
        rig.now += Duration::from_secs(60);
        drop(rig.hub.narrow(rig.now));
        // What the list-watch that has ended still brings is not taken for the other kind's.
        assert_eq!(rig.hub.apply(old, Delta::Upsert(late), rig.now), 0);
        assert!(rig.hub.snapshot().informers[old].is_empty());
        assert_eq!(rig.hub.snapshot().informers[rig.id(&kind(other))].len(), 1);
    }
    assert_eq!(rig.hub.snapshot().informers.places(), places + 1);
}

#[test]
fn a_kind_of_which_discovery_says_something_else_wakes_who_asked_about_kinds() {
    let (mut rig, seen) = rig(&[], |reader| {
        let known = reader.kinds(&"example.com/*".parse().unwrap())?;
        let verbs = known.iter().map(|known| known.served.verbs.join(","));
        Ok(verbs.collect::<Vec<_>>().join(" "))
    });
    rig.run();
    let mut changed = served(kind("A"));
    for verbs in ["get", "get,list", "get,list,watch"] {
        changed.verbs = verbs.split(',').map(str::to_owned).collect();
        let kinds = vec![changed.clone(), served(pod())];
        drop(rig.hub.set_kinds(kinds, rig.now));
        assert_eq!(rig.run(), ["s"]);
        assert_eq!(last(&seen), verbs);
    }
    let kinds = vec![changed, served(pod()), served(service())];
    drop(rig.hub.set_kinds(kinds, rig.now));
    assert!(rig.run().is_empty(), "that is another group");
}

#[test]
fn what_is_written_of_a_pattern_is_sent_and_waited_for() {
    let mut manifest = reads_all("p");
    manifest.writes = vec![WriteDeclaration {
        kind: any(),
        subresource: None,
        verbs: vec![Verb::Delete, Verb::Patch],
        children: false,
    }];
    let mut settings = settings();
    if let Granted::Listed { writes, .. } = &mut settings.grants.what {
        writes.push(crate::access::grants::WriteGrant {
            kind: KindName {
                group: "*".into(),
                kind: "*".into(),
            },
            subresource: None,
            verbs: BTreeSet::new(),
            namespaces: BTreeSet::new(),
            names: BTreeSet::new(),
            force: false,
        });
    }
    let mut rig = Rig::default();
    let act = |_: &Request, reader: &mut Reader| {
        let found = reader.get(&kind("A"), &ObjectKey::new("default", "x"));
        let is_there = match found {
            Err(error) => return Err(RunError::Trap(error.to_string())),
            Ok(found) => found.is_some(),
        };
        let key = ObjectKey::new("default", "x");
        let patch = Action::Patch {
            kind: kind("A"),
            key,
            subresource: None,
            patch_type: crate::model::outcome::PatchType::Merge,
            body: r#"{"metadata":{"annotations":{"a":"b"}}}"#.into(),
        };
        let actions = if is_there { vec![patch] } else { vec![] };
        Ok(Outcome::of(actions))
    };
    rig.join_with(manifest, &settings, act);
    rig.serve(&[kind("A")]);
    rig.sync_with(&service(), "s");
    rig.run();
    rig.widen(10);
    rig.list(&kind("A"), &["x"]);
    let reconcile = rig.take().expect("it may run");
    let writing = rig.ran(reconcile);
    let ControlFlow::Continue((sent, _)) = writing.advance() else {
        panic!("the host cannot tell from the metadata what the patch would change");
    };
    assert_eq!(sent.len(), 1);
}

#[test]
fn a_key_that_waits_to_see_its_write_runs_when_the_informer_that_would_show_it_ends() {
    let (mut rig, seen) = rig(&[kind("A"), kind("B")], list_all);
    rig.run();
    rig.widen(10);
    rig.list(&kind("A"), &["x"]);
    rig.list(&kind("B"), &["y"]);
    let trace = || Trace::Version(ResourceVersion::new("99"));
    gate::run_writing(&mut rig, kind("A"), "x", trace());
    rig.put(&kind("A"), "x", r#""a":"b""#);
    assert!(rig.run().is_empty(), "A is not at version 99");
    rig.serve(&[kind("B")]);
    assert_eq!(rig.run(), ["s"]);
    assert_eq!(last(&seen), "B/y");
    // The gate on an informer that stays is kept.
    rig.put(&kind("B"), "y", r#""a":"b""#);
    gate::run_writing(&mut rig, kind("B"), "y", trace());
    rig.serve(&[kind("A"), kind("B")]);
    rig.widen(10);
    rig.list(&kind("A"), &["x"]);
    assert!(rig.run().is_empty());
    rig.serve(&[kind("B")]);
    assert!(rig.run().is_empty());
}

#[test]
fn a_key_that_waits_to_see_its_write_runs_when_another_version_of_the_kind_takes_over() {
    let (beta, stable) = (Kind::new("example.com", "v1beta1", "A"), kind("A"));
    let (mut rig, mut manifest) = (Rig::default(), reads_all("p"));
    manifest.reads[0].fields = vec![];
    rig.join_with(manifest, &settings(), nothing);
    rig.serve(std::slice::from_ref(&beta));
    rig.sync_with(&service(), "s");
    rig.hub.ask_for(1, &[beta.clone()].into());
    let preparation = rig
        .hub
        .prepare_widening(10, rig.now)
        .expect("beta is wanted");
    // The server prefers another version before the informer is installed.
    rig.serve(std::slice::from_ref(&stable));
    rig.hub.finish(preparation, rig.now).unwrap();
    rig.list(&beta, &["x"]);
    let trace = Trace::Version(ResourceVersion::new("99"));
    gate::run_writing(&mut rig, beta, "x", trace);
    rig.put(&service(), "s", r#""a":"b""#);
    assert!(rig.run().is_empty(), "beta is not at version 99");
    rig.hub.ask_for(1, &[stable].into());
    rig.widen(10);
    assert_eq!(rig.watched_kinds(), ["v1/Service", "example.com/v1/A"]);
    assert_eq!(rig.run(), ["s"]);
}

#[test]
fn nothing_is_fetched_for_a_failing_key_of_a_kind_that_is_served_no_more() {
    let mut rig = Rig::default();
    rig.join_with(reads_all("p"), &settings(), |_, reader| {
        let got = reader.get(&kind("A"), &ObjectKey::new("default", "x"));
        got.map_err(|error| RunError::Trap(error.to_string()))?;
        Err(Failure::Terminal("it is there".into()).into())
    });
    rig.serve(&[kind("A")]);
    rig.sync_with(&service(), "s");
    rig.run();
    rig.widen(10);
    rig.list(&kind("A"), &["x"]);
    let reconcile = rig.take().expect("A is listed");
    rig.finish(reconcile.run());
    rig.serve(&[]);
    let Next::Fetch(fetch) = rig.hub.next(rig.now, 0) else {
        panic!("what a failing key has read is fetched");
    };
    let kinds: Vec<&Kind> = fetch
        .questions
        .iter()
        .map(|question| &question.kind)
        .collect();
    assert_eq!(kinds, [&service()]);
}

#[test]
fn who_asks_about_a_kind_that_is_known_to_be_unavailable_meanwhile_runs_again_at_once() {
    for room in [0, 10] {
        let (mut rig, _) = rig(&[kind("A")], list_all);
        rig.run();
        rig.put(&service(), "t", "");
        let reconcile = rig.take().expect("it need not wait");
        // Without room A is refused, and with room it is late.
        rig.widen(room);
        rig.now += Duration::from_secs(10);
        assert_eq!(rig.run(), ["s"]);
        rig.finish(reconcile.run());
        assert_eq!(rig.run(), ["t"], "room for {room}");
    }
}

#[test]
fn a_refusal_ends_with_the_kind() {
    let (mut rig, seen) = rig(&[kind("A")], list_all);
    rig.run();
    rig.widen(0);
    rig.run();
    assert_eq!(rig.hub.refused_kinds().len(), 1);
    rig.serve(&[]);
    assert!(rig.hub.refused_kinds().is_empty());
    rig.serve(&[kind("A")]);
    rig.run();
    rig.widen(10);
    rig.list(&kind("A"), &["x"]);
    assert_eq!(rig.run(), ["s"]);
    assert_eq!(last(&seen), "A/x");
}

#[test]
fn no_informer_ends_while_a_key_waits_because_the_key_may_read_it_next() {
    let asked = Arc::new(Mutex::new(vec!["A"]));
    let asks = asked.clone();
    let (mut rig, seen) = rig(&[kind("A"), kind("B")], move |reader| {
        let names = asks.lock().unwrap().clone();
        let lists = names.iter().map(|name| list_of(reader, &kind(name)));
        Ok(lists.collect::<Result<Vec<_>, _>>()?.join(" "))
    });
    rig.run();
    rig.widen(10);
    rig.list(&kind("A"), &["x"]);
    rig.run();
    asked.lock().unwrap().clear();
    rig.put(&kind("A"), "x", r#""a":"b""#);
    assert_eq!(rig.run(), ["s"]);
    drop(rig.hub.narrow(rig.now));
    rig.now += Duration::from_secs(55);
    *asked.lock().unwrap() = vec!["B", "A"];
    rig.put(&service(), "t", "");
    assert_eq!(rig.run(), ["t"]);
    rig.widen(10);
    rig.now += Duration::from_secs(5);
    drop(rig.hub.narrow(rig.now));
    rig.list(&kind("B"), &["y"]);
    assert_eq!(rig.run(), ["t"]);
    assert_eq!(last(&seen), "B/y A/x");
}

#[test]
fn a_kind_without_room_is_unavailable_and_asked_for_again_after_a_minute() {
    let (mut rig, seen) = rig(&[kind("A"), kind("B")], list_all);
    rig.run();
    rig.widen(1);
    rig.list(&kind("A"), &["x"]);
    rig.run();
    assert_eq!(last(&seen), "A/x", "B has no room");
    let refused = rig.hub.refused_kinds();
    let [(plugin, of, reason)] = &refused[..] else {
        panic!("{refused:?}");
    };
    assert_eq!((&**plugin, of), ("p", &kind("B")));
    assert!(reason.contains("--watch-limit"), "{reason}");
    let told = rig.hub.status(rig.now).remove(0).refused_kinds;
    assert_eq!(told, [(kind("B"), reason.clone())]);
    assert_eq!((rig.hub.watched(), rig.hub.watched_for_patterns()), (2, 1));
    rig.now += Duration::from_secs(60);
    assert!(rig.run().is_empty(), "nothing has changed");
    rig.widen(0);
    rig.now += Duration::from_secs(60);
    assert!(rig.run().is_empty(), "it is refused again");
    rig.widen(1);
    rig.run();
    rig.list(&kind("B"), &["y"]);
    assert_eq!(rig.run(), ["s"]);
    assert_eq!(last(&seen), "A/x B/y");
}

#[test]
fn kinds_that_are_named_are_part_of_a_pattern_too_and_found_by_its_index() {
    let (mut rig, seen) = rig(&[service(), kind("A")], |reader| {
        let filter = ListFilter::Index("team".into(), "x".into());
        Ok(names(&reader.list(&any(), None, &filter)?))
    });
    rig.run();
    rig.widen(10);
    assert_eq!(rig.watched_kinds().len(), 2, "Services are watched already");
    rig.list(&kind("A"), &["a"]);
    rig.put(&kind("A"), "b", r#""team":"x""#);
    rig.put(&service(), "s", r#""team":"x""#);
    rig.run();
    assert_eq!(last(&seen), "Service/s A/b");
}

#[test]
fn the_pages_of_a_pattern_are_ordered_by_kind_first() {
    let (mut rig, seen) = rig(&[kind("A"), kind("B")], |reader| {
        let mut all = Vec::new();
        let mut after: Option<(Kind, ObjectKey)> = None;
        loop {
            let last = after.as_ref().map(|(kind, key)| (kind, key.parts()));
            let page = reader.list_page(&any(), None, &ListFilter::Everything, last, 1)?;
            let name = names(&page);
            let Some((of, name)) = name.split_once('/') else {
                return Ok(all.join(" "));
            };
            after = Some((kind(of), ObjectKey::new("default", name)));
            all.push(format!("{of}/{name}"));
        }
    });
    rig.run();
    rig.widen(10);
    rig.list(&kind("A"), &["x", "y"]);
    rig.list(&kind("B"), &["a", "b"]);
    rig.run();
    assert_eq!(last(&seen), "A/x A/y B/a B/b");
}

#[test]
fn a_namespace_is_confirmed_to_be_empty_by_the_kinds_that_have_namespaces() {
    let (mut rig, seen) = rig(&[], |reader| {
        let listed = reader.listed(&any(), Some("default"), &ListFilter::Everything)?;
        let kinds = listed.iter().map(|listed| listed.cache.informer_key());
        let kinds: Vec<String> = kinds.map(|key| key.kind.to_string()).collect();
        Ok(kinds.join(" "))
    });
    let everywhere = ServedKind {
        is_namespaced: false,
        ..served(kind("A"))
    };
    let kinds = vec![everywhere, served(kind("B")), served(service())];
    drop(rig.hub.set_kinds(kinds, rig.now));
    rig.run();
    rig.widen(10);
    rig.list(&kind("A"), &[]);
    rig.list(&kind("B"), &["b"]);
    rig.run();
    assert_eq!(last(&seen), "v1/Service example.com/v1/B");
}

#[test]
fn what_is_not_granted_or_no_kind_is_not_read() {
    let mut rig = Rig::default();
    let (seen, behaviour) = reading(|reader| {
        let listed = list_all(reader).unwrap_err();
        let kinds = reader.kinds(&any()).unwrap_err();
        let got = reader.get(&kind("A"), &ObjectKey::new("a", "b"));
        Ok(format!("{listed} | {kinds} | {}", got.unwrap_err()))
    });
    rig.join(reads_all("p"), behaviour);
    rig.sync_with(&service(), "s");
    assert_eq!(rig.run(), ["s"], "and it waits for no kinds");
    assert_eq!(
        last(&seen).matches("are not granted").count(),
        3,
        "{}",
        last(&seen)
    );
    assert!(!rig.hub.wants_kinds());
}

#[test]
fn a_single_object_is_of_a_kind_and_not_of_a_pattern() {
    let (mut rig, seen) = rig(&[kind("A")], |reader| {
        let got = reader.get(&any(), &ObjectKey::new("a", "b"));
        Ok(got.unwrap_err().to_string())
    });
    rig.run();
    assert!(last(&seen).starts_with("* is a pattern"), "{}", last(&seen));
}

/// Installs another version, or other settings, of the only plugin.
fn replace(
    rig: &mut Rig,
    manifest: Manifest,
    settings: &ControllerSettings,
    read: impl Fn(&mut Reader) -> Result<String, ReadError> + Send + Sync + 'static,
) -> Seen {
    let (seen, behaviour) = reading(read);
    let plugin = Fake {
        manifest,
        behaviour: Box::new(behaviour),
    };
    let replaced = rig.hub.replace(1, Arc::new(plugin), settings, rig.now);
    replaced.unwrap();
    seen
}

#[test]
fn another_version_finds_the_kinds_of_patterns_listed_and_the_last_plugin_takes_them_with_it() {
    let (mut rig, _) = rig(&[kind("A"), kind("B")], list_all);
    rig.run();
    rig.widen(10);
    rig.list(&kind("A"), &["x"]);
    rig.put(&kind("A"), "y", r#""owner":"o""#);
    rig.list(&kind("B"), &["z"]);
    rig.run();
    let informers: Vec<InformerId> = rig.hub.wanted().into_keys().collect();
    // It sees other fields, and has another index.
    let mut manifest = reads_all("p");
    manifest.reads[1].fields = vec![".metadata.uid".into()];
    manifest.indexes[0].name = "owner".into();
    manifest.indexes[0].paths = vec![".metadata.labels.owner".into()];
    let seen = replace(&mut rig, manifest, &settings(), |reader| {
        let filter = ListFilter::Index("owner".into(), "o".into());
        let owned = names(&reader.list(&any(), None, &filter)?);
        Ok(format!("{owned} of {}", list_all(reader)?))
    });
    let now: Vec<InformerId> = rig.hub.wanted().into_keys().collect();
    assert_eq!(now, informers, "no list-watch has ended or begun");
    assert_eq!(rig.run(), ["s"]);
    assert_eq!(last(&seen), "A/y of A/x A/y B/z");
    rig.put(&kind("B"), "z", r#""owner":"o""#);
    assert_eq!(rig.run(), ["s"]);
    assert_eq!(last(&seen), "A/y B/z of A/x A/y B/z");
    drop(rig.hub.leave(1));
    assert!(rig.watched_kinds().is_empty() && !rig.hub.wants_kinds());
}

#[test]
fn another_version_keeps_only_the_kinds_that_its_own_patterns_include() {
    let other = Kind::new("other.com", "v1", "B");
    let (mut rig, _) = rig(&[kind("A"), other.clone()], list_all);
    rig.run();
    rig.widen(10);
    rig.list(&kind("A"), &["x"]);
    rig.list(&other, &["y"]);
    rig.run();
    let mut manifest = reads_all("p");
    let narrower: Kind = "other.com/*".parse().unwrap();
    manifest.reads[1].kind = narrower.clone();
    manifest.indexes = vec![];
    let mut settings = settings();
    if let Granted::Listed { reads, .. } = &mut settings.grants.what {
        reads[0].kind = KindName::of(&narrower);
    }
    let seen = replace(&mut rig, manifest, &settings, move |reader| {
        list_of(reader, &narrower)
    });
    assert_eq!(rig.watched_kinds(), ["v1/Service", "other.com/v1/B"]);
    assert_eq!(rig.run(), ["s"]);
    assert_eq!(last(&seen), "B/y");
}

#[test]
fn another_version_waits_no_more_for_a_kind_that_is_late_or_without_room() {
    let kinds = ["A", "B", "C"].map(kind);
    let (mut rig, _) = rig(&kinds, list_all);
    rig.run();
    rig.widen(2);
    rig.list(&kind("A"), &["x"]);
    rig.now += Duration::from_secs(10);
    rig.run();
    let seen = replace(&mut rig, reads_all("p"), &settings(), list_all);
    assert_eq!(rig.run(), ["s"]);
    assert_eq!(last(&seen), "A/x");
    rig.list(&kind("B"), &["y"]);
    assert_eq!(rig.run(), ["s"]);
    assert_eq!(last(&seen), "A/x B/y");
}

#[test]
fn an_informer_of_a_pattern_stays_while_a_new_version_has_keys_to_run() {
    let (mut rig, _) = rig(&[kind("A")], list_all);
    rig.run();
    rig.widen(10);
    rig.list(&kind("A"), &["x"]);
    rig.run();
    let _seen = replace(&mut rig, reads_all("p"), &settings(), list_all);
    for _ in 0..2 {
        drop(rig.hub.narrow(rig.now));
        rig.now += Duration::from_secs(61);
    }
    assert_eq!(rig.watched_kinds(), ["v1/Service", "example.com/v1/A"]);
}

#[test]
fn the_version_of_a_kind_that_the_server_does_not_prefer_any_more_takes_no_informer() {
    let beta = Kind::new("example.com", "v1beta1", "A");
    let (mut rig, seen) = rig(std::slice::from_ref(&beta), list_all);
    let late = rig.take().expect("it may run");
    rig.serve(&[kind("A")]);
    rig.finish(late.run());
    rig.widen(10);
    rig.run();
    rig.widen(10);
    assert_eq!(rig.watched_kinds(), ["v1/Service", "example.com/v1/A"]);
    rig.list(&kind("A"), &["x"]);
    rig.run();
    assert_eq!(last(&seen), "A/x");
    rig.serve(&[]);
    assert_eq!(rig.watched_kinds(), ["v1/Service"]);
}

#[test]
fn a_key_whose_object_is_gone_and_that_waits_for_kinds_runs_on_the_next_version() {
    let clean_up = |seen: Seen| {
        move |request: &Request, reader: &mut Reader| {
            let own = reader.get(&service(), &request.key.object);
            if own.is_ok_and(|own| own.is_some()) {
                return Ok(Outcome::default());
            }
            let left = list_all(reader).map_err(|error| RunError::Trap(error.to_string()))?;
            seen.lock().unwrap().push(left);
            Ok(Outcome::default())
        }
    };
    let (mut rig, seen) = (Rig::default(), Seen::default());
    rig.join_with(reads_all("p"), &settings(), clean_up(seen.clone()));
    rig.serve(&[kind("A")]);
    rig.sync_with(&service(), "s");
    rig.run();
    rig.remove(&service(), "s");
    assert_eq!(rig.run(), ["s (gone)"]);
    let plugin = Fake {
        manifest: reads_all("p"),
        behaviour: Box::new(clean_up(seen.clone())),
    };
    let replaced = rig.hub.replace(1, Arc::new(plugin), &settings(), rig.now);
    replaced.unwrap();
    rig.run();
    rig.widen(10);
    rig.list(&kind("A"), &["x"]);
    rig.run();
    assert_eq!(last(&seen), "A/x");
}

#[test]
fn who_has_asked_for_kinds_is_woken_when_one_is_refused_for_want_of_room() {
    let (mut rig, seen) = rig(&[kind("A")], |reader| {
        let known = reader.kinds(&any())?;
        let why = known[0].unavailable.clone().unwrap_or_default();
        // The kinds are known, and the list asks for them.
        list_all(reader).or_else(|error| match error {
            ReadError::NotYet(_) if why.is_empty() => Ok(String::new()),
            error => Err(error),
        })?;
        Ok(why)
    });
    rig.run();
    rig.widen(0);
    assert_eq!(rig.run(), ["s"]);
    assert!(last(&seen).contains("--watch-limit"), "{}", last(&seen));
}

#[test]
fn a_pattern_grants_no_kind_that_the_manifest_names_itself() {
    let secret = Kind::new("", "v1", "Secret");
    let mut manifest = reads_all("p");
    let named = ReadDeclaration::new(secret.clone(), vec![".type".into()]);
    manifest.reads.push(named);
    let delete = |kind: Kind| WriteDeclaration {
        kind,
        subresource: None,
        verbs: vec![Verb::Delete],
        children: false,
    };
    manifest.writes = vec![delete(any()), delete(Kind::new("example.com", "v2", "A"))];
    let mut settings = settings();
    if let Granted::Listed { writes, .. } = &mut settings.grants.what {
        writes.push(crate::access::grants::WriteGrant {
            kind: KindName::of(&any()),
            subresource: None,
            verbs: BTreeSet::new(),
            namespaces: BTreeSet::new(),
            names: BTreeSet::new(),
            force: false,
        });
    }
    let permissions = crate::access::permission::Permissions::of(&manifest, &settings.grants);
    let may = |kind: &Kind| {
        let key = ObjectKey::new("default", "x");
        permissions.check(Verb::Delete, kind, &key, None).is_ok()
    };
    assert!(may(&kind("B")) && !may(&kind("A")), "v2 of A is named");
    let asked = secret.clone();
    let (seen, behaviour) = reading(move |reader| {
        let got = reader.get(&asked, &ObjectKey::new("default", "x"));
        Ok(format!("{} {}", got.unwrap_err(), list_all(reader)?))
    });
    let mut rig = Rig::default();
    rig.join_with(manifest, &settings, behaviour);
    rig.serve(&[secret, kind("B")]);
    rig.sync_with(&service(), "s");
    rig.run();
    rig.widen(10);
    rig.list(&kind("B"), &["y"]);
    rig.run();
    assert_eq!(rig.watched_kinds(), ["v1/Service", "example.com/v1/B"]);
    assert!(last(&seen).contains("are not granted"), "{}", last(&seen));
    assert!(last(&seen).ends_with(" B/y"), "{}", last(&seen));
}

#[test]
fn an_object_that_cannot_be_read_takes_its_kind_out_of_a_list_of_all_and_no_other() {
    let (mut rig, seen) = rig(&[kind("A"), kind("B")], |reader| {
        let known = reader.kinds(&any())?;
        let why = known.iter().filter_map(|known| known.unavailable.clone());
        let why = why.collect::<Vec<_>>().join(" ");
        Ok(format!("{} | {why}", list_all(reader)?))
    });
    rig.run();
    rig.widen(10);
    rig.list(&kind("A"), &["x"]);
    rig.list(&kind("B"), &["y"]);
    rig.run();
    assert_eq!(last(&seen), "A/x B/y | ");
    rig.version += 1;
    let unreadable = Unreadable {
        key: ObjectKey::new("default", "z"),
        resource_version: ResourceVersion::new(&rig.version.to_string()),
        reason: "labels are a number".into(),
    };
    let id = rig.id(&kind("A"));
    rig.hub.apply(id, Delta::Unreadable(unreadable), rig.now);
    assert_eq!(rig.run(), ["s"]);
    let said = last(&seen);
    assert!(said.starts_with("B/y | default/z cannot be read"), "{said}");
}
