//! What one reconcile of each shipped plugin costs: as a component, and the same code natively in
//! the same hub.

use std::sync::Arc;

use anyhow::Result;
use pilothouse_core::{Plugin, SubjectKey};
use pilothouse_wasm::{Engine, EngineOptions, WasmPlugin};
use serde_json::{Value, json};

use crate::turns::{Native, load, row, time_turns};

/// How many pods, or Jobs, or nodes there are for the one object.
const MANY: usize = 10;

/// How many reconciles are measured.
const RECONCILES: usize = 500;

const NAME: &str = "web";

/// Prints the costs.
///
/// # Errors
///
/// A plugin is not built, or a reconcile fails.
pub fn print() -> Result<()> {
    println!("one reconcile: the guest against the same code, native, in the same hub");
    let engine = Engine::new(&EngineOptions::default())?;
    macro_rules! print {
        ($name:literal, $controller:ty, $kind:literal, $objects:expr) => {{
            let wasm = load(&engine, $name)?;
            let native = Native::<$controller>::like(&wasm);
            print_one($name, $kind, wasm, native, &$objects)?;
        }};
    }
    print!(
        "deployment",
        deployment::DeploymentController,
        "Deployment",
        deployment()
    );
    print!(
        "replicaset",
        replicaset::ReplicaSetController,
        "ReplicaSet",
        with_pods("ReplicaSet")
    );
    print!(
        "replicationcontroller",
        replicationcontroller::ReplicationControllerController,
        "ReplicationController",
        with_pods("ReplicationController")
    );
    print!(
        "statefulset",
        statefulset::StatefulSetController,
        "StatefulSet",
        with_pods("StatefulSet")
    );
    print!(
        "daemonset",
        daemonset::DaemonSetController,
        "DaemonSet",
        with_pods("DaemonSet")
    );
    print!("job", job::JobController, "Job", with_pods("Job"));
    print!("cronjob", cronjob::CronJobController, "CronJob", cron_job());
    print!(
        "endpoints",
        endpoints::EndpointsController,
        "Service",
        with_pods("Service")
    );
    Ok(())
}

fn print_one(
    name: &str,
    kind: &str,
    wasm: Arc<WasmPlugin>,
    native: Arc<dyn Plugin>,
    objects: &[Value],
) -> Result<()> {
    let counts = |key: &SubjectKey| {
        *key.object.name == *NAME && key.kind.as_ref().is_some_and(|of| *of.kind == *kind)
    };
    let guest = time_turns(wasm, "{}", objects, RECONCILES, counts)?;
    let native = time_turns(native, "{}", objects, RECONCILES, counts)?;
    row(
        &format!(
            "{name}, a {kind} of {}: {guest:.0?}, native {native:.0?}",
            objects.len() - 1
        ),
        &format!("{:.1}x", guest.as_secs_f64() / native.as_secs_f64()),
        "",
    );
    Ok(())
}

fn api_version(kind: &str) -> &'static str {
    match kind {
        "Job" | "CronJob" => "batch/v1",
        "ReplicationController" | "Service" | "Node" | "Pod" => "v1",
        _ => "apps/v1",
    }
}

fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": NAME}},
        "spec": {
            "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "securityContext": {},
            "schedulerName": "default-scheduler", "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "main", "image": "example.dev/web:1", "env": [
                {"name": "SETTING", "value": "v".repeat(400)},
            ]}],
        },
    })
}

