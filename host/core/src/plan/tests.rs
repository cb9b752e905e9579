use std::collections::{BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::*;
use crate::access::grants::{Granted, Grants, KindName, WriteGrant};
use crate::access::scope::{KindScope, Scope};
use crate::cache::snapshot::{InformerId, Snapshot};
use crate::cache::{Cache, Delta, Listing};
use crate::model::informer_key::InformerKey;
use crate::model::manifest::{Limits, ReadDeclaration, Verb, WriteDeclaration};
use crate::model::object::Object;
use crate::model::outcome::{Delete, DeleteAll, Effect, Event, FollowUp, PatchType, Stage};
use crate::model::query::ListFilter;
use crate::plan::accepted::{AcceptedWrite, Trace};
use crate::plan::children;
use crate::plan::execution::{Executed, Execution, PendingWrite};
use crate::plan::write::{Author, Operation, WriteAnswer};

mod absent;
mod children_of_others;
mod order;
mod pairs;
mod settled;
mod stages;

fn config_map() -> Kind {
    Kind::new("", "v1", "ConfigMap")
}

fn other_version() -> Kind {
    Kind::new("", "v2", "ConfigMap")
}

fn manifest() -> Manifest {
    let verbs = vec![
        Verb::Apply,
        Verb::Create,
        Verb::Update,
        Verb::Patch,
        Verb::Delete,
    ];
    Manifest {
        name: "p".into(),
        version: "1.0.0".into(),
        reconciles: vec![],
        reads: vec![ReadDeclaration::new(config_map(), vec![])],
        indexes: vec![],
        writes: vec![WriteDeclaration {
            kind: config_map(),
            subresource: None,
            verbs,
            children: true,
        }],
        limits: Limits::default(),
        config_schema: None,
        optional: BTreeSet::new(),
    }
}

/// A plugin that may do everything to ConfigMaps, with ConfigMaps in its snapshot.
struct Rig {
    manifest: Manifest,
    /// That of a singleton, unless a test says otherwise.
    key: SubjectKey,
    permissions: Permissions,
    applied: Arc<Applied>,
    cache: Cache,
    /// Whether the plugin reads only some ConfigMaps.
    is_narrowed: bool,
    /// Whether the guest has listed them.
    is_listing: bool,
    /// Whether the plugin also reads them in [`other_version`].
    is_of_two_versions: bool,
}

impl Rig {
    fn new(objects: &[Value]) -> Self {
        let mut cache = Cache::new(InformerKey::all(config_map()));
        let parse = |object: &Value| {
            Object::parse(&config_map(), &object.to_string(), cache.schema()).unwrap()
        };
        let objects = objects.iter().map(parse).collect();
        cache.apply(Delta::Replace(Listing {
            objects,
            ..Listing::default()
        }));
        let manifest = manifest();
        Self {
            permissions: Permissions::of(&manifest, &Grants::as_requested()),
            manifest,
            key: SubjectKey::singleton(),
            applied: Arc::default(),
            cache,
            is_narrowed: false,
            is_listing: false,
            is_of_two_versions: false,
        }
    }

    /// Allows evictions.
    fn evicting(mut self) -> Self {
        self.manifest.writes.push(WriteDeclaration {
            kind: Kind::new("policy", "v1", "Eviction"),
            subresource: Some("eviction".into()),
            verbs: vec![Verb::Create],
            children: false,
        });
        self.permissions = Permissions::of(&self.manifest, &Grants::as_requested());
        self
    }

    /// Allows the same writes to ConfigMaps in another version.
    fn of_two_versions(mut self) -> Self {
        let mut other = self.manifest.writes[0].clone();
        other.kind = other_version();
        self.manifest.writes.push(other);
        let read = ReadDeclaration::new(other_version(), vec![]);
        self.manifest.reads.push(read);
        self.permissions = Permissions::of(&self.manifest, &Grants::as_requested());
        self.is_of_two_versions = true;
        self
    }

    fn plan(&self, actions: &[Action]) -> Result<Plan, PlanError> {
        self.plan_after(0, &[stage(actions)])
    }

    /// Plans for a guest that has read this many other objects.
    fn plan_after(&self, reads: usize, stages: &[Stage]) -> Result<Plan, PlanError> {
        let outcome = Outcome {
            stages: stages.to_vec(),
            ..Outcome::default()
        };
        self.plan_outcome(reads, &outcome)
    }

    fn plan_outcome(&self, reads: usize, outcome: &Outcome) -> Result<Plan, PlanError> {
        let mut whole = KindScope::whole(InformerId::first_at(0));
        whole.parts[0].is_narrowed = self.is_narrowed;
        let other = self.is_of_two_versions;
        let other = other.then(|| (other_version(), whole.clone()));
        let scope = Scope {
            kinds: [(config_map(), whole)].into_iter().chain(other).collect(),
            ..Scope::default()
        };
        let snapshot = Snapshot {
            sequence: 0,
            informers: Arc::new([self.cache.clone()].into_iter().collect()),
        };
        let mut reader = Reader::new(snapshot, Arc::new(scope), 0);
        if self.is_listing {
            let all = ListFilter::Everything;
            reader.list(&config_map(), None, &all).unwrap();
        }
        for number in 0..reads {
            let key = ObjectKey::new("default", &format!("other-{number}"));
            reader.get(&config_map(), &key).unwrap();
        }
        let Self {
            manifest,
            permissions,
            applied,
            ..
        } = self;
        plan(
            PlanContext {
                manager: "p",
                manifest,
                permissions,
                applied,
                key: &self.key,
            },
            outcome,
            &mut reader,
        )
    }

    fn writes(&self, action: Action) -> Vec<Write> {
        self.plan(&[action]).unwrap().writes().cloned().collect()
    }

    fn error(&self, action: Action) -> String {
        self.plan(&[action]).unwrap_err().to_string()
    }

    fn execute(&self, actions: &[Action], server: &Server) -> Executed {
        let execution = self.execution(actions, server.halt.clone());
        drive(execution, |write| server.write(write))
    }

    fn execution(&self, actions: &[Action], halt: Halt) -> Execution {
        self.execution_of(&[stage(actions)], halt)
    }

    fn execute_stages(&self, stages: &[Stage], server: &Server) -> Executed {
        let execution = self.execution_of(stages, server.halt.clone());
        drive(execution, |write| server.write(write))
    }

    fn execution_of(&self, stages: &[Stage], halt: Halt) -> Execution {
        let plan = self.plan_after(0, stages).unwrap();
        let author = Arc::new(Author::named("p"));
        Execution::new(plan, author, self.applied.clone(), halt)
    }
}

fn stage(actions: &[Action]) -> Stage {
    Stage {
        actions: actions.to_vec(),
        always: false,
    }
}

fn always(actions: &[Action]) -> Stage {
    Stage {
        always: true,
        ..stage(actions)
    }
}

/// Carries a plan out on what answers each write like this, in the order in which they begin.
fn drive(mut execution: Execution, answer: impl Fn(&Write) -> WriteAnswer) -> Executed {
    let mut pending = VecDeque::new();
    loop {
        match execution.advance() {
            ControlFlow::Continue((begun, under_way)) => {
                pending.extend(begun);
                let next = pending.pop_front().expect("one is under way");
                let answer = answer(next.write());
                execution = under_way.answered(next, answer);
            }
            ControlFlow::Break(executed) => return executed,
        }
    }
}

/// The result of each write.
fn results(executed: &Executed) -> Vec<ActionResult> {
    let effects = executed.effects.iter();
    effects.map(|effect| effect.result.clone()).collect()
}

/// Answers each write with the next result, and with `Done` when there are no more.
#[derive(Default)]
struct Server {
    answers: Mutex<Vec<ActionResult>>,
    seen: Mutex<Vec<Write>>,
    /// Set by the write of an object with the name `last`.
    halt: Halt,
    /// The status of each answer, without the server's own words.
    status: Option<String>,
}

#[test]
fn what_an_eviction_leaves_is_awaited_on_the_pod() {
    let eviction = Write {
        kind: Kind::new("policy", "v1", "Eviction"),
        key: ObjectKey::new("default", "a"),
        subresource: Some("eviction".into()),
        operation: Operation::Create {
            object: "{}".into(),
        },
    };
    let pod = Kind::new("", "v1", "Pod");
    for (result, trace) in [
        (ActionResult::Done(None), Some(Trace::Unshown)),
        (
            ActionResult::Unavailable("gone".into()),
            Some(Trace::Unknown),
        ),
        (ActionResult::Forbidden("budget".into()), None),
    ] {
        let accepted = AcceptedWrite::of(&eviction, &result, None, Some(pod.clone()));
        let expected = trace.map(|trace| AcceptedWrite {
            kind: pod.clone(),
            key: eviction.key.clone(),
            trace,
        });
        assert_eq!(accepted, expected);
    }
}

impl Server {
    fn write(&self, write: &Write) -> WriteAnswer {
        self.seen.lock().unwrap().push(write.clone());
        if &*write.key.name == "last" {
            self.halt.halt();
        }
        let answer = self
            .answers
            .lock()
            .unwrap()
            .pop()
            .unwrap_or(ActionResult::Done(None));
        WriteAnswer {
            status: self.status.clone(),
            ..answer.into()
        }
    }
}

fn object(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}"), "resourceVersion": "7"}})
}

