//! Pods that several budgets select: the API server then refuses to evict them.

use pilothouse_sdk::{Event, Failure, Filter, Host, Kind, ObjectRef};

use crate::memo::Memo;
use crate::objects::{Budget, Pod};
use crate::selector;

/// Most Events about this in one outcome, which has at most 100 of all.
const MAX_EVENTS: usize = 50;

/// Events about pods of this budget that other budgets select, too. The first of these budgets, by
/// name, tells.
///
/// A pod is looked at once. The budgets of the namespace are read only if there is a pod to look
/// at: what is read wakes the key, and a budget's status changes often.
pub fn events(
    host: &dyn Host,
    key: &ObjectRef,
    budget: &Budget,
    pods: &[Pod],
    memo: &Memo,
) -> Result<Vec<Event>, Failure> {
    let mut new = pods
        .iter()
        .filter(|pod| memo.is_new(budget, pod))
        .peekable();
    if new.peek().is_none() {
        return Ok(Vec::new());
    }
    let budgets = host.list_as::<Budget>(Some(&key.namespace), &Filter::Everything)?;
    let events = new.filter_map(|pod| {
        let mut selecting = budgets.iter().filter(|budget| selects(budget, pod));
        let first = selecting.next()?;
        let is_told_here = first.metadata.always.name == key.name;
        (is_told_here && selecting.next().is_some()).then(|| event(key, pod))
    });
    Ok(events.take(MAX_EVENTS).collect())
}

/// One with an invalid selector selects nothing.
fn selects(budget: &Budget, pod: &Pod) -> bool {
    let selector = budget.spec.selector.as_ref();
    selector.is_some_and(|selector| {
        selector::check(selector).is_ok() && selector.matches(&pod.metadata.labels)
    })
}

fn event(key: &ObjectRef, pod: &Pod) -> Event {
    let ObjectRef {
        namespace,
        name: chosen,
        ..
    } = key;
    let name = &pod.metadata.name;
    let note = format!(
        "Pod {namespace:?}/{name:?} matches multiple PodDisruptionBudgets.  Chose {chosen:?} \
         arbitrarily."
    );
    let pod = ObjectRef::new(Pod::KIND, namespace, name);
    Event::warning(&pod, "MultiplePodDisruptionBudgets", "Select", &note)
}
