//! Random lives. [`World`] checks each effect; here it is checked that nothing waits for ever.

use proptest::prelude::*;

use super::*;

const FILES: [&str; 3] = ["a.wasm", "b.wasm", "c.wasm"];
const NAMES: [&str; 2] = ["x", "y"];
const VERSIONS: [&str; 4] = ["1", "2", "3", "4"];

#[derive(Clone, Debug)]
enum Step {
    Write(usize, usize, usize),
    Break(usize),
    Remove(usize),
    Set(usize, TestSettings),
    BreakSettings(usize),
    Unset(usize),
    Defaults(Option<TestSettings>),
    Rescan,
    LoadWell(usize),
    LoadFails(usize),
    NoRoom(usize),
    Drained(usize),
    Quarantine(usize),
    Pardon,
    Command(usize, CommandVerb),
    Unfit(usize, u8),
    NotAccepted(usize),
    ReviewFails(bool),
    Forbid(bool),
    Room(bool),
    Kinds(bool),
    Refuse(Option<JoinErrorKind>),
    Answer(usize),
    AtOnce(bool),
    Tick,
}

#[derive(Clone, Copy, Debug)]
enum JoinErrorKind {
    SecretValues,
    Draining,
}

impl World {
    fn step(&mut self, step: Step) {
        match step {
            Step::Write(file, name, version) => {
                // The name belongs to the version: they are in the same file.
                let name = NAMES[(name + version) % NAMES.len()];
                let version = format!("{}-{name}", VERSIONS[version]);
                self.write(FILES[file], name, &version);
            }
            Step::Break(file) => self.break_file(FILES[file], "is a folder"),
            Step::Remove(file) => self.remove(FILES[file]),
            Step::Set(file, settings) => self.set(FILES[file], settings),
            Step::BreakSettings(file) => self.break_settings(FILES[file], "no TOML"),
            Step::Unset(file) => self.unset(FILES[file]),
            Step::Defaults(defaults) => self.set_defaults(defaults.ok_or("no TOML".into())),
            Step::Rescan => self.rescan(),
            Step::Drained(number) => self.drain_one(number),
            Step::Quarantine(name) => self.quarantine(NAMES[name], "trap"),
            Step::Command(name, verb) => {
                self.give(NAMES[name], verb, None);
            }
            Step::Answer(number) => (0..number).for_each(|_| self.answer()),
            Step::AtOnce(at_once) => {
                self.answers_at_once = at_once;
                if at_once {
                    self.answer();
                }
            }
            Step::Tick => {
                self.now += RECHECK_INTERVAL;
                self.event(LifecycleEvent::Tick);
            }
            Step::LoadWell(number) | Step::LoadFails(number) | Step::NoRoom(number) => {
                self.end_load(&step, number);
            }
            _ => self.turn(&step),
        }
    }

    fn end_load(&mut self, step: &Step, number: usize) {
        if self.loads.is_empty() {
            return;
        }
        let number = number % self.loads.len();
        match step {
            Step::LoadFails(_) => self.load(number, Err("no plugin".into())),
            Step::NoRoom(_) => self.load(number, Ok(LoadOutcome::NoRoom("full".into()))),
            _ => self.load_well(number),
        }
    }

    /// Changes what is answered from now on.
    fn turn(&mut self, step: &Step) {
        let version =
            |version: usize, name: usize| format!("{}-{}", VERSIONS[version], NAMES[name]);
        match *step {
            Step::Unfit(number, config) => {
                self.unfit
                    .insert((version(number, usize::from(config) % 2), config));
            }
            Step::NotAccepted(number) => {
                let version = version(number / 2, number % 2);
                if !self.not_accepted.remove(&version) {
                    self.not_accepted.insert(version);
                }
            }
            Step::Pardon => {
                for plugin in self.hub.values_mut() {
                    plugin.quarantine = None;
                }
            }
            Step::ReviewFails(fails) => self.review_fails = fails,
            Step::Forbid(is_forbidden) => self.is_forbidden = is_forbidden,
            Step::Room(has_room) => self.has_room = has_room,
            Step::Kinds(has_kinds) => self.has_kinds = has_kinds,
            Step::Refuse(refuses) => {
                self.refuses = refuses.map(|refuses| match refuses {
                    JoinErrorKind::SecretValues => JoinError::SecretValues("x".into()),
                    JoinErrorKind::Draining => JoinError::Draining,
                });
            }
            _ => unreachable!("the other steps change nothing for good"),
        }
    }

    /// Whatever is shown as waiting has an event that can end it: the next tick, or another file.
    fn check(&self) {
        if self.open.is_some() {
            return;
        }
        for entry in self.life.entries() {
            if let PluginState::Waiting(reason) = entry.state {
                assert!(self.life.is_waiting(), "{}: {reason}", entry.file);
            }
        }
        let mut names: Vec<&str> = self
            .hub
            .values()
            .map(|plugin| plugin.name.as_str())
            .collect();
        names.sort_unstable();
        assert!(names.is_sorted_by(|one, next| one < next), "{names:?}");
        for reply in 1..=self.commands_given() {
            assert!(self.answer_of(reply).is_some(), "a command is answered");
        }
    }

