//! Which pods are a Job's: it adopts those that it selects and nobody owns, and gives up those that
//! it no longer selects.

use std::num::NonZeroU32;

use pilothouse_sdk::{
    Action, Failure, Filter, Finalizer, Host, Kind, ObjectRef, OwnerReference, controller_of,
};
use serde::Deserialize;
use workloads::claim::{Claim, Claimant};

use crate::objects::{Job, Pod};
use crate::pods::TRACKING;

/// The index of pods by the names of their owners.
pub const OWNER: &str = "owner";
/// How many pods cross at once. The text of all of a large Job's would not fit beside them.
const PAGE: NonZeroU32 = NonZeroU32::new(500).expect("500 is not 0");

/// The pods of a Job, and what makes them so.
#[derive(Default)]
pub struct Claimed {
    /// As they are when the actions have been done.
    pub pods: Vec<Pod>,
    pub actions: Vec<Action>,
    /// True if pods are adopted: the Job must be confirmed before.
    pub adopts: bool,
}

/// The pods in the Job's namespace that have an owner of its name.
pub fn owned(host: &dyn Host, job: &ObjectRef) -> Result<Vec<Pod>, Failure> {
    let by_name = Filter::index(OWNER, &job.name);
    let pages = host.pages(Pod::KIND, Some(&job.namespace), &by_name, PAGE);
    let pages: Vec<Vec<Pod>> = pages.collect::<Result<_, _>>()?;
    Ok(pages.into_iter().flatten().collect())
}

/// The uid of the Job that manages the pod, if that has this name.
pub fn job_uid<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    let controller = pod.controller()?;
    let kind = format!("{}/{}", controller.api_version, controller.kind);
    (kind == Job::KIND && controller.name == name).then_some(&controller.uid)
}

/// Which of `owned` the Job keeps, and which pods that nothing manages it adopts.
pub fn claim(host: &dyn Host, job: &Job, owned: Vec<Pod>) -> Result<Claimed, Failure> {
    let mut claimed = Claimed::default();
    let claimant = Claimant::new(Job::KIND, &job.metadata.always);
    let owned = owned.into_iter().filter(|pod| pod.controller().is_some());
    for pod in owned.chain(orphans(host, job)?) {
        match claimant.claim(&pod, job.selects(&pod.metadata.labels)) {
            Claim::Owned => claimed.pods.push(pod),
            Claim::Adopt => claimed.adopt(pod, &claimant)?,
            Claim::Release => claimed.release(&pod, &claimant)?,
            Claim::Foreign => {}
        }
    }
    let pods = &mut claimed.pods;
    pods.sort_by(|one, other| one.name().cmp(other.name()));
    Ok(claimed)
}

/// The pods that the Job selects and that nothing manages. One that is being deleted adopts none.
fn orphans(host: &dyn Host, job: &Job) -> Result<Vec<Pod>, Failure> {
    let selector = job.spec.selector.as_ref();
    let Some(selector) = selector.filter(|_| !job.is_being_deleted()) else {
        return Ok(Vec::new());
    };
    let (namespace, selector) = (&job.metadata.always.namespace, selector.filter()?);
    let mut orphans = Vec::new();
    // Most are the Job's own already, and are not decoded again.
    for page in host.pages::<Selected>(Pod::KIND, Some(namespace), &selector, PAGE) {
        for Selected { metadata } in page? {
            if controller_of(&metadata.owner_references).is_none() {
                let pod = ObjectRef::new(Pod::KIND, namespace, &metadata.name);
                orphans.extend(host.get::<Pod>(&pod)?);
            }
        }
    }
    Ok(orphans)
}

/// A pod that a Job selects.
#[derive(Deserialize)]
struct Selected {
    metadata: SelectedMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SelectedMetadata {
    name: String,
    #[serde(default)]
    owner_references: Vec<OwnerReference>,
}

impl Claimed {
    /// The finalizer comes first: a pod of the Job's that has none would never be counted.
    fn adopt(&mut self, mut pod: Pod, claimant: &Claimant<'_>) -> Result<(), Failure> {
        if !pod.is_tracked() {
            let finalizer = Finalizer::add(&pod.object_ref(), TRACKING);
            self.actions.push(finalizer.into());
            pod.metadata.finalizers.push(TRACKING.to_owned());
        }
        let adoption = claimant.adoption(Pod::KIND, &pod)?;
        self.actions.push(adoption.into());
        self.adopts = true;
        self.pods.push(pod);
        Ok(())
    }

    /// The finalizer goes last: what is left of a pod without an owner is put right later.
    fn release(&mut self, pod: &Pod, claimant: &Claimant<'_>) -> Result<(), Failure> {
        let release = claimant.release(Pod::KIND, pod)?;
        self.actions.push(release.into());
        if pod.is_tracked() {
            let finalizer = Finalizer::remove(&pod.object_ref(), TRACKING);
            self.actions.push(finalizer.into());
        }
        Ok(())
    }
}
