//! The life of a plugin with random events in any order.
//!
//! No key runs twice at once, and no cache goes back in time. In the end the last version has seen
//! the last state of everything, every cache shows the world as it is, and the children that exist
//! are those that the keys want, in the state they want. Watches may be late, garble objects and
//! relist. Answers to fetches may be outdated. The plugins see different parts of the objects.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use super::*;
use crate::access::grants::Grants;
use crate::model::manifest::IndexDeclaration;
use crate::plan::write::{Operation, Write};

const NAMESPACES: [&str; 2] = ["x", "y"];
/// How long a key that rests asks not to be run.
const REST: Duration = Duration::from_secs(20);
const NAMES: [&str; 3] = ["a", "b", "c"];

/// Identifies an object, and the key of one that is reconciled: whether it is a pod, and its
/// namespace and name.
type Place = (bool, ObjectKey);

#[derive(Clone, Debug)]
enum Step {
    Put(Place, u32),
    Remove(Place),
    Take,
    /// Ends one of the running reconciles, given by number.
    End(usize, End),
    Replace(Version),
    Configure {
        is_paused: bool,
        concurrency: u32,
    },
    /// Lists one of the informers that have not been listed yet.
    List(usize),
    /// Relists one of the informers that have been listed.
    Relist(usize),
    /// From now on the watches bring nothing (true), or everything at once (false).
    Stall(bool),
    /// One of the watches brings the next change that it has held back.
    Bring(usize),
    /// The watches bring an object of which only the name can be read.
    Garble(Place),
    Answer(usize, bool),
    /// A pruned child appears again, as if someone had restored it.
    Restore(usize),
    Wait(u64),
}

#[derive(Clone, Copy, Debug)]
enum End {
    Well,
    Requeued,
    /// Well, and asks for a retry.
    AskedRetry,
    /// Well, and asks not to be run for a time.
    Resting,
    /// It wrote what it planned, and something else that no watch will show.
    Unseen,
    /// It wrote what it planned and something else, and got no answer.
    Unknown,
    Retry,
    Terminal,
    Trap,
    Unavailable,
}

/// What may differ between the versions of a plugin, or in its settings.
#[derive(Clone, Debug)]
struct Version {
    of_pods: bool,
    reads_other: bool,
    /// It reconciles the other kind as well. Only if it reads it.
    both: bool,
    /// The only field that it sees of an object; `None` if it sees everything.
    field: Option<&'static str>,
    /// Its subjects are only the objects with an even label.
    selects_even: bool,
    /// The other kind's objects are companions. Only if it reads them.
    companions: bool,
    /// Each key keeps a child of the other kind. Only if it reads that kind.
    children: bool,
    namespaces: Vec<&'static str>,
    concurrency: u32,
    is_paused: bool,
}

impl Version {
    fn first() -> Self {
        Self {
            of_pods: false,
            reads_other: true,
            both: false,
            field: None,
            selects_even: false,
            companions: false,
            children: false,
            namespaces: vec![],
            concurrency: 2,
            is_paused: false,
        }
    }

    fn grants(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.contains(&namespace)
    }

    /// Whether it reconciles pods (true), or services.
    fn reconciles(&self, pods: bool) -> bool {
        self.of_pods == pods || (self.both && self.reads_other)
    }

    /// The kinds that it reconciles, as [`Place`] has them.
    fn kinds(&self) -> impl Iterator<Item = bool> {
        [false, true]
            .into_iter()
            .filter(|pods| self.reconciles(*pods))
    }

    fn has_companions(&self) -> bool {
        self.companions && self.reads_other
    }

    fn keeps_children(&self) -> bool {
        self.children && self.reads_other
    }

    fn selects(&self, thing: &Thing) -> bool {
        !self.selects_even || thing.is_even()
    }

