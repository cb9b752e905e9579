//! A key sees what it wrote.

use super::*;

/// Runs the only key that is due as if it had written this.
pub(super) fn run_writing(rig: &mut Rig, kind: Kind, name: &str, effect: Effect) {
    let mut turn = rig.take().unwrap();
    let decision = turn.decide();
    rig.hub.decided(&turn, &decision, rig.now);
    let accepted = vec![Accepted {
        kind,
        key: ObjectKey::new("default", name),
        effect,
    }];
    let executed = Executed {
        accepted,
        ..Executed::default()
    };
    rig.hub.settled(&turn, None, executed, rig.now);
}

#[test]
fn a_key_waits_until_its_snapshot_shows_what_it_wrote() {
    let mut rig = Rig::with(manifest("p"), lists_pods);
    rig.put(&service(), "web", "");
    run_writing(
        &mut rig,
        pod(),
        "x",
        Effect::Version(ResourceVersion::new("4")),
    );
    rig.put(&service(), "web", r#""touched":"yes""#);
    rig.put(&pod(), "other", "");
    assert_eq!(rig.run(), NONE, "pods are at version 3");
    rig.put(&pod(), "x", "");
    assert_eq!(rig.run(), ["web"]);
}

#[test]
fn a_bookmark_shows_that_a_write_is_visible() {
    let mut rig = Rig::with(manifest("p"), lists_pods);
    rig.put(&service(), "web", "");
    run_writing(
        &mut rig,
        pod(),
        "x",
        Effect::Version(ResourceVersion::new("4")),
    );
    rig.put(&service(), "web", r#""touched":"yes""#);
    assert_eq!(rig.run(), NONE);
    let bookmark = Delta::Bookmark(ResourceVersion::new("5"));
    let id = rig.id(&pod());
    rig.hub.apply(id, bookmark, rig.now);
    assert_eq!(rig.run(), ["web"]);
}

#[test]
fn a_deletion_is_visible_when_the_object_is_gone() {
    let mut rig = Rig::with(manifest("p"), lists_pods);
    rig.put(&pod(), "x", "");
    rig.put(&service(), "web", "");
    run_writing(&mut rig, pod(), "x", Effect::Deletion("u".into()));
    rig.put(&service(), "web", r#""touched":"yes""#);
    rig.put(&pod(), "other", "");
    assert_eq!(rig.run(), NONE);
    rig.remove(&pod(), "x");
    assert_eq!(rig.run(), ["web"]);
}

/// A hub whose key "web" has written pod "x" at version 1000, which the watch does not show, and has something to do again.
fn waiting() -> Rig {
    let mut rig = Rig::with(manifest("p"), lists_pods);
    rig.put(&service(), "web", "");
    rig.put(&service(), "other", "");
    run_writing(
        &mut rig,
        pod(),
        "x",
        Effect::Version(ResourceVersion::new("1000")),
    );
    rig.put(&service(), "web", r#""touched":"yes""#);
    assert_eq!(rig.run(), ["other"], "only the key itself is held");
    rig
}

fn lookup(rig: &mut Rig) -> Lookup {
    match rig.hub.next(rig.now, 0) {
        Next::Look(lookup) => lookup,
        Next::Run(turn) => panic!("{turn:?} runs"),
        Next::Idle(until) => panic!("nothing to do until {until:?}"),
    }
}

/// The object as the cluster itself has it.
fn live(name: &str, version: u64) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"namespace":"default","name":"{name}","uid":"u","resourceVersion":"{version}","labels":{{"app":"web"}}}}}}"#
    )
}

#[test]
fn a_write_that_no_watch_shows_is_looked_up() {
    let mut rig = waiting();
    rig.now += crate::gate::PATIENCE;
    let lookup = lookup(&mut rig);
    assert_eq!(
        lookup.objects,
        [(rig.id(&pod()), pod(), ObjectKey::new("default", "x"))]
    );
    assert_eq!(rig.run(), NONE, "the answer is not there yet");
    let answers = vec![Ok(Some(live("x", 1000)))];
    rig.hub.looked(&lookup, answers, rig.now);
    let id = rig.id(&pod());
    let seen = rig.hub.snapshot().informers[id].get(ObjectKey::new("default", "x").parts());
    assert!(seen.is_some(), "the key sees what it wrote");
    assert_eq!(rig.run(), ["web"]);
    let late = rig.object(&pod(), "x", "");
    rig.hub.apply(id, Delta::Upsert(late), rig.now);
    let seen = rig.hub.snapshot().informers[id].get(ObjectKey::new("default", "x").parts());
    assert_eq!(
        seen.unwrap().resource_version().to_string(),
        "1000",
        "the watch does not take it back"
    );
}

