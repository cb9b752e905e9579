//! Pods with the finalizer that no Job will count any more: it is taken off them.

use pilothouse_sdk::{Action, Failure, Filter, Finalizer, Host, Kind, Outcome, Request};

use workloads::pod::PodView;

use crate::claim::job_uid;
use crate::objects::{Job, Pod};
use crate::pods::TRACKING;

/// Most pods that lose their finalizer in one reconcile.
const MAX_FREED: usize = 2000;

/// Pods of a Job's name that are not this Job's, or that are but the Job has ended. Nobody else
/// looks after them.
pub struct Leftovers {
    pub actions: Vec<Action>,
    /// True if pods are of a Job that is gone: that it is must be confirmed before.
    pub are_of_another: bool,
}

impl Leftovers {
    /// `owned` have an owner of the Job's name. `job` is `None` if there is none of this name.
    pub fn among(owned: &[Pod], name: &str, job: Option<&Job>) -> Self {
        let has_ended = job.is_some_and(|job| job.is_finished() && !job.is_managed_by_another());
        let mut leftovers = Self {
            actions: Vec::new(),
            are_of_another: false,
        };
        for pod in owned.iter().filter(|pod| pod.is_tracked()).take(MAX_FREED) {
            let Some(uid) = job_uid(pod, name) else {
                continue;
            };
            let is_own = job.is_some_and(|job| job.metadata.always.uid == uid);
            if has_ended || !is_own {
                leftovers
                    .actions
                    .push(Finalizer::remove(&pod.object_ref(), TRACKING).into());
                leftovers.are_of_another |= !is_own;
            }
        }
        leftovers
    }
}

/// Looks at a single pod. Its Job's key looks after it, too; this is for what that key does not
/// see: pods that have lost their owner, and those of Jobs that went while no host ran.
pub fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
    let pod = request.object::<Pod>()?;
    let Some(pod) = pod.filter(Pod::is_tracked) else {
        return Ok(Outcome::done());
    };
    let namespace = &request.key().namespace;
    let free = Outcome::done().with(Finalizer::remove(request.key(), TRACKING));
    let Some(controller) = pod.controller() else {
        let is_waiting = !pod.is_deleted() && has_adopter(host, &pod, namespace)?;
        return Ok(if is_waiting { Outcome::done() } else { free });
    };
    let name = &controller.name;
    let Some(uid) = job_uid(&pod, name).filter(|_| pod.is_deleted()) else {
        return Ok(Outcome::done());
    };
    let job = host.get_as::<Job>(namespace, name)?;
    let Some(job) = job.filter(|job| job.metadata.always.uid == uid) else {
        return Ok(free.confirm(&request.key().of_kind(Job::KIND).named(name)));
    };
    let is_left = job.is_finished() && !job.is_managed_by_another();
    Ok(if is_left { free } else { Outcome::done() })
}

/// True if a Job will adopt the pod.
fn has_adopter(host: &dyn Host, pod: &Pod, namespace: &str) -> Result<bool, Failure> {
    let jobs: Vec<Job> = host.list_as(Some(namespace), &Filter::Everything)?;
    Ok(jobs.iter().any(|job| job.adopts(&pod.metadata.labels)))
}
