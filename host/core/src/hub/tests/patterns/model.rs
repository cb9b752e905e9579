//! Whatever comes and goes, and in whatever order: a key that reads patterns ends with the answer
//! that the present caches give, and is woken by nothing but a change of its answer.

use std::collections::BTreeMap;

use proptest::prelude::{
    Just, ProptestConfig, Strategy, TestCaseError, prop_assert, prop_assert_eq, prop_oneof,
    proptest,
};

use super::*;

/// One thing that happens.
#[derive(Clone, Debug)]
enum Step {
    /// The cluster serves this kind now, or does so no more.
    Define(usize),
    Undefine(usize),
    Put(usize, usize, &'static str),
    Remove(usize, usize),
    /// The informer of a kind, if there is one, brings its first list.
    List(usize),
    Wait(u64),
    /// The host gets to giving and taking informers.
    Widen,
    Narrow,
    /// Every key that may run does.
    Run,
}

const KINDS: [&str; 3] = ["A", "B", "C"];
const TEAMS: [&str; 2] = ["x", "y"];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let team = prop_oneof![Just(TEAMS[0]), Just(TEAMS[1])];
    let step = prop_oneof![
        2 => (0..3usize).prop_map(Step::Define),
        1 => (0..3usize).prop_map(Step::Undefine),
        4 => (0..3usize, 0..2usize, team).prop_map(|(kind, name, team)| Step::Put(kind, name, team)),
        2 => (0..3usize, 0..2usize).prop_map(|(kind, name)| Step::Remove(kind, name)),
        3 => (0..3usize).prop_map(Step::List),
        2 => (0..12u64).prop_map(Step::Wait),
        1 => Just(Step::Wait(61)),
        3 => Just(Step::Widen),
        1 => Just(Step::Narrow),
        5 => Just(Step::Run),
    ];
    proptest::collection::vec(step, 0..60)
}

/// What the key of a Service reads: that depends on its name.
fn read(name: &str, reader: &mut Reader) -> Result<String, ReadError> {
    match name {
        "all" => reader.list(&any(), None, &ListFilter::Everything),
        "team" => {
            let filter = ListFilter::Index("team".into(), "x".into());
            reader.list(&any(), None, &filter)
        }
        "object" => {
            let key = ObjectKey::new("default", "0");
            Ok(reader.get(&kind("A"), &key)?.unwrap_or("none").to_owned())
        }
        "kinds" => Ok(format!("{:?}", reader.kinds(&any())?)),
        _ => Ok(String::new()),
    }
}

/// The last answer of each key.
type Answers = Arc<Mutex<BTreeMap<String, String>>>;

/// The world: a hub, and the server's state.
struct World {
    rig: Rig,
    answers: Answers,
    defined: [bool; 3],
    objects: BTreeMap<(usize, usize), &'static str>,
}

impl World {
    fn new() -> Self {
        let mut rig = Rig::default();
        let answers = Answers::default();
        let said = answers.clone();
        let behaviour = move |request: &Request, reader: &mut Reader| {
            let name = request.key.object.name.to_string();
            match read(&name, reader) {
                Err(error @ ReadError::NotYet(_)) => Err(RunError::Trap(error.to_string())),
                answer => {
                    let text = answer.unwrap_or_else(|error| error.to_string());
                    said.lock().unwrap().insert(name, text);
                    Ok(Outcome::default())
                }
            }
        };
        rig.join_with(reads_all("p"), &settings(), behaviour);
        rig.serve(&[]);
        rig.sync(&service());
        for name in ["all", "team", "object", "kinds", "nothing"] {
            rig.put(&service(), name, "");
        }
        Self {
            rig,
            answers,
            defined: [false; 3],
            objects: BTreeMap::new(),
        }
    }

    fn serve(&mut self) {
        let defined = KINDS.iter().zip(self.defined);
        let defined = defined.filter(|(_, is_defined)| *is_defined);
        let kinds: Vec<Kind> = defined.map(|(name, _)| kind(name)).collect();
        self.rig.serve(&kinds);
    }

    /// The informer of a kind, if a plugin uses it.
    fn informer(&self, of: usize) -> Option<InformerId> {
        let wanted = self.rig.hub.wanted().into_iter();
        let mut of_kind = wanted.filter(|(_, (key, _))| key.kind == kind(KINDS[of]));
        of_kind.next().map(|(id, _)| id)
    }

    /// Whether a kind that was asked about has no informer, or one that has not listed.
    fn has_unlisted(&self) -> bool {
        let mut informers = (0..KINDS.len()).filter_map(|of| self.informer(of));
        self.rig.hub.wants_informers() || informers.any(|informer| !self.is_listed(informer))
    }

    fn is_listed(&self, informer: InformerId) -> bool {
        self.rig.hub.snapshot().informers[informer].is_synced(Detail::Metadata)
    }

