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
    /// The host gets to giving informers, if there is room for as many, and to taking them.
    Widen(usize),
    Narrow,
    /// Another version of a plugin is installed.
    Replace(Which),
    /// Every key that may run does.
    Run,
}

/// One of the plugins: the first reads `*`, the second `example.com/*`.
type Which = usize;

const PLUGINS: [Which; 2] = [0, 1];
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
        3 => (0..4usize).prop_map(Step::Widen),
        1 => Just(Step::Narrow),
        1 => (0..2usize).prop_map(Step::Replace),
        5 => Just(Step::Run),
    ];
    proptest::collection::vec(step, 0..60)
}

/// What the key of a Service reads: that depends on its name, and on the plugin.
fn read(of: Which, name: &str, reader: &mut Reader) -> Result<String, ReadError> {
    match name {
        "all" => reader.list(&pattern(of), None, &ListFilter::Everything),
        "team" => {
            let filter = ListFilter::Index("team".into(), TEAMS[of].into());
            reader.list(&pattern(of), None, &filter)
        }
        "object" => {
            let key = ObjectKey::new("default", "0");
            Ok(reader.get(&kind("A"), &key)?.unwrap_or("none").to_owned())
        }
        "kinds" => Ok(format!("{:?}", reader.kinds(&pattern(of))?)),
        _ => Ok(String::new()),
    }
}

fn pattern(of: Which) -> Kind {
    let pattern = ["*", "example.com/*"][of];
    pattern.parse().unwrap()
}

