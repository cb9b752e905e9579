//! Kinds that come from types: reads, writes, owners, and the types of k8s-openapi.
#![cfg(feature = "k8s-openapi")]

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStatus};
use k8s_openapi::api::core::v1::{ConfigMap, Container, Pod, PodSpec, PodTemplateSpec};
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    LabelSelector, MicroTime, ObjectMeta, OwnerReference, Time,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use pilothouse_sdk::testing::{FakeCluster, to_json};
use pilothouse_sdk::{
    Action, Apply, Children, Controller, Delete, Failure, Filter, Host, Kind, Manifest, Metadata,
    ObjectRef, Outcome, Projection, Request, Selection, Verb,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[test]
fn a_type_of_k8s_openapi_knows_its_kind() {
    assert_eq!(Pod::KIND, "v1/Pod");
    assert_eq!(Deployment::KIND, "apps/v1/Deployment");
    let role = "rbac.authorization.k8s.io/v1/ClusterRole";
    assert_eq!(ClusterRole::KIND, role);
}

/// Keeps a Deployment for each ConfigMap, and counts its pods in the ConfigMap.
struct Keeper;

impl Controller for Keeper {
    fn manifest() -> Manifest {
        Manifest::new("keeper", "1.0.0", Selection::of(ConfigMap::KIND))
            .reads(ConfigMap::KIND, [".data.replicas"])
            .reads(Deployment::KIND, [".spec", ".status.readyReplicas"])
            .reads(Pod::KIND, [".spec.nodeName"])
            .keeps_children(Deployment::KIND)
            .writes(ConfigMap::KIND, [Verb::Apply])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let key = request.key();
        let Some(source) = request.object::<ConfigMap>()? else {
            return Ok(Outcome::done().with(Children::none()));
        };
        let data = source.data.unwrap_or_default();
        let replicas = data.get("replicas").and_then(|text| text.parse().ok());
        let deployment = deployment(request, replicas)?;
        let pods = host.list_as::<Pod>(Some(&key.namespace), &Filter::Everything)?;
        let placed = pods.iter().filter_map(|pod| pod.spec.as_ref());
        let placed = placed.filter(|spec| spec.node_name.is_some()).count();
        let current = host.get_as::<Deployment>(&key.namespace, &key.name)?;
        let ready = current
            .and_then(|current| current.status)
            .and_then(|status| status.ready_replicas);
        let counts = ConfigMap {
            metadata: ObjectMeta::from(key),
            data: Some(
                [
                    ("placed".to_owned(), placed.to_string()),
                    ("ready".to_owned(), ready.unwrap_or(0).to_string()),
                ]
                .into(),
            ),
            ..ConfigMap::default()
        };
        Ok(Outcome::done()
            .with(Children::none().and(&deployment)?)
            .with(Apply::new(&counts)?))
    }
}

/// The Deployment that the key should have.
fn deployment(request: &Request, replicas: Option<i32>) -> Result<Deployment, Failure> {
    let key = request.key();
    let labels = Some([("app".to_owned(), key.name.clone())].into());
    Ok(Deployment {
        metadata: ObjectMeta {
            owner_references: Some(vec![request.owner_reference()?.controller().into()]),
            ..ObjectMeta::from(key)
        },
        spec: DeploymentSpec {
            replicas,
            selector: LabelSelector {
                match_labels: labels.clone(),
                ..LabelSelector::default()
            },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels,
                    ..ObjectMeta::default()
                }),
                spec: Some(PodSpec {
                    containers: vec![Container {
                        name: "main".to_owned(),
                        image: Some("registry.example/main".to_owned()),
                        ..Container::default()
                    }],
                    ..PodSpec::default()
                }),
            },
            ..DeploymentSpec::default()
        },
        status: None,
    })
}

