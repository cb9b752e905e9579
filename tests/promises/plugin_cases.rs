//! Upstream's tests as data (`cases` of each folder of `plugins`), run through the built plugins.

mod convert;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cases::{Case, CaseKind};
use pilothouse_core::{
    Action, FetchedObjects, Kind, Manifest, ObjectKey, Outcome, Plugin, Rehearsal, Request,
    RunError, ServedKind, SubjectKey, Time,
};
use pilothouse_sdk::{Quantity, Selection};
use pilothouse_tests::{guest, rehearse, rehearse_serving};
use pilothouse_wasm::{Engine, EngineOptions, LimitPolicy, WasmPlugin};
use serde_json::{Value, json};

fn plugins() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../plugins")
}

/// The plugins that have cases.
fn with_cases() -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(plugins())? {
        let path = entry?.path();
        // The SDKs have cases, too, which are about them.
        if path.join("cases").is_dir() && path.join("Cargo.toml").is_file() {
            let name = path.file_name().context("a folder has a name")?;
            names.insert(name.to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

fn load(engine: &Engine, name: &str) -> Result<Arc<WasmPlugin>> {
    let file = std::fs::read(guest(name))?;
    let plugin = pilothouse_wasm::load(engine, &file, &LimitPolicy::default())?;
    Ok(Arc::new(plugin))
}

fn cases_of(folder: &Path, manifest: &Manifest) -> Vec<Case> {
    if manifest.reconciles.is_empty() {
        return cases::load(folder, &pilothouse_sdk::Manifest::singleton("x", "1"));
    }
    // The kinds of the keys are all that is looked at.
    let mut kinds = manifest
        .reconciles
        .iter()
        .map(|selection| selection.kind.to_string());
    let first =
        pilothouse_sdk::Manifest::new("x", "1", Selection::of(&kinds.next().unwrap_or_default()));
    let all = kinds.fold(first, |all, kind| all.reconciles_also(Selection::of(&kind)));
    cases::load(folder, &all)
}

/// Runs the plugin, and again as long as it asks about objects that no watch brings.
fn run_fetching(
    plugin: &Arc<WasmPlugin>,
    request: &Request,
    rehearsal: &Rehearsal,
    objects: &[Value],
) -> (Rehearsal, Result<Outcome, RunError>) {
    let mut fetched = FetchedObjects::default();
    loop {
        let mut again = rehearsal.clone();
        again.reader = again.reader.with_fetched(fetched);
        let decided = plugin.reconcile(request, &mut again.reader);
        let (known, asked) = again.reader.take_unfetched();
        if asked.is_empty() {
            return (again, decided);
        }
        fetched = known;
        for asked in &asked {
            let is_asked = |object: &&Value| {
                let text = |path| object.pointer(path).and_then(Value::as_str).unwrap_or("");
                Kind::from_api_version(text("/apiVersion"), text("/kind")) == asked.kind
                    && ObjectKey::new(text("/metadata/namespace"), text("/metadata/name"))
                        == asked.key
            };
            let found = objects.iter().find(is_asked);
            fetched.add(asked, Ok(found.map(Value::to_string)), Time::ZERO);
        }
    }
}

fn served_kind(case: &CaseKind) -> Result<ServedKind> {
    let kind: Kind = case.kind.parse()?;
    Ok(ServedKind {
        versions: vec![kind.version.to_string()],
        resource: format!("{}s", kind.kind.to_lowercase()),
        kind,
        is_namespaced: case.namespaced,
        verbs: case.verbs.clone(),
        subresources: vec![],
    })
}

/// What the plugin decides about a case. The host would carry it out.
fn decide(plugin: &Arc<WasmPlugin>, case: &Case) -> Result<Value> {
    let subject = match &case.key {
        Some(key) => {
            let object = ObjectKey::new(&key.namespace, &key.name);
            SubjectKey::of(&Arc::new(key.kind.parse()?), object)
        }
        None => SubjectKey::singleton(),
    };
    let kinds = case.kinds.iter().map(served_kind);
    let kinds = kinds.collect::<Result<Vec<_>>>()?;
    let rehearsal = rehearse_serving(plugin.clone(), &case.objects, &kinds, &subject, case.now.0)?;
    let previous = case.previous.iter().map(convert::effect);
    let memo = Some(&case.memo).filter(|memo| !memo.is_null());
    let config = Some(&case.config).filter(|config| !config.is_null());
    let request = Request {
        attempt: case.attempt,
        previous: previous.collect::<Result<_>>()?,
        memo: memo.map(|memo| memo.to_string().into()),
        config: config.map_or(rehearsal.request.config.clone(), Value::to_string),
        ..rehearsal.request.clone()
    };
    let (rehearsal, decided) = run_fetching(plugin, &request, &rehearsal, &case.objects);
    match decided {
        Ok(outcome) => {
            drop(rehearsal.execution(&outcome)?);
            Ok(cases::decision(&Ok(convert::outcome(outcome))))
        }
        Err(RunError::Failure(failure)) => Ok(cases::decision(&Err(convert::failure(failure)))),
        Err(broken) => Err(broken.into()),
    }
}

#[test]
fn every_case_holds_through_the_built_plugins() -> Result<()> {
    let engine = Engine::new(&EngineOptions::default())?;
    let names = with_cases()?;
    ensure!(names.contains("endpoints"), "only {names:?} have cases");
    let mut faults = Vec::new();
    let mut count = 0;
    for name in names {
        let plugin = load(&engine, &name)?;
        let cases = cases_of(&plugins().join(&name).join("cases"), plugin.manifest());
        count += cases.len();
        for case in &cases {
            let decided = decide(&plugin, case);
            let decided = decided.with_context(|| format!("{name}: {}", case.description))?;
            let fault = case.fault(&decided);
            faults.extend(fault.map(|fault| format!("{name}: {fault}")));
        }
    }
    cases::report(&faults, count);
    Ok(())
}

/// Returns a pod as a node writes it, with fields that the controller does not read.
fn pod(number: usize) -> Value {
    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"]
        .map(|name| json!({"type": name, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}));
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": format!("web-{number:05}"),
            "uid": format!("uid-{number}"), "resourceVersion": number.to_string(),
            "labels": {"app": "web", "pod-template-hash": "5d9c7b8f6c"}},
        "spec": {"nodeName": format!("node-{}", number % 500), "containers": [
            {"name": "main", "image": "web", "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]}]},
        "status": {"phase": "Running", "conditions": conditions,
            "podIP": format!("10.0.{}.{}", number / 250, number % 250),
            "podIPs": [{"ip": format!("10.0.{}.{}", number / 250, number % 250)}]}})
}

#[test]
fn a_service_of_five_thousand_pods_is_within_the_limits_of_a_manifest_that_asks_for_nothing()
-> Result<()> {
    let engine = Engine::new(&EngineOptions::default())?;
    let file = std::fs::read(guest("endpoints"))?;
    let plugin = pilothouse_wasm::load(&engine, &file, &LimitPolicy::default())?;
    let plugin = Arc::new(plugin);
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": "default", "name": "web", "uid": "uid", "resourceVersion": "1"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http", "protocol": "TCP"}]}});
    let objects: Vec<Value> = (0..5_000).map(pod).chain([service]).collect();
    let key = ObjectKey::new("default", "web");
    let key = SubjectKey::of(&Arc::new("v1/Service".parse()?), key);
    let mut rehearsal = rehearse(plugin.clone(), &objects, &key, Duration::ZERO)?;
    let outcome = plugin.reconcile(&rehearsal.request.clone(), &mut rehearsal.reader)?;
    assert_eq!(outcome.stages.len(), 1);
    assert_eq!(outcome.stages[0].actions.len(), 1);
    println!("{} of fuel", plugin.totals().fuel);
    Ok(())
}

