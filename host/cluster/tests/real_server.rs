//! The same against a real API server, by hand: start `tests/apiserver` with `--watch-cache=false` (so that a compaction is felt at
//! once) and an empty data directory, point KUBECONFIG at it, and run with `--ignored`.
#![allow(
    clippy::unwrap_used,
    reason = "clippy knows the tests of an integration test, but not its helpers"
)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pilothouse_cluster::ApiCluster;
use pilothouse_cluster::connect::{Connection, Environment, Options};
use pilothouse_cluster::watch::{CacheSink, Settings, WatchState};
use pilothouse_core::cache::{Delta, KindCache};
use pilothouse_core::cluster::{Cluster, Operation, Write};
use pilothouse_core::key::{Kind, ObjectKey};
use pilothouse_core::object::Schema;
use pilothouse_core::outcome::{ActionResult, PatchType};
use serde_json::{Value, json};

/// A cache, and what the list-watch said about itself.
#[derive(Clone)]
struct Cache(Arc<Mutex<(KindCache, Vec<WatchState>)>>);

impl Cache {
    fn new(kind: &Kind) -> Self {
        Self(Arc::new(Mutex::new((KindCache::new(kind.clone()), vec![]))))
    }

    fn names(&self) -> Vec<String> {
        let held = self.0.lock().unwrap();
        held.0
            .list(Some("default"))
            .map(|object| object.header.key.name.to_string())
            .collect()
    }

    fn states(&self) -> Vec<WatchState> {
        self.0.lock().unwrap().1.clone()
    }

    /// Until the names are these.
    async fn shows(&self, names: &[&str]) {
        for _ in 0..1000 {
            if self.names() == names {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!(
            "{:?} instead of {names:?}; {:?}",
            self.names(),
            self.states()
        );
    }
}

impl CacheSink for Cache {
    fn schema(&self) -> Arc<Schema> {
        self.0.lock().unwrap().0.schema().clone()
    }

    fn apply(&mut self, delta: Delta) {
        self.0.lock().unwrap().0.apply(delta);
    }

    fn state(&mut self, state: WatchState) {
        self.0.lock().unwrap().1.push(state);
    }
}

fn write(kind: &Kind, name: &str, subresource: Option<&str>, operation: Operation) -> Write {
    let key = ObjectKey::new("default", name);
    Write {
        kind: kind.clone(),
        key,
        subresource: subresource.map(str::to_owned),
        operation,
    }
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

fn delete() -> Operation {
    Operation::Delete {
        uid: None,
        resource_version: None,
        propagation: None,
        grace_period_seconds: Some(0),
    }
}

fn done(result: &ActionResult) {
    assert!(matches!(result, ActionResult::Done(_)), "{result:?}");
}

async fn connect() -> (Connection, ApiCluster) {
    let connection = Connection::open(&Options::default(), &Environment::of_process())
        .await
        .unwrap();
    connection.check(Duration::from_secs(5)).await.unwrap();
    let cluster = ApiCluster::new(connection.client.clone(), "real-server-test");
    (connection, cluster)
}

fn config_map(name: &str, data: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"x": data}})
}

#[tokio::test]
#[ignore = "needs a cluster"]
async fn a_cache_follows_a_kind_through_a_compaction() {
    let (connection, cluster) = connect().await;
    let kind = Kind::new("", "v1", "ConfigMap");
    let settings = Settings {
        page_size: 2,
        quiet_limit: Duration::from_secs(2),
        ..Settings::default()
    };
    for name in ["a", "b", "c", "d", "e"] {
        done(
            &cluster
                .write(
                    "m",
                    &write(&kind, name, None, apply(&config_map(name, "1"))),
                )
                .await,
        );
    }
    let cache = Cache::new(&kind);
    let list_watch = cluster.list_watch(&kind, settings).await.unwrap();
    let mut sink = cache.clone();
    let follow = async { match list_watch.run(&mut sink).await {} };
    let change = async {
        cache.shows(&["a", "b", "c", "d", "e"]).await;
        done(&cluster.write("m", &write(&kind, "b", None, delete())).await);
        cache.shows(&["a", "c", "d", "e"]).await;
        // What the watch has seen is compacted away once something else has happened; it notices when it is opened again, after
        // two quiet seconds.
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}});
        let secrets = Kind::new("", "v1", "Secret");
        done(
            &cluster
                .write("m", &write(&secrets, "s", None, create(&secret)))
                .await,
        );
        done(
            &cluster
                .write("m", &write(&secrets, "s", None, delete()))
                .await,
        );
        let compact = http::Request::post("/testing/compact").body(kube::client::Body::empty());
        connection.client.send(compact.unwrap()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(3)).await;
        done(
            &cluster
                .write("m", &write(&kind, "f", None, create(&config_map("f", "1"))))
                .await,
        );
        cache.shows(&["a", "c", "d", "e", "f"]).await;
        for name in ["a", "c", "d", "e", "f"] {
            done(
                &cluster
                    .write("m", &write(&kind, name, None, delete()))
                    .await,
            );
        }
        cache.shows(&[]).await;
    };
    tokio::select! { () = follow => {}, () = change => {} }
    let (listing, watching) = (WatchState::Listing, WatchState::Watching);
    assert_eq!(
        cache.states(),
        [listing.clone(), watching.clone(), listing, watching]
    );
}

