//! Tests of the proxy that the fault tests use. Behind it is a tiny server; there is neither a host
//! nor an API server.
#![allow(
    clippy::unwrap_used,
    reason = "clippy knows the tests of an integration test, but not its helpers"
)]

mod on_the_way;

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Result, ensure};
use futures::StreamExt;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use pilothouse_tests::proxy::{
    ANY, Answer, Proxy, all, busiest_second, complete_lists, error_event, lists, watches, writes,
};
use serde_json::json;
use tokio::sync::broadcast;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

const PODS: &str = "/api/v1/pods";
const WATCH: &str = "/api/v1/pods?watch=true&resourceVersion=1";
/// Long enough for what must come, and short enough to wait for what must not come.
const MOMENT: Duration = Duration::from_millis(300);
const SOON: Duration = Duration::from_secs(5);

/// A server, the proxy in front of it, and a client.
struct Rig {
    proxy: Proxy,
    client: Client,
    /// Lines that the server sends on every open watch.
    lines: broadcast::Sender<String>,
    /// The requests that reached the server.
    asked: Arc<Mutex<Vec<String>>>,
    server: JoinSet<()>,
    _directory: tempfile::TempDir,
}

impl Rig {
    async fn start() -> Result<Self> {
        let (lines, asked) = (broadcast::Sender::new(64), Arc::default());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let mut server = JoinSet::new();
        server.spawn(serve(listener, lines.clone(), Arc::clone(&asked)));
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("kubeconfig");
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "test", "user": {"token": "secret"}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        });
        std::fs::write(&path, config.to_string())?;
        let proxy = Proxy::before(&path).await?;
        let config = Kubeconfig::read_from(proxy.kubeconfig())?;
        let options = KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(config, &options).await?;
        config.default_retry = false;
        Ok(Self {
            proxy,
            client: Client::try_from(config)?,
            lines,
            asked,
            server,
            _directory: directory,
        })
    }

    async fn get(&self, path: &str) -> Result<(u16, String)> {
        let response = self
            .client
            .send(Request::get(path).body(Body::empty())?)
            .await?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await?.to_bytes();
        Ok((status, String::from_utf8(body.into())?))
    }

    async fn watch(&self) -> Result<Watch> {
        let request = Request::get(WATCH).body(Body::empty())?;
        let response = self.client.send(request).await?;
        ensure!(response.status() == 200);
        // The server subscribes to `lines` before it answers, so no line is lost.
        Ok(Watch(response.into_body()))
    }

    fn send(&self, line: &str) {
        self.lines.send(line.to_owned()).unwrap();
    }

    fn times_asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

struct Watch(Body);

impl Watch {
    /// Returns what comes next: a line, `None` when the body ends regularly, or the error of a
    /// broken connection.
    async fn next(&mut self) -> Option<Result<String, kube::Error>> {
        let frame = timeout(SOON, self.0.frame())
            .await
            .expect("something comes")?;
        Some(frame.map(|frame| {
            let data = frame.into_data().unwrap_or_default();
            String::from_utf8_lossy(&data).trim_end().to_owned()
        }))
    }

    async fn line(&mut self) -> String {
        self.next().await.expect("no end").expect("no error")
    }

    async fn is_silent(&mut self) -> bool {
        timeout(MOMENT, self.0.frame()).await.is_err()
    }
}

type ServerBody = UnsyncBoxBody<Bytes, io::Error>;

