use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Mutex;

use super::*;
use crate::cache::{Listing, Unreadable};
use crate::hub::doubts::Proof;
use crate::hub::plugin::{Plugin, Request, RunError};
use crate::model::key::{ObjectKey, ResourceVersion};
use crate::model::manifest::{
    Limits, Manifest, ReadDeclaration, Selection, Verb, WriteDeclaration,
};
use crate::model::object::Object;
use crate::model::outcome::{
    Action, ActionResult, Effect, EffectVerb, Failure, FollowUp, NextRun, Outcome,
};
use crate::model::query::ListFilter;
use crate::model::selector::{LabelSelector, Requirement};
use crate::plan::accepted::{AcceptedWrite, Trace};
use crate::plan::children;
use crate::plan::execution::{Executed, WriteFailure};
use crate::reads::reader::Reader;

mod confirm;
mod doubts;
mod duties;
mod gate;
mod informers;
mod joining;
mod kinds;
mod loops;
mod memos;
mod model;
mod namespaces;
mod optional;
mod outage;
mod patterns;
mod rehearsal;
mod relay;
mod settled;
mod suspects;
mod sweep;
mod turns;
mod versions;

fn service() -> Kind {
    Kind::new("", "v1", "Service")
}

fn pod() -> Kind {
    Kind::new("", "v1", "Pod")
}

/// The key of a service.
fn key_of(name: &str) -> SubjectKey {
    key_of_kind(service(), name)
}

fn key_of_kind(kind: Kind, name: &str) -> SubjectKey {
    SubjectKey::of(&Arc::new(kind), ObjectKey::new("default", name))
}

fn manifest(name: &str) -> Manifest {
    let whole = |kind| ReadDeclaration::new(kind, vec![]);
    Manifest {
        name: name.into(),
        version: "1.0.0".into(),
        reconciles: vec![selection()],
        reads: vec![whole(service()), whole(pod())],
        indexes: vec![],
        writes: vec![WriteDeclaration {
            kind: pod(),
            subresource: None,
            verbs: vec![Verb::Apply],
            children: false,
        }],
        limits: Limits::default(),
        config_schema: None,
        optional: BTreeSet::new(),
    }
}

fn selection() -> Selection {
    Selection {
        kind: service(),
        labels: LabelSelector::default(),
        fields: None,
        namespaces: vec![],
        companions: vec![],
    }
}

type Behaviour = dyn Fn(&Request, &mut Reader) -> Result<Outcome, RunError> + Send + Sync;

struct Fake {
    manifest: Manifest,
    behaviour: Box<Behaviour>,
}

impl Plugin for Fake {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn reconcile(&self, request: &Request, reader: &mut Reader) -> Result<Outcome, RunError> {
        (self.behaviour)(request, reader)
    }
}

/// A hub, a clock, and the last resourceVersion given to an object.
#[derive(Default)]
struct Rig {
    hub: Hub,
    now: Time,
    version: u64,
}

impl Rig {
    /// A rig with one plugin whose kinds are synced and empty.
    fn with(
        manifest: Manifest,
        behaviour: impl Fn(&Request, &mut Reader) -> Result<Outcome, RunError> + Send + Sync + 'static,
    ) -> Self {
        let mut rig = Self::default();
        rig.join(manifest, behaviour);
        rig.sync(&service());
        rig.sync(&pod());
        rig
    }

    fn join(
        &mut self,
        manifest: Manifest,
        behaviour: impl Fn(&Request, &mut Reader) -> Result<Outcome, RunError> + Send + Sync + 'static,
    ) -> PluginId {
        self.join_with(manifest, &ControllerSettings::default(), behaviour)
    }

    fn join_with(
        &mut self,
        manifest: Manifest,
        settings: &ControllerSettings,
        behaviour: impl Fn(&Request, &mut Reader) -> Result<Outcome, RunError> + Send + Sync + 'static,
    ) -> PluginId {
        let plugin = Fake {
            manifest,
            behaviour: Box::new(behaviour),
        };
        self.hub.join(Arc::new(plugin), settings, self.now).unwrap()
    }

    fn id(&self, kind: &Kind) -> InformerId {
        self.hub.ids[&InformerKey::all(kind.clone())]
    }

    fn sync(&mut self, kind: &Kind) {
        let delta = Delta::Replace(Listing {
            objects: vec![],
            resource_version: ResourceVersion::new(&self.version.to_string()),
            ..Listing::default()
        });
        let id = self.id(kind);
        self.hub.apply(id, delta, self.now);
    }

    /// Lists a kind that has only this object.
    fn sync_with(&mut self, kind: &Kind, name: &str) {
        let object = self.object(kind, name, "");
        let delta = Delta::Replace(Listing {
            objects: vec![object],
            resource_version: ResourceVersion::new(&self.version.to_string()),
            ..Listing::default()
        });
        let id = self.id(kind);
        self.hub.apply(id, delta, self.now);
    }

