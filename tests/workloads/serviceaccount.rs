//! `test/integration/serviceaccount`, as far as it is about the account `default`.

use anyhow::{Result, ensure};
use pilothouse_tests::WorkloadRig;
use serde_json::json;

/// `TestServiceAccountAutoCreate`
#[tokio::test]
async fn a_new_namespace_gets_a_service_account_and_gets_it_again_when_it_is_deleted() -> Result<()>
{
    let rig = WorkloadRig::start(&["serviceaccount"]).await?;
    let namespace = "test-service-account-creation";
    let object = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
    });
    rig.api().create("/api/v1/namespaces", &object).await?;
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
    let first = rig
        .api()
        .eventually(&path, "there", |found| found.is_some());
    let first = first.await?.unwrap_or_default();
    rig.api().delete(&path).await?;
    let uid = &first["metadata"]["uid"];
    let is_another = |found: Option<&serde_json::Value>| {
        found.is_some_and(|found| found["metadata"]["uid"] != *uid)
    };
    let second = rig
        .api()
        .eventually(&path, "there again", is_another)
        .await?;
    ensure!(second.is_some(), "there is none");
    Ok(())
}
