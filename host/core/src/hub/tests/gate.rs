//! A key sees what it wrote.

use super::*;

/// Runs the only key that is due as if it had written this.
pub(super) fn run_writing(rig: &mut Rig, kind: Kind, name: &str, trace: Trace) {
    let reconcile = rig.take().unwrap();
    let writing = rig.ran(reconcile);
    rig.end(writing, having_written(kind, name, trace));
}

/// One write that the server has accepted.
pub(super) fn having_written(kind: Kind, name: &str, trace: Trace) -> Executed {
    Executed {
        accepted: vec![AcceptedWrite {
            kind,
            key: ObjectKey::new("default", name),
            trace,
        }],
        ..Executed::default()
    }
}

#[test]
fn a_key_waits_until_its_snapshot_shows_what_it_wrote() {
    let mut rig = Rig::with(manifest("p"), lists_pods);
    rig.put(&service(), "web", "");
    run_writing(
        &mut rig,
        pod(),
        "x",
        Trace::Version(ResourceVersion::new("4")),
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
        Trace::Version(ResourceVersion::new("4")),
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
    run_writing(&mut rig, pod(), "x", Trace::Deletion("u".into()));
    rig.put(&service(), "web", r#""touched":"yes""#);
    rig.put(&pod(), "other", "");
    assert_eq!(rig.run(), NONE);
    rig.remove(&pod(), "x");
    assert_eq!(rig.run(), ["web"]);
}

/// A hub whose key "web" has written pod "x" at version 1000, which the watch does not show. The
/// key is queued again.
fn waiting() -> Rig {
    let mut rig = Rig::with(manifest("p"), lists_pods);
    rig.put(&service(), "web", "");
    rig.put(&service(), "other", "");
    run_writing(
        &mut rig,
        pod(),
        "x",
        Trace::Version(ResourceVersion::new("1000")),
    );
    rig.put(&service(), "web", r#""touched":"yes""#);
    assert_eq!(rig.run(), ["other"], "only the key itself is held");
    rig
}

fn next_fetch(rig: &mut Rig) -> Fetch {
    match rig.hub.next(rig.now, 0) {
        Next::Fetch(fetch) => fetch,
        Next::Run(reconcile) => panic!("{:?} runs", reconcile.held),
        Next::Idle(until) => panic!("nothing to do until {until:?}"),
    }
}

/// The object as the API server has it.
fn live(name: &str, version: u64) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"namespace":"default","name":"{name}","uid":"u","resourceVersion":"{version}","labels":{{"app":"web"}}}}}}"#
    )
}

#[test]
fn a_write_that_no_watch_shows_is_fetched() {
    let mut rig = waiting();
    rig.now += crate::hub::gate::PATIENCE;
    let fetch = next_fetch(&mut rig);
    let question = Question {
        informer: rig.id(&pod()),
        kind: pod(),
        key: ObjectKey::new("default", "x"),
        cached: None,
        at: ResourceVersion::new("0"),
        uid: None,
    };
    assert_eq!(fetch.questions, [question]);
    assert_eq!(rig.run(), NONE, "the answer is not there yet");
    let answers = vec![Ok(Some(live("x", 1000)))];
    rig.hub.fetched(&fetch, answers, rig.now);
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
    rig.now += crate::hub::gate::PATIENCE;
    let fetch = next_fetch(&mut rig);
    rig.hub.fetched(&fetch, vec![Ok(None)], rig.now);
    assert_eq!(rig.run(), ["web"]);
}

#[test]
fn a_key_waits_on_while_nobody_answers() {
    let mut rig = waiting();
    rig.now += crate::hub::gate::PATIENCE;
    let first = next_fetch(&mut rig);
    rig.hub.fetched(&first, vec![Err(no_answer())], rig.now);
    assert_eq!(rig.run(), NONE);
    rig.now += crate::hub::gate::PATIENCE;
    assert_eq!(next_fetch(&mut rig), first, "asked again");
}

