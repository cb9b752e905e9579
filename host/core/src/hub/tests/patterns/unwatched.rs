//! Objects of kinds that can be got and not watched.

use super::super::loops::write_again;
use super::*;
use crate::model::query::Confirmation;
use crate::reads::fetched::FETCHED_FOR;

/// A kind that is served with `get` alone.
fn report() -> ServedKind {
    with_verbs("Report", &["get"])
}

fn with_verbs(name: &str, verbs: &[&str]) -> ServedKind {
    ServedKind {
        verbs: verbs.iter().map(ToString::to_string).collect(),
        ..served(kind(name))
    }
}

/// A rig with a Service, whose plugin makes this read of a cluster with these kinds.
fn rig(
    kinds: Vec<ServedKind>,
    read: impl Fn(&mut Reader) -> Result<String, ReadError> + Send + Sync + 'static,
) -> (Rig, Seen) {
    let (seen, behaviour) = reading(read);
    let mut rig = Rig::default();
    rig.join_with(reads_all("p"), &settings(), behaviour);
    rig.sync(&service());
    drop(rig.hub.set_kinds(kinds, rig.now));
    rig.put(&service(), "a", "");
    (rig, seen)
}

fn get(reader: &mut Reader, name: &str, object: &str) -> Result<String, ReadError> {
    let found = reader.get(&kind(name), &ObjectKey::new("default", object))?;
    Ok(found.unwrap_or("nothing").to_owned())
}

/// What a server has of a Report.
fn json(name: &str, labels: &str) -> String {
    format!(
        r#"{{"apiVersion":"example.com/v1","kind":"Report","metadata":{{"namespace":"default","name":"{name}","uid":"u","resourceVersion":"7","annotations":{{"a":"b"}},"labels":{{{labels}}}}},"spec":{{"secret":1}}}}"#
    )
}

impl Rig {
    /// Runs the next key. It asks about objects that no watch brings.
    fn fetching(&mut self) -> Fetching {
        let reconcile = self.take().expect("a key is to be run");
        match self.hub.ran(reconcile.run(), self.now) {
            Decision::Fetching(fetching) => fetching,
            _ => panic!("it asks about nothing"),
        }
    }

    /// Runs the next key, which asks about one object, and answers that.
    fn fetch(&mut self, answer: Result<Option<String>, ReadFailure>) -> String {
        let fetching = self.fetching();
        let [asked] = fetching.objects() else {
            panic!("it asks about one");
        };
        let asked = format!("{} {}", asked.kind, asked.key);
        self.hub.finished(fetching.answered(vec![answer]), self.now);
        asked
    }
}

