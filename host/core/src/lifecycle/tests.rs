use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::access::grants::{Granted, Grants};
use crate::hub::{ControllerSettings, JoinError, Quarantine};
use crate::model::key::Kind;
use crate::model::manifest::{
    Limits, Manifest, ReadDeclaration, Selection, Verb, WriteDeclaration,
};
use crate::model::selector::LabelSelector;
use attempt::NAMESAKE_DRAINS;
use command::{CommandAnswer, CommandError, CommandVerb, LifecycleCommand};
use effect::VersionInFile;
use entry::PluginState;
use event::{Installed, RunTerms, SeenFile};
use handles::{Digest, VersionHandle};
use plugin_files::PATIENCE;

mod commands;
mod model;
mod names;
mod rollback;
mod switched_off;
mod world;

use world::{TestSettings, World};

const FILE: &str = "a.wasm";

fn named(name: &str) -> TestSettings {
    TestSettings {
        name: Some(name.into()),
        ..TestSettings::default()
    }
}

fn with_config(config: u8) -> TestSettings {
    TestSettings {
        config,
        ..TestSettings::default()
    }
}

fn waits_for(world: &World, file: &str) -> Option<String> {
    match world.entry(file).state {
        PluginState::Waiting(reason) => Some(reason),
        _ => None,
    }
}

#[test]
fn a_file_that_appears_is_loaded_checked_and_installed() {
    let mut world = World::reached();
    world.write(FILE, "a", "1");
    assert_eq!(world.entry(FILE).state, PluginState::Loading);
    world.load_all();
    assert_eq!(world.installed(), [("a", "1")]);
    assert_eq!(world.entry(FILE).state, PluginState::Joined(1));
    let asked = ["config", "acceptance", "access", "watches", "kinds", "join"];
    assert_eq!(world.asked[..6], asked);
    assert!(matches!(&world.told[..], [Notice::Loaded { .. }]));
    assert!(!world.life.is_waiting() && !world.life.is_empty());
}

#[test]
fn nothing_is_installed_before_the_server_has_answered() {
    let mut world = World::default();
    world.write(FILE, "a", "1");
    world.load_all();
    assert!(world.asked.is_empty());
    world.event(LifecycleEvent::ServerReached);
    assert_eq!(world.installed(), [("a", "1")]);
}

#[test]
fn a_file_that_cannot_be_loaded_says_why_and_an_unchanged_one_is_not_loaded_again() {
    let mut world = World::reached();
    world.write(FILE, "a", "1");
    world.load(0, Err("no plugin".into()));
    let failed = PluginState::Failed("no plugin".into());
    assert_eq!(world.entry(FILE).state, failed);
    assert_eq!(world.told.len(), 1, "{:?}", world.told);
    world.rescan();
    assert!(world.loads.is_empty() && !world.life.is_waiting());
    world.write(FILE, "a", "2");
    world.load_all();
    assert_eq!(world.installed(), [("a", "2")]);
}

#[test]
fn a_file_that_cannot_be_opened_is_no_plugin_and_what_runs_goes_on() {
    let mut world = World::running("a", "1");
    world.break_file(FILE, "is not a regular file");
    assert_eq!(world.installed(), [("a", "1")]);
    let problem = world.entry(FILE).problem;
    assert_eq!(problem.as_deref(), Some("is not a regular file"));
    assert!(matches!(
        world.told.last(),
        Some(Notice::KeepsRunning { .. })
    ));
}

#[test]
fn a_file_for_which_there_is_no_room_waits_and_is_loaded_again() {
    let mut world = World::reached();
    world.write(FILE, "a", "1");
    world.load(0, Ok(LoadOutcome::NoRoom("full".into())));
    assert_eq!(waits_for(&world, FILE).as_deref(), Some("full"));
    assert!(world.life.is_waiting());
    world.rescan();
    assert_eq!(world.loads.len(), 1, "it is tried again");
    world.rescan();
    assert_eq!(world.loads.len(), 1, "once at a time");
    let waits = waits_for(&world, FILE);
    assert_eq!(waits.as_deref(), Some("full"), "until that is over");
    world.load(0, Err("no plugin".into()));
    let failed = PluginState::Failed("no plugin".into());
    assert_eq!(world.entry(FILE).state, failed);
    world.rescan();
    assert!(world.loads.is_empty() && !world.life.is_waiting());
}