#[test]
fn a_write_without_an_answer_is_fetched_before_the_key_runs_again() {
    let mut rig = Rig::with(manifest("p"), lists_pods);
    rig.put(&service(), "web", "");
    let reconcile = rig.take().unwrap();
    let writing = rig.ran(reconcile);
    let executed = Executed {
        accepted: vec![AcceptedWrite {
            kind: pod(),
            key: ObjectKey::new("default", "x"),
            trace: Trace::Unknown,
        }],
        ..unreachable()
    };
    rig.end(writing, executed);
    rig.put(&pod(), "other", "");
    rig.now += Duration::from_secs(1);
    let fetch = next_fetch(&mut rig);
    let answers = vec![Ok(Some(live("x", 1000)))];
    rig.hub.fetched(&fetch, answers, rig.now);
    let reconcile = rig.take().unwrap();
    assert_eq!(
        reconcile.held.request.attempt, 1,
        "it was not the key's fault"
    );
}

#[test]
fn a_write_whose_answer_does_not_show_the_object_is_fetched_before_the_key_runs_again() {
    let mut rig = Rig::with(manifest("p"), lists_pods);
    rig.put(&service(), "web", "");
    rig.put(&pod(), "x", "");
    run_writing(&mut rig, pod(), "x", Trace::Unshown);
    rig.put(&service(), "web", r#""touched":"yes""#);
    let fetch = next_fetch(&mut rig);
    assert_eq!(fetch.questions[0].key, ObjectKey::new("default", "x"));
    rig.hub.fetched(&fetch, vec![Ok(None)], rig.now);
    assert!(rig.take().is_some());
    let pods = rig.id(&pod());
    let cache = &rig.hub.snapshot.informers[pods];
    let evicted = cache.get(fetch.questions[0].key.parts());
    assert!(evicted.is_none());
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
        Trace::Version(ResourceVersion::new("1000")),
    );
    rig.put(&service(), "web", r#""touched":"yes""#);
    assert_eq!(rig.run(), ["web"]);
}

#[test]
fn an_answer_that_was_on_its_way_before_the_last_write_is_none_about_it() {
    let mut rig = waiting();
    rig.now += crate::hub::gate::PATIENCE;
    let early = next_fetch(&mut rig);
    let id = rig.id(&pod());
    let bookmark = Delta::Bookmark(ResourceVersion::new("1000"));
    rig.hub.apply(id, bookmark, rig.now);
    run_writing(
        &mut rig,
        pod(),
        "x",
        Trace::Version(ResourceVersion::new("2000")),
    );
    rig.version = 1000;
    rig.put(&service(), "web", r#""touched":"again""#);
    assert_eq!(rig.run(), NONE);
    rig.hub.fetched(&early, vec![Ok(None)], rig.now);
    assert_eq!(rig.run(), NONE, "it waits for 2000");
}

#[test]
fn what_a_fetch_does_not_find_is_not_served_any_more() {
    let mut rig = Rig::with(manifest("p"), nothing);
    rig.put(&service(), "web", "");
    rig.put(&pod(), "x", "");
    run_writing(
        &mut rig,
        pod(),
        "x",
        Trace::Version(ResourceVersion::new("1000")),
    );
    rig.put(&service(), "web", r#""touched":"yes""#);
    assert_eq!(rig.run(), NONE);
    rig.now += crate::hub::gate::PATIENCE;
    let fetch = next_fetch(&mut rig);
    rig.hub.fetched(&fetch, vec![Ok(None)], rig.now);
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
        run_writing(&mut rig, pod(), "x", Trace::Unknown);
        rig.put(&service(), "web", r#""touched":"yes""#);
        let fetch = next_fetch(&mut rig);
        let answers = vec![Ok(Some(live("x", 1000)))];
        rig.hub.fetched(&fetch, answers, rig.now);
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
        .find(|(_, (informer_key, _))| informer_key.fields.is_some());
    let (id, _) = pods.unwrap();
    for (id, _) in rig.hub.wanted() {
        rig.hub
            .apply(id, Delta::Replace(Listing::default()), rig.now);
    }
    let brought = Object::parse(&pod(), &live("x", 5), &rig.hub.schema(id)).unwrap();
    rig.hub.apply(id, Delta::Upsert(brought), rig.now);
    rig.put(&service(), "web", "");
    run_writing(&mut rig, pod(), "x", Trace::Unknown);
    rig.put(&service(), "web", r#""touched":"yes""#);
    let fetch = next_fetch(&mut rig);
    rig.hub
        .fetched(&fetch, vec![Ok(Some(live("x", 6)))], rig.now);
    let key = ObjectKey::new("default", "x");
    let found = rig.hub.snapshot().informers[id].get(key.parts());
    assert!(found.is_some());
}

#[test]
fn an_answer_that_cannot_be_read_holds_nobody_for_ever() {
    let mut rig = Rig::with(manifest("p"), lists_pods);
    rig.put(&service(), "web", "");
    run_writing(&mut rig, pod(), "x", Trace::Unknown);
    rig.put(&service(), "web", r#""touched":"yes""#);
    let fetch = next_fetch(&mut rig);
    let broken = r#"{"metadata":{"namespace":"default","name":"x","labels":{"a":1}}}"#;
    rig.hub
        .fetched(&fetch, vec![Ok(Some(broken.into()))], rig.now);
    let id = rig.id(&pod());
    assert_eq!(rig.informer(id).unreadable.len(), 1);
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
        Trace::Version(ResourceVersion::new("alpha")),
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
    assert_eq!(rig.hub.status(rig.now)[0].keys.held, 1);
    rig.hub.drain();
    assert!(!rig.hub.is_drained(rig.now), "it is still to run");
}

fn no_answer() -> ReadFailure {
    ReadFailure::NoAnswer("no route".into())
}

#[test]
fn a_key_does_not_wait_for_an_answer_that_there_will_never_be() {
    let mut rig = waiting();
    rig.now += crate::hub::gate::PATIENCE;
    let fetch = next_fetch(&mut rig);
    let refused = ReadFailure::Refused("pods is forbidden: cannot get".into());
    rig.hub.fetched(&fetch, vec![Err(refused)], rig.now);
    assert_eq!(rig.run(), ["web"]);
}

/// What the cache of pods shows of "x".
fn cached(rig: &Rig) -> Option<Arc<Object>> {
    let cache = &rig.hub.snapshot().informers[rig.id(&pod())];
    cache.get(ObjectKey::new("default", "x").parts()).cloned()
}

#[test]
fn an_answer_that_is_older_than_what_the_watch_has_brought_since_takes_nothing_out() {
    let page = "<!doctype html><p>Back soon".to_owned();
    let of_another = live("y", 5);
    for answer in [None, Some(page), Some(of_another)] {
        let mut rig = waiting();
        rig.now += crate::hub::gate::PATIENCE;
        let fetch = next_fetch(&mut rig);
        rig.version = 1000;
        rig.put(&pod(), "x", "");
        rig.hub.fetched(&fetch, vec![Ok(answer.clone())], rig.now);
        assert!(cached(&rig).is_some(), "{answer:?}");
    }
}

#[test]
fn an_answer_that_is_no_object_is_no_answer() {
    for page in ["<!doctype html><p>Back soon", "", "{}", r#"{"kind":"Pod"}"#] {
        let mut rig = Rig::with(manifest("p"), nothing);
        rig.put(&service(), "web", "");
        rig.put(&pod(), "x", "");
        run_writing(&mut rig, pod(), "x", Trace::Unknown);
        rig.put(&service(), "web", r#""touched":"yes""#);
        let first = next_fetch(&mut rig);
        rig.hub
            .fetched(&first, vec![Ok(Some(page.into()))], rig.now);
        assert!(cached(&rig).is_some(), "{page:?}");
        assert_eq!(rig.run(), NONE, "what was written is still not known");
        rig.now += crate::hub::gate::PATIENCE;
        next_fetch(&mut rig);
    }
}

#[test]
fn an_older_state_that_is_not_selected_takes_no_newer_one_out() {
    let mut narrowed = manifest("p");
    narrowed.reads[1].labels = LabelSelector {
        requirements: vec![Requirement::Equals("app".into(), "db".into())],
    };
    let mut rig = Rig::default();
    rig.join(narrowed, nothing);
    for (id, _) in rig.hub.wanted() {
        let delta = Delta::Replace(Listing::default());
        rig.hub.apply(id, delta, rig.now);
    }
    rig.put(&service(), "web", "");
    run_writing(&mut rig, pod(), "x", Trace::Unknown);
    rig.put(&service(), "web", r#""touched":"yes""#);
    let fetch = next_fetch(&mut rig);
    let wanted = rig.hub.wanted().into_iter();
    let mut pods = wanted.filter(|(_, (informer_key, _))| informer_key.kind == pod());
    let (id, _) = pods.next().unwrap();
    let newer = r#"{"metadata":{"namespace":"default","name":"x","uid":"u","resourceVersion":"1001","labels":{"app":"db"}}}"#;
    let newer = Object::parse(&pod(), newer, &rig.hub.schema(id)).unwrap();
    rig.hub.apply(id, Delta::Upsert(newer), rig.now);
    rig.hub
        .fetched(&fetch, vec![Ok(Some(live("x", 1000)))], rig.now);
    assert!(!rig.hub.snapshot().informers[id].is_empty());
}

#[test]
fn an_object_that_was_fetched_as_gone_does_not_rise_again() {
    let mut rig = Rig::with(manifest("p"), nothing);
    rig.put(&service(), "web", "");
    rig.put(&pod(), "x", "");
    run_writing(&mut rig, pod(), "x", Trace::Unknown);
    rig.put(&service(), "web", r#""touched":"yes""#);
    let fetch = next_fetch(&mut rig);
    rig.hub.fetched(&fetch, vec![Ok(None)], rig.now);
    assert!(cached(&rig).is_none());
    rig.put(&pod(), "x", r#""late":"yes""#);
    assert!(cached(&rig).is_none(), "the watch is behind its deletion");
    rig.remove(&pod(), "x");
    rig.version += 1;
    let anew = format!(
        r#"{{"metadata":{{"namespace":"default","name":"x","uid":"another","resourceVersion":"{}"}}}}"#,
        rig.version
    );
    let id = rig.id(&pod());
    let anew = Object::parse(&pod(), &anew, &rig.hub.schema(id)).unwrap();
    rig.hub.apply(id, Delta::Upsert(anew), rig.now);
    assert!(cached(&rig).is_some(), "another object of its name");
}

#[test]
fn a_deleted_object_that_no_watch_had_shown_does_not_rise_after_it_was_fetched_as_gone() {
    let mut rig = Rig::with(manifest("p"), nothing);
    rig.put(&service(), "web", "");
    rig.put(&pod(), "x", "");
    run_writing(&mut rig, pod(), "x", Trace::Deletion("u".into()));
    rig.put(&service(), "web", r#""touched":"yes""#);
    rig.now += crate::hub::gate::PATIENCE;
    let fetch = next_fetch(&mut rig);
    rig.hub.fetched(&fetch, vec![Ok(None)], rig.now);
    rig.put(&pod(), "x", r#""late":"yes""#);
    assert!(cached(&rig).is_none());
}

#[test]
fn a_write_in_another_version_of_a_kind_is_waited_for() {
    let mut rig = Rig::with(manifest("p"), nothing);
    rig.put(&service(), "web", "");
    let alpha = Kind::new("", "v1alpha1", "Pod");
    let version = Trace::Version(ResourceVersion::new("1000"));
    run_writing(&mut rig, alpha, "x", version);
    rig.put(&service(), "web", r#""touched":"yes""#);
    assert_eq!(rig.run(), NONE);
}

#[test]
fn keys_of_a_plugin_that_asks_to_run_one_at_a_time_see_each_others_writes() {
    let mut serial = manifest("p");
    serial.limits.concurrency = Some(1);
    let settings = ControllerSettings {
        concurrency: 1,
        ..ControllerSettings::default()
    };
    let mut rig = Rig::default();
    rig.join_with(serial, &settings, nothing);
    rig.sync(&service());
    rig.sync(&pod());
    for name in ["a", "b", "c"] {
        rig.put(&service(), name, "");
    }
    let version = Trace::Version(ResourceVersion::new("1000"));
    run_writing(&mut rig, pod(), "x", version);
    assert_eq!(rig.run(), NONE, "the others may depend on what it wrote");
    let bookmark = Delta::Bookmark(ResourceVersion::new("1000"));
    let id = rig.id(&pod());
    rig.hub.apply(id, bookmark, rig.now);
    assert_eq!(rig.run(), ["b", "c"]);
}

#[test]
fn what_one_of_several_keys_with_one_gate_wrote_is_awaited_whoever_ends_after_it() {
    let mut serial = manifest("p");
    serial.limits.concurrency = Some(1);
    // The operator allows two keys at a time.
    let settings = ControllerSettings {
        concurrency: 2,
        ..ControllerSettings::default()
    };
    let mut rig = Rig::default();
    rig.join_with(serial, &settings, nothing);
    rig.sync(&service());
    rig.sync(&pod());
    for name in ["a", "b", "c"] {
        rig.put(&service(), name, "");
    }
    let first = rig.take().unwrap();
    let second = rig.take().unwrap();
    let writing = rig.ran(first);
    let executed = Executed {
        accepted: vec![AcceptedWrite {
            kind: pod(),
            key: ObjectKey::new("default", "x"),
            trace: Trace::Version(ResourceVersion::new("1000")),
        }],
        ..Executed::default()
    };
    rig.end(writing, executed);
    rig.finish(second.run());
    assert_eq!(rig.run(), NONE, "the write is not visible yet");
    let bookmark = Delta::Bookmark(ResourceVersion::new("1000"));
    let id = rig.id(&pod());
    rig.hub.apply(id, bookmark, rig.now);
    assert_eq!(rig.run(), ["c"]);
}

#[test]
fn what_nobody_waits_for_alone_after_a_swap_holds_nobody() {
    let mut rig = Rig::with(manifest("p"), nothing);
    let id = *rig.hub.controllers.keys().next().unwrap();
    rig.put(&service(), "web", "");
    let reconcile = rig.take().unwrap();
    let writing = rig.ran(reconcile);
    let accepted = |kind, version: &str| AcceptedWrite {
        kind,
        key: ObjectKey::new("default", "x"),
        trace: Trace::Version(ResourceVersion::new(version)),
    };
    let executed = Executed {
        // The cache of services has reached this version; the cache of pods has not.
        accepted: vec![accepted(service(), "1"), accepted(pod(), "1000")],
        ..Executed::default()
    };
    rig.end(writing, executed);
    rig.put(&service(), "web", r#""touched":"yes""#);
    assert_eq!(rig.run(), NONE);
    let mut less = manifest("p");
    less.reads.truncate(1);
    less.writes.clear();
    let plugin = Fake {
        manifest: less,
        behaviour: Box::new(nothing),
    };
    let settings = ControllerSettings::default();
    rig.hub
        .replace(id, Arc::new(plugin), &settings, rig.now)
        .unwrap();
    assert_eq!(rig.run(), ["web"]);
}

#[test]
fn a_key_that_took_the_last_finalizer_waits_until_the_object_is_gone() {
    let mut rig = Rig::with(manifest("p"), nothing);
    rig.put(&pod(), "x", "");
    rig.put(&service(), "web", "");
    run_writing(&mut rig, pod(), "x", Trace::End("u".into()));
    rig.put(&service(), "web", r#""touched":"yes""#);
    assert_eq!(rig.run(), NONE, "the pod is still shown");
    rig.put(&pod(), "x", r#""late":"yes""#);
    assert_eq!(rig.run(), NONE, "and so it is being deleted, as before");
    rig.remove(&pod(), "x");
    assert_eq!(rig.run(), ["web"]);
}

#[test]
fn what_the_server_does_not_select_by_fields_holds_nobody_for_ever() {
    let mut narrowed = manifest("p");
    narrowed.reads[1].field_selector = Some("spec.nodeName=here".into());
    let mut rig = Rig::default();
    rig.join(narrowed, nothing);
    for (id, _) in rig.hub.wanted() {
        let delta = Delta::Replace(Listing::default());
        rig.hub.apply(id, delta, rig.now);
    }
    let wanted = rig.hub.wanted().into_iter();
    let mut pods = wanted.filter(|(_, (informer_key, _))| informer_key.kind == pod());
    let (id, _) = pods.next().unwrap();
    rig.put(&service(), "web", "");
    run_writing(&mut rig, pod(), "x", Trace::Unknown);
    rig.put(&service(), "web", r#""touched":"yes""#);
    let fetch = next_fetch(&mut rig);
    rig.hub
        .fetched(&fetch, vec![Ok(Some(live("x", 1000)))], rig.now);
    assert_eq!(rig.run(), NONE, "the watch may have to bring it yet");
    let bookmark = Delta::Bookmark(ResourceVersion::new("1000"));
    rig.hub.apply(id, bookmark, rig.now);
    assert_eq!(rig.run(), ["web"]);
}