    fn object(&mut self, kind: &Kind, name: &str, labels: &str) -> Object {
        self.version += 1;
        let json = format!(
            r#"{{"metadata":{{"namespace":"default","name":"{name}","uid":"u","resourceVersion":"{}","labels":{{{labels}}}}}}}"#,
            self.version
        );
        Object::parse(kind, &json, &self.hub.schema(self.id(kind))).unwrap()
    }

    fn put(&mut self, kind: &Kind, name: &str, labels: &str) {
        let object = self.object(kind, name, labels);
        let id = self.id(kind);
        self.hub.apply(id, Delta::Upsert(object), self.now);
    }

    fn remove(&mut self, kind: &Kind, name: &str) {
        let object = self.object(kind, name, "");
        let id = self.id(kind);
        self.hub.apply(id, Delta::delete(&object), self.now);
    }

    /// The server has nothing that the caches do not show.
    fn prove_all(&mut self) {
        for doubt in self.hub.doubted() {
            let cache = &self.hub.snapshot().informers[doubt.informer];
            let proof = Proof {
                version: cache.resource_version().clone(),
                objects: None,
            };
            self.hub.prove(&doubt, &proof, self.now);
        }
    }

    fn take(&mut self) -> Option<Reconcile> {
        match self.hub.next(self.now, 0) {
            Next::Run(reconcile) => Some(*reconcile),
            Next::Fetch(_) | Next::Idle(_) => None,
        }
    }

    /// Runs a guest that returns an outcome, and registers what it has read.
    fn ran(&mut self, reconcile: Reconcile) -> Writing {
        match self.hub.ran(reconcile.run(), self.now) {
            Decision::Writing(writing) => writing,
            Decision::Finished(finished) => panic!("{:?}", finished.error()),
            Decision::Confirming(_) => panic!("it wants to have something confirmed"),
            Decision::Fetching(_) => panic!("nothing is to be fetched"),
        }
    }

    /// Ends a reconcile as if its writes had ended like this.
    fn end(&mut self, writing: Writing, executed: Executed) -> Conclusion {
        let Writing {
            held, follow_up, ..
        } = writing;
        let finished = Finished::executed_as(held, follow_up, executed);
        self.hub.finished(finished, self.now)
    }

    /// Ends a reconcile whose guest has ended, without sending its writes.
    fn finish(&mut self, ran: Ran) -> Conclusion {
        match self.hub.ran(ran, self.now) {
            Decision::Writing(writing) => self.end(writing, Executed::default()),
            Decision::Finished(finished) => self.hub.finished(finished, self.now),
            Decision::Confirming(_) => panic!("it wants to have something confirmed"),
            Decision::Fetching(_) => panic!("nothing is to be fetched"),
        }
    }

    /// Runs everything that can run now. Returns the keys, sorted.
    /// The state of an informer.
    fn informer(&self, id: InformerId) -> InformerStatus {
        let informers = self.hub.informers().into_iter();
        let mut found = informers.filter(|informer| informer.informer == id);
        found.next().expect("it has not ended")
    }

    fn run(&mut self) -> Vec<String> {
        let mut keys = BTreeSet::new();
        while let Some(reconcile) = self.take() {
            keys.insert(format!(
                "{}{}",
                reconcile.held.request.key.object.name,
                if reconcile.held.is_gone {
                    " (gone)"
                } else {
                    ""
                }
            ));
            self.finish(reconcile.run());
        }
        keys.into_iter().collect()
    }
}

/// The reconcile of a guest that trapped.
fn trapped(reconcile: Reconcile) -> Ran {
    let error = RunError::Trap("unreachable".into());
    Ran {
        result: Err(error.into()),
        ..reconcile.run()
    }
}

/// Writes of which one was refused.
fn refused() -> Executed {
    failed(conflict())
}

fn conflict() -> WriteFailure {
    WriteFailure {
        message: "conflict".into(),
        is_unavailable: false,
        retry_after: None,
    }
}

/// Writes that could not reach the cluster.
fn unreachable() -> Executed {
    failed(WriteFailure {
        message: "no answer".into(),
        is_unavailable: true,
        retry_after: None,
    })
}

fn failed(failure: WriteFailure) -> Executed {
    Executed {
        failure: Some(failure),
        ..Executed::default()
    }
}

fn nothing(_: &Request, _: &mut Reader) -> Result<Outcome, RunError> {
    Ok(Outcome::default())
}

fn app_is(value: &str) -> ListFilter {
    ListFilter::Labels(LabelSelector {
        requirements: vec![Requirement::Equals("app".into(), value.into())],
    })
}

/// Lists the pods whose `app` label is the key's name.
fn lists_pods(request: &Request, reader: &mut Reader) -> Result<Outcome, RunError> {
    reader
        .list(
            &pod(),
            Some(&request.key.object.namespace),
            &app_is(&request.key.object.name),
        )
        .unwrap();
    Ok(Outcome::default())
}

const NONE: Vec<String> = vec![];

#[test]
fn every_object_of_the_subject_gets_a_first_run() {
    let mut rig = Rig::with(manifest("p"), nothing);
    rig.put(&service(), "a", "");
    rig.put(&service(), "b", "");
    rig.put(&pod(), "c", "");
    assert_eq!(rig.run(), ["a", "b"]);
    assert_eq!(rig.run(), NONE);
}

