//! A model of an API server: one collection with its history, and random faults in every kind of
//! answer.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use kube::Client;
use kube::client::Body;
use pilothouse_core::Jitter;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::play::{bookmark, error_event, event, marker, page};
use super::scenario::{ScriptedAnswer, WirePart, absent, json as json_answer, status, text};

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Frames = stream::BoxStream<'static, Result<Frame<Bytes>, BoxError>>;

/// One event of the history.
#[derive(Clone, Debug)]
struct Past {
    version: u64,
    name: String,
    event_type: &'static str,
    object: Value,
}

impl Past {
    fn line(&self) -> String {
        format!("{}\n", event(self.event_type, &self.object))
    }
}

struct World {
    version: u64,
    /// Everything that ever happened. The versions are consecutive, in ascending order.
    history: Vec<Past>,
    compacted: u64,
    is_faulty: bool,
    chance: Jitter,
    /// Until then, connections are refused.
    down_until: Option<Instant>,
    requests: usize,
}

/// The model of the server. Clones share its state.
#[derive(Clone)]
pub(crate) struct Model {
    world: Arc<Mutex<World>>,
    /// Counts changes, so that open watches look for them.
    ticks: watch::Sender<u64>,
    restarts: watch::Sender<u64>,
}

/// The fault of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    Refused,
    Silence,
    Late,
    Status(u16),
    TooLarge,
    Stale,
}

impl Model {
    pub(crate) fn new(seed: u64) -> Self {
        let world = World {
            version: 1,
            history: vec![],
            compacted: 0,
            is_faulty: true,
            chance: Jitter::new(seed),
            down_until: None,
            requests: 0,
        };
        Self {
            world: Arc::new(Mutex::new(world)),
            ticks: watch::channel(0).0,
            restarts: watch::channel(0).0,
        }
    }

