//! Whatever comes between: no key runs twice at once, and in the end the last version has seen the last state of everything.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::grants::Grants;

const NAMESPACES: [&str; 2] = ["x", "y"];
const NAMES: [&str; 3] = ["a", "b", "c"];

/// An object's place: whether it is a pod, and its key.
type Place = (bool, ObjectKey);

#[derive(Clone, Debug)]
enum Step {
    Put(Place, u32),
    Remove(Place),
    Take,
    /// One of the turns that run, by its number.
    End(usize, End),
    Replace(Version),
    Configure {
        is_paused: bool,
        concurrency: u32,
    },
    /// Lists one of the informers that have not been listed yet.
    List(usize),
    Answer(usize, bool),
    Wait(u64),
}

#[derive(Clone, Copy, Debug)]
enum End {
    Well,
    Requeued,
    /// It wrote what no watch will show.
    Unseen,
    /// It wrote, and had no answer.
    Unknown,
    Retry,
    Terminal,
    Trap,
    Unavailable,
}

/// What may differ between the versions of a plugin, or in what the operator says of it.
#[derive(Clone, Debug)]
struct Version {
    of_pods: bool,
    reads_other: bool,
    field: Option<&'static str>,
    namespaces: Vec<&'static str>,
    concurrency: u32,
    is_paused: bool,
}

impl Version {
    fn first() -> Self {
        Self {
            of_pods: false,
            reads_other: true,
            field: None,
            namespaces: vec![],
            concurrency: 2,
            is_paused: false,
        }
    }

    fn grants(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.contains(&namespace)
    }

    fn settings(&self) -> Settings {
        let namespaces = self.namespaces.iter().map(|name| (*name).to_owned());
        Settings {
            concurrency: self.concurrency,
            is_paused: self.is_paused,
            grants: Grants {
                namespaces: namespaces.collect(),
                ..Grants::as_requested()
            },
            ..Settings::default()
        }
    }
}

fn kind_of(is_pod: bool) -> Kind {
    if is_pod { pod() } else { service() }
}

/// The states that a run saw of its subject and of the other kind's object of the same name, by plugin and key, with the version that ran.
#[derive(Default)]
struct Seen(BTreeMap<(String, ObjectKey), Sight>);

/// By which version, and what it saw of the subject and of the other object.
type Sight = (usize, [Option<String>; 2]);

struct Life {
    rig: Rig,
    id: PluginId,
    version: Version,
    /// How many versions there have been.
    number: usize,
    seen: Arc<Mutex<Seen>>,
    world: BTreeMap<Place, u32>,
    /// Every object there has ever been.
    ever: BTreeSet<Place>,
    /// What has been listed, with how much of each object.
    listed: BTreeMap<InformerId, Payload>,
    turns: Vec<(Turn, Decision)>,
    lookups: Vec<Lookup>,
}

impl Life {
    /// The plugin `a`, whose life it is, and beside it `b`, whose is uneventful.
    fn new() -> Self {
        let mut life = Self {
            rig: Rig::default(),
            id: 0,
            version: Version::first(),
            number: 0,
            seen: Arc::default(),
            world: BTreeMap::new(),
            ever: BTreeSet::new(),
            listed: BTreeMap::new(),
            turns: Vec::new(),
            lookups: Vec::new(),
        };
        for name in ["b", "a"] {
            let plugin = life.plugin(name, &Version::first());
            let settings = Version::first().settings();
            life.id = life.rig.hub.join(plugin, &settings, Time::ZERO).unwrap();
        }
        life
    }