#[test]
fn an_object_that_no_watch_brings_is_fetched_and_the_key_runs_again_with_it() {
    let (mut rig, seen) = rig(vec![report()], |reader| get(reader, "Report", "x"));
    let asked = rig.fetch(Ok(Some(json("x", r#""team":"red""#))));
    assert_eq!(asked, "example.com/v1/Report default/x");
    assert_eq!(rig.run(), ["a"]);
    let seen = seen.lock().unwrap().join(" ");
    assert!(seen.contains(r#""team":"red""#), "{seen}");
    assert!(
        !seen.contains("annotations") && !seen.contains("secret"),
        "only what is declared"
    );
    let status = &rig.hub.status(rig.now)[0];
    assert_eq!((status.reconciles.success, status.reconciles.error), (1, 0));
    assert!(!rig.hub.wants_informers(), "it cannot have one");
}

#[test]
fn each_run_is_told_what_the_server_has_then() {
    let (mut rig, seen) = rig(vec![report()], |reader| get(reader, "Report", "x"));
    rig.fetch(Ok(Some(json("x", ""))));
    rig.run();
    rig.remove(&service(), "a");
    rig.fetch(Ok(None));
    rig.run();
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[1], "nothing");
}

#[test]
fn what_the_server_does_not_say_is_unavailable_to_the_plugin_and_no_outage() {
    let another = json("y", "");
    for (answer, why) in [
        (Err(ReadFailure::NoAnswer("HTTP 503".into())), "HTTP 503"),
        (Err(ReadFailure::Refused("HTTP 403".into())), "HTTP 403"),
        (Ok(Some(another)), "has answered with default/y"),
        (Ok(Some("{".into())), "EOF"),
    ] {
        let (mut rig, seen) = rig(vec![report()], |reader| get(reader, "Report", "x"));
        rig.fetch(answer);
        rig.run();
        let seen = seen.lock().unwrap();
        assert!(
            seen[0].contains("cannot be read now") && seen[0].contains(why),
            "{seen:?}"
        );
        let id = *rig.hub.controllers.keys().next().unwrap();
        assert!(!rig.hub.is_cut_off(id));
        assert_eq!(rig.hub.status(rig.now)[0].keys.failing, 0);
    }
}

/// A plugin that reads Services and Pods, and kinds by a pattern.
fn reads_pods(is_singleton: bool) -> Manifest {
    let mut manifest = reads_all("p");
    let labels = vec![".metadata.labels".into()];
    manifest.reads.push(ReadDeclaration::new(pod(), labels));
    if is_singleton {
        manifest.reconciles.clear();
        manifest.reads.remove(0);
    }
    manifest
}

/// A rig of a plugin that lists Pods before it asks about a Report.
fn reading_pods(is_singleton: bool) -> (Rig, Seen) {
    let (seen, behaviour) = reading(|reader| {
        let pods = list_of(reader, &pod())?;
        Ok(format!("{pods}: {}", get(reader, "Report", "x")?))
    });
    let mut rig = Rig::default();
    rig.join_with(reads_pods(is_singleton), &settings(), behaviour);
    rig.sync(&pod());
    drop(rig.hub.set_kinds(vec![report()], rig.now));
    if !is_singleton {
        rig.sync(&service());
        rig.put(&service(), "a", "");
    }
    (rig, seen)
}

/// What it has read may speak of another object by now, which has come after the answer.
#[test]
fn an_answer_counts_for_nothing_once_something_that_was_read_has_changed() {
    for (is_singleton, is_late) in [(false, false), (false, true), (true, false), (true, true)] {
        let (mut rig, seen) = reading_pods(is_singleton);
        let mut fetching = Some(rig.fetching());
        let answered = |fetching: Fetching, rig: &mut Rig| {
            drop(rig.hub.finished(fetching.answered(vec![Ok(None)]), rig.now));
        };
        if is_late {
            answered(fetching.take().unwrap(), &mut rig);
        }
        rig.put(&pod(), "x", "");
        if let Some(fetching) = fetching {
            answered(fetching, &mut rig);
        }
        rig.fetch(Ok(Some(json("x", r#""team":"red""#))));
        rig.run();
        let seen = seen.lock().unwrap();
        let [seen] = seen.as_slice() else {
            panic!("{seen:?}");
        };
        assert!(seen.contains("Pod/x: ") && seen.contains("red"), "{seen}");
    }
}

#[test]
fn an_answer_counts_although_what_the_plugin_does_not_see_of_its_object_has_changed() {
    let (mut rig, seen) = rig(vec![report()], |reader| get(reader, "Report", "x"));
    let fetching = rig.fetching();
    rig.put(&service(), "a", r#""renewed":"now""#);
    rig.hub.finished(fetching.answered(vec![Ok(None)]), rig.now);
    rig.put(&service(), "a", r#""renewed":"again""#);
    assert_eq!(rig.run(), ["a"]);
    assert_eq!(*seen.lock().unwrap(), ["nothing"]);
}

#[test]
fn an_answer_of_a_server_that_has_gone_back_in_time_since_counts_for_nothing() {
    let (mut rig, seen) = reading_pods(false);
    let fetching = rig.fetching();
    let restored = Delta::Replace(Listing {
        resource_version: ResourceVersion::new("1"),
        is_rollback: true,
        ..Listing::default()
    });
    let id = rig.id(&pod());
    rig.hub.apply(id, restored, rig.now);
    rig.hub.finished(fetching.answered(vec![Ok(None)]), rig.now);
    rig.fetch(Ok(Some(json("x", r#""team":"red""#))));
    rig.run();
    let seen = seen.lock().unwrap();
    assert!(seen.iter().all(|seen| seen.contains("red")), "{seen:?}");
}

/// A rig of a plugin that asks about a Report and sees all of its Service.
fn writing_its_own_object() -> Rig {
    let (_, behaviour) = reading(|reader| get(reader, "Report", "x"));
    let mut manifest = reads_all("p");
    manifest.reads[0] = ReadDeclaration::new(service(), vec![]);
    let mut rig = Rig::default();
    rig.join_with(manifest, &settings(), behaviour);
    rig.sync(&service());
    drop(rig.hub.set_kinds(vec![report()], rig.now));
    rig.put(&service(), "a", "");
    rig
}

/// Runs the key until it is found to loop. In each run it asks, and writes.
fn loops(rig: &mut Rig) {
    let mut named = Vec::new();
    for run in 0..11 {
        rig.fetch(Ok(None));
        let label = format!(r#""at":"{run}""#);
        named.extend(write_again(rig, &service(), "a", &label));
    }
    let [looping] = named.as_slice() else {
        panic!("{named:?}");
    };
    assert_eq!((looping.runs, looping.key.clone()), (10, key_of("a")));
    assert_eq!(looping.field, "/metadata/labels/at");
}

#[test]
fn a_key_that_its_own_writes_run_is_slowed_down_although_it_asks_each_time() {
    let mut rig = writing_its_own_object();
    loops(&mut rig);
    let status = &rig.hub.status(rig.now)[0];
    assert_eq!(status.reconciles.self_triggered, 10, "each counts once");
    assert!(rig.take().is_none(), "it waits");
    rig.now += Duration::from_secs(2);
    rig.fetch(Ok(None));
    let next = write_again(&mut rig, &service(), "a", r#""at":"last""#);
    assert_eq!(next, None, "it has been named");
    let looping = &rig.hub.status(rig.now)[0].keys.looping;
    assert_eq!(looping[0].runs, 11, "it went on without another wait");
}

#[test]
fn somebody_elses_change_ends_the_slowness_of_a_key_that_asks() {
    let mut rig = writing_its_own_object();
    loops(&mut rig);
    assert!(rig.take().is_none(), "it waits");
    rig.now += Duration::from_secs(2);
    let fetching = rig.fetching();
    rig.put(&service(), "a", r#""by":"another""#);
    rig.hub.finished(fetching.answered(vec![Ok(None)]), rig.now);
    rig.fetch(Ok(None));
    write_again(&mut rig, &service(), "a", r#""at":"once""#);
    assert_eq!(rig.hub.status(rig.now)[0].keys.looping, []);
    rig.fetch(Ok(None));
    let again = write_again(&mut rig, &service(), "a", r#""at":"again""#);
    assert_eq!(again, None, "it may write again at once");
}

#[test]
fn a_key_that_asks_and_comes_to_rest_does_not_loop() {
    let mut rig = writing_its_own_object();
    for run in 0..20 {
        rig.put(&service(), "a", &format!(r#""wish":"{run}""#));
        rig.fetch(Ok(None));
        write_again(&mut rig, &service(), "a", &format!(r#""done":"{run}""#));
        rig.fetch(Ok(None));
        assert_eq!(rig.run(), ["a"], "it finds nothing more to do");
    }
    assert_eq!(rig.hub.status(rig.now)[0].keys.looping, []);
}

#[test]
fn answers_count_however_many_keys_wait_for_their_turn_with_them() {
    let mut rig = writing_its_own_object();
    let names: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    names.iter().for_each(|name| rig.put(&service(), name, ""));
    for _ in 0..=20 {
        rig.fetch(Ok(None));
    }
    for _ in 0..=20 {
        let reconcile = rig.take().unwrap();
        let writing = rig.ran(reconcile);
        rig.end(writing, Executed::default());
    }
}

/// As a guest does whose run is repeated in another instance.
#[test]
fn an_object_that_is_asked_about_twice_is_fetched_once() {
    let (mut rig, seen) = rig(vec![report()], |reader| {
        let _ = get(reader, "Report", "x");
        get(reader, "Report", "x")
    });
    rig.fetch(Ok(None));
    rig.run();
    assert_eq!(*seen.lock().unwrap(), ["nothing"]);
}

#[test]
fn what_was_fetched_before_is_told_when_more_is_asked_about() {
    let (mut rig, seen) = rig(vec![report()], |reader| {
        let one = get(reader, "Report", "x")?;
        Ok(one + " " + &get(reader, "Report", "y")?)
    });
    assert!(rig.fetch(Ok(None)).ends_with("/x"));
    assert!(rig.fetch(Ok(None)).ends_with("/y"));
    rig.run();
    assert_eq!(*seen.lock().unwrap(), ["nothing nothing"]);
}

/// A Report with a label of this many MiB.
fn large(name: &str, mib: usize) -> String {
    json(name, &format!(r#""l":"{}""#, "x".repeat(mib << 20)))
}

#[test]
fn a_reconcile_is_told_of_sixteen_mebibytes_of_such_objects_and_asks_no_more() {
    let (mut rig, seen) = rig(vec![report()], |reader| {
        for name in ["x", "y", "z"] {
            get(reader, "Report", name)?;
        }
        Ok(String::new())
    });
    rig.fetch(Ok(Some(large("x", 8))));
    rig.fetch(Ok(Some(large("y", 8))));
    rig.run();
    let seen = seen.lock().unwrap();
    assert!(seen[0].contains("more than 16 MiB"), "{seen:?}");
}

#[test]
fn a_key_whose_answers_there_is_no_room_to_keep_asks_again_after_a_second() {
    let (mut rig, seen) = rig(vec![report()], |reader| get(reader, "Report", "x"));
    for name in ["b", "c", "d", "e"] {
        rig.put(&service(), name, "");
    }
    for _ in 0..5 {
        rig.fetch(Ok(Some(large("x", 14))));
    }
    assert_eq!(rig.run(), ["a", "b", "c", "d"]);
    rig.now += Duration::from_secs(1);
    rig.fetch(Ok(None));
    assert_eq!(rig.run(), ["e"]);
    assert_eq!(seen.lock().unwrap().len(), 5);
}

#[test]
fn an_answer_that_is_too_old_is_asked_for_again_and_the_others_count() {
    let (mut rig, seen) = rig(vec![report()], |reader| {
        let one = get(reader, "Report", "x")?;
        Ok(one + " " + &get(reader, "Report", "y")?)
    });
    rig.fetch(Ok(None));
    rig.now += FETCHED_FOR / 2;
    let fetching = rig.fetching();
    rig.now += FETCHED_FOR / 2;
    rig.hub.finished(fetching.answered(vec![Ok(None)]), rig.now);
    rig.now += Duration::from_nanos(1);
    let asked = rig.fetch(Ok(Some(json("x", r#""team":"red""#))));
    assert!(asked.ends_with("/x"), "{asked}");
    rig.run();
    let seen = seen.lock().unwrap();
    assert!(
        seen[0].contains("red") && seen[0].ends_with(" nothing"),
        "{seen:?}"
    );
}

#[test]
fn a_reconcile_asks_about_a_hundred_such_objects_and_no_more() {
    let (mut rig, seen) = rig(vec![report()], |reader| {
        for number in 0..=100 {
            get(reader, "Report", &number.to_string())?;
        }
        Ok(String::new())
    });
    for number in 0..100 {
        assert!(rig.fetch(Ok(None)).ends_with(&format!("/{number}")));
    }
    rig.run();
    let seen = seen.lock().unwrap();
    assert!(seen[0].starts_with("more than 100 objects"), "{seen:?}");
}

#[test]
fn what_is_fetched_for_a_run_cannot_be_confirmed_as_well() {
    let mut rig = Rig::default();
    rig.join_with(reads_all("p"), &settings(), |_, _| {
        let fetched = Confirmation::Object(kind("Report"), ObjectKey::new("default", "x"));
        Ok(Outcome {
            confirm: vec![fetched],
            ..Outcome::default()
        })
    });
    rig.sync(&service());
    drop(rig.hub.set_kinds(vec![report()], rig.now));
    rig.put(&service(), "a", "");
    rig.run();
    let error = rig.hub.status(rig.now).remove(0).last_error.unwrap();
    let refused = "confirmation 1: example.com/v1/Report cannot be read now";
    assert!(error.message.contains(refused), "{}", error.message);
}

#[test]
fn what_can_neither_be_watched_nor_got_and_lists_stay_unavailable() {
    let kinds = vec![
        with_verbs("Report", &["create", "list"]),
        with_verbs("Other", &["get"]),
    ];
    let (mut rig, seen) = rig(kinds, |reader| {
        let one = get(reader, "Report", "x").unwrap_err();
        let other = reader.list(&kind("Other"), None, &ListFilter::Everything);
        Ok(format!("{one}; {}", other.unwrap_err()))
    });
    rig.run();
    let why = "the server does not let it be listed and watched";
    let [report, other] = ["Report", "Other"].map(|name| kind(name).to_string());
    let told = format!("{report} cannot be read now: {why}; {other} cannot be read now: {why}");
    assert_eq!(*seen.lock().unwrap(), [told]);
}

#[test]
fn a_kind_that_comes_to_be_watched_wakes_the_key_that_had_its_object_fetched() {
    let (mut rig, _) = rig(vec![report()], |reader| get(reader, "Report", "x"));
    rig.fetch(Ok(None));
    rig.run();
    drop(rig.hub.set_kinds(vec![served(kind("Report"))], rig.now));
    let reconcile = rig.take().expect("the kind is another one now");
    let ran = reconcile.run();
    assert!(matches!(ran.plan(), Err(ReconcileError::Unseen(_))));
    rig.finish(ran);
}

#[test]
fn what_another_version_has_asked_about_is_not_told() {
    let (mut rig, seen) = rig(vec![report()], |reader| get(reader, "Report", "x"));
    let fetching = rig.fetching();
    let id = *rig.hub.controllers.keys().next().unwrap();
    let told = seen.clone();
    let next = Fake {
        manifest: Manifest {
            version: "2".into(),
            ..reads_all("p")
        },
        behaviour: Box::new(move |_, reader| {
            let found = get(reader, "Report", "x");
            told.lock().unwrap().push(format!("{:?}", found.is_ok()));
            Ok(Outcome::default())
        }),
    };
    rig.hub
        .replace(id, Arc::new(next), &settings(), rig.now)
        .unwrap();
    let finished = fetching.answered(vec![Ok(None)]);
    rig.hub.finished(finished, rig.now);
    let asked = rig.fetch(Ok(None));
    assert!(asked.ends_with("/x"), "it asks itself");
    assert_eq!(
        *seen.lock().unwrap(),
        ["false"],
        "and was told nothing before"
    );
}
