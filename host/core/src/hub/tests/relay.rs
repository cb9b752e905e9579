//! Two hosts that hand a plugin's shards to each other, with random events in any order.
//!
//! No key runs on both hosts, or twice at once on one, and none of a shard that its host does not
//! hold. Each key keeps a counter in an object of its own and writes one more than it saw: a host
//! that did not see what the other one wrote would write a number twice. In the end each key's last
//! run, on whichever host, has seen the last state of what it read. Watches may be late, lists and
//! proofs may arrive long after they were asked for, settings may change the number of shards. If
//! keys are divided by namespace, a host's caches hold only those of its shards, and lists of other
//! namespaces may have been asked for before a shard was given up, and come after it was gained.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::hub::doubts::Doubt;
use crate::hub::duties::HeldShards;
use crate::model::division::{DividedBy, Division};
use crate::model::extent::Extent;
use crate::model::namespaces::Namespaces;
use crate::queue::Time;
use crate::sharing::Shard;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
/// Pods that no key writes.
const STRANGERS: [&str; 2] = ["x", "y"];

/// The namespace of an object. The services' are in different buckets, and a counter is beside its
/// service.
fn namespace_of(name: &str) -> &'static str {
    match name {
        "a" | "x" => "default",
        "b" => "kube-system",
        "c" => "red",
        "d" | "y" => "green",
        _ => "blue",
    }
}

fn key_of(name: &str) -> ObjectKey {
    ObjectKey::new(namespace_of(name), name)
}

/// An object: whether it is a pod, and its name.
type Place = (bool, String);

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A service is created or changed.
    Put(usize, u32),
    /// A service is deleted.
    Remove(usize),
    /// A pod that no key writes comes to be of this key, or is deleted.
    Stranger(usize, Option<usize>),
    Take(usize),
    /// Ends one of a host's running reconciles.
    End(usize, usize, End),
    /// A host gives up a shard.
    Release(usize, u32, Relinquish),
    /// A host gains a shard, if nobody has it.
    Grant(usize, u32),
    /// All hosts' settings change to this number of shards.
    Shards(u32),
    /// A host installs the plugin again. Its duties change meanwhile: it gives up this shard.
    Replace(usize, u32),
    /// A host removes the plugin and installs it again, if nothing of it runs.
    Rejoin(usize),
    /// A watch of a host brings what comes next.
    Bring(usize, bool),
    /// A watch that has brought everything says so.
    Bookmark(usize, bool),
    /// A list-watch begins anew.
    AskList(usize, bool),
    GetList(usize, bool),
    /// A host asks about the caches in doubt; with or without the objects.
    Ask(usize, bool),
    Answer(usize, usize),
    Wait(u64),
}

#[derive(Clone, Copy, Debug)]
enum End {
    Well,
    Requeued,
    Failed,
}

/// The state of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Thing {
    version: u64,
    /// Of a service: its state. Of a counter: the state of the service that it was written for.
    state: u32,
    counter: u64,
    /// The key of a pod.
    app: String,
}

/// What a run saw: its service's version, and the versions of its pods, its counter among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sight {
    service: Option<u64>,
    pods: BTreeMap<String, u64>,
}

type Seen = Arc<Mutex<BTreeMap<String, Sight>>>;

#[derive(Default)]
struct World {
    version: u64,
    things: BTreeMap<Place, Thing>,
}

impl World {
    fn of_kind(&self, is_pod: bool) -> impl Iterator<Item = (&String, &Thing)> {
        let things = self.things.iter().filter(move |((of, _), _)| *of == is_pod);
        things.map(|((_, name), thing)| (name, thing))
    }

    /// What a run of this key must see if it sees everything as it is.
    fn sight(&self, name: &str) -> Sight {
        let is_beside = |pod: &str| namespace_of(pod) == namespace_of(name);
        let pods = self.of_kind(true);
        let pods = pods.filter(|(pod, thing)| thing.app == name && is_beside(pod));
        let service = self.things.get(&(false, name.to_owned()));
        Sight {
            service: service.map(|service| service.version),
            pods: pods
                .map(|(name, pod)| (name.clone(), pod.version))
                .collect(),
        }
    }
}

