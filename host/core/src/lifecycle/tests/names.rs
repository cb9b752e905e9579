//! Plugin names: those in the settings, and those that two files share.

use super::*;

const LATER: &str = "b.wasm";

#[test]
fn a_plugin_that_gets_another_name_joins_under_it_and_the_old_one_drains() {
    let mut world = World::running("a", "1");
    world.set(FILE, named("other"));
    assert_eq!(world.installed(), [("other", "1")]);
    assert_eq!(world.hub[&1].patience, Some(Duration::ZERO));
    assert_eq!(world.entry(FILE).previous, None);
    world.set(FILE, named("a"));
    let reason = world.entry(FILE).problem;
    assert_eq!(reason.as_deref(), Some(NAMESAKE_DRAINS));
    world.drain_all();
    assert_eq!(world.installed(), [("a", "1")]);
}

#[test]
fn of_two_files_of_one_name_the_first_runs_also_if_it_is_ready_last() {
    let mut world = World::reached();
    world.write(FILE, "x", "1");
    world.write(LATER, "x", "2");
    world.load(1, Ok(LoadOutcome::New(world::version("x", "2"))));
    assert_eq!(world.installed(), [("x", "2")]);
    world.load_all();
    assert_eq!(world.hub[&1].patience, Some(Duration::ZERO), "it drains");
    assert_eq!(waits_for(&world, FILE).as_deref(), Some(NAMESAKE_DRAINS));
    assert!(
        world
            .told
            .contains(&Notice::Outranked { file: LATER.into() })
    );
    world.drain_all();
    assert_eq!(world.installed(), [("x", "1")]);
    let failed = PluginState::Failed("a plugin named \"x\" is already loaded".into());
    assert_eq!(world.entry(LATER).state, failed);
    world.remove(FILE);
    world.drain_all();
    assert_eq!(world.installed(), [("x", "2")], "it has the name now");
}

#[test]
fn an_earlier_file_that_comes_later_does_not_displace_what_runs() {
    let mut world = World::reached();
    world.write(LATER, "x", "2");
    world.load_all();
    world.write(FILE, "x", "1");
    world.load_all();
    assert_eq!(world.installed(), [("x", "2")]);
    assert!(matches!(world.entry(FILE).state, PluginState::Failed(_)));
}

#[test]
fn a_file_that_has_gone_displaces_nothing_when_it_comes_back() {
    let mut world = World::reached();
    world.write(FILE, "x", "1");
    world.write(LATER, "x", "2");
    world.load(1, Ok(LoadOutcome::New(world::version("x", "2"))));
    world.remove(FILE);
    world.write(FILE, "x", "1");
    world.load_all();
    assert_eq!(world.installed(), [("x", "2")]);
}

#[test]
fn a_name_in_the_settings_that_another_plugin_has_is_not_applied() {
    let mut world = World::running("a", "1");
    world.write(LATER, "b", "1");
    world.load_all();
    world.set(LATER, named("a"));
    assert_eq!(world.installed(), [("a", "1"), ("b", "1")]);
    let reason = "a plugin named \"a\" is already loaded";
    assert_eq!(world.entry(LATER).problem.as_deref(), Some(reason));
    let told = world.told.last();
    assert!(matches!(told, Some(Notice::SettingsNotApplied { .. })));
    world.remove(FILE);
    world.drain_all();
    world.event(LifecycleEvent::Tick);
    assert_eq!(world.installed(), [("a", "1")]);
    assert_eq!(world.entry(LATER).problem, None);
}

#[test]
fn the_same_version_runs_twice_under_two_names() {
    let mut world = World::running("a", "1");
    world.write(LATER, "a", "1");
    world.set(LATER, named("b"));
    world.load_all();
    assert_eq!(world.installed(), [("a", "1"), ("b", "1")]);
}