fn apply(object: &Value) -> Action {
    Action::Apply {
        object: object.to_string(),
        subresource: None,
        force: false,
    }
}

fn event(name: &str) -> Action {
    Action::Event(Event {
        kind: config_map(),
        key: ObjectKey::new("default", name),
        is_warning: false,
        reason: "Done".into(),
        action: "Do".into(),
        note: String::new(),
    })
}

fn finalizer(name: &str, present: bool) -> Action {
    Action::Finalizer {
        kind: config_map(),
        key: ObjectKey::new("default", "a"),
        name: name.into(),
        present,
    }
}

fn delete(name: &str) -> Action {
    Action::Delete(Delete {
        kind: config_map(),
        key: ObjectKey::new("default", name),
        uid: None,
        resource_version: None,
        propagation: None,
        grace_period_seconds: None,
    })
}

#[test]
fn an_action_that_is_not_an_object_is_refused_with_its_reason() {
    let rig = Rig::new(&[]);
    let text = |object: &str| {
        rig.error(Action::Apply {
            object: object.into(),
            subresource: None,
            force: false,
        })
    };
    assert!(text("{").starts_with("action 1 (apply): invalid JSON: EOF"));
    assert!(text("{}").contains("apiVersion is missing"));
    assert!(
        text(r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":7}}"#)
            .contains("/metadata/name is not a string")
    );
    let deep = "[".repeat(10_000);
    assert!(text(&deep).contains("expected an object"));
    let head = r#""apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}"#;
    let deep = format!(r#"{{{head},"data":{deep}{}}}"#, "]".repeat(10_000));
    assert!(text(&deep).contains("recursion limit"));
    assert!(text(&format!("\"{}\"", "x".repeat(MAX_BODY))).contains("at most"));
}

#[test]
fn a_body_is_decoded_only_if_its_write_is_permitted() {
    let rig = Rig::new(&[]);
    // It cannot be decoded, so an error about anything else shows that it was not.
    let bomb = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let head = r#""apiVersion":"v1","kind":"Secret","metadata":{"generateName":"a-"}"#;
    let object = format!(r#"{{{head},"data":{bomb}}}"#);
    let named = object.replace("generateName", "name");
    let subresource = None;
    for (action, verb) in [
        (
            Action::Create {
                object,
                subresource: None,
            },
            "create",
        ),
        (
            Action::Update {
                object: named.clone(),
                subresource: None,
            },
            "update",
        ),
        (
            Action::Apply {
                object: named.clone(),
                subresource,
                force: false,
            },
            "apply",
        ),
    ] {
        let error = rig.error(action);
        assert!(
            error.contains(&format!("{verb} of v1/Secret is not among")),
            "{error}"
        );
    }
    let error = rig.error(Action::Children {
        objects: vec![named],
    });
    assert!(
        error.contains("v1/Secret is not marked children"),
        "{error}"
    );
}

#[test]
fn an_action_on_a_kind_or_subresource_that_was_not_asked_for_is_denied() {
    let rig = Rig::new(&[]);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
    assert!(
        rig.error(apply(&secret))
            .contains("apply of v1/Secret is not among")
    );
    let status = Action::Update {
        object: object("a").to_string(),
        subresource: Some("status".into()),
    };
    assert!(
        rig.error(status)
            .contains("update of v1/ConfigMap/status is not among")
    );
}

#[test]
fn a_name_cannot_leave_its_place() {
    let rig = Rig::new(&[]);
    for name in ["", "../x", "a%2fb"] {
        assert!(
            rig.error(apply(&object(name)))
                .contains("is not an object's name"),
            "{name}"
        );
    }
    let mut elsewhere = object("a");
    elsewhere["metadata"]["namespace"] = "x/../kube-system".into();
    assert!(
        rig.error(apply(&elsewhere))
            .contains("is not a namespace's name")
    );
}

#[test]
fn a_patch_of_one_object_cannot_carry_another() {
    let rig = Rig::new(&[]);
    let patch = |body: Value| Action::Patch {
        kind: config_map(),
        key: ObjectKey::new("default", "a"),
        subresource: None,
        patch_type: PatchType::Merge,
        body: body.to_string(),
    };
    assert!(
        rig.error(patch(json!({"metadata": {"namespace": "kube-system"}})))
            .contains("but the action is for v1/ConfigMap default/a")
    );
    assert_eq!(
        rig.writes(patch(json!({"metadata": {"name": "a"}, "data": {}})))
            .len(),
        1
    );
}

#[test]
fn too_many_actions_are_refused() {
    let rig = Rig::new(&[]);
    let actions = vec![delete("a"); MAX_ACTIONS + 1];
    assert_eq!(
        rig.plan(&actions).unwrap_err(),
        PlanError::TooMany(MAX_ACTIONS + 1)
    );
}

#[test]
fn a_generated_name_is_the_same_on_every_retry() {
    let rig = Rig::new(&[]);
    let create = |data: &str| {
        Action::Create {
        object: json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "generateName": "job-"}, "data": {"a": data}})
            .to_string(),
        subresource: None,
    }
    };
    let name = |data| rig.writes(create(data))[0].key.name.to_string();
    assert_eq!(name("1"), name("1"));
    assert_ne!(name("1"), name("2"));
    assert!(name("1").starts_with("job-") && name("1").len() == 12);
}

