//! A server that is asked again says whether anything has changed.

use super::*;

fn tagged(answer: ScriptedAnswer, tag: &str) -> ScriptedAnswer {
    answer.with_header("etag", tag)
}

fn unchanged() -> ScriptedAnswer {
    text(304, "")
}

fn tags(scenario: &Scenario) -> Vec<String> {
    scenario.seen().into_iter().map(|seen| seen.tag).collect()
}

async fn count(discovery: &Discovery) -> usize {
    tokio::time::advance(FRESH).await;
    discovery.kinds().await.unwrap().len()
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_nothing_new_says_so_and_all_kinds_stay() {
    let scenario = Scenario::new([
        tagged(core(), "a"),
        tagged(groups(), "b"),
        unchanged(),
        unchanged(),
        unchanged(),
        unchanged(),
    ]);
    let discovery = Discovery::new(scenario.client());
    for _ in 0..3 {
        assert_eq!(count(&discovery).await, 6);
    }
    assert_eq!(tags(&scenario), ["", "", "a", "b", "a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn if_one_document_has_changed_the_other_is_read_again() {
    let scenario = Scenario::new([
        tagged(core(), "a"),
        tagged(groups(), "b"),
        unchanged(),
        tagged(aggregated(&json!([])), "c"),
        tagged(core(), "a"),
        unchanged(),
        unchanged(),
    ]);
    let discovery = Discovery::new(scenario.client());
    assert_eq!(count(&discovery).await, 6);
    assert_eq!(count(&discovery).await, 3);
    assert_eq!(count(&discovery).await, 3);
    let lines = scenario.lines();
    assert_eq!(lines[2..5], ["GET /api", "GET /apis", "GET /api"]);
    assert_eq!(tags(&scenario)[2..], ["a", "b", "", "a", "c"]);
}

#[tokio::test(start_paused = true)]
async fn after_a_kind_was_forgotten_the_documents_are_read_whatever_their_tags() {
    let scenario = Scenario::new([
        tagged(core(), "a"),
        tagged(groups(), "b"),
        tagged(core(), "a"),
        tagged(groups(), "b"),
    ]);
    let discovery = Discovery::new(scenario.client());
    assert_eq!(count(&discovery).await, 6);
    discovery.forget(&kind("v1/Pod"));
    assert_eq!(count(&discovery).await, 6);
    assert_eq!(tags(&scenario), ["", "", "", ""]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_is_not_asked_more_often_than_without_tags() {
    let scenario = Scenario::new([
        tagged(core(), "a"),
        tagged(groups(), "b"),
        ScriptedAnswer::Refused,
        ScriptedAnswer::Refused,
    ]);
    let discovery = Discovery::new(scenario.client());
    assert_eq!(count(&discovery).await, 6);
    tokio::time::advance(FRESH).await;
    assert!(discovery.kinds().await.is_err());
    assert_eq!(scenario.lines().len(), 4);
}
