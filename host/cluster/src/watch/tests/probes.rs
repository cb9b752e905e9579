//! List-watches at which nothing happens: one of them probes the server, and the others take its
//! answer, as far as that says something about them.

use std::time::Duration;

use pilothouse_core::{Detail, InformerKey, ResourceVersion};
use tokio::time::Instant;

use crate::testing::{Record, Scenario, ScriptedAnswer, WirePart};
use crate::testing::{bookmark, list_watch, lists, page, pods, stream};
use crate::watch::{Alarm, ProbeAnswers};

const SECOND: Duration = Duration::from_secs(1);

/// The list-watches of one server.
#[derive(Default)]
struct Peers {
    alarm: Alarm,
    answers: ProbeAnswers,
}

impl Peers {
    /// Another list-watch has the server found at this version, after this time.
    async fn hear(&self, version: &str, after: Duration) {
        tokio::time::sleep(after).await;
        let version = ResourceVersion::new(version);
        self.answers.add(version, Instant::now());
    }

    /// The requests of a list-watch until it sends one for which the script has no answer, and what
    /// it has brought.
    async fn play(&self, script: Vec<ScriptedAnswer>) -> (Vec<String>, Vec<String>) {
        let scenario = Scenario::new(script);
        let informer_key = InformerKey::all(pods().kind);
        let list_watch = list_watch(&scenario, informer_key, Detail::Full, lists());
        let list_watch = list_watch.sharing(&self.alarm, &self.answers);
        let mut record = Record::default();
        tokio::select! {
            never = list_watch.run(&mut record) => match never {},
            () = scenario.is_played() => {}
        }
        let name = |line: String| match line {
            line if line.ends_with("limit=1") => "probe".to_owned(),
            line if line.contains("watch=true") => "watch".to_owned(),
            _ => "list".to_owned(),
        };
        (scenario.lines().into_iter().map(name).collect(), record.0)
    }
}

fn probe(version: &str) -> ScriptedAnswer {
    page(version, &[], "")
}

/// A list, which comes after this time, and the first watch, of ten seconds.
fn begin(version: &str, after: Duration) -> [ScriptedAnswer; 2] {
    let list = page(version, &[], "");
    [
        ScriptedAnswer::Late(after, Box::new(list)),
        stream(&[], Some(WirePart::Hang)),
    ]
}

/// Watches of nine seconds, of a server at which nothing is written and that sends no bookmarks.
fn quiet(watches: usize) -> Vec<ScriptedAnswer> {
    let watch = ScriptedAnswer::Http {
        code: 200,
        headers: vec![],
        parts: vec![WirePart::Pause(9 * SECOND)],
    };
    vec![watch; watches]
}

fn script(parts: impl IntoIterator<Item = Vec<ScriptedAnswer>>) -> Vec<ScriptedAnswer> {
    parts.into_iter().flatten().collect()
}

fn probes(requests: &[String]) -> usize {
    requests.iter().filter(|line| *line == "probe").count()
}

/// One that begins at once, and probes the server, which it finds at these versions, after 28
/// seconds and then each 18 seconds.
fn first(version: &str, found: &[&str]) -> Vec<ScriptedAnswer> {
    let mut script = script([begin(version, Duration::ZERO).into(), quiet(2)]);
    for found in found {
        script.push(probe(found));
        script.extend(quiet(2));
    }
    script
}

#[tokio::test(start_paused = true)]
async fn while_nothing_is_written_one_list_watch_probes_for_all() {
    let peers = Peers::default();
    let other = |after| script([begin("40", after).into(), quiet(7)]);
    let ((first, _), (second, _), (third, _)) = tokio::join!(
        peers.play(first("40", &["40", "40", "40"])),
        peers.play(other(SECOND)),
        peers.play(other(3 * SECOND)),
    );
    // The last request of each has no answer.
    assert_eq!(probes(&first), 4, "{first:?}");
    assert_eq!(probes(&second), 0, "{second:?}");
    assert_eq!(probes(&third), 0, "{third:?}");
}

