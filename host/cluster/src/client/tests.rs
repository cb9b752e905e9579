use std::sync::Mutex;

use futures::future::join_all;
use http::Method;

use super::*;
use crate::testing::{Scenario, ScriptedAnswer, stalled, status, text};

/// Records each call as one line.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Notes {
    fn note(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    fn lines(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Observer for Notes {
    fn answered(&self, method: &Method, code: Option<u16>, is_repeat: bool) {
        let repeat = if is_repeat { " again" } else { "" };
        self.note(format!("{method} answered {code:?}{repeat}"));
    }

    fn sent(&self, method: &Method, bytes: usize) {
        self.note(format!("{method} sent {bytes}"));
    }

    fn received(&self, method: &Method, bytes: usize) {
        self.note(format!("{method} received {bytes}"));
    }

    fn ended(&self, method: &Method, took: Duration) {
        self.note(format!("{method} ended {}", took.as_millis()));
    }

    fn throttled(&self, method: &Method, waited: Duration) {
        self.note(format!("{method} throttled {}", waited.as_millis()));
    }
}

/// A client of a script, with limits, and the record of its observer.
fn observed(
    script: impl IntoIterator<Item = ScriptedAnswer>,
    host: Option<Limit>,
    plugin: Option<Limit>,
) -> (Client, Scenario, Arc<Notes>) {
    let (scenario, notes) = (Scenario::new(script), Arc::<Notes>::default());
    let client = Client::from(scenario.client()).with(RateLimits::new(host, plugin), notes.clone());
    (client, scenario, notes)
}

fn one_a_second() -> Option<Limit> {
    Limit::of_flags(Some(1.0), Some(1)).unwrap()
}

const TERMS: Terms<'_> = Terms {
    deadline: Duration::from_secs(30),
    limit: 1024,
    can_repeat: CanRepeat::Never,
    plugin: None,
    needs_right: false,
};

fn read() -> Terms<'static> {
    Terms {
        can_repeat: CanRepeat::Read,
        ..TERMS
    }
}

fn of(plugin: &str) -> Terms<'_> {
    Terms {
        can_repeat: CanRepeat::IfRefused,
        plugin: Some(plugin),
        ..TERMS
    }
}

fn get() -> Request<Vec<u8>> {
    Request::get("/api").body(vec![]).unwrap()
}

fn post() -> Request<Vec<u8>> {
    Request::post("/api/v1/x").body(b"12345".to_vec()).unwrap()
}

fn busy(code: u16, seconds: &str) -> ScriptedAnswer {
    status(code, "", "later").with_header("retry-after", seconds)
}

