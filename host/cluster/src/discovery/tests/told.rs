//! A host that is told of the kinds that come and go asks for them then, and not again and again.

use super::*;

/// After this long without a change an answer is good for as long.
const LONG: Duration = Duration::from_secs(3600);

const MINUTE: Duration = Duration::from_secs(60);

/// It has answered once, and the host is told of all that happens.
async fn told(scenario: &Scenario) -> Discovery {
    let discovery = Discovery::new(scenario.client());
    discovery.set_told(Told::All);
    discovery.ask_now().await.unwrap();
    tokio::time::advance(LONG).await;
    discovery.ask_now().await.unwrap();
    tokio::time::advance(MINUTE).await;
    discovery
}

/// A server that has answered twice by then, and has the kind `new.io/v1/Bar` from the third time
/// on, which is asked this often.
fn settled(times: usize) -> Scenario {
    let no_groups = || aggregated(&json!([]));
    let twice = [core(), no_groups(), core(), no_groups()].into_iter();
    let later = (0..times).flat_map(|_| [core(), with_bar()]);
    Scenario::new(twice.chain(later))
}

fn times(scenario: &Scenario) -> usize {
    scenario.lines().len() / 2
}

#[tokio::test(start_paused = true)]
async fn that_a_kind_is_absent_is_believed_until_something_tells_of_kinds() {
    let scenario = settled(1);
    let discovery = told(&scenario).await;
    let bar = kind("new.io/v1/Bar");
    for _ in 0..10 {
        assert!(!discovery.serves(&bar, None).await.unwrap());
        assert!(discovery.look_for(&bar, None).await.is_err());
        tokio::time::advance(5 * MINUTE).await;
    }
    assert_eq!(times(&scenario), 2);
    discovery.note_change();
    assert!(discovery.serves(&bar, None).await.unwrap());
    assert_eq!(times(&scenario), 3);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_nothing_has_told_of_is_found_within_an_hour() {
    let scenario = settled(1);
    let discovery = told(&scenario).await;
    let bar = kind("new.io/v1/Bar");
    tokio::time::advance(58 * MINUTE).await;
    assert!(!discovery.serves(&bar, None).await.unwrap());
    tokio::time::advance(MINUTE).await;
    assert!(discovery.serves(&bar, None).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_known_is_found_while_the_server_is_asked() {
    let core = core();
    let scenario = Scenario::new([core, groups(), ScriptedAnswer::Silence]);
    let discovery = Discovery::new(scenario.client());
    discovery.ask_now().await.unwrap();
    tokio::time::advance(MINUTE).await;
    let asking = discovery.ask_now();
    tokio::pin!(asking);
    assert!(futures::poll!(&mut asking).is_pending());
    let pods = kind("v1/Pod");
    let found = discovery.look_for(&pods, None);
    let found = tokio::time::timeout(Duration::from_secs(1), found).await;
    assert_eq!(found.unwrap().unwrap().plural, "pods");
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_kind_finds_it_when_something_tells_of_kinds() {
    let scenario = settled(1);
    let discovery = told(&scenario).await;
    let bar = kind("new.io/v1/Bar");
    let error = discovery.look_for(&bar, None).await.unwrap_err();
    assert!(error.is_absence(), "{error}");
    discovery.note_change();
    assert_eq!(discovery.look_for(&bar, None).await.unwrap().plural, "bars");
}

/// A plugin may define a kind and write its first object at once.
#[tokio::test(start_paused = true)]
async fn who_writes_asks_for_a_kind_that_is_not_known() {
    let scenario = settled(1);
    let discovery = told(&scenario).await;
    assert!(discovery.resolve(&kind("new.io/v1/Bar")).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_kind_whose_path_has_gone_is_asked_for() {
    let scenario = settled(1);
    let discovery = told(&scenario).await;
    discovery.forget(&kind("v1/Pod"));
    assert!(!discovery.lacks(&kind("v1/Pod")), "nobody has said so");
    assert!(discovery.look_for(&kind("v1/Pod"), None).await.is_ok());
    assert_eq!(times(&scenario), 3);
}

#[tokio::test(start_paused = true)]
async fn an_answer_with_other_kinds_has_the_server_be_asked_until_nothing_changes_any_more() {
    let later = (1..10).flat_map(|_| [core(), with_bar()]);
    let scenario = Scenario::new([core(), groups()].into_iter().chain(later));
    let discovery = Discovery::new(scenario.client());
    discovery.set_told(Told::All);
    let five = Duration::from_secs(5);
    let mut asked = Vec::new();
    for second in (0..120).step_by(5) {
        if !discovery.is_current(five).await {
            discovery.ask_now().await.unwrap();
            asked.push(second);
        }
        tokio::time::advance(five).await;
    }
    assert_eq!(
        asked,
        [0, 5, 10, 15, 20, 25, 30, 35, 95],
        "the second has others"
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_server_lacks_is_what_it_has_said_that_it_does_not_serve() {
    let scenario = Scenario::new([core(), groups()]);
    let discovery = Discovery::new(scenario.client());
    let lacks = |text: &str| discovery.lacks(&kind(text));
    assert!(!lacks("new.io/v1/Bar"), "it has not been asked");
    discovery.ask_now().await.unwrap();
    assert!(lacks("new.io/v1/Bar"));
    assert!(!lacks("v1/Pod"));
    assert!(
        !lacks("metrics.k8s.io/v1beta1/PodMetrics"),
        "it does not answer"
    );
}
