//! What an outcome asks to be remembered of its key: a memo, and a time before which it does not
//! run.

use super::gate::run_writing;
use super::*;

const MINUTE: Duration = Duration::from_secs(60);

/// A rig whose plugin remembers what it was given, and one sign more.
fn counting(not_before: Duration) -> Rig {
    Rig::with(manifest("p"), move |request, reader| {
        let found = reader.get(&service(), &request.key.object).unwrap();
        if found.is_some_and(|json| json.contains("trap")) {
            return Err(RunError::Trap("no".into()));
        }
        let memo = request.memo.as_deref().unwrap_or_default();
        Ok(Outcome {
            follow_up: FollowUp {
                memo: Some(format!("{memo}i").into()),
                not_before,
                ..FollowUp::default()
            },
            ..Outcome::default()
        })
    })
}

/// The memo that the key would be given now.
fn memo(rig: &Rig) -> Option<String> {
    let id = *rig.hub.controllers.keys().next().unwrap();
    let key = key_of("a");
    let rehearsal = rig.hub.rehearse(id, &key, 0).unwrap();
    rehearsal.request.memo.map(|memo| memo.to_string())
}

#[test]
fn a_run_is_given_what_the_run_before_has_left() {
    let mut rig = counting(Duration::ZERO);
    for memos in ["i", "ii", "iii"] {
        rig.put(&service(), "a", "");
        assert_eq!(rig.run(), ["a"]);
        assert_eq!(memo(&rig).as_deref(), Some(memos));
    }
    rig.put(&service(), "a", r#""is":"trap""#);
    assert_eq!(rig.run(), ["a"]);
    assert_eq!(memo(&rig).as_deref(), Some("iii"), "it had no outcome");
}

#[test]
fn a_memo_goes_with_its_object_and_with_the_version() {
    let mut rig = counting(Duration::ZERO);
    rig.put(&service(), "a", "");
    rig.run();
    rig.remove(&service(), "a");
    assert_eq!(rig.run(), ["a (gone)"]);
    assert_eq!(memo(&rig), None, "the next object of this name is another");
    rig.put(&service(), "a", "");
    rig.run();
    assert_eq!(memo(&rig).as_deref(), Some("i"));
    let id = *rig.hub.controllers.keys().next().unwrap();
    let plugin = rig.hub.controllers[&id].plugin();
    let settings = ControllerSettings::default();
    rig.hub.replace(id, plugin, &settings, rig.now).unwrap();
    assert_eq!(memo(&rig), None);
}

#[test]
fn a_key_does_not_run_before_its_time_and_misses_no_change() {
    let mut rig = counting(MINUTE);
    rig.put(&service(), "a", "");
    assert_eq!(rig.run(), ["a"]);
    rig.now += MINUTE / 2;
    rig.put(&service(), "a", r#""is":"changed""#);
    assert_eq!(rig.run(), NONE);
    assert!(matches!(rig.hub.next(rig.now, 0), Next::Idle(Some(at)) if at == MINUTE));
    rig.now = MINUTE;
    assert_eq!(rig.run(), ["a"]);
    rig.now += 2 * MINUTE;
    assert_eq!(rig.run(), NONE, "nothing has changed since");
    rig.put(&service(), "a", "");
    assert_eq!(rig.run(), ["a"], "its time is over");
}

/// As `wit/world.wit` says of `not-before`.
#[test]
fn what_a_run_has_written_is_looked_at_after_its_time_and_that_run_has_a_time_of_its_own() {
    const HOUR: Duration = Duration::from_secs(3_600);
    let mut rig = counting(HOUR);
    rig.put(&service(), "a", "");
    let version = (rig.version + 1).to_string();
    let shown = Trace::Version(ResourceVersion::new(&version));
    run_writing(&mut rig, service(), "a", shown);
    rig.put(&service(), "a", r#""is":"written""#);
    rig.now = HOUR - MINUTE;
    assert_eq!(rig.run(), NONE);
    rig.now = HOUR;
    assert_eq!(rig.run(), ["a"], "it looks at what it has written");
    rig.now += MINUTE;
    rig.put(&service(), "a", r#""is":"changed""#);
    assert_eq!(rig.run(), NONE);
    rig.now = 2 * HOUR;
    assert_eq!(rig.run(), ["a"], "nothing is lost");
    rig.now += HOUR;
    assert_eq!(rig.run(), NONE);
}

#[test]
fn no_time_is_longer_than_an_hour_and_another_version_does_not_wait() {
    let year = 365 * 24 * 60 * MINUTE;
    let mut rig = counting(year);
    rig.put(&service(), "a", "");
    rig.run();
    rig.put(&service(), "a", r#""is":"changed""#);
    assert_eq!(rig.run(), NONE);
    rig.now += 60 * MINUTE;
    assert_eq!(rig.run(), ["a"]);
    let id = *rig.hub.controllers.keys().next().unwrap();
    let plugin = rig.hub.controllers[&id].plugin();
    let settings = ControllerSettings::default();
    rig.hub.replace(id, plugin, &settings, rig.now).unwrap();
    assert_eq!(rig.run(), ["a"]);
}