#[tokio::test]
#[ignore = "needs a cluster"]
async fn every_kind_of_write_is_accepted() {
    let (_, cluster) = connect().await;
    let (maps, deployments, pods) = (
        Kind::new("", "v1", "ConfigMap"),
        Kind::new("apps", "v1", "Deployment"),
        Kind::new("", "v1", "Pod"),
    );
    let send = async |write: Write| cluster.write("plugin-a", &write).await;

    done(&send(write(&maps, "w", None, create(&config_map("w", "1")))).await);
    let again = send(write(&maps, "w", None, create(&config_map("w", "1")))).await;
    assert!(matches!(again, ActionResult::AlreadyExists(_)), "{again:?}");
    let conflict = cluster
        .write(
            "plugin-b",
            &write(&maps, "w", None, apply(&config_map("w", "2"))),
        )
        .await;
    assert!(
        matches!(conflict, ActionResult::Conflict(_)),
        "{conflict:?}"
    );
    for (patch_type, body) in [
        (
            PatchType::Json,
            r#"[{"op": "replace", "path": "/data/x", "value": "3"}]"#,
        ),
        (PatchType::Merge, r#"{"data": {"x": "4"}}"#),
        (PatchType::Strategic, r#"{"data": {"x": "5"}}"#),
    ] {
        done(
            &send(write(
                &maps,
                "w",
                None,
                Operation::Patch {
                    patch_type,
                    body: body.into(),
                },
            ))
            .await,
        );
    }
    done(
        &send(write(
            &maps,
            "w",
            None,
            Operation::Update {
                object: config_map("w", "6").to_string(),
            },
        ))
        .await,
    );
    let mut stale = config_map("w", "7");
    stale["metadata"]["resourceVersion"] = "1".into();
    let stale = send(write(
        &maps,
        "w",
        None,
        Operation::Update {
            object: stale.to_string(),
        },
    ))
    .await;
    assert!(matches!(stale, ActionResult::Conflict(_)), "{stale:?}");
    let wrong_uid = Operation::Delete {
        uid: Some("other".into()),
        resource_version: None,
        propagation: None,
        grace_period_seconds: None,
    };
    let kept = send(write(&maps, "w", None, wrong_uid)).await;
    assert!(matches!(kept, ActionResult::Conflict(_)), "{kept:?}");
    done(&send(write(&maps, "w", None, delete())).await);
    assert_eq!(
        send(write(&maps, "w", None, delete())).await,
        ActionResult::Done(None),
        "gone already"
    );

    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "default"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template},
    });
    done(&send(write(&deployments, "d", None, apply(&deployment))).await);
    let status = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "default"}, "status": {"replicas": 1}});
    done(&send(write(&deployments, "d", Some("status"), apply(&status))).await);
    let scale = Operation::Patch {
        patch_type: PatchType::Merge,
        body: r#"{"spec": {"replicas": 3}}"#.into(),
    };
    done(&send(write(&deployments, "d", Some("scale"), scale)).await);
    done(&send(write(&deployments, "d", None, delete())).await);

    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": template["spec"]});
    done(&send(write(&pods, "p", None, create(&pod))).await);
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p", "namespace": "default"}, "target": {"kind": "Node", "name": "n"}});
    done(
        &send(write(
            &Kind::new("", "v1", "Binding"),
            "p",
            Some("binding"),
            create(&binding),
        ))
        .await,
    );
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": "default"}});
    done(
        &send(write(
            &Kind::new("policy", "v1", "Eviction"),
            "p",
            Some("eviction"),
            create(&eviction),
        ))
        .await,
    );
    done(&send(write(&pods, "p", None, delete())).await);

    let event = |note: &str| Operation::Event {
        uid: Some("u".into()),
        is_warning: false,
        reason: "Tested".into(),
        action: "Test".into(),
        note: note.into(),
    };
    for note in ["once", "once", "once", &"é".repeat(2000)] {
        done(&send(write(&pods, "p", None, event(note))).await);
    }
    let mut on_node = write(
        &Kind::new("", "v1", "Node"),
        "system:node",
        None,
        event("x"),
    );
    on_node.key = ObjectKey::new("", "system:node");
    done(&send(on_node).await);
}
