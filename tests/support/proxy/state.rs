//! The state that the proxy's connections and the test share.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use super::link::{Link, Mode, Order};
use super::record::Record;
use super::request::{Seen, Which};
use super::rule::{Rule, What};

#[derive(Default)]
pub(super) struct State {
    rules: Mutex<Vec<Arc<Rule>>>,
    /// Notified of every change of `rules`.
    rules_changed: watch::Sender<()>,
    links: Mutex<Vec<Weak<Link>>>,
    record: Mutex<Record>,
    /// What becomes of new connections.
    new_mode: Mutex<Option<Mode>>,
    is_turning_away: AtomicBool,
    turned_away: AtomicUsize,
    /// Whether the test wants the proxy to listen, and whether it does.
    wants_listener: watch::Sender<bool>,
    has_listener: watch::Sender<bool>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl State {
    pub(super) fn record(&self) -> MutexGuard<'_, Record> {
        lock(&self.record)
    }

    // Rules.

    pub(super) fn add_rule(&self, rule: Arc<Rule>) {
        lock(&self.rules).push(rule);
        self.rules_changed.send_replace(());
    }

    pub(super) fn lift(&self, rule: &Arc<Rule>) {
        lock(&self.rules).retain(|other| !Arc::ptr_eq(rule, other));
        rule.lift();
        self.rules_changed.send_replace(());
    }

    pub(super) fn lift_all(&self) {
        for rule in std::mem::take(&mut *lock(&self.rules)) {
            rule.lift();
        }
        self.rules_changed.send_replace(());
    }

    pub(super) fn rules_changed(&self) -> watch::Receiver<()> {
        self.rules_changed.subscribe()
    }

    /// Returns the rules for a request, in the order in which they apply, and counts it as their
    /// hit.
    pub(super) fn rules_for(&self, seen: &Seen) -> Vec<Arc<Rule>> {
        let mut found = Vec::new();
        for rule in lock(&self.rules).iter() {
            if !rule.what.is_of_lines() && rule.matches(seen) && rule.take() {
                found.push(rule.clone());
                if rule.what.is_final() {
                    break;
                }
            }
        }
        found
    }

    pub(super) fn is_stalled(&self, watch: &Seen) -> bool {
        let is_stall = |rule: &Arc<Rule>| matches!(rule.what, What::Stall) && rule.matches(watch);
        lock(&self.rules).iter().any(is_stall)
    }

    /// Returns how many events to hold back for reversing, 0 if there is no such rule.
    pub(super) fn to_reverse(&self, watch: &Seen) -> usize {
        let rules = lock(&self.rules);
        let counts = rules.iter().filter_map(|rule| match rule.what {
            What::Reverse(count) if rule.matches(watch) => Some(count),
            _ => None,
        });
        counts.max().unwrap_or_default()
    }

    /// Counts a group of events that was sent in reverse order.
    pub(super) fn reversed(&self, watch: &Seen) {
        let is_reverse =
            |rule: &&Arc<Rule>| matches!(rule.what, What::Reverse(_)) && rule.matches(watch);
        for rule in lock(&self.rules).iter().filter(is_reverse) {
            rule.take();
        }
    }

    /// Records a line from the server. Returns the lines to send in its place, and how much later.
    pub(super) fn pass_line(&self, watch: &Seen, line: String) -> (Vec<String>, Duration) {
        self.record().line(watch, &line);
        let rules = lock(&self.rules);
        let mut delay = Duration::ZERO;
        let mut lines = vec![line];
        for rule in rules.iter().filter(|rule| rule.matches(watch)) {
            match rule.what {
                What::DelayLines(time) if rule.take() => delay += time,
                What::Edit(_) => {
                    let edit = |line: String| rule.edit(&line).unwrap_or_else(|| vec![line]);
                    lines = lines.into_iter().flat_map(edit).collect();
                }
                _ => {}
            }
        }
        (lines, delay)
    }

    // Connections.

    pub(super) fn add_link(&self, link: &Arc<Link>) {
        let mode = *lock(&self.new_mode);
        if let Some(mode) = mode {
            link.set_mode(mode);
        }
        let mut links = lock(&self.links);
        links.retain(|link| link.strong_count() > 0);
        links.push(Arc::downgrade(link));
    }

    fn links(&self, which: &Which) -> Vec<Arc<Link>> {
        let links = lock(&self.links);
        let alive = links.iter().filter_map(Weak::upgrade);
        alive.filter(|link| link.matches(which)).collect()
    }

    pub(super) fn set_mode(&self, which: &Which, mode: Mode) -> usize {
        let links = self.links(which);
        links.iter().filter(|link| link.set_mode(mode)).count()
    }

    /// New connections have this mode from now on.
    pub(super) fn set_new_mode(&self, mode: Option<Mode>) {
        *lock(&self.new_mode) = mode;
    }

    /// Turns new connections away, or stops that. Starting sets the count to 0.
    pub(super) fn turn_away(&self, is_wanted: bool) {
        if is_wanted {
            self.turned_away.store(0, Ordering::SeqCst);
        }
        self.is_turning_away.store(is_wanted, Ordering::SeqCst);
    }

    /// Returns whether to turn away a new connection, and counts it if so.
    pub(super) fn turns_away(&self) -> bool {
        let is_so = self.is_turning_away.load(Ordering::SeqCst);
        if is_so {
            self.turned_away.fetch_add(1, Ordering::SeqCst);
        }
        is_so
    }

    pub(super) fn turned_away(&self) -> usize {
        self.turned_away.load(Ordering::SeqCst)
    }

    pub(super) fn thaw(&self) {
        for link in self.links(&super::all()) {
            link.thaw();
        }
    }

    pub(super) fn close_streams(&self, which: &Which) -> usize {
        self.order(which, || Order::Close)
    }

    pub(super) fn inject(&self, which: &Which, line: &str) -> usize {
        self.order(which, || Order::Line(line.to_owned()))
    }

    fn order(&self, which: &Which, order: impl Fn() -> Order) -> usize {
        let links = self.links(which);
        links.iter().filter(|link| link.order(order())).count()
    }

    pub(super) fn open_streams(&self, which: &Which) -> usize {
        let links = self.links(which);
        links.iter().filter(|link| link.has_stream()).count()
    }

    // The listener.

    /// Starts or stops listening, and returns once that is done.
    pub(super) async fn listen(&self, is_wanted: bool) {
        self.wants_listener.send_replace(is_wanted);
        let mut has_listener = self.has_listener.subscribe();
        // This value holds both senders, so waiting cannot fail.
        let _ = has_listener.wait_for(|is| *is == is_wanted).await;
    }

    pub(super) async fn until_listener_is_wanted(&self, is_wanted: bool) {
        let mut wants_listener = self.wants_listener.subscribe();
        let _ = wants_listener.wait_for(|is| *is == is_wanted).await;
    }

    pub(super) fn has_listener(&self, is_so: bool) {
        self.has_listener.send_replace(is_so);
    }
}