fn kind_of(is_pod: bool) -> Kind {
    if is_pod { pod() } else { service() }
}

fn json(name: &str, thing: &Thing) -> String {
    let (version, app) = (thing.version.to_string(), &thing.app);
    serde_json::json!({ "metadata": {
        "namespace": namespace_of(name), "name": name, "uid": "u", "resourceVersion": version,
        "labels": { "app": app },
    }})
    .to_string()
}

/// A change that a watch is to bring.
type Event = (Place, Option<Thing>, u64);
/// A list as it was when it was asked for.
type Listed = (u64, Namespaces, Vec<(String, Thing)>);

struct Host {
    rig: Rig,
    id: PluginId,
    held: BTreeSet<u32>,
    shards: u32,
    by: DividedBy,
    reconciles: Vec<(Ran, Sight)>,
    events: [VecDeque<Event>; 2],
    lists: [Option<Listed>; 2],
    /// What each list-watch brings; others are dropped.
    followed: [Namespaces; 2],
    answers: Vec<(Doubt, Proof)>,
    seen: Seen,
}

impl Host {
    fn new(seen: &Seen, by: DividedBy, held: BTreeSet<u32>) -> Self {
        let mut host = Self {
            rig: Rig::default(),
            id: 0,
            held,
            shards: 2,
            by,
            reconciles: vec![],
            events: Default::default(),
            lists: Default::default(),
            followed: Default::default(),
            answers: vec![],
            seen: seen.clone(),
        };
        host.set_duties(Relinquish::Finish);
        host.join();
        host
    }

    fn settings(&self) -> ControllerSettings {
        ControllerSettings {
            division: self.division(),
            concurrency: 3,
            ..ControllerSettings::default()
        }
    }

    fn division(&self) -> Division {
        Division {
            by: self.by,
            ..Division::into(self.shards)
        }
    }

    fn plugin(&self) -> Arc<dyn Plugin> {
        let seen = self.seen.clone();
        let behaviour = move |request: &Request, reader: &mut Reader| {
            let key = &request.key.object;
            let versions = |json: &str| -> BTreeMap<String, u64> {
                let objects: serde_json::Value = serde_json::from_str(json).unwrap();
                let objects = objects.as_array().unwrap().iter();
                let text = |object: &serde_json::Value, field: &str| {
                    object["metadata"][field].as_str().unwrap().to_owned()
                };
                objects
                    .map(|it| {
                        (
                            text(it, "name"),
                            text(it, "resourceVersion").parse().unwrap(),
                        )
                    })
                    .collect()
            };
            let own = reader.get(&service(), key).unwrap();
            let own = own.map(|own| versions(&format!("[{own}]"))[&*key.name]);
            let pods = reader.list(&pod(), Some(&key.namespace), &app_is(&key.name));
            let sight = Sight {
                service: own,
                pods: versions(&pods.unwrap()),
            };
            let mut seen = seen.lock().unwrap();
            seen.insert(key.name.to_string(), sight);
            Ok(Outcome::default())
        };
        Arc::new(Fake {
            manifest: manifest("p"),
            behaviour: Box::new(behaviour),
        })
    }

    fn join(&mut self) {
        let (plugin, settings) = (self.plugin(), self.settings());
        let (hub, now) = (&mut self.rig.hub, self.rig.now);
        self.id = hub.join(plugin, &settings, now).unwrap();
    }

    fn duties(&self) -> Duties {
        let held = HeldShards {
            of: self.division(),
            held: self.held.clone(),
        };
        Duties::Shards(BTreeMap::from([("p".to_owned(), held)]))
    }

    fn set_duties(&mut self, how: Relinquish) {
        let duties = self.duties();
        drop(self.rig.hub.set_duties(duties, how, self.rig.now));
    }