#[test]
fn a_deletion_is_of_the_object_that_was_seen() {
    let uid = |rig: &Rig| match rig.writes(delete("a")).remove(0).operation {
        Operation::Delete { uid, .. } => uid,
        other => panic!("{other:?}"),
    };
    assert_eq!(uid(&Rig::new(&[object("a")])).as_deref(), Some("uid-a"));
    assert_eq!(uid(&Rig::new(&[])), None);
}

#[test]
fn a_deletion_is_of_the_version_that_was_seen_unless_the_outcome_itself_writes_another() {
    let rig = Rig::new(&[object("a")]);
    let version = |actions: &[Action]| {
        let plan = rig.plan(actions).unwrap();
        let last = plan.writes().last().unwrap();
        match &last.operation {
            Operation::Delete {
                resource_version, ..
            } => resource_version.clone(),
            other => panic!("{other:?}"),
        }
    };
    let seen = object("a")["metadata"]["resourceVersion"].clone();
    assert_eq!(version(&[delete("a")]).as_deref(), seen.as_str());
    assert_eq!(version(&[finalizer("x/y", true), delete("a")]), None);
    assert_eq!(version(&[delete("b")]), None, "nobody has seen it");
}

#[test]
fn a_finalizer_patch_holds_only_for_the_object_and_the_finalizers_that_were_seen() {
    let mut with_one = object("a");
    with_one["metadata"]["finalizers"] = json!(["other/one"]);
    let rig = Rig::new(&[with_one]);
    let body = |rig: &Rig| {
        let Operation::Patch { body, .. } = rig.writes(finalizer("x/y", true)).remove(0).operation
        else {
            panic!()
        };
        serde_json::from_str::<Value>(&body).unwrap()
    };
    assert_eq!(
        body(&rig),
        json!([
            {"op": "test", "path": "/metadata/uid", "value": "uid-a"},
            {"op": "test", "path": "/metadata/finalizers", "value": ["other/one"]},
            {"op": "add", "path": "/metadata/finalizers", "value": ["other/one", "x/y"]},
        ])
    );
    assert_eq!(
        body(&Rig::new(&[object("a")]))[1],
        json!({"op": "test", "path": "/metadata/finalizers", "value": null})
    );
    assert!(
        rig.writes(finalizer("other/one", true)).is_empty(),
        "it is there already"
    );
    assert!(
        rig.writes(finalizer("x/y", false)).is_empty(),
        "it is not there"
    );
    assert!(Rig::new(&[]).writes(finalizer("x/y", true)).is_empty());
}

#[test]
fn an_apply_that_would_change_nothing_is_not_sent_again() {
    let rig = Rig::new(&[object("a")]);
    let as_cached = || ActionResult::Done(Some("7".into()));
    let server = Server {
        answers: vec![as_cached()].into(),
        ..Server::default()
    };
    assert_eq!(
        results(&rig.execute(&[apply(&object("a"))], &server)),
        [as_cached()]
    );
    assert_eq!(
        results(&rig.execute(&[apply(&object("a"))], &server)),
        [ActionResult::Unchanged]
    );
    assert_eq!(server.seen.lock().unwrap().len(), 1);
}

#[test]
fn an_update_that_would_change_nothing_is_not_sent() {
    let rig = Rig::new(&[object("a")]);
    let update = |object: &Value| Action::Update {
        object: object.to_string(),
        subresource: None,
    };
    assert!(rig.writes(update(&object("a"))).is_empty());
    let mut changed = object("a");
    changed["data"] = json!({"a": "1"});
    assert_eq!(rig.writes(update(&changed)).len(), 1);
}

/// What the plugin and the log see of a refused patch of the object `a` of this kind, where the
/// refusal quotes the object.
fn heard_of_refusal(rig: Rig, kind: &Kind) -> (String, String) {
    let patch = Action::Patch {
        kind: kind.clone(),
        key: ObjectKey::new("default", "a"),
        subresource: None,
        patch_type: PatchType::Merge,
        body: "{}".into(),
    };
    heard_of(rig, kind, patch)
}