#[test]
fn only_the_last_load_of_a_file_counts() {
    let mut world = World::reached();
    world.write(FILE, "a", "1");
    world.write(FILE, "a", "2");
    assert_eq!(world.loads.len(), 2);
    world.load(0, Err("half a file".into()));
    assert_eq!(world.entry(FILE).state, PluginState::Loading);
    world.load_all();
    assert_eq!(world.installed(), [("a", "2")]);
}

#[test]
fn a_version_that_stops_while_its_file_is_loaded_again_is_not_lost() {
    let mut world = World::running("a", "1");
    world.write(FILE, "a", "1");
    world.refuses = Some(JoinError::SecretValues("a".into()));
    world.set(FILE, with_config(1));
    world.refuses = None;
    world.load_well(0);
    assert!(world.loads.is_empty(), "it is kept");
    world.drain_all();
    assert_eq!(world.installed(), [("a", "1")]);
}

#[test]
fn a_file_is_loaded_again_if_the_version_in_it_is_not_kept_any_more() {
    let mut world = World::running("a", "1");
    world.write(FILE, "a", "2");
    world.load_all();
    world.has_kinds = false;
    world.write(FILE, "a", "3");
    world.load_all();
    // The first version is the one to roll back to, until the third is installed.
    world.write(FILE, "a", "1");
    world.has_kinds = true;
    world.event(LifecycleEvent::Tick);
    assert_eq!(world.installed(), [("a", "3")]);
    world.load_well(0);
    assert_eq!(world.loads.len(), 1, "it is loaded again");
    world.load_all();
    assert_eq!(world.installed(), [("a", "1")]);
}

#[test]
fn a_load_of_a_file_that_has_gone_is_ignored() {
    let mut world = World::reached();
    world.write(FILE, "a", "1");
    world.remove(FILE);
    world.load_all();
    assert!(world.installed().is_empty() && world.life.is_empty());
}

#[test]
fn a_version_waits_until_all_that_it_needs_is_there() {
    let mut world = World::reached();
    world.write(FILE, "a", "1");
    let waits = |world: &mut World, reason: &str| {
        world.event(LifecycleEvent::Tick);
        assert_eq!(waits_for(world, FILE).as_deref(), Some(reason));
        assert!(world.installed().is_empty() && world.life.is_waiting());
        let told = world.told.len();
        world.event(LifecycleEvent::Tick);
        assert_eq!(world.told.len(), told, "a reason is told once");
    };
    world.not_accepted.insert("1".into());
    world.review_fails = true;
    world.has_room = false;
    world.has_kinds = false;
    world.load_all();
    waits(&mut world, "it asks for more");
    assert_eq!(world.entry(FILE).not_accepted, ["read Secret"]);
    world.not_accepted.clear();
    waits(&mut world, "no answer");
    assert!(world.entry(FILE).not_accepted.is_empty());
    world.review_fails = false;
    waits(&mut world, "too many list-watches");
    world.has_room = true;
    waits(&mut world, "no such kind");
    world.has_kinds = true;
    world.event(LifecycleEvent::Tick);
    assert_eq!(world.installed(), [("a", "1")]);
    assert_eq!(world.entry(FILE).state, PluginState::Joined(1));
}

#[test]
fn a_new_version_waits_while_the_old_one_runs() {
    let mut world = World::running("a", "1");
    world.has_kinds = false;
    world.write(FILE, "a", "2");
    world.load_all();
    assert_eq!(world.installed(), [("a", "1")]);
    let problem = world.entry(FILE).problem.unwrap();
    assert_eq!(problem, "running 1, NOT the file's 2: no such kind");
    world.has_kinds = true;
    world.event(LifecycleEvent::Tick);
    assert_eq!(world.installed(), [("a", "2")]);
    assert_eq!(world.entry(FILE).problem, None);
}

#[test]
fn a_version_whose_digest_the_settings_do_not_name_waits_and_one_that_runs_goes_on() {
    let mut world = World::running("a", "1");
    let pinned = |digest: &str| TestSettings {
        pin: Some(digest.into()),
        ..TestSettings::default()
    };
    world.set(FILE, pinned("2"));
    assert_eq!(world.installed(), [("a", "1")]);
    let reason = world.entry(FILE).problem;
    assert_eq!(reason.as_deref(), Some("1 is not named"));
    assert!(matches!(world.told[1], Notice::Unpinned { .. }));
    world.set(FILE, pinned("1"));
    assert_eq!(world.entry(FILE).problem, None);
    world.write(FILE, "a", "2");
    world.load_all();
    assert_eq!(world.installed(), [("a", "1")]);
    world.set(FILE, pinned("2"));
    assert_eq!(world.installed(), [("a", "2")]);
}