    pub(crate) fn client(&self) -> Client {
        let model = self.clone();
        let answer = move |request: Request<Body>| {
            let model = model.clone();
            async move { model.answer(&request.uri().to_string()).await }
        };
        Client::new(tower::service_fn(answer), "default")
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    pub(crate) fn put(&self, name: &str) {
        self.happens(name, true);
    }

    pub(crate) fn delete(&self, name: &str) {
        self.happens(name, false);
    }

    fn happens(&self, name: &str, is_put: bool) {
        let mut world = self.world();
        let before = world.objects(world.version).remove(name);
        if before.is_none() && !is_put {
            return;
        }
        world.version += 1;
        let version = world.version;
        let uid = before.as_ref().map_or(version.to_string(), |before| {
            before["metadata"]["uid"].as_str().unwrap().to_owned()
        });
        let object = json!({"metadata": {"name": name, "namespace": "n", "uid": uid, "resourceVersion": version.to_string()}});
        let event_type = match (&before, is_put) {
            (_, false) => "DELETED",
            (None, true) => "ADDED",
            (Some(_), true) => "MODIFIED",
        };
        let name = name.to_owned();
        world.history.push(Past {
            version,
            name,
            event_type,
            object,
        });
        drop(world);
        self.ticks.send_modify(|ticks| *ticks += 1);
    }

    pub(crate) fn compact(&self) {
        let mut world = self.world();
        world.compacted = world.version;
    }

    /// Breaks every connection, and refuses new ones for this time.
    pub(crate) fn restart(&self, time: Duration) {
        self.world().down_until = Some(Instant::now() + time);
        self.restarts.send_modify(|restarts| *restarts += 1);
    }

    /// From now on the server is free of faults.
    pub(crate) fn heal(&self) {
        self.world().is_faulty = false;
    }

    pub(crate) fn requests(&self) -> usize {
        self.world().requests
    }

    /// The current objects: names and versions.
    pub(crate) fn state(&self) -> BTreeMap<String, String> {
        let world = self.world();
        let objects = world.objects(world.version).into_iter();
        let version = |object: &Value| {
            object["metadata"]["resourceVersion"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        objects
            .map(|(name, object)| (name, version(&object)))
            .collect()
    }

    async fn answer(&self, uri: &str) -> Result<Response<StreamBody<Frames>>, BoxError> {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let query: HashMap<&str, &str> = query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .collect();
        let is_probe = query.get("limit") == Some(&"1");
        let fault = {
            let mut world = self.world();
            world.requests += 1;
            world.fault(is_probe)
        };
        match fault {
            Fault::Refused => return Err("Connection refused (os error 111)".into()),
            Fault::Silence => std::future::pending().await,
            Fault::Late => {
                let seconds = self.world().roll(7);
                tokio::time::sleep(Duration::from_secs(seconds)).await;
            }
            Fault::Status(code) => return Ok(whole(&status(code, "Fault", "by chance"))),
            Fault::TooLarge => {
                return Ok(whole(&status(504, "Timeout", "Too large resource version")));
            }
            Fault::None | Fault::Stale => {}
        }
        if let Some(name) = path.strip_prefix("/api/v1/namespaces/n/pods/") {
            return Ok(whole(&self.world().get(name)));
        }
        if query.contains_key("watch") {
            return Ok(self.watch(&query));
        }
        let mut world = self.world();
        let answer = world.list(&query, fault == Fault::Stale);
        if world.happens_to(5) {
            let cut: Vec<Result<Frame<Bytes>, BoxError>> = vec![
                Ok(Frame::data(Bytes::from_static(
                    b"{\"kind\":\"PodList\",\"ite",
                ))),
                Err("connection reset by peer".into()),
            ];
            return Ok(Response::new(StreamBody::new(Box::pin(stream::iter(cut)))));
        }
        Ok(whole(&answer))
    }

    fn watch(&self, query: &HashMap<&str, &str>) -> Response<StreamBody<Frames>> {
        let mut world = self.world();
        let from = query
            .get("resourceVersion")
            .map(|version| version.parse::<u64>().unwrap());
        let is_stream = query.contains_key("sendInitialEvents");
        if is_stream && world.happens_to(10) {
            return whole(&status(422, "Invalid", "no streams today"));
        }
        if is_stream && from > Some(world.version) {
            return whole(&status(504, "Timeout", "Too large resource version"));
        }
        let mut initial = VecDeque::new();
        let sent = match from {
            Some(from) if !is_stream => {
                if from < world.compacted {
                    let expired = error_event(410, "Expired");
                    return if world.roll(2) == 0 {
                        whole(&status(410, "Expired", "too old"))
                    } else {
                        whole(&text(200, &format!("{expired}\n")))
                    };
                }
                from
            }
            _ => {
                let objects = world.objects(world.version).into_values();
                initial.extend(objects.map(|object| format!("{}\n", event("ADDED", &object))));
                world.version
            }
        };
        let has_marker = is_stream && !world.happens_to(10);
        let seconds: u64 = query["timeoutSeconds"].parse().unwrap();
        let until = Instant::now() + Duration::from_secs(seconds);
        let watching = Watching {
            model: self.clone(),
            ticks: self.ticks.subscribe(),
            restarts: self.restarts.subscribe(),
            initial,
            marker: has_marker.then_some(sent),
            is_live: !is_stream,
            sent,
            bookmark_at: until - Duration::from_secs(2).min(until - Instant::now()),
            until,
            is_broken: false,
        };
        drop(world);
        let frames = stream::unfold(watching, async |mut watching| {
            let frame = watching.next().await?;
            Some((frame, watching))
        });
        Response::new(StreamBody::new(Box::pin(frames)))
    }
}

fn whole(answer: &ScriptedAnswer) -> Response<StreamBody<Frames>> {
    let ScriptedAnswer::Http { code, parts, .. } = answer else {
        unreachable!("only whole answers are made here");
    };
    let data: Vec<Result<Frame<Bytes>, BoxError>> = parts
        .iter()
        .filter_map(|part| match part {
            WirePart::Data(text) => Some(Ok(Frame::data(Bytes::from(text.clone())))),
            _ => None,
        })
        .collect();
    let body = StreamBody::new(Box::pin(stream::iter(data)) as Frames);
    Response::builder().status(*code).body(body).unwrap()
}

impl World {
    fn roll(&mut self, sides: u64) -> u64 {
        (self.chance.fraction() * sides as f64) as u64
    }

    /// True with this probability in percent, as long as the server is faulty.
    fn happens_to(&mut self, percent: u64) -> bool {
        self.is_faulty && self.roll(100) < percent
    }

    fn fault(&mut self, is_probe: bool) -> Fault {
        if self.down_until.is_some_and(|until| Instant::now() < until) {
            return Fault::Refused;
        }
        if !self.is_faulty {
            return Fault::None;
        }
        match self.roll(100) {
            0..6 => Fault::Refused,
            6..10 => Fault::Silence,
            10..16 => Fault::Late,
            16..20 => Fault::Status(410),
            20..23 => Fault::Status(429),
            23..26 => Fault::Status(500),
            26..28 => Fault::TooLarge,
            // A stale probe is excluded: two in a row would look like a rollback.
            28..32 if !is_probe => Fault::Stale,
            _ => Fault::None,
        }
    }

    fn objects(&self, version: u64) -> BTreeMap<String, Value> {
        let mut objects = BTreeMap::new();
        for past in self.history.iter().filter(|past| past.version <= version) {
            if past.event_type == "DELETED" {
                objects.remove(&past.name);
            } else {
                objects.insert(past.name.clone(), past.object.clone());
            }
        }
        objects
    }

    fn get(&self, name: &str) -> ScriptedAnswer {
        match self.objects(self.version).get(name) {
            Some(object) => json_answer(object),
            None => absent(name),
        }
    }

    fn list(&mut self, query: &HashMap<&str, &str>, is_stale: bool) -> ScriptedAnswer {
        let (mut version, mut start) = (self.version, 0);
        if is_stale {
            version -= self.roll(version).min(5);
        }
        if let Some(token) = query.get("continue") {
            let (at, from) = token.split_once('-').unwrap();
            (version, start) = (at.parse().unwrap(), from.parse().unwrap());
            if version < self.compacted {
                return status(410, "Expired", "the token is too old");
            }
        } else if let Some(wanted) = query.get("resourceVersion")
            && wanted.parse::<u64>().unwrap() > self.version
        {
            return status(504, "Timeout", "Too large resource version");
        }
        let objects: Vec<Value> = self.objects(version).into_values().collect();
        let limit: usize = query
            .get("limit")
            .map_or(usize::MAX, |limit| limit.parse().unwrap());
        let items: Vec<Value> = objects.iter().skip(start).take(limit).cloned().collect();
        let end = start + items.len();
        let token = if end < objects.len() {
            format!("{version}-{end}")
        } else {
            String::new()
        };
        page(&version.to_string(), &items, &token)
    }

    /// The first event after this version.
    fn after(&self, version: u64) -> Option<Past> {
        let mut later = self.history.iter();
        later.find(|past| past.version > version).cloned()
    }
}

/// An open watch.
struct Watching {
    model: Model,
    ticks: watch::Receiver<u64>,
    restarts: watch::Receiver<u64>,
    initial: VecDeque<String>,
    marker: Option<u64>,
    /// The initial objects and their marker have been sent.
    is_live: bool,
    sent: u64,
    bookmark_at: Instant,
    until: Instant,
    is_broken: bool,
}

impl Watching {
    async fn next(&mut self) -> Option<Result<Frame<Bytes>, BoxError>> {
        if std::mem::take(&mut self.is_broken) {
            self.until = Instant::now();
            return Some(Err("connection reset by peer".into()));
        }
        let line = self.line().await?;
        let line = match line {
            Ok(line) => self.spoil(line).await,
            Err(error) => return Some(Err(error)),
        };
        Some(Ok(Frame::data(Bytes::from(line))))
    }

    /// The next line of a server without faults.
    async fn line(&mut self) -> Option<Result<String, BoxError>> {
        loop {
            if self.restarts.has_changed().unwrap_or(true) {
                self.restarts.mark_unchanged();
                self.until = Instant::now();
                return Some(Err("connection reset by peer".into()));
            }
            if Instant::now() >= self.until {
                return None;
            }
            if let Some(line) = self.initial.pop_front() {
                return Some(Ok(line));
            }
            if let Some(version) = self.marker.take() {
                self.is_live = true;
                return Some(Ok(format!("{}\n", marker(&version.to_string()))));
            }
            let (past, version) = {
                let world = self.model.world();
                (world.after(self.sent), world.version)
            };
            if let Some(past) = past {
                self.sent = past.version;
                return Some(Ok(past.line()));
            }
            tokio::select! {
                _ = self.ticks.changed() => {}
                _ = self.restarts.changed() => self.restarts.mark_changed(),
                () = tokio::time::sleep_until(self.until) => {}
                () = tokio::time::sleep_until(self.bookmark_at) => {
                    self.bookmark_at = self.until + Duration::from_secs(1);
                    if !self.model.world().happens_to(30) {
                        self.sent = self.sent.max(version);
                        return Some(Ok(format!("{}\n", bookmark(&self.sent.to_string()))));
                    }
                }
            }
        }
    }

    /// The line as a faulty server sends it.
    async fn spoil(&mut self, line: String) -> String {
        let is_bookmark = line.contains("BOOKMARK");
        let (what, seconds, past) = {
            let mut world = self.model.world();
            if !world.is_faulty {
                return line;
            }
            let count = world
                .history
                .iter()
                .filter(|past| past.version <= self.sent)
                .count();
            let past = world.roll(count as u64) as usize;
            let past = world.history.get(past).map(Past::line);
            (world.roll(100), world.roll(13), past)
        };
        match what {
            // Cut in the middle.
            0..4 => {
                self.is_broken = true;
                line[..line.len() / 2].to_owned()
            }
            4..6 => std::future::pending().await,
            6..10 => {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                line
            }
            // With a replayed event. Not before the marker, where a replay cannot be told from a
            // new event.
            10..16 if self.is_live => line + &past.unwrap_or_default(),
            16..20 => line.clone() + &line,
            20..22 => "{\"type\": \"ADDED\", \"obj\n".to_owned(),
            22..23 if !is_bookmark => line
                .replace("ADDED", "CHANGED")
                .replace("MODIFIED", "MOVED"),
            23..26 if !is_bookmark => line.replace("\"uid\":", "\"labels\":7,\"uid\":"),
            // Followed by the wrong order: the next event first, then this one.
            26..30 if self.is_live && !is_bookmark => {
                let next = self.model.world().after(self.sent);
                match next {
                    Some(next) => {
                        self.sent = next.version;
                        next.line() + &line
                    }
                    None => line,
                }
            }
            _ => line,
        }
    }
}