/// What the plugin and the log see of a refusal of this action on an object of this kind.
fn heard_of(mut rig: Rig, kind: &Kind, action: Action) -> (String, String) {
    rig.manifest.writes[0].kind = kind.clone();
    rig.permissions = Permissions::of(&rig.manifest, &Grants::as_requested());
    let server = Server {
        answers: vec![ActionResult::Invalid("Invalid value: \"hunter2\"".into())].into(),
        status: Some("HTTP 422 Invalid".into()),
        ..Server::default()
    };
    let done = rig.execute(&[action], &server);
    let [ActionResult::Invalid(text)] = &results(&done)[..] else {
        panic!("{done:?}");
    };
    (text.clone(), done.failure.unwrap().message)
}

#[test]
fn what_the_server_quotes_of_an_object_is_for_who_reads_it_whole() {
    let (plugin, log) = heard_of_refusal(Rig::new(&[object("a")]), &config_map());
    assert!(plugin.contains("hunter2") && log.contains("hunter2"));

    let pod = Kind::new("", "v1", "Pod");
    let mut of_others = Rig::new(&[]);
    of_others.is_narrowed = true;
    for (rig, kind) in [(Rig::new(&[]), pod), (of_others, config_map())] {
        let (plugin, log) = heard_of_refusal(rig, &kind);
        assert!(plugin.starts_with("HTTP 422 Invalid; "), "{plugin}");
        assert!(!plugin.contains("hunter2"), "{plugin}");
        assert!(log.contains("hunter2"), "an operator is to mend it: {log}");
    }
}

#[test]
fn what_the_server_says_of_an_object_that_a_plugin_creates_is_for_the_plugin() {
    let create = |kind: &str| {
        let metadata = json!({"namespace": "default", "name": "a"});
        let object = json!({"apiVersion": "v1", "kind": kind, "metadata": metadata});
        Action::Create {
            object: object.to_string(),
            subresource: None,
        }
    };
    let pod = Kind::new("", "v1", "Pod");
    let (plugin, log) = heard_of(Rig::new(&[]), &pod, create("Pod"));
    assert!(plugin.contains("hunter2") && log.contains("hunter2"));
    let secret = Kind::new("", "v1", "Secret");
    let (plugin, log) = heard_of(Rig::new(&[]), &secret, create("Secret"));
    assert!(!plugin.contains("hunter2") && !log.contains("hunter2"));
}

