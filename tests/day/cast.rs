//! The workloads of the day.

use pilothouse_tests::PLAN;
use serde_json::{Value, json};

/// All that run for the whole day, each with its resource.
pub fn workloads() -> Vec<(&'static str, Value)> {
    let mut all = vec![
        ("replicasets", set("apps/v1", "ReplicaSet", "bare", 3)),
        (
            "replicationcontrollers",
            set("v1", "ReplicationController", "old", 3),
        ),
    ];
    for name in DEPLOYMENTS {
        all.push(("deployments", deployment(name)));
    }
    for name in STATEFUL_SETS {
        all.push(("statefulsets", stateful_set(name)));
    }
    for name in DAEMON_SETS {
        all.push(("daemonsets", daemon_set(name)));
    }
    all.push(("cronjobs", cron_job("every", "Allow")));
    all.push(("cronjobs", cron_job("single", "Forbid")));
    all
}

pub const DEPLOYMENTS: [&str; 5] = ["percent", "surge", "steady", "again", "slow"];
pub const STATEFUL_SETS: [&str; 3] = ["ordered", "parallel", "claims"];
pub const DAEMON_SETS: [&str; 2] = ["replaced", "surged"];

/// The node with this number.
pub fn node(number: u64) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": node_name(number), "labels": {"day": "node"}},
    })
}

pub fn node_name(number: u64) -> String {
    format!("node-{number}")
}

fn template(name: &str, plan: &[(&str, &str)], spec: &Value) -> Value {
    let annotations = plan
        .iter()
        .map(|(what, value)| (format!("{PLAN}{what}"), json!(value)));
    let annotations: serde_json::Map<String, Value> = annotations.collect();
    let mut template = json!({
        "metadata": {"labels": {"app": name}, "annotations": annotations},
        "spec": {
            "containers": [{"name": "main", "image": "example.dev/main:1"}],
            "terminationGracePeriodSeconds": 2,
        },
    });
    for (member, value) in spec.as_object().into_iter().flatten() {
        template["spec"][member] = value.clone();
    }
    template
}

const READY: [(&str, &str); 1] = [("ready-after", "200")];

fn set(api_version: &str, kind: &str, name: &str, replicas: u64) -> Value {
    let labels = json!({"app": name});
    let selector = match kind {
        "ReplicaSet" => json!({"matchLabels": labels}),
        _ => labels,
    };
    json!({
        "apiVersion": api_version, "kind": kind, "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": selector, "template": template(name, &READY, &json!({}))},
    })
}

pub fn deployment(name: &str) -> Value {
    let rolling = |surge: Value, unavailable: Value| {
        let limits = json!({"maxSurge": surge, "maxUnavailable": unavailable});
        json!({"type": "RollingUpdate", "rollingUpdate": limits})
    };
    let (replicas, strategy) = match name {
        "percent" => (6, rolling(json!("25%"), json!("25%"))),
        "surge" => (4, rolling(json!(2), json!(0))),
        "steady" => (5, rolling(json!(0), json!(1))),
        "slow" => (3, rolling(json!(1), json!(1))),
        _ => (3, json!({"type": "Recreate"})),
    };
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "strategy": strategy, "revisionHistoryLimit": 3,
            "minReadySeconds": u8::from(name == "slow"),
            "selector": {"matchLabels": {"app": name}}, "template": template(name, &READY, &json!({})),
        },
    })
}

pub fn stateful_set(name: &str) -> Value {
    let (policy, replicas, unavailable) = match name {
        "parallel" => ("Parallel", 5, 2),
        _ => ("OrderedReady", 3, 1),
    };
    let claims = match name {
        "claims" => json!([{
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }]),
        _ => json!([]),
    };
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "serviceName": name, "podManagementPolicy": policy,
            "revisionHistoryLimit": 3, "selector": {"matchLabels": {"app": name}},
            "updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"partition": 0, "maxUnavailable": unavailable},
            },
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"},
            "volumeClaimTemplates": claims, "template": template(name, &READY, &json!({})),
        },
    })
}

pub fn daemon_set(name: &str) -> Value {
    let limits = match name {
        "surged" => json!({"maxSurge": 1, "maxUnavailable": 0}),
        _ => json!({"maxSurge": 0, "maxUnavailable": 1}),
    };
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name},
        "spec": {
            "revisionHistoryLimit": 3, "selector": {"matchLabels": {"app": name}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": limits},
            "template": template(name, &READY, &json!({})),
        },
    })
}

/// A CronJob of every minute.
fn cron_job(name: &str, policy: &str) -> Value {
    let plan = [("ends", "Succeeded"), ("ends-after", "1000")];
    json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name},
        "spec": {
            "schedule": "* * * * *", "concurrencyPolicy": policy,
            "successfulJobsHistoryLimit": 2, "failedJobsHistoryLimit": 1,
            "jobTemplate": {"spec": {"template": template(name, &plan, &json!({"restartPolicy": "Never"}))}},
        },
    })
}

/// What a Job is to come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Complete,
    Fails,
    /// It fails because index 1 does, and runs all the others before.
    FailsAtOne,
}

/// A Job of one of seven kinds, and what it comes to.
pub fn job(kind: u64, name: &str) -> (Value, Fate) {
    let mut plan = vec![("ends", "Succeeded"), ("ends-after", "300")];
    let mut fate = Fate::Complete;
    let indexed = "Indexed";
    // Pods that are deleted or lost count as failed: a Job that is to be complete allows many.
    let mut spec = match kind % 7 {
        0 => json!({"completions": 5, "parallelism": 2, "backoffLimit": 1000}),
        1 => {
            plan.push(("fails-percent", "25"));
            json!({"completions": 6, "parallelism": 3, "backoffLimit": 1000})
        }
        2 => json!({
            "completions": 5, "parallelism": 3, "completionMode": indexed, "backoffLimit": 1000,
        }),
        3 => {
            plan.push(("fails-percent", "20"));
            json!({
                "completions": 4, "parallelism": 4, "completionMode": indexed,
                "backoffLimit": 1000, "podReplacementPolicy": "Failed",
            })
        }
        4 => {
            plan.push(("fails-index", "1"));
            fate = Fate::FailsAtOne;
            json!({
                "completions": 4, "parallelism": 2, "completionMode": indexed,
                "backoffLimitPerIndex": 1,
            })
        }
        5 => {
            plan[0].1 = "Failed";
            fate = Fate::Fails;
            json!({"completions": 3, "parallelism": 2, "backoffLimit": 1})
        }
        _ => json!({"parallelism": 3, "backoffLimit": 1000}),
    };
    spec["template"] = template(name, &plan, &json!({"restartPolicy": "Never"}));
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec,
    });
    (job, fate)
}