    fn manifest(&self, name: &str) -> Manifest {
        let (subject, other) = (kind_of(self.of_pods), kind_of(!self.of_pods));
        let fields: Vec<String> = self.field.map(str::to_owned).into_iter().collect();
        let even = [Requirement::Equals("parity".into(), "even".into())];
        let mut manifest = manifest(name);
        let selection = |pods| Selection {
            kind: kind_of(pods),
            labels: LabelSelector {
                requirements: even.iter().filter(|_| self.selects_even).cloned().collect(),
            },
            companions: self
                .has_companions()
                .then(|| kind_of(!pods))
                .into_iter()
                .collect(),
            ..selection()
        };
        manifest.reconciles = self.kinds().map(selection).collect();
        manifest.reads = vec![ReadDeclaration::new(subject, fields.clone())];
        manifest.writes.clear();
        if self.reads_other {
            manifest.reads.push(ReadDeclaration::new(other, fields));
            let index = |pods: bool| IndexDeclaration {
                name: "parity".into(),
                kind: kind_of(!pods),
                paths: vec![".metadata.labels.parity".into()],
            };
            manifest.indexes = self.kinds().map(index).collect();
        }
        if self.keeps_children() {
            let write = |pods: bool| WriteDeclaration {
                kind: kind_of(!pods),
                subresource: None,
                verbs: vec![Verb::Apply, Verb::Delete],
                children: true,
            };
            manifest.writes = self.kinds().map(write).collect();
        }
        manifest
    }

    fn settings(&self) -> ControllerSettings {
        let namespaces = self.namespaces.iter().map(|name| (*name).to_owned());
        ControllerSettings {
            concurrency: self.concurrency,
            is_paused: self.is_paused,
            grants: Grants {
                namespaces: namespaces.collect(),
                ..Grants::as_requested()
            },
            ..ControllerSettings::default()
        }
    }
}

fn kind_of(is_pod: bool) -> Kind {
    if is_pod { pod() } else { service() }
}

fn place_of(key: &SubjectKey) -> Place {
    (key.kind.as_deref() == Some(&pod()), key.object.clone())
}

