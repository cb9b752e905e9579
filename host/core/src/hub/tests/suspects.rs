//! Keys that fail because a cache differs from the server.

use super::*;

/// Fails while the pod "x" has the label `garbled`.
fn fails_on_garbled(terminal: bool) -> impl Fn(&Request, &mut Reader) -> Result<Outcome, RunError> {
    move |_, reader| {
        let found = reader.list(&pod(), None, &ListFilter::Everything).unwrap();
        match (found.contains("garbled"), terminal) {
            (false, _) => Ok(Outcome::default()),
            (true, false) => Err(Failure::Retry("cannot be decoded".into()).into()),
            (true, true) => Err(Failure::Terminal("cannot be decoded".into()).into()),
        }
    }
}

fn text(name: &str, version: u64, labels: &str) -> String {
    format!(
        r#"{{"metadata":{{"namespace":"default","name":"{name}","uid":"u","resourceVersion":"{version}","labels":{{{labels}}}}}}}"#
    )
}

/// The server's state of the pod "x".
type Server = Option<(u64, &'static str)>;

struct Suspected {
    rig: Rig,
    fetch_ended: Vec<String>,
    repaired: usize,
    failures: usize,
}

/// Runs for this long with a service and a pod "x". The cache shows the pod as "garbled", and the
/// server has another state of it.
fn suspected(terminal: bool, server: impl Fn(u64) -> Server, seconds: u64) -> Suspected {
    let mut rig = Rig::with(manifest("p"), fails_on_garbled(terminal));
    rig.put(&pod(), "x", r#""garbled":"yes""#);
    let cached = rig.version;
    rig.put(&service(), "web", "");
    let bookmark = Delta::Bookmark(ResourceVersion::new("100"));
    let id = rig.id(&pod());
    rig.hub.apply(id, bookmark, rig.now);
    let mut rigged = Suspected {
        rig,
        fetch_ended: vec![],
        repaired: 0,
        failures: 0,
    };
    for _ in 0..seconds * 1000 {
        rigged.step(server(cached));
    }
    rigged
}

impl Suspected {
    fn step(&mut self, server: Server) {
        let rig = &mut self.rig;
        match rig.hub.next(rig.now, 0) {
            Next::Run(reconcile) => {
                let ran = reconcile.run();
                self.failures += usize::from(ran.result.is_err());
                rig.finish(ran);
            }
            Next::Fetch(fetch) => {
                assert_eq!(fetch.purpose, Purpose::Repair);
                let answer = |question: &Question| match &*question.key.name {
                    "x" => Ok(server.map(|(version, labels)| text("x", version, labels))),
                    // The same as in the cache.
                    "web" => Ok(Some(text("web", 2, ""))),
                    _ => Ok(None),
                };
                let answers = fetch.questions.iter().map(answer).collect();
                let names = fetch.questions.iter();
                self.fetch_ended
                    .extend(names.map(|question| question.key.name.to_string()));
                self.repaired += rig.hub.fetched(&fetch, answers, rig.now).len();
            }
            Next::Idle(_) => rig.now += Duration::from_millis(1),
        }
    }
}

fn run_one(rig: &mut Rig) {
    let reconcile = rig.take().unwrap();
    rig.finish(reconcile.run());
}

#[test]
fn what_a_failing_key_reads_is_put_right_by_what_the_server_has() {
    let same_version = |cached| Some((cached, ""));
    let changed_long_ago = |_| Some((50, ""));
    let gone = |_| None;
    let servers: [fn(u64) -> Server; 3] = [same_version, changed_long_ago, gone];
    for (number, server) in servers.into_iter().enumerate() {
        for terminal in [false, true] {
            let suspected = suspected(terminal, server, 5);
            assert_eq!(suspected.repaired, 1, "server {number}");
            let failures = if terminal { 1 } else { 3 };
            assert_eq!(suspected.failures, failures, "server {number}");
            let hub = &suspected.rig.hub;
            assert_eq!(hub.status(suspected.rig.now)[0].keys.failing, 0);
            assert_eq!(suspected.rig.informer(suspected.rig.id(&pod())).repairs, 1);
        }
    }
}

#[test]
fn what_the_server_confirms_is_fetched_once() {
    for terminal in [false, true] {
        let suspected = suspected(terminal, |cached| Some((cached, r#""garbled":"yes""#)), 60);
        assert_eq!(suspected.repaired, 0);
        assert_eq!(
            suspected.fetch_ended,
            ["web", "x"],
            "however often it failed"
        );
    }
}

#[test]
fn a_newer_state_that_the_watch_brings_meanwhile_stays() {
    let mut rig = Rig::with(manifest("p"), fails_on_garbled(true));
    rig.put(&pod(), "x", r#""garbled":"yes""#);
    let cached = rig.version;
    rig.put(&service(), "web", "");
    run_one(&mut rig);
    let Next::Fetch(fetch) = rig.hub.next(rig.now, 0) else {
        panic!("nothing is looked up");
    };
    rig.put(&pod(), "x", r#""newer":"yes""#);
    let answer = |question: &Question| match &*question.key.name {
        "x" => Ok(Some(text("x", cached, ""))),
        _ => Ok(Some(text("web", 2, ""))),
    };
    let answers = fetch.questions.iter().map(answer).collect();
    assert_eq!(rig.hub.fetched(&fetch, answers, rig.now), []);
    let cache = &rig.hub.snapshot().informers[rig.id(&pod())];
    let shown = cache.get(ObjectKey::new("default", "x").parts()).unwrap();
    assert!(shown.json().contains("newer"));
    rig.put(&service(), "web", r#""touched":"yes""#);
    rig.put(&pod(), "x", r#""garbled":"again""#);
    run_one(&mut rig);
    rig.now += Duration::from_secs(1);
    let Next::Fetch(fetch) = rig.hub.next(rig.now, 0) else {
        panic!("a state that came meanwhile is not confirmed");
    };
    let names: Vec<&str> = fetch.questions.iter().map(|it| &*it.key.name).collect();
    assert_eq!(names, ["web", "x"]);
}

#[test]
fn long_lists_are_fetched_piece_by_piece() {
    let mut rig = Rig::with(manifest("p"), fails_on_garbled(true));
    for number in 0..150 {
        rig.put(&pod(), &format!("y{number}"), r#""garbled":"yes""#);
    }
    rig.put(&service(), "web", "");
    run_one(&mut rig);
    let mut sizes = Vec::new();
    for _ in 0..10_000 {
        if let Next::Fetch(fetch) = rig.hub.next(rig.now, 0) {
            let shown = |question: &Question| {
                let cache = &rig.hub.snapshot().informers[question.informer];
                let object = cache.get(question.key.parts()).unwrap();
                Ok(Some(object.json().to_owned()))
            };
            let answers = fetch.questions.iter().map(shown).collect();
            sizes.push(fetch.questions.len());
            rig.hub.fetched(&fetch, answers, rig.now);
        }
        rig.now += Duration::from_millis(1);
    }
    assert_eq!(sizes, [64, 64, 23], "150 pods and the service");
}

/// The next fetch. There must be one.
fn next_fetch(rig: &mut Rig) -> Fetch {
    match rig.hub.next(rig.now, 0) {
        Next::Fetch(fetch) => fetch,
        Next::Run(reconcile) => panic!("{:?} runs", reconcile.held),
        Next::Idle(due) => panic!("nothing to do until {due:?}"),
    }
}

/// What the caches show of the objects in question.
fn shown(rig: &Rig, fetch: &Fetch) -> Vec<Result<Option<String>, ReadFailure>> {
    let questions = fetch.questions.iter();
    let answers = questions.map(|question| {
        let cache = &rig.hub.snapshot().informers[question.informer];
        let object = cache.get(question.key.parts());
        Ok(object.map(|object| object.json().to_owned()))
    });
    answers.collect()
}

#[test]
fn what_nobody_answered_is_asked_again() {
    let mut rig = Rig::with(manifest("p"), fails_on_garbled(true));
    rig.put(&pod(), "x", r#""garbled":"yes""#);
    let cached = rig.version;
    rig.put(&service(), "web", "");
    run_one(&mut rig);
    let first = next_fetch(&mut rig);
    let no_answer = || Err(ReadFailure::NoAnswer("no route".into()));
    let answers = first.questions.iter().map(|_| no_answer()).collect();
    rig.hub.fetched(&first, answers, rig.now);
    let Next::Idle(Some(due)) = rig.hub.next(rig.now, 0) else {
        panic!("nothing is to be looked up again, or at once");
    };
    rig.now = due;
    let again = next_fetch(&mut rig);
    assert_eq!(again.questions, first.questions);
    let mut answers = shown(&rig, &again);
    answers[1] = Ok(Some(text("x", cached, "")));
    assert_eq!(rig.hub.fetched(&again, answers, rig.now).len(), 1);
    assert_eq!(rig.run(), ["web"]);
    assert_eq!(rig.hub.status(rig.now)[0].keys.failing, 0);
}

#[test]
fn what_may_not_be_fetched_is_asked_for_once() {
    let mut rig = Rig::with(manifest("p"), fails_on_garbled(false));
    rig.put(&pod(), "x", r#""garbled":"yes""#);
    rig.put(&service(), "web", "");
    let mut fetches = 0;
    for _ in 0..100_000 {
        match rig.hub.next(rig.now, 0) {
            Next::Run(reconcile) => {
                rig.finish(reconcile.run());
            }
            Next::Fetch(fetch) => {
                fetches += 1;
                let refused = |_| Err(ReadFailure::Refused("cannot get".into()));
                let answers = fetch.questions.iter().map(refused).collect();
                rig.hub.fetched(&fetch, answers, rig.now);
            }
            Next::Idle(_) => rig.now += Duration::from_millis(1),
        }
    }
    assert_eq!(fetches, 1);
}

#[test]
fn a_key_that_fails_no_more_is_not_fetched_for() {
    let mut rig = Rig::with(manifest("p"), fails_on_garbled(true));
    for number in 0..150 {
        rig.put(&pod(), &format!("y{number}"), "");
    }
    rig.put(&pod(), "z", r#""garbled":"yes""#);
    rig.put(&service(), "web", "");
    run_one(&mut rig);
    let first = next_fetch(&mut rig);
    rig.put(&pod(), "z", "");
    assert_eq!(rig.run(), ["web"]);
    let answers = shown(&rig, &first);
    rig.hub.fetched(&first, answers, rig.now);
    rig.now += Duration::from_secs(60);
    assert!(matches!(rig.hub.next(rig.now, 0), Next::Idle(None)));
}

#[test]
fn more_objects_than_are_remembered_are_not_fetched_for_ever() {
    let mut rig = Rig::with(manifest("p"), fails_on_garbled(true));
    for number in 0..1_000 {
        rig.put(&pod(), &format!("y{number}"), r#""garbled":"yes""#);
    }
    rig.put(&service(), "web", "");
    run_one(&mut rig);
    let mut asked = 0;
    for _ in 0..600 {
        if let Next::Fetch(fetch) = rig.hub.next(rig.now, 0) {
            asked += fetch.questions.len();
            let answers = shown(&rig, &fetch);
            rig.hub.fetched(&fetch, answers, rig.now);
        }
        rig.now += Duration::from_secs(1);
    }
    assert!((500..=1_001).contains(&asked), "{asked} objects");
}

#[test]
fn a_watch_that_is_merely_late_has_garbled_nothing() {
    let mut rig = Rig::with(manifest("p"), fails_on_garbled(true));
    rig.put(&pod(), "x", r#""garbled":"yes""#);
    rig.put(&service(), "web", "");
    run_one(&mut rig);
    let fetch = next_fetch(&mut rig);
    let mut answers = shown(&rig, &fetch);
    answers[1] = Ok(Some(text("x", 1000, "")));
    assert_eq!(rig.hub.fetched(&fetch, answers, rig.now), []);
    assert_eq!(rig.run(), ["web"], "it sees the newer state all the same");
}

#[test]
fn a_fetch_that_cannot_be_made_yet_keeps_nobody_awake() {
    let mut rig = Rig::with(manifest("p"), fails_on_garbled(true));
    let id = *rig.hub.controllers.keys().next().unwrap();
    rig.put(&pod(), "x", r#""garbled":"yes""#);
    rig.put(&service(), "web", "");
    run_one(&mut rig);
    let paused = ControllerSettings {
        is_paused: true,
        ..ControllerSettings::default()
    };
    rig.hub.configure(id, &paused, rig.now);
    rig.now += Duration::from_secs(60);
    let Next::Idle(due) = rig.hub.next(rig.now, 0) else {
        panic!("a paused plugin does something");
    };
    assert_eq!(due, None);
}

#[test]
fn of_many_failing_keys_few_are_looked_at_at_a_time() {
    // Each object is asked for once.
    looks_at_few_at_a_time(ListFilter::Everything, 320);
}

#[test]
fn reads_that_find_nothing_count_as_what_is_examined_for_them() {
    // A condition that an object's bits do not answer, so that each is examined.
    let nothing = Requirement::Exists("nobody".into());
    let nothing = LabelSelector {
        requirements: vec![nothing],
    };
    looks_at_few_at_a_time(ListFilter::Labels(nothing), 20);
}

/// Twenty keys that fail read three hundred objects each, of which the filter selects some or none.
fn looks_at_few_at_a_time(filter: ListFilter, objects: usize) {
    let mut rig = Rig::with(manifest("p"), move |_, reader| {
        reader.list(&pod(), None, &filter).unwrap();
        Err(Failure::Retry("for a reason of its own".into()).into())
    });
    for number in 0..300 {
        rig.put(&pod(), &format!("y{number}"), "");
    }
    for number in 0..20 {
        rig.put(&service(), &format!("s{number}"), "");
    }
    let (mut asked, mut waits) = (0, 0);
    while rig.now < Duration::from_secs(5_000) {
        match rig.hub.next(rig.now, 0) {
            Next::Run(reconcile) => {
                rig.finish(reconcile.run());
            }
            Next::Fetch(fetch) => {
                asked += fetch.questions.len();
                let answers = shown(&rig, &fetch);
                rig.hub.fetched(&fetch, answers, rig.now);
            }
            Next::Idle(Some(due)) => {
                waits += usize::from(due - rig.now == Duration::from_secs(1) && asked == objects);
                rig.now = due;
            }
            Next::Idle(None) => panic!("the keys fail on"),
        }
    }
    assert_eq!(asked, objects);
    assert!(waits >= 20, "20 keys of 300 objects: {waits} pauses");
}