#[test]
fn of_a_secret_that_is_not_read_not_even_the_log_hears_what_the_server_quotes() {
    let secret = Kind::new("", "v1", "Secret");
    let (plugin, log) = heard_of_refusal(Rig::new(&[]), &secret);
    for text in [plugin, log] {
        assert!(text.contains("HTTP 422 Invalid"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
}

/// Executes the stages on objects `a` and `b` with a server whose first answer is this. Returns the
/// results and the failure.
fn after_first(answer: ActionResult, stages: &[Stage]) -> (Vec<ActionResult>, Option<String>) {
    let mut held = object("a");
    held["metadata"]["finalizers"] = json!(["x/y"]);
    let rig = Rig::new(&[held, object("b")]);
    let server = Server {
        answers: vec![answer].into(),
        ..Server::default()
    };
    let done = rig.execute_stages(stages, &server);
    (results(&done), done.failure.map(|failure| failure.message))
}

#[test]
fn one_object_that_cannot_be_deleted_keeps_nothing_behind_it_waiting() {
    let no = || ActionResult::Forbidden("no".into());
    let actions = [delete("a"), delete("b"), apply(&object("c"))];
    let (results, failure) = after_first(no(), &[stage(&actions)]);
    let done = || ActionResult::Done(None);
    assert_eq!(results, [no(), done(), done()]);
    assert_eq!(
        failure.as_deref(),
        Some("action 1: no"),
        "the outcome fails"
    );
}

#[test]
fn what_may_count_on_a_failed_deletion_is_not_done() {
    let no = || ActionResult::Conflict("no".into());
    let again = Action::Create {
        object: object("b").to_string(),
        subresource: None,
    };
    let stages = [
        stage(&[delete("b"), again]),
        stage(&[finalizer("x/y", false)]),
    ];
    let (results, _) = after_first(no(), &stages);
    assert_eq!(
        results,
        [no(), ActionResult::Skipped, ActionResult::Skipped],
        "nothing takes the object's name, and a finalizer that waits for the deletion stays"
    );
}

#[test]
fn a_finalizer_that_cannot_be_removed_stops_only_what_is_done_to_its_object() {
    let no = || ActionResult::Conflict("no".into());
    let actions = [finalizer("x/y", false), delete("a"), delete("b")];
    let (results, failure) = after_first(no(), &[stage(&actions)]);
    assert_eq!(
        results,
        [no(), ActionResult::Skipped, ActionResult::Done(None)]
    );
    assert!(failure.is_some());
}

#[test]
fn after_a_finalizer_that_cannot_be_added_nothing_is_made_that_it_would_guard() {
    let no = || ActionResult::Conflict("no".into());
    let stages = [
        stage(&[finalizer("z/z", true)]),
        stage(&[apply(&object("c"))]),
    ];
    let (results, _) = after_first(no(), &stages);
    assert_eq!(results, [no(), ActionResult::Skipped]);
}

#[test]
fn while_there_is_no_cluster_no_other_deletion_is_tried() {
    let nobody = || ActionResult::Unavailable("nobody there".into());
    let (results, _) = after_first(nobody(), &[stage(&[delete("a"), delete("b")])]);
    assert_eq!(results, [nobody(), ActionResult::Skipped]);
}

#[test]
fn removing_a_finalizer_of_what_is_gone_is_success() {
    let gone = || ActionResult::NotFound("gone".into());
    let (results, failure) = after_first(gone(), &[stage(&[finalizer("x/y", false)])]);
    assert_eq!((results, failure), (vec![ActionResult::Done(None)], None));
    let (results, _) = after_first(gone(), &[stage(&[finalizer("z/z", true)])]);
    assert_eq!(results, [gone()], "adding one is not");
}

#[test]
fn what_is_under_way_when_the_plugin_is_halted_goes_no_further() {
    let rig = Rig::new(&[]);
    let server = Server::default();
    let first = stage(&[delete("a"), delete("last")]);
    let rest = [delete("b"), event("a")];
    let stages = [first, stage(&rest), always(&rest)];
    let done = rig.execute_stages(&stages, &server);
    assert_eq!(server.seen.lock().unwrap().len(), 2);
    let skipped = vec![ActionResult::Skipped; 4];
    assert_eq!(results(&done)[2..], skipped);
    assert_eq!(done.events, [], "no Event after the halt");
    assert!(done.is_halted && done.failure.is_none());
    let all = rig.execute(&[delete("last")], &Server::default());
    assert!(!all.is_halted, "there was nothing left to do");
}

#[test]
fn events_are_a_grant_of_their_own() {
    let mut rig = Rig::new(&[]);
    let listed = |events| Granted::Listed {
        events,
        reads: vec![],
        writes: vec![],
    };
    for (what, is_granted) in [
        (Granted::OwnKind, false),
        (Granted::AsRequested, true),
        (listed(false), false),
        (listed(true), true),
    ] {
        let grants = Grants {
            what: what.clone(),
            ..Grants::default()
        };
        rig.permissions = Permissions::of(&rig.manifest, &grants);
        let done = rig.execute(&[event("a"), event("b")], &Server::default());
        assert_eq!(
            done.events.len(),
            if is_granted { 2 } else { 0 },
            "{what:?}"
        );
        assert_eq!(done.denied_events.is_empty(), is_granted);
        assert_eq!(done.failure, None, "it stops nothing");
    }
}

#[test]
fn an_event_is_about_what_the_plugin_may_read_or_write() {
    let mut rig = Rig::new(&[]);
    let pod = Kind::new("", "v1", "Pod");
    let about_pod = |namespace: &str| {
        let Action::Event(event) = event("a") else {
            unreachable!()
        };
        Action::Event(Event {
            kind: pod.clone(),
            key: ObjectKey::new(namespace, "a"),
            ..event
        })
    };
    rig.manifest.writes.push(WriteDeclaration {
        kind: pod.clone(),
        subresource: Some("status".into()),
        verbs: vec![Verb::Patch],
        children: false,
    });
    let grants = Grants {
        what: Granted::Listed {
            events: true,
            reads: vec![],
            writes: vec![WriteGrant {
                kind: KindName {
                    group: String::new(),
                    kind: "Pod".into(),
                },
                subresource: Some("status".into()),
                verbs: BTreeSet::new(),
                namespaces: ["web".to_owned()].into(),
                names: BTreeSet::new(),
                force: false,
            }],
        },
        ..Grants::default()
    };
    rig.permissions = Permissions::of(&rig.manifest, &grants);
    assert_eq!(rig.writes(about_pod("web")).len(), 1);
    assert_eq!(rig.writes(about_pod("elsewhere")), []);
}

#[test]
fn an_outcome_has_a_hundred_events() {
    let rig = Rig::new(&[]);
    assert!(rig.plan(&vec![event("a"); MAX_EVENTS]).is_ok());
    let error = rig.plan(&vec![event("a"); MAX_EVENTS + 1]).unwrap_err();
    assert_eq!(error.to_string(), "101 Events; an outcome has at most 100");
}

#[test]
fn an_event_ends_at_once_and_nothing_waits_for_it() {
    let rig = Rig::new(&[]);
    let actions = [event("a"), delete("a"), event("b"), event("a")];
    let execution = rig.execution(&actions, Halt::default());
    let ControlFlow::Continue((begun, under_way)) = execution.advance() else {
        panic!("a write is to be sent");
    };
    let [pending] = <[PendingWrite; 1]>::try_from(begun).ok().unwrap();
    assert_eq!(
        pending.number(),
        1,
        "the delete, though the window is of one write"
    );
    let answer = ActionResult::Done(None).into();
    let ControlFlow::Break(done) = under_way.answered(pending, answer).advance() else {
        panic!("nothing else is to be sent");
    };
    assert_eq!(results(&done), vec![ActionResult::Done(None); 4]);
    let about = done.events.iter().map(|taken| &*taken.write.key.name);
    assert_eq!(about.collect::<Vec<_>>(), ["a", "b", "a"]);
    assert_eq!(done.events[0].author.plugin, "p");

    let ControlFlow::Break(done) = rig.execution(&[event("a")], Halt::default()).advance() else {
        panic!("an outcome of Events alone waits for nothing");
    };
    assert_eq!(done.events.len(), 1);
}

#[test]
fn after_a_write_that_fails_no_event_about_its_object_or_of_a_later_stage_is_taken() {
    let stages = [
        stage(&[delete("a"), event("a"), event("b")]),
        stage(&[event("later")]),
        always(&[event("always")]),
    ];
    let taken_after = |answer: ActionResult| {
        let server = Server {
            answers: vec![answer].into(),
            ..Server::default()
        };
        let done = Rig::new(&[]).execute_stages(&stages, &server);
        let about = done
            .events
            .iter()
            .map(|taken| taken.write.key.name.to_string());
        let about: Vec<String> = about.collect();
        let taken = done.effects.iter().filter(|effect| {
            effect.verb == EffectVerb::Event && effect.result == ActionResult::Done(None)
        });
        assert_eq!(taken.count(), about.len(), "the others are skipped");
        about
    };
    let refused = ActionResult::Invalid("no".into());
    assert_eq!(taken_after(refused), ["b", "always"]);
    let unreachable = ActionResult::Unavailable("nobody there".into());
    assert_eq!(taken_after(unreachable), [""; 0]);
    let all = taken_after(ActionResult::Done(None));
    assert_eq!(all, ["a", "b", "later", "always"]);
}

#[test]
fn what_is_kept_of_an_event_is_no_longer_than_the_server_takes() {
    let Action::Event(short) = event("a") else {
        unreachable!()
    };
    let long = "x".repeat(1 << 20);
    let [reason, action, note] = [&long, &long, &long].map(Clone::clone);
    let writes = Rig::new(&[]).writes(Action::Event(Event {
        reason,
        action,
        note,
        ..short
    }));
    let Operation::Event {
        reason,
        action,
        note,
        ..
    } = &writes[0].operation
    else {
        panic!("{writes:?}");
    };
    assert_eq!([reason, action, note].map(String::len), [128, 128, 1024]);
}

#[test]
fn children_are_applied_and_what_is_no_longer_wanted_is_deleted() {
    let rig = Rig::new(&[]);
    let children = |names: &[&str]| Action::Children {
        objects: names.iter().map(|name| object(name).to_string()).collect(),
    };
    let Operation::Apply {
        object: first,
        force,
    } = rig.writes(children(&["a"])).remove(0).operation
    else {
        panic!()
    };
    let labelled: Value = serde_json::from_str(&first).unwrap();
    assert!(force && labelled["metadata"]["labels"][children::LABEL].is_string());

    let mut stranger = object("stranger");
    stranger["metadata"]["labels"] = json!({children::LABEL: "another-key"});
    let mut heir = object("heir");
    heir["metadata"]["labels"] = labelled["metadata"]["labels"].clone();
    let mut moved = heir.clone();
    moved["metadata"]["name"] = "moved".into();
    moved["metadata"]["annotations"] = json!({children::ANNOTATION: "p elsewhere/key"});
    let rig = Rig::new(&[labelled, stranger, heir, moved]);
    let writes = rig.writes(children(&["b"]));
    let what: Vec<_> = writes
        .iter()
        .map(|write| {
            (
                &*write.key.name,
                matches!(write.operation, Operation::Apply { .. }),
            )
        })
        .collect();
    assert_eq!(
        what,
        [("b", true), ("a", false)],
        "applied first, then pruned; another key's children stay, and what has only inherited the label"
    );
    assert_eq!(
        results(&rig.execute(&[children(&[])], &Server::default())),
        [ActionResult::Done(None)]
    );
}

#[test]
fn a_generated_name_does_not_depend_on_the_other_actions() {
    let rig = Rig::new(&[]);
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "generateName": "job-"}});
    let create = Action::Create {
        object: object.to_string(),
        subresource: None,
    };
    let names = |actions: &[Action]| -> Vec<String> {
        let plan = rig.plan(actions).unwrap();
        plan.writes()
            .map(|write| write.key.name.to_string())
            .collect()
    };
    let alone = names(std::slice::from_ref(&create)).remove(0);
    assert_eq!(names(&[delete("x"), create.clone()])[1], alone);
    let two = names(&[create.clone(), create]);
    assert_ne!(two[0], two[1], "two of the same are two");
}