    /// Everything that could be in the way is gone.
    fn relent(&mut self) {
        self.unfit.clear();
        self.not_accepted.clear();
        (self.review_fails, self.is_forbidden) = (false, false);
        (self.has_room, self.has_kinds) = (true, true);
        self.refuses = None;
        self.answer_all();
        self.event(LifecycleEvent::ServerReached);
        self.set_defaults(Ok(TestSettings::default()));
        for file in FILES {
            self.unset(file);
        }
        for _ in 0..4 {
            self.load_all();
            self.drain_all();
            self.rescan();
        }
    }

    fn check_all_run(&self) {
        for entry in self.life.entries() {
            let file = &entry.file;
            match &entry.state {
                PluginState::Joined(_) => {}
                // It cannot be opened, its load has failed, or another file has its name.
                PluginState::Failed(reason) => assert!(
                    reason == "is a folder"
                        || reason == "no plugin"
                        || reason.ends_with("is already loaded"),
                    "{file}: {reason}"
                ),
                state => panic!("{file} is still {state:?}"),
            }
        }
    }
}

fn any_settings() -> impl Strategy<Value = TestSettings> {
    let name = prop_oneof![
        3 => Just(None),
        1 => (0..NAMES.len()).prop_map(|name| Some(NAMES[name].to_owned())),
    ];
    let pin = prop_oneof![4 => Just(None), 1 => Just(Some("1-x".to_owned()))];
    let flags = [0.2, 0.2, 0.3, 0.1].map(proptest::bool::weighted);
    (name, 0..3_u8, 0..2_u32, 0..2_u8, pin, flags).prop_map(
        |(name, config, weight, sandbox, pin, [own_kind, is_paused, has_identity, requires])| {
            TestSettings {
                name,
                config,
                weight,
                sandbox,
                own_kind,
                identity: has_identity.then(|| "ns/robot".to_owned()),
                pin,
                is_paused,
                requires,
            }
        },
    )
}

fn any_verb() -> impl Strategy<Value = CommandVerb> {
    prop_oneof![
        1 => Just(CommandVerb::Pause),
        1 => Just(CommandVerb::Resume),
        2 => Just(CommandVerb::Rollback),
        1 => Just(CommandVerb::Accept),
    ]
}

fn of_the_directory() -> impl Strategy<Value = Step> {
    let file = || 0..FILES.len();
    prop_oneof![
        8 => (file(), 0..NAMES.len(), 0..VERSIONS.len())
            .prop_map(|(file, name, version)| Step::Write(file, name, version)),
        1 => file().prop_map(Step::Break),
        2 => file().prop_map(Step::Remove),
        4 => (file(), any_settings()).prop_map(|(file, settings)| Step::Set(file, settings)),
        1 => file().prop_map(Step::BreakSettings),
        2 => file().prop_map(Step::Unset),
        1 => proptest::option::weighted(0.7, any_settings()).prop_map(Step::Defaults),
        1 => Just(Step::Rescan),
        10 => any::<usize>().prop_map(Step::LoadWell),
        1 => any::<usize>().prop_map(Step::LoadFails),
        1 => any::<usize>().prop_map(Step::NoRoom),
    ]
}

fn of_the_cluster() -> impl Strategy<Value = Step> {
    let mostly = || proptest::bool::weighted(0.7);
    let rarely = || proptest::bool::weighted(0.3);
    let refuses = prop_oneof![
        4 => Just(None),
        1 => Just(Some(JoinErrorKind::SecretValues)),
        1 => Just(Some(JoinErrorKind::Draining)),
    ];
    prop_oneof![
        4 => any::<usize>().prop_map(Step::Drained),
        4 => (0..NAMES.len()).prop_map(Step::Quarantine),
        1 => Just(Step::Pardon),
        3 => (0..NAMES.len(), any_verb()).prop_map(|(name, verb)| Step::Command(name, verb)),
        1 => (0..VERSIONS.len(), 0..3_u8).prop_map(|(version, config)| Step::Unfit(version, config)),
        2 => (0..2 * VERSIONS.len()).prop_map(Step::NotAccepted),
        1 => rarely().prop_map(Step::ReviewFails),
        1 => rarely().prop_map(Step::Forbid),
        1 => mostly().prop_map(Step::Room),
        1 => mostly().prop_map(Step::Kinds),
        1 => refuses.prop_map(Step::Refuse),
        6 => (0..12_usize).prop_map(Step::Answer),
        2 => mostly().prop_map(Step::AtOnce),
        3 => Just(Step::Tick),
    ]
}

proptest! {
    #[test]
    fn nothing_runs_unchecked_and_nothing_waits_for_ever(
        is_reached in proptest::bool::weighted(0.8),
        steps in proptest::collection::vec(
            prop_oneof![of_the_directory(), of_the_cluster()],
            1..80,
        ),
    ) {
        let mut world = if is_reached { World::reached() } else { World::default() };
        for step in steps {
            world.step(step);
            world.check();
        }
        world.relent();
        world.check();
        world.check_all_run();
        for file in FILES {
            world.remove(file);
        }
        world.drain_all();
        prop_assert!(world.hub.is_empty() && world.life.entries().is_empty());
    }
}
