//! The promised order, for random stages and every order of answers: stages that do not overlap,
//! one write of an object at a time and in order, no more at once than the window allows, nothing
//! begun that a failure stops, nothing else left out, one answer and one effect for each write, no
//! Event waited for, and always an end.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::model::outcome::EffectVerb;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

#[derive(Clone, Copy, Debug)]
enum Asked {
    Patch(usize),
    Delete(usize),
    Create(usize),
    Event(usize),
    Children,
}

#[derive(Clone, Copy, Debug)]
enum Told {
    Accept,
    Refuse,
    Unreachable,
    LeaveAlone,
    /// Accept, and halt the plugin meanwhile.
    Halt,
}

fn asked() -> impl Strategy<Value = Asked> {
    let name = 0..NAMES.len();
    prop_oneof![
        4 => name.clone().prop_map(Asked::Patch),
        2 => name.clone().prop_map(Asked::Delete),
        4 => name.clone().prop_map(Asked::Create),
        1 => name.prop_map(Asked::Event),
        1 => Just(Asked::Children),
    ]
}

fn told() -> impl Strategy<Value = Told> {
    prop_oneof![
        24 => Just(Told::Accept),
        4 => Just(Told::Refuse),
        1 => Just(Told::Unreachable),
        1 => Just(Told::LeaveAlone),
        1 => Just(Told::Halt),
    ]
}

type Case = (Vec<(Vec<Asked>, bool)>, Vec<(usize, Told)>);

fn case() -> impl Strategy<Value = Case> {
    let stage = (prop::collection::vec(asked(), 0..24), any::<bool>());
    let stages = prop::collection::vec(stage, 1..5);
    (stages, prop::collection::vec((any::<usize>(), told()), 100))
}

/// A member of the key's children, as the host has marked it.
fn member() -> Value {
    let writes = Rig::new(&[]).writes(Action::Children {
        objects: vec![bare("old").to_string()],
    });
    let Operation::Apply { object, .. } = &writes[0].operation else {
        panic!("{writes:?}");
    };
    serde_json::from_str(object).unwrap()
}

fn bare(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": name}})
}

/// An Event with this number as its note.
fn noted(event: Action, number: usize) -> Action {
    let Action::Event(event) = event else {
        panic!("{event:?}");
    };
    Action::Event(Event {
        note: number.to_string(),
        ..event
    })
}

/// The stages of a case, with one `children` action at most, and each write with a body of its own.
fn stages_of(asked: &[(Vec<Asked>, bool)]) -> Vec<Stage> {
    let mut has_children = false;
    let mut number = 0;
    let mut action = |asked: &Asked| {
        number += 1;
        Some(match asked {
            Asked::Patch(name) => Action::Patch {
                kind: config_map(),
                key: ObjectKey::new("default", NAMES[*name]),
                subresource: None,
                patch_type: PatchType::Merge,
                body: json!({"data": {"number": number.to_string()}}).to_string(),
            },
            Asked::Delete(name) => delete(NAMES[*name]),
            Asked::Create(name) => Action::Create {
                object: bare(NAMES[*name]).to_string(),
                subresource: None,
            },
            Asked::Event(name) => noted(event(NAMES[*name]), number),
            Asked::Children if std::mem::replace(&mut has_children, true) => return None,
            Asked::Children => Action::Children {
                objects: ["a", "new"].map(|name| bare(name).to_string()).into(),
            },
        })
    };
    let stages = asked.iter().map(|(asked, always)| Stage {
        actions: asked.iter().filter_map(&mut action).collect(),
        always: *always,
    });
    stages.collect()
}

/// What is known of a write by the number of its effect.
struct Known {
    stage: usize,
    is_always: bool,
    target: ObjectAddress,
    verb: EffectVerb,
    member: Option<Member>,
}

fn known(plan: &Plan) -> Vec<Known> {
    let stages = plan.stages.iter().enumerate();
    let steps = stages.flat_map(|(stage, planned)| {
        planned.steps.iter().map(move |step| Known {
            stage,
            is_always: planned.is_always,
            target: step.target(),
            verb: step.verb,
            member: step.member,
        })
    });
    steps.collect()
}

