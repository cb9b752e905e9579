//! One reconcile of a budget.

use std::time::Duration;

use pilothouse_sdk::{
    ActionResult, EffectVerb, Event, Failure, Filter, Host, IntOrString, ObjectRef, Outcome,
    Request,
};

use crate::disrupted::Disrupted;
use crate::memo::Memo;
use crate::objects::{Budget, Pod};
use crate::scale::{Expected, Fault, Scales};
use crate::status::{Counts, fail_safe};
use crate::{overlap, selector};

/// Most Events about overdue pods in one outcome, which has at most 100 of all.
const MAX_OVERDUE: usize = 40;

/// Decides what is to be done about one budget.
pub fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
    let Some(budget) = request.object::<Budget>()? else {
        return Ok(Outcome::done());
    };
    let round = Round {
        key: request.key(),
        budget: &budget,
        before: request.memo().unwrap_or_default(),
        host,
    };
    match failed_write(request).filter(|_| !round.before.is_fail_safe) {
        Some(reason) => {
            let memo = round.before.clone();
            Ok(round.fail_safe(memo, Vec::new(), reason)?.retry(reason))
        }
        None => round.decide(),
    }
}

/// Why the last write of the status has failed, unless the budget has changed or is gone.
fn failed_write(request: &Request) -> Option<&str> {
    let mut effects = request.previous.iter();
    let write = effects
        .find(|effect| effect.object == *request.key() && effect.verb == EffectVerb::Patch)?;
    match &write.outcome {
        ActionResult::Forbidden(text)
        | ActionResult::Invalid(text)
        | ActionResult::Failed(text) => Some(text),
        _ => None,
    }
}

struct Round<'a> {
    key: &'a ObjectRef,
    budget: &'a Budget,
    before: Memo,
    host: &'a dyn Host,
}

/// What a budget asks for.
struct Demand {
    expected: Expected,
    desired_healthy: i32,
}

impl Round<'_> {
    fn decide(&self) -> Result<Outcome, Failure> {
        let selected = match selector::filter(self.budget.spec.selector.as_ref()) {
            Ok(selected) => selected,
            Err(fault) => {
                let event = self.warning("NoPods", &format!("Failed to get pods: {fault}"));
                let memo = Memo::of(self.budget, &[]);
                return self.fail_safe(memo, vec![event], &fault);
            }
        };
        let pods = self.pods(selected.as_ref())?;
        let overlaps = overlap::events(self.host, self.key, self.budget, &pods, &self.before)?;
        let outcome = match self.demand(&pods) {
            Ok(demand) => self.settle(&pods, &demand)?,
            Err(Fault::Failed(failure)) => return Err(failure),
            Err(Fault::Told(fault)) => {
                let mut events = self.about_no_pods(&pods);
                events.push(self.warning(
                    "CalculateExpectedPodCountFailed",
                    &format!("Failed to calculate the number of expected pods: {fault}"),
                ));
                self.fail_safe(Memo::of(self.budget, &pods), events, &fault)?
            }
        };
        Ok(overlaps.into_iter().fold(outcome, Outcome::with))
    }

    fn pods(&self, selected: Option<&Filter>) -> Result<Vec<Pod>, Failure> {
        match selected {
            Some(filter) => self.host.list_as(Some(&self.key.namespace), filter),
            None => Ok(Vec::new()),
        }
    }

    /// How many pods there should be, and how many of them healthy.
    fn demand(&self, pods: &[Pod]) -> Result<Demand, Fault> {
        let scales = Scales {
            namespace: &self.key.namespace,
            host: self.host,
        };
        let spec = &self.budget.spec;
        let share = |of: &IntOrString, total: i32| {
            let share = of.scaled_up(total);
            share.map_err(|fault| Fault::Told(fault.to_string()))
        };
        match (&spec.max_unavailable, &spec.min_available) {
            (Some(max_unavailable), _) => {
                let expected = scales.expected(pods)?;
                let unavailable = share(max_unavailable, expected.count)?;
                Ok(Demand {
                    desired_healthy: expected.count.saturating_sub(unavailable).max(0),
                    expected,
                })
            }
            (None, Some(IntOrString::Int(min_available))) => Ok(Demand {
                desired_healthy: *min_available,
                expected: Expected {
                    count: number(pods.len()),
                    has_unmanaged: false,
                },
            }),
            (None, Some(min_available)) => {
                let expected = scales.expected(pods)?;
                Ok(Demand {
                    desired_healthy: share(min_available, expected.count)?,
                    expected,
                })
            }
            (None, None) => Ok(Demand {
                desired_healthy: 0,
                expected: Expected::default(),
            }),
        }
    }

    /// Writes what was counted, and looks again when a pod that was to be deleted should be gone.
    fn settle(&self, pods: &[Pod], demand: &Demand) -> Result<Outcome, Failure> {
        let now = self.host.now();
        let disrupted = Disrupted::of(self.budget, pods, now);
        let counts = Counts {
            current_healthy: number(disrupted.count_healthy(pods, now)),
            desired_healthy: demand.desired_healthy,
            expected_pods: demand.expected.count,
            disrupted: &disrupted.expected,
        };
        let mut events = self.about_no_pods(pods);
        if demand.expected.has_unmanaged {
            events.push(self.warning("UnmanagedPods", &self.unmanaged()));
        }
        let mut memo = Memo::of(self.budget, pods);
        let news = memo.tell(&self.before, events);
        let overdue = disrupted.events(self.key).into_iter().take(MAX_OVERDUE);
        let mut outcome = news
            .into_iter()
            .chain(overdue)
            .fold(Outcome::done(), Outcome::with);
        if let Some(patch) = counts.patch(self.key, self.budget, now)? {
            outcome = outcome.with(patch);
        }
        if let Some(next) = disrupted.next {
            // A pod is overdue when its time is over, and not yet at that moment.
            outcome = outcome.requeue_after(next + Duration::from_millis(1));
        }
        Ok(outcome.remember(&memo)?)
    }

    /// Allows no eviction: what the budget asks for is not known.
    fn fail_safe(
        &self,
        mut memo: Memo,
        events: Vec<Event>,
        reason: &str,
    ) -> Result<Outcome, Failure> {
        let news = memo.tell(&self.before, events);
        let mut outcome = news.into_iter().fold(Outcome::done(), Outcome::with);
        let patch = fail_safe(self.key, self.budget, reason, self.host.now())?;
        if let Some(patch) = patch {
            outcome = outcome.with(patch);
        }
        memo.is_fail_safe = true;
        Ok(outcome.remember(&memo)?)
    }

    fn about_no_pods(&self, pods: &[Pod]) -> Vec<Event> {
        let event = pods
            .is_empty()
            .then(|| Event::normal(self.key, "NoPods", "Sync", "No matching pods found"));
        event.into_iter().collect()
    }

    fn warning(&self, reason: &str, note: &str) -> Event {
        Event::warning(self.key, reason, "Sync", note)
    }

    fn unmanaged(&self) -> String {
        let selector = self.budget.spec.selector.as_ref();
        let selector = selector.and_then(|selector| serde_json::to_string(selector).ok());
        format!(
            "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. \
             As a result, the status of the PDB cannot be calculated correctly, which may result \
             in undefined behavior. To account for these pods please set \".spec.minAvailable\" \
             field of the PDB to an integer value.",
            selector.unwrap_or_default()
        )
    }
}

/// A count as the API has it.
fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
