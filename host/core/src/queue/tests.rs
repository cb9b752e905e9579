use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::model::key::ObjectKey;

const MS: Duration = Duration::from_millis(1);

fn key(name: &str) -> SubjectKey {
    SubjectKey {
        object: ObjectKey::new("default", name),
        ..SubjectKey::singleton()
    }
}

/// A queue with a clock that the test advances.
#[derive(Default)]
struct Rig {
    queue: WorkQueue,
    now: Time,
}

impl Rig {
    fn add(&mut self, name: &str) -> &mut Self {
        self.add_with(name, NORMAL)
    }

    fn add_with(&mut self, name: &str, priority: Priority) -> &mut Self {
        self.queue.add(&key(name), priority, self.now);
        self
    }

    fn add_after(&mut self, name: &str, delay: Duration) -> &mut Self {
        self.add_after_with(name, delay, NORMAL)
    }

    fn add_after_with(&mut self, name: &str, delay: Duration, priority: Priority) -> &mut Self {
        self.queue.add_after(&key(name), delay, priority, self.now);
        self
    }

    fn next(&mut self) -> Option<String> {
        self.queue
            .next(self.now)
            .map(|taken| taken.key.object.name.to_string())
    }

    fn done(&mut self, name: &str) -> &mut Self {
        self.queue.done(&key(name), self.now);
        self
    }

    fn advance(&mut self, by: Duration) -> &mut Self {
        self.now += by;
        self
    }

    fn all(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.next()).collect()
    }
}

#[test]
fn keys_are_handed_out_in_the_order_they_came() {
    assert_eq!(
        Rig::default().add("b").add("a").add("c").all(),
        ["b", "a", "c"]
    );
}

#[test]
fn a_pending_key_is_handed_out_once_however_often_it_is_added() {
    assert_eq!(Rig::default().add("a").add("b").add("a").all(), ["a", "b"]);
}

#[test]
fn a_key_added_while_it_runs_runs_once_more_when_done_and_not_before() {
    let mut rig = Rig::default();
    rig.add("a").next();
    rig.add("a").add("a");
    assert_eq!(rig.next(), None);
    assert_eq!(rig.done("a").next().as_deref(), Some("a"));
    assert_eq!(rig.done("a").next(), None);
}

#[test]
fn a_queue_that_was_long_gives_its_memory_back() {
    let mut rig = Rig::default();
    for number in 0..10_000 {
        rig.add(&number.to_string());
    }
    rig.add_after("later", MS);
    for name in rig.all() {
        rig.done(&name);
    }
    assert!(rig.queue.entries.capacity() <= 2 * KEPT_ROOM);
    assert_eq!(rig.advance(MS).all(), ["later"], "nothing is lost by it");
}

#[test]
fn higher_priority_overtakes_and_a_raised_key_goes_to_the_end_of_its_class() {
    let mut rig = Rig::default();
    rig.add_with("old", LOW)
        .add_with("raised", LOW)
        .add("new")
        .add("raised")
        .add_with("raised", LOW);
    assert_eq!(rig.all(), ["new", "raised", "old"]);
}

#[test]
fn a_later_time_raises_the_priority_of_a_key_that_runs_before_it() {
    let runs_first = |prepare: fn(&mut Rig)| {
        let mut rig = Rig::default();
        prepare(&mut rig);
        rig.add_with("other", LOW).add_after("a", 50 * MS);
        rig.queue.release(&key("a"));
        rig.done("a").advance(10 * MS);
        assert_eq!(rig.all(), ["a", "other"]);
        assert_eq!(rig.done("a").advance(50 * MS).next(), None, "only once");
    };
    // Pending behind another key.
    runs_first(|rig| {
        rig.add_with("other", LOW).add_with("a", LOW);
    });
    // Delayed to an earlier time.
    runs_first(|rig| {
        rig.add_after_with("a", 10 * MS, LOW);
    });
    // To run again at once.
    runs_first(|rig| {
        rig.add_with("a", LOW).next();
        rig.add_with("other", LOW).add_with("a", LOW);
    });
    // Held.
    runs_first(|rig| {
        rig.add_with("a", LOW);
        let taken = rig.queue.next(rig.now).unwrap();
        rig.queue.hold(&taken, 20 * MS, rig.now);
    });
}