#[test]
fn a_configuration_that_does_not_fit_keeps_a_new_version_out() {
    let mut world = World::reached();
    world.unfit.insert(("1".into(), 7));
    world.write(FILE, "a", "1");
    world.set(FILE, with_config(7));
    world.load_all();
    let failed = PluginState::Failed("config 7".into());
    assert_eq!(world.entry(FILE).state, failed);
    assert_eq!(world.asked, ["config"]);
    world.set(FILE, with_config(8));
    assert_eq!(world.installed(), [("a", "1")]);
}

#[test]
fn a_running_version_keeps_the_settings_that_fit_it() {
    let mut world = World::running("a", "1");
    world.unfit.insert(("1".into(), 7));
    world.set(FILE, with_config(7));
    assert_eq!(world.entry(FILE).problem.as_deref(), Some("config 7"));
    assert_eq!(world.hub[&1].terms.settings.config, "0");
    let told = world.told.len();
    world.event(LifecycleEvent::Tick);
    assert_eq!(world.told.len(), told, "a reason is told once");
    world.set(FILE, with_config(8));
    assert_eq!(world.entry(FILE).problem, None);
    assert_eq!(world.hub[&1].terms.settings.config, "8");
}

#[test]
fn settings_that_grant_more_than_was_accepted_wait_for_that() {
    let mut world = World::reached();
    let own_kind = TestSettings {
        own_kind: true,
        ..TestSettings::default()
    };
    world.write(FILE, "a", "1");
    world.set(FILE, own_kind);
    world.load_all();
    world.not_accepted.insert("1".into());
    world.set(FILE, TestSettings::default());
    let entry = world.entry(FILE);
    assert_eq!(entry.problem.as_deref(), Some("it asks for more"));
    assert_eq!(entry.not_accepted, ["read Secret"]);
    assert_eq!(world.hub[&1].terms.settings.grants.what, Granted::OwnKind);
    world.not_accepted.clear();
    world.event(LifecycleEvent::Tick);
    assert_eq!(world.entry(FILE).problem, None);
    let granted = &world.hub[&1].terms.settings.grants;
    assert_eq!(granted.what, Granted::AsRequested);
}

#[test]
fn what_is_asked_for_and_not_granted_is_listed() {
    let mut world = World::reached();
    world.write(FILE, "a", "1");
    let own_kind = TestSettings {
        own_kind: true,
        ..TestSettings::default()
    };
    world.set(FILE, own_kind);
    world.load_all();
    let not_granted = ["read v1/Pod", "apply v1/Pod/status"];
    assert_eq!(world.entry(FILE).not_granted, not_granted);
    assert!(matches!(world.told.last(), Some(Notice::NotGranted { .. })));
}

#[test]
fn an_optional_kind_stops_no_plugin_and_its_coming_and_going_is_noticed() {
    let mut world = World::reached();
    let kinds = [
        Kind::new("apps", "v1", "Deployment"),
        Kind::new("", "v1", "Pod"),
    ];
    world.absent = kinds.clone().into();
    world.write(FILE, "a", "1");
    world.load(
        0,
        Ok(LoadOutcome::New(world::with_optional("a", "1", &kinds))),
    );
    assert_eq!(world.installed(), [("a", "1")]);
    let not_served = |world: &World| world.entry(FILE).not_served;
    assert_eq!(not_served(&world), ["v1/Pod", "apps/v1/Deployment"]);
    assert!(world.entry(FILE).not_granted.is_empty(), "it is granted");
    world.absent.clear();
    world.event(LifecycleEvent::Tick);
    assert_eq!(world.asked.last(), Some(&"swap to the same"));
    assert!(not_served(&world).is_empty());
    world.absent = [kinds[1].clone()].into();
    world.event(LifecycleEvent::Tick);
    assert_eq!(not_served(&world), ["v1/Pod"]);
}

