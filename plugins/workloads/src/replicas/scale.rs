//! Creating the pods that are missing, and deleting those that are too many.

use std::collections::BTreeSet;

use pilothouse_sdk::{Create, Delete, Failure, Filter, Kind, Outcome};

use super::objects::{Named, Pod, Related, controller_uid};
use super::{OWNER, Round};
use crate::claim::Claimant;
use crate::pod::PodView;
use crate::ranking::{PodsOnNodes, sort_with_nodes};
use crate::{selector, template};

/// Most pods that one reconcile creates or deletes.
const BURST: usize = 500;

/// Most bytes of the pods that one reconcile creates. An outcome has at most 4 MiB in all.
const MAX_BYTES: usize = 3_500_000;

/// Why a template without labels makes no pods: they would not be found again.
pub(super) const NO_LABELS: &str = "unable to create pods, no labels";

impl Round<'_> {
    /// Adds what makes the number of active pods right. `selected` are all pods that the selector
    /// selects, whoever has them.
    pub fn scale(
        &self,
        outcome: Outcome,
        active: Vec<&Pod>,
        selected: &[Pod],
    ) -> Result<Outcome, Failure> {
        let surplus = self.surplus(active.len());
        let count = usize::try_from(surplus.unsigned_abs()).unwrap_or(usize::MAX);
        match surplus {
            _ if self.is_being_deleted() => Ok(outcome),
            ..0 if self.has_no_labels() => Ok(outcome.retry(NO_LABELS)),
            ..0 if self.history.namespace_ends() => Ok(outcome),
            ..0 => self.create(outcome, count.min(BURST)),
            0 => Ok(outcome),
            1.. => self.delete(outcome, active, selected, count),
        }
    }

    /// True if the pods of the template would have no labels.
    pub fn has_no_labels(&self) -> bool {
        template::labels(&self.set.spec.template).next().is_none()
    }

    /// The stage starts slowly, and no pod is created after one that failed. What does not fit is
    /// created when these are there.
    fn create(&self, outcome: Outcome, count: usize) -> Result<Outcome, Failure> {
        let owner = Claimant::new(&self.key.kind, &self.set.metadata.always);
        let controller = owner.controller_reference();
        let pod = template::pod(&self.set.spec.template, self.key, &controller);
        let create = Create::new(&pod)?;
        if self.history.is_name_taken() {
            // By a pod that was given up: it is not among those that were read. The host derives
            // other names than those of all pods that have been read.
            let namespace = Some(self.key.namespace.as_str());
            self.host
                .list::<Named>(Pod::KIND, namespace, &Filter::Everything)?;
        }
        let fitting = (MAX_BYTES / create.object.len()).max(1);
        let creates = std::iter::repeat_n(create, count.min(fitting));
        Ok(creates.fold(outcome, Outcome::with))
    }

    fn delete(
        &self,
        outcome: Outcome,
        active: Vec<&Pod>,
        selected: &[Pod],
        count: usize,
    ) -> Result<Outcome, Failure> {
        let count = count.min(active.len()).min(BURST);
        let ordered = if count < active.len() {
            sort_with_nodes(active, &self.related_pods(selected)?, self.host.now())
        } else {
            active
        };
        let surplus = ordered.iter().take(count).map(|pod| {
            let metadata = PodView::metadata(pod);
            Delete::new(&metadata.of_kind(Pod::KIND)).uid(&metadata.uid)
        });
        Ok(surplus.fold(outcome, Outcome::with))
    }

    /// How many pods are on which nodes, of all sets that have the same controller. Of a set
    /// without a controller there are none.
    fn related_pods(&self, selected: &[Pod]) -> Result<PodsOnNodes, Failure> {
        let Some(controller) = controller_uid(&self.set.metadata.owner_references) else {
            return Ok(PodsOnNodes::default());
        };
        let owned = Filter::index(OWNER, controller);
        let related = self.host.list::<Related>(&self.key.kind, None, &owned)?;
        let own = &self.set.metadata.always.uid;
        let is_other = |set: &&Related| {
            let owner = controller_uid(&set.metadata.owner_references);
            owner == Some(controller) && set.metadata.uid != *own
        };
        let mut others = Vec::new();
        for set in related.iter().filter(is_other) {
            let selector = self.flavor.selector(&set.spec.selector);
            // One with an invalid selector has no pods.
            let Ok(Some(selector)) = selector::filter(&selector) else {
                continue;
            };
            let namespace = Some(set.metadata.namespace.as_str());
            others.extend(self.host.list_as::<Pod>(namespace, &selector)?);
        }
        let mut seen = BTreeSet::new();
        let all = selected.iter().chain(&others);
        Ok(PodsOnNodes::of(all.filter(|pod| seen.insert(pod.uid()))))
    }
}