#[test]
fn a_second_list_of_children_is_refused() {
    let rig = Rig::new(&[]);
    let children = Action::Children { objects: vec![] };
    let error = rig
        .plan(&[children.clone(), children])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("action 2 (children): an outcome has one children action"),
        "{error}"
    );
}

#[test]
fn a_finalizer_of_a_kind_that_is_not_read_is_denied() {
    let mut rig = Rig::new(&[]);
    let pod = Kind::new("", "v1", "Pod");
    rig.manifest.writes[0].kind = pod.clone();
    rig.permissions = Permissions::of(&rig.manifest, &Grants::as_requested());
    let key = ObjectKey::new("default", "a");
    let error = rig.error(Action::Finalizer {
        kind: pod,
        key,
        name: "x/y".into(),
        present: false,
    });
    assert!(
        error.contains("v1/Pod is not among the manifest's reads"),
        "{error}"
    );
}

#[test]
fn a_guest_that_has_read_all_it_may_still_gets_its_actions_planned_on_what_is_there() {
    let mut held = object("a");
    held["metadata"]["finalizers"] = json!(["x/y"]);
    let rig = Rig::new(&[held]);
    let removal = [finalizer("x/y", false)];
    let plan = rig
        .plan_after(crate::reads::error::MAX_READS, &[stage(&removal)])
        .unwrap();
    assert_eq!(
        plan.writes().count(),
        1,
        "the object is there, and so is its finalizer"
    );
}

#[test]
fn without_force_granted_a_forced_apply_is_refused_and_children_take_nothing_from_others() {
    let mut rig = Rig::new(&[]);
    let grants = Grants {
        what: Granted::Listed {
            events: false,
            reads: vec![],
            writes: vec![WriteGrant {
                kind: KindName {
                    group: String::new(),
                    kind: "ConfigMap".into(),
                },
                subresource: None,
                verbs: BTreeSet::new(),
                namespaces: BTreeSet::new(),
                names: BTreeSet::new(),
                force: false,
            }],
        },
        ..Grants::default()
    };
    rig.permissions = Permissions::of(&rig.manifest, &grants);
    rig.permissions.children = [config_map()].into();
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "a"}}).to_string();
    let apply = |force| Action::Apply {
        object: object.clone(),
        subresource: None,
        force,
    };
    assert_eq!(rig.writes(apply(false)).len(), 1);
    assert_eq!(
        rig.error(apply(true)),
        "action 1 (apply): denied: apply with force of v1/ConfigMap in namespace default is not granted; the operator grants it in the plugin's settings"
    );
    let children = rig.writes(Action::Children {
        objects: vec![object.clone()],
    });
    let is_forced = |write: &Write| matches!(write.operation, Operation::Apply { force: true, .. });
    assert!(!children.iter().any(is_forced));
}

fn update(object: &Value) -> Action {
    Action::Update {
        object: object.to_string(),
        subresource: None,
    }
}

#[test]
fn an_update_after_a_write_of_the_same_outcome_is_of_the_version_that_left() {
    let object = |value: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"value": value},
            "metadata": {"namespace": "default", "name": "a", "resourceVersion": "3"}})
    };
    let mut cached = object("old");
    cached["metadata"]["resourceVersion"] = "7".into();
    let rig = Rig::new(&[cached]);
    let server = Server {
        answers: Mutex::new(vec![ActionResult::Done(Some("8".into()))]),
        ..Server::default()
    };
    rig.execute(&[update(&object("one")), update(&object("two"))], &server);
    let seen = server.seen.lock().unwrap();
    let versions = seen.iter().map(|write| match &write.operation {
        Operation::Update { object } => {
            let object: Value = serde_json::from_str(object).unwrap();
            object["metadata"]["resourceVersion"].clone()
        }
        other => panic!("{other:?}"),
    });
    assert_eq!(versions.collect::<Vec<_>>(), ["7", "8"]);
}

