//! Whatever comes between: no key runs twice at once, and in the end the last version has seen the last state of everything, and every cache
//! shows the world as it is. Watches may be late, garble objects and list anew; answers to lookups may be older than they are.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use super::*;
use crate::grants::Grants;
use crate::manifest::IndexDeclaration;

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
    /// Lists one of the others anew.
    Relist(usize),
    /// From now on the watches bring nothing, or everything at once.
    Stall(bool),
    /// One of the watches brings the next change that it has kept back.
    Bring(usize),
    /// The watches bring an object so that nothing but its name can be read.
    Garble(Place),
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

/// What a run saw, by plugin and key.
#[derive(Default)]
struct Seen(BTreeMap<(String, ObjectKey), Sight>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Sight {
    /// Of the plugin's version.
    number: usize,
    /// The state of the subject, and of the other kind's object of the same name.
    states: [Option<String>; 2],
    /// The other kind's objects in the namespace with an even state, asked for by label, and with an odd one, asked for by index.
    others: [String; 2],
}

/// An object of the world.
#[derive(Clone, Debug)]
struct Thing {
    state: u32,
    uid: u64,
    version: u64,
}

impl Thing {
    fn is_even(&self) -> bool {
        self.state.is_multiple_of(2)
    }
}

/// Something that a watch has not brought yet.
#[derive(Clone, Debug)]
struct Kept {
    place: Place,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Is(Thing),
    /// The last state, at the version of the deletion.
    Gone(Thing),
    Garbled(u64),
}

/// What the cluster has answered, to be delivered later.
type Answers = Vec<Result<Option<String>, ReadFailure>>;

struct Life {
    rig: Rig,
    id: PluginId,
    version: Version,
    /// How many versions there have been.
    number: usize,
    seen: Arc<Mutex<Seen>>,
    world: BTreeMap<Place, Thing>,
    is_stalled: bool,
    /// What the watches have kept back.
    kept: BTreeMap<InformerId, VecDeque<Kept>>,
    /// Every object there has ever been.
    ever: BTreeSet<Place>,
    /// What has been listed, with how much of each object.
    listed: BTreeMap<InformerId, Payload>,
    turns: Vec<(Turn, Decision)>,
    lookups: Vec<(Lookup, Answers)>,
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
            is_stalled: false,
            kept: BTreeMap::new(),
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
        manifest.indexes = other
            .iter()
            .map(|kind| IndexDeclaration {
                name: "parity".into(),
                kind: kind.clone(),
                paths: vec![".metadata.labels.parity".into()],
            })
            .collect();
        let (seen, name, number) = (self.seen.clone(), name.to_owned(), self.number);
        let reconcile = move |request: &Request, reader: &mut Reader| {
            let states = [
                state_of(reader, &subject, &request.key)?,
                other
                    .as_ref()
                    .map_or(Ok(None), |kind| state_of(reader, kind, &request.key))?,
            ];
            let parity = |value: &str| Requirement::Equals("parity".into(), value.into());
            let even = ListFilter::Labels(LabelSelector {
                requirements: vec![parity("even")],
            });
            let odd = ListFilter::Index("parity".into(), "odd".into());
            let mut list = |filter| match &other {
                Some(kind) => names(reader, kind, &request.key.namespace, &filter),
                None => Ok(String::new()),
            };
            let sight = Sight {
                number,
                states,
                others: [list(even)?, list(odd)?],
            };
            let mut seen = seen.lock().unwrap();
            seen.0.insert((name.clone(), request.key.clone()), sight);
            Ok(Outcome::default())
        };
        Arc::new(Fake {
            manifest,
            reconcile: Box::new(reconcile),
        })
    }

    fn json((_, key): &Place, thing: &Thing) -> String {
        let parity = if thing.is_even() { "even" } else { "odd" };
        let Thing {
            state,
            uid,
            version,
        } = thing;
        format!(
            r#"{{"metadata":{{"namespace":"{}","name":"{}","uid":"u{uid}","resourceVersion":"{version}","labels":{{"state":"{state}","parity":"{parity}"}}}}}}"#,
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
        let what = match (state, old) {
            (None, None) => return,
            (None, Some(old)) => What::Gone(Thing { version, ..old }),
            (Some(state), old) => {
                let thing = Thing {
                    state,
                    uid: old.map_or(version, |old| old.uid),
                    version,
                };
                self.world.insert(place.clone(), thing.clone());
                self.ever.insert(place.clone());
                What::Is(thing)
            }
        };
        self.show(place, &what);
    }

    /// The watches bring this, now or later.
    fn show(&mut self, place: &Place, what: &What) {
        for informer in self.showing(place) {
            let kept = Kept {
                place: place.clone(),
                what: what.clone(),
            };
            self.kept.entry(informer).or_default().push_back(kept);
            if !self.is_stalled {
                while self.bring(informer) {}
            }
        }
    }

    /// A watch brings the next of what it has kept back. Says whether there was something.
    fn bring(&mut self, informer: InformerId) -> bool {
        let kept = self.kept.get_mut(&informer).and_then(VecDeque::pop_front);
        let Some(Kept { place, what }) = kept else {
            return false;
        };
        let schema = self.rig.hub.schema(informer);
        let object = |thing| Object::parse(&kind_of(place.0), &Self::json(&place, thing), &schema);
        let delta = match &what {
            What::Is(thing) => Delta::Upsert(object(thing).unwrap()),
            What::Gone(thing) => Delta::delete(&object(thing).unwrap()),
            What::Garbled(version) => Delta::Unreadable(Unreadable {
                key: place.1.clone(),
                resource_version: ResourceVersion::new(&version.to_string()),
                reason: "garbled".into(),
            }),
        };
        self.rig.hub.apply(informer, delta, self.rig.now);
        true
    }

    fn garble(&mut self, place: &Place) {
        if let Some(thing) = self.world.get_mut(place) {
            self.rig.version += 1;
            thing.version = self.rig.version;
            let what = What::Garbled(thing.version);
            self.show(place, &what);
        }
    }

    fn unlisted(&self) -> Vec<(InformerId, Source)> {
        let wanted = self.rig.hub.wanted().into_iter();
        let unlisted = wanted.filter(|(id, _)| !self.listed.contains_key(id));
        unlisted.map(|(id, (source, _))| (id, source)).collect()
    }

    fn listed(&self) -> Vec<(InformerId, Source)> {
        let wanted = self.rig.hub.wanted().into_iter();
        let listed = wanted.filter(|(id, _)| self.listed.contains_key(id));
        listed.map(|(id, (source, _))| (id, source)).collect()
    }

    fn list(&mut self, informer: InformerId, source: &Source) {
        let schema = self.rig.hub.schema(informer);
        let objects = self.in_source(source);
        let parse = |(place, thing): (&Place, &Thing)| {
            Object::parse(&source.kind, &Self::json(place, thing), &schema).unwrap()
        };
        let delta = Delta::Replace(Listing {
            objects: objects.map(parse).collect(),
            resource_version: ResourceVersion::new(&self.rig.version.to_string()),
            payload: schema.payload(),
            ..Listing::default()
        });
        self.kept.remove(&informer);
        self.rig.hub.apply(informer, delta, self.rig.now);
        self.listed.insert(informer, schema.payload());
    }

    fn in_source(&self, source: &Source) -> impl Iterator<Item = (&Place, &Thing)> {
        self.world.iter().filter(|((is_pod, key), _)| {
            kind_of(*is_pod) == source.kind && is_in(source, &key.namespace)
        })
    }

    /// Says when there will be something to do, if there is nothing now.
    fn take(&mut self) -> Result<Option<Time>, TestCaseError> {
        match self.rig.hub.next(self.rig.now, 0) {
            Next::Idle(due) => return Ok(Some(due.unwrap_or(Time::MAX))),
            Next::Look(lookup) => {
                let answers = self.answers(&lookup);
                self.lookups.push((lookup, answers));
            }
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

    /// What the cluster has now of what is asked for.
    fn answers(&self, lookup: &Lookup) -> Answers {
        let questions = lookup.questions.iter();
        let answers = questions.map(|question| {
            let place = (question.kind == pod(), question.key.clone());
            let thing = self.world.get(&place);
            Ok(thing.map(|thing| Self::json(&place, thing)))
        });
        answers.collect()
    }

    /// The answer to a lookup arrives, or none does.
    fn answer(&mut self, number: usize, is_answered: bool) {
        if self.lookups.is_empty() {
            return;
        }
        let (lookup, mut answers) = self.lookups.swap_remove(number % self.lookups.len());
        if !is_answered {
            answers.fill(Err(ReadFailure::NoAnswer(String::new())));
        }
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
                self.kept.retain(|id, _| self.listed.contains_key(id));
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
            Step::Relist(number) => {
                let listed = self.listed();
                if let Some((id, source)) = listed.get(number % listed.len().max(1)) {
                    self.list(*id, source);
                }
            }
            Step::Stall(is_stalled) => {
                self.is_stalled = is_stalled;
                let behind: Vec<InformerId> = self.kept.keys().copied().collect();
                for informer in behind.into_iter().filter(|_| !is_stalled) {
                    while self.bring(informer) {}
                }
            }
            Step::Bring(number) => {
                let behind: Vec<InformerId> = self.kept.keys().copied().collect();
                if let Some(informer) = behind.get(number % behind.len().max(1)) {
                    self.bring(*informer);
                }
            }
            Step::Garble(place) => self.garble(&place),
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
        self.step(Step::Stall(false))?;
        for (id, source) in self.unlisted() {
            self.list(id, &source);
        }
        self.mend_garbled();
        for _ in 0..2000 {
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

    /// What cannot be read changes once more, and can be.
    fn mend_garbled(&mut self) {
        let garbled = |id: &InformerId| self.rig.hub.snapshot().informers[*id].unreadable().clone();
        let listed = self.listed();
        let places = listed.iter().flat_map(|(id, source)| {
            let keys = garbled(id).into_keys();
            keys.map(|key| (source.kind == pod(), key))
        });
        for place in places.collect::<BTreeSet<Place>>() {
            let state = self.world.get(&place).map(|thing| thing.state);
            self.change(&place, state);
        }
    }

    /// What a run of this key sees that sees everything as it is.
    fn sight(&self, is_pod: bool, key: &ObjectKey, version: &Version, number: usize) -> Sight {
        let state = |is_pod| {
            let thing = self.world.get(&(is_pod, key.clone()));
            thing.map(|thing| thing.state.to_string())
        };
        let others = |is_even: bool| {
            let others = self.world.iter().filter(|((other, place), thing)| {
                *other != is_pod && place.namespace == key.namespace && thing.is_even() == is_even
            });
            let names = others.map(|((_, place), _)| format!("{} ", place.name));
            if version.reads_other {
                names.collect()
            } else {
                String::new()
            }
        };
        Sight {
            number,
            states: [
                state(is_pod),
                state(!is_pod).filter(|_| version.reads_other),
            ],
            others: [others(true), others(false)],
        }
    }

    /// Of each key of a plugin, the last state of everything must have been seen, by the last version. Of an object that is gone a
    /// version may know nothing that came after; an earlier one has seen that it is gone.
    fn check(&self, name: &str, version: &Version, number: usize) -> Result<(), TestCaseError> {
        let is_mine =
            |(is_pod, key): &&Place| *is_pod == version.of_pods && version.grants(&key.namespace);
        let seen = self.seen.lock().unwrap();
        for place in self.ever.iter().filter(is_mine) {
            let (is_pod, key) = place;
            let wanted = self.sight(*is_pod, key, version, number);
            let last = seen.0.get(&(name.to_owned(), key.clone()));
            if self.world.contains_key(place) {
                prop_assert_eq!(last, Some(&wanted), "{} {}", name, key);
            } else if let Some(last) = last.filter(|last| last.number == number) {
                prop_assert_eq!(last, &wanted, "{} {} is gone", name, key);
            }
        }
        Ok(())
    }

    /// Every cache shows the world.
    fn check_caches(&self) -> Result<(), TestCaseError> {
        for (id, source) in self.listed() {
            let cache = &self.rig.hub.snapshot().informers[id];
            let shown: Vec<String> = cache
                .list(None)
                .map(|object| object.json().to_owned())
                .collect();
            let schema = self.rig.hub.schema(id);
            let things = self.in_source(&source);
            let wanted: Vec<String> = things
                .map(|(place, thing)| {
                    let json = Self::json(place, thing);
                    let object = Object::parse(&source.kind, &json, &schema).unwrap();
                    object.json().to_owned()
                })
                .collect();
            prop_assert_eq!(shown, wanted, "{}", source);
            prop_assert!(cache.unreadable().is_empty());
        }
        Ok(())
    }
}

fn state_of(reader: &mut Reader, kind: &Kind, key: &ObjectKey) -> Result<Option<String>, RunError> {
    let found = reader.get(kind, key).map_err(unreadable)?;
    let found: Option<serde_json::Value> = found.map(|json| serde_json::from_str(json).unwrap());
    Ok(found.map(|object| {
        object["metadata"]["labels"]["state"]
            .as_str()
            .unwrap()
            .to_owned()
    }))
}

/// The names of what is listed.
fn names(
    reader: &mut Reader,
    kind: &Kind,
    namespace: &str,
    filter: &ListFilter,
) -> Result<String, RunError> {
    let found = reader
        .list(kind, Some(namespace), filter)
        .map_err(unreadable)?;
    let found: Vec<serde_json::Value> = serde_json::from_str(&found).unwrap();
    let name =
        |object: &serde_json::Value| object["metadata"]["name"].as_str().unwrap().to_owned() + " ";
    Ok(found.iter().map(name).collect())
}

#[allow(clippy::needless_pass_by_value, reason = "as map_err wants it")]
fn unreadable(error: crate::reader::ReadError) -> RunError {
    Failure::Retry(error.to_string()).into()
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
        1 => any::<usize>().prop_map(Step::Relist),
        1 => any::<bool>().prop_map(Step::Stall),
        2 => any::<usize>().prop_map(Step::Bring),
        1 => any_place().prop_map(Step::Garble),
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
        life.check_caches()?;
    }
}
