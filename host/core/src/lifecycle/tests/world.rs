//! Everything around a [`Lifecycle`]: a plugin directory, a hub, and whoever answers questions. It
//! performs the effects, and fails if one breaks a guarantee.

use super::*;

pub struct Test;

impl Handles for Test {
    type Version = TestVersion;
    type Settings = TestSettings;
    type Sandbox = u8;
    type Stamp = u64;
    type Reply = u64;
}

#[derive(Clone)]
pub struct TestVersion {
    digest: Digest,
    manifest: Arc<Manifest>,
}

impl VersionHandle for TestVersion {
    fn digest(&self) -> &Digest {
        &self.digest
    }

    fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }
}

/// A version whose digest is its version string.
pub fn version(name: &str, version: &str) -> TestVersion {
    let kind = |kind| Kind::new("", "v1", kind);
    let reads = ["ConfigMap", "Pod"].map(|name| ReadDeclaration::new(kind(name), vec![]));
    let manifest = Manifest {
        name: name.into(),
        version: version.into(),
        reconciles: vec![Selection {
            kind: kind("ConfigMap"),
            labels: LabelSelector::default(),
            fields: None,
            namespaces: vec![],
            companions: vec![],
        }],
        reads: reads.into(),
        indexes: vec![],
        writes: vec![WriteDeclaration {
            kind: kind("Pod"),
            subresource: Some("status".into()),
            verbs: vec![Verb::Apply],
            children: false,
        }],
        limits: Limits::default(),
        config_schema: Some("{}".into()),
        optional: BTreeSet::new(),
    };
    TestVersion {
        digest: version.into(),
        manifest: manifest.into(),
    }
}

/// The same if these kinds are optional.
pub fn with_optional(name: &str, of_version: &str, optional: &[Kind]) -> TestVersion {
    let version = version(name, of_version);
    let manifest = Manifest {
        optional: optional.iter().cloned().collect(),
        ..Manifest::clone(&version.manifest)
    };
    TestVersion {
        manifest: manifest.into(),
        ..version
    }
}