    fn plugin(&self, name: &str, version: &Version) -> Arc<dyn Plugin> {
        let fields = version.field.map(str::to_owned).into_iter().collect();
        let subject = kind_of(version.of_pods);
        let mut manifest = manifest(name);
        manifest.subject = Subject::Each(Selection {
            kind: subject.clone(),
            ..selection()
        });
        manifest.reads = vec![ReadDeclaration::new(subject.clone(), fields)];
        let other = version.reads_other.then(|| kind_of(!version.of_pods));
        let reads = other
            .iter()
            .map(|kind| ReadDeclaration::new(kind.clone(), vec![]));
        manifest.reads.extend(reads);
        manifest.writes.clear();
        let (seen, name, number) = (self.seen.clone(), name.to_owned(), self.number);
        let reconcile = move |request: &Request, reader: &mut Reader| {
            let mut state = |kind: &Kind| {
                let object = reader.get(kind, &request.key).unwrap()?;
                let object: serde_json::Value = serde_json::from_str(object).unwrap();
                object["metadata"]["labels"]["state"]
                    .as_str()
                    .map(str::to_owned)
            };
            let states = [state(&subject), other.as_ref().and_then(&mut state)];
            let mut seen = seen.lock().unwrap();
            seen.0
                .insert((name.clone(), request.key.clone()), (number, states));
            Ok(Outcome::default())
        };
        Arc::new(Fake {
            manifest,
            reconcile: Box::new(reconcile),
        })
    }

    fn json(&self, (_, key): &Place, state: u32, version: u64) -> String {
        format!(
            r#"{{"metadata":{{"namespace":"{}","name":"{}","uid":"u","resourceVersion":"{version}","labels":{{"state":"{state}"}}}}}}"#,
            key.namespace, key.name
        )
    }

    /// The informers that show this object, if they have been listed.
    fn showing(&self, (is_pod, key): &Place) -> Vec<InformerId> {
        let wanted = self.rig.hub.wanted().into_iter();
        let showing = wanted.filter(|(id, (source, _))| {
            self.listed.contains_key(id)
                && source.kind == kind_of(*is_pod)
                && is_in(source, &key.namespace)
        });
        showing.map(|(id, _)| id).collect()
    }

    fn change(&mut self, place: &Place, state: Option<u32>) {
        self.rig.version += 1;
        let version = self.rig.version;
        let old = self.world.remove(place);
        if let Some(state) = state {
            self.world.insert(place.clone(), state);
            self.ever.insert(place.clone());
        }
        let Some(shown) = state.or(old) else { return };
        let json = self.json(place, shown, version);
        for informer in self.showing(place) {
            let schema = self.rig.hub.schema(informer);
            let object = Object::parse(&kind_of(place.0), &json, &schema).unwrap();
            let delta = match state {
                Some(_) => Delta::Upsert(object),
                None => Delta::delete(&object),
            };
            self.rig.hub.apply(informer, delta, self.rig.now);
        }
    }

    fn unlisted(&self) -> Vec<(InformerId, Source)> {
        let wanted = self.rig.hub.wanted().into_iter();
        let unlisted = wanted.filter(|(id, _)| !self.listed.contains_key(id));
        unlisted.map(|(id, (source, _))| (id, source)).collect()
    }

    fn list(&mut self, informer: InformerId, source: &Source) {
        self.rig.version += 1;
        let version = self.rig.version;
        let schema = self.rig.hub.schema(informer);
        let objects = self.world.iter().filter(|((is_pod, key), _)| {
            kind_of(*is_pod) == source.kind && is_in(source, &key.namespace)
        });
        let parse = |(place, state): (&Place, &u32)| {
            let json = self.json(place, *state, version);
            Object::parse(&source.kind, &json, &schema).unwrap()
        };
        let delta = Delta::Replace(Listing {
            objects: objects.map(parse).collect(),
            resource_version: ResourceVersion::new(&version.to_string()),
            payload: schema.payload(),
            ..Listing::default()
        });
        self.rig.hub.apply(informer, delta, self.rig.now);
        self.listed.insert(informer, schema.payload());
    }

    /// Says when there will be something to do, if there is nothing now.
    fn take(&mut self) -> Result<Option<Time>, TestCaseError> {
        match self.rig.hub.next(self.rig.now, 0) {
            Next::Idle(due) => return Ok(Some(due.unwrap_or(Time::MAX))),
            Next::Look(lookup) => self.lookups.push(lookup),
            Next::Run(mut turn) => {
                let key = &turn.request.key;
                let is_running = |(other, _): &(Turn, Decision)| {
                    other.plugin == turn.plugin && other.request.key == *key
                };
                prop_assert!(!self.turns.iter().any(is_running), "{turn:?} runs twice");
                if turn.plugin == self.id {
                    let place = (self.version.of_pods, key.clone());
                    prop_assert!(self.ever.contains(&place), "there never was {place:?}");
                    prop_assert!(self.version.grants(&key.namespace), "{key} is not granted");
                }
                let decision = turn.decide();
                self.turns.push((*turn, decision));
            }
        }
        Ok(None)
    }