#[test]
fn an_update_of_what_is_not_there_is_not_sent() {
    let rig = Rig::new(&[]);
    let server = Server::default();
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "a"}});
    let executed = rig.execute(&[update(&object)], &server);
    assert!(matches!(
        executed.effects[0].result,
        ActionResult::NotFound(_)
    ));
    assert!(server.seen.lock().unwrap().is_empty());
}

#[test]
fn an_update_of_a_kind_that_is_not_read_says_of_which_version_it_is() {
    let mut rig = Rig::new(&[]);
    rig.manifest.writes[0].kind = Kind::new("", "v1", "Secret");
    rig.manifest.writes[0].children = false;
    rig.permissions = Permissions::of(&rig.manifest, &Grants::as_requested());
    let object = |version: Value| {
        json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"namespace": "default", "name": "a", "resourceVersion": version}})
    };
    for version in [Value::Null, json!(""), json!("0"), json!(7)] {
        let error = rig.error(update(&object(version)));
        assert!(error.contains("says of which resourceVersion"), "{error}");
    }
    assert_eq!(rig.writes(update(&object(json!("7")))).len(), 1);
}

#[test]
fn an_empty_precondition_of_a_delete_is_none() {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": "a", "uid": "u", "resourceVersion": "7"}});
    let writes = Rig::new(&[object]).writes(Action::Delete(Delete {
        kind: config_map(),
        key: ObjectKey::new("default", "a"),
        uid: Some(String::new()),
        resource_version: Some(String::new()),
        propagation: None,
        grace_period_seconds: None,
    }));
    let Operation::Delete {
        uid,
        resource_version,
        ..
    } = &writes[0].operation
    else {
        panic!("{writes:?}");
    };
    assert_eq!(
        (uid.as_deref(), resource_version.as_deref()),
        (Some("u"), Some("7"))
    );
}

#[test]
fn a_member_that_may_no_longer_be_deleted_stays_and_is_told() {
    let children = |names: &[&str]| Action::Children {
        objects: names.iter().map(|name| object(name).to_string()).collect(),
    };
    let Operation::Apply { object: member, .. } =
        Rig::new(&[]).writes(children(&["a"])).remove(0).operation
    else {
        panic!()
    };
    let mut rig = Rig::new(&[serde_json::from_str(&member).unwrap()]);
    let grants = Grants {
        what: Granted::Listed {
            events: false,
            reads: vec![],
            writes: vec![WriteGrant {
                kind: KindName {
                    group: String::new(),
                    kind: "ConfigMap".into(),
                },
                subresource: None,
                verbs: BTreeSet::new(),
                namespaces: BTreeSet::new(),
                names: ["b".to_owned()].into(),
                force: false,
            }],
        },
        ..Grants::default()
    };
    rig.permissions = Permissions::of(&rig.manifest, &grants);
    rig.permissions.children = [config_map()].into();
    let plan = rig.plan(&[children(&["b"])]).unwrap();
    let names: Vec<_> = plan
        .writes()
        .map(|write| write.key.name.to_string())
        .collect();
    assert_eq!(names, ["b"]);
    let told: Vec<_> = plan.warnings().iter().collect();
    assert!(
        matches!(told[..], [told] if told.starts_with("children: v1/ConfigMap default/a is not wanted any more and stays: ")),
        "{told:?}"
    );
}

#[test]
fn a_generated_name_is_none_that_an_object_has_which_the_guest_has_seen() {
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "generateName": "pod-"}});
    let create = || Action::Create {
        object: body.to_string(),
        subresource: None,
    };
    let names = |rig: &Rig, count: usize| -> Vec<String> {
        let plan = rig.plan(&vec![create(); count]).unwrap();
        let names = plan.writes().map(|write| write.key.name.to_string());
        names.collect()
    };
    let first = names(&Rig::new(&[]), 4);
    // Three were created, and the second one has been deleted.
    let mut living = Rig::new(&[object(&first[0]), object(&first[2])]);
    assert_eq!(
        names(&living, 1),
        first[..1],
        "who has not looked creates once"
    );
    living.is_listing = true;
    assert_eq!(names(&living, 2), [first[1].clone(), first[3].clone()]);
    assert_eq!(names(&living, 2), names(&living, 2), "the same on a retry");
}

#[test]
fn names_and_children_are_those_of_the_keys_kind_in_any_version() {
    let name = |version: &str, kind: &str| {
        let mut rig = Rig::new(&[]);
        let kind = Arc::new(Kind::new("example.com", version, kind));
        rig.key = SubjectKey::of(&kind, ObjectKey::new("default", "web"));
        let children = Action::Children {
            objects: vec![object("a").to_string()],
        };
        let Operation::Apply { object, .. } = rig.writes(children).remove(0).operation else {
            panic!()
        };
        let object: Value = serde_json::from_str(&object).unwrap();
        object["metadata"]["labels"][children::LABEL].clone()
    };
    assert_eq!(name("v1beta1", "Website"), name("v1", "Website"));
    assert_ne!(name("v1", "Website"), name("v1", "Shop"));
}

#[test]
fn a_status_in_an_apply_of_the_object_itself_is_told_once_for_its_kind() {
    let rig = Rig::new(&[]);
    let with_status = |name: &str| {
        let mut object = object(name);
        object["status"] = json!({"ready": true});
        object
    };
    let plan = rig.plan(&[apply(&with_status("a")), apply(&with_status("b"))]);
    let plan = plan.unwrap();
    assert_eq!(plan.warnings().len(), 1);
    assert!(
        plan.warnings()
            .first()
            .unwrap()
            .contains("apply it with subresource")
    );
    let of_status = Action::Apply {
        object: with_status("a").to_string(),
        subresource: Some("status".into()),
        force: false,
    };
    let mut rig = Rig::new(&[]);
    rig.manifest.writes.push(WriteDeclaration {
        kind: config_map(),
        subresource: Some("status".into()),
        verbs: vec![Verb::Apply],
        children: false,
    });
    rig.permissions = Permissions::of(&rig.manifest, &Grants::as_requested());
    assert!(rig.plan(&[of_status]).unwrap().warnings().is_empty());
}