    fn configure(&mut self, shards: u32) {
        self.shards = shards;
        let settings = self.settings();
        self.rig.hub.configure(self.id, &settings, self.rig.now);
    }

    fn shard(&self, key: &ObjectKey) -> u32 {
        self.division().shard_of(key.parts())
    }

    /// Whether keys of a shard run here that may still write.
    fn may_write(&self, shard: u32) -> bool {
        let mut held = self.reconciles.iter().map(|(ran, _)| &ran.held);
        held.any(|held| !held.halt.is_halted() && self.shard(held.object()) == shard)
    }

    fn object(&self, (is_pod, name): &Place, thing: &Thing) -> Object {
        let kind = kind_of(*is_pod);
        let schema = self.rig.hub.schema(self.rig.id(&kind));
        Object::parse(&kind, &json(name, thing), &schema).unwrap()
    }

    fn apply(&mut self, is_pod: bool, delta: Delta) {
        let id = self.rig.id(&kind_of(is_pod));
        self.rig.hub.apply(id, delta, self.rig.now);
    }

    /// Whether the watch of a kind follows. If not, a list comes first.
    fn is_following(&self, is_pod: bool) -> bool {
        let id = self.rig.id(&kind_of(is_pod));
        let is_listed = !self.rig.hub.snapshot().informers[id].is_initial();
        let kind = usize::from(is_pod);
        is_listed && !self.followed[kind].is_none() && self.lists[kind].is_none()
    }

    /// Returns whether there was something to bring.
    fn bring(&mut self, is_pod: bool) -> bool {
        if !self.is_following(is_pod) {
            return false;
        }
        let Some((place, thing, version)) = self.events[usize::from(is_pod)].pop_front() else {
            return false;
        };
        let is_wanted = self.followed[usize::from(is_pod)].has(namespace_of(&place.1));
        let delta = match thing {
            _ if !is_wanted => Delta::Bookmark(ResourceVersion::new(&version.to_string())),
            Some(thing) => Delta::Upsert(self.object(&place, &thing)),
            None => Delta::Delete {
                key: key_of(&place.1),
                resource_version: ResourceVersion::new(&version.to_string()),
            },
        };
        self.apply(is_pod, delta);
        true
    }

    fn bookmark(&mut self, world: &World, is_pod: bool) {
        if self.is_following(is_pod) && self.events[usize::from(is_pod)].is_empty() {
            let version = ResourceVersion::new(&world.version.to_string());
            self.apply(is_pod, Delta::Bookmark(version));
        }
    }

    /// The namespaces that the list-watch of a kind should bring.
    fn wanted(&self, is_pod: bool) -> Namespaces {
        let id = self.rig.id(&kind_of(is_pod));
        self.rig.hub.wanted()[&id].1.namespaces
    }

    /// Begins a list-watch anew, or ends it if nothing is wanted.
    fn ask_list(&mut self, world: &World, is_pod: bool) {
        let (kind, wanted) = (usize::from(is_pod), self.wanted(is_pod));
        if wanted.is_none() {
            self.followed[kind] = Namespaces::NONE;
            self.lists[kind] = None;
            let id = self.rig.id(&kind_of(is_pod));
            return self.rig.hub.vacate(id, self.rig.now);
        }
        let things = world.of_kind(is_pod);
        let things = things.filter(|(name, _)| wanted.has(namespace_of(name)));
        let things = things.map(|(name, thing)| (name.clone(), thing.clone()));
        self.lists[kind] = Some((world.version, wanted, things.collect()));
    }

    fn get_list(&mut self, is_pod: bool) {
        let Some((version, namespaces, things)) = self.lists[usize::from(is_pod)].take() else {
            return;
        };
        let things = things.into_iter();
        let objects = things.map(|(name, thing)| self.object(&(is_pod, name), &thing));
        let listing = Listing {
            objects: objects.collect(),
            resource_version: ResourceVersion::new(&version.to_string()),
            extent: Extent {
                namespaces,
                ..Extent::default()
            },
            ..Listing::default()
        };
        self.followed[usize::from(is_pod)] = namespaces;
        self.events[usize::from(is_pod)].retain(|(_, _, at)| *at > version);
        self.apply(is_pod, Delta::Replace(listing));
    }

