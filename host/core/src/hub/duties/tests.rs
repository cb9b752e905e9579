use super::*;

fn key<'a>(namespace: &'a str, name: &'a str) -> KeyRef<'a> {
    KeyRef { namespace, name }
}

fn number(shards: u32) -> NonZeroU32 {
    NonZeroU32::new(shards).unwrap()
}

fn duty(shards: u32, held: impl IntoIterator<Item = u32>) -> Duty {
    let held = held.into_iter().collect();
    let of = number(shards);
    let duties = Duties::Shards(BTreeMap::from([("p".to_owned(), HeldShards { of, held })]));
    Duty::of(&duties, "p", number(shards))
}

#[test]
fn the_hash_is_the_one_that_is_documented() {
    // FNV-1a of a single zero byte.
    let of_zero_byte = 0xaf63_bd4c_8601_b7df;
    assert_eq!(hash(key("", "")), mix(of_zero_byte));
    assert_eq!(mix(0), 0);
    // MurmurHash3's own: fmix64(1).
    assert_eq!(mix(1), 0xb456_bcfc_34c2_cb2c);
}

/// Hosts of two versions must agree. If this fails, the code is wrong, and never this table.
#[test]
fn the_shard_of_a_key_never_changes() {
    let keys = [
        key("", ""),
        key("", "node-1"),
        key("default", "web"),
        key("kube-system", "coredns"),
        key("a", "bc"),
        key("ab", "c"),
        key("shop", "größe"),
    ];
    let shards = |shards| keys.map(|key| shard_of(key, number(shards)));
    assert_eq!(shards(1), [0; 7]);
    assert_eq!(shards(2), [1, 0, 1, 0, 1, 1, 0]);
    assert_eq!(shards(8), [5, 3, 4, 3, 6, 6, 2]);
    assert_eq!(shards(1000), [722, 389, 559, 387, 872, 783, 282]);
}

#[test]
fn keys_that_are_counted_up_are_spread_evenly() {
    const KEYS: u32 = 100_000;
    let name = |number: u32| format!("web-{number}");
    for shards in [2, 3, 8, 100] {
        let mut counts = vec![0_u32; shards as usize];
        for number_of_key in 0..KEYS {
            let shard = shard_of(key("default", &name(number_of_key)), number(shards));
            counts[shard as usize] += 1;
        }
        let mean = f64::from(KEYS / shards);
        let most = counts.iter().map(|count| (f64::from(*count) - mean).abs());
        let most = most.fold(0.0, f64::max);
        // Five standard deviations of a fair draw.
        assert!(most < 5.0 * mean.sqrt(), "{shards}: {counts:?}");
    }
}

#[test]
fn a_duty_is_what_the_host_has_of_the_plugin() {
    let p = "p".to_owned();
    let held = |duties: &Duties, shards| Duty::of(duties, "p", number(shards)).held;
    assert_eq!(held(&Duties::All, 2), BTreeSet::from([0, 1]));
    assert_eq!(held(&Duties::none(), 2), BTreeSet::new());
    let shards = |held: &[u32]| HeldShards {
        of: number(4),
        held: held.iter().copied().collect(),
    };
    let some = Duties::Shards(BTreeMap::from([(p.clone(), shards(&[1, 2]))]));
    assert_eq!(held(&some, 4), BTreeSet::from([1, 2]));
    assert_eq!(held(&some, 2), BTreeSet::new(), "these are other ranges");
    let all = Duties::Shards(BTreeMap::from([(p, shards(&[0, 1, 2, 3]))]));
    assert_eq!(held(&all, 2), BTreeSet::from([0, 1]), "all is all");
    assert!(Duty::of(&some, "q", number(4)).is_empty());
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
        let of = number(4);
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
