//! The order within a stage: which step can be taken next, and which must be left out.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::plan::{Member, ObjectAddress, Step};

/// The steps of a stage that have not been taken yet, in a lane for each object.
///
/// Steps of one object are taken in order, each when the one before has ended; steps of others in
/// the order of the actions. What fails stops nothing else of its stage, with these exceptions:
/// after a step that has failed or was left out, the later ones on its object are left out; after
/// a create of an object that has failed, all creates of objects (but not those of subresources:
/// one eviction that is refused says nothing about others); and after an apply of a `children`
/// action that has not succeeded, the action's deletes.
///
/// A lane with steps is in `ready`, or in `gated`, or its last taken step has not ended. So every
/// step is taken at last if every taken one ends.
#[derive(Default)]
pub(super) struct StageOrder {
    lanes: Vec<Lane>,
    /// The lanes whose first step can be taken, by the number of that step.
    ready: BTreeMap<usize, usize>,
    /// The lanes whose first step deletes an unwanted member, which waits for the wanted ones.
    gated: Vec<usize>,
    /// The wanted members that have not ended.
    unapplied: usize,
    /// Whether a wanted member has not been applied.
    is_member_missing: bool,
    has_create_failed: bool,
}

/// The steps of one object, each with its number in the plan.
#[derive(Default)]
struct Lane {
    steps: VecDeque<(usize, Step)>,
    is_blocked: bool,
}

/// A step that was taken.
pub(super) struct TakenStep {
    pub place: Place,
    /// Its number in the plan.
    pub number: usize,
    pub step: Step,
    /// Whether it must not be done.
    pub is_left_out: bool,
}

/// Where a taken step belongs. Nothing more of its object is taken before the place is given back.
#[must_use = "its object waits for it"]
pub(super) struct Place {
    lane: usize,
    is_new_object: bool,
    member: Option<Member>,
}

/// How a step has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepEnd {
    /// It is done, or it is an Event: taken or denied, it means nothing for the others.
    Done,
    Failed,
    LeftOut,
}

impl StageOrder {
    /// The order of these steps, of which the first has this number in the plan.
    pub fn new(steps: Vec<Step>, first: usize) -> Self {
        let mut order = Self::default();
        let mut of_objects: HashMap<ObjectAddress, usize> = HashMap::new();
        for (number, step) in (first..).zip(steps) {
            order.unapplied += usize::from(step.member == Some(Member::Wanted));
            let lanes = &mut order.lanes;
            let lane = *of_objects.entry(step.target()).or_insert_with(|| {
                lanes.push(Lane::default());
                lanes.len() - 1
            });
            order.lanes[lane].steps.push_back((number, step));
        }
        (0..order.lanes.len()).for_each(|lane| order.offer(lane));
        order
    }

    /// The next step that nothing else has to end for.
    pub fn take(&mut self) -> Option<TakenStep> {
        let (_, lane) = self.ready.pop_first()?;
        let (number, step) = self.lanes[lane].steps.pop_front()?;
        let is_left_out = self.lanes[lane].is_blocked
            || (self.has_create_failed && step.is_new_object())
            || (self.is_member_missing && step.member == Some(Member::Unwanted));
        let place = Place {
            lane,
            is_new_object: step.is_new_object(),
            member: step.member,
        };
        Some(TakenStep {
            place,
            number,
            step,
            is_left_out,
        })
    }

    /// A taken step has ended.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "the place is given back: what was taken ends once"
    )]
    pub fn ended(&mut self, place: Place, end: StepEnd) {
        let Place {
            lane,
            is_new_object,
            member,
        } = place;
        self.lanes[lane].is_blocked |= end != StepEnd::Done;
        self.has_create_failed |= is_new_object && end == StepEnd::Failed;
        if member == Some(Member::Wanted) {
            self.is_member_missing |= end != StepEnd::Done;
            self.unapplied -= 1;
        }
        self.offer(lane);
        if self.unapplied == 0 {
            for lane in std::mem::take(&mut self.gated) {
                self.offer(lane);
            }
        }
    }

    /// Makes the next step of a lane ready, unless it has to wait for the members of a `children`
    /// action. These come before it in the plan, so they never wait for it.
    fn offer(&mut self, lane: usize) {
        let Some((number, step)) = self.lanes[lane].steps.front() else {
            return;
        };
        if step.member == Some(Member::Unwanted) && self.unapplied > 0 {
            self.gated.push(lane);
        } else {
            self.ready.insert(*number, lane);
        }
    }
}
