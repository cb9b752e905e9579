//! Plugins that the operator has switched off.

use super::*;

/// A host that is told not to run the plugins of these names.
fn without(off: &'static [&str]) -> World {
    let is_on = move |names: &[&str]| !names.iter().any(|name| off.contains(name));
    let mut world = World::default();
    world.life = Lifecycle::of_plugins(Box::new(is_on));
    world
}

fn reached(off: &'static [&str]) -> World {
    let mut world = without(off);
    world.event(LifecycleEvent::ServerReached);
    world
}

fn switched_off(file: &str, plugin: &str) -> Notice {
    Notice::SwitchedOff {
        file: file.into(),
        plugin: plugin.into(),
    }
}

#[test]
fn a_file_of_a_plugin_that_is_switched_off_is_not_loaded() {
    let mut world = reached(&["cron-job"]);
    world.write("cron_job.wasm", "anything", "1");
    world.write("b.wasm", "b", "1");
    world.load_all();
    assert_eq!(world.installed(), [("b", "1")]);
    let entry = world.entry("cron_job.wasm");
    assert_eq!(entry.state, PluginState::Off);
    assert_eq!(entry.name.as_deref(), Some("cron-job"));
    assert!(
        world
            .told
            .contains(&switched_off("cron_job.wasm", "cron-job"))
    );
    let told = world.told.len();
    world.rescan();
    assert!(world.loads.is_empty());
    assert_eq!(world.told.len(), told, "it is told once");
}

#[test]
fn a_plugin_that_only_its_manifest_names_is_loaded_once_and_never_installed() {
    let mut world = reached(&["a"]);
    world.write("x.wasm", "a", "1");
    world.load_all();
    assert_eq!(world.installed(), []);
    assert_eq!(world.entry("x.wasm").state, PluginState::Off);
    assert_eq!(world.entry("x.wasm").name.as_deref(), Some("a"));
    assert_eq!(world.told, [switched_off("x.wasm", "a")]);
    world.rescan();
    assert!(world.loads.is_empty(), "the file is the same");
    world.write("x.wasm", "b", "2");
    world.load_all();
    assert_eq!(world.installed(), [("b", "2")]);
}

#[test]
fn settings_that_rename_a_plugin_switch_it_off_and_on() {
    let mut world = reached(&["off"]);
    world.write("x.wasm", "x", "1");
    world.load_all();
    assert_eq!(world.installed(), [("x", "1")]);
    world.set("x.wasm", named("off"));
    assert_eq!(world.entry("x.wasm").state, PluginState::Draining(1));
    world.drain_all();
    assert_eq!(world.installed(), []);
    assert_eq!(world.entry("x.wasm").state, PluginState::Off);
    world.set("x.wasm", named("on"));
    world.load_all();
    assert_eq!(world.installed(), [("on", "1")]);
}

#[test]
fn a_new_version_of_a_name_that_is_switched_off_drains_the_running_one() {
    let mut world = reached(&["off"]);
    world.write("x.wasm", "x", "1");
    world.load_all();
    world.write("x.wasm", "off", "2");
    world.load_all();
    assert_eq!(world.entry("x.wasm").state, PluginState::Draining(1));
    world.drain_all();
    assert_eq!(world.installed(), []);
    assert_eq!(world.entry("x.wasm").state, PluginState::Off);
}

#[test]
fn a_directory_of_nothing_else_is_not_empty() {
    let mut world = without(&["a"]);
    world.write(FILE, "a", "1");
    assert!(!world.life.is_empty() && !world.life.is_waiting());
    world.remove(FILE);
    assert!(world.life.is_empty());
}
