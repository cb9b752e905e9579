use super::*;
use crate::cache::{Delta, Listing};
use crate::model::informer_key::InformerKey;
use crate::model::selector::Requirement;

const PODS: InformerId = InformerId::first_at(0);

fn pods() -> Kind {
    Kind::new("", "v1", "Pod")
}

/// A reader of these objects, given as JSON.
fn reader(objects: &[String]) -> Reader {
    let mut cache = Cache::new(InformerKey::all(pods()));
    let parse = |object: &String| Object::parse(&pods(), object, cache.schema()).unwrap();
    let objects = objects.iter().map(parse).collect();
    cache.apply(Delta::Replace(Listing {
        objects,
        ..Listing::default()
    }));
    let scope = Scope {
        kinds: [(pods(), KindScope::whole(PODS))].into(),
        ..Scope::default()
    };
    let snapshot = Snapshot {
        sequence: 0,
        informers: Arc::new([cache].into_iter().collect()),
    };
    Reader::new(snapshot, Arc::new(scope), 0)
}

fn pod(number: usize, filler: &str) -> String {
    format!(
        r#"{{"metadata":{{"namespace":"default","name":"p{number:04}"}},"spec":{{"x":"{filler}"}}}}"#
    )
}

fn key(number: usize) -> ObjectKey {
    ObjectKey::new("default", &format!("p{number:04}"))
}

/// The fuel that a read costs.
fn cost(reader: &mut Reader, read: impl FnOnce(&mut Reader)) -> u64 {
    const PLENTY: u64 = 1 << 40;
    reader.set_fuel(PLENTY);
    read(reader);
    PLENTY - reader.fuel()
}

fn absent(count: usize) -> ListFilter {
    let absent = (0..count).map(|number| Requirement::Absent(format!("k{number}")));
    let none = [Requirement::Exists("k".into())];
    ListFilter::Labels(LabelSelector {
        requirements: absent.chain(none).collect(),
    })
}

#[test]
fn a_list_costs_what_it_looks_at_compares_and_copies() {
    let objects: Vec<String> = (0..1_000).map(|number| pod(number, "")).collect();
    let mut reader = reader(&objects);
    let mut list = |filter: &ListFilter| {
        cost(&mut reader, |reader| {
            reader.list(&pods(), None, filter).unwrap();
        })
    };
    let all = list(&ListFilter::Everything);
    let (none, none_of_many) = (list(&absent(0)), list(&absent(99)));
    let bytes: usize = objects.iter().map(String::len).sum();
    let copied = bytes as u64 / BYTES_PER_FUEL;
    assert!(all >= 1_000 * FUEL_PER_OBJECT + copied, "{all} {bytes}");
    assert!(none >= 1_000 * FUEL_PER_OBJECT, "{none}");
    assert!(none_of_many > 10 * none, "{none_of_many} {none}");
    assert_eq!(list(&absent(0)), none, "asking again costs the same");
}

#[test]
fn who_has_no_fuel_left_reads_no_more() {
    let objects: Vec<String> = (0..1_000).map(|number| pod(number, "")).collect();
    let mut reader = reader(&objects);
    reader.set_fuel(FUEL_PER_READ + 500 * FUEL_PER_OBJECT);
    let listed = reader.list(&pods(), None, &absent(0));
    assert_eq!((listed, reader.fuel()), (Err(ReadError::OutOfFuel), 0));
    assert_eq!(reader.get(&pods(), &key(1)), Err(ReadError::OutOfFuel));
}

