use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use super::*;

/// Loads files at once, except those whose names begin with `slow`: these are compiled, for as long
/// as the gate is closed.
struct Gated {
    gate: Mutex<Receiver<()>>,
    compiling: Mutex<Sender<String>>,
}

impl Loader for Gated {
    fn read(&self, file: &str, _: &[Digest]) -> Result<Option<FileOutcome>, String> {
        let is_slow = file.starts_with("slow");
        Ok((!is_slow).then(|| LoadOutcome::Known(file.into())))
    }

    fn compile(&self, file: &str, _: &[Digest]) -> Result<FileOutcome, String> {
        self.compiling.lock().unwrap().send(file.into()).unwrap();
        self.gate.lock().unwrap().recv().unwrap();
        Ok(LoadOutcome::Known(file.into()))
    }
}

fn loading() -> (Loading, Sender<()>, Receiver<String>) {
    let ((open, gate), (begins, begun)) = (channel(), channel());
    let loader = Gated {
        gate: Mutex::new(gate),
        compiling: Mutex::new(begins),
    };
    let at_once = AtOnce {
        read: 1,
        compiled: 1,
    };
    (Loading::new(Arc::new(loader), at_once), open, begun)
}

/// The timeout is only a safety net: a correct implementation answers at once.
async fn next(loading: &mut Loading) -> Loaded {
    let next = tokio::time::timeout(Duration::from_secs(30), loading.next());
    next.await.expect("nothing is loaded")
}

#[tokio::test]
async fn a_file_that_needs_no_compiling_does_not_wait_for_those_that_do() {
    let (mut loading, open, begun) = loading();
    loading.begin("slow-1.wasm".into(), 1, vec![]);
    loading.begin("slow-2.wasm".into(), 2, vec![]);
    let first = tokio::task::spawn_blocking(move || begun.recv().map(|file| (file, begun)));
    let (first, begun) = first.await.unwrap().unwrap();
    loading.begin("ready.wasm".into(), 3, vec![]);
    assert_eq!(next(&mut loading).await.file, "ready.wasm");
    assert!(begun.try_recv().is_err(), "one file is compiled at a time");
    open.send(()).unwrap();
    assert_eq!(next(&mut loading).await.file, first);
    open.send(()).unwrap();
    assert!(next(&mut loading).await.file.starts_with("slow"));
}
