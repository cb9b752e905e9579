//! Which requests of a list-watch wait for the client's limits, and which are counted with their
//! duration.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Method;
use pilothouse_core::{Detail, InformerKey};
use serde_json::Value;

use crate::client::{Client, Observer};
use crate::client::{Limit, RateLimits};
use crate::testing::{Record, lists, page, pod, pods};
use crate::testing::{Scenario, ScriptedAnswer, WirePart, stream};
use crate::watch::ListWatch;

/// Durations, sizes and waits, as the observer was told.
#[derive(Default)]
struct Notes {
    took: Mutex<Vec<u64>>,
    sizes: Mutex<Vec<usize>>,
    throttled: Mutex<Vec<u64>>,
}

impl Observer for Notes {
    fn received(&self, _: &Method, bytes: usize) {
        self.sizes.lock().unwrap().push(bytes);
    }

    fn ended(&self, _: &Method, took: Duration) {
        self.took.lock().unwrap().push(took.as_secs());
    }

    fn throttled(&self, _: &Method, waited: Duration) {
        self.throttled.lock().unwrap().push(waited.as_secs());
    }
}

async fn play(script: Vec<ScriptedAnswer>, qps: f64) -> (Scenario, Arc<Notes>) {
    let (scenario, notes) = (Scenario::new(script), Arc::<Notes>::default());
    let limit = Limit::of_flags(Some(qps), Some(1)).unwrap();
    let client = Client::from(scenario.client()).with(RateLimits::new(limit, None), notes.clone());
    let informer_key = InformerKey::all(pods().kind);
    let resource = Arc::new(pods());
    let list_watch = ListWatch::new(client, resource, informer_key, Detail::Full, lists(), 7);
    let mut record = Record::default();
    tokio::select! {
        never = list_watch.run(&mut record) => match never {},
        () = scenario.is_played() => {}
    }
    (scenario, notes)
}

fn size(answer: &ScriptedAnswer) -> usize {
    let ScriptedAnswer::Http { parts, .. } = answer else {
        return 0;
    };
    let sizes = parts.iter().map(|part| match part {
        WirePart::Data(text) => text.len(),
        _ => 0,
    });
    sizes.sum()
}

fn times(scenario: &Scenario) -> Vec<u64> {
    let seen = scenario.seen();
    seen.iter().map(|seen| seen.at.as_secs()).collect()
}

#[tokio::test(start_paused = true)]
async fn pages_and_probes_wait_for_the_limit_and_watches_do_not() {
    let none: [Value; 0] = [];
    // A watch that breaks after a second is followed by a probe.
    let broken = stream(&none, Some(WirePart::Pause(Duration::from_secs(1))));
    let broken = match broken {
        ScriptedAnswer::Http {
            code,
            headers,
            mut parts,
        } => {
            parts.push(WirePart::Break);
            ScriptedAnswer::Http {
                code,
                headers,
                parts,
            }
        }
        other => other,
    };
    let first = page("5", &[pod("a", "3")], "next");
    let second = page("5", &[pod("b", "4")], "");
    let probe = page("5", &[], "");
    let sizes = [&first, &second, &probe].map(size);
    let script = vec![first, second, broken, probe];
    let (scenario, notes) = play(script, 0.5).await;
    // The second page has waited two seconds, the watch not at all. The probe was due about a
    // second after the watch began and has waited almost another second, noted as 0.
    assert_eq!(times(&scenario), [0, 2, 2, 4, 4], "{:?}", scenario.lines());
    assert_eq!(*notes.throttled.lock().unwrap(), [0, 2, 0]);
    assert_eq!(*notes.sizes.lock().unwrap(), sizes);
    assert_eq!(*notes.took.lock().unwrap(), [0, 2, 0], "watches excepted");
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_resumed_though_the_limit_leaves_no_room_for_a_probe() {
    let broken = || stream(&[], Some(WirePart::Break));
    let script = vec![page("5", &[], ""), broken(), broken()];
    let (scenario, notes) = play(script, 0.001).await;
    let lines = scenario.lines();
    assert!(lines[1].contains("watch=true") && lines[2].contains("watch=true"));
    let times = times(&scenario);
    assert!(times[2] - times[1] <= 6, "{times:?}");
    assert_eq!(notes.took.lock().unwrap().len(), 1, "the list");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_ends_in_an_error_has_taken_its_time_too() {
    let mut broken = page("5", &[], "");
    if let ScriptedAnswer::Http { parts, .. } = &mut broken {
        parts.insert(0, WirePart::Pause(Duration::from_secs(3)));
        parts.push(WirePart::Break);
    }
    let (_, notes) = play(vec![broken, page("5", &[], "")], 100.0).await;
    assert_eq!(*notes.took.lock().unwrap(), [3, 0]);
    assert_eq!(notes.sizes.lock().unwrap().len(), 1);
}