#[test]
fn each_object_of_a_list_stands_on_a_line_of_its_own() {
    let pretty = "{\n  \"metadata\": {\"namespace\": \"default\",\r\n \"name\": \"p0002\"},\n  \"spec\": {\"x\": \"a\\nb\"}\n}";
    let mut reader = reader(&[pod(1, ""), pretty.to_owned(), pod(3, "")]);
    let list = reader.list(&pods(), None, &ListFilter::Everything).unwrap();
    let lines: Vec<&str> = list.split('\n').collect();
    let [first, one, two, three, last] = lines[..] else {
        panic!("{list}");
    };
    assert_eq!((first, last), ("[", "]"));
    let objects = [one, two, three].map(|line| line.strip_suffix(',').unwrap_or(line));
    let names = objects.map(|object| {
        let object: serde_json::Value = serde_json::from_str(object).unwrap();
        object["metadata"]["name"].as_str().unwrap().to_owned()
    });
    assert_eq!(names, ["p0001", "p0002", "p0003"]);
    let none = reader.list(&pods(), Some("other"), &ListFilter::Everything);
    assert_eq!(none.as_deref(), Ok("[]"));
}

#[test]
fn it_stays_open_whether_a_read_has_an_answer_if_too_many_objects_would_be_examined() {
    let objects: Vec<String> = (0..100).map(|number| pod(number, "")).collect();
    let reader = reader(&objects);
    let has_answer = |read: &Read, mut left: usize| read.has_answer(&reader.snapshot, &mut left);
    let requirements = vec![Requirement::Exists("k".into())];
    let none = Read::list(PODS, None, Filter::Labels(LabelSelector { requirements }));
    assert_eq!(has_answer(&none, 100), Some(false));
    assert_eq!(has_answer(&none, 99), None);
    let all = Read::list(PODS, None, Filter::Everything);
    assert_eq!(has_answer(&all, 1), Some(true));
    let one = Read::Object(PODS, key(1));
    assert_eq!(
        (has_answer(&one, 1), has_answer(&one, 0)),
        (Some(true), None)
    );
}

/// The objects of a list, read in pages of this size.
fn in_pages(reader: &mut Reader, filter: &ListFilter, size: u32) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    loop {
        let after: Option<serde_json::Value> = all
            .last()
            .map(|object| serde_json::from_str(object).unwrap());
        let text = |member: &str| {
            let value = after.as_ref().map(|after| &after["metadata"][member]);
            value.and_then(|value| value.as_str()).unwrap_or_default()
        };
        let after = after.is_some().then_some(KeyRef {
            namespace: text("namespace"),
            name: text("name"),
        });
        let kind = pods();
        let after = after.map(|key| (&kind, key));
        let page = reader.list_page(&kind, None, filter, after, size);
        let page: Vec<Box<serde_json::value::RawValue>> =
            serde_json::from_str(&page.unwrap()).unwrap();
        let is_last = page.len() < size as usize;
        all.extend(page.iter().map(|object| object.get().to_owned()));
        if is_last {
            return all;
        }
    }
}

#[test]
fn pages_of_any_size_make_up_the_list_and_are_one_read() {
    let objects: Vec<String> = (0..10).map(|number| pod(number, "")).collect();
    for filter in [ListFilter::Everything, absent(1)] {
        let mut reader = reader(&objects);
        let list = reader.list(&pods(), None, &filter).unwrap();
        let list: Vec<Box<serde_json::value::RawValue>> = serde_json::from_str(&list).unwrap();
        let list: Vec<String> = list.iter().map(|object| object.get().to_owned()).collect();
        for size in 1..=11 {
            assert_eq!(in_pages(&mut reader, &filter, size), list, "{size}");
        }
        assert_eq!(reader.into_reads().len(), 1);
    }
}

#[test]
fn a_page_costs_what_it_looks_at_and_one_for_no_object_is_a_mistake() {
    let objects: Vec<String> = (0..1_000).map(|number| pod(number, "")).collect();
    let mut reader = reader(&objects);
    let last = key(989);
    let everything = ListFilter::Everything;
    let page = |reader: &mut Reader, limit| {
        let kind = pods();
        reader.list_page(&kind, None, &everything, Some((&kind, last.parts())), limit)
    };
    let cost = cost(&mut reader, |reader| drop(page(reader, 100)));
    assert!(cost < FUEL_PER_READ + 20 * FUEL_PER_OBJECT, "{cost}");
    assert_eq!(page(&mut reader, 0), Err(ReadError::EmptyPage));
}
