use std::sync::atomic::AtomicUsize;

use pilothouse_core::{InformerId, Kind, ObjectKey, ResourceVersion};

use super::*;
use crate::test_log::logged;

/// A server that counts how many reads run at the same time.
#[derive(Default)]
struct Counting {
    reading: AtomicUsize,
    most: AtomicUsize,
}

impl Counting {
    async fn read(&self, key: &ObjectKey) -> Fetched {
        let reading = self.reading.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(reading, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.reading.fetch_sub(1, Ordering::SeqCst);
        Ok(Some(key.to_string()))
    }
}

fn questions(count: usize) -> Vec<Question> {
    let question = |number| Question {
        informer: InformerId::first_at(0),
        kind: Kind::new("", "v1", "Pod"),
        key: ObjectKey::new("default", &format!("x{number}")),
        cached: None,
        at: ResourceVersion::default(),
        uid: None,
    };
    (0..count).map(question).collect()
}

#[test]
fn a_fetch_that_fails_is_a_line_for_each_consequence_however_many_objects_it_is_of() {
    let no_answer = || Err(ReadFailure::NoAnswer("it is down".into()));
    let refused = || Err(ReadFailure::Refused("it is closed".into()));
    let answers = [Ok(None), no_answer(), refused(), no_answer(), no_answer()];
    let waits = " WARN cannot confirm a write; its key waits kind=v1/Pod \
        object=default/x1 reason=it is down others=2";
    let runs = " WARN not allowed to confirm a write; its key runs anyway kind=v1/Pod \
        object=default/x2 reason=it is closed others=0";
    for (is_cut_off, wanted) in [(false, vec![waits, runs]), (true, vec![runs])] {
        let (log, _guard) = logged();
        tell_unknown(&questions(5), &answers, is_cut_off);
        assert_eq!(log.lines(), wanted);
    }
}

#[tokio::test(start_paused = true)]
async fn a_fetch_of_many_objects_reads_a_few_at_a_time() {
    let questions = questions(1_000);
    let server = Counting::default();
    let answers = answers(&questions, |question| server.read(&question.key)).await;
    let asked = questions.iter().map(|question| question.key.to_string());
    let answered = answers.into_iter().map(|answer| answer.unwrap().unwrap());
    assert!(asked.eq(answered), "each question has its own answer");
    assert_eq!(server.most.into_inner(), MAX_READS);
}