#[test]
fn an_apply_of_what_never_comes_into_the_cache_is_not_remembered() {
    let mut rig = Rig::new(&[]);
    let done = || Server {
        answers: vec![ActionResult::Done(Some("8".into()))].into(),
        ..Server::default()
    };
    rig.execute(&[apply(&object("a"))], &done());
    assert_eq!(rig.applied.len(), 1);
    rig.is_narrowed = true;
    rig.execute(&[apply(&object("b"))], &done());
    assert_eq!(rig.applied.len(), 1, "it may not be selected");
    let mut shown = Rig::new(&[object("b")]);
    shown.is_narrowed = true;
    shown.execute(&[apply(&object("b"))], &done());
    assert_eq!(shown.applied.len(), 1, "it is selected");
}

/// The object in the other version.
fn converted(mut object: Value) -> Value {
    object["apiVersion"] = "v2".into();
    object
}

#[test]
fn what_was_written_in_one_version_of_a_kind_is_written_in_all() {
    let rig = Rig::new(&[object("a")]).of_two_versions();
    let patch = Action::Patch {
        kind: other_version(),
        key: ObjectKey::new("default", "a"),
        subresource: None,
        patch_type: PatchType::Merge,
        body: json!({"data": {"k": "v"}}).to_string(),
    };
    let server = Server {
        answers: vec![ActionResult::Done(Some("9".into()))].into(),
        ..Server::default()
    };
    rig.execute(&[patch, update(&object("a"))], &server);
    let seen = server.seen.lock().unwrap();
    assert_eq!(
        seen.len(),
        2,
        "the update puts back what the patch has changed"
    );
    let Operation::Update { object } = &seen[1].operation else {
        panic!("{seen:?}");
    };
    let object: Value = serde_json::from_str(object).unwrap();
    assert_eq!(object["metadata"]["resourceVersion"], "9");
}

#[test]
fn a_child_that_is_wanted_in_one_version_is_not_deleted_in_another() {
    let children = |text: &Value| Action::Children {
        objects: vec![text.to_string()],
    };
    let rig = Rig::new(&[]);
    let Operation::Apply { object: text, .. } =
        rig.writes(children(&object("a"))).remove(0).operation
    else {
        panic!()
    };
    let member: Value = serde_json::from_str(&text).unwrap();
    let rig = Rig::new(&[member]).of_two_versions();
    let none = Action::Children { objects: vec![] };
    assert_eq!(rig.writes(none).len(), 1, "it is one object");
    let writes = rig.writes(children(&converted(object("a"))));
    assert!(
        matches!(&writes[..], [write] if matches!(write.operation, Operation::Apply { .. })),
        "{writes:?}"
    );
}

#[test]
fn an_empty_status_in_an_apply_is_nothing_to_warn_of() {
    let mut empty = object("a");
    empty["status"] = json!({});
    let plan = Rig::new(&[]).plan(&[apply(&empty)]).unwrap();
    assert!(plan.warnings().is_empty(), "{:?}", plan.warnings());
}

#[test]
fn a_memo_has_a_largest_size() {
    let rig = Rig::new(&[]);
    let plan = |bytes: usize| {
        let follow_up = FollowUp {
            memo: Some("x".repeat(bytes).into()),
            ..FollowUp::default()
        };
        let outcome = Outcome {
            follow_up,
            ..Outcome::default()
        };
        rig.plan_outcome(0, &outcome)
    };
    assert!(plan(MAX_MEMO).is_ok());
    assert_eq!(
        plan(MAX_MEMO + 1).unwrap_err().to_string(),
        "a memo of 65537 bytes; it has at most 65536"
    );
}

/// Allows the deletion of all ConfigMaps of the default namespace.
fn purging() -> Rig {
    let mut rig = Rig::new(&[]);
    rig.manifest.writes[0].verbs.push(Verb::DeleteCollection);
    let grant = WriteGrant {
        kind: KindName::of(&config_map()),
        subresource: None,
        verbs: [Verb::DeleteCollection].into(),
        namespaces: ["default".to_owned()].into(),
        names: BTreeSet::new(),
        force: false,
    };
    let grants = Grants {
        what: Granted::Listed {
            reads: vec![],
            writes: vec![grant],
            events: false,
        },
        ..Grants::default()
    };
    rig.permissions = Permissions::of(&rig.manifest, &grants);
    rig
}

fn delete_all(namespace: &str, labels: Option<&str>) -> Action {
    Action::DeleteAll(DeleteAll {
        kind: config_map(),
        namespace: namespace.into(),
        labels: labels.map(str::to_owned),
        propagation: None,
    })
}

#[test]
fn all_objects_of_a_namespace_are_deleted_by_one_write_without_a_name() {
    let rig = purging();
    let selector = r#"{"matchLabels": {"app": "web"}}"#;
    for (labels, sent) in [(None, ""), (Some(selector), "app=web")] {
        let writes = rig.writes(delete_all("default", labels));
        let write = Write {
            kind: config_map(),
            key: ObjectKey::new("default", ""),
            subresource: None,
            operation: Operation::DeleteAll {
                labels: sent.into(),
                propagation: None,
            },
        };
        assert_eq!(writes, [write]);
    }
    assert!(
        rig.error(delete_all("default", Some("a in (")))
            .starts_with("action 1 (delete-all): labels: "),
    );
    let elsewhere = "deletecollection of v1/ConfigMap in namespace other is not granted";
    assert!(rig.error(delete_all("other", None)).contains(elsewhere));
    assert!(
        rig.error(delete_all("../x", None))
            .contains("not a namespace")
    );
}

#[test]
fn what_a_deletion_of_all_has_deleted_is_awaited_object_by_object() {
    let rig = purging();
    let execution = rig.execution(&[delete_all("default", None)], Halt::default());
    let deleted = vec![(ObjectKey::new("default", "a"), "u".to_owned())];
    let executed = drive(execution, |_| WriteAnswer {
        deleted: deleted.clone(),
        ..ActionResult::Failed("HTTP 500".into()).into()
    });
    let awaited = AcceptedWrite {
        kind: config_map(),
        key: ObjectKey::new("default", "a"),
        trace: Trace::Deletion("u".into()),
    };
    assert_eq!(executed.accepted, [awaited], "though it failed half-way");
    let effect = &executed.effects[0];
    assert_eq!(
        (effect.verb, &*effect.key.name),
        (EffectVerb::DeleteAll, "")
    );
}
