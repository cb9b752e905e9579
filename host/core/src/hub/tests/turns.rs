//! Which plugin's turn it is, and when a key runs although nothing has changed.

use super::*;

#[test]
fn a_plugin_that_resyncs_runs_every_subject_again_with_low_priority() {
    let mut rig = Rig::default();
    let settings = ControllerSettings {
        resync: Some(Duration::from_secs(60)),
        ..ControllerSettings::default()
    };
    rig.join_with(manifest("p"), &settings, nothing);
    rig.join(manifest("never"), nothing);
    rig.sync(&service());
    rig.sync(&pod());
    rig.put(&service(), "a", "");
    rig.put(&service(), "b", "");
    rig.run();
    let Next::Idle(Some(due)) = rig.hub.next(rig.now, 0) else {
        panic!("the next resync has no time");
    };
    assert!((60..=120).contains(&due.as_secs()), "{due:?}");
    rig.now = due;
    let reconcile = rig.take().unwrap();
    assert_eq!(
        (reconcile.held.plugin_name(), reconcile.held.priority),
        ("p", LOW)
    );
    assert_eq!(rig.run().len(), 1, "and the other subject");
}

#[test]
fn a_plugin_whose_guests_are_slow_leaves_a_thread_to_others() {
    let mut rig = Rig {
        hub: Hub::with_threads(3),
        ..Rig::default()
    };
    rig.join(manifest("slow"), nothing);
    rig.sync(&service());
    rig.sync(&pod());
    (0..10).for_each(|number| rig.put(&service(), &format!("s{number}"), ""));
    let alone: Vec<Reconcile> = std::iter::from_fn(|| rig.take()).collect();
    assert_eq!(alone.len(), 10, "alone it may use them all");
    for reconcile in alone {
        rig.finish(reconcile.run());
    }
    rig.join(manifest("calm"), nothing);
    let slow: Vec<String> = std::iter::from_fn(|| rig.take())
        .map(|reconcile| reconcile.held.plugin_name().to_owned())
        .collect();
    assert_eq!(slow, ["calm", "calm"], "of three threads two");
}

#[test]
fn plugins_whose_guests_take_long_get_half_of_the_threads_together() {
    let mut rig = Rig {
        hub: Hub::with_threads(4),
        ..Rig::default()
    };
    for name in ["slow-1", "slow-2", "calm"] {
        rig.join(manifest(name), nothing);
    }
    rig.sync(&service());
    rig.sync(&pod());
    let names = |reconciles: &[Reconcile]| -> Vec<String> {
        reconciles
            .iter()
            .map(|reconcile| reconcile.held.plugin_name().to_owned())
            .collect()
    };
    let is_slow = |reconcile: &Reconcile| reconcile.held.plugin_name() != "calm";
    let end = |rig: &mut Rig, reconciles: Vec<Reconcile>| {
        for reconcile in reconciles {
            rig.finish(reconcile.run());
        }
    };
    // A guest is known to be slow only after it has taken long.
    rig.put(&service(), "a", "");
    let reconciles: Vec<Reconcile> = std::iter::from_fn(|| rig.take()).collect();
    assert_eq!(reconciles.len(), 3);
    let (slow, calm): (Vec<Reconcile>, Vec<Reconcile>) = reconciles.into_iter().partition(is_slow);
    end(&mut rig, calm);
    rig.now += Duration::from_secs(2);
    end(&mut rig, slow);
    (0..10).for_each(|number| rig.put(&service(), &format!("s{number}"), ""));
    let mut busy = Vec::new();
    for _ in 0..20 {
        let Some(reconcile) = rig.take() else { break };
        match is_slow(&reconcile) {
            true => busy.push(reconcile),
            false => end(&mut rig, vec![reconcile]),
        }
    }
    assert_eq!(busy.len(), 2, "{:?}", names(&busy));
    let calm = rig
        .hub
        .status(rig.now)
        .into_iter()
        .find(|controller| controller.name == "calm");
    assert_eq!(
        calm.unwrap().keys.queued,
        0,
        "it was given every turn it wanted"
    );
    // If they only wait for a thread, it is known when they stop counting as slow.
    rig.now += Duration::from_secs(1);
    end(&mut rig, busy);
    let Next::Idle(None) = rig.hub.next(rig.now, 0) else {
        return;
    };
    panic!("their keys are forgotten");
}