#[test]
fn a_delayed_key_waits_for_its_time() {
    let mut rig = Rig::default();
    rig.add_after("b", 20 * MS).add_after("a", 10 * MS);
    assert_eq!((rig.next(), rig.queue.next_due()), (None, Some(10 * MS)));
    assert_eq!(rig.queue.pending(), 0, "a delayed key is not pending");
    assert_eq!(
        rig.advance(20 * MS).all(),
        ["a", "b"],
        "in the order of their times"
    );
}

#[test]
fn of_two_delays_the_earlier_holds() {
    let mut rig = Rig::default();
    rig.add_after("a", 10 * MS)
        .add_after("a", 50 * MS)
        .add_after("b", 50 * MS)
        .add_after("b", 10 * MS);
    assert_eq!(rig.advance(10 * MS).all(), ["a", "b"]);
    rig.done("a").done("b");
    assert_eq!(
        rig.advance(50 * MS).all(),
        Vec::<String>::new(),
        "the later delay is gone"
    );
}

#[test]
fn a_plain_add_ends_a_delay() {
    let mut rig = Rig::default();
    assert_eq!(rig.add_after("a", 10 * MS).add("a").all(), ["a"]);
    assert_eq!(rig.done("a").advance(10 * MS).next(), None);
}

#[test]
fn a_delay_asked_for_while_running_counts_from_then() {
    let mut rig = Rig::default();
    rig.add("a").next();
    rig.add_after("a", 10 * MS).done("a");
    assert_eq!(rig.advance(9 * MS).next(), None);
    assert_eq!(rig.advance(MS).next().as_deref(), Some("a"));
}

#[test]
fn failures_back_off_and_other_triggers_neither_reset_nor_inflate_them() {
    let mut rig = Rig::default();
    let mut delays = Vec::new();
    for _ in 0..3 {
        rig.add("a").next();
        delays.push(rig.queue.fail(&key("a"), Duration::ZERO, NORMAL, rig.now));
        rig.done("a");
    }
    assert_eq!(delays, [5 * MS, 10 * MS, 20 * MS]);
    assert_eq!(rig.queue.failing(), 1);
    rig.add("a").next();
    rig.queue.forget(&key("a"));
    rig.done("a");
    rig.add("a");
    assert_eq!(rig.queue.next(rig.now).map(|taken| taken.failures), Some(0));
}

#[test]
fn a_key_says_how_long_it_waited() {
    let mut rig = Rig::default();
    rig.add("a").advance(7 * MS);
    assert_eq!(
        rig.queue.next(rig.now).map(|taken| taken.waited),
        Some(7 * MS)
    );
}

#[test]
fn a_draining_queue_hands_out_what_it_has_and_takes_nothing_new() {
    let mut rig = Rig::default();
    rig.add("running").next();
    rig.add("pending").add_after("delayed", MS);
    rig.queue.drain();
    rig.add("late").add("running").advance(MS);
    assert_eq!(rig.all(), ["pending"]);
    assert!(!rig.done("pending").queue.is_empty(), "a key still runs");
    assert_eq!(
        rig.done("running").all(),
        ["running"],
        "what was added to a running key runs"
    );
    assert!(rig.done("running").queue.is_empty());
}

#[test]
fn a_finished_key_leaves_nothing_behind() {
    let mut rig = Rig::default();
    rig.add("a").next();
    rig.done("a");
    assert!(rig.queue.entries.is_empty());
}

/// The queue's own counts of failing keys, and its broken keys.
fn counted(queue: &WorkQueue) -> (usize, Vec<(SubjectKey, u32)>) {
    let broken = queue
        .broken()
        .map(|(key, failures, _)| (key.clone(), failures));
    (queue.failing(), broken.collect())
}

/// The same, found by walking all entries.
fn walked(queue: &WorkQueue) -> (usize, Vec<(SubjectKey, u32)>) {
    let entries = queue.entries.iter();
    let failures = entries.map(|(key, entry)| (key.clone(), entry.failures));
    let failing: BTreeMap<SubjectKey, u32> = failures.filter(|(_, count)| *count > 0).collect();
    let count = failing.len();
    let broken = failing
        .into_iter()
        .filter(|(_, count)| *count >= BREAK_AFTER);
    (count, broken.collect())
}