#[test]
fn a_controller_reads_and_writes_by_type() {
    let source = ConfigMap {
        metadata: ObjectMeta {
            uid: Some("u1".to_owned()),
            ..ObjectMeta::from(&ObjectRef::new("", "default", "a"))
        },
        data: Some([("replicas".to_owned(), "3".to_owned())].into()),
        ..ConfigMap::default()
    };
    let pod = |name: &str, node_name: Option<&str>| Pod {
        metadata: ObjectMeta::from(&ObjectRef::new("", "default", name)),
        spec: Some(PodSpec {
            node_name: node_name.map(str::to_owned),
            ..PodSpec::default()
        }),
        status: None,
    };
    let mut cluster = FakeCluster::new(Keeper::manifest())
        .with(&source)
        .with(pod("p1", Some("n1")))
        .with(pod("p2", None));
    let runs = cluster.run_due::<Keeper>();
    assert!(runs.iter().all(|run| run.error.is_none()), "{runs:?}");

    let made: Deployment = cluster.object_as("default", "a").expect("it was made");
    assert_eq!(made.spec.replicas, Some(3));
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: "a".to_owned(),
        uid: "u1".to_owned(),
        controller: Some(true),
        block_owner_deletion: None,
    };
    assert_eq!(made.metadata.owner_references, Some(vec![owner]));

    let ready = Deployment {
        status: Some(DeploymentStatus {
            ready_replicas: Some(2),
            ..DeploymentStatus::default()
        }),
        ..made
    };
    let mut cluster = cluster.with(&ready);
    cluster.run_due::<Keeper>();
    let counted: ConfigMap = cluster.object_as("default", "a").expect("it is there");
    let data = counted.data.unwrap_or_default();
    assert_eq!(
        (data["placed"].as_str(), data["ready"].as_str()),
        ("1", "2")
    );

    cluster.delete(&ObjectRef::new(ConfigMap::KIND, "default", "a"));
    cluster.run_due::<Keeper>();
    assert!(cluster.object_as::<Deployment>("default", "a").is_none());
}

fn object_of(apply: Apply) -> Value {
    to_json(&Action::from(apply))["apply"]["object"].clone()
}

#[test]
fn a_partial_apply_sends_what_is_set_and_nothing_else() {
    let scaled = Deployment {
        metadata: ObjectMeta::from(&ObjectRef::new("", "default", "a")),
        spec: DeploymentSpec {
            replicas: Some(0),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta::default()),
                spec: None,
            },
            ..DeploymentSpec::default()
        },
        status: None,
    };
    let sent = object_of(Apply::partial(&scaled).expect("it has a JSON form"));
    assert_eq!(
        sent,
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"namespace": "default", "name": "a"},
            "spec": {"replicas": 0, "template": {"metadata": {}}},
        })
    );
    let whole = object_of(Apply::new(&scaled).expect("it has a JSON form"));
    assert_eq!(whole["spec"]["selector"], json!({}));
}

#[derive(Debug, Default, PartialEq, Deserialize, Serialize, Projection)]
#[projection(kind = "example.com/v1/Widget")]
#[serde(default)]
struct Widget {
    #[projection(whole)]
    metadata: ObjectMeta,
    spec: WidgetSpec,
}

#[derive(Debug, Default, PartialEq, Deserialize, Serialize, Projection)]
#[serde(default)]
struct WidgetSpec {
    size: Option<u8>,
    colour: Option<String>,
    names: Vec<Option<String>>,
}

#[test]
fn a_partial_apply_of_an_own_type_knows_its_kind_and_leaves_out_nulls() {
    let widget = Widget {
        metadata: ObjectMeta::from(&ObjectRef::new(Widget::KIND, "", "w")),
        spec: WidgetSpec {
            size: Some(0),
            colour: None,
            names: vec![None],
        },
    };
    let sent = object_of(Apply::partial(&widget).expect("it has a JSON form"));
    assert_eq!(
        sent,
        json!({
            "apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": {"name": "w"}, "spec": {"size": 0, "names": [null]},
        })
    );
    assert_eq!(Widget::fields()[0], ".metadata");
}

#[test]
fn an_apply_of_a_status_names_the_object_and_the_subresource() {
    let status = json!({"size": 3, "reason": null, "inner": {"a": null, "b": []}});
    let key = ObjectRef::new("example.com/v1/Widget", "default", "w");
    let apply = Apply::status(&key, &status).expect("it has a JSON form");
    assert_eq!(apply.subresource.as_deref(), Some("status"));
    let wanted = json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"namespace": "default", "name": "w"},
        "status": {"size": 3, "inner": {"b": []}},
    });
    assert_eq!(object_of(apply), wanted);
    let node = ObjectRef::new("v1/Node", "", "n");
    let apply = Apply::status(&node, &status).expect("it has a JSON form");
    assert_eq!(object_of(apply)["metadata"], json!({"name": "n"}));
}

