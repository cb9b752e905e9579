//! Bootstrap tokens. Upstream has no integration test of the controllers that look after them:
//! these are the situations that they are for.

use anyhow::Result;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use pilothouse_tests::WorkloadRig;
use serde_json::{Value, json};

const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";
const INFO: &str = "/api/v1/namespaces/kube-public/configmaps";

/// A token that may sign, and that expires after so many seconds.
fn token(id: &str, seconds: i64) -> Value {
    let end = Timestamp::now() + SignedDuration::from_secs(seconds);
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": format!("bootstrap-token-{id}")},
        "stringData": {
            "token-id": id, "token-secret": "0123456789abcdef",
            "usage-bootstrap-signing": "true",
            "expiration": end.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        },
    })
}

#[tokio::test]
async fn tokens_sign_the_address_until_they_expire_and_are_deleted_then() -> Result<()> {
    let plugins = ["bootstrap-signer", "token-cleaner"];
    let mut rig = WorkloadRig::without_host(&plugins).await?;
    for plugin in plugins {
        rig.configure(plugin, "secret-values = true\n")?;
    }
    rig.start_host().await?;
    let info = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cluster-info"},
        "data": {"kubeconfig": "payload", "other": "stays"},
    });
    rig.api().create(INFO, &info).await?;
    for (id, seconds) in [("longer", 3600), ("shorte", 5)] {
        rig.api().create(SECRETS, &token(id, seconds)).await?;
    }
    let path = format!("{INFO}/cluster-info");
    let has_signatures = |ids: [(&'static str, bool); 2]| {
        move |found: Option<&Value>| {
            let has = |id: &str| {
                found.is_some_and(|info| info["data"][format!("jws-kubeconfig-{id}")].is_string())
            };
            ids.into_iter().all(|(id, is_signed)| has(id) == is_signed)
        }
    };
    let both = has_signatures([("longer", true), ("shorte", true)]);
    rig.api().eventually(&path, "signed by both", both).await?;
    let one = has_signatures([("longer", true), ("shorte", false)]);
    rig.api().eventually(&path, "signed by one", one).await?;
    let gone = format!("{SECRETS}/bootstrap-token-shorte");
    rig.api()
        .eventually(&gone, "gone", |found| found.is_none())
        .await?;
    let is_whole =
        |found: Option<&Value>| found.is_some_and(|info| info["data"]["other"] == "stays");
    rig.api().eventually(&path, "whole", is_whole).await?;
    let longer = format!("{SECRETS}/bootstrap-token-longer");
    rig.api()
        .eventually(&longer, "there", |found| found.is_some())
        .await?;
    Ok(())
}
