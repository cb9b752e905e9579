use super::*;
use crate::model::key::ObjectKey;

fn key<'a>(namespace: &'a str, name: &'a str) -> KeyRef<'a> {
    KeyRef { namespace, name }
}

fn by_name(shards: u32) -> Division {
    Division::into(shards)
}

fn by_namespace(shards: u32) -> Division {
    Division::by_namespace(NonZeroU32::new(shards).unwrap())
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
    let shards = |division: Division| keys.map(|key| division.shard_of(key));
    assert_eq!(shards(by_name(1)), [0; 7]);
    assert_eq!(shards(by_name(2)), [1, 0, 1, 0, 1, 1, 0]);
    assert_eq!(shards(by_name(8)), [5, 3, 4, 3, 6, 6, 2]);
    assert_eq!(shards(by_name(1000)), [722, 389, 559, 387, 872, 783, 282]);
    assert_eq!(shards(by_namespace(1)), [0; 7]);
    assert_eq!(shards(by_namespace(8)), [2, 2, 2, 7, 3, 2, 1]);
}

#[test]
fn keys_that_are_counted_up_are_spread_evenly() {
    const KEYS: u32 = 100_000;
    let name = |number: u32| format!("web-{number}");
    for shards in [2, 3, 8, 100] {
        let mut counts = vec![0_u32; shards as usize];
        for number_of_key in 0..KEYS {
            let shard = by_name(shards).shard_of(key("default", &name(number_of_key)));
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
fn the_namespaces_of_shards_are_those_of_their_keys() {
    for division in [by_namespace(3), by_namespace(8), by_name(8)] {
        for held in [0_u32, 2] {
            let namespaces = division.namespaces_of(|shard| shard == held);
            for number in 0..100 {
                let key = ObjectKey::new(&format!("team-{}", number * number), "web");
                let is_held = division.shard_of(key.parts()) == held;
                let is_known = namespaces.has(&key.namespace);
                // By name, a shard has keys of any namespace.
                assert!(is_known == is_held || division.by == DividedBy::Name && is_known);
            }
        }
        assert_eq!(division.namespaces_of(|_| true), Namespaces::ALL);
        assert_eq!(division.namespaces_of(|_| false), Namespaces::NONE);
    }
}

#[test]
fn the_shards_of_a_division_by_namespace_have_equally_many_buckets() {
    for shards in [1, 2, 8, 64] {
        let division = by_namespace(shards);
        for held in division.all() {
            let namespaces = division.namespaces_of(|shard| shard == held);
            let buckets = (0..BUCKETS).map(|bucket| Namespaces::of_buckets([bucket]));
            let count = buckets.filter(|bucket| namespaces.covers(*bucket)).count();
            assert_eq!(count, (BUCKETS / shards) as usize);
        }
    }
}

#[test]
fn a_division_is_written_and_read() {
    for division in [by_name(1), by_name(8), by_namespace(8)] {
        assert_eq!(division.to_string().parse(), Ok(division));
    }
    assert_eq!(by_namespace(8).to_string(), "8-by-namespace");
    for text in [
        "",
        "0",
        "08",
        "8-by-name",
        "-by-namespace",
        "8-by-namespace ",
    ] {
        assert!(text.parse::<Division>().is_err(), "{text:?}");
    }
}
