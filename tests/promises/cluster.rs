//! The cluster side of the host, without plugins, against a real API server: a cache follows its
//! kind, and the server accepts every kind of write.
#![allow(
    clippy::unwrap_used,
    reason = "clippy knows the tests of an integration test, but not its helpers"
)]

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use pilothouse_cluster::ApiCluster;
use pilothouse_cluster::connect::{Connection, Environment, Options};
use pilothouse_cluster::watch::{CacheSink, WatchSettings, WatchState};
use pilothouse_core::{
    Action, ActionResult, Applied, Author, Cache, Delta, Detail, Execution, Grants, Halt,
    InformerKey, Kind, LabelSelector, Limits, Manifest, ObjectKey, Operation, Outcome, PatchType,
    Permissions, PlanContext, Reader, Requirement, ResourceVersion, Schema, Scope, Snapshot,
    SubjectKey, Verb, Write, WriteDeclaration, plan,
};
use pilothouse_tests::{Server, ServerOptions};
use serde_json::{Value, json};

/// Two field managers, so that one can conflict with the other.
const MANAGER: &str = "plugin-a";
const OTHER_MANAGER: &str = "plugin-b";

/// A server with the host's connection to it, and a namespace on it.
struct Rig {
    server: Server,
    cluster: ApiCluster,
    namespace: String,
}

impl Rig {
    async fn start(options: ServerOptions) -> Result<Self> {
        let server = Server::start_with(options).await?;
        let options = Options {
            kubeconfig: Some(server.kubeconfig().into()),
            ..Options::default()
        };
        let connection = Connection::open(&options, &Environment::default()).await?;
        connection.check(Duration::from_secs(5)).await?;
        Ok(Self {
            namespace: server.namespace().await?,
            cluster: ApiCluster::new(connection.client, "cluster-test"),
            server,
        })
    }

    /// Returns an object of this kind in the namespace.
    fn object(&self, kind: &Kind, name: &str, fields: Value) -> Value {
        let mut object = fields;
        object["apiVersion"] = kind.api_version().into();
        object["kind"] = (*kind.kind).into();
        object["metadata"] = json!({"name": name, "namespace": self.namespace});
        object
    }

    fn config_map(&self, name: &str, data: &str) -> Value {
        self.object(&config_maps(), name, json!({"data": {"x": data}}))
    }

    async fn write(&self, kind: &Kind, name: &str, operation: Operation) -> ActionResult {
        self.write_as(MANAGER, kind, name, None, operation).await
    }

    async fn write_as(
        &self,
        manager: &str,
        kind: &Kind,
        name: &str,
        subresource: Option<&str>,
        operation: Operation,
    ) -> ActionResult {
        let write = Write {
            kind: kind.clone(),
            key: ObjectKey::new(&self.namespace, name),
            subresource: subresource.map(str::to_owned),
            operation,
        };
        self.cluster
            .write(&Author::named(manager), &write)
            .await
            .result
    }

    /// Makes a write that must succeed.
    async fn does(&self, kind: &Kind, name: &str, operation: Operation) -> Result<()> {
        done(&self.write(kind, name, operation).await)
    }

    async fn does_to(
        &self,
        kind: &Kind,
        name: &str,
        subresource: &str,
        operation: Operation,
    ) -> Result<()> {
        let result = self.write_as(MANAGER, kind, name, Some(subresource), operation);
        done(&result.await)
    }

    /// Returns the value of `x` in a ConfigMap's data, null if there is no such ConfigMap.
    async fn data(&self, name: &str) -> Result<Value> {
        let path = format!("/api/v1/namespaces/{}/configmaps/{name}", self.namespace);
        let found = self.server.api.get(&path).await?;
        Ok(found.map_or(Value::Null, |found| found["data"]["x"].clone()))
    }
}

fn config_maps() -> Kind {
    Kind::new("", "v1", "ConfigMap")
}

fn done(result: &ActionResult) -> Result<()> {
    ensure!(matches!(result, ActionResult::Done(_)), "{result:?}");
    Ok(())
}

fn create(body: &Value) -> Operation {
    Operation::Create {
        object: body.to_string(),
    }
}

fn apply(body: &Value) -> Operation {
    Operation::Apply {
        object: body.to_string(),
        force: false,
    }
}

