//! A watch that ends otherwise than as agreed: behind its path may be another server by then.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_core::{Detail, InformerKey};
use tokio::time::Instant;

use crate::discovery::{KindSigns, Told};
use crate::testing::{Record, Scenario, ScriptedAnswer, WirePart};
use crate::testing::{list_watch, lists, page, pods, status, stream};

const SECOND: Duration = Duration::from_secs(1);

/// Whether a kind's watches, after a first one that is silent for ten seconds, tell of a cut.
async fn is_cut(watches: impl IntoIterator<Item = ScriptedAnswer>) -> bool {
    let begin = [page("40", &[], ""), stream(&[], Some(WirePart::Hang))];
    let scenario = Scenario::new(begin.into_iter().chain(watches));
    let signs = Arc::new(KindSigns::default());
    signs.set_told(Told::All);
    tokio::time::advance(3600 * SECOND).await;
    let answered = Instant::now();
    let informer_key = InformerKey::all(pods().kind);
    let list_watch = list_watch(&scenario, informer_key, Detail::Full, lists());
    let mut record = Record::default();
    tokio::select! {
        never = list_watch.telling(signs.clone()).run(&mut record) => match never {},
        () = scenario.is_played() => {}
    }
    tokio::time::advance(60 * SECOND).await;
    !signs.is_good(answered, true, SECOND)
}

/// A watch that the server ends after this time.
fn ends_after(time: Duration) -> ScriptedAnswer {
    ScriptedAnswer::Http {
        code: 200,
        headers: vec![],
        parts: vec![WirePart::Pause(time)],
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_when_its_time_is_over_is_none() {
    let a_bit_early = Duration::from_millis(8_600);
    assert!(!is_cut([9 * SECOND, a_bit_early].map(ends_after)).await);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_too_early_is_one() {
    assert!(is_cut([ends_after(8 * SECOND)]).await);
    assert!(is_cut([ends_after(Duration::ZERO)]).await);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_or_is_refused_is_one() {
    assert!(is_cut([stream(&[], Some(WirePart::Break))]).await);
    assert!(is_cut([ScriptedAnswer::Refused]).await);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_gets_no_answer_is_one() {
    assert!(is_cut([status(410, "Expired", "no"), ScriptedAnswer::Refused]).await);
}

#[tokio::test(start_paused = true)]
async fn what_a_server_refuses_or_no_longer_has_is_none() {
    for (code, reason) in [
        (403, "Forbidden"),
        (429, "TooManyRequests"),
        (410, "Expired"),
    ] {
        assert!(!is_cut([status(code, reason, "no")]).await, "{code}");
    }
}