/// All slices are there, and have to be written because a port has changed.
#[test]
fn the_slices_of_five_thousand_pods_are_within_the_limits_that_their_manifest_asks_for()
-> Result<()> {
    let engine = Engine::new(&EngineOptions::default())?;
    let plugin = load(&engine, "endpointslice")?;
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": "default", "name": "web", "uid": "uid", "resourceVersion": "1",
            "annotations": {"service.kubernetes.io/topology-mode": "Auto"}},
        "spec": {"selector": {"app": "web"}, "ipFamilies": ["IPv4"],
            "ports": [{"port": 80, "targetPort": "http", "protocol": "TCP"}]}});
    let nodes = (0..500).map(|number| {
        json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": format!("node-{number}"), "uid": "uid", "resourceVersion": "1",
                "labels": {"topology.kubernetes.io/zone": format!("zone-{}", number % 3)}},
            "status": {"allocatable": {"cpu": "4"},
                "conditions": [{"type": "Ready", "status": "True"}]}})
    });
    let slices = (0..50).map(|number| {
        let endpoints = (0..100).map(|endpoint| {
            let pod = pod(number * 100 + endpoint);
            json!({"addresses": [pod["status"]["podIP"]], "nodeName": pod["spec"]["nodeName"],
                "conditions": {"ready": true, "serving": true, "terminating": false},
                "targetRef": {"kind": "Pod", "namespace": "default",
                    "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}})
        });
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"namespace": "default", "name": format!("web-{number:02}"),
                "uid": format!("uid-{number}"), "resourceVersion": "1",
                "labels": {"kubernetes.io/service-name": "web",
                    "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "web",
                    "uid": "uid"}]},
            "addressType": "IPv4", "endpoints": endpoints.collect::<Vec<_>>(),
            "ports": [{"name": "", "port": 80, "protocol": "TCP"}]})
    });
    let objects = (0..5_000).map(pod).chain(nodes).chain(slices);
    let objects: Vec<Value> = objects.chain([service]).collect();
    let key = ObjectKey::new("default", "web");
    let key = SubjectKey::of(&Arc::new("v1/Service".parse()?), key);
    let mut rehearsal = rehearse(plugin.clone(), &objects, &key, Duration::ZERO)?;
    let outcome = plugin.reconcile(&rehearsal.request.clone(), &mut rehearsal.reader)?;
    assert_eq!(outcome.stages[0].actions.len(), 50, "all are updated");
    println!("{} of fuel", plugin.totals().fuel);
    Ok(())
}