    /// Asks about each cache in doubt. The answers come later.
    fn ask(&mut self, world: &World, with_objects: bool) {
        for doubt in self.rig.hub.doubted() {
            let things = world.of_kind(doubt.informer_key.kind == pod());
            let versions = things.map(|(name, thing)| {
                let version = ResourceVersion::new(&thing.version.to_string());
                (key_of(name), version)
            });
            let proof = Proof {
                version: ResourceVersion::new(&world.version.to_string()),
                objects: with_objects.then(|| versions.collect()),
            };
            self.answers.push((doubt, proof));
        }
    }

    fn answer(&mut self, number: usize) {
        if !self.answers.is_empty() {
            let (doubt, proof) = self.answers.swap_remove(number % self.answers.len());
            self.rig.hub.prove(&doubt, &proof, self.rig.now);
        }
    }
}

struct Relay {
    world: World,
    hosts: [Host; 2],
    seen: Seen,
    now: Time,
}

impl Relay {
    fn new(by: DividedBy) -> Self {
        let seen = Seen::default();
        let mut relay = Self {
            world: World::default(),
            hosts: [
                Host::new(&seen, by, BTreeSet::from([0, 1])),
                Host::new(&seen, by, BTreeSet::new()),
            ],
            seen,
            now: Time::ZERO,
        };
        relay.world.version = 1;
        relay
    }

    fn change(&mut self, place: &Place, thing: Option<Thing>) {
        if thing.is_none() && !self.world.things.contains_key(place) {
            return;
        }
        self.world.version += 1;
        let version = self.world.version;
        let thing = thing.map(|thing| Thing { version, ..thing });
        self.world.things.remove(place);
        if let Some(thing) = &thing {
            self.world.things.insert(place.clone(), thing.clone());
        }
        for host in &mut self.hosts {
            let event = (place.clone(), thing.clone(), version);
            host.events[usize::from(place.0)].push_back(event);
        }
    }

    /// Takes a host's next key. If there is none, returns when there will be.
    fn take(&mut self, number: usize) -> Result<Option<Time>, TestCaseError> {
        let (host, other) = match &mut self.hosts {
            [host, other] if number == 0 => (host, other),
            [other, host] => (host, other),
        };
        match host.rig.hub.next(self.now, 0) {
            Next::Idle(due) => {
                let due = due.unwrap_or(Time::MAX);
                prop_assert!(due > self.now, "nothing is to be done at {due:?}");
                return Ok(Some(due));
            }
            Next::Fetch(fetch) => {
                let answers = fetch.questions.iter().map(|question| {
                    let place = (question.kind == pod(), question.key.name.to_string());
                    let thing = self.world.things.get(&place);
                    Ok(thing.map(|thing| json(&place.1, thing)))
                });
                let answers = answers.collect();
                host.rig.hub.fetched(&fetch, answers, self.now);
            }
            Next::Run(reconcile) => {
                let key = reconcile.held().object().clone();
                let is_it = |held: &RunningKey| *held.object() == key;
                let mut own = host.reconciles.iter();
                prop_assert!(!own.any(|(ran, _)| is_it(&ran.held)), "{key} runs twice");
                let mut others = other.reconciles.iter().map(|(ran, _)| &ran.held);
                let is_there = others.any(|held| is_it(held) && !held.halt.is_halted());
                prop_assert!(!is_there, "{key} runs on both hosts");
                prop_assert!(host.held.contains(&host.shard(&key)), "{key} is not held");
                let ran = reconcile.run();
                let sight = self.seen.lock().unwrap()[&*key.name].clone();
                host.reconciles.push((ran, sight));
            }
        }
        Ok(None)
    }