async fn serve(
    listener: tokio::net::TcpListener,
    lines: broadcast::Sender<String>,
    asked: Arc<Mutex<Vec<String>>>,
) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (lines, asked) = (lines.clone(), asked.clone());
        connections.spawn(async move {
            let service = service_fn(|request| {
                let response = answer(&request, &lines, &asked);
                async { Ok::<_, Infallible>(response) }
            });
            let builder = hyper::server::conn::http1::Builder::new();
            let _ = builder
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

fn answer(
    request: &Request<Incoming>,
    lines: &broadcast::Sender<String>,
    asked: &Mutex<Vec<String>>,
) -> Response<ServerBody> {
    let token = request.headers()["authorization"].to_str().unwrap();
    let line = format!("{} {} {token}", request.method(), request.uri());
    asked.lock().unwrap().push(line);
    if !request
        .uri()
        .query()
        .is_some_and(|query| query.contains("watch=true"))
    {
        let body = http_body_util::Full::new(Bytes::from("{\"items\": []}"));
        return Response::new(body.map_err(|never| match never {}).boxed_unsync());
    }
    let receiver = lines.subscribe();
    let frames = futures::stream::unfold(receiver, async |mut receiver| {
        let line = receiver.recv().await.ok()?;
        Some((Ok(Frame::data(format!("{line}\n").into())), receiver))
    });
    Response::new(BodyExt::boxed_unsync(StreamBody::new(frames.boxed())))
}

fn event(kind: &str, name: &str) -> String {
    json!({"type": kind, "object": {"metadata": {"name": name}}}).to_string()
}

#[tokio::test]
async fn without_a_fault_everything_passes_and_is_on_record() -> Result<()> {
    let rig = Rig::start().await?;
    assert_eq!(
        rig.get("/api/v1/pods?limit=500").await?,
        (200, "{\"items\": []}".into())
    );
    let mut watch = rig.watch().await?;
    rig.send(&event("ADDED", "a"));
    assert_eq!(watch.line().await, event("ADDED", "a"));

    let asked = rig.asked.lock().unwrap().clone();
    assert_eq!(asked[0], "GET /api/v1/pods?limit=500 Bearer secret");
    assert_eq!(rig.proxy.seen(all()).len(), 2);
    assert_eq!(rig.proxy.seen(complete_lists("pods")).len(), 1);
    assert_eq!(rig.proxy.seen(lists("services")).len(), 0);
    assert_eq!(
        rig.proxy.seen(watches(ANY))[0].parameter("resourceVersion"),
        Some("1")
    );
    assert_eq!(busiest_second(&rig.proxy.seen(lists(ANY))), 1);
    assert_eq!(rig.proxy.answers(lists("pods"))[0].body, "{\"items\": []}");
    assert_eq!(
        rig.proxy.lines(watches("pods"))[0].text,
        event("ADDED", "a")
    );
    assert_eq!(rig.proxy.open(watches("pods")), 1);
    Ok(())
}

#[tokio::test]
async fn a_rule_is_for_so_many_requests_after_so_many() -> Result<()> {
    let rig = Rig::start().await?;
    let answer = Answer::status(429).retry_after(2);
    let fault = rig.proxy.on(lists("pods")).after(1).times(2).answer(answer);
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(rig.get(PODS).await?.0);
    }
    assert_eq!(statuses, [200, 429, 429, 200]);
    assert_eq!((fault.hits(), rig.times_asked()), (2, 2));
    rig.proxy.on(watches(ANY)).answer(Answer::status(410));
    assert!(rig.watch().await.is_err());
    assert_eq!(rig.get(PODS).await?.0, 200, "a list is no watch");
    rig.proxy.heal().await;
    assert!(rig.watch().await.is_ok());
    Ok(())
}

#[tokio::test]
async fn an_answer_can_be_lost_replaced_or_played_again() -> Result<()> {
    let rig = Rig::start().await?;
    rig.proxy.on(lists("pods")).times(1).lose_answer();
    assert!(rig.get(PODS).await.is_err());
    assert_eq!(rig.times_asked(), 1, "the server was asked all the same");
    rig.proxy
        .on(lists("pods"))
        .times(1)
        .replace_answer(Answer::status(504));
    assert_eq!(rig.get(PODS).await?.0, 504);
    assert_eq!(rig.times_asked(), 2);
    let old = rig.proxy.answers(lists("pods")).remove(0);
    rig.proxy.on(lists("pods")).times(1).answer(old);
    assert_eq!(rig.get(PODS).await?, (200, "{\"items\": []}".into()));
    assert_eq!(rig.times_asked(), 2);
    Ok(())
}

#[tokio::test]
async fn a_held_request_is_forwarded_when_the_fault_is_lifted() -> Result<()> {
    let rig = Rig::start().await?;
    let fault = rig.proxy.on(lists("pods")).hold();
    assert!(timeout(MOMENT, rig.get(PODS)).await.is_err());
    let held = rig.get(PODS);
    let lifted = async {
        rig.proxy.until_seen(lists("pods"), 2, SOON).await?;
        assert_eq!(rig.times_asked(), 0);
        fault.lift();
        anyhow::Ok(())
    };
    let (answer, lifted) = tokio::join!(held, lifted);
    lifted?;
    assert_eq!(answer?.0, 200);
    assert_eq!(rig.times_asked(), 1, "nobody waits for the first any more");
    Ok(())
}

#[tokio::test]
async fn the_lines_of_an_open_watch_are_dropped_replaced_reordered_and_added() -> Result<()> {
    let rig = Rig::start().await?;
    let mut watch = rig.watch().await?;
    let bookmarks = rig.proxy.on(watches("pods")).strip_bookmarks();
    let garbled = rig
        .proxy
        .on(watches("pods"))
        .times(1)
        .replace_events(|event| (event["type"] == "DELETED").then(|| "{".to_owned()));
    for kind in ["BOOKMARK", "DELETED", "DELETED"] {
        rig.send(&event(kind, "a"));
    }
    assert_eq!(watch.line().await, "{");
    assert_eq!(watch.line().await, event("DELETED", "a"));
    assert_eq!((bookmarks.hits(), garbled.hits()), (1, 1));
    rig.proxy.heal().await;

    let reversed = rig.proxy.on(watches("pods")).reverse_each(2);
    for name in ["b", "c", "d"] {
        rig.send(&event("ADDED", name));
    }
    assert_eq!(watch.line().await, event("ADDED", "c"));
    assert_eq!(watch.line().await, event("ADDED", "b"));
    assert!(watch.is_silent().await);
    assert_eq!(reversed.hits(), 1);
    reversed.lift();
    assert_eq!(watch.line().await, event("ADDED", "d"));
    assert_eq!(rig.proxy.inject(watches("pods"), &error_event(410)), 1);
    assert!(watch.line().await.contains("Expired"));
    let passed = rig.proxy.lines(watches("pods"));
    assert_eq!(
        passed[3].text,
        event("ADDED", "b"),
        "on record is what the server sent"
    );
    Ok(())
}

#[tokio::test]
async fn lines_come_late_or_not_until_a_fault_is_lifted() -> Result<()> {
    let rig = Rig::start().await?;
    let mut watch = rig.watch().await?;
    let late = rig.proxy.on(watches("pods")).delay_lines(MOMENT);
    let started = Instant::now();
    rig.send("1");
    rig.send("2");
    assert_eq!(
        (watch.line().await, watch.line().await),
        ("1".into(), "2".into())
    );
    let passed = started.elapsed();
    assert!(
        passed >= MOMENT && passed < 2 * MOMENT,
        "{passed:?}, not one after the other"
    );
    late.lift();

    let stalled = rig.proxy.on(watches("pods")).stall();
    rig.send("3");
    assert!(watch.is_silent().await);
    assert_eq!(rig.get(PODS).await?.0, 200, "others work");
    stalled.lift();
    assert_eq!(watch.line().await, "3");
    Ok(())
}

#[tokio::test]
async fn a_watch_ends_in_order_half_closed_or_reset() -> Result<()> {
    let rig = Rig::start().await?;
    let mut watch = rig.watch().await?;
    assert_eq!(rig.proxy.close(watches("pods")), 1);
    assert!(watch.next().await.is_none(), "the last chunk came");
    assert_eq!(
        rig.proxy.reset(watches("pods")),
        0,
        "it is no watch any more"
    );

    let mut watch = rig.watch().await?;
    assert_eq!(rig.proxy.half_close(watches("pods")), 1);
    assert!(watch.next().await.is_some_and(|next| next.is_err()));

    let mut watch = rig.watch().await?;
    assert_eq!(rig.proxy.reset(watches("services")), 0);
    assert_eq!(rig.proxy.reset(watches("pods")), 1);
    let error = watch.next().await.unwrap().unwrap_err();
    assert!(
        format!("{error:?}").contains("ConnectionReset"),
        "{error:?}"
    );
    assert_eq!(rig.get(PODS).await?.0, 200);
    Ok(())
}

#[tokio::test]
async fn frozen_connections_are_silent_and_lose_nothing() -> Result<()> {
    let rig = Rig::start().await?;
    let mut watch = rig.watch().await?;
    assert_eq!(rig.proxy.freeze(watches("pods")), 1);
    rig.send("1");
    assert!(watch.is_silent().await);
    assert_eq!(rig.get(PODS).await?.0, 200, "a new connection works");
    rig.proxy.thaw();
    assert_eq!(watch.line().await, "1");

    assert!(rig.proxy.freeze_everything() >= 1);
    assert!(timeout(MOMENT, rig.get(PODS)).await.is_err());
    assert!(timeout(MOMENT, rig.watch()).await.is_err());
    rig.proxy.heal().await;
    assert_eq!(rig.get(PODS).await?.0, 200);
    Ok(())
}

#[tokio::test]
async fn connections_are_refused_while_a_test_wants_it() -> Result<()> {
    let rig = Rig::start().await?;
    let mut watch = rig.watch().await?;
    rig.proxy.refuse().await;
    let error = rig.get(PODS).await.unwrap_err();
    assert!(
        format!("{error:#}").contains("Connection refused"),
        "{error:#}"
    );
    rig.send("1");
    assert_eq!(watch.line().await, "1", "what is open stays");
    rig.proxy.accept().await;
    assert_eq!(rig.get(PODS).await?.0, 200);

    rig.proxy.turn_away();
    rig.proxy.reset(all());
    rig.get(PODS).await.unwrap_err();
    assert!(rig.proxy.turned_away() >= 1);
    rig.proxy.heal().await;
    assert_eq!(rig.get(PODS).await?.0, 200);
    Ok(())
}

#[tokio::test]
async fn a_body_comes_in_part_or_slowly() -> Result<()> {
    let rig = Rig::start().await?;
    rig.proxy.on(lists("pods")).times(1).truncate(5);
    assert!(rig.get(PODS).await.is_err());
    rig.proxy.on(watches("pods")).times(1).truncate(5);
    let mut watch = rig.watch().await?;
    rig.send("123456789");
    assert_eq!(watch.line().await, "12345");
    assert!(watch.next().await.is_some_and(|next| next.is_err()));

    rig.proxy.on(lists("pods")).times(1).slow(40);
    let started = Instant::now();
    assert_eq!(rig.get(PODS).await?, (200, "{\"items\": []}".into()));
    assert!(started.elapsed() >= Duration::from_millis(300));
    Ok(())
}

#[tokio::test]
async fn what_breaks_behind_the_proxy_breaks_before_it() -> Result<()> {
    let mut rig = Rig::start().await?;
    let mut watch = rig.watch().await?;
    rig.get(PODS).await?;
    rig.server.shutdown().await;
    assert!(watch.next().await.is_some_and(|next| next.is_err()));
    assert!(rig.get(PODS).await.is_err());
    Ok(())
}

#[tokio::test]
async fn paths_are_read_as_the_api_server_reads_them() -> Result<()> {
    let rig = Rig::start().await?;
    for path in [
        "/version",
        "/apis/apps/v1",
        "/api/v1/namespaces",
        "/api/v1/namespaces/default",
        "/api/v1/namespaces/default/finalize",
        "/apis/apps/v1/namespaces/default/deployments/web/status",
        "/api/v1/pods?limit=1",
        "/api/v1/pods?limit=500&continue=x",
        "/api/v1/pods?limit=500",
    ] {
        rig.get(path).await?;
    }
    let seen = rig.proxy.seen(all());
    let found: Vec<(&str, Option<&str>)> = seen
        .iter()
        .map(|seen| (seen.resource.as_str(), seen.name.as_deref()))
        .collect();
    let pods = ("pods", None);
    let named = |resource| (resource, Some("default"));
    let namespaces = ("namespaces", None);
    assert_eq!(
        found,
        [
            ("", None),
            ("", None),
            namespaces,
            named("namespaces"),
            named("namespaces"),
            ("deployments", Some("web")),
            pods,
            pods,
            pods
        ]
    );
    assert_eq!(rig.proxy.seen(lists("pods")).len(), 3);
    assert_eq!(rig.proxy.seen(complete_lists("pods")).len(), 1);
    assert_eq!(rig.proxy.seen(lists("pods").later_pages(true)).len(), 1);
    assert_eq!(rig.proxy.seen(writes(ANY)).len(), 0);
    Ok(())
}
