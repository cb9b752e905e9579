//! Several electors and one Lease. Requests and answers are late or lost, requests are also carried
//! out long after the elector has given them up, electors are paused, and each has a clock of its
//! own that began at another time.
//!
//! The invariant: at no moment do two electors have a right that lasts. And while nothing fails any
//! more, one of them has it after at most the lease duration and a few periods.

use super::*;
use crate::model::jitter::Jitter;

/// The time of one step of the simulation.
const STEP: Duration = Duration::from_millis(250);

/// How long an elector waits for an answer (half of the renew deadline, as in client-go).
const PATIENCE: Duration = Duration::from_secs(5);

struct Server {
    lease: Option<LeaseRecord>,
    version: u64,
}

impl Server {
    /// Carries out a request that names the version that its sender knew.
    fn carry_out(&mut self, request: &ElectionRequest, version: u64) -> (LeaseAnswer, u64) {
        let answer = match (request, &self.lease) {
            (ElectionRequest::Get, Some(lease)) => LeaseAnswer::Is(lease.clone()),
            (ElectionRequest::Update(_), None) | (ElectionRequest::Get, None) => {
                LeaseAnswer::Absent
            }
            (ElectionRequest::Create(record), None) => self.write(record),
            (ElectionRequest::Update(record), Some(_)) if version == self.version => {
                self.write(record)
            }
            _ => LeaseAnswer::Conflict,
        };
        (answer, self.version)
    }

    fn write(&mut self, record: &LeaseRecord) -> LeaseAnswer {
        self.version += 1;
        self.lease = Some(record.clone());
        LeaseAnswer::Is(record.clone())
    }
}

/// A request on its way, and then its answer.
struct Travelling {
    host: usize,
    number: u64,
    request: ElectionRequest,
    version: u64,
    arrives: Time,
    /// `None` before the server has carried the request out.
    answer: Option<(LeaseAnswer, u64)>,
}

struct Host {
    election: Election,
    /// What its clock shows is the true time less this.
    clock: Duration,
    paused_until: Time,
    version: u64,
    /// The number of the request that it waits for, and when it gives it up.
    waits: Option<(u64, Time)>,
}

struct World {
    now: Time,
    server: Server,
    hosts: Vec<Host>,
    travelling: Vec<Travelling>,
    requests: u64,
    chance: Jitter,
    is_faulty: bool,
    takeovers: u64,
    late: u64,
}

impl World {
    fn new(seed: u64, hosts: usize) -> Self {
        let mut chance = Jitter::new(seed);
        let host = |number| Host {
            election: Election::new(
                &format!("host-{number}"),
                ElectionSettings::default(),
                seed ^ number as u64,
            ),
            clock: Duration::from_secs_f64(1000.0 * chance.fraction()),
            paused_until: Time::ZERO,
            version: 0,
            waits: None,
        };
        Self {
            now: Duration::from_secs(1000),
            server: Server {
                lease: None,
                version: 0,
            },
            hosts: (0..hosts).map(host).collect(),
            travelling: Vec::new(),
            requests: 0,
            chance,
            is_faulty: true,
            takeovers: 0,
            late: 0,
        }
    }

    fn happens(&mut self, probability: f64) -> bool {
        self.is_faulty && self.chance.fraction() < probability
    }

    /// How long something is on its way: now and then for very long.
    fn delay(&mut self) -> Duration {
        let most = match () {
            () if self.happens(0.05) => 60.0,
            () if self.happens(0.2) => 8.0,
            () => 0.2,
        };
        Duration::from_secs_f64(most * self.chance.fraction())
    }

    fn send(&mut self, host: usize, request: ElectionRequest) {
        self.requests += 1;
        let number = self.requests;
        let local = self.now - self.hosts[host].clock;
        self.hosts[host].waits = Some((number, local + PATIENCE));
        if self.happens(0.05) {
            return;
        }
        let arrives = self.now + self.delay();
        let version = self.hosts[host].version;
        self.travelling.push(Travelling {
            host,
            number,
            request,
            version,
            arrives,
            answer: None,
        });
    }

