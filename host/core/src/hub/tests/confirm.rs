//! Before an outcome is written, the API server confirms what it rests on.

use proptest::prelude::*;

use super::*;
use crate::model::query::Confirmation;

/// A rig whose plugin applies a Pod once no Pod has the label `app: a`, and has that confirmed, as
/// well as its own Service.
fn rig() -> Rig {
    let mut rig = Rig::with(manifest("p"), |request, reader| {
        let pods = reader.list(&pod(), None, &app_is("a")).unwrap();
        if pods != "[]" {
            return Ok(Outcome::default());
        }
        let object =
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"new"}}"#;
        let apply = Action::Apply {
            object: object.into(),
            subresource: None,
            force: false,
        };
        Ok(Outcome {
            confirm: vec![
                Confirmation::Object(service(), request.key.object.clone()),
                Confirmation::Objects {
                    kind: pod(),
                    namespace: Some("default".into()),
                    filter: app_is("a"),
                },
            ],
            ..Outcome::of(vec![apply])
        })
    });
    rig.put(&service(), "a", "");
    rig
}

/// What the server has of an object, at this version.
fn on_server(kind: &Kind, name: &str, version: u64, more: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"{}","metadata":{{"namespace":"default","name":"{name}","uid":"{}-{name}","resourceVersion":"{version}","labels":{{"app":"a"}}{more}}}}}"#,
        kind.kind, kind.kind
    )
}

impl Rig {
    /// Runs the next key as soon as it is due. It wants to have something confirmed.
    fn confirming(&mut self) -> Confirming {
        let reconcile = self.take().unwrap_or_else(|| {
            let Next::Idle(Some(due)) = self.hub.next(self.now, 0) else {
                panic!("nothing will be due");
            };
            self.now = due;
            self.take().expect("it is due")
        });
        match self.hub.ran(reconcile.run(), self.now) {
            Decision::Confirming(confirming) => confirming,
            Decision::Writing(_) => panic!("it asks nothing"),
            Decision::Fetching(_) => panic!("nothing is to be fetched"),
            Decision::Finished(finished) => panic!("{:?}", finished.error()),
        }
    }
}

/// The server's answers: its Service, and its Pods.
fn answers(
    confirming: &Confirming,
    service: Result<Option<String>, ReadFailure>,
    pods: &[String],
) -> ConfirmAnswers {
    let found = pods
        .iter()
        .filter_map(|json| confirming.lists()[0].examine(json).unwrap());
    let service = service.map(|found| {
        let asked = &confirming.objects()[0];
        asked.examine(found.as_deref()).unwrap()
    });
    ConfirmAnswers {
        objects: vec![service],
        lists: vec![Ok(found.collect())],
    }
}

/// The Service as the cache has it.
fn same(rig: &Rig) -> Result<Option<String>, ReadFailure> {
    let id = rig.id(&service());
    let key = ObjectKey::new("default", "a");
    let object = rig.hub.snapshot().informers[id].get(key.parts()).unwrap();
    Ok(Some(object.view(None).to_owned()))
}

#[test]
fn what_the_server_confirms_is_written() {
    let mut rig = rig();
    let confirming = rig.confirming();
    let target = confirming.lists()[0].target.to_string();
    assert_eq!(target, "v1/Pod in default with app=a");
    let answers = answers(&confirming, same(&rig), &[]);
    let ConfirmEnd::Writing(writing) = rig.hub.confirmed(confirming, answers) else {
        panic!("it is as the snapshot shows");
    };
    rig.end(writing, Executed::default());
    assert_eq!(rig.hub.status(rig.now)[0].reconciles.success, 1);
}

#[test]
fn nothing_is_written_on_a_snapshot_that_the_server_contradicts() {
    let mut rig = rig();
    let confirming = rig.confirming();
    let there = on_server(&pod(), "x", 90, "");
    let answers = answers(&confirming, same(&rig), std::slice::from_ref(&there));
    let ConfirmEnd::Contradicted(fetch, finished) = rig.hub.confirmed(confirming, answers) else {
        panic!("there is a pod");
    };
    assert_eq!(fetch.questions.len(), 1);
    rig.hub.fetched(&fetch, vec![Ok(Some(there))], rig.now);
    assert!(finished.error().is_none(), "it is nobody's failure");
    rig.hub.finished(finished, rig.now);
    assert_eq!(rig.run(), ["a"], "it runs again on what the server said");
    let status = &rig.hub.status(rig.now)[0];
    let counts = status.reconciles;
    assert_eq!(
        (counts.contradicted, counts.success, counts.error),
        (1, 1, 0)
    );
    assert_eq!(status.keys.failing, 0);
}

