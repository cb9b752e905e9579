//! Decides how long an answer about the server's kinds is good. Asks nothing.
//!
//! Kinds come and go with CustomResourceDefinitions and APIServices, and with the server itself.
//! Where the host watches all objects of the two, it is told of changes. An answer from after the
//! last one is good for as long as that was after it, up to an hour: a change can be missed, for
//! example if another API server answers than the one that is watched. Two things are missed more
//! often, and have the server be asked once a minute:
//! - A server of its own behind an APIService may serve more kinds or fewer without a word.
//!   kube-aggregator, too, looks each minute.
//! - Another API server may have taken this one's place, or a newer version. A watch that ends
//!   otherwise than as agreed says so. Of several API servers not each has a watch of this host,
//!   and they are upgraded one after the other, so the next hour is doubtful.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Discovery follows a definition in a few seconds, and the kinds of a server that starts come one
/// after the other. Longer than it takes until a kind that is not served any more counts as gone.
const FOLLOWS_WITHIN: Duration = Duration::from_secs(30);

/// How often the server is asked although nothing has been heard of a change, where one may be
/// missed.
const ASK_IN_DOUBT: Duration = Duration::from_secs(60);

/// How long an answer is good although all changes are told.
const GOOD_FOR_AT_MOST: Duration = Duration::from_secs(60 * 60);

/// How long after a watch was cut another server may be upgraded.
const UPGRADE: Duration = Duration::from_secs(60 * 60);

/// Which kinds the host would be told of if they came or went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Told {
    /// Not all that the API server serves by itself.
    #[default]
    Nothing,
    /// Those that the API server serves by itself. There are others, of servers behind it.
    Own,
    /// All.
    All,
}

/// What has been heard of changes. Shared by all who hear of some.
#[derive(Debug)]
pub(crate) struct KindSigns(Mutex<Heard>);

#[derive(Debug)]
struct Heard {
    told: Told,
    /// When kinds have last come or gone, as far as that is known.
    changed: Instant,
    /// When a watch has last ended otherwise than as agreed.
    cut: Option<Instant>,
}

impl Default for KindSigns {
    fn default() -> Self {
        Self(Mutex::new(Heard {
            told: Told::default(),
            changed: Instant::now(),
            cut: None,
        }))
    }
}

impl KindSigns {
    /// From now on the host is told of this.
    pub(crate) fn set_told(&self, told: Told) {
        self.0.lock().told = told;
    }

    /// Kinds may have come or gone, or have.
    pub(super) fn change(&self) {
        self.0.lock().changed = Instant::now();
    }

    /// A watch has ended otherwise than as agreed.
    pub(crate) fn cut(&self) {
        self.0.lock().cut = Some(Instant::now());
    }

