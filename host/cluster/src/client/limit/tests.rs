use std::task::Poll;

use futures::FutureExt;
use futures::future::join_all;

use super::*;

fn limit(qps: f64, burst: u32) -> Limit {
    Limit { qps, burst }
}

/// The times, in milliseconds, at which each of `requests` made at once may be sent.
async fn times(limits: &RateLimits, requests: usize, plugin: Option<&str>) -> Vec<u128> {
    let started = Instant::now();
    let waits = (0..requests).map(async |_| {
        limits.wait(&limits.lane(plugin)).await;
        started.elapsed().as_millis()
    });
    join_all(waits).await
}

#[test]
fn flags_say_a_limit_or_none() {
    let of = Limit::of_flags;
    assert_eq!(of(None, None), Ok(None));
    assert_eq!(of(Some(5.0), None), Ok(Some(limit(5.0, 10))));
    assert_eq!(of(Some(0.5), Some(3)), Ok(Some(limit(0.5, 3))));
    assert_eq!(of(Some(5.0), Some(0)), Ok(Some(limit(5.0, 10))));
    assert_eq!(of(Some(0.0), Some(3)), Ok(None), "off, said outright");
    assert_eq!(of(Some(-1.0), None), Ok(None));
    assert_eq!(of(None, Some(3)), Err(LimitError::BurstWithoutRate));
    assert_eq!(of(Some(f64::NAN), None), Err(LimitError::NotFinite));
    assert_eq!(of(Some(f64::INFINITY), None), Err(LimitError::NotFinite));
}

#[tokio::test(start_paused = true)]
async fn a_burst_goes_at_once_and_the_rest_at_the_rate() {
    let limits = RateLimits::new(Some(limit(10.0, 3)), None);
    assert_eq!(times(&limits, 6, None).await, [0, 0, 0, 100, 200, 300]);
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(
        times(&limits, 4, None).await,
        [0, 0, 0, 100],
        "no more than the burst is saved up"
    );
}

#[tokio::test(start_paused = true)]
async fn without_a_limit_nobody_waits_and_nothing_is_measured() {
    let limits = RateLimits::default();
    assert_eq!(limits.wait(&limits.lane(Some("a"))).await, None);
    let limits = RateLimits::new(None, Some(limit(1.0, 1)));
    assert_eq!(
        limits.wait(&limits.lane(None)).await,
        None,
        "the host's own"
    );
    assert_eq!(
        limits.wait(&limits.lane(Some("a"))).await,
        Some(Duration::ZERO)
    );
}

#[tokio::test(start_paused = true)]
async fn each_plugin_has_a_bucket_of_its_own_and_all_share_the_hosts() {
    let limits = RateLimits::new(None, Some(limit(1.0, 1)));
    let (a, b) = tokio::join!(times(&limits, 2, Some("a")), times(&limits, 2, Some("b")));
    assert_eq!((a, b), (vec![0, 1000], vec![0, 1000]));
    let limits = RateLimits::new(Some(limit(1.0, 1)), Some(limit(10.0, 1)));
    let (a, b) = tokio::join!(times(&limits, 2, Some("a")), times(&limits, 1, Some("b")));
    assert_eq!((a, b), (vec![0, 2000], vec![1000]));
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_waits_for_its_own_bucket_is_not_in_the_hosts_line() {
    let limits = RateLimits::new(Some(limit(1.0, 1)), Some(limit(0.01, 1)));
    limits.wait(&limits.lane(Some("a"))).await;
    let slow = times(&limits, 1, Some("a"));
    let quick = times(&limits, 1, Some("b"));
    let (slow, quick) = tokio::join!(slow, quick);
    assert_eq!((slow, quick), (vec![100_000], vec![1000]));
}

#[tokio::test(start_paused = true)]
async fn who_comes_first_is_served_first() {
    let limits = RateLimits::new(Some(limit(1.0, 1)), None);
    let order = Mutex::new(Vec::new());
    // Woken tasks are polled in the opposite order each time; only the first poll queues them.
    let waits = (0..5).map(|number| {
        let (limits, order) = (&limits, &order);
        async move {
            limits.wait(&limits.lane(None)).await;
            order.lock().push(number);
        }
        .boxed_local()
    });
    let mut waits: Vec<_> = waits.collect();
    let mut is_first = true;
    std::future::poll_fn(|context| {
        let mut poll = |wait: &mut futures::future::LocalBoxFuture<'_, ()>| {
            wait.as_mut().poll(context).is_pending()
        };
        if std::mem::take(&mut is_first) {
            waits.retain_mut(&mut poll);
        } else {
            waits.reverse();
            waits.retain_mut(&mut poll);
            waits.reverse();
        }
        if waits.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    assert_eq!(*order.lock(), [0, 1, 2, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_given_up_takes_no_token_and_holds_up_nobody() {
    let limits = RateLimits::new(Some(limit(1.0, 1)), None);
    let lane = limits.lane(None);
    limits.wait(&lane).await;
    let given_up = tokio::time::timeout(Duration::from_millis(900), limits.wait(&lane));
    assert!(given_up.await.is_err());
    assert_eq!(limits.wait(&lane).await, Some(Duration::from_millis(100)));
}

#[tokio::test(start_paused = true)]
async fn a_rate_next_to_nothing_is_a_long_wait_and_no_panic() {
    let limits = RateLimits::new(Some(limit(1e-300, 1)), None);
    let lane = limits.lane(None);
    limits.wait(&lane).await;
    let hour = tokio::time::timeout(Duration::from_secs(3600), limits.wait(&lane));
    assert!(hour.await.is_err());
}

#[tokio::test(start_paused = true)]
async fn one_long_wait_in_ten_seconds_is_logged_with_the_number_of_the_others() {
    let sampler = Sampler::default();
    assert_eq!(sampler.sample(), Some(0));
    assert_eq!(sampler.sample(), None);
    tokio::time::advance(Duration::from_secs(9)).await;
    assert_eq!(sampler.sample(), None);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(sampler.sample(), Some(2));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_of_a_plugin_that_has_gone() {
    let limits = RateLimits::new(None, Some(limit(1.0, 1)));
    for number in 0..100 {
        let plugin = format!("plugin-{number}");
        limits.lane(Some(&plugin));
        limits.forget(&plugin);
    }
    limits.lane(None);
    assert_eq!(limits.lanes.lock().len(), 1, "the host's own");
}
