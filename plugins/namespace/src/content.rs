//! What is in a namespace, kind by kind.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use pilothouse_sdk::{
    ActionResult, EffectVerb, Failure, Filter, Host, Kind, Metadata, Request, ServedKind,
};
use serde::Deserialize;

use crate::EVERY_KIND;
use crate::pods::{self, Pod};

/// How many objects are looked at together.
pub const PAGE: u32 = 500;

/// How long it takes whoever has a finalizer, as far as anybody knows.
const FINALIZERS_TAKE: Duration = Duration::from_secs(15);

/// The objects of one kind.
pub struct KindContent {
    pub served: ServedKind,
    /// How many there are.
    pub count: usize,
    /// How many of them wait for which finalizer.
    pub finalizers: BTreeMap<String, usize>,
    /// How many nobody has asked to be deleted yet.
    pub undeleted: usize,
    /// Whether the last outcome has deleted all that there was.
    pub was_swept: bool,
    /// Why it is not known what is left, or what could not be deleted.
    pub failures: Vec<String>,
    /// How long what is left may take.
    pub estimate: Duration,
}

/// What is to be deleted now: pods before all else.
pub struct Content {
    pub kinds: Vec<KindContent>,
    /// Pods are left, and all else waits for them.
    pub is_of_pods: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    api_version: String,
    kind: String,
    metadata: ItemMetadata,
}

#[derive(Deserialize)]
struct ItemMetadata {
    #[serde(flatten)]
    always: Metadata,
    #[serde(default)]
    finalizers: Vec<String>,
}

impl Content {
    /// `age`: how long ago the namespace was deleted.
    pub fn survey(
        request: &Request,
        namespace: &str,
        age: Duration,
        host: &dyn Host,
    ) -> Result<Self, Failure> {
        let mut kinds = kinds(request, host)?;
        let size = NonZeroU32::new(PAGE).unwrap_or(NonZeroU32::MIN);
        for page in host.pages::<Item>(EVERY_KIND, Some(namespace), &Filter::Everything, size) {
            for item in page? {
                let kind = format!("{}/{}", item.api_version, item.kind);
                if let Some(known) = kinds.get_mut(&kind) {
                    known.add(&item);
                }
            }
        }
        let pods_take = pods::estimate(namespace, age, host)?;
        for known in kinds.values_mut() {
            let is_pods = known.is_pods();
            known.judge(if is_pods { pods_take } else { Duration::ZERO }, namespace);
        }
        let is_of_pods = kinds.get(Pod::KIND).is_some_and(|pods| pods.count > 0);
        let mut kinds: Vec<KindContent> = kinds.into_values().collect();
        kinds.retain(|known| !is_of_pods || known.is_pods());
        Ok(Self { kinds, is_of_pods })
    }

    /// Whether nothing is left, as far as anybody knows.
    pub fn is_gone(&self) -> bool {
        let mut kinds = self.kinds.iter();
        kinds.all(|kind| kind.count == 0 && kind.failures.is_empty())
    }

    /// Whether all that is left has been asked to be deleted.
    pub fn is_being_deleted(&self) -> bool {
        self.kinds.iter().all(|kind| kind.undeleted == 0)
    }

    /// How long what is left may take.
    pub fn estimate(&self) -> Duration {
        let estimates = self.kinds.iter().map(|kind| kind.estimate);
        estimates.max().unwrap_or_default()
    }

    pub fn failures(&self) -> Vec<&str> {
        let failures = self.kinds.iter().flat_map(|kind| &kind.failures);
        let mut failures: Vec<&str> = failures.map(String::as_str).collect();
        failures.sort_unstable();
        failures
    }
}

/// The kinds whose objects are in namespaces and can be deleted.
fn kinds(request: &Request, host: &dyn Host) -> Result<BTreeMap<String, KindContent>, Failure> {
    let served = host.kinds(EVERY_KIND)?.into_iter();
    let served = served.filter(|served| served.namespaced && has_verb(served, "delete"));
    let known = served.map(|served| {
        let kind = served.kind.clone();
        (kind, KindContent::new(served, request))
    });
    Ok(known.collect())
}

