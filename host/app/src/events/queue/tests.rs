use std::time::Duration;

use pilothouse_core::{Author, Kind, ObjectKey, Operation, Write};
use tokio::time::{Instant, advance, sleep};

use super::*;

/// How long the server takes for an Event.
const ROUND_TRIP: Duration = Duration::from_millis(25);

fn event(plugin: &str, note: &str) -> TakenEvent {
    TakenEvent {
        author: Arc::new(Author::named(plugin)),
        write: Write {
            kind: Kind::new("", "v1", "Pod"),
            key: ObjectKey::new("default", "a"),
            subresource: None,
            operation: Operation::Event {
                uid: None,
                is_warning: false,
                reason: "Made".into(),
                action: "Make".into(),
                note: note.into(),
            },
        },
    }
}

fn events(plugin: &str, count: usize) -> Vec<TakenEvent> {
    let notes = 0..count;
    notes.map(|note| event(plugin, &note.to_string())).collect()
}

/// An Event as the server has seen it.
struct Sent {
    plugin: String,
    note: String,
    /// Since the test began.
    time: Duration,
}

/// A server that takes a round trip for each Event, and an hour for those of the plugin `stuck`.
/// It cannot be reached by an Event whose note is `lost`.
struct Server {
    began: Instant,
    sent: Mutex<Vec<Sent>>,
    failures: Mutex<Vec<ActionResult>>,
}

impl Server {
    fn new() -> Self {
        Self {
            began: Instant::now(),
            sent: Mutex::default(),
            failures: Mutex::default(),
        }
    }

    async fn send(&self, event: TakenEvent) -> ActionResult {
        let plugin = event.author.plugin.clone();
        let Operation::Event { note, .. } = event.write.operation else {
            panic!("{:?}", event.write);
        };
        let is_lost = note == "lost";
        let takes = if plugin == "stuck" {
            Duration::from_secs(3600)
        } else {
            ROUND_TRIP
        };
        let time = self.began.elapsed();
        self.sent.lock().push(Sent { plugin, note, time });
        sleep(takes).await;
        if is_lost {
            ActionResult::Unavailable("nobody there".into())
        } else {
            ActionResult::Done(None)
        }
    }

    /// Writes what the queue has, until it is closed.
    async fn serve(&self, queue: &EventQueue) {
        let send = |event| self.send(event);
        let note = |_: &str, result: ActionResult| {
            if result.error().is_some() {
                self.failures.lock().push(result);
            }
        };
        queue.write(send, note).await;
    }

    /// The notes of a plugin's Events.
    fn notes(&self, plugin: &str) -> Vec<String> {
        let sent = self.sent.lock();
        let own = sent.iter().filter(|sent| sent.plugin == plugin);
        own.map(|sent| sent.note.clone()).collect()
    }