#[test]
fn a_grace_period_is_rounded_up_to_seconds() {
    let pod = ObjectRef::new(Pod::KIND, "default", "p");
    let seconds = [0, 1, 1_000, 1_001, u64::MAX].map(|milliseconds| {
        let period = Duration::from_millis(milliseconds);
        Delete::new(&pod).grace_period(period).grace_period_seconds
    });
    let wanted = [0, 1, 1, 2, u32::MAX].map(Some);
    assert_eq!(seconds, wanted);
}

struct Owning;

impl Controller for Owning {
    fn manifest() -> Manifest {
        Manifest::new("owning", "1.0.0", Selection::of("v1/Pod")).reads_whole("v1/Pod")
    }

    fn reconcile(request: &Request, _: &dyn Host) -> Result<Outcome, Failure> {
        let owner = request.owner_reference()?;
        let controller = request.controller_reference()?;
        assert_eq!(controller, owner.controller().block_owner_deletion());
        Ok(Outcome::done())
    }
}

#[test]
fn an_object_that_is_gone_owns_nothing() {
    let cluster = FakeCluster::new(Owning::manifest());
    let wanted = Failure::terminal("v1/Pod default/a is gone and cannot own anything");
    assert_eq!(cluster.reconcile::<Owning>("default", "a"), Err(wanted));
    let cluster = cluster.with(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": "a"},
    }));
    assert_eq!(
        cluster.reconcile::<Owning>("default", "a"),
        Ok(Outcome::done())
    );
}

#[test]
fn times_and_metadata_are_converted() {
    let now: pilothouse_sdk::Time = "2026-01-02T03:04:05Z".parse().expect("it is a time");
    let time = Time::from(now);
    assert_eq!(json!(time), json!("2026-01-02T03:04:05Z"));
    assert_eq!(pilothouse_sdk::Time::from(&time), now);
    let before: Time = serde_json::from_value(json!("1960-01-01T00:00:00Z")).expect("a time");
    assert_eq!(
        pilothouse_sdk::Time::from(&before),
        pilothouse_sdk::Time::default()
    );

    let pod: Pod = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "default", "name": "p", "uid": "u",
            "deletionTimestamp": "2026-01-02T03:04:05Z",
        },
    }))
    .expect("a pod");
    let metadata = Metadata::from(&pod.metadata);
    assert_eq!(metadata.deletion_timestamp, Some(now));
    assert_eq!(metadata.of_kind(Pod::KIND).to_string(), "v1/Pod default/p");
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"});
    assert_eq!(json!(metadata.owner_reference(Pod::KIND)), owner);
    let controller = json!({
        "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u",
        "controller": true, "blockOwnerDeletion": true,
    });
    let reference = metadata.controller_reference(Pod::KIND);
    assert_eq!(json!(OwnerReference::from(reference.clone())), controller);
    let typed = OwnerReference::from(reference.clone());
    assert_eq!(pilothouse_sdk::OwnerReference::from(&typed), reference);
}

#[test]
fn micro_times_are_converted() {
    let text = "2026-01-02T03:04:05.000250Z";
    let time: pilothouse_sdk::MicroTime = text.parse().expect("it is a time");
    let typed = MicroTime::from(time);
    assert_eq!(json!(typed), json!(text));
    assert_eq!(pilothouse_sdk::MicroTime::from(&typed), time);
}

#[test]
fn quantities_are_converted() {
    let typed = Quantity("1.5Gi".to_owned());
    let own = pilothouse_sdk::Quantity::try_from(&typed).expect("it is a quantity");
    assert_eq!(Quantity::from(own), Quantity("1536Mi".to_owned()));
    assert!(pilothouse_sdk::Quantity::try_from(&Quantity("much".to_owned())).is_err());
}

#[test]
fn selectors_and_numbers_or_texts_are_converted() {
    let json = json!({
        "matchLabels": {"app": "web"},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["a"]},
            {"key": "canary", "operator": "DoesNotExist"},
        ],
    });
    let typed: LabelSelector = serde_json::from_value(json.clone()).expect("a selector");
    let selector = pilothouse_sdk::LabelSelector::from(&typed);
    assert_eq!(json!(selector), json);
    for json in [json!(3), json!("25%")] {
        let typed: IntOrString = serde_json::from_value(json.clone()).expect("it is one");
        let own = pilothouse_sdk::IntOrString::from(&typed);
        assert_eq!(json!(own), json);
        assert_eq!(IntOrString::from(own), typed);
    }
}
