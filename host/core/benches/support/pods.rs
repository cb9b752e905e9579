//! Pods for benchmarks.

use pilothouse_core::Kind;

/// The number of apps that the pods belong to.
const APPS: usize = 10_000;

pub fn kind() -> Kind {
    Kind::new("", "v1", "Pod")
}

/// A pod as in a real cluster: about 4 KB of JSON.
pub fn pod_json(number: usize, version: usize) -> String {
    let (app, node) = (number % APPS, number % 100);
    let filler = "x".repeat(1200);
    format!(
        r#"{{"metadata":{{"name":"pod-{number}","namespace":"ns-{}","uid":"11111111-2222-3333-4444-{number:012}","resourceVersion":"{version}","creationTimestamp":"2026-01-01T00:00:00Z","labels":{{"app":"app-{app}","pod-template-hash":"5d9c7b8f6c"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"app-{app}-5d9c7b8f6c","uid":"22222222-2222-3333-4444-{app:012}","controller":true,"blockOwnerDeletion":true}}],"managedFields":[{{"manager":"kubelet","operation":"Update","fieldsV1":{{"f:status":{{"f:conditions":{{"x":"{filler}"}}}}}}}}]}},"spec":{{"nodeName":"node-{node}","containers":[{{"name":"main","image":"example.dev/app:{app}","env":[{{"name":"A","value":"{filler}"}}],"ports":[{{"name":"http","containerPort":8080,"protocol":"TCP"}}],"resources":{{"limits":{{"cpu":"1","memory":"1Gi"}}}}}}],"serviceAccountName":"default"}},"status":{{"phase":"Running","podIP":"10.0.{}.{}","conditions":[{{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:10Z","message":"{}"}}]}}}}"#,
        app % 50,
        number / 250 % 256,
        number % 250,
        "y".repeat(1000)
    )
}