#[derive(Clone, Debug)]
enum Step {
    Add(u8, Priority),
    AddAfter(u8, u8, Priority),
    Next,
    Succeed(u8),
    Fail(u8),
    Hold(u8, u8),
    Release(u8),
    /// Succeeds, and may run again only after a time.
    Rest(u8, u8),
    /// Keeps all keys but this one.
    Drop(u8),
    Advance(u8),
}

/// What happens to failing keys.
#[derive(Clone, Debug)]
enum Fate {
    Fails(u8, u32),
    FailsForGood(u8),
    Succeeds(u8),
    IsForgotten(u8),
    AllForgotten,
    Drained,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        4 => (0..4u8, 1..2 * BREAK_AFTER).prop_map(|(key, times)| Fate::Fails(key, times)),
        1 => (0..4u8).prop_map(Fate::FailsForGood),
        2 => (0..4u8).prop_map(Fate::Succeeds),
        1 => (0..4u8).prop_map(Fate::IsForgotten),
        1 => Just(Fate::AllForgotten),
        1 => Just(Fate::Drained),
    ]
}

fn priority() -> impl Strategy<Value = Priority> {
    prop_oneof![Just(NORMAL), Just(LOW)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..6u8, priority()).prop_map(|(key, priority)| Step::Add(key, priority)),
        2 => (0..6u8, 1..40u8, priority())
            .prop_map(|(key, delay, priority)| Step::AddAfter(key, delay, priority)),
        4 => Just(Step::Next),
        3 => (0..6u8).prop_map(Step::Succeed),
        1 => (0..6u8).prop_map(Step::Fail),
        1 => (0..6u8, 1..40u8).prop_map(|(key, delay)| Step::Hold(key, delay)),
        1 => (0..6u8).prop_map(Step::Release),
        1 => (0..6u8, 1..60u8).prop_map(|(key, delay)| Step::Rest(key, delay)),
        1 => (0..6u8).prop_map(Step::Drop),
        2 => (0..30u8).prop_map(Step::Advance),
    ]
}