/// What each key's last run saw, by plugin and key.
#[derive(Default)]
struct Seen(BTreeMap<(String, Place), Sight>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Sight {
    /// The number of the plugin's version.
    number: usize,
    /// What it saw of the subject, and of the other kind's object with the same name.
    states: [Option<String>; 2],
    /// The other kind's objects in the namespace: those with an even state, listed by label, and
    /// those with an odd one, listed by index.
    others: [String; 2],
}

/// An object of the world.
#[derive(Clone, Debug)]
struct Thing {
    state: u32,
    uid: u64,
    version: u64,
    /// The label and annotation of a child; `None` if it is no key's child.
    marks: Option<Marks>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Marks {
    label: String,
    annotation: String,
}

impl Thing {
    /// The part of the state that is in its labels.
    fn label(&self) -> u32 {
        self.state / 4
    }

    /// The part of the state that is in its note.
    fn note(&self) -> u32 {
        self.state % 4
    }

    fn is_even(&self) -> bool {
        self.label().is_multiple_of(2)
    }

    /// What this version of a plugin sees of it.
    fn seen_by(&self, version: &Version) -> String {
        match version.field {
            None => format!("{} {}", self.label(), self.note()),
            Some(_) => self.label().to_string(),
        }
    }
}

/// The name of the child of the key with this name; `None` if that key never has one.
fn child_of(name: &str) -> Option<String> {
    NAMES.contains(&name).then(|| format!("{name}-child"))
}

/// Whether an object with this label wants a child. The child then has the same label.
fn wants_child(label: u32) -> bool {
    label.is_multiple_of(3)
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
    /// Deleted: its last state, at the version of the deletion.
    Gone(Thing),
    Garbled(u64),
}

/// The API server's answers, to be delivered later.
type Answers = Vec<Result<Option<String>, ReadFailure>>;

struct Life {
    rig: Rig,
    id: PluginId,
    version: Version,
    /// The number of versions so far, the first one not counted.
    number: usize,
    seen: Arc<Mutex<Seen>>,
    world: BTreeMap<Place, Thing>,
    is_stalled: bool,
    /// What the watches hold back.
    kept: BTreeMap<InformerId, VecDeque<Kept>>,
    /// Every object that has ever existed.
    ever: BTreeSet<Place>,
    /// The informers that have been listed, and with how much of each object.
    listed: BTreeMap<InformerId, Detail>,
    reconciles: Vec<Ran>,
    fetches: Vec<(Fetch, Answers)>,
    /// The keys of `a` whose last run failed terminally.
    terminal: BTreeSet<Place>,
    /// The times before which keys of `a` have asked its present version not to be run.
    resting: BTreeMap<Place, Time>,
    /// The keys that have ever had a child, with the child and its marks.
    parents: BTreeMap<Place, (Place, Marks)>,
    /// The kinds for which a version has had companions, or kept children: the keys that these have
    /// queued remain.
    had_companions: BTreeSet<bool>,
    had_children: BTreeSet<bool>,
    /// What each cache showed last: uid and version of each object.
    shown: BTreeMap<InformerId, BTreeMap<ObjectKey, (String, u64)>>,
    /// The uids of objects that were shown and then disappeared.
    ended: BTreeSet<(InformerId, String)>,
}

impl Life {
    /// The plugin `a`, which the steps act on, and beside it `b`, which they leave alone.
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
            reconciles: Vec::new(),
            fetches: Vec::new(),
            terminal: BTreeSet::new(),
            resting: BTreeMap::new(),
            parents: BTreeMap::new(),
            had_companions: BTreeSet::new(),
            had_children: BTreeSet::new(),
            shown: BTreeMap::new(),
            ended: BTreeSet::new(),
        };
        for name in ["b", "a"] {
            let plugin = life.plugin(name, &Version::first());
            let settings = Version::first().settings();
            life.id = life.rig.hub.join(plugin, &settings, Time::ZERO).unwrap();
        }
        life
    }

    fn plugin(&self, name: &str, version: &Version) -> Arc<dyn Plugin> {
        let manifest = version.manifest(name);
        let (seen, name, number) = (self.seen.clone(), name.to_owned(), self.number);
        let (reads_other, keeps_children) = (version.reads_other, version.keeps_children());
        let behaviour = move |request: &Request, reader: &mut Reader| {
            let place = place_of(&request.key);
            let (subject, other) = (kind_of(place.0), kind_of(!place.0));
            let key = &place.1;
            let own = state_of(reader, &subject, key)?;
            let label = own.as_deref().map(label_of);
            let mut sight = Sight {
                number,
                states: [own, None],
                others: Default::default(),
            };
            if reads_other {
                sight.states[1] = state_of(reader, &other, key)?;
                let parity = |value: &str| Requirement::Equals("parity".into(), value.into());
                let even = ListFilter::Labels(LabelSelector {
                    requirements: vec![parity("even")],
                });
                let odd = ListFilter::Index("parity".into(), "odd".into());
                let mut list = |filter| names(reader, &other, &key.namespace, &filter);
                sight.others = [list(even)?, list(odd)?];
            }
            let mut seen = seen.lock().unwrap();
            seen.0.insert((name.clone(), place.clone()), sight);
            let objects = child(&other, key, label);
            let actions = keeps_children.then_some(Action::Children { objects });
            Ok(Outcome::of(actions.into_iter().collect()))
        };
        Arc::new(Fake {
            manifest,
            behaviour: Box::new(behaviour),
        })
    }

    fn json((_, key): &Place, thing: &Thing) -> String {
        let parity = if thing.is_even() { "even" } else { "odd" };
        let Thing { uid, version, .. } = thing;
        let mut object = serde_json::json!({
            "metadata": {
                "namespace": &*key.namespace,
                "name": &*key.name,
                "uid": format!("u{uid}"),
                "resourceVersion": version.to_string(),
                "labels": { "state": thing.label().to_string(), "parity": parity },
            },
            "spec": { "note": thing.note().to_string() },
        });
        if let Some(marks) = &thing.marks {
            object["metadata"]["labels"][children::LABEL] = marks.label.clone().into();
            let annotations = serde_json::json!({ children::ANNOTATION: marks.annotation });
            object["metadata"]["annotations"] = annotations;
        }
        object.to_string()
    }

    /// The listed informers that show this object.
    fn showing(&self, (is_pod, key): &Place) -> Vec<InformerId> {
        let wanted = self.rig.hub.wanted().into_iter();
        let showing = wanted.filter(|(id, (informer_key, _))| {
            self.listed.contains_key(id)
                && informer_key.kind == kind_of(*is_pod)
                && is_in(informer_key, &key.namespace)
        });
        showing.map(|(id, _)| id).collect()
    }

    fn change(&mut self, place: &Place, state: Option<u32>) {
        let thing = self.world.get(place);
        let marks = thing.and_then(|thing| thing.marks.clone());
        self.change_to(place, state, marks);
    }

    fn change_to(&mut self, place: &Place, state: Option<u32>, marks: Option<Marks>) {
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
                    marks,
                };
                self.world.insert(place.clone(), thing.clone());
                self.ever.insert(place.clone());
                What::Is(thing)
            }
        };
        self.show(place, &what);
    }

    /// Lets the watches bring this, now or later.
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

    /// A watch brings the next thing that it has held back. Returns whether there was one.
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

    fn unlisted(&self) -> Vec<(InformerId, InformerKey)> {
        let wanted = self.rig.hub.wanted().into_iter();
        let unlisted = wanted.filter(|(id, _)| !self.listed.contains_key(id));
        unlisted
            .map(|(id, (informer_key, _))| (id, informer_key))
            .collect()
    }

    fn listed(&self) -> Vec<(InformerId, InformerKey)> {
        let wanted = self.rig.hub.wanted().into_iter();
        let listed = wanted.filter(|(id, _)| self.listed.contains_key(id));
        listed
            .map(|(id, (informer_key, _))| (id, informer_key))
            .collect()
    }

    fn list(&mut self, informer: InformerId, informer_key: &InformerKey) {
        let schema = self.rig.hub.schema(informer);
        let objects = self.in_source(informer_key);
        let parse = |(place, thing): (&Place, &Thing)| {
            Object::parse(&informer_key.kind, &Self::json(place, thing), &schema).unwrap()
        };
        let delta = Delta::Replace(Listing {
            objects: objects.map(parse).collect(),
            resource_version: ResourceVersion::new(&self.rig.version.to_string()),
            extent: schema.detail().into(),
            ..Listing::default()
        });
        self.kept.remove(&informer);
        self.rig.hub.apply(informer, delta, self.rig.now);
        self.listed.insert(informer, schema.detail());
    }

    fn in_source(&self, informer_key: &InformerKey) -> impl Iterator<Item = (&Place, &Thing)> {
        self.world.iter().filter(|((is_pod, key), _)| {
            kind_of(*is_pod) == informer_key.kind && is_in(informer_key, &key.namespace)
        })
    }

    /// Takes the next thing to do. If there is nothing to do now, returns when there will be.
    fn take(&mut self) -> Result<Option<Time>, TestCaseError> {
        let (now, time) = (self.rig.now, self.rig.hub.next_time(self.rig.now));
        let next = self.rig.hub.next(now, 0);
        match &next {
            // Now, too, if each key that is due turns out to be held.
            Next::Idle(due) => prop_assert!(time == *due || time == Some(now), "{time:?}"),
            Next::Run(_) | Next::Fetch(_) => prop_assert_eq!(time, Some(now)),
        }
        match next {
            Next::Idle(due) => {
                let due = due.unwrap_or(Time::MAX);
                prop_assert!(due > self.rig.now, "nothing is to be done at {due:?}");
                return Ok(Some(due));
            }
            Next::Fetch(fetch) => {
                let answers = self.answers(&fetch);
                self.fetches.push((fetch, answers));
            }
            Next::Run(reconcile) => {
                let held = reconcile.held();
                let key = &held.request.key;
                let is_running = |other: &Ran| {
                    other.held.plugin == held.plugin && other.held.request.key == *key
                };
                prop_assert!(
                    !self.reconciles.iter().any(is_running),
                    "{held:?} runs twice"
                );
                if held.plugin == self.id {
                    let place = place_of(key);
                    prop_assert!(self.version.reconciles(place.0), "{held:?} is not its own");
                    prop_assert!(self.may_be_run(&place), "there never was {held:?}");
                    let at = self.resting.remove(&place).unwrap_or_default();
                    prop_assert!(at <= self.rig.now, "{held:?} runs before its time");
                    prop_assert!(
                        self.version.grants(&place.1.namespace),
                        "{held:?} is not granted"
                    );
                }
                self.reconciles.push(reconcile.run());
            }
        }
        Ok(None)
    }

    /// Whether something has ever existed that this key may run for.
    fn may_be_run(&self, place: &Place) -> bool {
        let (is_pod, key) = place;
        self.ever.contains(place)
            || (self.had_companions.contains(is_pod) && self.ever.contains(&(!is_pod, key.clone())))
            || (self.had_children.contains(is_pod) && self.parents.contains_key(place))
    }

    fn end(&mut self, number: usize, end: End) {
        if self.reconciles.is_empty() {
            return;
        }
        let mut ran = self.reconciles.swap_remove(number % self.reconciles.len());
        let key = place_of(&ran.held.request.key);
        if ran.held.plugin == self.id {
            self.terminal.remove(&key);
            let is_terminal = matches!(end, End::Terminal);
            self.terminal.extend(is_terminal.then(|| key.clone()));
        }
        let mut error = match end {
            End::Retry => Some(Failure::Retry("no".into()).into()),
            End::Terminal => Some(Failure::Terminal("no".into()).into()),
            End::Trap => Some(RunError::Trap("no".into())),
            End::Well
            | End::Requeued
            | End::AskedRetry
            | End::Resting
            | End::Unseen
            | End::Unknown
            | End::Unavailable => None,
        };
        if ran.result.is_err() && !matches!(end, End::Terminal) {
            error = Some(Failure::Retry("no".into()).into());
        }
        let mut accepted = vec![];
        let mut failure = None;
        match (end, &ran.result) {
            (End::Unavailable, _) => failure = unreachable().failure,
            (
                End::Well
                | End::Requeued
                | End::AskedRetry
                | End::Resting
                | End::Unseen
                | End::Unknown,
                Ok((plan, _)),
            ) => {
                for write in plan.writes() {
                    match self.write(key.clone(), write) {
                        Ok(trace) => accepted.push(AcceptedWrite {
                            kind: write.kind.clone(),
                            key: write.key.clone(),
                            trace,
                        }),
                        Err(conflict) => failure = Some(conflict),
                    }
                }
            }
            _ => {}
        }
        let own = |trace| AcceptedWrite {
            kind: service(),
            key: key.1.clone(),
            trace,
        };
        let never = Trace::Version(ResourceVersion::new("999999"));
        match end {
            End::Unseen | End::Retry => accepted.push(own(never)),
            End::Unavailable => accepted.push(own(Trace::Unknown)),
            End::Unknown => {
                accepted.push(own(Trace::Unknown));
                for accepted in &mut accepted {
                    accepted.trace = Trace::Unknown;
                }
            }
            End::Well
            | End::Requeued
            | End::AskedRetry
            | End::Resting
            | End::Terminal
            | End::Trap => {}
        }
        let executed = Executed {
            accepted,
            failure,
            ..Executed::default()
        };
        match (error, &mut ran.result) {
            (Some(error), result) => *result = Err(error.into()),
            (None, Ok((_, follow_up))) => {
                follow_up.next = match end {
                    End::Requeued => NextRun::After(Duration::from_secs(3)),
                    End::AskedRetry => NextRun::Retry("later".into()),
                    _ => NextRun::OnChange,
                };
                if let End::Resting = end {
                    follow_up.not_before = REST;
                    let present = self.rig.hub.controllers[&self.id].plugin();
                    if Arc::ptr_eq(&present, &ran.held.version.plugin) {
                        self.resting.insert(key.clone(), self.rig.now + REST);
                    }
                }
            }
            (None, Err(_)) => unreachable!("it has got an error"),
        }
        let rig = &mut self.rig;
        match rig.hub.ran(ran, rig.now) {
            Decision::Writing(writing) => rig.end(writing, executed),
            Decision::Finished(finished) => rig.hub.finished(finished, rig.now),
            Decision::Confirming(_) => unreachable!("nothing is to be confirmed"),
            Decision::Fetching(_) => unreachable!("nothing is to be fetched"),
        };
    }

    /// Carries out one write of a key's reconcile as a server does: a no-op changes nothing, and a
    /// write that requires another state than the present one is a conflict.
    fn write(&mut self, key: Place, write: &Write) -> Result<Trace, WriteFailure> {
        let place = (write.kind == pod(), write.key.clone());
        let here = self.world.get(&place);
        match &write.operation {
            Operation::Apply { object, .. } => {
                let object: serde_json::Value = serde_json::from_str(object).unwrap();
                let metadata = &object["metadata"];
                let text = |of: &serde_json::Value| of.as_str().unwrap().to_owned();
                let is_it = here.is_some_and(|here| metadata["uid"] == format!("u{}", here.uid));
                let is_new = here.is_none() && metadata["resourceVersion"].is_string();
                if !is_it && !is_new {
                    return Err(conflict());
                }
                let marks = Marks {
                    label: text(&metadata["labels"][children::LABEL]),
                    annotation: text(&metadata["annotations"][children::ANNOTATION]),
                };
                let label: u32 = text(&metadata["labels"]["state"]).parse().unwrap();
                let wanted = |thing: &Thing| {
                    (thing.state, thing.marks.as_ref()) == (label * 4, Some(&marks))
                };
                if !here.is_some_and(wanted) {
                    let child = (place.clone(), marks.clone());
                    self.parents.insert(key, child);
                    self.change_to(&place, Some(label * 4), Some(marks));
                }
                let version = self.world[&place].version.to_string();
                Ok(Trace::Version(ResourceVersion::new(&version)))
            }
            Operation::Delete {
                uid: Some(uid),
                resource_version: Some(version),
                ..
            } => {
                let is_seen = |thing: &Thing| {
                    format!("u{}", thing.uid) == *uid && thing.version.to_string() == *version
                };
                if here.is_some_and(is_seen) {
                    self.change(&place, None);
                } else if here.is_some() {
                    return Err(conflict());
                }
                Ok(Trace::Deletion(uid.clone()))
            }
            other => panic!("{other:?}"),
        }
    }

    /// The API server's present state of the objects in question.
    fn answers(&self, fetch: &Fetch) -> Answers {
        let questions = fetch.questions.iter();
        let answers = questions.map(|question| {
            let place = (question.kind == pod(), question.key.clone());
            let thing = self.world.get(&place);
            Ok(thing.map(|thing| Self::json(&place, thing)))
        });
        answers.collect()
    }

    /// The answers to a fetch arrive, or the fetch fails.
    fn answer(&mut self, number: usize, is_answered: bool) {
        if self.fetches.is_empty() {
            return;
        }
        let (fetch, mut answers) = self.fetches.swap_remove(number % self.fetches.len());
        if !is_answered {
            answers.fill(Err(ReadFailure::NoAnswer(String::new())));
        }
        self.rig.hub.fetched(&fetch, answers, self.rig.now);
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
                let of = |is: bool| version.kinds().filter(move |_| is);
                self.had_companions.extend(of(version.has_companions()));
                self.had_children.extend(of(version.keeps_children()));
                self.version = version;
                self.resting.clear();
                // A list-watch that must bring more, or less, of each object is replaced.
                let wanted = self.rig.hub.wanted();
                self.listed.retain(|id, detail| {
                    wanted
                        .get(id)
                        .is_some_and(|(_, wanted)| wanted.detail == *detail)
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
                if let Some((id, informer_key)) = unlisted.get(number % unlisted.len().max(1)) {
                    self.list(*id, informer_key);
                }
            }
            Step::Relist(number) => {
                let listed = self.listed();
                if let Some((id, informer_key)) = listed.get(number % listed.len().max(1)) {
                    self.list(*id, informer_key);
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
            Step::Restore(number) => {
                let mut children = self.parents.values().cloned();
                let child = children.nth(number % self.parents.len().max(1));
                if let Some((place, marks)) = child.filter(|(it, _)| !self.world.contains_key(it)) {
                    self.change_to(&place, Some(0), Some(marks));
                }
            }
            Step::Wait(seconds) => self.rig.now += Duration::from_secs(seconds),
        }
        self.follow_caches()
    }

    /// Checks that no cache goes back in time: each object's version rises, and an object that has
    /// ended does not come back.
    fn follow_caches(&mut self) -> Result<(), TestCaseError> {
        let listed: BTreeSet<InformerId> = self.listed().into_iter().map(|(id, _)| id).collect();
        self.shown.retain(|id, _| listed.contains(id));
        self.ended.retain(|(id, _)| listed.contains(id));
        for id in listed {
            let cache = &self.rig.hub.snapshot().informers[id];
            let state = |object: &Arc<Object>| {
                let version = object.resource_version().to_string().parse().unwrap();
                (object.key().to_key(), (object.uid().to_owned(), version))
            };
            let now: BTreeMap<ObjectKey, (String, u64)> = cache.list(None).map(state).collect();
            for (key, (uid, version)) in self.shown.remove(&id).unwrap_or_default() {
                match now.get(&key) {
                    Some((same, now)) if *same == uid => {
                        prop_assert!(*now >= version, "{key} goes from {version} to {now}");
                    }
                    _ if cache.unreadable().contains_key(&key) => {}
                    _ => drop(self.ended.insert((id, uid))),
                }
            }
            for (key, (uid, _)) in &now {
                let is_ended = self.ended.contains(&(id, uid.clone()));
                prop_assert!(!is_ended, "{key} has risen from the dead");
            }
            self.shown.insert(id, now);
        }
        Ok(())
    }

    /// Everything that was held up continues, and succeeds, until there is nothing left to do.
    fn end_well(&mut self) -> Result<(), TestCaseError> {
        self.step(Step::Configure {
            is_paused: false,
            concurrency: 2,
        })?;
        self.step(Step::Stall(false))?;
        for (id, informer_key) in self.unlisted() {
            self.list(id, &informer_key);
        }
        self.mend_garbled();
        for _ in 0..5000 {
            if let Some(due) = self.take()? {
                if self.reconciles.is_empty() && self.fetches.is_empty() {
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

    /// Unreadable objects change once more and become readable.
    fn mend_garbled(&mut self) {
        let garbled = |id: &InformerId| self.rig.hub.snapshot().informers[*id].unreadable().clone();
        let listed = self.listed();
        let places = listed.iter().flat_map(|(id, informer_key)| {
            let keys: Vec<ObjectKey> = garbled(id).keys().cloned().collect();
            keys.into_iter()
                .map(|key| (informer_key.kind == pod(), key))
        });
        for place in places.collect::<BTreeSet<Place>>() {
            let state = self.world.get(&place).map(|thing| thing.state);
            self.change(&place, state);
        }
    }

    /// What a run of this key must see if it sees everything as it is.
    fn sight(&self, (own_is_pod, key): &Place, version: &Version, number: usize) -> Sight {
        let thing = |is_pod| self.world.get(&(is_pod, key.clone()));
        let own = thing(*own_is_pod).filter(|thing| version.selects(thing));
        let other = thing(!own_is_pod).filter(|_| version.reads_other);
        let others = |is_even: bool| {
            let others = self.world.iter().filter(|((is_pod, place), thing)| {
                is_pod != own_is_pod
                    && place.namespace == key.namespace
                    && thing.is_even() == is_even
            });
            let names = others.map(|((_, place), _)| format!("{} ", place.name));
            if version.reads_other {
                names.collect()
            } else {
                String::new()
            }
        };
        let seen = |thing: Option<&Thing>| thing.map(|thing| thing.seen_by(version));
        Sight {
            number,
            states: [seen(own), seen(other)],
            others: [others(true), others(false)],
        }
    }

    /// Checks that the last version has seen the last state of everything for each key of a plugin.
    /// If the object is gone, this version may not have run for it, unless a companion exists: an
    /// earlier version has then seen that it is gone.
    fn check(&self, name: &str, version: &Version, number: usize) -> Result<(), TestCaseError> {
        let seen = self.seen.lock().unwrap();
        let places = self.ever.iter().chain(self.world.keys());
        let keys = places.map(|(_, key)| key);
        let keys = keys.filter(|key| version.grants(&key.namespace));
        let places: BTreeSet<Place> = keys
            .flat_map(|key| version.kinds().map(|is_pod| (is_pod, key.clone())))
            .collect();
        for place in places {
            let wanted = self.sight(&place, version, number);
            let own = self.world.get(&place);
            let companion = (!place.0, place.1.clone());
            let last = seen.0.get(&(name.to_owned(), place.clone()));
            let has_companion = || version.has_companions() && self.world.contains_key(&companion);
            if own.map_or_else(has_companion, |own| version.selects(own)) {
                prop_assert_eq!(last, Some(&wanted), "{} {:?}", name, place);
            } else if let Some(last) = last.filter(|last| last.number == number) {
                prop_assert_eq!(last, &wanted, "{} {:?} is gone", name, place);
            }
        }
        Ok(())
    }

    /// Checks that the children that exist are those that the last version wants, except for keys
    /// that have failed terminally, and for names that a stranger has.
    fn check_children(&self) -> Result<(), TestCaseError> {
        if !self.version.keeps_children() {
            return Ok(());
        }
        let keys = NAMESPACES
            .iter()
            .flat_map(|namespace| NAMES.map(|name| ObjectKey::new(namespace, name)));
        let keys = keys.filter(|key| self.version.grants(&key.namespace));
        let places = keys.flat_map(|key| {
            self.version
                .kinds()
                .map(move |is_pod| (is_pod, key.clone()))
        });
        for place in places.filter(|place| !self.terminal.contains(place)) {
            let owner = self.world.get(&place);
            let owner = owner.filter(|owner| self.version.selects(owner));
            let wanted = owner.map(Thing::label).filter(|label| wants_child(*label));
            let (is_pod, key) = &place;
            let child = child_of(&key.name).unwrap();
            let child = (!is_pod, ObjectKey::new(&key.namespace, &child));
            let child = self.world.get(&child);
            if child.is_some_and(|child| child.marks.is_none()) {
                // A stranger has the child's name.
                continue;
            }
            let state = child.map(|child| child.state);
            prop_assert_eq!(state, wanted.map(|label| label * 4), "child of {:?}", place);
        }
        Ok(())
    }

    /// Checks that every cache shows the world.
    fn check_caches(&self) -> Result<(), TestCaseError> {
        for (id, informer_key) in self.listed() {
            let cache = &self.rig.hub.snapshot().informers[id];
            let shown: Vec<String> = cache
                .list(None)
                .map(|object| object.json().to_owned())
                .collect();
            let schema = self.rig.hub.schema(id);
            let things = self.in_source(&informer_key);
            let wanted: Vec<String> = things
                .map(|(place, thing)| {
                    let json = Self::json(place, thing);
                    let object = Object::parse(&informer_key.kind, &json, &schema).unwrap();
                    object.json().to_owned()
                })
                .collect();
            prop_assert_eq!(shown, wanted, "{}", informer_key);
            prop_assert!(cache.unreadable().is_empty());
        }
        Ok(())
    }
}

/// What the reader shows of an object.
fn state_of(reader: &mut Reader, kind: &Kind, key: &ObjectKey) -> Result<Option<String>, RunError> {
    let found = reader.get(kind, key).map_err(unreadable)?;
    let found: Option<serde_json::Value> = found.map(|json| serde_json::from_str(json).unwrap());
    Ok(found.map(|object| {
        let label = object["metadata"]["labels"]["state"].as_str().unwrap();
        match object["spec"]["note"].as_str() {
            Some(note) => format!("{label} {note}"),
            None => label.to_owned(),
        }
    }))
}

/// The label in what [`state_of`] returned.
fn label_of(state: &str) -> u32 {
    state.split(' ').next().unwrap().parse().unwrap()
}

/// The children of this kind that a key wants if its object has this label.
fn child(kind: &Kind, key: &ObjectKey, label: Option<u32>) -> Vec<String> {
    let (Some(label), Some(name)) = (
        label.filter(|label| wants_child(*label)),
        child_of(&key.name),
    ) else {
        return vec![];
    };
    let parity = if label.is_multiple_of(2) {
        "even"
    } else {
        "odd"
    };
    let child = serde_json::json!({
        "apiVersion": "v1",
        "kind": &*kind.kind,
        "metadata": {
            "namespace": &*key.namespace,
            "name": name,
            "labels": { "state": label.to_string(), "parity": parity },
        },
        "spec": { "note": "0" },
    });
    vec![child.to_string()]
}

/// The names of the listed objects.
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
fn unreadable(error: crate::reads::error::ReadError) -> RunError {
    Failure::Retry(error.to_string()).into()
}

fn is_in(informer_key: &InformerKey, namespace: &str) -> bool {
    let only = informer_key.namespace.as_deref();
    only.is_none_or(|only| only == namespace)
}

fn any_place() -> impl Strategy<Value = Place> {
    let name = prop_oneof![
        4 => (0..NAMES.len()).prop_map(|name| NAMES[name].to_owned()),
        1 => Just(child_of("a").unwrap()),
    ];
    let key = (0..NAMESPACES.len(), name)
        .prop_map(|(namespace, name)| ObjectKey::new(NAMESPACES[namespace], &name));
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
        proptest::bool::weighted(0.8),
        field,
        [0.3, 0.5, 0.5, 0.4].map(proptest::bool::weighted),
        namespaces,
        1..4_u32,
        proptest::bool::weighted(0.1),
    )
        .prop_map(
            |(of_pods, reads_other, field, subscriptions, namespaces, concurrency, is_paused)| {
                Version {
                    of_pods,
                    reads_other,
                    field,
                    selects_even: subscriptions[0],
                    companions: subscriptions[1],
                    children: subscriptions[2],
                    both: subscriptions[3],
                    namespaces,
                    concurrency,
                    is_paused,
                }
            },
        )
}

fn any_end() -> impl Strategy<Value = End> {
    prop_oneof![
        4 => Just(End::Well),
        1 => Just(End::Requeued),
        1 => Just(End::AskedRetry),
        2 => Just(End::Resting),
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
        5 => (any_place(), 0..48_u32).prop_map(|(place, state)| Step::Put(place, state)),
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
        1 => any::<usize>().prop_map(Step::Restore),
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
        life.check_children()?;
        life.check_caches()?;
    }
}