    fn end(&mut self, number: usize, which: usize, end: End) -> Result<(), TestCaseError> {
        let reconciles = &mut self.hosts[number].reconciles;
        if reconciles.is_empty() {
            return Ok(());
        }
        let (mut ran, sight) = reconciles.swap_remove(which % reconciles.len());
        let is_halted = ran.held.halt.is_halted();
        let mut executed = Executed {
            is_halted,
            ..Executed::default()
        };
        match (end, &mut ran.result) {
            (End::Failed, result) => *result = Err(RunError::Trap("no".into()).into()),
            (End::Requeued, Ok((_, follow_up))) => {
                follow_up.next = NextRun::After(Duration::from_secs(3));
                follow_up.memo = Some("m".into());
            }
            _ => {}
        }
        if ran.result.is_ok() && !is_halted {
            let wrote = self.count(&ran.held.object().name.clone(), &sight)?;
            executed.accepted.extend(wrote);
        }
        let rig = &mut self.hosts[number].rig;
        rig.now = self.now;
        match rig.hub.ran(ran, rig.now) {
            Decision::Writing(writing) => rig.end(writing, executed),
            Decision::Finished(finished) => rig.hub.finished(finished, rig.now),
            Decision::Confirming(_) => unreachable!("nothing is to be confirmed"),
            Decision::Fetching(_) => unreachable!("nothing is to be fetched"),
        };
        Ok(())
    }

    /// Writes a key's counter, if its service has another state than it was last written for.
    fn count(&mut self, name: &str, sight: &Sight) -> Result<Option<AcceptedWrite>, TestCaseError> {
        let place = (true, name.to_owned());
        let here = self.world.things.get(&place);
        let shown = sight.pods.get(name);
        prop_assert_eq!(
            here.map(|here| &here.version),
            shown,
            "{} saw an old count",
            name
        );
        // The version stands for the state of the service that was seen.
        let Some(seen) = sight.service else {
            return Ok(None);
        };
        let wanted = u32::try_from(seen).unwrap();
        if here.is_some_and(|here| here.state == wanted) {
            return Ok(None);
        }
        let counter = here.map_or(0, |here| here.counter) + 1;
        let thing = Thing {
            version: 0,
            state: wanted,
            counter,
            app: name.to_owned(),
        };
        self.change(&place, Some(thing));
        let version = self.world.version.to_string();
        Ok(Some(AcceptedWrite {
            kind: pod(),
            key: key_of(name),
            trace: Trace::Version(ResourceVersion::new(&version)),
        }))
    }

    /// Gives a host a shard that nobody has, if nothing of it can be written by the other one.
    fn grant(&mut self, number: usize, shard: u32) -> Result<bool, TestCaseError> {
        let shard = shard % self.hosts[number].shards;
        let other = &self.hosts[1 - number];
        let of = other.division();
        let is_unfinished = other.rig.hub.is_unfinished(&Shard::new("p", shard, of));
        if other.held.contains(&shard) {
            return Ok(false);
        }
        prop_assert!(
            is_unfinished || !other.may_write(shard),
            "{shard} is not told"
        );
        if other.may_write(shard) {
            return Ok(false);
        }
        self.hosts[number].held.insert(shard);
        self.hosts[number].set_duties(Relinquish::Finish);
        Ok(true)
    }

    fn release(&mut self, number: usize, shard: u32, how: Relinquish) {
        let host = &mut self.hosts[number];
        host.held.remove(&(shard % host.shards));
        host.set_duties(how);
    }

    fn set_shards(&mut self, shards: u32) {
        for host in &mut self.hosts {
            let is_all = host.held.len() == host.shards as usize;
            host.held = (0..shards).filter(|_| is_all).collect();
            if is_all {
                host.configure(shards);
                host.set_duties(Relinquish::Finish);
            } else {
                host.set_duties(Relinquish::Finish);
                host.configure(shards);
            }
        }
    }