fn update(body: &Value) -> Operation {
    Operation::Update {
        object: body.to_string(),
    }
}

fn patch(patch_type: PatchType, body: &str) -> Operation {
    Operation::Patch {
        patch_type,
        body: body.into(),
    }
}

fn delete(uid: Option<&str>) -> Operation {
    Operation::Delete {
        uid: uid.map(str::to_owned),
        resource_version: None,
        propagation: None,
        grace_period_seconds: Some(0),
    }
}

fn event(note: &str) -> Operation {
    Operation::Event {
        uid: Some("u".into()),
        is_warning: false,
        reason: "Tested".into(),
        action: "Test".into(),
        note: note.into(),
    }
}

/// A cache, and the states that its list-watch reported.
#[derive(Clone)]
struct Sink {
    namespace: String,
    held: Arc<Mutex<(Cache, Vec<WatchState>)>>,
}

impl Sink {
    fn new(kind: &Kind, namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            held: Arc::new(Mutex::new((
                Cache::new(InformerKey::all(kind.clone())),
                vec![],
            ))),
        }
    }

    /// Returns the names of the test's own objects. A cluster with controllers adds others to every
    /// namespace; those have longer names.
    fn names(&self) -> Vec<String> {
        let held = self.held.lock().unwrap();
        let all = held.0.list(Some(&self.namespace));
        let names = all.map(|object| object.key().name.to_owned());
        names.filter(|name| name.len() == 1).collect()
    }

    fn states(&self) -> Vec<WatchState> {
        self.held.lock().unwrap().1.clone()
    }

    /// Waits until the cache holds exactly these names.
    async fn shows(&self, names: &[&str]) -> Result<()> {
        for _ in 0..1000 {
            if self.names() == names {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        bail!(
            "{:?} instead of {names:?}; {:?}",
            self.names(),
            self.states()
        )
    }
}

impl CacheSink for Sink {
    fn schema(&self) -> Arc<Schema> {
        self.held.lock().unwrap().0.schema().clone()
    }

    fn apply(&mut self, delta: Delta) {
        self.held.lock().unwrap().0.apply(delta);
    }

    fn state(&mut self, state: WatchState) {
        self.held.lock().unwrap().1.push(state);
    }
}

/// Sends a patch of an object of this kind that the server refuses, for a plugin that reads
/// nothing. Returns what the plugin hears of it, then what the log says.
async fn heard_of_refusal(rig: &Rig, kind: &Kind) -> Result<(String, String)> {
    let manifest = Manifest {
        name: "p".into(),
        version: "1.0.0".into(),
        reconciles: vec![],
        reads: vec![],
        indexes: vec![],
        writes: vec![WriteDeclaration {
            kind: kind.clone(),
            subresource: None,
            verbs: vec![Verb::Patch],
            children: false,
        }],
        limits: Limits::default(),
        config_schema: None,
        optional: [].into(),
    };
    let action = Action::Patch {
        kind: kind.clone(),
        key: ObjectKey::new(&rig.namespace, "a"),
        subresource: None,
        patch_type: PatchType::Merge,
        body: json!({"metadata": {"labels": {"x": "hunter2?"}}}).to_string(),
    };
    let context = PlanContext {
        manifest: &manifest,
        permissions: &Permissions::of(&manifest, &Grants::as_requested()),
        manager: "p",
        applied: &Applied::default(),
        key: &SubjectKey::singleton(),
    };
    let mut reader = Reader::new(Snapshot::default(), Arc::new(Scope::default()), 0);
    let plan = plan(context, &Outcome::of(vec![action]), &mut reader)?;
    let author = Arc::new(Author::named("p"));
    let mut execution = Execution::new(plan, author, Arc::default(), Halt::default());
    let executed = loop {
        match execution.advance() {
            ControlFlow::Continue((mut begun, under_way)) => {
                let pending = begun.pop().context("the only write")?;
                let answer = rig.cluster.write(pending.author(), pending.write()).await;
                execution = under_way.answered(pending, answer);
            }
            ControlFlow::Break(executed) => break executed,
        }
    };
    let effect = executed.effects.first();
    let plugin = effect.and_then(|effect| effect.result.error());
    let log = executed.failure.map(|failure| failure.message);
    Ok((
        plugin.unwrap_or_default().to_owned(),
        log.unwrap_or_default(),
    ))
}

/// What `children` rely on.
#[tokio::test]
async fn an_apply_of_a_version_that_no_object_has_creates_and_changes_nothing() -> Result<()> {
    let rig = Rig::start(ServerOptions::default()).await?;
    let leases = Kind::new("coordination.k8s.io", "v1", "Lease");
    for kind in &[config_maps(), leases] {
        let mut object = rig.object(kind, "a", json!({}));
        object["metadata"]["resourceVersion"] = "1".into();
        rig.does(kind, "a", apply(&object)).await?;
        object["metadata"]["labels"] = json!({"is": "changed"});
        let forced = Operation::Apply {
            object: object.to_string(),
            force: true,
        };
        let again = rig.write(kind, "a", forced).await;
        ensure!(matches!(again, ActionResult::Conflict(_)), "{again:?}");
        let mut object = rig.object(kind, "a", json!({}));
        object["metadata"]["uid"] = "of-another".into();
        let other = rig.write(kind, "a", apply(&object)).await;
        ensure!(matches!(other, ActionResult::Conflict(_)), "{other:?}");
        object["metadata"]["name"] = "b".into();
        let gone = rig.write(kind, "b", apply(&object)).await;
        ensure!(matches!(gone, ActionResult::Conflict(_)), "{gone:?}");
    }
    Ok(())
}

#[tokio::test]
async fn what_the_server_quotes_of_a_secret_reaches_neither_the_plugin_nor_the_log() -> Result<()> {
    let rig = Rig::start(ServerOptions::default()).await?;
    let secrets = Kind::new("", "v1", "Secret");
    let value = "aHVudGVyMg==";
    let secret = rig.object(&secrets, "a", json!({"data": {"password": value}}));
    rig.does(&secrets, "a", create(&secret)).await?;
    // Planning refuses this patch from a plugin that does not read the Secret: it copies a value to
    // a field in which the server refuses and quotes it.
    let copy = json!([
        {"op": "add", "path": "/metadata/labels", "value": {}},
        {"op": "copy", "from": "/data/password", "path": "/metadata/labels/x"},
    ]);
    let write = Write {
        kind: secrets.clone(),
        key: ObjectKey::new(&rig.namespace, "a"),
        subresource: None,
        operation: Operation::Patch {
            patch_type: PatchType::Json,
            body: copy.to_string(),
        },
    };
    let answer = rig.cluster.write(&Author::named(MANAGER), &write).await;
    let said = answer.result.error().unwrap_or_default();
    ensure!(said.contains(value), "the server quotes it: {said}");
    assert_eq!(answer.status.as_deref(), Some("HTTP 422 Invalid"));

    let (plugin, log) = heard_of_refusal(&rig, &secrets).await?;
    for text in [&plugin, &log] {
        ensure!(text.contains("HTTP 422 Invalid"), "{text}");
        ensure!(!text.contains("hunter2"), "{text}");
    }
    let config = rig.config_map("a", "1");
    rig.does(&config_maps(), "a", create(&config)).await?;
    let (plugin, log) = heard_of_refusal(&rig, &config_maps()).await?;
    ensure!(!plugin.contains("hunter2"), "{plugin}");
    ensure!(log.contains("hunter2"), "{log}");
    Ok(())
}

/// Compacts the history that the watch has seen. The watch notices when it is reopened, after it
/// has been quiet for two seconds. Another kind has to change before, or else nothing would be
/// newer than what the watch has seen.
async fn compact_behind_the_watch(rig: &Rig) -> Result<()> {
    let secrets = Kind::new("", "v1", "Secret");
    let secret = rig.object(&secrets, "s", json!({}));
    rig.does(&secrets, "s", create(&secret)).await?;
    rig.does(&secrets, "s", delete(None)).await?;
    rig.server.compact().await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    Ok(())
}

/// Changes objects of the kind, and waits each time until the cache shows it.
async fn change_under(cache: &Sink, rig: &Rig) -> Result<()> {
    let kind = config_maps();
    cache.shows(&["a", "b", "c", "d", "e"]).await?;
    rig.does(&kind, "b", delete(None)).await?;
    cache.shows(&["a", "c", "d", "e"]).await?;
    if rig.server.is_own() {
        compact_behind_the_watch(rig).await?;
    }
    rig.does(&kind, "f", create(&rig.config_map("f", "1")))
        .await?;
    cache.shows(&["a", "c", "d", "e", "f"]).await?;
    for name in ["a", "c", "d", "e", "f"] {
        rig.does(&kind, name, delete(None)).await?;
    }
    cache.shows(&[]).await
}

/// Runs the list-watch of this informer while `happens` runs. Returns its cache.
async fn follow(
    rig: &Rig,
    informer_key: &InformerKey,
    settings: WatchSettings,
    happens: impl AsyncFnOnce(&Sink) -> Result<()>,
) -> Result<Sink> {
    let cache = Sink::new(&informer_key.kind, &rig.namespace);
    let list_watch = rig
        .cluster
        .list_watch(informer_key, Detail::Full.into(), settings)
        .await?;
    let mut sink = cache.clone();
    tokio::select! {
        never = list_watch.run(&mut sink) => match never {},
        done = happens(&cache) => done?,
    }
    Ok(cache)
}

async fn follows_through_a_compaction(is_streaming: bool) -> Result<()> {
    let options = ServerOptions {
        no_watch_cache: true,
        ..ServerOptions::default()
    };
    let rig = Rig::start(options).await?;
    let settings = WatchSettings {
        is_streaming,
        page_size: 2,
        quiet_limit: Duration::from_secs(2),
        ..WatchSettings::default()
    };
    let kind = config_maps();
    for name in ["a", "b", "c", "d", "e"] {
        rig.does(&kind, name, apply(&rig.config_map(name, "1")))
            .await?;
    }
    let informer_key = InformerKey::all(kind);
    let change = async |cache: &Sink| change_under(cache, &rig).await;
    let cache = follow(&rig, &informer_key, settings, change).await?;
    let mut states = vec![WatchState::Listing, WatchState::Watching];
    // The kind is listed again after a compaction, and only then.
    if rig.server.is_own() {
        states.extend(states.clone());
    }
    assert_eq!(cache.states(), states);
    Ok(())
}

#[tokio::test]
async fn a_cache_follows_its_kind_through_a_compaction() -> Result<()> {
    follows_through_a_compaction(false).await
}

#[tokio::test]
async fn a_cache_that_is_streamed_follows_its_kind_through_a_compaction() -> Result<()> {
    follows_through_a_compaction(true).await
}

/// Where etcd tells how far it is, the bookmarks of short watches keep the position of a quiet kind
/// fresh, so that a compaction cannot remove what it continues from.
#[tokio::test]
async fn the_cache_of_a_quiet_kind_keeps_up_with_the_server() -> Result<()> {
    let rig = Rig::start(ServerOptions {
        tells_progress: true,
        ..ServerOptions::default()
    })
    .await?;
    let settings = WatchSettings {
        quiet_limit: Duration::from_secs(4),
        quiet_timeout: Duration::from_secs(3),
        ..WatchSettings::default()
    };
    let secrets = Kind::new("", "v1", "Secret");
    let wait = async |cache: &Sink| {
        tokio::time::sleep(Duration::from_secs(5)).await;
        let secret = rig.object(&secrets, "s", json!({}));
        let ActionResult::Done(Some(done)) = rig.write(&secrets, "s", create(&secret)).await else {
            bail!("no secret");
        };
        let version = ResourceVersion::new(&done);
        for _ in 0..2500 {
            if *cache.held.lock().unwrap().0.resource_version() >= version {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        bail!("the cache does not get to {version:?}");
    };
    let cache = follow(&rig, &InformerKey::all(config_maps()), settings, wait).await?;
    assert_eq!(cache.states(), [WatchState::Listing, WatchState::Watching]);
    Ok(())
}

#[tokio::test]
async fn a_cache_of_some_objects_follows_those() -> Result<()> {
    let rig = Rig::start(ServerOptions::default()).await?;
    let kind = config_maps();
    let informer_key = InformerKey {
        namespace: Some(rig.namespace.as_str().into()),
        labels: LabelSelector {
            requirements: vec![Requirement::OneOf(
                "app".into(),
                vec!["x".into(), "y".into()],
            )],
        },
        fields: Some("metadata.name!=b".into()),
        ..InformerKey::all(kind.clone())
    };
    let labelled = |name: &str, app: &str| {
        let mut object = rig.config_map(name, "1");
        object["metadata"]["labels"] = json!({"app": app});
        apply(&object)
    };
    let change = async |cache: &Sink| {
        for (name, app) in [("a", "x"), ("b", "x"), ("c", "z"), ("d", "y")] {
            rig.does(&kind, name, labelled(name, app)).await?;
        }
        cache.shows(&["a", "d"]).await?;
        // An object that stops matching arrives as deleted.
        rig.does(&kind, "a", labelled("a", "z")).await?;
        rig.does(&kind, "c", labelled("c", "y")).await?;
        cache.shows(&["c", "d"]).await
    };
    for is_streaming in [true, false] {
        let settings = WatchSettings {
            is_streaming,
            ..WatchSettings::default()
        };
        follow(&rig, &informer_key, settings, change).await?;
    }
    Ok(())
}

#[tokio::test]
async fn every_kind_of_write_of_an_object_is_accepted_or_refused_for_what_it_is() -> Result<()> {
    let rig = Rig::start(ServerOptions::default()).await?;
    let (kind, name) = (config_maps(), "w");
    let object = rig.config_map(name, "1");
    rig.does(&kind, name, create(&object)).await?;
    let again = rig.write(&kind, name, create(&object)).await;
    assert!(matches!(again, ActionResult::AlreadyExists(_)), "{again:?}");
    let theirs = apply(&rig.config_map(name, "2"));
    let conflict = rig.write_as(OTHER_MANAGER, &kind, name, None, theirs).await;
    assert!(
        matches!(conflict, ActionResult::Conflict(_)),
        "{conflict:?}"
    );

    let json_patch = r#"[{"op": "replace", "path": "/data/x", "value": "3"}]"#;
    for (patch_type, body, wanted) in [
        (PatchType::Json, json_patch, "3"),
        (PatchType::Merge, r#"{"data": {"x": "4"}}"#, "4"),
        (PatchType::Strategic, r#"{"data": {"x": "5"}}"#, "5"),
    ] {
        rig.does(&kind, name, patch(patch_type, body)).await?;
        assert_eq!(rig.data(name).await?, wanted);
    }

    rig.does(&kind, name, update(&rig.config_map(name, "6")))
        .await?;
    let mut stale = rig.config_map(name, "7");
    stale["metadata"]["resourceVersion"] = "1".into();
    let stale = rig.write(&kind, name, update(&stale)).await;
    assert!(matches!(stale, ActionResult::Conflict(_)), "{stale:?}");
    assert_eq!(rig.data(name).await?, "6");

    let kept = rig.write(&kind, name, delete(Some("other"))).await;
    assert!(matches!(kept, ActionResult::Conflict(_)), "{kept:?}");
    rig.does(&kind, name, delete(None)).await?;
    assert_eq!(rig.data(name).await?, Value::Null);
    let gone = rig.write(&kind, name, delete(None)).await;
    assert_eq!(gone, ActionResult::Done(None), "gone already");
    Ok(())
}

#[tokio::test]
async fn a_deployment_has_a_status_and_a_scale_of_their_own() -> Result<()> {
    let rig = Rig::start(ServerOptions::default()).await?;
    let kind = Kind::new("apps", "v1", "Deployment");
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template, "paused": true});
    let deployment = rig.object(&kind, "d", json!({"spec": spec}));
    rig.does(&kind, "d", apply(&deployment)).await?;
    let status = rig.object(&kind, "d", json!({"status": {"collisionCount": 7}}));
    rig.does_to(&kind, "d", "status", apply(&status)).await?;
    let scale = patch(PatchType::Merge, r#"{"spec": {"replicas": 3}}"#);
    rig.does_to(&kind, "d", "scale", scale).await?;
    let path = format!("/apis/apps/v1/namespaces/{}/deployments/d", rig.namespace);
    let found = rig.server.api.get(&path).await?.unwrap_or_default();
    assert_eq!(found["status"]["collisionCount"], 7);
    assert_eq!(found["spec"]["replicas"], 3);
    rig.does(&kind, "d", delete(None)).await
}

#[tokio::test]
async fn a_pod_can_be_bound_and_evicted() -> Result<()> {
    let rig = Rig::start(ServerOptions::default()).await?;
    let pods = Kind::new("", "v1", "Pod");
    // No scheduler has this name, so none binds the pod first.
    let spec = json!({"containers": [{"name": "c", "image": "i"}], "schedulerName": "none"});
    let pod = rig.object(&pods, "p", json!({"spec": spec}));
    rig.does(&pods, "p", create(&pod)).await?;
    let path = format!("/api/v1/namespaces/{}/pods/p", rig.namespace);

    let bindings = Kind::new("", "v1", "Binding");
    let target = json!({"target": {"kind": "Node", "name": "n"}});
    let binding = rig.object(&bindings, "p", target);
    rig.does_to(&bindings, "p", "binding", create(&binding))
        .await?;
    let found = rig.server.api.get(&path).await?.unwrap_or_default();
    assert_eq!(found["spec"]["nodeName"], "n");

    let evictions = Kind::new("policy", "v1", "Eviction");
    let eviction = rig.object(&evictions, "p", json!({}));
    rig.does_to(&evictions, "p", "eviction", create(&eviction))
        .await?;
    let found = rig.server.api.get(&path).await?;
    let is_ending = |pod: Value| pod["metadata"]["deletionTimestamp"].is_string();
    assert!(found.is_none_or(is_ending));
    rig.does(&pods, "p", delete(None)).await
}

#[tokio::test]
async fn an_event_is_written_once_and_then_counted_and_its_note_is_cut() -> Result<()> {
    let rig = Rig::start(ServerOptions::default()).await?;
    let pods = Kind::new("", "v1", "Pod");
    for note in ["once", "once", "once", &"é".repeat(2000)] {
        rig.does(&pods, "p", event(note)).await?;
    }
    let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", rig.namespace);
    let list = rig.server.api.get(&path).await?.unwrap_or_default();
    let events = list["items"].as_array().cloned().unwrap_or_default();
    assert_eq!(events.len(), 2, "{list}");
    let once = events.iter().find(|event| event["note"] == "once");
    assert_eq!(once.map(|event| &event["series"]["count"]), Some(&json!(3)));
    Ok(())
}

#[tokio::test]
async fn an_event_about_an_object_without_namespace_is_written_too() -> Result<()> {
    let rig = Rig::start(ServerOptions::default()).await?;
    let write = Write {
        kind: Kind::new("", "v1", "Node"),
        key: ObjectKey::new("", "system:node"),
        subresource: None,
        operation: event("x"),
    };
    done(
        &rig.cluster
            .write(&Author::named(MANAGER), &write)
            .await
            .result,
    )
}

/// Returns the patch of a finalizer action for a ConfigMap that has these finalizers. Its `test`
/// operations check the uid and the finalizers.
fn guarded(uid: &str, have: &Value, wanted: &Value) -> Operation {
    let body = json!([
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": "/metadata/finalizers", "value": have},
        {"op": "add", "path": "/metadata/finalizers", "value": wanted},
    ]);
    Operation::Patch {
        patch_type: PatchType::Json,
        body: body.to_string(),
    }
}

#[tokio::test]
async fn a_patch_whose_test_fails_is_a_conflict_and_one_that_makes_no_sense_is_invalid()
-> Result<()> {
    let rig = Rig::start(ServerOptions::default()).await?;
    let kind = config_maps();
    rig.does(&kind, "a", create(&rig.config_map("a", "1")))
        .await?;
    let path = format!("/api/v1/namespaces/{}/configmaps/a", rig.namespace);
    let object = rig.server.api.get(&path).await?.unwrap_or_default();
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
    let (none, one, two) = (
        Value::Null,
        json!(["x.dev/y"]),
        json!(["x.dev/y", "x.dev/z"]),
    );
    rig.does(&kind, "a", guarded(uid, &none, &one)).await?;
    rig.does(&kind, "a", guarded(uid, &one, &two)).await?;
    for stale in [
        guarded(uid, &none, &one),
        guarded(uid, &one, &none),
        guarded("another", &two, &one),
    ] {
        let result = rig.write(&kind, "a", stale).await;
        ensure!(matches!(result, ActionResult::Conflict(_)), "{result:?}");
    }
    let nonsense = guarded(uid, &two, &json!(["not a name"]));
    let result = rig.write(&kind, "a", nonsense).await;
    ensure!(matches!(result, ActionResult::Invalid(_)), "{result:?}");
    rig.does(&kind, "a", guarded(uid, &two, &json!([]))).await
}