#[test]
fn nothing_runs_before_every_kind_is_synced() {
    let mut rig = Rig::default();
    rig.join(manifest("p"), nothing);
    rig.sync(&service());
    rig.put(&service(), "a", "");
    assert_eq!(rig.run(), NONE);
    rig.sync(&pod());
    assert_eq!(rig.run(), ["a"]);
}

#[test]
fn a_plugin_that_joins_late_gets_what_is_already_cached() {
    let mut rig = Rig::with(manifest("p"), nothing);
    rig.put(&service(), "a", "");
    rig.run();
    rig.join(manifest("q"), nothing);
    assert_eq!(rig.run(), ["a"]);
}

#[test]
fn what_a_key_read_wakes_it_and_nothing_else_does() {
    let mut rig = Rig::with(manifest("p"), lists_pods);
    rig.put(&service(), "web", "");
    rig.put(&service(), "db", "");
    rig.run();
    rig.put(&pod(), "x", r#""app":"web""#);
    assert_eq!(rig.run(), ["web"]);
    rig.put(&pod(), "x", r#""app":"db""#);
    assert_eq!(
        rig.run(),
        ["db", "web"],
        "the pod left one list and entered the other"
    );
    rig.remove(&pod(), "x");
    assert_eq!(rig.run(), ["db"]);
}

#[test]
fn a_read_of_the_keys_own_object_wakes_it_and_takes_no_memory() {
    let mut labelled = manifest("p");
    labelled.reconciles = vec![Selection {
        labels: LabelSelector {
            requirements: vec![Requirement::Equals("app".into(), "web".into())],
        },
        ..selection()
    }];
    let mut rig = Rig::with(labelled, |request, reader| {
        reader.get(&service(), &request.key.object).unwrap();
        let other = ObjectKey::new(&request.key.object.namespace, "other");
        if *request.key.object.name == *"curious" {
            reader.get(&service(), &other).unwrap();
        }
        Ok(Outcome::default())
    });
    let recorded = |rig: &Rig| rig.hub.status(rig.now)[0].keys.recorded_reads;
    rig.put(&service(), "a", r#""app":"web""#);
    assert_eq!((rig.run(), recorded(&rig)), (vec!["a".into()], 0));
    rig.put(&service(), "a", r#""app":"web","more":"yes""#);
    assert_eq!(rig.run(), ["a"], "it changed");
    rig.put(&service(), "a", "");
    assert_eq!(rig.run(), ["a (gone)"], "it left");
    rig.put(&service(), "a", r#""more":"yes""#);
    assert_eq!(rig.run(), NONE, "its answer is none before and after");
    rig.put(&service(), "a", r#""app":"web""#);
    assert_eq!(rig.run(), ["a"], "it came back");
    rig.put(&service(), "curious", r#""app":"web""#);
    assert_eq!((rig.run(), recorded(&rig)), (vec!["curious".into()], 1));
    rig.put(&service(), "other", "");
    assert_eq!(rig.run(), ["curious"], "another's object is recorded");
}

#[test]
fn a_change_that_lands_while_a_key_runs_counts() {
    let mut rig = Rig::with(manifest("p"), lists_pods);
    rig.put(&service(), "web", "");
    let reconcile = rig.take().unwrap();
    let ran = reconcile.run();
    rig.put(&pod(), "x", r#""app":"web""#);
    rig.put(&pod(), "y", r#""app":"other""#);
    rig.finish(ran);
    assert_eq!(rig.run(), ["web"], "its snapshot did not show the pod");
    assert_eq!(rig.run(), NONE);
}

#[test]
fn an_unrelated_change_while_a_key_runs_does_not() {
    let mut rig = Rig::with(manifest("p"), lists_pods);
    rig.put(&service(), "web", "");
    let reconcile = rig.take().unwrap();
    let ran = reconcile.run();
    rig.put(&pod(), "y", r#""app":"other""#);
    rig.finish(ran);
    assert_eq!(rig.run(), NONE);
    assert!(
        matches!(rig.hub.changelog.close(0), Missed::TooMuch),
        "nothing runs, nothing is remembered"
    );
}

#[test]
fn a_failed_run_keeps_the_reads_of_the_one_before() {
    let is_broken = Arc::new(Mutex::new(false));
    let switch = is_broken.clone();
    let mut rig = Rig::with(manifest("p"), move |request, reader| {
        if *switch.lock().unwrap() {
            return Err(Failure::Terminal("broken".into()).into());
        }
        lists_pods(request, reader)
    });
    rig.put(&service(), "web", "");
    rig.run();
    *is_broken.lock().unwrap() = true;
    rig.put(&service(), "web", r#""touched":"yes""#);
    rig.run();
    rig.put(&pod(), "x", r#""app":"web""#);
    assert_eq!(rig.run(), ["web"]);
    assert_eq!(rig.hub.status(rig.now)[0].reconciles.terminal, 2);
}

#[test]
fn a_failure_is_retried_with_back_off_and_a_terminal_one_is_not() {
    let mut rig = Rig::with(manifest("p"), |request, _| {
        match &*request.key.object.name {
            "retry" => Err(Failure::Retry("not yet".into()).into()),
            _ => Err(Failure::Terminal("never".into()).into()),
        }
    });
    rig.put(&service(), "retry", "");
    rig.put(&service(), "terminal", "");
    assert_eq!(rig.run(), ["retry", "terminal"]);
    assert_eq!(rig.run(), NONE);
    rig.now += Duration::from_millis(5);
    assert_eq!(rig.run(), ["retry"]);
    rig.now += Duration::from_millis(9);
    assert_eq!(rig.run(), NONE);
    rig.now += Duration::from_millis(1);
    assert_eq!(rig.take().unwrap().held.request.attempt, 3);
    assert_eq!(rig.hub.status(rig.now)[0].keys.failing, 2);
}

#[test]
fn a_key_asks_to_be_run_again_after_a_time() {
    let mut rig = Rig::with(manifest("p"), |_, _| {
        Ok(Outcome {
            follow_up: NextRun::After(Duration::from_secs(30)).into(),
            ..Outcome::default()
        })
    });
    rig.put(&service(), "a", "");
    rig.run();
    assert!(
        matches!(rig.hub.next(rig.now, 0), Next::Idle(Some(at)) if at == Duration::from_secs(30))
    );
    rig.now += Duration::from_secs(30);
    assert_eq!(rig.run(), ["a"]);
}

#[test]
fn a_key_that_keeps_asking_to_be_run_at_once_is_run_once_a_second() {
    let mut rig = Rig::with(manifest("p"), |request, _| {
        let soon = Duration::from_millis(1);
        Ok(Outcome {
            follow_up: match &*request.key.object.name {
                "hasty" => NextRun::After(soon).into(),
                _ => FollowUp::default(),
            },
            ..Outcome::default()
        })
    });
    rig.put(&service(), "hasty", "");
    rig.put(&service(), "calm", "");
    rig.run();
    let mut waits = vec![];
    for _ in 0..12 {
        let Next::Idle(Some(due)) = rig.hub.next(rig.now, 0) else {
            panic!("it is queued");
        };
        waits.push((due - rig.now).as_millis());
        rig.now = due;
        assert_eq!(rig.run(), ["hasty"]);
    }
    assert_eq!(
        waits,
        [5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000, 1000, 1000]
    );
    rig.put(&service(), "hasty", r#""changed":"yes""#);
    assert_eq!(rig.run(), ["hasty"], "a change is no hurry");
}

#[test]
fn a_key_whose_object_is_gone_is_woken_by_what_it_read() {
    let mut rig = Rig::with(manifest("p"), lists_pods);
    rig.put(&pod(), "x", r#""app":"web""#);
    rig.put(&service(), "web", "");
    rig.run();
    rig.remove(&service(), "web");
    assert_eq!(rig.run(), ["web (gone)"], "it sees a pod");
    rig.remove(&pod(), "x");
    assert_eq!(rig.run(), ["web (gone)"], "and is told that it has gone");
    rig.put(&pod(), "late", r#""app":"web""#);
    assert_eq!(rig.run(), ["web (gone)"], "and what came late");
    rig.put(&service(), "web", "");
    assert_eq!(rig.run(), ["web"]);
}

#[test]
fn keys_whose_objects_are_gone_are_forgotten_once_their_reads_have_no_answer() {
    let mut rig = Rig::with(manifest("p"), lists_pods);
    rig.put(&pod(), "x", r#""app":"kept""#);
    for name in (0..5_000)
        .map(|number| format!("s{number}"))
        .chain(["kept".into()])
    {
        rig.put(&service(), &name, "");
        rig.run();
        rig.remove(&service(), &name);
        rig.run();
        // Nothing older can come for the pods either.
        let bookmark = Delta::Bookmark(ResourceVersion::new(&rig.version.to_string()));
        let id = rig.id(&pod());
        rig.hub.apply(id, bookmark, rig.now);
    }
    let recorded = rig.hub.status(rig.now)[0].keys.recorded_reads;
    assert!(
        recorded <= 2_050,
        "{recorded} reads of objects that are gone"
    );
    rig.remove(&pod(), "x");
    assert_eq!(rig.run(), ["kept (gone)"]);
}

#[test]
fn keys_whose_objects_went_long_ago_do_not_pile_up_whatever_they_read() {
    let mut rig = Rig::with(manifest("p"), |_, reader| {
        let settings = ObjectKey::new("default", "settings");
        reader.get(&pod(), &settings).unwrap();
        Ok(Outcome::default())
    });
    rig.put(&pod(), "settings", "");
    for number in 0..5_000 {
        let name = format!("s{number}");
        rig.put(&service(), &name, "");
        rig.run();
        rig.remove(&service(), &name);
        rig.run();
        rig.now += Duration::from_secs(10);
        if number == 1_000 {
            rig.put(&pod(), "settings", r#""changed":"yes""#);
            assert_eq!(rig.run().len(), 1_001, "all of them are told");
        }
    }
    let recorded = rig.hub.status(rig.now)[0].keys.recorded_reads;
    assert!((1_000..=1_500).contains(&recorded), "{recorded}");
}

#[test]
fn keys_whose_objects_are_gone_are_looked_at_a_few_at_a_time() {
    let mut rig = Rig::with(manifest("p"), lists_pods);
    let mut before = 0;
    for number in 0..1_500 {
        let name = format!("s{number}");
        rig.put(&service(), &name, "");
        rig.run();
        rig.remove(&service(), &name);
        rig.run();
        let bookmark = Delta::Bookmark(ResourceVersion::new(&rig.version.to_string()));
        let id = rig.id(&pod());
        rig.hub.apply(id, bookmark, rig.now);
        let recorded = rig.hub.status(rig.now)[0].keys.recorded_reads;
        assert!(
            recorded + 2 > before,
            "{} keys are looked at while everybody waits",
            before - recorded
        );
        before = recorded;
    }
    assert!((900..=1_100).contains(&before), "{before}");
}

#[test]
fn a_key_whose_object_came_back_keeps_its_reads_though_it_fails() {
    let mut rig = Rig::with(manifest("p"), |request, reader| {
        let is_there = reader
            .get(&service(), &request.key.object)
            .unwrap()
            .is_some();
        lists_pods(request, reader)?;
        match is_there {
            true => Err(Failure::Terminal("there are no pods".into()).into()),
            false => Ok(Outcome::default()),
        }
    });
    rig.put(&service(), "back", "");
    rig.run();
    rig.remove(&service(), "back");
    assert_eq!(rig.run(), ["back (gone)"]);
    rig.put(&service(), "back", "");
    assert_eq!(rig.run(), ["back"]);
    for number in 0..3_000 {
        let name = format!("s{number}");
        rig.put(&service(), &name, "");
        rig.run();
        rig.remove(&service(), &name);
        rig.run();
        let bookmark = Delta::Bookmark(ResourceVersion::new(&rig.version.to_string()));
        let id = rig.id(&pod());
        rig.hub.apply(id, bookmark, rig.now);
    }
    rig.now += Duration::from_secs(60);
    rig.put(&pod(), "x", r#""app":"back""#);
    assert_eq!(rig.run(), ["back"]);
}

#[test]
fn a_key_whose_object_left_the_selection_is_woken_by_what_it_reads_of_it() {
    let mut selected = manifest("p");
    let labels = LabelSelector {
        requirements: vec![Requirement::Exists("watched".into())],
    };
    selected.reconciles = vec![Selection {
        labels,
        ..selection()
    }];
    let object = r#"{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"default","name":"a","finalizers":null}}"#;
    selected.writes = vec![WriteDeclaration {
        kind: service(),
        subresource: None,
        verbs: vec![Verb::Update],
        children: false,
    }];
    let mut rig = Rig::with(selected, move |_, _| {
        let update = Action::Update {
            object: object.into(),
            subresource: None,
        };
        Ok(Outcome::of(vec![update]))
    });
    rig.put(&service(), "a", r#""watched":"yes""#);
    rig.run();
    rig.put(&service(), "a", r#""other":"1""#);
    assert_eq!(rig.run(), ["a (gone)"]);
    rig.put(&service(), "a", r#""other":"2""#);
    assert_eq!(rig.run(), ["a (gone)"], "its update is of the object");
}

#[test]
fn a_companion_of_an_object_that_was_not_selected_queues_its_key_when_that_goes() {
    let mut with_companion = manifest("p");
    let labels = LabelSelector {
        requirements: vec![Requirement::Exists("watched".into())],
    };
    with_companion.reconciles = vec![Selection {
        labels,
        companions: vec![pod()],
        ..selection()
    }];
    let mut rig = Rig::with(with_companion, nothing);
    rig.put(&service(), "other", "");
    rig.put(&pod(), "other", "");
    assert_eq!(rig.run(), NONE);
    rig.remove(&service(), "other");
    assert_eq!(rig.run(), ["other (gone)"], "as after a start");
}

#[test]
fn what_became_of_the_last_outcome_is_told_until_there_is_another() {
    let breaks = Arc::new(Mutex::new(false));
    let is_broken = breaks.clone();
    let mut rig = Rig::with(manifest("p"), move |_, _| {
        if *is_broken.lock().unwrap() {
            return Err(RunError::Trap("unreachable".into()));
        }
        Ok(Outcome::default())
    });
    rig.put(&service(), "a", "");
    let reconcile = rig.take().unwrap();
    let writing = rig.ran(reconcile);
    let executed = Executed {
        effects: vec![effect(ActionResult::Unchanged)],
        ..Executed::default()
    };
    rig.end(writing, executed);
    *breaks.lock().unwrap() = true;
    rig.put(&service(), "a", r#""touched":"yes""#);
    assert_eq!(rig.run(), ["a"]);
    rig.now += Duration::from_secs(1);
    let reconcile = rig.take().unwrap();
    assert_eq!(
        reconcile.held.request.previous,
        [effect(ActionResult::Unchanged)]
    );
}

#[test]
fn an_object_that_leaves_the_selection_is_gone_for_its_own_reconcile() {
    let mut selected = manifest("p");
    let labels = LabelSelector {
        requirements: vec![Requirement::Exists("watched".into())],
    };
    selected.reconciles = vec![Selection {
        labels,
        ..selection()
    }];
    let mut rig = Rig::with(selected, |request, reader| {
        let is_seen = reader
            .get(&service(), &request.key.object)
            .unwrap()
            .is_some();
        if is_seen {
            Ok(Outcome::default())
        } else {
            Err(Failure::Terminal("gone".into()).into())
        }
    });
    rig.put(&service(), "a", "");
    assert_eq!(rig.run(), NONE, "it was never selected");
    rig.put(&service(), "a", r#""watched":"yes""#);
    assert_eq!(rig.run(), ["a"]);
    assert_eq!(rig.hub.status(rig.now)[0].reconciles.terminal, 0);
    rig.put(&service(), "a", "");
    assert_eq!(rig.run(), ["a (gone)"]);
    assert_eq!(rig.hub.status(rig.now)[0].reconciles.terminal, 1);
}

#[test]
fn a_companion_queues_the_key_of_a_subject_that_is_gone() {
    let mut with_companion = manifest("p");
    let labels = LabelSelector {
        requirements: vec![Requirement::Exists("watched".into())],
    };
    with_companion.reconciles = vec![Selection {
        labels,
        companions: vec![pod()],
        ..selection()
    }];
    let mut rig = Rig::with(with_companion, nothing);
    rig.put(&pod(), "left", "");
    assert_eq!(rig.run(), ["left (gone)"]);
    rig.put(&service(), "other", "");
    rig.put(&pod(), "other", "");
    assert_eq!(rig.run(), NONE, "its subject is there, and not selected");
}

#[test]
fn a_singleton_runs_once_and_when_what_it_read_changes() {
    let mut singleton = manifest("p");
    singleton.reconciles = vec![];
    let mut rig = Rig::with(singleton, |_, reader| {
        reader.list(&pod(), None, &ListFilter::Everything).unwrap();
        Ok(Outcome::default())
    });
    assert_eq!(rig.run(), [""]);
    rig.put(&service(), "a", "");
    assert_eq!(rig.run(), NONE);
    rig.put(&pod(), "x", "");
    assert_eq!(rig.run(), [""]);
}

/// What became of an apply of the pod `x`.
fn effect(result: ActionResult) -> Effect {
    Effect {
        kind: pod(),
        key: ObjectKey::new("default", "x"),
        verb: EffectVerb::Apply,
        result,
    }
}

#[test]
fn what_became_of_the_writes_reaches_the_keys_next_run() {
    let mut rig = Rig::with(manifest("p"), nothing);
    rig.put(&service(), "a", "");
    let reconcile = rig.take().unwrap();
    let writing = rig.ran(reconcile);
    let conflict = vec![effect(ActionResult::Conflict("owned by kubectl".into()))];
    let executed = Executed {
        effects: conflict.clone(),
        ..refused()
    };
    rig.end(writing, executed);
    rig.now += Duration::from_millis(5);
    let reconcile = rig.take().unwrap();
    assert_eq!(
        (
            reconcile.held.request.previous,
            reconcile.held.request.attempt
        ),
        (conflict, 2)
    );
}

#[test]
fn an_outcome_that_asks_for_a_retry_is_written_and_its_key_retried_as_after_a_failure() {
    let mut rig = Rig::with(manifest("p"), |_, _| {
        let object =
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"x"}}"#;
        let apply = Action::Apply {
            object: object.into(),
            subresource: None,
            force: false,
        };
        Ok(Outcome {
            follow_up: NextRun::Retry("no quota".into()).into(),
            ..Outcome::of(vec![apply])
        })
    });
    rig.put(&service(), "a", "");
    for attempt in 1..=3 {
        let reconcile = rig.take().unwrap();
        assert_eq!(reconcile.held.request.attempt, attempt);
        let told = (attempt > 1).then(|| effect(ActionResult::Done(Some("1".into()))));
        assert!(reconcile.held.request.previous.iter().eq(&told));
        let writing = rig.ran(reconcile);
        let executed = Executed {
            effects: vec![effect(ActionResult::Done(Some("1".into())))],
            ..Executed::default()
        };
        rig.end(writing, executed);
        let status = &rig.hub.status(rig.now)[0];
        assert_eq!(
            (status.keys.failing, status.reconciles.error),
            (1, attempt.into())
        );
        let last = status.last_error.as_ref().map(|error| &*error.message);
        assert_eq!(last, Some("no quota"));
        assert!(rig.take().is_none(), "it waits");
        rig.now += Duration::from_millis(5 << (attempt - 1));
    }
    let reconcile = rig.take().unwrap();
    let writing = rig.ran(reconcile);
    rig.end(writing, refused());
    let status = &rig.hub.status(rig.now)[0];
    let last = status.last_error.as_ref().map(|error| &*error.message);
    assert_ne!(last, Some("no quota"), "a failure of the writes wins");
}

#[test]
fn a_key_that_asks_for_a_retry_waits_until_the_caches_show_what_it_has_written() {
    let mut rig = Rig::with(manifest("p"), |_, _| {
        Ok(Outcome {
            follow_up: NextRun::Retry("no quota".into()).into(),
            ..Outcome::default()
        })
    });
    rig.put(&service(), "a", "");
    let reconcile = rig.take().unwrap();
    let writing = rig.ran(reconcile);
    let accepted = AcceptedWrite {
        kind: service(),
        key: ObjectKey::new("default", "a"),
        trace: Trace::Version(ResourceVersion::new("1000")),
    };
    let executed = Executed {
        accepted: vec![accepted],
        ..Executed::default()
    };
    rig.end(writing, executed);
    rig.now += Duration::from_millis(5);
    assert!(rig.take().is_none(), "the caches do not show it yet");
}

#[test]
fn what_the_server_answers_to_a_write_decides_how_its_reconcile_ends() {
    let mut rig = versions::applies_blindly();
    rig.put(&service(), "web", "");
    let conflict = ActionResult::Conflict("owned by kubectl".into());
    for (attempt, answer) in [(1, conflict.clone()), (2, ActionResult::Done(None))] {
        let reconcile = rig.take().unwrap();
        assert_eq!(reconcile.held.request.attempt, attempt);
        let previous = (attempt == 2).then(|| effect(conflict.clone()));
        assert!(reconcile.held.request.previous.iter().eq(&previous));
        let ControlFlow::Continue((mut begun, sending)) = rig.ran(reconcile).advance() else {
            panic!("it applies a pod");
        };
        let pending = begun.remove(0);
        assert_eq!(&*pending.write().key.name, "x");
        assert_eq!(pending.author().field_manager, "pilothouse.dev/p");
        let writing = sending.answered(pending, answer.clone().into());
        let ControlFlow::Break(finished) = writing.advance() else {
            panic!("it writes nothing else");
        };
        assert_eq!(finished.executed().effects, [effect(answer)]);
        let error = finished.error().map(ToString::to_string);
        let expected = (attempt == 1).then(|| "action 1: owned by kubectl".to_owned());
        assert_eq!(error, expected);
        rig.hub.finished(finished, rig.now);
        rig.now += Duration::from_secs(1);
    }
    assert_eq!(rig.run(), NONE, "it has succeeded");
}

#[test]
fn a_key_is_held_until_its_writes_have_ended() {
    let mut rig = Rig::with(manifest("p"), nothing);
    rig.put(&service(), "a", "");
    let reconcile = rig.take().unwrap();
    let writing = rig.ran(reconcile);
    rig.put(&service(), "a", r#""touched":"yes""#);
    assert!(rig.take().is_none());
    rig.end(writing, Executed::default());
    assert_eq!(rig.run(), ["a"]);
}

#[test]
fn an_outcome_with_a_write_that_was_not_asked_for_is_refused_whole() {
    let object = |kind: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"{kind}","metadata":{{"namespace":"default","name":"a"}}}}"#
        )
    };
    let mut rig = Rig::with(manifest("p"), move |_, _| {
        let apply = |object| Action::Apply {
            object,
            subresource: None,
            force: false,
        };
        Ok(Outcome::of(vec![
            apply(object("Pod")),
            apply(object("Secret")),
        ]))
    });
    rig.put(&service(), "a", "");
    let ran = rig.take().unwrap().run();
    let error = ran.result.unwrap_err().to_string();
    assert_eq!(
        error,
        "outcome refused: action 2 (apply): denied: apply of v1/Secret is not among the manifest's writes"
    );
}

#[test]
fn turns_are_shared_between_plugins_however_long_a_queue_is() {
    let mut rig = Rig::with(manifest("busy"), nothing);
    rig.join(manifest("calm"), nothing);
    (0..100).for_each(|i| rig.put(&service(), &format!("s{i}"), ""));
    let plugins: Vec<String> = (0..6)
        .filter_map(|_| {
            let reconcile = rig.take()?;
            let plugin = reconcile.held.plugin_name().to_owned();
            rig.finish(reconcile.run());
            Some(plugin)
        })
        .collect();
    assert_eq!(plugins, ["busy", "calm", "busy", "calm", "busy", "calm"]);
}

#[test]
fn no_more_keys_run_at_once_than_the_plugin_was_granted() {
    let mut rig = Rig::default();
    let plugin = Fake {
        manifest: manifest("p"),
        behaviour: Box::new(nothing),
    };
    let settings = ControllerSettings {
        concurrency: 2,
        ..ControllerSettings::default()
    };
    rig.hub.join(Arc::new(plugin), &settings, rig.now).unwrap();
    rig.sync(&service());
    rig.sync(&pod());
    (0..3).for_each(|i| rig.put(&service(), &format!("s{i}"), ""));
    let reconciles = [rig.take(), rig.take(), rig.take()];
    assert_eq!(reconciles.iter().flatten().count(), 2);
}

#[test]
fn two_plugins_of_one_name_are_refused() {
    let mut rig = Rig::with(manifest("p"), nothing);
    let twin = Fake {
        manifest: manifest("p"),
        behaviour: Box::new(nothing),
    };
    let error = rig
        .hub
        .join(Arc::new(twin), &ControllerSettings::default(), rig.now);
    assert_eq!(error, Err(JoinError::DuplicateName("p".into())));
}

#[test]
fn a_drained_hub_has_finished_what_it_had() {
    let mut rig = Rig::with(manifest("p"), nothing);
    rig.put(&service(), "a", "");
    rig.hub.drain();
    rig.put(&service(), "late", "");
    assert!(!rig.hub.is_drained(rig.now));
    assert_eq!(rig.run(), ["a"]);
    assert!(rig.hub.is_drained(rig.now));
}

#[test]
fn a_plugin_that_was_idle_has_no_claim_on_the_turns_it_did_not_need() {
    let mut rig = Rig::with(manifest("busy"), nothing);
    (0..100).for_each(|i| rig.put(&service(), &format!("s{i}"), ""));
    rig.run();
    rig.join(manifest("calm"), nothing);
    rig.run();
    (0..50).for_each(|i| rig.put(&pod(), &format!("p{i}"), ""));
    (0..10).for_each(|i| rig.put(&service(), &format!("s{i}"), r#""touched":"yes""#));
    let plugins: Vec<String> = (0..10)
        .filter_map(|_| {
            let reconcile = rig.take()?;
            let plugin = reconcile.held.plugin_name().to_owned();
            rig.finish(reconcile.run());
            Some(plugin)
        })
        .collect();
    let busy = plugins.iter().filter(|name| *name == "busy").count();
    assert!((4..=6).contains(&busy), "{plugins:?}");
}

#[test]
fn a_companion_is_not_taken_for_left_behind_before_the_subjects_are_listed() {
    let mut with_companion = manifest("p");
    let labels = LabelSelector {
        requirements: vec![Requirement::Exists("watched".into())],
    };
    with_companion.reconciles = vec![Selection {
        labels,
        companions: vec![pod()],
        ..selection()
    }];
    let mut rig = Rig::default();
    rig.join(with_companion, nothing);
    rig.sync(&pod());
    rig.put(&pod(), "others", "");
    rig.put(&pod(), "left", "");
    rig.put(&service(), "others", "");
    rig.sync_with(&service(), "others");
    assert_eq!(
        rig.run(),
        ["left (gone)"],
        "the other's subject is there, and not selected"
    );
}

#[test]
fn what_an_action_is_on_counts_as_read() {
    let object =
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"made"}}"#;
    let mut rig = Rig::with(manifest("p"), move |_, _| {
        let apply = Action::Apply {
            object: object.into(),
            subresource: None,
            force: false,
        };
        Ok(Outcome::of(vec![apply]))
    });
    rig.put(&service(), "a", "");
    rig.run();
    rig.put(&pod(), "made", "");
    rig.run();
    rig.remove(&pod(), "made");
    assert_eq!(rig.run(), ["a"], "somebody deleted what it keeps");
}

#[test]
fn a_child_leads_back_to_its_key() {
    let mut keeps = manifest("p");
    let verbs = vec![Verb::Apply, Verb::Delete];
    keeps.writes = vec![WriteDeclaration {
        kind: pod(),
        subresource: None,
        verbs,
        children: true,
    }];
    let mut rig = Rig::with(keeps, nothing);
    let child = |owner: &str, version: u64| {
        let metadata = format!(
            r#""namespace":"default","name":"child","uid":"c","resourceVersion":"{version}","labels":{{"{}":"{}"}},"annotations":{{"{}":"{owner}"}}"#,
            children::LABEL,
            children::label("p", &key_of("a")),
            children::ANNOTATION
        );
        format!("{{\"metadata\":{{{metadata}}}}}")
    };
    for (owner, woken) in [
        ("q default/a", NONE),
        ("p default/a", vec!["a (gone)".to_owned()]),
    ] {
        let id = rig.id(&pod());
        rig.version += 1;
        let child = child(owner, rig.version);
        let object = Object::parse(&pod(), &child, &rig.hub.schema(id)).unwrap();
        rig.hub.apply(id, Delta::Upsert(object), rig.now);
        assert_eq!(rig.run(), woken, "{owner}");
        rig.remove(&pod(), "child");
        rig.run();
    }
}

#[test]
fn a_reconcile_cannot_be_made_to_remember_without_end() {
    let mut rig = Rig::with(manifest("p"), |_, reader| {
        let last = (0..=crate::reads::error::MAX_READS)
            .map(|number| {
                reader
                    .get(&pod(), &ObjectKey::new("default", &format!("p{number}")))
                    .map(drop)
            })
            .find(Result::is_err);
        assert_eq!(last, Some(Err(crate::reads::error::ReadError::TooMany)));
        let long = "x".repeat(1 << 20);
        assert_eq!(
            reader.get(&pod(), &ObjectKey::new("default", &long)),
            Ok(None),
            "no object has such a name"
        );
        Err(Failure::Terminal("too many".into()).into())
    });
    rig.put(&service(), "a", "");
    rig.run();
    assert!(rig.hub.status(rig.now)[0].keys.recorded_reads <= crate::reads::error::MAX_READS);
}
