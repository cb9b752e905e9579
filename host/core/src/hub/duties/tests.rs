use super::*;

fn duty(shards: u32, held: impl IntoIterator<Item = u32>) -> Duty {
    let held = held.into_iter().collect();
    let of = Division::into(shards);
    let duties = Duties::Shards(BTreeMap::from([("p".to_owned(), HeldShards { of, held })]));
    Duty::of(&duties, "p", Division::into(shards))
}

#[test]
fn a_duty_is_what_the_host_has_of_the_plugin() {
    let p = "p".to_owned();
    let held = |duties: &Duties, shards| Duty::of(duties, "p", Division::into(shards)).held;
    assert_eq!(held(&Duties::All, 2), BTreeSet::from([0, 1]));
    assert_eq!(held(&Duties::none(), 2), BTreeSet::new());
    let shards = |held: &[u32]| HeldShards {
        of: Division::into(4),
        held: held.iter().copied().collect(),
    };
    let some = Duties::Shards(BTreeMap::from([(p.clone(), shards(&[1, 2]))]));
    assert_eq!(held(&some, 4), BTreeSet::from([1, 2]));
    assert_eq!(held(&some, 2), BTreeSet::new(), "these are other ranges");
    let all = Duties::Shards(BTreeMap::from([(p, shards(&[0, 1, 2, 3]))]));
    assert_eq!(held(&all, 2), BTreeSet::from([0, 1]), "all is all");
    assert!(Duty::of(&some, "q", Division::into(4)).is_empty());
}

#[test]
fn of_two_numbers_of_shards_nothing_is_in_both_unless_one_is_everything() {
    assert_eq!(duty(4, [0, 1]).kept_in(&duty(4, [1, 2])), duty(4, [1]));
    assert_eq!(duty(2, [0]).kept_in(&duty(4, [0])), duty(4, []));
    assert_eq!(duty(2, [0]).kept_in(&duty(1, [0])), duty(1, []));
    assert_eq!(duty(2, [0, 1]).kept_in(&duty(4, [0])), duty(4, [0]));
    assert_eq!(duty(4, [0, 1]).without(&duty(4, [1, 2])), duty(4, [0]));
    assert_eq!(duty(2, [0]).without(&duty(4, [0])), duty(2, [0]));
    assert_eq!(duty(4, [0]).without(&duty(1, [0])), duty(4, []));
}

#[test]
fn what_a_sweep_has_left_is_never_less_than_what_is_in_both() {
    assert_eq!(duty(4, [0, 1]).narrowed_to(&duty(4, [1, 2])), duty(4, [1]));
    assert_eq!(duty(2, [0]).narrowed_to(&duty(1, [0])), duty(2, [0]));
    assert_eq!(duty(2, [0]).narrowed_to(&duty(4, [0, 3])), duty(4, [0, 3]));
}

#[test]
fn duties_exceed_others_if_a_shard_is_new() {
    let some = |shards: &[u32]| {
        let held = shards.iter().copied().collect();
        let of = Division::into(4);
        Duties::Shards(BTreeMap::from([("p".to_owned(), HeldShards { of, held })]))
    };
    let (none, all) = (Duties::none(), Duties::All);
    assert!(all.exceed(&some(&[0])) && some(&[0]).exceed(&none));
    assert!(some(&[0, 1]).exceed(&some(&[0])) && some(&[1]).exceed(&some(&[0])));
    assert!(!some(&[0]).exceed(&some(&[0, 1])) && !some(&[0]).exceed(&all));
    assert!(!none.exceed(&none) && !all.exceed(&all));
}

#[test]
fn the_share_of_some_objects_is_that_of_the_shards() {
    assert_eq!(duty(4, [0]).share_of(100), 25);
    assert_eq!(duty(4, [0]).share_of(1), 1, "there may be one");
    assert_eq!(duty(4, []).share_of(100), 0);
    assert_eq!(duty(1, [0]).share_of(usize::MAX), usize::MAX);
}