#[test]
fn an_object_that_is_not_there_any_more_is_not_waited_for() {
    let mut rig = waiting();
    rig.now += crate::gate::PATIENCE;
    let lookup = lookup(&mut rig);
    rig.hub.looked(&lookup, vec![Ok(None)], rig.now);
    assert_eq!(rig.run(), ["web"]);
}

#[test]
fn a_key_waits_on_while_nobody_answers() {
    let mut rig = waiting();
    rig.now += crate::gate::PATIENCE;
    let first = lookup(&mut rig);
    rig.hub
        .looked(&first, vec![Err("no route".into())], rig.now);
    assert_eq!(rig.run(), NONE);
    rig.now += crate::gate::PATIENCE;
    assert_eq!(lookup(&mut rig), first, "asked again");
}

#[test]
fn a_write_without_an_answer_is_looked_up_before_the_key_runs_again() {
    let mut rig = Rig::with(manifest("p"), lists_pods);
    rig.put(&service(), "web", "");
    let mut turn = rig.take().unwrap();
    let decision = turn.decide();
    rig.hub.decided(&turn, &decision, rig.now);
    let executed = Executed {
        accepted: vec![Accepted {
            kind: pod(),
            key: ObjectKey::new("default", "x"),
            effect: Effect::Unknown,
        }],
        ..Executed::default()
    };
    let error = TurnError::Unavailable("no answer".into());
    rig.hub.failed(&turn, &error, executed, rig.now);
    rig.put(&pod(), "other", "");
    rig.now += Duration::from_secs(1);
    let lookup = lookup(&mut rig);
    let answers = vec![Ok(Some(live("x", 1000)))];
    rig.hub.looked(&lookup, answers, rig.now);
    let turn = rig.take().unwrap();
    assert_eq!(turn.request.attempt, 1, "it was not the key's fault");
}

