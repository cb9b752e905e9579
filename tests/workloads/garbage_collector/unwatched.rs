//! Owners of a kind that can be got and not watched, as an aggregated API server may have them: the
//! proxy takes the other verbs out of discovery, and refuses what is not offered.

use std::time::Duration;

use anyhow::{Context, Result};
use http::Method;
use pilothouse_tests::WorkloadRig;
use pilothouse_tests::proxy::{Answer, all, gets, lists, reads};
use serde_json::{Value, json};

use super::custom::{define, gadget, gadgets};
use super::{config_map, owner, rc, rig_without_host, until_gone, until_seen};

const GADGETS: &str = "gadgets";

/// How long a fault lasts at most: it ends when the host has asked twice.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server where Gadgets can be got and deleted alone, as far as the host can tell.
async fn rig() -> Result<WorkloadRig> {
    let mut rig = rig_without_host().await?;
    define(&rig).await?;
    rig.start_host().await?;
    let told = rig.proxy.answers(all().at("/apis")).into_iter();
    let mut told = told.filter(|answer| answer.body.contains(GADGETS));
    let told = told.next().context("the host asks which kinds there are")?;
    let mut kinds: Value = serde_json::from_str(&told.body)?;
    let groups = kinds["items"].as_array_mut().into_iter().flatten();
    let versions = groups.flat_map(|group| group["versions"].as_array_mut().into_iter().flatten());
    let served = versions.flat_map(|it| it["resources"].as_array_mut().into_iter().flatten());
    for resource in served.filter(|resource| resource["resource"] == GADGETS) {
        resource["verbs"] = json!(["delete", "get"]);
    }
    let mut answer = Answer::json(200, &kinds);
    let media_types = told.headers.into_iter();
    answer.headers = media_types
        .filter(|(name, _)| name == "content-type")
        .collect();
    rig.proxy.on(all().at("/apis")).replace_answer(answer);
    rig.proxy.on(reads(GADGETS)).answer(Answer::status(405));
    rig.start_host().await?;
    rig.proxy.forget();
    Ok(rig)
}

/// A ConfigMap that a Gadget owns.
async fn owned(rig: &WorkloadRig, name: &str, gadget: &Value) -> Result<()> {
    let object = config_map(name, &[owner(gadget)]);
    rig.create("configmaps", &object).await.map(drop)
}

#[tokio::test]
async fn what_an_owner_that_cannot_be_watched_has_left_is_collected() -> Result<()> {
    let rig = rig().await?;
    let parent = gadget(&rig, "parent", &[]).await?;
    let held = gadget(&rig, "held", &[]).await?;
    owned(&rig, "kept", &held).await?;
    let mut missing = parent.clone();
    missing["metadata"]["uid"] = "missing".into();
    owned(&rig, "of-another", &missing).await?;
    missing["metadata"]["name"] = "missing".into();
    owned(&rig, "of-none", &missing).await?;
    let other = rig.create("replicationcontrollers", &rc("other")).await?;
    let shared = config_map("shared", &[owner(&missing), owner(&other)]);
    rig.create("configmaps", &shared).await?;
    for lost in ["of-another", "of-none"] {
        until_gone(&rig, &rig.path("configmaps", lost)).await?;
    }
    let has_one = |it: &Value| it["metadata"]["ownerReferences"] == json!([owner(&other)]);
    rig.eventually("configmaps", "shared", "owned by one", has_one)
        .await?;
    // Nothing but `kept` has this owner, which is asked for again and again.
    let held = format!("{}/held", gadgets(&rig));
    rig.proxy
        .until_seen(gets(GADGETS).at(&held), 2, PATIENCE)
        .await?;
    rig.get("configmaps", "kept").await?;
    rig.api().delete(&held).await?;
    until_gone(&rig, &rig.path("configmaps", "kept")).await?;
    let listed = rig.proxy.seen(lists(GADGETS)).len();
    assert_eq!(listed, 0, "nobody tries to list what cannot be listed");
    Ok(())
}

/// What a server answers that says nothing about whether the object is there.
fn nothing_said() -> Vec<Answer> {
    let mut unserved = Answer::status(404);
    // As the API machinery says it of a resource that a served group does not have.
    let message = "the server could not find the requested resource";
    unserved.body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound",
        "message": message, "details": {}, "code": 404,
    })
    .to_string();
    let text = |status, body: &str| Answer {
        body: body.into(),
        ..Answer::status(status)
    };
    let another = json!({
        "apiVersion": "example.dev/v1", "kind": "Gadget",
        "metadata": {"name": "another", "namespace": "default", "uid": "another"},
    });
    vec![
        unserved,
        text(404, "404 page not found"),
        Answer::status(401),
        Answer::status(403),
        Answer::status(405),
        Answer::status(410),
        Answer::status(500),
        Answer::status(503),
        text(200, "{"),
        text(200, "{}"),
        Answer::json(200, &another),
    ]
}

#[tokio::test]
async fn nothing_is_collected_because_a_server_does_not_say_whether_its_owner_is_there()
-> Result<()> {
    let mut rig = rig().await?;
    let count = nothing_said().len();
    let owner_of = |rig: &WorkloadRig, number: usize| format!("{}/owner-{number}", gadgets(rig));
    for (number, answer) in nothing_said().into_iter().enumerate() {
        let said = format!("{} {}", answer.status, answer.body);
        let owner = gadget(&rig, &format!("owner-{number}"), &[]).await?;
        let fault = rig.proxy.on(gets(GADGETS)).answer(answer);
        owned(&rig, &format!("kept-{number}"), &owner).await?;
        let asked = gets(GADGETS).method(Method::GET);
        let asked = asked.at(&owner_of(&rig, number));
        let seen = rig.proxy.until_seen(asked, 2, PATIENCE).await;
        seen.with_context(|| said.clone())?;
        until_seen(&rig, &format!("seen-{number}")).await?;
        for number in 0..=number {
            let kept = rig.get("configmaps", &format!("kept-{number}")).await;
            kept.with_context(|| format!("kept-{number} after {said}"))?;
        }
        fault.lift();
    }
    let log = rig.log();
    assert!(!log.contains("cannot reach"), "no outage: {log}");
    for number in 0..count {
        rig.api().delete(&owner_of(&rig, number)).await?;
    }
    // Another host asks for all of them at once: this one waits longer each time.
    rig.start_host().await?;
    for number in 0..count {
        until_gone(&rig, &rig.path("configmaps", &format!("kept-{number}"))).await?;
    }
    Ok(())
}
