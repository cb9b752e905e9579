//! `test/integration/ttlcontroller`.

use std::ops::Range;

use anyhow::Result;
use pilothouse_tests::WorkloadRig;
use serde_json::{Value, json};

const ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";

/// `TestTTLAnnotations`
#[tokio::test]
async fn the_annotations_follow_the_number_of_nodes() -> Result<()> {
    let rig = WorkloadRig::start(&["ttl"]).await?;
    create(&rig, 0..100).await?;
    until(&rig, 100, "0").await?;
    create(&rig, 100..101).await?;
    until(&rig, 101, "15").await?;
    delete(&rig, 90..101).await?;
    until(&rig, 90, "15").await?;
    delete(&rig, 89..90).await?;
    until(&rig, 89, "0").await
}

async fn create(rig: &WorkloadRig, numbers: Range<u32>) -> Result<()> {
    for number in numbers {
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("node-{number}")},
        });
        rig.create("nodes", &node).await?;
    }
    Ok(())
}

async fn delete(rig: &WorkloadRig, numbers: Range<u32>) -> Result<()> {
    for number in numbers {
        rig.delete("nodes", &format!("node-{number}")).await?;
    }
    Ok(())
}

/// Waits until there are so many nodes, and each has this time.
async fn until(rig: &WorkloadRig, count: usize, time: &str) -> Result<()> {
    let has_time = |node: &Value| node["metadata"]["annotations"][ANNOTATION] == time;
    let are = |nodes: &[Value]| nodes.len() == count && nodes.iter().all(has_time);
    let what = format!("{count} with the time {time}");
    rig.eventually_all("nodes", "", &what, are).await.map(drop)
}