    fn act(&mut self, step: &Step) {
        match *step {
            Step::Define(of) => {
                self.defined[of] = true;
                self.serve();
            }
            Step::Undefine(of) => {
                self.defined[of] = false;
                self.objects.retain(|(kind, _), _| *kind != of);
                self.serve();
            }
            Step::Put(of, name, team) if self.defined[of] => {
                self.objects.insert((of, name), team);
                let listed = self
                    .informer(of)
                    .filter(|informer| self.is_listed(*informer));
                if listed.is_some() {
                    let labels = format!(r#""team":"{team}""#);
                    self.rig.put(&kind(KINDS[of]), &name.to_string(), &labels);
                }
            }
            Step::Remove(of, name) => {
                let was_there = self.objects.remove(&(of, name)).is_some();
                let listed = self
                    .informer(of)
                    .filter(|informer| self.is_listed(*informer));
                if listed.is_some() && was_there {
                    self.rig.remove(&kind(KINDS[of]), &name.to_string());
                }
            }
            Step::List(of) => self.list(of),
            Step::Wait(seconds) => self.rig.now += Duration::from_secs(seconds),
            Step::Widen => self.rig.widen(10),
            Step::Narrow => drop(self.rig.hub.narrow(self.rig.now)),
            Step::Run => drop(self.rig.run()),
            Step::Put(..) => {}
        }
    }

    fn list(&mut self, of: usize) {
        let unlisted = self
            .informer(of)
            .filter(|informer| !self.is_listed(*informer));
        let Some(informer) = unlisted else {
            return;
        };
        let objects: Vec<(usize, &str)> = self
            .objects
            .iter()
            .filter(|((kind, _), _)| *kind == of)
            .map(|((_, name), team)| (*name, *team))
            .collect();
        let objects = objects.into_iter().map(|(name, team)| {
            let labels = format!(r#""team":"{team}""#);
            self.rig
                .object(&kind(KINDS[of]), &name.to_string(), &labels)
        });
        let listing = Listing {
            objects: objects.collect(),
            resource_version: ResourceVersion::new(&self.rig.version.to_string()),
            detail: Detail::Metadata,
            ..Listing::default()
        };
        let now = self.rig.now;
        self.rig.hub.apply(informer, Delta::Replace(listing), now);
    }

    /// Lets the host get to everything, until nothing is left to do.
    fn settle(&mut self) {
        for _ in 0..6 {
            self.rig.run();
            self.rig.widen(10);
            for of in 0..KINDS.len() {
                self.list(of);
            }
        }
        self.rig.run();
    }
}

const KEYS: [&str; 5] = ["all", "kinds", "nothing", "object", "team"];

/// Everything that a key's answer rests on, as far as the host knows it. Of a list of a pattern
/// these are the objects of the kinds that are listed. Of one object these are also whether its
/// kind is served, and whether it can be listed.
fn basis(world: &World, name: &str) -> String {
    match name {
        "all" | "team" => format!("{:?}", shown(world, name)),
        "object" => {
            let mut reader = world.rig.hub.rehearse(1, &key_of(name), 0).unwrap().reader;
            let kinds = reader.kinds(&kind("A"));
            format!("{kinds:?} {}", answer_now(world, name))
        }
        _ => answer_now(world, name),
    }
}

/// The objects of the kinds that are served and listed, as far as the key's list has them.
fn shown(world: &World, name: &str) -> Vec<(usize, usize, &'static str)> {
    let listed = world.rig.hub.status(world.rig.now).remove(0).of_patterns;
    let is_listed = |of: usize| listed.contains(&(kind(KINDS[of]), true));
    let objects = world.objects.iter();
    let objects = objects.map(|((of, object), team)| (*of, *object, *team));
    objects
        .filter(|(of, _, team)| is_listed(*of) && (name == "all" || *team == "x"))
        .collect()
}

/// What a key would answer on the present caches.
fn answer_now(world: &World, name: &str) -> String {
    let rehearsal = world.rig.hub.rehearse(1, &key_of(name), 0);
    let mut reader = rehearsal.expect("the plugin is there").reader;
    read(name, &mut reader).unwrap_or_else(|error| error.to_string())
}

/// Has something happen. What alters a key's answer wakes the key, and nothing else does. But a key
/// whose last run had no answer, because a kind was not listed, waits to give one. Returns the keys
/// that wait from now on.
fn check(
    world: &mut World,
    waiting: &BTreeSet<&'static str>,
    step: &Step,
) -> Result<BTreeSet<&'static str>, TestCaseError> {
    let before = KEYS.map(|name| basis(world, name));
    world.answers.lock().unwrap().clear();
    world.act(step);
    let woken = world.rig.run();
    let mut waiting_now = BTreeSet::new();
    for (name, before) in KEYS.into_iter().zip(before) {
        let is_woken = woken.iter().any(|key| key == name);
        let (is_altered, was_waiting) = (basis(world, name) != before, waiting.contains(name));
        let may_wait = was_waiting && world.has_unlisted();
        prop_assert!(
            is_woken || !is_altered || may_wait,
            "{name} is missed: {step:?}"
        );
        prop_assert!(!is_woken || is_altered || was_waiting, "{name}: {step:?}");
        let has_answered = world.answers.lock().unwrap().contains_key(name);
        if !has_answered && (is_woken || was_waiting) {
            waiting_now.insert(name);
        }
    }
    Ok(waiting_now)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_key_ends_with_the_present_answer(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.act(step);
        }
        world.settle();
        for name in KEYS {
            let last = world.answers.lock().unwrap()[name].clone();
            prop_assert_eq!(last, answer_now(&world, name), "{}", name);
        }
        let objects = world.objects.keys();
        let listed: Vec<String> = objects.map(|(of, name)| format!("{}/{name}", KINDS[*of])).collect();
        prop_assert_eq!(names(&world.answers.lock().unwrap()["all"]), listed.join(" "));
    }

    #[test]
    fn a_change_wakes_exactly_the_keys_whose_answer_it_alters(steps in steps(), more in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.act(step);
        }
        world.settle();
        let mut waiting = BTreeSet::new();
        for step in &more {
            waiting = check(&mut world, &waiting, step)?;
        }
        world.settle();
        for (name, last) in &*world.answers.lock().unwrap() {
            prop_assert_eq!(last, &answer_now(&world, name), "{}", name);
        }
    }
}