    fn replace(&mut self, number: usize, shard: u32) {
        let host = &mut self.hosts[number];
        let (plugin, settings) = (host.plugin(), host.settings());
        let hub = &mut host.rig.hub;
        let preparation = hub.prepare_replacement(host.id, plugin, &settings);
        let mut preparation = preparation.unwrap();
        preparation.build(self.now);
        self.release(number, shard, Relinquish::Finish);
        let hub = &mut self.hosts[number].rig.hub;
        hub.finish(preparation, self.now).unwrap();
    }

    /// The informers are new then, and list anew.
    fn rejoin(&mut self, number: usize) {
        let host = &mut self.hosts[number];
        if host.reconciles.is_empty() {
            drop(host.rig.hub.leave(host.id));
            host.join();
            host.lists = Default::default();
        }
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        let thing = |state, app: &str| Thing {
            version: 0,
            state,
            counter: 0,
            app: app.to_owned(),
        };
        match step {
            Step::Put(name, state) => {
                self.change(&(false, NAMES[name].to_owned()), Some(thing(state, "")));
            }
            Step::Remove(name) => self.change(&(false, NAMES[name].to_owned()), None),
            Step::Stranger(name, app) => {
                let pod = app.map(|app| thing(0, NAMES[app]));
                self.change(&(true, STRANGERS[name].to_owned()), pod);
            }
            Step::Take(host) => drop(self.take(host)?),
            Step::End(host, which, end) => self.end(host, which, end)?,
            Step::Release(host, shard, how) => self.release(host, shard, how),
            Step::Grant(host, shard) => drop(self.grant(host, shard)?),
            Step::Shards(shards) => self.set_shards(shards),
            Step::Replace(host, shard) => self.replace(host, shard),
            Step::Rejoin(host) => self.rejoin(host),
            Step::Bring(host, is_pod) => drop(self.hosts[host].bring(is_pod)),
            Step::Bookmark(host, is_pod) => self.hosts[host].bookmark(&self.world, is_pod),
            Step::AskList(host, is_pod) => self.hosts[host].ask_list(&self.world, is_pod),
            Step::GetList(host, is_pod) => self.hosts[host].get_list(is_pod),
            Step::Ask(host, with_objects) => self.hosts[host].ask(&self.world, with_objects),
            Step::Answer(host, which) => self.hosts[host].answer(which),
            Step::Wait(seconds) => {
                self.now += Duration::from_secs(seconds);
                self.hosts
                    .iter_mut()
                    .for_each(|host| host.rig.now = self.now);
            }
        }
        Ok(())
    }

    /// Everything that the server has comes to the caches, and proves them.
    fn catch_up(&mut self) {
        for host in &mut self.hosts {
            for is_pod in [false, true] {
                let follows = host.followed[usize::from(is_pod)] == host.wanted(is_pod);
                if !host.is_following(is_pod) || !follows {
                    host.ask_list(&self.world, is_pod);
                    host.get_list(is_pod);
                }
                while host.bring(is_pod) {}
                host.bookmark(&self.world, is_pod);
            }
            host.answers.clear();
            host.ask(&self.world, false);
            (0..host.answers.len()).for_each(|_| host.answer(0));
        }
    }

    /// Everything is granted to a host, and runs until there is nothing left to do.
    fn end_well(&mut self, heir: usize, is_drained: bool) -> Result<(), TestCaseError> {
        if is_drained {
            self.hosts[1 - heir].rig.hub.drain();
            self.hosts[1 - heir].held.clear();
            self.hosts[1 - heir].set_duties(Relinquish::Finish);
        }
        let shards = self.hosts[0].shards;
        for _ in 0..2000 {
            self.catch_up();
            for shard in 0..shards {
                if !self.hosts[heir].held.contains(&shard) {
                    self.grant(heir, shard)?;
                }
            }
            let is_running = self.hosts.iter().any(|host| !host.reconciles.is_empty());
            let mut due = Time::MAX;
            for host in [0, 1] {
                let next = self.take(host)?;
                due = due.min(next.unwrap_or(self.now));
                self.end(host, 0, End::Well)?;
            }
            if due == Time::MAX && !is_running && self.is_granted() {
                return Ok(());
            }
            if due != Time::MAX {
                self.step(Step::Wait(due.saturating_sub(self.now).as_secs() + 1))?;
            }
        }
        Err(TestCaseError::fail("it does not end"))
    }