#[tokio::test(start_paused = true)]
async fn an_observer_sees_each_request_and_what_became_of_it() {
    let script = [text(201, "abc"), text(404, "no"), ScriptedAnswer::Refused];
    let (client, _, notes) = observed(script, None, None);
    client.fetch(&post(), TERMS).await.unwrap();
    let seen = [
        "POST sent 5",
        "POST answered Some(201)",
        "POST ended 0",
        "POST received 3",
    ];
    assert_eq!(notes.lines(), seen);
    client.fetch(&get(), TERMS).await.unwrap_err();
    assert_eq!(
        notes.lines(),
        ["GET sent 0", "GET answered Some(404)", "GET ended 0"]
    );
    client.fetch(&get(), TERMS).await.unwrap_err();
    assert_eq!(
        notes.lines(),
        ["GET sent 0", "GET answered None", "GET ended 0"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_without_an_answer_ends_at_its_deadline_and_is_seen() {
    let (client, _, notes) = observed([ScriptedAnswer::Silence, stalled()], None, None);
    for code in ["None", "Some(200)"] {
        let error = client.fetch(&get(), TERMS).await.unwrap_err();
        assert!(matches!(error, RequestError::Deadline(_)), "{error}");
        let seen = [
            "GET sent 0".to_owned(),
            format!("GET answered {code}"),
            "GET ended 30000".to_owned(),
        ];
        assert_eq!(notes.lines(), seen);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_nobody_waits_for_any_more_is_seen_too() {
    let (client, _, notes) = observed([ScriptedAnswer::Silence], None, None);
    let second = Duration::from_secs(1);
    let waited = tokio::time::timeout(second, client.fetch(&get(), TERMS)).await;
    assert!(waited.is_err());
    assert_eq!(notes.lines(), ["GET sent 0", "GET answered None"]);
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_the_limit_is_not_part_of_the_deadline() {
    let script = [text(200, ""), ScriptedAnswer::Silence];
    let (client, _, notes) = observed(script, Limit::of_flags(Some(0.01), Some(1)).unwrap(), None);
    client.fetch(&get(), TERMS).await.unwrap();
    notes.lines();
    client.fetch(&get(), TERMS).await.unwrap_err();
    let seen = [
        "GET throttled 100000",
        "GET sent 0",
        "GET answered None",
        "GET ended 130000",
    ];
    assert_eq!(notes.lines(), seen);
}

#[tokio::test(start_paused = true)]
async fn a_watch_begins_without_waiting_for_the_limit() {
    let script = [text(200, ""), text(200, ""), ScriptedAnswer::Silence];
    let (client, scenario, notes) = observed(script, one_a_second(), None);
    client.fetch(&get(), TERMS).await.unwrap();
    notes.lines();
    let deadline = Duration::from_secs(15);
    client.open(get(), deadline).await.unwrap();
    assert_eq!(scenario.seen()[1].at, Duration::ZERO);
    assert_eq!(notes.lines(), ["GET answered Some(200)"]);
    let error = client.open(get(), deadline).await.unwrap_err();
    assert!(matches!(error, RequestError::Deadline(_)), "{error}");
    assert_eq!(notes.lines(), ["GET answered None"]);
}

#[tokio::test(start_paused = true)]
async fn a_read_that_is_turned_away_is_sent_again_when_the_server_says_and_within_the_limit() {
    let script = [busy(429, "2"), busy(500, "3"), text(200, "{}")];
    let limit = Limit::of_flags(Some(0.2), Some(1)).unwrap();
    let (client, scenario, notes) = observed(script, limit, None);
    client.fetch(&get(), read()).await.unwrap();
    let times: Vec<_> = scenario.seen().iter().map(|seen| seen.at).collect();
    assert_eq!(times, [0, 5, 10].map(Duration::from_secs));
    let codes: Vec<_> = notes
        .lines()
        .into_iter()
        .filter(|line| line.contains("answered"))
        .collect();
    let seen = [
        "GET answered Some(429)",
        "GET answered Some(500) again",
        "GET answered Some(200) again",
    ];
    assert_eq!(codes, seen);
}

#[tokio::test(start_paused = true)]
async fn a_read_is_not_repeated_unless_the_server_says_when() {
    let too_long = busy(503, "11");
    for answer in [
        text(500, ""),
        text(503, ""),
        too_long,
        ScriptedAnswer::Refused,
    ] {
        let (client, scenario, _) = observed([answer], None, None);
        client.fetch(&get(), read()).await.unwrap_err();
        assert_eq!(scenario.seen().len(), 1);
    }
    let (client, scenario, _) = observed((0..9).map(|_| busy(429, "1")), None, None);
    client.fetch(&get(), read()).await.unwrap_err();
    assert_eq!(scenario.seen().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_turns_a_plugin_away_is_asked_by_one_of_its_requests_at_a_time() {
    // Five requests at once are turned away. The first one is repeated at 1 s and succeeds at 2 s;
    // after that all others succeed.
    let script = (0..6).map(|_| busy(429, "1"));
    let script = script.chain((0..9).map(|_| text(200, "")));
    let (client, scenario, _) = observed(script, None, None);
    let early = join_all((0..5).map(async |_| client.fetch(&post(), of("a")).await));
    let late = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        client.fetch(&post(), of("a")).await.map(drop)
    };
    let (early, late) = tokio::join!(early, late);
    assert!(late.is_ok() && early.iter().all(Result::is_ok));
    let times: Vec<_> = scenario
        .seen()
        .iter()
        .map(|seen| seen.at.as_secs())
        .collect();
    assert_eq!(times, [0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_is_turned_away_keeps_no_other_waiting() {
    let script = [busy(429, "5"), text(200, ""), text(200, "")];
    let (client, scenario, _) = observed(script, None, None);
    let refused = async { client.fetch(&post(), of("a")).await };
    let other = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        client.fetch(&post(), of("b")).await
    };
    let (refused, other) = tokio::join!(refused, other);
    assert!(refused.is_ok() && other.is_ok());
    let times: Vec<_> = scenario
        .seen()
        .iter()
        .map(|seen| seen.at.as_secs())
        .collect();
    assert_eq!(times, [0, 1, 5]);
}

#[tokio::test(start_paused = true)]
async fn the_limits_of_a_plugin_hold_its_writes() {
    let script = (0..3).map(|_| text(200, ""));
    let (client, scenario, notes) = observed(script, None, one_a_second());
    let a = join_all((0..2).map(async |_| client.fetch(&post(), of("a")).await));
    let (a, read) = tokio::join!(a, async { client.fetch(&get(), TERMS).await });
    assert!(read.is_ok() && a.iter().all(Result::is_ok));
    let times: Vec<_> = scenario
        .seen()
        .iter()
        .map(|seen| seen.at.as_secs())
        .collect();
    assert_eq!(times, [0, 0, 1]);
    let throttled: Vec<_> = notes
        .lines()
        .into_iter()
        .filter(|line| line.contains("throttled"))
        .collect();
    assert_eq!(throttled, ["POST throttled 0", "POST throttled 1000"]);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_leaves_a_server_alone_for_as_long_as_it_asks() {
    let script = [busy(429, "30"), text(200, ""), text(200, "")];
    let (client, scenario, _) = observed(script, None, None);
    assert!(client.fetch(&post(), of("a")).await.is_err());
    let post = post();
    let same = client.fetch(&post, of("a"));
    let other = client.fetch(&post, of("b"));
    let (same, other) = tokio::join!(same, other);
    assert!(same.is_ok() && other.is_ok());
    let seen = scenario.seen();
    let times: Vec<_> = seen.iter().map(|seen| seen.at.as_secs()).collect();
    assert_eq!(times, [0, 0, 30], "another plugin's at once");
}

#[tokio::test(start_paused = true)]
async fn a_repeat_that_is_never_answered_keeps_the_others_for_seconds_only() {
    let script = [busy(429, "1"), ScriptedAnswer::Silence, text(200, "")];
    let (client, scenario, _) = observed(script, None, None);
    let post = post();
    let first = client.fetch(&post, of("a"));
    let second = async {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        client.fetch(&post, of("a")).await
    };
    let (first, second) = tokio::join!(first, second);
    assert!(first.is_err() && second.is_ok());
    let seen = scenario.seen();
    let times: Vec<_> = seen.iter().map(|seen| seen.at.as_secs()).collect();
    assert_eq!(times, [0, 1, 6]);
}
