//! The host evaluates field selectors as the API server does.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use pilothouse_core::{FieldSelector, Kind};
use pilothouse_tests::Server;
use serde_json::{Value, json};

/// Objects of one kind, each with its status or null, and selectors to try on them.
struct Case {
    kind: (&'static str, &'static str),
    /// The path below the server's address, with `NS` in place of the namespace.
    collection: &'static str,
    objects: Vec<(Value, Value)>,
    selectors: &'static [&'static str],
}

/// Returns the object with these members added.
fn with(mut object: Value, more: &Value) -> Value {
    for (name, value) in more.as_object().into_iter().flatten() {
        object[name] = value.clone();
    }
    object
}

fn cases() -> Vec<Case> {
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let always = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let pod = |more: Value| {
        let spec = json!({"containers": [{"name": "c", "image": "i"}]});
        json!({"spec": with(spec, &more)})
    };
    let replica_set = json!({"spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": always}});
    let controller = json!({"spec": {"replicas": 0, "selector": {"a": "b"}, "template": always}});
    let event = |informer_key: Value| {
        let event = json!({"involvedObject": {"kind": "Pod", "namespace": "NS", "name": "x"}, "reason": "R", "type": "Normal"});
        with(event, &informer_key)
    };
    let none = || Value::Null;
    vec![
        Case {
            kind: ("", "Node"),
            collection: "/api/v1/nodes",
            objects: vec![
                (json!({}), none()),
                (json!({"spec": {"unschedulable": true}}), none()),
            ],
            selectors: &[
                "spec.unschedulable=false",
                "spec.unschedulable=true",
                "spec.unschedulable!=true",
            ],
        },
        Case {
            kind: ("", "Pod"),
            collection: "/api/v1/namespaces/NS/pods",
            objects: vec![
                (
                    pod(json!({"nodeName": "n"})),
                    json!({"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}),
                ),
                (pod(json!({"hostNetwork": true})), none()),
            ],
            selectors: &[
                "spec.hostNetwork=false",
                "spec.hostNetwork=true",
                "spec.nodeName=",
                "spec.nodeName=n",
                "status.phase=Pending",
                "status.phase!=Running",
                "status.podIP=10.0.0.1",
                "status.podIP=",
                "spec.restartPolicy=Always",
                "spec.serviceAccountName=",
                "spec.schedulerName=default-scheduler",
                "status.nominatedNodeName=",
            ],
        },
        Case {
            kind: ("apps", "ReplicaSet"),
            collection: "/apis/apps/v1/namespaces/NS/replicasets",
            objects: vec![
                (replica_set.clone(), none()),
                (replica_set, json!({"replicas": 2})),
            ],
            selectors: &[
                "status.replicas=0",
                "status.replicas=2",
                "status.replicas!=0",
            ],
        },
        Case {
            kind: ("", "ReplicationController"),
            collection: "/api/v1/namespaces/NS/replicationcontrollers",
            objects: vec![
                (controller.clone(), none()),
                (controller, json!({"replicas": 2})),
            ],
            selectors: &["status.replicas=0", "status.replicas=2"],
        },
        Case {
            kind: ("batch", "Job"),
            collection: "/apis/batch/v1/namespaces/NS/jobs",
            objects: vec![
                (json!({"spec": {"template": template}}), none()),
                (
                    json!({"spec": {"template": template}}),
                    json!({"succeeded": 2}),
                ),
            ],
            selectors: &[
                "status.successful=0",
                "status.successful=2",
                "status.successful!=2",
            ],
        },
        Case {
            kind: ("", "Secret"),
            collection: "/api/v1/namespaces/NS/secrets",
            objects: vec![
                (json!({}), none()),
                (json!({"type": "example.com/x"}), none()),
            ],
            selectors: &["type=Opaque", "type=example.com/x", "type!=Opaque"],
        },
        Case {
            kind: ("", "Namespace"),
            collection: "/api/v1/namespaces",
            objects: vec![(json!({}), none())],
            selectors: &[
                "status.phase=Active",
                "status.phase=Terminating",
                "metadata.name=none",
            ],
        },
        Case {
            kind: ("", "Service"),
            collection: "/api/v1/namespaces/NS/services",
            objects: vec![(
                json!({"spec": {"clusterIP": "None", "ports": [{"port": 80}]}}),
                none(),
            )],
            selectors: &[
                "spec.type=ClusterIP",
                "spec.clusterIP=None",
                "spec.clusterIP=",
            ],
        },
        Case {
            kind: ("", "Event"),
            collection: "/api/v1/namespaces/NS/events",
            objects: vec![
                (event(json!({"source": {"component": "kubelet"}})), none()),
                (
                    event(
                        json!({"reportingComponent": "me", "reportingInstance": "i", "action": "A", "eventTime": "2026-01-01T00:00:00.000000Z"}),
                    ),
                    none(),
                ),
            ],
            selectors: &[
                "source=kubelet",
                "source=me",
                "source=",
                "reason=R",
                "involvedObject.name=x",
                "reportingComponent=me",
                "type!=Normal",
            ],
        },
    ]
}

async fn create(
    server: &Server,
    collection: &str,
    number: usize,
    case: &Case,
    namespace: &str,
) -> Result<()> {
    let (object, status) = &case.objects[number];
    let mut object: Value = serde_json::from_str(&object.to_string().replace("NS", namespace))?;
    let (group, kind) = case.kind;
    object["apiVersion"] = if group.is_empty() {
        "v1".into()
    } else {
        format!("{group}/v1").into()
    };
    object["kind"] = kind.into();
    let name = format!("{}-{number}", kind.to_lowercase());
    object["metadata"] = json!({"name": name});
    if kind == "Event" {
        object["metadata"]["namespace"] = namespace.into();
    }
    server
        .api
        .create(collection, &object)
        .await
        .with_context(|| object.to_string())?;
    if !status.is_null() {
        let path = format!("{collection}/{name}/status");
        server.api.merge(&path, &json!({"status": status})).await?;
    }
    Ok(())
}

fn names<'a>(objects: impl Iterator<Item = &'a Value>) -> BTreeSet<String> {
    let names = objects.filter_map(|object| object["metadata"]["name"].as_str());
    names.map(str::to_owned).collect()
}

async fn list(server: &Server, path: &str) -> Result<Vec<Value>> {
    let list = server
        .api
        .get(path)
        .await?
        .with_context(|| format!("no {path}"))?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

#[tokio::test]
async fn a_field_selector_means_to_the_host_what_it_means_to_the_server() -> Result<()> {
    let server = Server::start().await?;
    let namespace = server.namespace().await?;
    for case in cases() {
        let collection = case.collection.replace("NS", &namespace);
        for number in 0..case.objects.len() {
            create(&server, &collection, number, &case, &namespace).await?;
        }
        let all = list(&server, &collection).await?;
        let kind = Kind::new(case.kind.0, "v1", case.kind.1);
        for text in case.selectors {
            let by_server = list(
                &server,
                &format!(
                    "{collection}?fieldSelector={}",
                    text.replace('=', "%3D").replace('!', "%21")
                ),
            )
            .await;
            let by_server = by_server.with_context(|| format!("{kind} {text}"))?;
            let selector = FieldSelector::parse(&kind, text)?;
            let by_host = all
                .iter()
                .filter(|object| selector.matches(&object.to_string()));
            assert_eq!(names(by_host), names(by_server.iter()), "{kind} {text}");
        }
    }
    Ok(())
}
