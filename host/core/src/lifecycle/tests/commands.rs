//! Commands of the operator.

use super::*;

#[test]
fn a_paused_plugin_is_paused_until_it_is_resumed() {
    let mut world = World::running("a", "1");
    let answer = world.command("a", CommandVerb::Pause);
    let text = "a is paused until it is resumed or the host starts again";
    assert_eq!(answer, Ok(text.into()));
    assert!(world.hub[&1].terms.settings.is_paused);
    assert_eq!(world.asked.last(), Some(&"configure"));
    let answer = world.command("a", CommandVerb::Resume);
    assert_eq!(answer, Ok("state of a.wasm".into()), "after all else");
    assert!(!world.hub[&1].terms.settings.is_paused);
    assert_eq!(world.pardoned, [1]);
}

#[test]
fn a_plugin_that_its_settings_pause_is_not_resumed_by_command() {
    let mut world = World::running("a", "1");
    let paused = TestSettings {
        is_paused: true,
        ..TestSettings::default()
    };
    world.set(FILE, paused);
    assert!(world.hub[&1].terms.settings.is_paused);
    let text =
        "its settings say paused = true: take that out of a.toml, or of pilothouse.toml".to_owned();
    let answer = world.command("a", CommandVerb::Resume);
    assert_eq!(answer, Err(CommandError::Impossible(text)));
}

#[test]
fn a_plugin_is_called_by_its_name_or_its_files_and_others_are_unknown() {
    let mut world = World::running("web", "1");
    assert!(world.command("web", CommandVerb::Pause).is_ok());
    assert!(world.command("a", CommandVerb::Pause).is_ok());
    let answer = world.command("b", CommandVerb::Pause);
    let unknown = CommandError::Unknown("b".into(), "web".into());
    assert_eq!(answer, Err(unknown));
}

#[test]
fn without_an_earlier_version_there_is_nothing_to_roll_back_to() {
    let mut world = World::running("a", "1");
    let text = "there is no earlier version that was fit to run";
    let answer = world.command("a", CommandVerb::Rollback);
    assert_eq!(answer, Err(CommandError::Impossible(text.into())));
}

#[test]
fn what_a_waiting_version_asks_for_is_accepted_by_command() {
    let mut world = World::reached();
    world.not_accepted.insert("1".into());
    world.write(FILE, "a", "1");
    world.load_all();
    let other = world.accept("a", Some("2"));
    let text = "what waits is another file, with the digest 1; look at it first (pilothouse check)";
    assert_eq!(other, Err(CommandError::Impossible(text.into())));
    let answer = world.accept("a", Some("1"));
    let text = "version 1 (1) is accepted; state of a.wasm";
    assert_eq!(answer, Ok(text.into()));
    assert_eq!(world.installed(), [("a", "1")]);
    let answer = world.accept("a", None);
    let nothing = "nothing of it waits to be accepted";
    assert_eq!(answer, Err(CommandError::Impossible(nothing.into())));
}

#[test]
fn what_the_settings_do_not_name_is_not_accepted_by_command() {
    let mut world = World::running("a", "1");
    let pinned = TestSettings {
        pin: Some("2".into()),
        ..TestSettings::default()
    };
    world.set(FILE, pinned);
    let answer = world.accept("a", None);
    let text = "1 is not named";
    assert_eq!(answer, Err(CommandError::Impossible(text.into())));
}

#[test]
fn of_two_files_that_are_called_the_same_the_one_that_waits_to_be_accepted_is_meant() {
    let mut world = World::running("x", "1");
    world.not_accepted.insert("2".into());
    world.write("b.wasm", "x", "2");
    world.load_all();
    let answer = world.accept("x", None).unwrap();
    assert!(answer.starts_with("version 2 (2) is accepted"), "{answer}");
}

#[test]
fn before_the_settings_for_all_are_valid_there_is_nothing_to_accept() {
    let mut world = World::reached();
    world.set_defaults(Err("no TOML".into()));
    world.write(FILE, "a", "1");
    world.load_all();
    let nothing = "nothing of it waits to be accepted";
    let answer = world.accept("a", None);
    assert_eq!(answer, Err(CommandError::Impossible(nothing.into())));
}