/// A key of a plugin.
type Key = (Which, &'static str);

/// What has happened since this was last looked at.
#[derive(Default)]
struct Seen {
    /// The keys that have run.
    ran: BTreeSet<Key>,
    /// The last answer of each key that had one.
    answers: BTreeMap<Key, String>,
}

/// The world: a hub, and the server's state.
struct World {
    rig: Rig,
    seen: Arc<Mutex<Seen>>,
    defined: [bool; 3],
    objects: BTreeMap<(usize, usize), &'static str>,
}

/// A version of a plugin.
fn version(of: Which, seen: Arc<Mutex<Seen>>) -> Fake {
    let mut manifest = reads_all(["p", "q"][of]);
    manifest.reads[1].kind = pattern(of);
    manifest.indexes[0].kind = pattern(of);
    let behaviour = move |request: &Request, reader: &mut Reader| {
        let name = &*request.key.object.name;
        let key = KEYS.into_iter().find(|key| *key == name).expect("a key");
        seen.lock().unwrap().ran.insert((of, key));
        match read(of, name, reader) {
            Err(error @ ReadError::NotYet(_)) => Err(RunError::Trap(error.to_string())),
            answer => {
                let text = answer.unwrap_or_else(|error| error.to_string());
                seen.lock().unwrap().answers.insert((of, key), text);
                Ok(Outcome::default())
            }
        }
    };
    Fake {
        manifest,
        behaviour: Box::new(behaviour),
    }
}

fn id(of: Which) -> PluginId {
    [1, 2][of]
}

impl World {
    fn new() -> Self {
        let (mut rig, seen) = (Rig::default(), Arc::default());
        for of in PLUGINS {
            let plugin = Arc::new(version(of, Arc::clone(&seen)));
            let joined = rig.hub.join(plugin, &settings(), rig.now);
            assert_eq!(joined, Ok(id(of)));
        }
        rig.serve(&[]);
        rig.sync(&service());
        for name in KEYS {
            rig.put(&service(), name, "");
        }
        Self {
            rig,
            seen,
            defined: [false; 3],
            objects: BTreeMap::new(),
        }
    }

    fn replace(&mut self, of: Which) {
        let plugin = Arc::new(version(of, self.seen.clone()));
        let now = self.rig.now;
        let replaced = self.rig.hub.replace(id(of), plugin, &settings(), now);
        replaced.expect("nothing keeps it from being replaced");
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
            Step::Widen(room) => self.rig.widen(room),
            Step::Narrow => drop(self.rig.hub.narrow(self.rig.now)),
            Step::Replace(of) => self.replace(of),
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
            extent: Detail::Metadata.into(),
            ..Listing::default()
        };
        let now = self.rig.now;
        self.rig.hub.apply(informer, Delta::Replace(listing), now);
    }

    /// Lets the host get to everything, until nothing is left to do.
    fn settle(&mut self) {
        for _ in 0..6 {
            // What there was no room for is asked for again.
            self.rig.now += Duration::from_secs(60);
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
fn basis(world: &World, (of, name): Key) -> String {
    match name {
        "all" | "team" => format!("{:?}", shown(world, (of, name))),
        "object" => {
            let rehearsal = world.rig.hub.rehearse(id(of), &key_of(name), 0);
            let kinds = rehearsal.unwrap().reader.kinds(&kind("A"));
            format!("{kinds:?} {}", answer_now(world, (of, name)))
        }
        _ => answer_now(world, (of, name)),
    }
}

/// The objects of the kinds that are served and listed, as far as the key's list has them.
fn shown(world: &World, (of, name): Key) -> Vec<(usize, usize, &'static str)> {
    let listed = world.rig.hub.status(world.rig.now).remove(of).of_patterns;
    let is_listed = |of: usize| listed.contains(&(kind(KINDS[of]), true));
    let objects = world.objects.iter();
    let objects = objects.map(|((of, object), team)| (*of, *object, *team));
    objects
        .filter(|(kind, _, team)| is_listed(*kind) && (name == "all" || *team == TEAMS[of]))
        .collect()
}

/// What a key would answer on the present caches.
fn answer_now(world: &World, (of, name): Key) -> String {
    let rehearsal = world.rig.hub.rehearse(id(of), &key_of(name), 0);
    let mut reader = rehearsal.expect("the plugin is there").reader;
    read(of, name, &mut reader).unwrap_or_else(|error| error.to_string())
}

fn keys() -> impl Iterator<Item = Key> {
    let keys = |of| KEYS.into_iter().map(move |name| (of, name));
    PLUGINS.into_iter().flat_map(keys)
}

/// Has something happen. What alters a key's answer wakes the key, and nothing else does, but for
/// another version. But a key whose last run had no answer, because a kind was not listed, waits to
/// give one. Returns the keys that wait from now on.
fn check(
    world: &mut World,
    waiting: &BTreeSet<Key>,
    step: &Step,
) -> Result<BTreeSet<Key>, TestCaseError> {
    let before: Vec<String> = keys().map(|key| basis(world, key)).collect();
    *world.seen.lock().unwrap() = Seen::default();
    world.act(step);
    world.rig.run();
    let mut waiting_now = BTreeSet::new();
    for (key, before) in keys().zip(before) {
        let seen = world.seen.lock().unwrap();
        let (is_woken, has_answered) = (seen.ran.contains(&key), seen.answers.contains_key(&key));
        drop(seen);
        let was_waiting = waiting.contains(&key);
        let is_new = matches!(step, Step::Replace(of) if *of == key.0);
        let must_run = is_new || basis(world, key) != before;
        let may_wait = was_waiting && world.has_unlisted();
        prop_assert!(
            is_woken || !must_run || may_wait,
            "{key:?} is missed: {step:?}"
        );
        prop_assert!(!is_woken || must_run || was_waiting, "{key:?}: {step:?}");
        if !has_answered && (is_woken || was_waiting) {
            waiting_now.insert(key);
        }
    }
    Ok(waiting_now)
}

/// Lets everything settle, and compares the last answers with those that the caches give.
fn settled(world: &mut World) -> Result<(), TestCaseError> {
    world.settle();
    for (key, last) in &world.seen.lock().unwrap().answers {
        prop_assert_eq!(last, &answer_now(world, *key), "{:?}", key);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_key_ends_with_the_present_answer(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.act(step);
        }
        settled(&mut world)?;
        let objects = world.objects.keys();
        let listed: Vec<String> = objects.map(|(of, name)| format!("{}/{name}", KINDS[*of])).collect();
        for of in PLUGINS {
            let last = world.seen.lock().unwrap().answers[&(of, "all")].clone();
            prop_assert_eq!(names(&last), listed.join(" "));
        }
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
        settled(&mut world)?;
    }
}