#[test]
fn a_configuration_that_no_schema_describes_is_passed_unchecked_and_that_is_told() {
    let mut world = World::reached();
    world.write(FILE, "a", "1");
    world.set(FILE, with_config(1));
    world.load(0, Ok(LoadOutcome::New(world::without_schema("a", "1"))));
    assert_eq!(world.installed(), [("a", "1")]);
    let is_it = |told: &Notice| matches!(told, Notice::UncheckedConfig { .. });
    assert!(world.told.iter().any(is_it));
}

#[test]
fn settings_that_change_no_reconcile_are_applied_in_place_and_others_swap() {
    let mut world = World::running("a", "1");
    let settings = |weight, sandbox, config| TestSettings {
        weight,
        sandbox,
        config,
        ..TestSettings::default()
    };
    world.set(FILE, settings(2, 0, 0));
    assert_eq!(world.asked.last(), Some(&"configure"));
    assert_eq!(world.hub[&1].terms.settings.weight, 2);
    world.set(FILE, settings(2, 1, 0));
    assert_eq!(world.asked.last(), Some(&"swap to another"));
    world.set(FILE, settings(2, 1, 1));
    assert_eq!(world.asked.last(), Some(&"swap to the same"));
    let asked = world.asked.len();
    world.event(LifecycleEvent::Tick);
    assert!(
        world.asked[asked..]
            .iter()
            .all(|asked| *asked == "config" || *asked == "access")
    );
    let told = world.told.last();
    assert!(matches!(told, Some(Notice::SettingsApplied { .. })));
}

#[test]
fn settings_that_cannot_be_read_start_nothing_and_stop_nothing() {
    let mut world = World::running("a", "1");
    world.write("b.wasm", "b", "1");
    world.break_settings(FILE, "no TOML");
    world.break_settings("b.wasm", "no TOML");
    world.load_all();
    assert_eq!(world.installed(), [("a", "1")]);
    let reason = "settings: no TOML";
    assert_eq!(world.entry(FILE).problem.as_deref(), Some(reason));
    let failed = PluginState::Failed(reason.into());
    assert_eq!(world.entry("b.wasm").state, failed);
    world.set("b.wasm", TestSettings::default());
    assert_eq!(world.installed(), [("a", "1"), ("b", "1")]);
}

#[test]
fn where_settings_are_required_a_plugin_without_them_waits_and_one_that_runs_keeps_its_own() {
    let mut world = World::running("a", "1");
    world.set(FILE, with_config(3));
    world.write("b.wasm", "b", "1");
    world.load_all();
    let required = TestSettings {
        requires: true,
        ..TestSettings::default()
    };
    world.set_defaults(Ok(required));
    world.unset(FILE);
    let reason = "there is no a.toml, and pilothouse.toml says require-settings = true";
    assert_eq!(world.entry(FILE).problem.as_deref(), Some(reason));
    assert_eq!(world.hub[&1].terms.settings.config, "3");
    world.remove("b.wasm");
    world.drain_all();
    world.write("b.wasm", "b", "1");
    world.load_all();
    let reason = "there is no b.toml, and pilothouse.toml says require-settings = true";
    assert_eq!(waits_for(&world, "b.wasm").as_deref(), Some(reason));
    world.set("b.wasm", TestSettings::default());
    assert_eq!(world.installed(), [("a", "1"), ("b", "1")]);
}

#[test]
fn settings_for_all_that_have_never_been_valid_let_nothing_begin() {
    let mut world = World::reached();
    world.set_defaults(Err("no TOML".into()));
    world.write(FILE, "a", "1");
    world.load_all();
    let failed = PluginState::Failed("pilothouse.toml: no TOML".into());
    assert_eq!(world.entry(FILE).state, failed);
    assert!(world.asked.is_empty());
    let is_it = |told: &&Notice| matches!(told, Notice::NotLoaded { .. });
    let told = world.told.iter().filter(is_it).count();
    assert_eq!(told, 1, "once it is loaded, and not before");
    world.set_defaults(Ok(with_config(4)));
    assert_eq!(world.hub[&1].terms.settings.config, "4");
    world.set_defaults(Err("no TOML".into()));
    assert_eq!(world.entry(FILE).problem, None, "the earlier ones hold");
    world.rescan();
    let is_it = |told: &&Notice| matches!(told, Notice::DefaultsUnreadable { .. });
    let told = world.told.iter().filter(is_it).count();
    assert_eq!(told, 3, "twice while there were none, and once");
}