#[test]
fn a_write_of_a_kind_that_is_not_read_is_not_waited_for() {
    let mut rig = Rig::with(manifest("p"), lists_pods);
    rig.put(&service(), "web", "");
    let secret = Kind::new("", "v1", "Secret");
    run_writing(
        &mut rig,
        secret,
        "x",
        Effect::Version(ResourceVersion::new("1000")),
    );
    rig.put(&service(), "web", r#""touched":"yes""#);
    assert_eq!(rig.run(), ["web"]);
}

#[test]
fn an_answer_that_was_on_its_way_before_the_last_write_is_none_about_it() {
    let mut rig = waiting();
    rig.now += crate::gate::PATIENCE;
    let early = lookup(&mut rig);
    let id = rig.id(&pod());
    let bookmark = Delta::Bookmark(ResourceVersion::new("1000"));
    rig.hub.apply(id, bookmark, rig.now);
    run_writing(
        &mut rig,
        pod(),
        "x",
        Effect::Version(ResourceVersion::new("2000")),
    );
    rig.version = 1000;
    rig.put(&service(), "web", r#""touched":"again""#);
    assert_eq!(rig.run(), NONE);
    rig.hub.looked(&early, vec![Ok(None)], rig.now);
    assert_eq!(rig.run(), NONE, "it waits for 2000");
}

#[test]
fn what_a_lookup_does_not_find_is_not_served_any_more() {
    let mut rig = Rig::with(manifest("p"), nothing);
    rig.put(&service(), "web", "");
    rig.put(&pod(), "x", "");
    run_writing(
        &mut rig,
        pod(),
        "x",
        Effect::Version(ResourceVersion::new("1000")),
    );
    rig.put(&service(), "web", r#""touched":"yes""#);
    assert_eq!(rig.run(), NONE);
    rig.now += crate::gate::PATIENCE;
    let lookup = lookup(&mut rig);
    rig.hub.looked(&lookup, vec![Ok(None)], rig.now);
    let id = rig.id(&pod());
    assert!(rig.hub.snapshot().informers[id].is_empty());
    assert_eq!(rig.run(), ["web"]);
}

#[test]
fn what_is_found_for_a_narrowed_informer_is_seen_if_it_is_one_of_its_objects() {
    for (app, is_seen) in [("web", true), ("db", false)] {
        let mut narrowed = manifest("p");
        narrowed.reads[1].labels = LabelSelector {
            requirements: vec![Requirement::Equals("app".into(), app.into())],
        };
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        let mut rig = Rig::default();
        rig.join(narrowed, move |_, reader| {
            let found = reader.get(&pod(), &ObjectKey::new("default", "x")).unwrap();
            log.lock().unwrap().push(found.is_some());
            Ok(Outcome::default())
        });
        for (id, _) in rig.hub.wanted() {
            let delta = Delta::Replace(Listing::default());
            rig.hub.apply(id, delta, rig.now);
        }
        rig.put(&service(), "web", "");
        run_writing(&mut rig, pod(), "x", Effect::Unknown);
        rig.put(&service(), "web", r#""touched":"yes""#);
        let lookup = lookup(&mut rig);
        let answers = vec![Ok(Some(live("x", 1000)))];
        rig.hub.looked(&lookup, answers, rig.now);
        assert_eq!(rig.run(), ["web"]);
        assert_eq!(seen.lock().unwrap().last(), Some(&is_seen), "{app}");
    }
}

#[test]
fn what_the_server_selects_by_fields_stays_whatever_the_host_makes_of_the_selector() {
    let mut narrowed = manifest("p");
    narrowed.reads[1].field_selector = Some("spec.unknownToTheHost=default".into());
    let mut rig = Rig::default();
    rig.join(narrowed, nothing);
    let pods = rig
        .hub
        .wanted()
        .into_iter()
        .find(|(_, (source, _))| source.fields.is_some());
    let (id, _) = pods.unwrap();
    for (id, _) in rig.hub.wanted() {
        rig.hub
            .apply(id, Delta::Replace(Listing::default()), rig.now);
    }
    let brought = Object::parse(&pod(), &live("x", 5), &rig.hub.schema(id)).unwrap();
    rig.hub.apply(id, Delta::Upsert(brought), rig.now);
    rig.put(&service(), "web", "");
    run_writing(&mut rig, pod(), "x", Effect::Unknown);
    rig.put(&service(), "web", r#""touched":"yes""#);
    let lookup = lookup(&mut rig);
    rig.hub
        .looked(&lookup, vec![Ok(Some(live("x", 6)))], rig.now);
    let key = ObjectKey::new("default", "x");
    let found = rig.hub.snapshot().informers[id].get(key.parts());
    assert!(found.is_some());
}

#[test]
fn an_answer_that_cannot_be_read_holds_nobody_for_ever() {
    let mut rig = Rig::with(manifest("p"), lists_pods);
    rig.put(&service(), "web", "");
    run_writing(&mut rig, pod(), "x", Effect::Unknown);
    rig.put(&service(), "web", r#""touched":"yes""#);
    let lookup = lookup(&mut rig);
    let broken = r#"{"metadata":{"name":"x","labels":{"a":1}}}"#;
    rig.hub
        .looked(&lookup, vec![Ok(Some(broken.into()))], rig.now);
    let id = rig.id(&pod());
    assert_eq!(rig.hub.informers()[id].unreadable.len(), 1);
    assert!(
        rig.take().is_some(),
        "it runs, and says what it cannot read"
    );
}

#[test]
fn a_version_that_cannot_be_compared_is_waited_for_itself() {
    let mut rig = Rig::with(manifest("p"), lists_pods);
    rig.put(&service(), "web", "");
    let id = rig.id(&pod());
    let bookmark = Delta::Bookmark(ResourceVersion::new("zeta"));
    rig.hub.apply(id, bookmark, rig.now);
    run_writing(
        &mut rig,
        pod(),
        "x",
        Effect::Version(ResourceVersion::new("alpha")),
    );
    rig.put(&service(), "web", r#""touched":"yes""#);
    assert_eq!(rig.run(), NONE);
    let bookmark = Delta::Bookmark(ResourceVersion::new("alpha"));
    rig.hub.apply(id, bookmark, rig.now);
    assert_eq!(rig.run(), ["web"]);
}

#[test]
fn a_held_key_is_counted_as_held() {
    let mut rig = waiting();
    assert_eq!(rig.hub.status(rig.now)[0].held, 1);
    rig.hub.drain();
    assert!(!rig.hub.is_drained(rig.now), "it is still to run");
}
