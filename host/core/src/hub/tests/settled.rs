//! Outcomes that say that they leave nothing to do: their own writes do not run the key again, and
//! everything else does.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use super::gate::{having_written, run_writing};
use super::*;

fn settled(mut outcome: Outcome) -> Outcome {
    outcome.follow_up.is_settled = true;
    outcome
}

/// Lists the pods whose `app` label is the key's name, and says that it is settled.
fn lists_and_is_settled(request: &Request, reader: &mut Reader) -> Result<Outcome, RunError> {
    lists_pods(request, reader).map(settled)
}

/// The trace of the write that the next change of an object shows.
fn next_version(rig: &Rig) -> Trace {
    Trace::Version(ResourceVersion::new(&(rig.version + 1).to_string()))
}

/// A rig whose key "web" has written the pod "x" at the version of the next change, and is settled.
fn settled_rig() -> Rig {
    let mut rig = Rig::with(manifest("p"), lists_and_is_settled);
    rig.put(&service(), "web", "");
    let shown = next_version(&rig);
    run_writing(&mut rig, pod(), "x", shown);
    rig
}

#[test]
fn what_a_settled_outcome_has_written_runs_its_key_no_more() {
    let mut rig = settled_rig();
    rig.put(&pod(), "x", r#""app":"web""#);
    assert_eq!(rig.run(), NONE);
    rig.put(&pod(), "x", r#""app":"web","by":"another""#);
    assert_eq!(rig.run(), ["web"], "somebody else's change");
}

#[test]
fn what_it_has_written_runs_other_keys() {
    let mut rig = settled_rig();
    rig.put(&service(), "app", "");
    assert_eq!(rig.run(), ["app"]);
    rig.put(&service(), "app", r#""touched":"yes""#);
    let shown = next_version(&rig);
    run_writing(&mut rig, pod(), "y", shown);
    rig.put(&pod(), "y", r#""app":"web""#);
    assert_eq!(rig.run(), ["web"]);
}

#[test]
fn a_watch_that_is_faster_than_the_answer_makes_no_difference() {
    for is_own in [true, false] {
        let mut rig = Rig::with(manifest("p"), lists_and_is_settled);
        rig.put(&service(), "web", "");
        let reconcile = rig.take().unwrap();
        let writing = rig.ran(reconcile);
        let shown = next_version(&rig);
        rig.put(&pod(), "x", r#""app":"web""#);
        if !is_own {
            rig.put(&pod(), "x", r#""app":"web","by":"another""#);
        }
        rig.end(writing, having_written(pod(), "x", shown));
        let expected: &[&str] = if is_own { &[] } else { &["web"] };
        assert_eq!(rig.run(), expected);
    }
}

#[test]
fn a_change_that_it_has_not_seen_runs_it_though_it_writes_nothing() {
    let mut rig = Rig::with(manifest("p"), lists_and_is_settled);
    rig.put(&service(), "web", "");
    let reconcile = rig.take().unwrap();
    let writing = rig.ran(reconcile);
    rig.put(&pod(), "x", r#""app":"web""#);
    rig.end(writing, Executed::default());
    assert_eq!(rig.run(), ["web"]);
}

#[test]
fn an_outcome_with_a_failed_write_is_not_settled() {
    let mut rig = Rig::with(manifest("p"), lists_and_is_settled);
    rig.put(&service(), "web", "");
    let reconcile = rig.take().unwrap();
    let writing = rig.ran(reconcile);
    let executed = Executed {
        failure: refused().failure,
        ..having_written(pod(), "x", next_version(&rig))
    };
    rig.end(writing, executed);
    rig.put(&pod(), "x", r#""app":"web""#);
    assert_eq!(rig.run(), ["web"], "before its back-off is over");
}

#[test]
fn what_is_deleted_before_a_watch_brings_it_runs_its_key() {
    let empty = |rig: &Rig| {
        Delta::Replace(Listing {
            resource_version: ResourceVersion::new(&rig.version.to_string()),
            ..Listing::default()
        })
    };
    for is_list_faster in [true, false] {
        let mut rig = Rig::with(manifest("p"), lists_and_is_settled);
        rig.put(&service(), "web", "");
        let reconcile = rig.take().unwrap();
        let writing = rig.ran(reconcile);
        let executed = having_written(pod(), "x", next_version(&rig));
        rig.version += 2;
        let id = rig.id(&pod());
        if is_list_faster {
            rig.hub.apply(id, empty(&rig), rig.now);
        }
        rig.end(writing, executed);
        if !is_list_faster {
            assert_eq!(rig.run(), NONE);
            rig.hub.apply(id, empty(&rig), rig.now);
        }
        assert_eq!(
            rig.run(),
            ["web"],
            "list before the answer: {is_list_faster}"
        );
        rig.version += 1;
        rig.hub.apply(id, empty(&rig), rig.now);
        assert_eq!(rig.run(), NONE, "it has been told");
    }
}

#[test]
fn a_list_that_shows_what_it_has_written_runs_it() {
    let mut rig = settled_rig();
    let object = rig.object(&pod(), "x", r#""app":"web","by":"another""#);
    let listing = Listing {
        objects: vec![object],
        resource_version: ResourceVersion::new(&rig.version.to_string()),
        ..Listing::default()
    };
    let id = rig.id(&pod());
    rig.hub.apply(id, Delta::Replace(listing), rig.now);
    assert_eq!(rig.run(), ["web"], "it may hide a change by somebody else");
}

#[test]
fn the_time_that_a_settled_outcome_asks_for_stays() {
    const MINUTE: Duration = Duration::from_secs(60);
    let mut rig = Rig::with(manifest("p"), |request, reader| {
        let mut outcome = lists_and_is_settled(request, reader)?;
        outcome.follow_up.next = NextRun::After(MINUTE);
        Ok(outcome)
    });
    rig.put(&service(), "web", "");
    let shown = next_version(&rig);
    run_writing(&mut rig, pod(), "x", shown);
    rig.put(&pod(), "x", r#""app":"web""#);
    assert_eq!(rig.run(), NONE);
    rig.now += MINUTE;
    assert_eq!(rig.run(), ["web"]);
}

#[test]
fn a_state_that_is_written_again_after_a_rollback_is_somebody_elses() {
    let mut rig = settled_rig();
    let listing = Listing {
        resource_version: ResourceVersion::new("1"),
        is_rollback: true,
        ..Listing::default()
    };
    let id = rig.id(&pod());
    rig.hub.apply(id, Delta::Replace(listing), rig.now);
    assert_eq!(rig.run(), NONE, "the cache had nothing to lose");
    rig.put(&pod(), "x", r#""app":"web""#);
    assert_eq!(rig.run(), ["web"]);
}

#[test]
fn keys_that_have_settled_take_no_memory_for_ever() {
    let mut rig = Rig::with(manifest("p"), lists_and_is_settled);
    for number in 0..100 {
        rig.put(&service(), &format!("s{number}"), "");
        let shown = next_version(&rig);
        let name = format!("x{number}");
        run_writing(&mut rig, pod(), &name, shown);
        rig.put(&pod(), &name, &format!(r#""app":"s{number}""#));
    }
    assert_eq!(rig.run(), NONE);
    let controller = rig.hub.controllers.values().next().unwrap();
    let cycles = controller.cycles();
    assert!(cycles <= 20, "{cycles} are remembered");
}

/// A cluster of three services. Each key keeps the label `out` of the pod of its name, which is the
/// number of the service followed by the label `in` of the pod. Others change numbers, both labels,
/// and remove pods.
struct Story {
    rig: Rig,
    world: BTreeMap<(bool, &'static str), State>,
    /// What the watches have not brought yet, by kind: the name, and the state or the version of
    /// the deletion.
    kept: [VecDeque<(&'static str, Result<State, u64>)>; 2],
    /// What each key has decided to write.
    decided: Arc<Mutex<BTreeMap<String, Option<String>>>>,
    running: Vec<Run>,
    /// How often a key has run.
    runs: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    /// The version at which it was created, which makes its uid.
    born: u64,
    version: u64,
    input: u32,
    output: Option<String>,
}

enum Run {
    Taken(Box<Reconcile>),
    Decided(Box<Writing>),
    Written(Box<Writing>, Trace),
}

#[derive(Clone, Debug)]
enum Deed {
    /// Somebody gives a service or a pod this number.
    Number(bool, usize, u32),
    /// Somebody spoils the output of a pod.
    Spoil(usize),
    Remove(usize),
    /// A watch brings its next change.
    Bring(bool),
    /// A watch is cut, and lists.
    List(bool),
    Take,
    /// One of the runs goes on: it decides, writes, or ends (well, or not).
    Go(usize, bool),
    Wait,
}

const NAMES: [&str; 3] = ["a", "b", "c"];

fn any_deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        3 => (any::<bool>(), 0..3_usize, 0..10_u32).prop_map(|(pod, name, to)| Deed::Number(pod, name, to)),
        1 => (0..3_usize).prop_map(Deed::Spoil),
        1 => (0..3_usize).prop_map(Deed::Remove),
        6 => any::<bool>().prop_map(Deed::Bring),
        1 => any::<bool>().prop_map(Deed::List),
        4 => Just(Deed::Take),
        8 => (0..3_usize, prop::bool::weighted(0.9)).prop_map(|(run, is_well)| Deed::Go(run, is_well)),
        1 => Just(Deed::Wait),
    ]
}

fn kind_of(is_pod: bool) -> Kind {
    if is_pod { pod() } else { service() }
}

/// The labels `in` and `out` of an object.
fn labels(json: impl AsRef<str>) -> (String, Option<String>) {
    let object: serde_json::Value = serde_json::from_str(json.as_ref()).unwrap();
    let label = |name: &str| {
        object["metadata"]["labels"][name]
            .as_str()
            .map(str::to_owned)
    };
    (label("in").unwrap(), label("out"))
}

impl Story {
    fn new() -> Self {
        let decided: Arc<Mutex<BTreeMap<String, Option<String>>>> = Arc::default();
        let decisions = decided.clone();
        let rig = Rig::with(manifest("p"), move |request, reader| {
            let key = &request.key.object;
            let from = reader.get(&service(), key).unwrap().map(labels);
            let to = reader.get(&pod(), key).unwrap().map(labels);
            let wanted = from.map(|(number, _)| match &to {
                None => format!("{number}0"),
                Some((input, _)) => format!("{number}{input}"),
            });
            let is_met = to.is_some_and(|(_, output)| output == wanted);
            let write = wanted.filter(|_| !is_met);
            decisions
                .lock()
                .unwrap()
                .insert(key.name.to_string(), write);
            Ok(settled(Outcome::default()))
        });
        Self {
            rig,
            world: BTreeMap::new(),
            kept: Default::default(),
            decided,
            running: Vec::new(),
            runs: 0,
        }
    }

    /// Changes an object on the server. Returns its version.
    fn change(&mut self, is_pod: bool, name: &'static str, change: impl FnOnce(&mut State)) -> u64 {
        self.rig.version += 1;
        let version = self.rig.version;
        let state = self.world.entry((is_pod, name)).or_insert(State {
            born: version,
            version,
            input: 0,
            output: None,
        });
        state.version = version;
        change(state);
        let shown = (name, Ok(state.clone()));
        self.kept[usize::from(is_pod)].push_back(shown);
        version
    }

    fn remove(&mut self, name: &'static str) {
        if self.world.remove(&(true, name)).is_some() {
            self.rig.version += 1;
            self.kept[1].push_back((name, Err(self.rig.version)));
        }
    }

    fn object(&self, is_pod: bool, name: &str, state: &State) -> Object {
        let kind = kind_of(is_pod);
        let output = state.output.as_ref();
        let output = output.map_or(String::new(), |output| format!(r#","out":"{output}""#));
        let json = format!(
            r#"{{"metadata":{{"namespace":"default","name":"{name}","uid":"{}","resourceVersion":"{}","labels":{{"in":"{}"{output}}}}}}}"#,
            state.born, state.version, state.input
        );
        Object::parse(&kind, &json, &self.rig.hub.schema(self.rig.id(&kind))).unwrap()
    }

    fn bring(&mut self, is_pod: bool) -> bool {
        let Some((name, what)) = self.kept[usize::from(is_pod)].pop_front() else {
            return false;
        };
        let delta = match what {
            Ok(state) => Delta::Upsert(self.object(is_pod, name, &state)),
            Err(version) => Delta::Delete {
                key: ObjectKey::new("default", name),
                resource_version: ResourceVersion::new(&version.to_string()),
            },
        };
        let id = self.rig.id(&kind_of(is_pod));
        self.rig.hub.apply(id, delta, self.rig.now);
        true
    }

    fn list(&mut self, is_pod: bool) {
        self.kept[usize::from(is_pod)].clear();
        let objects = self.world.iter().filter(|((of, _), _)| *of == is_pod);
        let objects = objects.map(|((_, name), state)| self.object(is_pod, name, state));
        let listing = Listing {
            objects: objects.collect(),
            resource_version: ResourceVersion::new(&self.rig.version.to_string()),
            ..Listing::default()
        };
        let id = self.rig.id(&kind_of(is_pod));
        self.rig
            .hub
            .apply(id, Delta::Replace(listing), self.rig.now);
    }

    /// Takes what is to be done next. Returns when that is, if there is nothing now.
    fn take(&mut self) -> Option<Time> {
        match self.rig.hub.next(self.rig.now, 0) {
            Next::Run(reconcile) => self.running.push(Run::Taken(reconcile)),
            Next::Fetch(fetch) => {
                let answers = fetch.questions.iter().map(|question| {
                    let is_pod = question.kind == pod();
                    let name = NAMES.into_iter().find(|name| **name == *question.key.name);
                    let state = self.world.get(&(is_pod, name.unwrap()));
                    let object = state.map(|state| self.object(is_pod, name.unwrap(), state));
                    Ok(object.map(|object| object.json().to_owned()))
                });
                let answers = answers.collect();
                self.rig.hub.fetched(&fetch, answers, self.rig.now);
            }
            Next::Idle(due) => return Some(due.unwrap_or(Time::MAX)),
        }
        None
    }

    /// One of the runs does its next step.
    fn go(&mut self, number: usize, is_well: bool) {
        if self.running.is_empty() {
            return;
        }
        let run = self.running.swap_remove(number % self.running.len());
        match run {
            Run::Taken(reconcile) => {
                self.runs += 1;
                let writing = self.rig.ran(*reconcile);
                self.running.push(Run::Decided(Box::new(writing)));
            }
            Run::Decided(writing) => {
                let key = writing.held.request.key.object.name.to_string();
                let name = NAMES.into_iter().find(|name| **name == *key).unwrap();
                let wanted = self.decided.lock().unwrap().remove(&key).flatten();
                let executed = match wanted {
                    Some(_) if !is_well => refused(),
                    None => Executed::default(),
                    Some(wanted) => {
                        let version = self.change(true, name, |pod| pod.output = Some(wanted));
                        let version = ResourceVersion::new(&version.to_string());
                        let written = Run::Written(writing, Trace::Version(version));
                        return self.running.push(written);
                    }
                };
                self.rig.end(*writing, executed);
            }
            Run::Written(writing, trace) => {
                let name = &writing.held.request.key.object.name;
                let failure = if is_well { None } else { refused().failure };
                let executed = Executed {
                    failure,
                    ..having_written(pod(), name, trace)
                };
                self.rig.end(*writing, executed);
            }
        }
    }

    fn act(&mut self, deed: &Deed) {
        match *deed {
            Deed::Number(is_pod, name, to) => {
                self.change(is_pod, NAMES[name], |state| state.input = to);
            }
            Deed::Spoil(name) if self.world.contains_key(&(true, NAMES[name])) => {
                self.change(true, NAMES[name], |state| {
                    state.output = Some("spoilt".into());
                });
            }
            Deed::Spoil(_) => {}
            Deed::Remove(name) => self.remove(NAMES[name]),
            Deed::Bring(is_pod) => drop(self.bring(is_pod)),
            Deed::List(is_pod) => self.list(is_pod),
            Deed::Take => drop(self.take()),
            Deed::Go(run, is_well) => self.go(run, is_well),
            Deed::Wait => self.rig.now += Duration::from_secs(20),
        }
    }

    /// Lets everything end that has begun, while nobody interferes.
    fn end(&mut self) {
        loop {
            while self.bring(false) || self.bring(true) {}
            match self.take() {
                None => {}
                Some(_) if !self.running.is_empty() => {}
                Some(Time::MAX) => break,
                Some(due) => self.rig.now = due,
            }
            self.go(0, true);
        }
    }

    /// Whether each pod has the output that its service asks for.
    fn check(&self) -> Result<(), TestCaseError> {
        for name in NAMES {
            let Some(from) = self.world.get(&(false, name)) else {
                continue;
            };
            let to = self.world.get(&(true, name));
            let input = to.map_or(0, |to| to.input);
            let wanted = format!("{}{input}", from.input);
            let output = to.and_then(|to| to.output.as_ref());
            prop_assert_eq!(output, Some(&wanted), "{}", name);
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn no_change_by_others_is_lost_on_a_settled_key(
        deeds in proptest::collection::vec(any_deed(), 1..150),
    ) {
        let mut story = Story::new();
        deeds.iter().for_each(|deed| story.act(deed));
        story.end();
        story.check()?;
        // One change by somebody is one run, whoever is faster: the watch, or the answer.
        for (is_pod, is_watch_faster) in [(false, true), (false, false), (true, true), (true, false)] {
            let (runs, number) = (story.runs, story.world.get(&(is_pod, "a")).map_or(0, |a| a.input));
            story.change(is_pod, "a", |state| state.input = (number + 1) % 10);
            story.bring(is_pod);
            while story.take().is_none() {
                story.go(0, true);
                story.go(0, true);
                if is_watch_faster {
                    story.bring(true);
                }
                story.go(0, true);
                story.bring(true);
            }
            let is_wanted = story.world.contains_key(&(false, "a"));
            let expected = usize::from(is_wanted || is_pod);
            prop_assert!(story.runs - runs <= expected, "{} runs", story.runs - runs);
            story.check()?;
        }
    }
}
