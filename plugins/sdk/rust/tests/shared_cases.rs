//! What the fake cluster does with random changes and outcomes, as data that the Python SDK's is
//! held to: `plugins/sdk/cases/fake_cluster.json`. This test fails when the fake cluster does
//! otherwise.

use std::path::Path;
use std::time::Duration;

use pilothouse_sdk::testing::{Failing, FakeCluster, WriteError, to_json};
use pilothouse_sdk::{
    Action, ActionResult, Apply, Children, Create, Delete, Effect, EffectVerb, Event, Finalizer,
    Manifest, ObjectRef, Outcome, Patch, Update, Verb,
};
use serde_json::{Map, Value, json};

const SITES: &str = "example.com/v1/Site";

const CASES: usize = 40;

const VERBS: [Verb; 5] = [
    Verb::Apply,
    Verb::Create,
    Verb::Update,
    Verb::Patch,
    Verb::Delete,
];

/// A pseudo-random sequence (splitmix64) that is the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let end = u64::try_from(end).expect("a small number");
        usize::try_from((mixed ^ (mixed >> 31)) % end).expect("a small number")
    }

    fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }

    fn key(&mut self) -> ObjectRef {
        let name = self.of(&["a", "b", "c"]);
        ObjectRef::new(SITES, "default", name)
    }

    /// Some members, with values of which few are different.
    fn members(&mut self) -> Value {
        let mut members = Map::new();
        for name in ["x", "y", "z"] {
            if !self.one_in(3) {
                let values = [
                    json!(1),
                    json!(2),
                    json!([1]),
                    json!({}),
                    json!({"k": 1, "l": 2}),
                ];
                members.insert(name.to_owned(), self.of(&values));
            }
        }
        members.into()
    }

    /// A Site with some members.
    fn site(&mut self, key: &ObjectRef) -> Value {
        let mut site = json!({
            "apiVersion": "example.com/v1", "kind": "Site", "spec": self.members(),
            "metadata": {"namespace": key.namespace, "name": key.name},
        });
        if self.one_in(3) {
            site["metadata"]["labels"] = json!({"l": self.of(&["1", "2"])});
        }
        site
    }

    fn action(&mut self) -> Action {
        let key = self.key();
        let site = self.site(&key);
        let valid = "JSON is JSON";
        match self.below(9) {
            0..3 => {
                let apply = Apply::new(&site).expect(valid);
                if self.one_in(3) { apply.force() } else { apply }.into()
            }
            3 => Apply::status(&key, &self.members()).expect(valid).into(),
            4 => Create::new(&site).expect(valid).into(),
            5 => Update::new(&site).expect(valid).into(),
            6 => {
                let body = json!({"spec": self.members()});
                Patch::merge(&key, &body).expect(valid).into()
            }
            7 if self.one_in(3) => Event::normal(&key, "Made", "Make", "it").into(),
            7 => Delete::new(&key).into(),
            _ => {
                let make = self.of(&[Finalizer::add, Finalizer::remove]);
                make(&key, "example.com/f").into()
            }
        }
    }

    /// Some of the Sites as children, of which there may be others before.
    fn children(&mut self) -> Children {
        let mut children = Children::none();
        for name in ["a", "b", "c", "d"] {
            if self.one_in(2) {
                let site = self.site(&ObjectRef::new(SITES, "default", name));
                children = children.and(&site).expect("JSON is JSON");
            }
        }
        children
    }

    fn outcome(&mut self) -> Outcome {
        let mut outcome = Outcome::done();
        for stage in 0..=self.below(3) {
            if stage > 0 {
                outcome = if self.one_in(2) {
                    outcome.always()
                } else {
                    outcome.stage()
                };
            }
            for _ in 0..=self.below(4) {
                outcome = outcome.with(self.action());
            }
            // An outcome has at most one such action.
            if stage == 0 && self.one_in(3) {
                outcome = outcome.with(self.children());
            }
        }
        outcome
    }
}

fn cluster() -> FakeCluster {
    let manifest = Manifest::singleton("p", "1.0.0")
        .reads_whole(SITES)
        .writes(SITES, VERBS)
        .keeps_children(SITES)
        .writes_subresource(SITES, "status", [Verb::Apply]);
    FakeCluster::new(manifest)
}

/// The objects by their names, as they are stored, but for what all have in common and their
/// versions, of which the two fakes may skip some.
fn objects(cluster: &FakeCluster) -> Value {
    let shown = ["a", "b", "c", "d"].into_iter().filter_map(|name| {
        let mut object = cluster
            .object(&ObjectRef::new(SITES, "default", name))?
            .clone();
        let members = object.as_object_mut()?;
        members.retain(|name, _| !["apiVersion", "kind"].contains(&name.as_str()));
        let metadata = members.get_mut("metadata")?.as_object_mut()?;
        let common = ["namespace", "name", "creationTimestamp", "resourceVersion"];
        metadata.retain(|name, _| !common.contains(&name.as_str()));
        Some((name.to_owned(), object))
    });
    Value::Object(shown.collect())
}

