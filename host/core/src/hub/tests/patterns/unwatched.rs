//! Objects of kinds that can be got and not watched.

use super::*;
use crate::model::query::Confirmation;

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

/// It may speak of another object by now, which has come after the answer.
#[test]
fn an_answer_counts_for_nothing_once_the_keys_own_object_has_changed() {
    let (mut rig, seen) = rig(vec![report()], |reader| get(reader, "Report", "x"));
    let fetching = rig.fetching();
    rig.put(&service(), "a", r#""owner":"x""#);
    rig.hub.finished(fetching.answered(vec![Ok(None)]), rig.now);
    rig.fetch(Ok(Some(json("x", r#""team":"red""#))));
    rig.run();
    let seen = seen.lock().unwrap();
    assert!(seen.iter().all(|seen| seen.contains("red")), "{seen:?}");
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