pub fn has_verb(served: &ServedKind, verb: &str) -> bool {
    served.verbs.iter().any(|have| have == verb)
}

impl KindContent {
    fn new(served: ServedKind, request: &Request) -> Self {
        let mut known = Self {
            served,
            count: 0,
            finalizers: BTreeMap::new(),
            undeleted: 0,
            was_swept: false,
            failures: Vec::new(),
            estimate: Duration::ZERO,
        };
        known.remember(request);
        known.notice_unavailable();
        known
    }

    pub fn is_pods(&self) -> bool {
        self.served.kind == Pod::KIND
    }

    /// Whether the host can watch the kind, so that what is left of it is known.
    pub fn is_watchable(&self) -> bool {
        has_verb(&self.served, "list") && has_verb(&self.served, "watch")
    }

    /// What became of the deletions of the last outcome.
    fn remember(&mut self, request: &Request) {
        let kind = &self.served.kind;
        let effects = request.previous.iter();
        for effect in effects.filter(|effect| effect.object.kind == *kind) {
            match (&effect.verb, &effect.outcome) {
                (EffectVerb::DeleteAll, ActionResult::Done(_) | ActionResult::NotFound(_)) => {
                    self.was_swept = true;
                }
                (EffectVerb::DeleteAll | EffectVerb::Delete, outcome) => {
                    self.failures.extend(fault(outcome).map(str::to_owned));
                }
                _ => {}
            }
        }
    }

    fn notice_unavailable(&mut self) {
        let has_list = has_verb(&self.served, "list");
        if let Some(reason) = self
            .served
            .unavailable
            .as_ref()
            .filter(|_| self.is_watchable())
        {
            self.failures.push(reason.clone());
        } else if has_list && !self.is_watchable() && !has_verb(&self.served, "deletecollection") {
            let kind = &self.served.kind;
            self.failures
                .push(format!("{kind} cannot be watched, nor be deleted together"));
        }
    }

    fn add(&mut self, item: &Item) {
        self.count += 1;
        self.undeleted += usize::from(item.metadata.always.deletion_timestamp.is_none());
        for finalizer in &item.metadata.finalizers {
            *self.finalizers.entry(finalizer.clone()).or_default() += 1;
        }
    }

    /// Decides how long what is left may take, and whether it should not be there any more.
    fn judge(&mut self, grace: Duration, namespace: &str) {
        if self.count > 0 {
            self.estimate = match grace {
                Duration::ZERO if !self.finalizers.is_empty() => FINALIZERS_TAKE,
                grace => grace,
            };
            if self.estimate.is_zero() && self.undeleted == 0 {
                let resource = self.gvr();
                self.failures.push(format!(
                    "unexpected items still remain in namespace: {namespace} for gvr: {resource}"
                ));
            }
        }
        if self.is_pods() {
            for failure in &mut self.failures {
                *failure =
                    format!("failed to delete pods for namespace: {namespace}, err: {failure}");
            }
        }
    }

    /// The group, version and resource, as Go prints them.
    fn gvr(&self) -> String {
        let api_version = self
            .served
            .kind
            .rsplit_once('/')
            .map_or("", |(before, _)| before);
        let slash = if api_version.contains('/') { "" } else { "/" };
        format!("{slash}{api_version}, Resource={}", self.served.resource)
    }

    /// The resource and its group: `deployments.apps`, and `pods.` without one.
    pub fn resource(&self) -> String {
        let mut parts = self.served.kind.rsplitn(3, '/');
        let group = parts.nth(2).unwrap_or_default();
        format!("{}.{group}", self.served.resource)
    }
}

/// Why a write has failed, if it has.
fn fault(outcome: &ActionResult) -> Option<&str> {
    match outcome {
        ActionResult::Conflict(text)
        | ActionResult::Forbidden(text)
        | ActionResult::Invalid(text)
        | ActionResult::Failed(text) => Some(text),
        _ => None,
    }
}