    fn end(&mut self, number: usize, end: End) {
        if self.turns.is_empty() {
            return;
        }
        let (turn, mut decision) = self.turns.swap_remove(number % self.turns.len());
        let (hub, now) = (&mut self.rig.hub, self.rig.now);
        let wrote = |effect| Executed {
            accepted: vec![Accepted {
                kind: service(),
                key: turn.request.key.clone(),
                effect,
            }],
            ..Executed::default()
        };
        let failure = |failure: Failure| TurnError::Run(failure.into());
        let never = Effect::Version(ResourceVersion::new("999999"));
        let (delay, executed, error) = match end {
            End::Well => (None, Executed::default(), None),
            End::Requeued => (Some(Duration::from_secs(3)), Executed::default(), None),
            End::Unseen => (None, wrote(never), None),
            End::Unknown => (None, wrote(Effect::Unknown), None),
            End::Retry => (
                None,
                wrote(never),
                Some(failure(Failure::Retry("no".into()))),
            ),
            End::Terminal => {
                let error = failure(Failure::Terminal("no".into()));
                (None, Executed::default(), Some(error))
            }
            End::Trap => (
                None,
                Executed::default(),
                Some(RunError::Trap("no".into()).into()),
            ),
            End::Unavailable => {
                let error = TurnError::Unavailable("no".into());
                (None, wrote(Effect::Unknown), Some(error))
            }
        };
        match error {
            None => {
                hub.decided(&turn, &decision, now);
                hub.settled(&turn, delay, executed, now);
            }
            Some(error) => {
                decision.result = Err(RunError::Trap(String::new()).into());
                hub.decided(&turn, &decision, now);
                hub.failed(&turn, &error, executed, now);
            }
        }
    }

    fn answer(&mut self, number: usize, is_answered: bool) {
        if self.lookups.is_empty() {
            return;
        }
        let lookup = self.lookups.swap_remove(number % self.lookups.len());
        self.rig.version += 1;
        let objects = lookup.questions.iter().map(|question| {
            let place = (question.kind == pod(), question.key.clone());
            let state = self.world.get(&place);
            let json = state.map(|state| self.json(&place, *state, self.rig.version));
            let no_answer = || ReadFailure::NoAnswer(String::new());
            is_answered.then_some(json).ok_or_else(no_answer)
        });
        let answers = objects.collect();
        self.rig.hub.looked(&lookup, answers, self.rig.now);
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Put(place, state) => self.change(&place, Some(state)),
            Step::Remove(place) => self.change(&place, None),
            Step::Take => drop(self.take()?),
            Step::End(number, end) => self.end(number, end),
            Step::Replace(version) => {
                self.number += 1;
                let plugin = self.plugin("a", &version);
                let (settings, now) = (version.settings(), self.rig.now);
                let replaced = self.rig.hub.replace(self.id, plugin, &settings, now);
                prop_assert_eq!(replaced, Ok(()));
                self.version = version;
                // A list-watch that is to bring more, or less, is replaced.
                let wanted = self.rig.hub.wanted();
                self.listed.retain(|id, payload| {
                    wanted.get(id).is_some_and(|(_, wanted)| wanted == payload)
                });
            }
            Step::Configure {
                is_paused,
                concurrency,
            } => {
                self.version.is_paused = is_paused;
                self.version.concurrency = concurrency;
                let settings = self.version.settings();
                self.rig.hub.configure(self.id, &settings, self.rig.now);
            }
            Step::List(number) => {
                let unlisted = self.unlisted();
                if let Some((id, source)) = unlisted.get(number % unlisted.len().max(1)) {
                    self.list(*id, source);
                }
            }
            Step::Answer(number, is_answered) => self.answer(number, is_answered),
            Step::Wait(seconds) => self.rig.now += Duration::from_secs(seconds),
        }
        Ok(())
    }

    /// Everything that was held up goes on, and goes well, until there is nothing more to do.
    fn end_well(&mut self) -> Result<(), TestCaseError> {
        self.step(Step::Configure {
            is_paused: false,
            concurrency: 2,
        })?;
        for (id, source) in self.unlisted() {
            self.list(id, &source);
        }
        for _ in 0..1000 {
            if let Some(due) = self.take()? {
                if self.turns.is_empty() && self.lookups.is_empty() {
                    if due == Time::MAX {
                        return Ok(());
                    }
                    self.rig.now = self.rig.now.max(due);
                }
                self.end(0, End::Well);
                self.answer(0, true);
            }
        }
        Err(TestCaseError::fail("it does not end"))
    }

    /// Of each object of a plugin's subject, the last state must have been seen, by the last version.
    fn check(&self, name: &str, version: &Version, number: usize) -> Result<(), TestCaseError> {
        let subjects = self.world.iter().filter(|((is_pod, key), _)| {
            *is_pod == version.of_pods && version.grants(&key.namespace)
        });
        let seen = self.seen.lock().unwrap();
        for ((is_pod, key), state) in subjects {
            let other = self.world.get(&(!is_pod, key.clone()));
            let other = other.filter(|_| version.reads_other);
            let states = [Some(state.to_string()), other.map(ToString::to_string)];
            let last = seen.0.get(&(name.to_owned(), key.clone()));
            prop_assert_eq!(last, Some(&(number, states)), "{} {}", name, key);
        }
        Ok(())
    }
}