#[test]
fn a_job_of_ten_thousand_pods_is_within_the_limits_that_its_manifest_asks_for() -> Result<()> {
    let engine = Engine::new(&EngineOptions::default())?;
    let plugin = load(&engine, "job")?;
    let job = json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"namespace": "default", "name": "web", "uid": "uid", "resourceVersion": "1"},
        "spec": {"parallelism": 10_000, "completions": 10_000, "backoffLimit": 0,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {}}}});
    let owner = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "web", "uid": "uid",
        "controller": true, "blockOwnerDeletion": true}]);
    let pods = (0..10_000).map(|number| {
        let mut pod = pod(number);
        pod["metadata"]["ownerReferences"] = owner.clone();
        pod["metadata"]["finalizers"] = json!(["batch.kubernetes.io/job-tracking"]);
        let state = json!({"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:00:00Z"}});
        pod["status"]["containerStatuses"] = json!([{"name": "main", "state": state}]);
        // One has failed: all others are deleted.
        pod["status"]["phase"] = if number == 0 { "Failed" } else { "Running" }.into();
        pod
    });
    let objects: Vec<Value> = pods.chain([job]).collect();
    let key = ObjectKey::new("default", "web");
    let key = SubjectKey::of(&Arc::new("batch/v1/Job".parse()?), key);
    let mut rehearsal = rehearse(plugin.clone(), &objects, &key, Duration::ZERO)?;
    let outcome = plugin.reconcile(&rehearsal.request.clone(), &mut rehearsal.reader)?;
    ensure!(
        outcome.stages[0].actions.len() == 1_500,
        "it deletes as many as it may"
    );
    println!("{} of fuel", plugin.totals().fuel);
    Ok(())
}

/// With the order of deletion, for which the pods of the owner's sets are read again.
#[test]
fn a_replica_set_of_ten_thousand_pods_is_within_the_limits_that_its_manifest_asks_for() -> Result<()>
{
    let engine = Engine::new(&EngineOptions::default())?;
    let plugin = load(&engine, "replicaset")?;
    let owner = |kind: &str, name: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": true}]);
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"namespace": "default", "name": "web", "uid": "web", "resourceVersion": "1",
            "ownerReferences": owner("Deployment", "app")},
        "spec": {"replicas": 9_700, "selector": {"matchLabels": {"app": "web"}}, "template": {}}});
    let pods = (0..10_000).map(|number| {
        let mut pod = pod(number);
        pod["metadata"]["ownerReferences"] = owner("ReplicaSet", "web");
        pod
    });
    let objects: Vec<Value> = pods.chain([set]).collect();
    let key = ObjectKey::new("default", "web");
    let key = SubjectKey::of(&Arc::new("apps/v1/ReplicaSet".parse()?), key);
    let now = Duration::from_secs(1_800_000_000);
    let mut rehearsal = rehearse(plugin.clone(), &objects, &key, now)?;
    let outcome = plugin.reconcile(&rehearsal.request.clone(), &mut rehearsal.reader)?;
    assert_eq!(outcome.stages[0].actions.len(), 300);
    println!("{} of fuel", plugin.totals().fuel);
    Ok(())
}