proptest! {
    /// Checks the queue against the simplest model of its promise: a key that was added runs
    /// afterwards, with the highest priority it was added with, and no key runs twice at once.
    #[test]
    fn no_key_runs_twice_at_once_and_none_is_lost(steps in proptest::collection::vec(step(), 0..200)) {
        let mut rig = Rig::default();
        let mut running = BTreeSet::new();
        let mut held: BTreeMap<String, Time> = BTreeMap::new();
        let mut not_before: BTreeMap<String, Time> = BTreeMap::new();
        // Keys that must still run, and the earliest time at which that can be expected.
        let mut owed: BTreeMap<String, Time> = BTreeMap::new();
        let owe = |owed: &mut BTreeMap<String, Time>, name: String, at: Time| {
            owed.entry(name).and_modify(|have| *have = at.min(*have)).or_insert(at);
        };
        // The highest priority that each key was added with since it last ran.
        let mut highest: BTreeMap<String, Priority> = BTreeMap::new();
        let raise = |highest: &mut BTreeMap<String, Priority>, name: String, to: Priority| {
            highest.entry(name).and_modify(|have| *have = to.max(*have)).or_insert(to);
        };
        for step in steps {
            match step {
                Step::Add(name, priority) => {
                    rig.add_with(&name.to_string(), priority);
                    owe(&mut owed, name.to_string(), rig.now);
                    raise(&mut highest, name.to_string(), priority);
                }
                Step::AddAfter(name, delay, priority) => {
                    let delay = u32::from(delay) * MS;
                    rig.add_after_with(&name.to_string(), delay, priority);
                    owe(&mut owed, name.to_string(), rig.now + delay);
                    raise(&mut highest, name.to_string(), priority);
                }
                Step::Next => {
                    if let Some(taken) = rig.queue.next(rig.now) {
                        let name = taken.key.object.name.to_string();
                        prop_assert_eq!(highest.remove(&name), Some(taken.priority), "{}", name);
                        if let Some(until) = held.remove(&name) {
                            prop_assert!(until <= rig.now, "{name} ran though it was held");
                        }
                        prop_assert!(not_before.get(&name).is_none_or(|at| *at <= rig.now), "{name} runs before its time");
                        prop_assert!(running.insert(name.clone()), "{name} runs twice");
                        prop_assert!(owed.remove(&name).is_some_and(|at| at <= rig.now), "{name} ran unasked or early");
                    }
                }
                Step::Succeed(name) if running.remove(&name.to_string()) => {
                    rig.queue.forget(&key(&name.to_string()));
                    rig.done(&name.to_string());
                }
                Step::Fail(name) if running.remove(&name.to_string()) => {
                    let delay = rig.queue.fail(&key(&name.to_string()), Duration::ZERO, NORMAL, rig.now);
                    owe(&mut owed, name.to_string(), rig.now + delay);
                    raise(&mut highest, name.to_string(), NORMAL);
                    rig.done(&name.to_string());
                }
                Step::Hold(name, delay) if running.remove(&name.to_string()) => {
                    let taken = Taken { key: key(&name.to_string()), failures: 0, priority: NORMAL, waited: Duration::ZERO };
                    let until = rig.now + u32::from(delay) * MS;
                    rig.queue.hold(&taken, until, rig.now);
                    held.insert(name.to_string(), until);
                    owe(&mut owed, name.to_string(), until);
                    raise(&mut highest, name.to_string(), NORMAL);
                }
                Step::Rest(name, delay) if running.remove(&name.to_string()) => {
                    let at = rig.now + u32::from(delay) * MS;
                    rig.queue.set_not_before(&key(&name.to_string()), at);
                    not_before.insert(name.to_string(), at);
                    rig.queue.forget(&key(&name.to_string()));
                    rig.done(&name.to_string());
                }
                Step::Release(name) => {
                    rig.queue.release(&key(&name.to_string()));
                    if held.remove(&name.to_string()).is_some() {
                        owed.insert(name.to_string(), rig.now);
                    }
                }
                Step::Drop(name) => {
                    let name = name.to_string();
                    rig.queue.retain(|kept| *kept != key(&name));
                    // One that runs does so to its end.
                    owed.remove(&name);
                    highest.remove(&name);
                    held.remove(&name);
                    not_before.remove(&name);
                }
                Step::Succeed(_) | Step::Fail(_) | Step::Hold(..) | Step::Rest(..) => {}
                Step::Advance(by) => drop(rig.advance(u32::from(by) * MS)),
            }
            prop_assert_eq!(rig.queue.running(), running.len());
            let states = || rig.queue.entries.values().map(|entry| &entry.state);
            let is_held = |state: &&State| matches!(state, State::Held { .. });
            let is_delayed = |state: &&State| matches!(state, State::Delayed { .. });
            prop_assert_eq!(rig.queue.held(), states().filter(is_held).count());
            let delayed = rig.queue.delayed() - rig.queue.held();
            prop_assert_eq!(delayed, states().filter(is_delayed).count());
            prop_assert_eq!(rig.queue.depth().values().sum::<usize>(), rig.queue.pending());
            prop_assert_eq!(counted(&rig.queue), walked(&rig.queue));
        }
        for name in &running {
            rig.done(name);
        }
        rig.advance(Duration::from_secs(2000));
        let ran: BTreeSet<String> = rig.all().into_iter().collect();
        prop_assert_eq!(ran, owed.into_keys().collect::<BTreeSet<_>>());
    }
}