#[test]
fn a_key_waits_as_long_as_the_server_asked_for() {
    let mut rig = Rig::with(manifest("p"), nothing);
    rig.put(&service(), "web", "");
    let reconcile = rig.take().unwrap();
    let writing = rig.ran(reconcile);
    let busy = failed(WriteFailure {
        message: "too many requests".into(),
        is_unavailable: false,
        retry_after: Some(Duration::from_secs(30)),
    });
    rig.end(writing, busy);
    rig.now += Duration::from_secs(29);
    assert_eq!(rig.run(), NONE);
    rig.now += Duration::from_secs(1);
    assert_eq!(rig.run(), ["web"]);
}

#[test]
fn a_key_that_fails_each_time_is_not_run_by_every_change() {
    let mut rig = Rig::with(manifest("p"), |request, reader| {
        reader.list(&pod(), None, &ListFilter::Everything).unwrap();
        if request.key.object.name.starts_with("bad") {
            return Err(RunError::Trap("unreachable executed".into()));
        }
        Ok(Outcome::default())
    });
    rig.put(&service(), "bad", "");
    rig.put(&service(), "good", "");
    while rig.hub.status(rig.now)[0].keys.broken.is_empty() {
        rig.now += Duration::from_secs(5);
        rig.run();
    }
    let broken = &rig.hub.status(rig.now)[0].keys.broken[0];
    assert_eq!(
        (&*broken.key.object.name, broken.failures),
        ("bad", crate::queue::BREAK_AFTER)
    );
    assert!(broken.reason.contains("unreachable executed"), "{broken:?}");
    let mut runs = 0;
    for _ in 0..100 {
        rig.now += Duration::from_millis(100);
        rig.put(&pod(), "x", "");
        runs += rig.run().iter().filter(|name| *name == "bad").count();
    }
    assert!((1..=4).contains(&runs), "{runs} runs in ten seconds");
}

#[test]
fn nobody_waits_for_a_time_that_has_passed() {
    let mut rig = Rig {
        hub: Hub::with_threads(3),
        ..Rig::default()
    };
    rig.join(manifest("slow"), |request, _| {
        match &*request.key.object.name {
            "fails" => Err(Failure::Retry("later".into()).into()),
            _ => Ok(Outcome::default()),
        }
    });
    rig.join(manifest("calm"), nothing);
    rig.sync(&service());
    rig.sync(&pod());
    rig.put(&service(), "fails", "");
    rig.run();
    rig.put(&service(), "a", "");
    rig.put(&service(), "b", "");
    let mut busy = Vec::new();
    while let Some(reconcile) = rig.take() {
        if reconcile.held.plugin_name() == "slow"
            && &*reconcile.held.request.key.object.name != "fails"
        {
            busy.push(reconcile);
            continue;
        }
        rig.finish(reconcile.run());
    }
    assert_eq!(busy.len(), 2, "all the threads that one plugin may have");
    rig.now += Duration::from_secs(1);
    let Next::Idle(due) = rig.hub.next(rig.now, 0) else {
        panic!("something runs");
    };
    assert!(
        due.is_none_or(|due| due > rig.now),
        "{due:?} at {:?}",
        rig.now
    );
}

#[test]
fn a_run_that_missed_more_than_its_reads_are_held_against_is_run_again() {
    let lists = |count: usize| {
        move |_: &Request, reader: &mut Reader| {
            for number in 0..count {
                let absent = Requirement::Absent(format!("k{number}"));
                let filter = ListFilter::Labels(LabelSelector {
                    requirements: vec![absent],
                });
                reader.list(&pod(), Some("elsewhere"), &filter).unwrap();
            }
            Ok(Outcome::default())
        }
    };
    for (count, again) in [(50, NONE), (5_000, vec!["a".to_owned()])] {
        let mut rig = Rig::with(manifest("p"), lists(count));
        rig.put(&service(), "a", "");
        let reconcile = rig.take().unwrap();
        let ran = reconcile.run();
        (0..10).for_each(|number| rig.put(&pod(), &format!("p{number}"), ""));
        rig.finish(ran);
        assert_eq!(rig.run(), again, "{count} lists");
    }
}