/// Kubernetes supports 150,000 pods. All have a node, and none is to be deleted.
#[test]
fn the_pod_garbage_collector_looks_at_a_tenth_of_the_most_pods_with_a_tenth_of_its_fuel()
-> Result<()> {
    let engine = Engine::new(&EngineOptions::default())?;
    let plugin = load(&engine, "pod-garbage-collector")?;
    let nodes = (0..500).map(|number| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("node-{number}")}})
    });
    let objects: Vec<Value> = (0..15_000).map(pod).chain(nodes).collect();
    let mut rehearsal = rehearse(
        plugin.clone(),
        &objects,
        &SubjectKey::singleton(),
        Duration::ZERO,
    )?;
    let outcome = plugin.reconcile(&rehearsal.request.clone(), &mut rehearsal.reader)?;
    assert_eq!(outcome.stages.len(), 0);
    let fuel = plugin.totals().fuel;
    ensure!(fuel < 500_000_000, "{fuel} of fuel");
    Ok(())
}

/// A pod of two containers as the kubelet leaves it since it can resize them: with what each has.
fn pod_with_requests(number: usize) -> Value {
    let mut pod = pod(number);
    let resources = json!({"requests": {"cpu": "250m", "memory": "64Mi"},
        "limits": {"cpu": "500m", "memory": "128Mi"}});
    let containers = ["main", "proxy"];
    let wanted = containers.map(|name| json!({"name": name, "resources": resources}));
    let statuses = containers.map(|name| {
        json!({"name": name, "resources": resources, "allocatedResources": resources["requests"]})
    });
    pod["spec"]["containers"] = json!(wanted);
    pod["status"]["containerStatuses"] = json!(statuses);
    pod["status"]["qosClass"] = "Burstable".into();
    pod
}

/// The fuel of a run that counts these pods for one quota.
fn fuel_of_quota(pods: impl Iterator<Item = Value>) -> Result<u64> {
    let engine = Engine::new(&EngineOptions::default())?;
    let plugin = load(&engine, "resourcequota")?;
    let hard = json!({"pods": "20k", "count/pods": "20k", "requests.cpu": "20k",
        "requests.memory": "20Ti", "limits.cpu": "20k", "limits.memory": "20Ti"});
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"namespace": "default", "name": "web", "uid": "uid", "resourceVersion": "1"},
        "spec": {"hard": hard}});
    let pods: Vec<Value> = pods.collect();
    let count = pods.len();
    let objects: Vec<Value> = pods.into_iter().chain([quota]).collect();
    let key = ObjectKey::new("default", "web");
    let key = SubjectKey::of(&Arc::new("v1/ResourceQuota".parse()?), key);
    let mut rehearsal = rehearse(plugin.clone(), &objects, &key, Duration::ZERO)?;
    let outcome = plugin.reconcile(&rehearsal.request.clone(), &mut rehearsal.reader)?;
    let Action::Patch { body, .. } = &outcome.stages[0].actions[0] else {
        anyhow::bail!("it writes the status");
    };
    let body: Value = serde_json::from_str(body)?;
    let used = |name: &str| {
        let text = body["status"]["used"][name].as_str();
        text.unwrap_or_default().parse::<Quantity>()
    };
    let count = i64::try_from(count)?;
    assert_eq!(used("pods")?, Quantity::from(count));
    assert_eq!(used("requests.cpu")?, Quantity::milli(500 * count));
    Ok(plugin.totals().fuel)
}

/// Its manifest asks for 4,000 million. Pods of one workload are alike.
#[test]
fn a_quota_counts_ten_thousand_pods_within_its_fuel_and_with_no_more_for_each_than_of_few()
-> Result<()> {
    let [few, many] = [1_000, 10_000].map(|pods| fuel_of_quota((0..pods).map(pod_with_requests)));
    let unlike = |number: usize| {
        let mut pod = pod_with_requests(number);
        let memory = format!("{}Ki", 65_536 + number);
        pod["spec"]["containers"][0]["resources"]["requests"]["memory"] = memory.into();
        pod
    };
    let (few, many, unlike) = (few?, many?, fuel_of_quota((0..10_000).map(unlike))?);
    println!("{few}, {many} and {unlike} of fuel");
    ensure!(many < 1_000_000_000, "{many} of fuel");
    ensure!(many < few * 11, "{few} of fuel for a tenth, and {many}");
    ensure!(unlike < 3_000_000_000, "{unlike} of fuel");
    Ok(())
}