proptest! {
    #[test]
    fn how_many_keys_fail_is_known_without_looking_at_them(fates in proptest::collection::vec(fate(), 0..40)) {
        let mut rig = Rig::default();
        for fate in fates {
            // A key can fail only while it runs.
            let start = |rig: &mut Rig, name: &str| {
                rig.add(name);
                let taken = rig.queue.claim(&key(name), rig.now);
                taken.is_some()
            };
            match fate {
                Fate::Fails(name, times) => {
                    let name = name.to_string();
                    for _ in 0..times {
                        rig.advance(2 * COOL_DOWN);
                        if start(&mut rig, &name) {
                            rig.queue.fail(&key(&name), Duration::ZERO, NORMAL, rig.now);
                            rig.done(&name);
                        }
                    }
                }
                Fate::FailsForGood(name) => {
                    let name = name.to_string();
                    rig.advance(2 * COOL_DOWN);
                    if start(&mut rig, &name) {
                        rig.queue.fail_terminally(&key(&name), rig.now);
                        rig.done(&name);
                    }
                }
                Fate::Succeeds(name) => {
                    let name = name.to_string();
                    rig.advance(2 * COOL_DOWN);
                    if start(&mut rig, &name) {
                        rig.queue.forget(&key(&name));
                        rig.done(&name);
                    }
                }
                Fate::IsForgotten(name) => drop(rig.queue.forget_idle(&key(&name.to_string()))),
                Fate::AllForgotten => rig.queue.retain(|_| false),
                Fate::Drained => {
                    rig.queue.drain();
                    rig.queue.is_draining = false;
                }
            }
            prop_assert_eq!(counted(&rig.queue), walked(&rig.queue));
        }
    }
}

#[test]
fn a_held_key_waits_for_its_release_whoever_adds_it_and_survives_a_drain() {
    let mut rig = Rig::default();
    rig.add("a").advance(3 * MS);
    let taken = rig.queue.next(rig.now).unwrap();
    rig.queue.hold(&taken, rig.now + 50 * MS, rig.now);
    rig.add("a").add_after("a", MS).advance(10 * MS);
    assert_eq!(rig.next(), None);
    rig.queue.drain();
    assert!(!rig.queue.is_empty());
    rig.queue.release(&key("a"));
    let again = rig.queue.next(rig.now).unwrap();
    assert_eq!(
        (again.waited, rig.queue.counts().adds),
        (13 * MS, 1),
        "it has waited all the time, and was added once"
    );
    assert!(rig.done("a").queue.is_empty());
}

/// Hands out a key, and gives it back with the wish not to run for 50 ms.
fn rest(rig: &mut Rig, name: &str) {
    assert_eq!(rig.add(name).next().as_deref(), Some(name));
    rig.queue.set_not_before(&key(name), rig.now + 50 * MS);
}

#[test]
fn what_adds_a_key_before_its_time_makes_it_run_then_and_once() {
    let adds: [fn(&mut Rig); 5] = [
        |rig| _ = rig.done("a").add("a"),
        |rig| _ = rig.add("a").done("a"),
        |rig| _ = rig.done("a").add_after("a", 20 * MS),
        |rig| _ = rig.add_after("a", 20 * MS).done("a"),
        |rig| {
            rig.done("a");
            assert_eq!(rig.queue.visit(&key("a"), LOW, rig.now), None);
        },
    ];
    for add in adds {
        let mut rig = Rig::default();
        rest(&mut rig, "a");
        add(&mut rig);
        rig.add("a");
        assert_eq!(rig.advance(49 * MS).next(), None);
        assert_eq!(rig.advance(MS).next().as_deref(), Some("a"));
        assert_eq!(rig.done("a").advance(COOL_DOWN).next(), None);
    }
}

#[test]
fn a_longer_delay_than_its_time_is_kept() {
    let mut rig = Rig::default();
    rest(&mut rig, "a");
    rig.add_after("a", 80 * MS).done("a").advance(79 * MS);
    assert_eq!(rig.next(), None);
    assert_eq!(rig.advance(MS).next().as_deref(), Some("a"));
}

#[test]
fn a_time_is_remembered_until_it_has_come_or_is_ended() {
    let mut rig = Rig::default();
    rest(&mut rig, "a");
    rig.done("a");
    rig.queue.end_not_before();
    assert_eq!(rig.add("a").next().as_deref(), Some("a"));
    rig.queue.set_not_before(&key("a"), rig.now);
    rig.done("a");
    assert!(rig.queue.entries.is_empty(), "there is nothing to remember");
}

#[test]
fn a_held_key_runs_when_its_patience_ends() {
    let mut rig = Rig::default();
    rig.add("a");
    let taken = rig.queue.next(rig.now).unwrap();
    rig.queue.hold(&taken, 50 * MS, rig.now);
    assert_eq!(rig.advance(49 * MS).next(), None);
    assert_eq!(rig.advance(MS).next().as_deref(), Some("a"));
}

