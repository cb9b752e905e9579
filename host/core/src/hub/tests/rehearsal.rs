//! A rehearsal decides as a reconcile does, and leaves no trace.

use super::*;

#[test]
fn a_rehearsal_sees_what_a_reconcile_of_its_key_would_see() {
    let mut selected = manifest("p");
    let labels = LabelSelector {
        requirements: vec![Requirement::Exists("watched".into())],
    };
    selected.reconciles = vec![Selection {
        labels,
        ..selection()
    }];
    let mut rig = Rig::default();
    let id = rig.join(selected, nothing);
    rig.sync(&service());
    rig.sync(&pod());
    let key = key_of("a");
    let sees = |mut reader: Reader| reader.get(&service(), &key.object).unwrap().is_some();
    rig.put(&service(), "a", r#""watched":"yes""#);
    let watched = rig.hub.rehearse(id, &key, 7).unwrap();
    assert_eq!((&watched.request.key, watched.request.attempt), (&key, 1));
    assert_eq!(watched.reader.clone().now_ms(), 7);
    rig.put(&service(), "a", "");
    let left = rig.hub.rehearse(id, &key, 7).unwrap();
    assert!(!sees(left.reader), "it is not selected any more");
    assert!(sees(watched.reader), "its snapshot is frozen");
    assert!(rig.hub.rehearse(id + 1, &key, 7).is_none());
}

#[test]
fn a_rehearsal_is_refused_what_a_reconcile_is_refused_and_takes_no_key() {
    let mut rig = Rig::default();
    let id = rig.join(manifest("p"), nothing);
    rig.sync(&service());
    rig.sync(&pod());
    rig.put(&service(), "a", "");
    let key = key_of("a");
    let apply = |kind: &str| Action::Apply {
        object: format!(
            r#"{{"apiVersion":"v1","kind":"{kind}","metadata":{{"namespace":"default","name":"a"}}}}"#
        ),
        subresource: None,
        force: false,
    };
    let rehearsal = rig.hub.rehearse(id, &key, 0).unwrap();
    let refused = rehearsal
        .clone()
        .execution(&Outcome::of(vec![apply("Secret")]));
    let refused = refused.err().map(|reason| reason.to_string());
    let denied = "action 1 (apply): denied: apply of v1/Secret is not among the manifest's writes";
    assert_eq!(refused.as_deref(), Some(denied));

    let execution = rehearsal
        .execution(&Outcome::of(vec![apply("Pod")]))
        .unwrap();
    let ControlFlow::Continue((begun, _)) = execution.advance() else {
        panic!("the apply is to be sent");
    };
    assert_eq!(begun[0].author().field_manager, "pilothouse.dev/p");
    assert_eq!(rig.run(), ["a"], "it is still queued");
}
