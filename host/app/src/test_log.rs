//! Captures what the code under test logs, at INFO and above.

use std::io::{self, Write};
use std::sync::{Arc, LazyLock, Mutex};

use tracing::Dispatch;
use tracing::subscriber::{DefaultGuard, NoSubscriber, Subscriber, set_default};
use tracing_subscriber::fmt::MakeWriter;

/// The captured lines, without times.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl Log {
    pub fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

/// Captures this thread's log until the guard is dropped.
pub fn logged() -> (Log, DefaultGuard) {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(log.clone())
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .finish();
    (log, subscribed(subscriber))
}

/// Gives `subscriber` this thread's log until the guard is dropped.
///
/// While there is one subscriber in the process, `tracing` asks the thread that reaches a line for
/// the first time whether anybody wants it, and keeps the answer for all threads. Another test's
/// thread has no subscriber, and the line would be lost here. With a second subscriber all are
/// asked.
pub fn subscribed(subscriber: impl Subscriber + Send + Sync) -> DefaultGuard {
    static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));
    LazyLock::force(&SECOND);
    set_default(subscriber)
}

#[test]
fn a_line_that_another_thread_reached_first_is_captured() {
    fn log_a_line() {
        tracing::info!("a line");
    }
    let (log, _guard) = logged();
    std::thread::spawn(log_a_line).join().unwrap();
    log_a_line();
    assert_eq!(log.lines(), [" INFO a line"]);
}