/// Fails a key this many times in a row, each time as soon as it is due.
fn fail(rig: &mut Rig, name: &str, times: u32) {
    rig.add(name);
    for _ in 0..times {
        while rig.next().is_none() {
            rig.now = rig.queue.next_due().unwrap();
        }
        rig.queue.fail(&key(name), Duration::ZERO, NORMAL, rig.now);
        rig.done(name);
    }
}

#[test]
fn being_added_brings_a_broken_key_back_only_after_the_cool_down() {
    let mut rig = Rig::default();
    fail(&mut rig, "a", BREAK_AFTER - 1);
    assert!(!rig.queue.is_broken(&key("a")));
    assert_eq!(rig.add("a").next().as_deref(), Some("a"), "not broken yet");
    rig.queue.fail(&key("a"), Duration::ZERO, NORMAL, rig.now);
    rig.done("a");
    assert!(rig.queue.is_broken(&key("a")));
    // Its own back-off is still shorter than the cool-down.
    assert_eq!(rig.add("a").next(), None);
    assert_eq!(rig.queue.next_due(), Some(rig.now + 2560 * MS));
    fail(&mut rig, "a", 4);
    assert_eq!(rig.add("a").advance(COOL_DOWN - MS).next(), None);
    assert_eq!(
        rig.advance(MS).next().as_deref(),
        Some("a"),
        "long before its back-off of 41 s"
    );
}

#[test]
fn a_change_while_a_broken_key_runs_waits_for_the_cool_down_too() {
    let mut rig = Rig::default();
    fail(&mut rig, "a", BREAK_AFTER + 4);
    rig.now = rig.queue.next_due().unwrap();
    assert_eq!(rig.next().as_deref(), Some("a"));
    rig.add("a");
    rig.queue.fail(&key("a"), Duration::ZERO, NORMAL, rig.now);
    rig.done("a");
    assert_eq!(rig.advance(COOL_DOWN - MS).next(), None);
    assert_eq!(rig.advance(MS).next().as_deref(), Some("a"));
}

#[test]
fn a_terminal_failure_of_a_broken_key_waits_for_a_change_and_for_the_cool_down() {
    let mut rig = Rig::default();
    fail(&mut rig, "a", BREAK_AFTER);
    rig.now = rig.queue.next_due().unwrap();
    rig.next();
    rig.queue.fail_terminally(&key("a"), rig.now);
    rig.done("a");
    assert_eq!(
        (
            rig.advance(100 * COOL_DOWN).next(),
            rig.queue.broken().len()
        ),
        (None, 1)
    );
    assert_eq!(rig.add("a").next().as_deref(), Some("a"));
    rig.queue.fail_terminally(&key("a"), rig.now);
    rig.done("a");
    assert_eq!(rig.add("a").next(), None);
    assert_eq!(rig.advance(COOL_DOWN).next().as_deref(), Some("a"));
}

#[test]
fn one_success_mends_a_broken_key() {
    let mut rig = Rig::default();
    fail(&mut rig, "a", BREAK_AFTER);
    rig.now = rig.queue.next_due().unwrap();
    rig.next();
    rig.queue.forget(&key("a"));
    rig.done("a");
    assert_eq!(rig.queue.broken().len(), 0);
    assert_eq!(rig.add("a").next().as_deref(), Some("a"));
}

#[test]
fn the_depth_is_known_by_priority() {
    let mut rig = Rig::default();
    rig.add("a").add_with("b", LOW).add_with("c", LOW).add("c");
    assert_eq!(*rig.queue.depth(), [(NORMAL, 2), (LOW, 1)].into());
    rig.all();
    assert!(rig.queue.depth().is_empty());
}

#[test]
fn a_running_key_says_for_how_long() {
    let mut rig = Rig::default();
    rig.add("a").add("b").next();
    rig.advance(MS).next();
    let mut running: Vec<Duration> = rig.queue.running_for(rig.now + MS).collect();
    running.sort_unstable();
    assert_eq!(running, [MS, 2 * MS]);
    rig.done("a");
    assert_eq!(rig.queue.running_for(rig.now).count(), 1);
}