    /// Whether every shard is held, by hosts that doubt nothing.
    fn is_granted(&self) -> bool {
        let mut hosts = self.hosts.iter();
        if hosts.any(|host| !host.rig.hub.doubted().is_empty()) {
            return false;
        }
        let held = self.hosts.iter().map(|host| host.held.len()).sum::<usize>();
        held == self.hosts[0].shards as usize
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let seen = self.seen.lock().unwrap();
        for (name, service) in self.world.of_kind(false) {
            prop_assert_eq!(seen.get(name), Some(&self.world.sight(name)), "{}", name);
            let counter = self.world.things.get(&(true, name.clone()));
            let written_for = counter.map(|counter| u64::from(counter.state));
            prop_assert_eq!(written_for, Some(service.version));
        }
        for host in &self.hosts {
            prop_assert!(!host.rig.hub.has_unfinished());
            prop_assert!(host.rig.hub.is_drained(self.now));
        }
        Ok(())
    }
}

fn any_step() -> impl Strategy<Value = Step> {
    let (name, host) = (|| 0..NAMES.len(), || 0..2_usize);
    let how = prop_oneof![Just(Relinquish::Finish), Just(Relinquish::Stop)];
    let end = prop_oneof![
        4 => Just(End::Well),
        1 => Just(End::Requeued),
        1 => Just(End::Failed),
    ];
    let kind = any::<bool>;
    prop_oneof![
        4 => (name(), 0..9_u32).prop_map(|(name, state)| Step::Put(name, state)),
        1 => name().prop_map(Step::Remove),
        2 => (0..2_usize, proptest::option::of(name()))
            .prop_map(|(name, app)| Step::Stranger(name, app)),
        8 => host().prop_map(Step::Take),
        6 => (host(), any::<usize>(), end)
            .prop_map(|(host, which, end)| Step::End(host, which, end)),
        3 => (host(), 0..3_u32, how).prop_map(|(host, shard, how)| Step::Release(host, shard, how)),
        5 => (host(), 0..3_u32).prop_map(|(host, shard)| Step::Grant(host, shard)),
        1 => (1..4_u32).prop_map(Step::Shards),
        1 => (host(), 0..3_u32).prop_map(|(host, shard)| Step::Replace(host, shard)),
        1 => host().prop_map(Step::Rejoin),
        8 => (host(), kind()).prop_map(|(host, is_pod)| Step::Bring(host, is_pod)),
        1 => (host(), kind()).prop_map(|(host, is_pod)| Step::Bookmark(host, is_pod)),
        1 => (host(), kind()).prop_map(|(host, is_pod)| Step::AskList(host, is_pod)),
        3 => (host(), kind()).prop_map(|(host, is_pod)| Step::GetList(host, is_pod)),
        4 => (host(), any::<bool>()).prop_map(|(host, objects)| Step::Ask(host, objects)),
        6 => (host(), any::<usize>()).prop_map(|(host, which)| Step::Answer(host, which)),
        1 => (0..15_u64).prop_map(Step::Wait),
    ]
}

proptest! {
    #[test]
    fn hosts_that_hand_shards_to_each_other_run_each_key_once_and_lose_none(
        steps in proptest::collection::vec(any_step(), 1..200),
        heir in 0..2_usize,
        is_drained in any::<bool>(),
        is_by_namespace in any::<bool>(),
    ) {
        let mut relay = Relay::new(match is_by_namespace {
            true => DividedBy::Namespace,
            false => DividedBy::Name,
        });
        // Most of what is of interest happens once the caches are full.
        if steps.len() % 4 > 0 {
            relay.catch_up();
        }
        for step in steps {
            relay.step(step)?;
        }
        relay.end_well(heir, is_drained)?;
        relay.check()?;
    }
}
