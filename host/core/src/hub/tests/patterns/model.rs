//! Whatever comes and goes, and in whatever order: a key that reads patterns ends with the answer
//! that the present caches give, and is woken by nothing but a change of its answer.

use std::collections::BTreeMap;

use proptest::prelude::{Just, ProptestConfig, Strategy, prop_assert_eq, prop_oneof, proptest};

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

/// Everything that a key's answer rests on: with a list of a pattern, and with a read of a kind
/// that is read by one, which kinds there are, and which of them can be listed.
fn basis(world: &World, name: &str) -> String {
    let kinds = match name {
        "all" | "team" => any(),
        "object" => kind("A"),
        _ => return answer_now(world, name),
    };
    let mut reader = world.rig.hub.rehearse(1, &key_of(name), 0).unwrap().reader;
    format!("{:?} {}", reader.kinds(&kinds), answer_now(world, name))
}

/// What a key would answer on the present caches.
fn answer_now(world: &World, name: &str) -> String {
    let rehearsal = world.rig.hub.rehearse(1, &key_of(name), 0);
    let mut reader = rehearsal.expect("the plugin is there").reader;
    read(name, &mut reader).unwrap_or_else(|error| error.to_string())
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

    /// Once everything has settled, one thing that happens wakes exactly the keys whose answer it
    /// alters.
    #[test]
    fn a_change_wakes_exactly_the_keys_whose_answer_it_alters(steps in steps(), one in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.act(step);
        }
        world.settle();
        for step in one.iter().filter(|step| !matches!(step, Step::Narrow | Step::Wait(_))) {
            let before = KEYS.map(|name| basis(&world, name));
            world.act(step);
            let altered = KEYS.into_iter().zip(before);
            let altered = altered.filter(|(name, before)| basis(&world, name) != *before);
            let altered: Vec<&str> = altered.map(|(name, _)| name).collect();
            let woken = if matches!(step, Step::Run) { vec![] } else { world.rig.run() };
            prop_assert_eq!(woken, altered, "{:?}", step);
            world.settle();
        }
    }
}