#[tokio::test(start_paused = true)]
async fn who_knows_of_another_version_probes_for_itself() {
    let peers = Peers::default();
    for version in ["39", "41"] {
        let other = script([begin(version, SECOND).into(), quiet(2)]);
        let (_, (other, _)) = tokio::join!(
            peers.play(first("40", &["40", "40"])),
            peers.play(script([other, vec![probe(version)], quiet(2)])),
        );
        assert_eq!(probes(&other), 2, "{version}: {other:?}");
    }
}

/// Where bookmarks do not tell of what is written elsewhere.
#[tokio::test(start_paused = true)]
async fn who_has_found_the_server_further_than_its_own_list_counts_from_there() {
    let peers = Peers::default();
    let only = script([
        begin("30", SECOND).into(),
        quiet(2),
        vec![probe("40")],
        quiet(4),
    ]);
    let (_, (requests, _)) = tokio::join!(peers.hear("40", 46 * SECOND), peers.play(only));
    assert_eq!(requests[4], "probe", "after 29 s");
    assert_eq!(probes(&requests[5..9]), 0, "{requests:?}");
    assert_eq!(requests[9], "probe", "after 65 s");
}

#[tokio::test(start_paused = true)]
async fn after_a_lost_connection_every_list_watch_probes() {
    let peers = Peers::default();
    let broken = stream(&[], Some(WirePart::Break));
    let only = script([begin("40", SECOND).into(), quiet(1), vec![broken]]);
    let (_, (requests, _)) = tokio::join!(peers.hear("40", 15 * SECOND), peers.play(only));
    assert_eq!(requests[4], "probe", "{requests:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_does_for_one_look_and_not_for_the_next() {
    let peers = Peers::default();
    let only = script([begin("40", SECOND).into(), quiet(4)]);
    let (_, (requests, _)) = tokio::join!(peers.hear("40", 20 * SECOND), peers.play(only));
    assert_eq!(probes(&requests[..6]), 0, "{requests:?}");
    assert_eq!(requests[6], "probe", "after 47 s");
}

#[tokio::test(start_paused = true)]
async fn an_answer_from_before_a_watch_that_has_proven_the_position_does_not_count() {
    let peers = Peers::default();
    let proof = ScriptedAnswer::Http {
        code: 200,
        headers: vec![],
        parts: vec![
            WirePart::Data(format!("{}\n", bookmark("40"))),
            WirePart::Pause(9 * SECOND),
        ],
    };
    let begun = begin("40", SECOND).into();
    let only = script([begun, quiet(1), vec![proof], quiet(2)]);
    let (_, (requests, _)) = tokio::join!(peers.hear("40", 15 * SECOND), peers.play(only));
    assert_eq!(requests[6], "probe", "{requests:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_from_before_the_list_does_not_count() {
    let peers = Peers::default();
    let only = script([begin("40", 2 * SECOND).into(), quiet(2)]);
    let (_, (requests, _)) = tokio::join!(peers.hear("40", SECOND), peers.play(only));
    assert_eq!(requests[4], "probe", "{requests:?}");
}

#[tokio::test(start_paused = true)]
async fn who_has_found_the_server_behind_asks_once_more_itself() {
    let peers = Peers::default();
    let begun = begin("40", Duration::ZERO).into();
    let only = script([begun, quiet(2), vec![probe("30")]]);
    let half_a_second_later = Duration::from_millis(28_500);
    let (_, (requests, _)) = tokio::join!(peers.hear("40", half_a_second_later), peers.play(only));
    assert_eq!(requests[4..], ["probe", "probe"], "{requests:?}");
}

#[tokio::test(start_paused = true)]
async fn a_rollback_is_found_by_the_one_that_probes_and_told_to_the_others() {
    let peers = Peers::default();
    let mut finds_out = first("40", &["40"]);
    finds_out.extend([probe("30"), probe("30"), page("30", &[], "")]);
    let other = script([
        begin("40", SECOND).into(),
        quiet(4),
        vec![probe("30"), probe("30"), page("30", &[], "")],
    ]);
    let ((first, record), (_, other)) = tokio::join!(peers.play(finds_out), peers.play(other));
    assert!(
        record.contains(&"rolled back from 40 to 30".to_owned()),
        "{first:?} {record:?}"
    );
    let last = other.iter().rfind(|line| line.starts_with("replace"));
    assert_eq!(last.unwrap(), "replace [] at 30, rolled back", "{other:?}");
}