#[test]
fn an_object_that_is_another_one_or_being_deleted_by_now_contradicts() {
    let id = |rig: &Rig| same(rig).unwrap().unwrap();
    let changes: [fn(&str) -> Option<String>; 3] = [
        |_| None,
        |json| Some(json.replace(r#""uid":""#, r#""uid":"other"#)),
        |json| {
            let dying = r#""deletionTimestamp":"2020-01-01T00:00:00Z","name""#;
            Some(json.replacen(r#""name""#, dying, 1))
        },
    ];
    for change in changes {
        let mut rig = rig();
        let confirming = rig.confirming();
        let service = change(&id(&rig));
        assert_ne!(service, Some(id(&rig)), "the change changes something");
        let answers = answers(&confirming, Ok(service), &[]);
        let end = rig.hub.confirmed(confirming, answers);
        assert!(matches!(end, ConfirmEnd::Contradicted(..)));
    }
}

#[test]
fn a_change_that_leaves_the_object_what_it_is_does_not_contradict() {
    let mut rig = rig();
    let confirming = rig.confirming();
    let service = same(&rig).unwrap().unwrap();
    let service = service.replacen(r#""name""#, r#""annotations":{"a":"b"},"name""#, 1);
    let answers = answers(&confirming, Ok(Some(service)), &[]);
    let end = rig.hub.confirmed(confirming, answers);
    assert!(matches!(end, ConfirmEnd::Writing(_)));
}

#[test]
fn without_an_answer_the_key_waits_as_in_an_outage_and_a_refusal_is_its_failure() {
    let failures = [
        (ReadFailure::NoAnswer("down".into()), 0),
        (ReadFailure::Refused("HTTP 403".into()), 1),
    ];
    for (failure, failing) in failures {
        let mut rig = rig();
        let confirming = rig.confirming();
        let is_outage = matches!(failure, ReadFailure::NoAnswer(_));
        let answers = answers(&confirming, Err(failure), &[]);
        let ConfirmEnd::Finished(finished) = rig.hub.confirmed(confirming, answers) else {
            panic!("there is no answer");
        };
        let error = finished.error().unwrap().to_string();
        assert!(
            error.starts_with("cannot confirm v1/Service default/a"),
            "{error}"
        );
        rig.hub.finished(finished, rig.now);
        let id = *rig.hub.controllers.keys().next().unwrap();
        assert_eq!(rig.hub.is_cut_off(id), is_outage);
        assert_eq!(rig.hub.status(rig.now)[0].keys.failing, failing);
    }
}

#[test]
fn a_key_that_is_contradicted_again_and_again_runs_later_and_later() {
    let mut rig = rig();
    let mut waited = Vec::new();
    for _ in 0..5 {
        let before = rig.now;
        let confirming = rig.confirming();
        waited.push(rig.now - before);
        let answers = answers(&confirming, Ok(None), &[]);
        let end = rig.hub.confirmed(confirming, answers);
        let ConfirmEnd::Contradicted(_, finished) = end else {
            panic!("there is no Service");
        };
        // Nothing is fetched, so the caches stay as they are.
        rig.hub.finished(finished, rig.now);
    }
    let milliseconds: Vec<u128> = waited.iter().map(Duration::as_millis).collect();
    assert_eq!(milliseconds, [0, 0, 5, 10, 20]);
}

#[test]
fn what_an_object_says_is_confirmed_where_that_is_asked_for() {
    let has = |labels: &str| {
        format!(
            r#"{{"kind":"Service","metadata":{{"uid":"u","name":"a","namespace":"default","resourceVersion":"99","labels":{{{labels}}}}}}}"#
        )
    };
    let rested_on = |answer: &str| {
        let mut manifest = manifest("p");
        manifest.reads[0].fields = vec![".metadata.labels".into()];
        let mut rig = Rig::with(manifest, |request, _| {
            let object = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"new"}}"#;
            let apply = Action::Apply {
                object: object.into(),
                subresource: None,
                force: false,
            };
            let own = Confirmation::Unchanged(service(), request.key.object.clone());
            Ok(Outcome {
                confirm: vec![own],
                ..Outcome::of(vec![apply])
            })
        });
        rig.put(&service(), "a", r#""one":"1","two":"2""#);
        let confirming = rig.confirming();
        let found = confirming.objects()[0].examine(Some(answer)).unwrap();
        let answers = ConfirmAnswers {
            objects: vec![Ok(found)],
            lists: vec![],
        };
        matches!(
            rig.hub.confirmed(confirming, answers),
            ConfirmEnd::Writing(_)
        )
    };
    assert!(
        rested_on(&has(r#""two":"2","one":"1""#)),
        "in whatever order"
    );
    assert!(!rested_on(&has(r#""one":"1""#)), "a label is gone");
    assert!(!rested_on(&has(r#""one":"1","two":"3""#)));
}

#[test]
fn an_outcome_that_writes_nothing_asks_nothing() {
    let mut rig = Rig::with(manifest("p"), |request, _| {
        Ok(Outcome {
            confirm: vec![Confirmation::Object(service(), request.key.object.clone())],
            ..Outcome::default()
        })
    });
    rig.put(&service(), "a", "");
    assert_eq!(rig.run(), ["a"]);
    assert_eq!(rig.hub.status(rig.now)[0].reconciles.success, 1);
}

#[test]
fn what_may_not_be_read_cannot_be_confirmed_and_there_is_an_end_to_it() {
    let refusal = |confirm: fn() -> Vec<Confirmation>| {
        let mut rig = Rig::with(manifest("p"), move |_, _| {
            Ok(Outcome {
                confirm: confirm(),
                ..Outcome::default()
            })
        });
        rig.put(&service(), "a", "");
        rig.run();
        let status = rig.hub.status(rig.now).remove(0);
        status.last_error.unwrap().message
    };
    let secret = || {
        let key = ObjectKey::new("default", "a");
        vec![Confirmation::Object(Kind::new("", "v1", "Secret"), key)]
    };
    assert_eq!(
        refusal(secret),
        "outcome refused: confirmation 1: v1/Secret is not among the manifest's reads"
    );
    let many = || vec![Confirmation::Object(service(), ObjectKey::new("default", "a")); 10_000];
    assert_eq!(
        refusal(many),
        "outcome refused: 10000 questions to confirm; an outcome has at most 100"
    );
}

/// Pods by name: which of two objects it is, and whether it is being deleted.
fn pods() -> impl Strategy<Value = BTreeMap<u8, (bool, bool)>> {
    prop::collection::btree_map(0..4_u8, any::<(bool, bool)>(), 0..4)
}

fn pod_json((name, (is_other, is_dying)): (&u8, &(bool, bool)), content: u8) -> String {
    let uid = if *is_other { "other" } else { "one" };
    let dying = match is_dying {
        true => r#","deletionTimestamp":"2020-01-01T00:00:00Z""#,
        false => "",
    };
    format!(
        r#"{{"metadata":{{"namespace":"default","name":"{name}","uid":"{uid}","resourceVersion":"{content}"{dying}}}}}"#
    )
}

proptest! {
    /// Whatever the snapshot shows and the server has: the writes can be sent if both have the same
    /// objects, being deleted or not, whatever else has changed in them, and only then.
    #[test]
    fn nothing_is_written_unless_the_server_has_what_was_shown(shown in pods(), has in pods(), is_same: bool) {
        let has = if is_same { shown.clone() } else { has };
        let mut rig = Rig::with(manifest("p"), |_, reader| {
            reader.list(&pod(), None, &ListFilter::Everything).unwrap();
            let object = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"new"}}"#;
            let apply = Action::Apply { object: object.into(), subresource: None, force: false };
            let all = Confirmation::Objects { kind: pod(), namespace: None, filter: ListFilter::Everything };
            Ok(Outcome { confirm: vec![all], ..Outcome::of(vec![apply]) })
        });
        let id = rig.id(&pod());
        let schema = rig.hub.schema(id);
        for pair in &shown {
            let object = Object::parse(&pod(), &pod_json(pair, 50 + pair.0), &schema).unwrap();
            rig.hub.apply(id, Delta::Upsert(object), rig.now);
        }
        rig.put(&service(), "a", "");
        let confirming = rig.confirming();
        let asked = &confirming.lists()[0];
        let found = has.iter().filter_map(|pair| asked.examine(&pod_json(pair, 99)).unwrap());
        let answers = ConfirmAnswers { objects: vec![], lists: vec![Ok(found.collect())] };
        let is_written = matches!(rig.hub.confirmed(confirming, answers), ConfirmEnd::Writing(_));
        prop_assert_eq!(is_written, shown == has);
    }
}
