use super::*;
use crate::cache::{Delta, Listing};
use crate::source::Source;

fn pods() -> Kind {
    Kind::new("", "v1", "Pod")
}

/// Of these objects, as JSON.
fn reader(objects: &[String]) -> Reader {
    let mut cache = Cache::new(Source::all(pods()));
    let parse = |object: &String| Object::parse(&pods(), object, cache.schema()).unwrap();
    let objects = objects.iter().map(parse).collect();
    cache.apply(Delta::Replace(Listing {
        objects,
        ..Listing::default()
    }));
    let scope = Scope {
        kinds: [(pods(), KindScope::whole(0))].into(),
        ..Scope::default()
    };
    let snapshot = Snapshot {
        sequence: 0,
        informers: Arc::new(vec![Arc::new(cache)]),
    };
    Reader::new(snapshot, Arc::new(scope), 0)
}

fn key(number: usize) -> ObjectKey {
    ObjectKey::new("default", &format!("p{number:04}"))
}

#[test]
fn a_part_of_an_object_is_found_however_deep_the_object_is_nested() {
    let deep = "[".repeat(1_000) + &"]".repeat(1_000);
    let object = format!(
        r#"{{"metadata":{{"namespace":"default","name":"p0001"}},"spec":{{"deep":{deep},"x":1}}}}"#
    );
    let mut reader = reader(&[object]);
    let mut part = |pointer: &str| reader.get_part(&pods(), &key(1), pointer).unwrap();
    assert_eq!(part("/spec/x").as_deref(), Some("1"));
    assert_eq!(part("/spec/deep"), Some(deep));
    assert_eq!(part("/spec/y"), None);
}