/// Watches what is begun and answered, and checks it against the promise.
struct Watcher {
    steps: Vec<Known>,
    /// The steps under way, by number.
    under_way: BTreeMap<usize, PendingWrite>,
    begun: Vec<usize>,
    /// The answers so far, by number.
    answers: HashMap<usize, ActionResult>,
    stage: usize,
    window: usize,
    is_over: bool,
}

impl Watcher {
    fn begin(&mut self, pending: PendingWrite) {
        let number = pending.number();
        let step = &self.steps[number];
        let ended = |number: &usize| self.answers.contains_key(number);
        let failed = |number: usize| {
            let answer = self.answers.get(&number);
            answer.is_some_and(|answer| answer.error().is_some())
        };
        assert_ne!(step.verb, EffectVerb::Event, "Events are not handed out");
        assert!(!self.is_over, "nothing more is begun");
        assert!(!self.begun.contains(&number), "once");
        assert!(step.stage >= self.stage, "stages keep their order");
        if step.stage > self.stage {
            assert!(self.under_way.is_empty(), "the stage before has ended");
            self.stage = step.stage;
            self.window = 1;
        }
        let mut earlier = (0..self.steps.len()).filter(|other| {
            let other = &self.steps[*other];
            other.stage < step.stage
        });
        assert!(
            step.is_always || !earlier.any(failed),
            "a failure stops later stages"
        );
        let of_stage = |other: &usize| self.steps[*other].stage == step.stage;
        let same = (0..number).filter(of_stage);
        for other in same.filter(|other| self.steps[*other].target == step.target) {
            let was_begun = self.begun.contains(&other);
            assert!(!was_begun || ended(&other), "one of an object at a time");
            assert!(!failed(other), "nothing after a failure on its object");
        }
        let later = (number + 1..self.steps.len()).filter(of_stage);
        for other in later.filter(|other| self.steps[*other].target == step.target) {
            assert!(!self.begun.contains(&other), "in order");
        }
        for other in (0..self.steps.len()).filter(of_stage) {
            let (is, of) = (&self.steps[other], step);
            let is_create = is.verb == EffectVerb::Create && of.verb == EffectVerb::Create;
            assert!(!(is_create && failed(other)), "creates stop");
            if is.member == Some(Member::Wanted) && of.member == Some(Member::Unwanted) {
                let is_applied = ended(&other) && !failed(other);
                assert!(is_applied, "children are applied first");
            }
        }
        self.begun.push(number);
        self.under_way.insert(number, pending);
        assert!(self.under_way.len() <= self.window.min(Execution::MAX_WINDOW));
    }

    fn answer(&mut self, choice: usize, told: Told, halt: &Halt) -> (PendingWrite, ActionResult) {
        let at = choice % self.under_way.len();
        let number = *self.under_way.keys().nth(at).unwrap();
        let pending = self.under_way.remove(&number).unwrap();
        let answer = match told {
            Told::Accept | Told::Halt => ActionResult::Done(Some(number.to_string())),
            Told::Refuse => ActionResult::Invalid(number.to_string()),
            Told::Unreachable => ActionResult::Unavailable(number.to_string()),
            Told::LeaveAlone => ActionResult::Busy(number.to_string(), Duration::from_secs(1)),
        };
        self.is_over |= match told {
            Told::Unreachable | Told::LeaveAlone | Told::Halt => true,
            Told::Accept | Told::Refuse => false,
        };
        if matches!(told, Told::Halt) {
            halt.halt();
        }
        self.window += usize::from(answer.error().is_none());
        assert!(self.answers.insert(number, answer.clone()).is_none());
        (pending, answer)
    }