/// An object, as the API server would have it, with a status of ten pods that are well.
fn object(kind: &str, name: &str, size: usize) -> Value {
    let labels = json!({"app": NAME});
    let selector = match kind {
        "Service" | "ReplicationController" => labels,
        _ => json!({"matchLabels": labels}),
    };
    let mut spec = json!({"selector": selector, "template": template()});
    match kind {
        "Service" => {
            spec = json!({"selector": selector, "ports": [{"port": 80, "targetPort": 8080}]});
        }
        "Deployment" => {
            let rolling = json!({"maxSurge": "25%", "maxUnavailable": "25%"});
            spec["replicas"] = size.into();
            spec["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": rolling});
            spec["progressDeadlineSeconds"] = 600.into();
            spec["revisionHistoryLimit"] = 10.into();
        }
        "Job" => {
            spec["completionMode"] = "NonIndexed".into();
            spec["podReplacementPolicy"] = "TerminatingOrFailed".into();
            spec["parallelism"] = size.into();
            spec["completions"] = size.into();
            spec["backoffLimit"] = 6.into();
            spec["template"]["spec"]["restartPolicy"] = "Never".into();
        }
        "DaemonSet" => spec["updateStrategy"] = json!({"type": "OnDelete"}),
        "StatefulSet" => {
            spec["podManagementPolicy"] = "OrderedReady".into();
            spec["replicas"] = size.into();
            spec["serviceName"] = NAME.into();
            spec["updateStrategy"] = json!({"type": "OnDelete"});
        }
        _ => spec["replicas"] = size.into(),
    }
    json!({
        "apiVersion": api_version(kind), "kind": kind,
        "metadata": {
            "namespace": "default", "name": name, "uid": format!("uid-{name}"), "generation": 1,
            "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": NAME},
        },
        "spec": spec,
        "status": {
            "observedGeneration": 1, "replicas": size, "fullyLabeledReplicas": size,
            "readyReplicas": size, "availableReplicas": size,
        },
    })
}

fn owned_by(owner: &Value, mut object: Value) -> Value {
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": owner["apiVersion"], "kind": owner["kind"],
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    }]);
    object
}

/// A pod that is ready, on a node of its own.
fn pod(number: usize) -> Value {
    let mut spec = template()["spec"].take();
    spec["nodeName"] = format!("node-{number}").into();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "default", "name": format!("{NAME}-{number}"),
            "uid": format!("uid-pod-{number}"), "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": NAME},
            "finalizers": ["batch.kubernetes.io/job-tracking"],
        },
        "spec": spec,
        "status": {
            "phase": "Running", "podIP": format!("10.0.0.{}", number + 1),
            "podIPs": [{"ip": format!("10.0.0.{}", number + 1)}],
            "conditions": [{
                "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:09Z",
            }],
        },
    })
}

/// One object of this kind, and its pods. That of a DaemonSet also has nodes.
fn with_pods(kind: &str) -> Vec<Value> {
    let owner = object(kind, NAME, MANY);
    let pods = (0..MANY).map(|number| match kind {
        "Service" => pod(number),
        _ => owned_by(&owner, pod(number)),
    });
    let mut objects: Vec<Value> = pods.collect();
    if kind == "DaemonSet" {
        objects.extend((0..MANY).map(|number| {
            let name = format!("node-{number}");
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        }));
    }
    objects.push(owner);
    objects
}

/// A Deployment with a ReplicaSet of its pods, and some of earlier revisions.
fn deployment() -> Vec<Value> {
    let owner = object("Deployment", NAME, MANY);
    let sets = (0..5).map(|number| {
        let hash = format!("hash{number}");
        let size = if number == 0 { MANY } else { 0 };
        let mut set = owned_by(
            &owner,
            object("ReplicaSet", &format!("{NAME}-{hash}"), size),
        );
        let revision = (5 - number).to_string();
        set["metadata"]["annotations"] = json!({"deployment.kubernetes.io/revision": revision});
        for path in [
            "/metadata/labels",
            "/spec/selector/matchLabels",
            "/spec/template/metadata/labels",
        ] {
            let labels = set.pointer_mut(path).expect("it has labels");
            labels["pod-template-hash"] = hash.clone().into();
        }
        if number > 0 {
            let image = format!("example.dev/web:0.{number}");
            set["spec"]["template"]["spec"]["containers"][0]["image"] = image.into();
        }
        set
    });
    let mut objects: Vec<Value> = sets.collect();
    objects.push(owner);
    objects
}

/// A CronJob with Jobs that have ended.
fn cron_job() -> Vec<Value> {
    let mut owner = object("CronJob", NAME, 0);
    owner["spec"] = json!({
        "schedule": "0 0 1 1 ?", "concurrencyPolicy": "Allow", "suspend": false,
        "jobTemplate": {"spec": {"template": template()}},
    });
    let jobs = (0..MANY).map(|number| {
        let mut job = owned_by(&owner, object("Job", &format!("{NAME}-{number}"), 1));
        job["status"] = json!({
            "succeeded": 1, "completionTime": "2026-01-01T00:00:09Z",
            "startTime": "2026-01-01T00:00:00Z",
            "conditions": [{"type": "Complete", "status": "True"}],
        });
        job
    });
    let mut objects: Vec<Value> = jobs.collect();
    objects.push(owner);
    objects
}