    /// When a plugin's Events were sent.
    fn times(&self, plugin: &str) -> Vec<Duration> {
        let sent = self.sent.lock();
        let own = sent.iter().filter(|sent| sent.plugin == plugin);
        own.map(|sent| sent.time).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn events_of_a_plugin_are_written_in_order_and_one_at_a_time() {
    let (queue, server) = (EventQueue::default(), Server::new());
    let add = |note: &str| {
        let batch = vec![event("a", note), event("a", &format!("{note}+"))];
        assert_eq!(queue.add("a", batch), 0);
    };
    add("1");
    let later = async {
        sleep(ROUND_TRIP / 2).await;
        ["2", "3"].into_iter().for_each(add);
        assert_eq!(queue.count(), 6);
        sleep(ROUND_TRIP * 2).await;
        assert_eq!(queue.count(), 4, "the first two are written");
        queue.close();
    };
    tokio::join!(server.serve(&queue), later);
    assert_eq!(server.notes("a"), ["1", "1+", "2", "2+", "3", "3+"]);
    let times = server.times("a");
    let one_after_the_other = times.windows(2).all(|two| two[1] - two[0] >= ROUND_TRIP);
    assert!(one_after_the_other, "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_more_than_a_thousand_of_a_plugin_is_dropped_until_some_are_written() {
    let (queue, server) = (EventQueue::default(), Server::new());
    assert_eq!(queue.add("a", events("a", MAX_QUEUED - 1)), 0);
    let last = vec![event("a", "fits"), event("a", "does not fit")];
    assert_eq!(queue.add("a", last), 1);
    assert_eq!(queue.add("a", events("a", 5)), 5);
    assert_eq!(queue.add("b", events("b", 5)), 0, "each has a queue");
    assert_eq!(queue.count(), MAX_QUEUED + 5);
    let later = async {
        sleep(ROUND_TRIP * 2_000).await;
        assert_eq!(queue.count(), 0);
        assert!(queue.waiting.lock().plugins.is_empty(), "nothing is left");
        assert_eq!(server.notes("a").last().unwrap(), "fits");
        assert_eq!(queue.add("a", events("a", MAX_QUEUED)), 0, "there is room");
        queue.close();
    };
    tokio::join!(server.serve(&queue), later);
    assert_eq!(server.notes("a").len(), 2 * MAX_QUEUED);
}

#[tokio::test(start_paused = true)]
async fn what_is_being_written_counts_too() {
    let (queue, server) = (EventQueue::default(), Server::new());
    queue.add("stuck", events("stuck", 100));
    let later = async {
        sleep(ROUND_TRIP).await;
        let fits = MAX_QUEUED - 100;
        assert_eq!(
            queue.add("stuck", events("stuck", MAX_QUEUED)),
            MAX_QUEUED - fits
        );
        assert_eq!(queue.count(), MAX_QUEUED);
    };
    tokio::select! {
        () = server.serve(&queue) => panic!("it is stuck"),
        () = later => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_whose_events_get_no_answer_delays_no_other() {
    let (queue, server) = (EventQueue::default(), Server::new());
    queue.add("stuck", events("stuck", MAX_QUEUED));
    let later = async {
        sleep(ROUND_TRIP).await;
        queue.add("a", events("a", 10));
        sleep(ROUND_TRIP * 11).await;
    };
    tokio::select! {
        () = server.serve(&queue) => panic!("it is stuck"),
        () = later => {}
    }
    assert_eq!(server.notes("a").len(), 10);
    assert_eq!(server.notes("stuck").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_waits_for_one_turn_of_each_that_records_many() {
    let (queue, server) = (EventQueue::default(), Server::new());
    let many = 4 * MAX_WRITERS;
    for _ in 0..20 {
        for plugin in 0..many {
            let plugin = format!("many-{plugin}");
            assert_eq!(queue.add(&plugin, events(&plugin, 10)), 0);
        }
    }
    queue.add("few", events("few", 1));
    queue.close();
    server.serve(&queue).await;
    let turns = u32::try_from(many / MAX_WRITERS).unwrap();
    // tokio's clock has whole milliseconds.
    let wanted = (ROUND_TRIP + Duration::from_millis(1)) * 10 * turns;
    let waited = server.times("few")[0];
    assert!(waited <= wanted, "{waited:?} instead of {wanted:?}");
    assert!(*server.times("many-0").last().unwrap() > 10 * wanted);
}

#[tokio::test(start_paused = true)]
async fn after_an_event_that_finds_no_cluster_the_others_of_its_reconcile_are_dropped() {
    let (queue, server) = (EventQueue::default(), Server::new());
    let notes = ["written", "lost", "dropped", "dropped too"];
    queue.add("a", notes.map(|note| event("a", note)).into());
    queue.add("a", vec![event("a", "of the next")]);
    queue.close();
    server.serve(&queue).await;
    assert_eq!(server.notes("a"), ["written", "lost", "of the next"]);
    assert_eq!(server.failures.lock().len(), 1, "that of the lost one");
    assert_eq!(queue.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_comes_to_an_idle_queue_is_written_at_once() {
    let (queue, server) = (EventQueue::default(), Server::new());
    let later = async {
        advance(Duration::from_secs(60)).await;
        queue.add("a", events("a", 1));
        queue.close();
    };
    tokio::join!(server.serve(&queue), later);
    assert_eq!(server.times("a"), [Duration::from_secs(60)]);
}