/// The same without a schema of its configuration.
pub fn without_schema(name: &str, of_version: &str) -> TestVersion {
    let version = version(name, of_version);
    let manifest = Manifest {
        config_schema: None,
        ..Manifest::clone(&version.manifest)
    };
    TestVersion {
        manifest: manifest.into(),
        ..version
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct TestSettings {
    pub name: Option<String>,
    pub config: u8,
    pub weight: u32,
    pub sandbox: u8,
    pub own_kind: bool,
    pub identity: Option<String>,
    pub pin: Option<String>,
    pub is_paused: bool,
    pub requires: bool,
}

impl SettingsHandle for TestSettings {
    fn or(&self, defaults: &Self) -> Self {
        Self {
            config: self.config.max(defaults.config),
            ..self.clone()
        }
    }

    fn name_of(&self, manifest: &Manifest) -> String {
        self.name.clone().unwrap_or_else(|| manifest.name.clone())
    }

    fn own_name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    fn is_paused(&self) -> bool {
        self.is_paused
    }

    fn has_config(&self) -> bool {
        self.config > 0
    }

    fn requires_settings(&self) -> bool {
        self.requires
    }

    fn unpinned(&self, _: &str, digest: &str) -> Option<String> {
        let pin = self.pin.as_deref()?;
        (pin != digest).then(|| format!("{digest} is not named"))
    }
}

/// A plugin in the hub.
pub struct InHub {
    pub name: String,
    pub file: String,
    pub digest: String,
    pub terms: RunTerms<Test>,
    /// If it is draining, for how long its queued keys may run.
    pub patience: Option<Duration>,
    pub quarantine: Option<Quarantine>,
}

/// A load that is under way.
pub struct Load {
    pub file: String,
    pub number: u64,
    known: Vec<Digest>,
    /// What the file holds: a plugin's name and version, or what is wrong with it.
    content: Result<(String, String), String>,
}

/// What the current attempt has been answered.
#[derive(Default)]
struct Passed {
    file: String,
    is_accepted: bool,
    terms: Option<RunTerms<Test>>,
    is_forbidden: bool,
    has_room: bool,
    has_kinds: bool,
    is_refused: bool,
}

type FileContent = (u64, Result<(String, String), String>);

pub struct World {
    pub life: Lifecycle<Test>,
    pub now: Time,
    stamps: u64,
    files: BTreeMap<String, FileContent>,
    settings: BTreeMap<String, Result<TestSettings, String>>,
    defaults: Result<TestSettings, String>,
    /// The files that have been removed since they last ran.
    removed: BTreeSet<String>,
    pub loads: Vec<Load>,
    pub hub: BTreeMap<PluginId, InHub>,
    last_id: PluginId,

    /// Versions and configurations that do not fit.
    pub unfit: BTreeSet<(String, u8)>,
    pub not_accepted: BTreeSet<String>,
    pub review_fails: bool,
    pub is_forbidden: bool,
    /// The optional kinds that the cluster does not serve.
    pub absent: BTreeSet<Kind>,
    pub has_room: bool,
    pub has_kinds: bool,
    pub refuses: Option<JoinError>,
    pub unfit_to_return: BTreeSet<String>,

    pub answers_at_once: bool,
    pub open: Option<LifecycleQuestion<Test>>,
    passed: Passed,
    /// Versions and configurations that have been found to fit.
    fit: BTreeSet<(String, String)>,
    /// The files that are rolled back.
    rolls_back: BTreeSet<String>,
    /// The version of each file that was rolled back because it failed.
    rejected: BTreeMap<String, String>,
    /// The plugin that has just been found to have an earlier file's name.
    outranked: Option<String>,

    pub asked: Vec<&'static str>,
    pub told: Vec<Notice>,
    pub pardoned: Vec<PluginId>,
    pub answers: Vec<(u64, CommandAnswer)>,
    commands: u64,
}

impl Default for World {
    fn default() -> Self {
        Self {
            life: Lifecycle::default(),
            now: Time::ZERO,
            stamps: 0,
            files: BTreeMap::new(),
            settings: BTreeMap::new(),
            defaults: Ok(TestSettings::default()),
            removed: BTreeSet::new(),
            loads: Vec::new(),
            hub: BTreeMap::new(),
            last_id: 0,
            unfit: BTreeSet::new(),
            not_accepted: BTreeSet::new(),
            review_fails: false,
            is_forbidden: false,
            absent: BTreeSet::new(),
            has_room: true,
            has_kinds: true,
            refuses: None,
            unfit_to_return: BTreeSet::new(),
            answers_at_once: true,
            open: None,
            passed: Passed::default(),
            fit: BTreeSet::new(),
            rolls_back: BTreeSet::new(),
            rejected: BTreeMap::new(),
            outranked: None,
            asked: Vec::new(),
            told: Vec::new(),
            pardoned: Vec::new(),
            answers: Vec::new(),
            commands: 0,
        }
    }
}

impl World {
    /// The API server has answered, and the directory has not been read.
    pub fn reached() -> Self {
        let mut world = Self::default();
        world.event(LifecycleEvent::ServerReached);
        world
    }

    /// A plugin of this name runs, from the first file.
    pub fn running(name: &str, version: &str) -> Self {
        let mut world = Self::reached();
        world.write(FILE, name, version);
        world.load_all();
        world
    }

    pub fn event(&mut self, event: LifecycleEvent<Test>) {
        let effects = self.life.handle(event, self.now);
        let mut effects = effects.into_iter().peekable();
        while let Some(effect) = effects.next() {
            if let LifecycleEffect::Ask(question) = effect {
                assert!(effects.peek().is_none(), "a question comes last");
                assert!(self.open.is_none(), "one question at a time");
                self.open = Some(question);
            } else {
                self.perform(effect);
            }
        }
        if self.answers_at_once {
            self.answer();
        }
    }

    /// Answers the question that is open.
    pub fn answer(&mut self) {
        if let Some(question) = self.open.take() {
            let answer = self.answer_to(question);
            self.event(LifecycleEvent::Answered(answer));
        }
    }

    /// Answers this question and all that follow.
    pub fn answer_all(&mut self) {
        self.answers_at_once = true;
        self.answer();
    }

    fn answer_to(&mut self, question: LifecycleQuestion<Test>) -> LifecycleAnswer<Test> {
        match question {
            LifecycleQuestion::Config(asked) => {
                self.asked.push("config");
                self.passed = Passed {
                    file: asked.file,
                    ..Passed::default()
                };
                self.outranked = None;
                let config = asked.settings.config;
                let version = asked.version.digest.to_string();
                LifecycleAnswer::Config(if self.unfit.contains(&(version.clone(), config)) {
                    Err(format!("config {config}"))
                } else {
                    self.fit.insert((version, config.to_string()));
                    Ok(())
                })
            }
            LifecycleQuestion::Acceptance(asked) => {
                self.asked.push("acceptance");
                let is_objected = self.not_accepted.contains(&*asked.version.digest);
                self.passed.is_accepted = !is_objected;
                LifecycleAnswer::Acceptance(is_objected.then(|| NotAccepted {
                    more: vec!["read Secret".into()],
                    reason: "it asks for more".into(),
                }))
            }
            LifecycleQuestion::Access(asked) => self.review(&asked),
            LifecycleQuestion::Watches(_) => {
                self.asked.push("watches");
                self.passed.has_room = self.has_room;
                let reason = (!self.has_room).then(|| "too many list-watches".to_owned());
                LifecycleAnswer::Watches(reason)
            }
            LifecycleQuestion::Kinds(_) => {
                self.asked.push("kinds");
                self.passed.has_kinds = self.has_kinds;
                let reason = (!self.has_kinds).then(|| "no such kind".to_owned());
                LifecycleAnswer::Kinds(reason)
            }
            install => {
                let installed = self.install(install);
                self.passed.is_refused = installed.is_err();
                LifecycleAnswer::Installed(installed)
            }
        }
    }

    fn review(&mut self, asked: &VersionInFile<Test>) -> LifecycleAnswer<Test> {
        self.asked.push("access");
        let settings = &asked.settings;
        let mut grants = Grants::as_requested();
        if settings.own_kind {
            grants = Grants::default();
        }
        grants.absent.clone_from(&self.absent);
        let identity = settings.identity.clone();
        let is_forbidden = self.is_forbidden && identity.is_some();
        if is_forbidden {
            grants.forbidden = grants.reads(&asked.version.manifest);
        }
        let terms = RunTerms {
            settings: Box::new(ControllerSettings {
                config: settings.config.to_string(),
                weight: settings.weight,
                is_paused: settings.is_paused,
                user: identity.clone(),
                grants,
                ..ControllerSettings::default()
            }),
            sandbox: settings.sandbox,
            identity: identity.clone(),
        };
        let fails = self.review_fails;
        self.passed.is_forbidden = is_forbidden && !fails;
        self.passed.terms = (!fails).then(|| terms.clone());
        LifecycleAnswer::Access {
            may_change: identity.is_some() || !asked.version.manifest.optional.is_empty(),
            terms: if fails {
                Err("no answer".into())
            } else {
                Ok(terms)
            },
        }
    }

    fn install(&mut self, question: LifecycleQuestion<Test>) -> Result<Installed, JoinError> {
        let (plugin, name, digest, terms) = match question {
            LifecycleQuestion::Join {
                name,
                version,
                terms,
            } => {
                self.asked.push("join");
                let is_taken = self.hub.values().any(|plugin| plugin.name == name);
                assert!(!is_taken, "{name} is in the hub");
                (None, name, version.digest, terms)
            }
            LifecycleQuestion::Swap {
                plugin,
                name,
                version,
                terms,
                is_same,
            } => {
                let asked = ["swap to another", "swap to the same"];
                self.asked.push(asked[usize::from(is_same)]);
                let running = &self.hub[&plugin];
                let is_it =
                    *running.digest == *version.digest && running.terms.sandbox == terms.sandbox;
                assert_eq!(is_it, is_same);
                (Some(plugin), name, version.digest, terms)
            }
            LifecycleQuestion::Configure { plugin, terms } => {
                self.asked.push("configure");
                let running = &self.hub[&plugin];
                let (name, digest) = (running.name.clone(), running.digest.as_str().into());
                (Some(plugin), name, digest, terms)
            }
            _ => unreachable!("the other questions install nothing"),
        };
        self.check_install(&digest, &terms);
        if let Some(error) = &self.refuses {
            return Err(match error {
                JoinError::Draining => JoinError::Draining,
                _ => JoinError::SecretValues(name),
            });
        }
        Ok(self.put(plugin, name, &digest, terms))
    }

    /// Nothing is installed that has not passed all that it has to.
    fn check_install(&mut self, digest: &str, terms: &RunTerms<Test>) {
        let passed = &self.passed;
        let reviewed = passed.terms.as_ref().expect("its access was reviewed");
        let (mut own, mut theirs) = (terms.settings.clone(), reviewed.settings.clone());
        (own.is_paused, theirs.is_paused) = (false, false);
        assert_eq!(own, theirs, "what was reviewed is installed");
        assert!(!passed.is_forbidden, "it may read its own kind");
        let config = (digest.to_owned(), terms.settings.config.clone());
        assert!(self.fit.contains(&config), "its configuration was checked");
        let of_file = |plugin: &&InHub| plugin.file == passed.file && plugin.patience.is_none();
        let running = self.hub.values().find(of_file);
        let is_again = running.is_some_and(|running| running.digest == digest);
        if !is_again && !self.rolls_back.contains(&passed.file) {
            assert!(passed.is_accepted && passed.has_room && passed.has_kinds);
            let rejected = self.rejected.remove(&passed.file);
            assert_ne!(rejected.as_deref(), Some(digest), "it was rolled back");
        }
    }

    fn put(
        &mut self,
        plugin: Option<PluginId>,
        name: String,
        digest: &str,
        terms: RunTerms<Test>,
    ) -> Installed {
        let before = plugin.and_then(|plugin| self.hub.remove(&plugin));
        let is_unfit = |running: &InHub| {
            running.quarantine.is_some() || self.unfit_to_return.contains(&running.digest)
        };
        let was_fit = before.as_ref().is_some_and(|running| !is_unfit(running));
        let quarantine = before
            .filter(|running| running.digest == digest)
            .and_then(|running| running.quarantine);
        let is_quarantined = quarantine.is_some();
        let id = plugin.unwrap_or_else(|| {
            self.last_id += 1;
            self.last_id
        });
        let plugin = InHub {
            name,
            file: self.passed.file.clone(),
            digest: digest.to_owned(),
            terms,
            patience: None,
            quarantine,
        };
        self.hub.insert(id, plugin);
        Installed {
            plugin: id,
            was_fit,
            is_quarantined,
        }
    }

    fn perform(&mut self, effect: LifecycleEffect<Test>) {
        match effect {
            LifecycleEffect::Load { file, load, known } => {
                let found = self.files.get(&file).map(|(_, content)| content.clone());
                self.loads.push(Load {
                    number: load,
                    known,
                    // It may have been removed since the directory was read.
                    content: found.unwrap_or(Err("no plugin".into())),
                    file,
                });
            }
            LifecycleEffect::Drain {
                plugin, patience, ..
            } => self.drain(plugin, patience),
            LifecycleEffect::Remove { plugin, name } => {
                let removed = self.hub.remove(&plugin).expect("it is in the hub");
                assert!(removed.patience.is_some(), "it has drained");
                assert_eq!(removed.name, name);
            }
            LifecycleEffect::Pardon(plugin) => self.pardoned.push(plugin),
            LifecycleEffect::Accept(accepted) => {
                self.not_accepted.remove(&*accepted.version.digest);
            }
            LifecycleEffect::Answer { reply, answer } => self.answers.push((reply, answer)),
            LifecycleEffect::AnswerWithState {
                reply, file, done, ..
            } => {
                let done = done.map(|done| format!("{done}; ")).unwrap_or_default();
                self.answers
                    .push((reply, Ok(format!("{done}state of {file}"))));
            }
            LifecycleEffect::Tell(notice) => self.hear(notice),
            LifecycleEffect::Remember(_) | LifecycleEffect::AdjustWatches => {}
            LifecycleEffect::Ask(_) => unreachable!("asked by whoever performs the others"),
        }
    }

    /// What runs goes on, unless it may not run any more.
    fn drain(&mut self, plugin: PluginId, patience: Duration) {
        let running = &self.hub[&plugin];
        assert_eq!(running.patience, None, "it drains once");
        let file = &running.file;
        // It may be there again: the directory may have been read twice since.
        let is_off = |entry: &PluginEntry| entry.file == *file && entry.state == PluginState::Off;
        let is_off = self.life.entries().iter().any(is_off);
        let has_gone = patience == PATIENCE && (is_off || self.removed.remove(file));
        let may_not =
            *file == self.passed.file && (self.passed.is_forbidden || self.passed.is_refused);
        let others = self.hub.iter().filter(|(id, _)| **id != plugin);
        let mut others = others.map(|(_, other)| other);
        let is_renamed = others.any(|other| other.file == *file && other.patience.is_none());
        let is_outranked = self.outranked.as_ref() == Some(file);
        assert!(has_gone || may_not || is_renamed || is_outranked);
        if has_gone {
            self.rejected.remove(file);
        }
        self.hub.get_mut(&plugin).unwrap().patience = Some(patience);
    }

    fn hear(&mut self, notice: Notice) {
        match &notice {
            Notice::RolledBack { file, version, .. } => {
                self.rolls_back.insert(file.clone());
                self.rejected.insert(file.clone(), version.clone());
            }
            Notice::RolledBackByCommand { .. } => {
                let files = self.hub.values().map(|plugin| plugin.file.clone());
                self.rolls_back.extend(files);
            }
            Notice::RunsEarlier { file, .. } => {
                self.rolls_back.remove(file);
            }
            Notice::Outranked { file } => self.outranked = Some(file.clone()),
            _ => {}
        }
        self.told.push(notice);
    }

    /// Reads the directory.
    pub fn rescan(&mut self) {
        let files = &self.files;
        self.rejected.retain(|file, _| files.contains_key(file));
        let plugins = self.files.iter().map(|(file, (stamp, content))| {
            // A file without a name for its plugin cannot even be opened.
            let wasm = match content {
                Err(reason) => Err(reason.clone()),
                Ok(_) => Ok(*stamp),
            };
            let settings = self.settings.get(file).cloned();
            (file.clone(), SeenFile { wasm, settings })
        });
        let seen = SeenDirectory {
            plugins: plugins.collect(),
            defaults: self.defaults.clone(),
        };
        self.event(LifecycleEvent::DirectoryRead(seen));
    }

    fn write_content(&mut self, file: &str, content: Result<(String, String), String>) {
        self.stamps += 1;
        self.files.insert(file.into(), (self.stamps, content));
        self.rescan();
    }

    pub fn write(&mut self, file: &str, name: &str, version: &str) {
        self.write_content(file, Ok((name.into(), version.into())));
    }

    pub fn break_file(&mut self, file: &str, reason: &str) {
        self.write_content(file, Err(reason.into()));
    }

    pub fn remove(&mut self, file: &str) {
        self.files.remove(file);
        self.settings.remove(file);
        self.removed.insert(file.into());
        self.rescan();
    }

    pub fn set(&mut self, file: &str, settings: TestSettings) {
        self.settings.insert(file.into(), Ok(settings));
        self.rescan();
    }

    pub fn break_settings(&mut self, file: &str, reason: &str) {
        self.settings.insert(file.into(), Err(reason.into()));
        self.rescan();
    }

    pub fn unset(&mut self, file: &str) {
        self.settings.remove(file);
        self.rescan();
    }

    pub fn set_defaults(&mut self, defaults: Result<TestSettings, String>) {
        self.defaults = defaults;
        self.rescan();
    }

    /// Ends a load with this result.
    pub fn load(&mut self, number: usize, result: Result<LoadOutcome<TestVersion>, String>) {
        let Load { file, number, .. } = self.loads.remove(number);
        let load = number;
        self.event(LifecycleEvent::Loaded { file, load, result });
    }

    /// Ends a load with what the file held when it began.
    pub fn load_well(&mut self, number: usize) {
        let load = &self.loads[number];
        let result = load.content.clone().map(|(name, digest)| {
            match load.known.iter().find(|known| ***known == *digest) {
                Some(known) => LoadOutcome::Known(known.clone()),
                None => LoadOutcome::New(version(&name, &digest)),
            }
        });
        self.load(number, result);
    }

    pub fn load_all(&mut self) {
        while !self.loads.is_empty() {
            self.load_well(0);
        }
    }

    pub fn drain_one(&mut self, number: usize) {
        let draining = self
            .hub
            .iter()
            .filter(|(_, plugin)| plugin.patience.is_some());
        let draining: Vec<PluginId> = draining.map(|(id, _)| *id).collect();
        if let Some(plugin) = draining.get(number % draining.len().max(1)) {
            let (plugin, dropped) = (*plugin, 3);
            self.event(LifecycleEvent::Drained { plugin, dropped });
        }
    }

    pub fn drain_all(&mut self) {
        while self.hub.values().any(|plugin| plugin.patience.is_some()) {
            self.drain_one(0);
        }
    }

    /// Puts a plugin in quarantine, and tells of all that are.
    pub fn quarantine(&mut self, name: &str, reason: &str) {
        let until = self.now + Duration::from_secs(30);
        let is_it = |plugin: &&mut InHub| plugin.name == name && plugin.patience.is_none();
        if let Some(plugin) = self.hub.values_mut().find(is_it) {
            let reason = reason.to_owned();
            plugin.quarantine = Some(Quarantine { reason, until });
        }
        let plugins = self.hub.iter();
        let quarantined =
            plugins.filter_map(|(id, plugin)| Some((*id, plugin.quarantine.clone()?)));
        let quarantined = quarantined.collect();
        self.event(LifecycleEvent::Quarantined(quarantined));
    }

    pub fn command(&mut self, plugin: &str, verb: CommandVerb) -> CommandAnswer {
        let reply = self.give(plugin, verb, None);
        self.answer_of(reply).expect("a command is answered")
    }

    pub fn accept(&mut self, plugin: &str, digest: Option<&str>) -> CommandAnswer {
        let reply = self.give(plugin, CommandVerb::Accept, digest);
        self.answer_of(reply).expect("a command is answered")
    }

    /// Gives a command, and returns where it is answered.
    pub fn give(&mut self, plugin: &str, verb: CommandVerb, digest: Option<&str>) -> u64 {
        self.commands += 1;
        let reply = self.commands;
        self.event(LifecycleEvent::Command(LifecycleCommand {
            plugin: plugin.into(),
            verb,
            digest: digest.map(str::to_owned),
            reply,
        }));
        reply
    }

    pub fn answer_of(&self, reply: u64) -> Option<CommandAnswer> {
        let mut answers = self.answers.iter().filter(|(of, _)| *of == reply);
        let answer = answers.next().map(|(_, answer)| answer.clone());
        assert!(answers.next().is_none(), "a command is answered once");
        answer
    }

    pub fn commands_given(&self) -> u64 {
        self.commands
    }

    /// The name and version of each plugin in the hub that is not draining, in order of the names.
    pub fn installed(&self) -> Vec<(&str, &str)> {
        let running = self.hub.values().filter(|plugin| plugin.patience.is_none());
        let mut running: Vec<_> = running
            .map(|plugin| (plugin.name.as_str(), plugin.digest.as_str()))
            .collect();
        running.sort_unstable();
        running
    }

    /// What is shown of a file; of one that is listed twice, the first.
    pub fn entry(&self, file: &str) -> PluginEntry {
        let mut entries = self.life.entries().into_iter();
        let found = entries.find(|entry| entry.file == file);
        found.unwrap_or_else(|| panic!("{file} is not listed"))
    }
}