    fn deliver(&mut self) {
        let (due, later): (Vec<_>, Vec<_>) = self
            .travelling
            .drain(..)
            .partition(|travelling| travelling.arrives <= self.now);
        self.travelling = later;
        for mut travelling in due {
            match travelling.answer.take() {
                None => {
                    let holder = self.server.lease.as_ref().map(|lease| lease.holder.clone());
                    let answer = self
                        .server
                        .carry_out(&travelling.request, travelling.version);
                    let now_held = self.server.lease.as_ref().map(|lease| lease.holder.clone());
                    self.takeovers += u64::from(holder != now_held);
                    let is_awaited = self.is_awaited(&travelling);
                    self.late += u64::from(!is_awaited && matches!(answer.0, LeaseAnswer::Is(_)));
                    if self.happens(0.05) {
                        continue;
                    }
                    travelling.arrives = self.now + self.delay();
                    travelling.answer = Some(answer);
                    self.travelling.push(travelling);
                }
                Some((answer, version)) if self.is_awaited(&travelling) => {
                    if self.hosts[travelling.host].paused_until > self.now {
                        travelling.answer = Some((answer, version));
                        travelling.arrives = self.hosts[travelling.host].paused_until;
                        self.travelling.push(travelling);
                        continue;
                    }
                    if matches!(answer, LeaseAnswer::Is(_)) {
                        self.hosts[travelling.host].version = version;
                    }
                    self.answer(travelling.host, answer);
                }
                Some(_) => {}
            }
        }
    }

    fn is_awaited(&self, travelling: &Travelling) -> bool {
        let waits = self.hosts[travelling.host].waits;
        waits.is_some_and(|(number, _)| number == travelling.number)
    }

    fn answer(&mut self, host: usize, answer: LeaseAnswer) {
        let local = self.now - self.hosts[host].clock;
        self.hosts[host].waits = None;
        let wall = format!("{:?}", self.now);
        if let Some(next) = self.hosts[host].election.answered(answer, local, &wall) {
            self.send(host, next);
        }
    }

    fn step(&mut self) {
        self.now += STEP;
        self.deliver();
        for host in 0..self.hosts.len() {
            if self.hosts[host].paused_until > self.now {
                continue;
            }
            if self.happens(0.005) {
                let pause = Duration::from_secs_f64(40.0 * self.chance.fraction());
                self.hosts[host].paused_until = self.now + pause;
                continue;
            }
            self.act(host);
        }
        self.check();
    }

    fn act(&mut self, host: usize) {
        let local = self.now - self.hosts[host].clock;
        let wall = format!("{:?}", self.now);
        let waits = self.hosts[host].waits;
        if waits.is_some_and(|(_, until)| local >= until) {
            self.answer(host, LeaseAnswer::Failed);
        }
        if self.chance.fraction() < 0.1 {
            // A watch reports.
            let seen = self.server.lease.clone().unwrap_or_default();
            if self.hosts[host].election.observed(seen, local) {
                self.hosts[host].version = self.server.version;
            }
        }
        if self.hosts[host].waits.is_none()
            && let Attempt::Send(request) = self.hosts[host].election.poll(local, &wall)
        {
            self.send(host, request);
        }
    }

    /// Who has a right that lasts, whether it is paused or not.
    fn leaders(&self) -> Vec<usize> {
        let lasts = |host: &Host| {
            let right = host.election.right();
            right.is_some_and(|right| self.now - host.clock < right)
        };
        let hosts = self.hosts.iter().enumerate();
        hosts
            .filter(|(_, host)| lasts(host))
            .map(|(number, _)| number)
            .collect()
    }

    fn check(&self) {
        let leaders = self.leaders();
        assert!(
            leaders.len() <= 1,
            "{leaders:?} all have the right at {:?}",
            self.now
        );
    }
}

fn play(seed: u64) -> (u64, u64) {
    let mut world = World::new(seed, 2 + (seed % 4) as usize);
    for _ in 0..800 {
        world.step();
    }
    world.is_faulty = false;
    // The longest pause, then the lease duration, then some periods.
    for _ in 0..((60 + 40 + 15 + 10) * 4) {
        world.step();
    }
    assert_eq!(world.leaders().len(), 1, "seed {seed}");
    (world.takeovers, world.late)
}

#[test]
fn no_two_hosts_have_the_right_to_write_at_once() {
    let (mut takeovers, mut late) = (0, 0);
    for seed in 0..300 {
        let (some, more) = play(seed);
        takeovers += some;
        late += more;
    }
    assert!(
        takeovers > 1000 && late > 100,
        "{takeovers} {late}: nothing was tried"
    );
}