fn is_in(source: &Source, namespace: &str) -> bool {
    let only = source.namespace.as_deref();
    only.is_none_or(|only| only == namespace)
}

fn any_place() -> impl Strategy<Value = Place> {
    let key = (0..NAMESPACES.len(), 0..NAMES.len())
        .prop_map(|(namespace, name)| ObjectKey::new(NAMESPACES[namespace], NAMES[name]));
    (proptest::bool::weighted(0.3), key)
}

fn any_version() -> impl Strategy<Value = Version> {
    let field = prop_oneof![
        Just(None),
        Just(Some(".metadata.labels")),
        Just(Some(".metadata"))
    ];
    let namespaces = proptest::sample::subsequence(NAMESPACES.to_vec(), 0..=2);
    let of_pods = proptest::bool::weighted(0.2);
    (
        of_pods,
        any::<bool>(),
        field,
        namespaces,
        1..4_u32,
        proptest::bool::weighted(0.1),
    )
        .prop_map(
            |(of_pods, reads_other, field, namespaces, concurrency, is_paused)| Version {
                of_pods,
                reads_other,
                field,
                namespaces,
                concurrency,
                is_paused,
            },
        )
}

fn any_end() -> impl Strategy<Value = End> {
    prop_oneof![
        4 => Just(End::Well),
        1 => Just(End::Requeued),
        1 => Just(End::Unseen),
        1 => Just(End::Unknown),
        1 => Just(End::Retry),
        1 => Just(End::Terminal),
        2 => Just(End::Trap),
        1 => Just(End::Unavailable),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (any_place(), 0..1000_u32).prop_map(|(place, state)| Step::Put(place, state)),
        1 => any_place().prop_map(Step::Remove),
        8 => Just(Step::Take),
        6 => (any::<usize>(), any_end()).prop_map(|(number, end)| Step::End(number, end)),
        2 => any_version().prop_map(Step::Replace),
        1 => (any::<bool>(), 1..4_u32)
            .prop_map(|(is_paused, concurrency)| Step::Configure { is_paused, concurrency }),
        2 => any::<usize>().prop_map(Step::List),
        1 => (any::<usize>(), any::<bool>())
            .prop_map(|(number, is_answered)| Step::Answer(number, is_answered)),
        2 => (0..40_u64).prop_map(Step::Wait),
    ]
}

proptest! {
    #[test]
    fn no_key_runs_twice_at_once_and_none_is_lost(
        steps in proptest::collection::vec(any_step(), 1..120),
    ) {
        let mut life = Life::new();
        for step in steps {
            life.step(step)?;
        }
        life.end_well()?;
        life.check("b", &Version::first(), 0)?;
        life.check("a", &life.version, life.number)?;
    }
}