    /// Whether an answer of this time still says which kinds there are. `is_whole`: nothing was
    /// missing in it. `period`: how old it may be where changes are not told.
    pub(crate) fn is_good(&self, answered: Instant, is_whole: bool, period: Duration) -> bool {
        let heard = self.0.lock();
        let age = answered.elapsed();
        if answered < heard.changed {
            return false;
        }
        let has_followed = answered >= heard.changed + FOLLOWS_WITHIN;
        let was_cut = heard.cut.is_some_and(|cut| cut.elapsed() < UPGRADE);
        let good_for = match heard.told {
            Told::All if has_followed && is_whole && !was_cut => {
                let quiet = answered.duration_since(heard.changed);
                quiet.clamp(ASK_IN_DOUBT, GOOD_FOR_AT_MOST).max(period)
            }
            Told::All | Told::Own if has_followed => period.max(ASK_IN_DOUBT),
            _ => period,
        };
        age < good_for
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(5);
    const HOUR: Duration = Duration::from_secs(3600);

    fn told(told: Told) -> KindSigns {
        let signs = KindSigns::default();
        signs.set_told(told);
        signs
    }

    /// At which seconds the server is asked, if each five seconds somebody wants to know.
    async fn asked(signs: &KindSigns, seconds: u64) -> Vec<u64> {
        let began = Instant::now();
        let mut answered: Option<Instant> = None;
        let mut asked = Vec::new();
        while began.elapsed() < Duration::from_secs(seconds) {
            if !answered.is_some_and(|answered| signs.is_good(answered, true, PERIOD)) {
                answered = Some(Instant::now());
                asked.push(began.elapsed().as_secs());
            }
            tokio::time::advance(PERIOD).await;
        }
        asked
    }

    /// The same after half a minute and an hour in which nothing has happened.
    async fn asked_at_rest(signs: &KindSigns, seconds: u64) -> Vec<u64> {
        tokio::time::advance(FOLLOWS_WITHIN + HOUR).await;
        asked(signs, seconds).await
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_told_of_all_asks_once_an_hour() {
        let asked = asked_at_rest(&told(Told::All), 4 * 3600).await;
        assert_eq!(asked, [0, 3600, 7200, 10800]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_told_of_all_asks_less_and_less_often_after_a_change() {
        let signs = told(Told::All);
        let asked = asked(&signs, 4 * 3600).await;
        let later = asked.into_iter().filter(|at| *at > 30);
        let expected = [90, 180, 360, 720, 1440, 2880, 5760, 9360, 12960];
        assert_eq!(later.collect::<Vec<_>>(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_told_of_the_servers_own_kinds_asks_once_a_minute() {
        assert_eq!(asked_at_rest(&told(Told::Own), 125).await, [0, 60, 120]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_told_of_nothing_asks_each_time() {
        assert_eq!(asked_at_rest(&told(Told::Nothing), 15).await, [0, 5, 10]);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_change_the_server_is_asked_each_time_for_half_a_minute() {
        for of in [Told::All, Told::Own] {
            let signs = told(of);
            tokio::time::advance(HOUR).await;
            signs.change();
            let asked = asked(&signs, 60).await;
            assert_eq!(asked, [0, 5, 10, 15, 20, 25, 30], "{of:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_from_before_a_change_is_not_good_however_young() {
        let signs = told(Told::All);
        tokio::time::advance(HOUR).await;
        let answered = Instant::now();
        assert!(signs.is_good(answered, true, PERIOD));
        tokio::time::advance(Duration::from_secs(1)).await;
        signs.change();
        assert!(!signs.is_good(answered, true, PERIOD));
        assert!(signs.is_good(Instant::now(), true, PERIOD));
    }

    #[tokio::test(start_paused = true)]
    async fn for_an_hour_after_a_watch_was_cut_the_server_is_asked_once_a_minute() {
        let signs = told(Told::All);
        tokio::time::advance(FOLLOWS_WITHIN).await;
        signs.cut();
        let asked = asked(&signs, 3600).await;
        let once_a_minute: Vec<u64> = (0..60).map(|minute| minute * 60).collect();
        assert_eq!(asked, once_a_minute);
    }

    #[tokio::test(start_paused = true)]
    async fn who_wants_to_know_less_often_than_once_a_minute_does_not_ask_more_often() {
        let signs = told(Told::Own);
        tokio::time::advance(HOUR).await;
        let answered = Instant::now();
        tokio::time::advance(Duration::from_secs(90)).await;
        assert!(signs.is_good(answered, true, Duration::from_secs(100)));
        assert!(!signs.is_good(answered, true, PERIOD));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_in_which_something_is_missing_is_good_for_a_minute() {
        let signs = told(Told::All);
        tokio::time::advance(HOUR).await;
        let answered = Instant::now();
        tokio::time::advance(Duration::from_secs(59)).await;
        assert!(signs.is_good(answered, false, PERIOD));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!signs.is_good(answered, false, PERIOD));
        assert!(signs.is_good(answered, true, PERIOD));
    }
}