fn verb(verb: EffectVerb) -> &'static str {
    match verb {
        EffectVerb::Apply => "apply",
        EffectVerb::Create => "create",
        EffectVerb::Update => "update",
        EffectVerb::Patch => "patch",
        EffectVerb::Delete => "delete",
        EffectVerb::DeleteAll => "delete-all",
        EffectVerb::Event => "event",
        EffectVerb::Finalizer => "finalizer",
        EffectVerb::Call => "call",
    }
}

fn result(result: &ActionResult) -> &'static str {
    match result {
        ActionResult::Done(_) => "done",
        ActionResult::Unchanged => "unchanged",
        ActionResult::Skipped => "skipped",
        ActionResult::Conflict(_) => "conflict",
        ActionResult::AlreadyExists(_) => "already-exists",
        ActionResult::NotFound(_) => "not-found",
        ActionResult::Forbidden(_) => "forbidden",
        ActionResult::Invalid(_) => "invalid",
        ActionResult::Failed(_) => "failed",
        ActionResult::Answered(_) => "answered",
    }
}

fn effects(effects: &[Effect]) -> Value {
    let shown = effects.iter().map(|effect| {
        let name = &effect.object.name;
        json!([verb(effect.verb), name, result(&effect.outcome)])
    });
    shown.collect()
}

/// Lets a write fail, and says how the Python SDK says it.
fn fail(random: &mut Random, cluster: FakeCluster) -> (FakeCluster, Value) {
    let (verb, named) = random.of(&[
        (Verb::Apply, "apply"),
        (Verb::Create, "create"),
        (Verb::Patch, "patch"),
        (Verb::Delete, "delete"),
    ]);
    let (error, said) = random.of(&[
        (WriteError::Forbidden, "forbidden"),
        (WriteError::Conflict, "conflict"),
        (WriteError::ServerError, "server-error"),
        (WriteError::NoAnswer, "no-answer"),
        (WriteError::AnswerLost, "answer-lost"),
        (
            WriteError::TooManyRequests(Duration::from_secs(1)),
            "too-many-requests",
        ),
    ]);
    let (after, times) = (random.below(2), 1 + random.below(2));
    let failing = Failing::next(verb, SITES, error).after(after).times(times);
    let said = json!({"verb": named, "error": said, "after": after, "times": times});
    (cluster.failing(failing), said)
}

fn step(random: &mut Random, mut cluster: FakeCluster) -> (FakeCluster, Value) {
    match random.below(8) {
        0..2 => {
            let key = random.key();
            let mut site = random.site(&key);
            if random.one_in(3) {
                site["metadata"]["finalizers"] = json!(["example.com/g"]);
            }
            (cluster.with(&site), json!({"add": site}))
        }
        2 => {
            let key = random.key();
            cluster.delete(&key);
            (cluster, json!({"delete": key.name}))
        }
        3 => {
            let (cluster, said) = fail(random, cluster);
            (cluster, json!({"fail": said}))
        }
        _ => {
            let outcome = random.outcome();
            let stages = outcome.stages.iter().map(|stage| {
                let actions: Vec<Value> = stage.actions.iter().map(to_json).collect();
                json!({"always": stage.always, "actions": actions})
            });
            let stages: Vec<Value> = stages.collect();
            let done = effects(&cluster.apply("", "", &outcome));
            let objects = objects(&cluster);
            let said = json!({"outcome": stages, "effects": done, "objects": objects});
            (cluster, said)
        }
    }
}

fn case(seed: usize) -> Vec<Value> {
    let mut random = Random(u64::try_from(seed).expect("a small number"));
    let mut cluster = cluster();
    let mut steps = Vec::new();
    for _ in 0..7 {
        let (next, said) = step(&mut random, cluster);
        cluster = next;
        steps.push(said);
    }
    steps
}

#[test]
fn the_fake_cluster_does_what_the_shared_cases_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cases/fake_cluster.json");
    let cases: Vec<Vec<Value>> = (0..CASES).map(case).collect();
    if std::env::var_os("UPDATE_CASES").is_some() {
        let lines: Vec<String> = cases.iter().map(|case| json!(case).to_string()).collect();
        let text = format!("[\n{}\n]\n", lines.join(",\n"));
        std::fs::write(&path, text).expect("the file can be written");
    }
    let text = std::fs::read_to_string(&path).expect("the cases are there");
    let committed: Vec<Vec<Value>> = serde_json::from_str(&text).expect("the cases are JSON");
    let differing = (0..CASES).find(|number| committed.get(*number) != cases.get(*number));
    assert!(
        committed == cases,
        "case {differing:?}: if the change is meant, write the cases anew with `UPDATE_CASES=1 \
         cargo test -p pilothouse-sdk --test shared_cases`, and see that the Python SDK agrees"
    );
}