#[test]
fn a_plugin_whose_identity_may_not_read_its_kind_any_more_is_drained_until_it_may() {
    let mut world = World::reached();
    world.write(FILE, "a", "1");
    let identity = TestSettings {
        identity: Some("ns/robot".into()),
        ..TestSettings::default()
    };
    world.set(FILE, identity);
    world.load_all();
    assert!(world.life.is_waiting(), "its permissions may be revoked");
    world.review_fails = true;
    world.event(LifecycleEvent::Tick);
    assert_eq!(world.installed(), [("a", "1")], "it keeps what it had");
    assert_eq!(world.entry(FILE).problem.as_deref(), Some("no answer"));
    world.review_fails = false;
    world.is_forbidden = true;
    world.event(LifecycleEvent::Tick);
    assert!(world.installed().is_empty());
    assert_eq!(world.hub[&1].patience, Some(Duration::ZERO));
    let reason = "ns/robot may not list and watch v1/ConfigMap";
    assert_eq!(waits_for(&world, FILE).as_deref(), Some(reason));
    world.is_forbidden = false;
    world.event(LifecycleEvent::Tick);
    assert_eq!(waits_for(&world, FILE).as_deref(), Some(NAMESAKE_DRAINS));
    world.drain_all();
    assert_eq!(world.installed(), [("a", "1")]);
}

#[test]
fn a_plugin_whose_settings_the_hub_refuses_is_drained() {
    let mut world = World::running("a", "1");
    world.refuses = Some(JoinError::SecretValues("a".into()));
    world.set(FILE, with_config(1));
    assert!(world.installed().is_empty());
    assert!(matches!(world.entry(FILE).state, PluginState::Failed(_)));
    world.refuses = None;
    world.drain_all();
    assert_eq!(world.installed(), [("a", "1")]);
}

#[test]
fn while_the_host_stops_nothing_is_installed_and_nothing_is_drained() {
    let mut world = World::running("a", "1");
    world.refuses = Some(JoinError::Draining);
    world.write(FILE, "a", "2");
    world.set(FILE, with_config(1));
    world.load_all();
    assert_eq!(world.installed(), [("a", "1")]);
    assert_eq!(world.entry(FILE).problem, None);
}

#[test]
fn a_removed_plugin_runs_what_is_queued_and_is_then_gone() {
    let mut world = World::running("a", "1");
    world.remove(FILE);
    assert_eq!(world.hub[&1].patience, Some(PATIENCE));
    assert_eq!(world.entry(FILE).state, PluginState::Draining(1));
    world.write(FILE, "a", "1");
    world.load_all();
    let states: Vec<_> = world
        .life
        .entries()
        .into_iter()
        .map(|entry| entry.state)
        .collect();
    let waiting = PluginState::Waiting(NAMESAKE_DRAINS.into());
    assert_eq!(states, [waiting, PluginState::Draining(1)]);
    world.drain_all();
    assert_eq!(world.installed(), [("a", "1")]);
    world.remove(FILE);
    world.drain_all();
    assert!(world.hub.is_empty() && world.life.entries().is_empty());
    let told = world.told.last();
    assert!(matches!(told, Some(Notice::Removed { dropped: 3, .. })));
}

#[test]
fn what_happens_while_a_question_is_open_waits_for_the_answer() {
    let mut world = World::running("a", "1");
    world.answers_at_once = false;
    world.event(LifecycleEvent::Tick);
    assert!(world.open.is_some());
    world.remove(FILE);
    assert_eq!(world.installed(), [("a", "1")]);
    assert_eq!(world.entry(FILE).state, PluginState::Joined(1));
    world.answer_all();
    assert_eq!(world.entry(FILE).state, PluginState::Draining(1));
}

#[test]
fn an_answer_to_something_else_installs_nothing() {
    let mut world = World::reached();
    world.answers_at_once = false;
    world.write(FILE, "a", "1");
    world.load_all();
    for _ in 0..4 {
        world.open = None;
        world.event(LifecycleEvent::Answered(LifecycleAnswer::Kinds(None)));
        world.event(LifecycleEvent::Tick);
    }
    assert!(world.installed().is_empty());
    world.answer_all();
    assert_eq!(world.installed(), [("a", "1")]);
}