    fn end(&self, executed: &Executed) {
        assert!(self.under_way.is_empty());
        assert_eq!(executed.effects.len(), self.steps.len());
        for (number, (effect, step)) in executed.effects.iter().zip(&self.steps).enumerate() {
            assert_eq!(
                ObjectAddress::of(&effect.kind, &effect.key),
                step.target,
                "each effect is of its write"
            );
            let is_taken = effect.result == ActionResult::Done(None);
            match self.answers.get(&number) {
                Some(answer) => assert_eq!(effect.result, *answer),
                None if step.verb == EffectVerb::Event && is_taken => {}
                None => assert_eq!(effect.result, ActionResult::Skipped),
            }
        }
        self.end_of_events(executed);
        let failed = |answer: &ActionResult| answer.error().is_some();
        assert_eq!(
            executed.failure.is_some(),
            self.answers.values().any(failed),
            "it fails if a write has"
        );
        if !self.is_over {
            for (number, effect) in executed.effects.iter().enumerate() {
                let is_left_out = effect.result == ActionResult::Skipped;
                assert!(
                    !is_left_out || self.may_be_left_out(number, &executed.effects),
                    "a failure stops no more than is promised"
                );
            }
        }
    }

    /// Each Event that counts as done was taken, those of one object in order, and none that a
    /// failure stops.
    fn end_of_events(&self, executed: &Executed) {
        let mut done = 0;
        for (number, effect) in executed.effects.iter().enumerate() {
            if effect.verb == EffectVerb::Event && effect.result != ActionResult::Skipped {
                done += 1;
                assert!(!self.may_be_left_out(number, &executed.effects));
            }
        }
        assert_eq!(executed.events.len(), done);
        let mut last: HashMap<ObjectKey, usize> = HashMap::new();
        for taken in &executed.events {
            let Operation::Event { note, .. } = &taken.write.operation else {
                panic!("{taken:?}");
            };
            let number = note.parse().unwrap();
            let before = last.insert(taken.write.key.clone(), number);
            assert!(before.is_none_or(|before| before < number), "in order");
        }
    }

    /// Whether a step may have been left out because of others.
    fn may_be_left_out(&self, number: usize, effects: &[Effect]) -> bool {
        let step = &self.steps[number];
        let others = effects.iter().zip(&self.steps).enumerate();
        let mut others = others.filter(|(_, (effect, _))| effect.verb != EffectVerb::Event);
        others.any(|(at, (effect, other))| {
            let has_failed = effect.result.error().is_some();
            let is_undone = has_failed || effect.result == ActionResult::Skipped;
            let is_of_stage = other.stage == step.stage;
            let is_create = effect.verb == EffectVerb::Create && step.verb == EffectVerb::Create;
            let is_missing = other.member == Some(Member::Wanted) && is_undone;
            (other.stage < step.stage && has_failed && !step.is_always)
                || (is_of_stage && at < number && other.target == step.target && is_undone)
                || (is_of_stage && is_create && has_failed)
                || (is_missing && is_of_stage && step.member == Some(Member::Unwanted))
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_promised_order_holds_whatever_is_answered_when((asked, told) in case()) {
        let rig = Rig::new(&[member()]);
        let plan = rig.plan_after(0, &stages_of(&asked)).unwrap();
        let mut watcher = Watcher {
            steps: known(&plan),
            under_way: BTreeMap::new(),
            begun: vec![],
            answers: HashMap::new(),
            stage: 0,
            window: 1,
            is_over: false,
        };
        let halt = Halt::default();
        let author = Arc::new(Author::named("p"));
        let mut execution = Execution::new(plan, author, rig.applied.clone(), halt.clone());
        let mut told = told.into_iter().cycle();
        // An end that never comes runs out of numbers of steps.
        for _ in 0..=watcher.steps.len() {
            match execution.advance() {
                ControlFlow::Continue((begun, under_way)) => {
                    begun.into_iter().for_each(|pending| watcher.begin(pending));
                    prop_assert!(!watcher.under_way.is_empty());
                    let (choice, told) = told.next().unwrap();
                    let (pending, answer) = watcher.answer(choice, told, &halt);
                    execution = under_way.answered(pending, answer.into());
                }
                ControlFlow::Break(executed) => {
                    watcher.end(&executed);
                    return Ok(());
                }
            }
        }
        prop_assert!(false, "there is an end");
    }
}
