//! Rolls out the template of every Deployment: through ReplicaSets, one for each template.
//!
//! The rules are those of kube-controller-manager's deployment controller
//! (`pkg/controller/deployment` in kubernetes/kubernetes). The README lists them, with the
//! differences.

mod annotations;
mod claim;
mod conditions;
mod create;
mod limits;
mod objects;
mod progress;
mod rollback;
mod rollout;
mod scale;
mod sets;
mod sync;

use pilothouse_sdk::{
    Controller, Event, Failure, Host, Kind, Manifest, ObjectRef, Outcome, Patch, Request,
    Selection, Verb,
};
use serde_json::json;

use claim::{BY_OWNER, Claimed, OWNER_PATH};
use objects::{DEPLOYMENT, Deployment, Pod, REPLICA_SET, ReplicaSet};
use sync::Sync;

/// The deployment controller.
pub struct DeploymentController;

impl Controller for DeploymentController {
    fn manifest() -> Manifest {
        Manifest::new(
            "deployment",
            env!("CARGO_PKG_VERSION"),
            Selection::of(DEPLOYMENT),
        )
        // A rollback writes all of it.
        .reads_whole(DEPLOYMENT)
        .reads_as::<ReplicaSet>()
        .reads_as::<Pod>()
        .indexes(BY_OWNER, REPLICA_SET, [OWNER_PATH])
        .indexes(BY_OWNER, Pod::KIND, [OWNER_PATH])
        .writes(DEPLOYMENT, [Verb::Update])
        .writes_subresource(DEPLOYMENT, "status", [Verb::Patch])
        .writes(REPLICA_SET, [Verb::Create, Verb::Patch, Verb::Delete])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let Some(deployment) = request.object::<Deployment>()? else {
            return Ok(Outcome::done());
        };
        if deployment.spec.selects_everything() {
            return refuse_to_select_all(request.key(), &deployment);
        }
        let sets = match claim::claim(host, &deployment)? {
            Claimed::Sets(sets) => sets,
            Claimed::Changes(outcome) => return Ok(outcome),
        };
        let mut sync = Sync::new(request, host, deployment, sets)?;
        run(&mut sync)?;
        Ok(sync.finish())
    }
}

pilothouse_sdk::register!(DeploymentController);

/// A Deployment whose ReplicaSets are known.
fn run(sync: &mut Sync<'_>) -> Result<(), Failure> {
    if sync.deployment.metadata.always.deletion_timestamp.is_some() {
        sync.sync_new_set()?;
        return sync.sync_status();
    }
    sync.note_pause()?;
    sync.sync_new_set()?;
    if sync.deployment.spec.paused {
        sync.scale()?;
        if rollback::wanted_revision(&sync.deployment).is_none() {
            sync.clean_up();
        }
        return sync.sync_status();
    }
    if let Some(revision) = rollback::wanted_revision(&sync.deployment) {
        return sync.roll_back(revision);
    }
    if sync.sets.have_another_size(sync.deployment.spec.replicas) {
        sync.scale()?;
        return sync.sync_status();
    }
    let strategy = &sync.deployment.spec.strategy;
    match strategy {
        strategy if strategy.is_recreate() => sync.recreate(),
        strategy if strategy.is_rolling_update() => sync.roll(),
        strategy => Err(Failure::terminal(format!(
            "spec.strategy.type is {:?}: write RollingUpdate or Recreate",
            strategy.r#type
        ))),
    }
}

/// A selector that is empty selects every pod. The API server refuses it.
fn refuse_to_select_all(key: &ObjectRef, deployment: &Deployment) -> Result<Outcome, Failure> {
    let note = "This deployment is selecting all pods. A non-empty selector is required.";
    let event = Event::warning(key, "SelectingAll", "Select", note);
    let outcome = Outcome::done().with(event);
    let generation = deployment.metadata.generation;
    if deployment.status.observed_generation >= generation {
        return Ok(outcome);
    }
    let body = json!({
        "metadata": {"resourceVersion": "seen"}, "status": {"observedGeneration": generation},
    });
    let status = Patch::merge(key, &body)?.subresource("status");
    Ok(outcome.with(status))
}
