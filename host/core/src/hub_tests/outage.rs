//! What happens while the cluster cannot be reached.

use super::*;

fn fail_unavailable(rig: &mut Rig) -> bool {
    let Some(mut turn) = rig.take() else {
        return false;
    };
    let decision = turn.decide();
    rig.hub.decided(&turn, &decision, rig.now);
    let error = TurnError::Unavailable("no answer".into());
    rig.hub.failed(&turn, &error, Executed::default(), rig.now);
    true
}

/// Hundred keys, none of which finds a cluster.
fn cut_off() -> Rig {
    let mut rig = Rig::with(manifest("p"), nothing);
    (0..100).for_each(|number| rig.put(&service(), &format!("s{number}"), ""));
    assert!(fail_unavailable(&mut rig));
    rig
}

#[test]
fn one_key_a_second_is_tried() {
    let mut rig = cut_off();
    let start = rig.now;
    let mut tries = 0;
    while rig.now < start + Duration::from_secs(20) {
        tries += usize::from(fail_unavailable(&mut rig));
        rig.now += Duration::from_millis(100);
    }
    assert!((15..=20).contains(&tries), "{tries}");
}

#[test]
fn the_first_sign_of_life_brings_every_key_back_at_once() {
    let mut rig = cut_off();
    for _ in 0..600 {
        rig.now += Duration::from_secs(1);
        fail_unavailable(&mut rig);
    }
    let id = rig.id(&pod());
    let bookmark = Delta::Bookmark(ResourceVersion::new("5000"));
    rig.hub.apply(id, bookmark, rig.now);
    assert_eq!(rig.run().len(), 100);
    assert_eq!(rig.hub.status(rig.now)[0].failing, 0, "no key was at fault");
}

#[test]
fn a_write_that_succeeds_is_a_sign_of_life() {
    let mut rig = cut_off();
    rig.now += Duration::from_secs(1);
    gate::run_writing(
        &mut rig,
        pod(),
        "x",
        Effect::Version(ResourceVersion::new("1")),
    );
    assert_eq!(rig.run().len(), 99);
}
