//! `TestLegacyServiceAccountTokenCleanUp` of `test/integration/serviceaccount`, as far as it needs
//! no clock that can be stepped.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use pilothouse_tests::WorkloadRig;
use serde_json::{Value, json};

const PLUGIN: &str = "legacy-serviceaccount-token-cleaner";
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// The date so many days ago.
fn days_ago(days: i64) -> String {
    let time = Timestamp::now() - SignedDuration::from_hours(24 * days);
    time.strftime("%Y-%m-%d").to_string()
}

/// Creates a token of the account `ro` with these labels.
async fn create_token(rig: &WorkloadRig, name: &str, labels: &Value) -> Result<()> {
    let token = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {
            "name": name, "labels": labels,
            "annotations": {"kubernetes.io/service-account.name": "ro"},
        },
    });
    rig.create("secrets", &token).await.map(drop)
}

/// Creates an account that names all tokens but the one that was made by hand, a pod that mounts
/// one of them, and since when the use of tokens is noted.
async fn prepare(rig: &WorkloadRig) -> Result<()> {
    let tracking = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "kube-apiserver-legacy-service-account-token-tracking"},
        "data": {"since": days_ago(5)},
    });
    let config_maps = "/api/v1/namespaces/kube-system/configmaps";
    rig.api().create(config_maps, &tracking).await?;
    let names = ["used-long-ago", "never-used", "marked-long-ago", "mounted"];
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "ro"},
        "secrets": names.map(|name| json!({"name": name})),
    });
    rig.create("serviceaccounts", &account).await?;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "user"},
        "spec": {
            "volumes": [{"name": "token", "secret": {"secretName": "mounted"}}],
            "containers": [{"name": "container", "image": "pause"}],
        },
    });
    rig.create("pods", &pod).await.map(drop)
}

#[tokio::test]
async fn tokens_that_nobody_uses_are_marked_and_those_marked_long_ago_are_deleted() -> Result<()> {
    let mut rig = WorkloadRig::without_host(&[PLUGIN]).await?;
    rig.configure(PLUGIN, "[config]\ncleanUpPeriodSeconds = 1\n")?;
    prepare(&rig).await?;
    let used = json!({"kubernetes.io/legacy-token-last-used": days_ago(3)});
    for name in ["used-long-ago", "mounted", "by-hand"] {
        create_token(&rig, name, &used).await?;
    }
    create_token(&rig, "never-used", &json!({})).await?;
    create_token(
        &rig,
        "marked-long-ago",
        &json!({INVALID_SINCE: days_ago(3)}),
    )
    .await?;
    // The tokens are looked at once a day, and have to be older than a second by then. The API
    // server rounds their age down.
    tokio::time::sleep(Duration::from_secs(2)).await;
    rig.start_host().await?;

    let path = rig.path("secrets", "marked-long-ago");
    rig.api()
        .eventually(&path, "gone", |found| found.is_none())
        .await?;
    let is_marked = |token: &Value| token["metadata"]["labels"][INVALID_SINCE].is_string();
    for name in ["used-long-ago", "never-used"] {
        rig.eventually("secrets", name, "marked", is_marked).await?;
    }
    for name in ["mounted", "by-hand"] {
        let token = rig.get("secrets", name).await?;
        ensure!(!is_marked(&token), "{token}");
    }
    Ok(())
}
