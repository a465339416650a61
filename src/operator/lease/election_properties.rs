//! Several processes, one lease, and everything that can happen between them in any order.

use proptest::prelude::*;

use super::election::*;
use super::*;

const PROCESSES: usize = 3;

/// What happens next. Processes and milliseconds are taken modulo what there is.
#[derive(Clone, Debug)]
enum Happens {
    /// Time passes for everybody; also the way a suspended process is modelled, for nothing happens to it meanwhile.
    Time(u64),
    /// A process decides, and sends what it decided.
    Acts(usize),
    /// The same, and the answer comes at once, as it does nearly always. A process that still waits goes on waiting.
    Turn(usize),
    /// The API server gets a request that is under way, perhaps long after its sender gave up.
    Arrives(usize),
    /// The answer comes back.
    Answers(usize),
    /// The sender gives up.
    GivesUp(usize),
    /// A standing-by process sees the lease, as of now.
    Sees(usize),
    /// A user sets a label.
    Touch,
    /// The process ends without a word, and one comes in its place. With the same name?
    Restart(usize, bool),
    /// The process gives the lease away if it has it, and ends.
    Leaves(usize),
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        9 => (0..900_u64).prop_map(Happens::Time),
        1 => (900..12_000_u64).prop_map(Happens::Time),
        20 => (0..PROCESSES).prop_map(Happens::Turn),
        5 => (0..PROCESSES).prop_map(Happens::Acts),
        4 => any::<usize>().prop_map(Happens::Arrives),
        2 => (0..PROCESSES).prop_map(Happens::Answers),
        1 => (0..PROCESSES).prop_map(Happens::GivesUp),
        2 => (0..PROCESSES).prop_map(Happens::Sees),
        1 => Just(Happens::Touch),
        1 => (0..PROCESSES, any::<bool>()).prop_map(|(process, same)| Happens::Restart(process, same)),
        1 => (0..PROCESSES).prop_map(Happens::Leaves),
    ]
}

#[derive(Clone, Debug)]
struct Request {
    number: usize,
    step: Step,
    lease: View,
}

#[derive(Clone, Debug)]
enum Answer {
    Read(Option<View>),
    Write(Written),
}

#[derive(Debug)]
struct Process {
    election: Election,
    timing: Timing,
    name: String,
    /// What it waits for, and when it was sent.
    waits_for: Option<(usize, Step, Uptime)>,
}

#[derive(Debug, Default)]
struct World {
    now: Uptime,
    next_number: usize,
    next_stamp: i64,
    version: u64,
    lease: Option<View>,
    under_way: Vec<Request>,
    answers: Vec<(usize, Answer)>,
    processes: Vec<Process>,
    elected: usize,
}

impl World {
    fn process(&mut self, name: String, timing: Timing) -> Process {
        Process { election: Election::new(name.clone(), timing), timing, name, waits_for: None }
    }

    fn happens(&mut self, event: Happens) {
        match event {
            Happens::Time(millis) => self.now += Duration::from_millis(millis),
            Happens::Acts(process) => self.acts(process),
            Happens::Turn(process) => self.turn(process),
            Happens::Arrives(which) => {
                if !self.under_way.is_empty() {
                    self.arrives(which % self.under_way.len());
                }
            }
            Happens::Answers(process) => self.answer(process),
            Happens::GivesUp(process) => self.gives_up(process),
            Happens::Sees(process) => self.sees(process),
            Happens::Touch => {
                self.version += 1;
                if let Some(lease) = &mut self.lease {
                    lease.version = self.version.to_string();
                }
            }
            Happens::Restart(process, same_name) => {
                let (old, timing) = (self.processes[process].name.clone(), self.processes[process].timing);
                let name = if same_name { old } else { format!("{old}'") };
                self.processes[process] = self.process(name, timing);
            }
            Happens::Leaves(process) => self.leaves(process),
        }
    }

    fn turn(&mut self, process: usize) {
        if self.processes[process].waits_for.is_some() {
            return;
        }
        self.acts(process);
        if let Some((number, ..)) = self.processes[process].waits_for
            && let Some(at) = self.under_way.iter().position(|request| request.number == number)
        {
            self.arrives(at);
        }
        self.answer(process);
    }

    fn gives_up(&mut self, process: usize) {
        let now = self.now;
        let process = &mut self.processes[process];
        if let Some((_, step, sent)) = process.waits_for.take() {
            match step {
                Step::Look => process.election.blind(now),
                _ => process.election.wrote(sent, now, Written::Unknown),
            }
        }
    }

    fn sees(&mut self, process: usize) {
        let (now, lease) = (self.now, self.lease.clone());
        let process = &mut self.processes[process];
        if process.waits_for.is_none() && process.election.held_until().is_none() {
            process.election.saw(now, lease);
        }
    }

    fn leaves(&mut self, process: usize) {
        let Process { election, timing, name, .. } = &self.processes[process];
        let (version, timing, name) = (election.version().map(str::to_owned), *timing, format!("{name}+"));
        let holds = election.held_until().is_some_and(|until| self.now < until);
        if let Some(lease) = &mut self.lease
            && holds
            && Some(&lease.version) == version.as_ref()
        {
            self.version += 1;
            lease.version = self.version.to_string();
            lease.holder = None;
        }
        self.processes[process] = self.process(name, timing);
    }

    fn acts(&mut self, process: usize) {
        let (now, number) = (self.now, self.next_number);
        let process = &mut self.processes[process];
        if process.waits_for.is_some() {
            return;
        }
        let step = process.election.next(now);
        if matches!(step, Step::Wait { .. } | Step::Lost) {
            if step == Step::Lost {
                // It ends and another one comes.
                let name = format!("{}~", process.name);
                process.election = Election::new(name.clone(), process.timing);
                process.name = name;
            }
            return;
        }
        let takes = matches!(step, Step::Create | Step::Take { .. });
        let acquired = if takes {
            self.next_stamp += 1;
            let stamp = Timestamp::from_second(self.next_stamp).unwrap();
            process.election.claims(stamp);
            Some(stamp)
        } else {
            self.lease.as_ref().and_then(|lease| lease.acquired)
        };
        let lease = View {
            version: String::new(),
            holder: Some(process.name.clone()),
            duration: Some(process.timing.lease_duration()),
            acquired,
        };
        self.next_number += 1;
        process.waits_for = Some((number, step.clone(), now));
        self.under_way.push(Request { number, step, lease });
    }

    fn arrives(&mut self, at: usize) {
        let request = self.under_way.remove(at);
        let answer = self.serve(&request);
        self.answers.push((request.number, answer));
    }

    /// What a real API server does with it.
    fn serve(&mut self, request: &Request) -> Answer {
        let fits = match (&request.step, &self.lease) {
            (Step::Look, lease) => return Answer::Read(lease.clone()),
            (Step::Create, lease) => lease.is_none(),
            (Step::Take { version } | Step::Renew { version }, Some(lease)) => lease.version == *version,
            _ => false,
        };
        if !fits {
            return Answer::Write(Written::Refused);
        }
        self.version += 1;
        let mut lease = request.lease.clone();
        lease.version = self.version.to_string();
        self.lease = Some(lease.clone());
        Answer::Write(Written::Done(lease))
    }

    fn answer(&mut self, process: usize) {
        let now = self.now;
        let process = &mut self.processes[process];
        let Some((number, ..)) = &process.waits_for else { return };
        let Some(at) = self.answers.iter().position(|(of, _)| of == number) else { return };
        let (_, answer) = self.answers.swap_remove(at);
        let Some((_, _, sent)) = process.waits_for.take() else { return };
        match answer {
            Answer::Read(found) => process.election.saw(now, found),
            Answer::Write(written) => {
                self.elected += usize::from(matches!(written, Written::Done(_)));
                process.election.wrote(sent, now, written);
            }
        }
    }

    fn holders(&self) -> Vec<&str> {
        let holds = |process: &&Process| process.election.held_until().is_some_and(|until| self.now < until);
        self.processes.iter().filter(holds).map(|process| process.name.as_str()).collect()
    }
}

fn world(timings: [Timing; PROCESSES]) -> World {
    let mut world = World::default();
    for (number, timing) in timings.into_iter().enumerate() {
        // Two of them were given the same name by mistake.
        let process = world.process(["a", "b", "a"][number].to_owned(), timing);
        world.processes.push(process);
    }
    world
}

fn timing() -> impl Strategy<Value = Timing> {
    let durations = (2..6_u64, 1..100_u64, 1..100_u64, 1..100_u64);
    durations.prop_filter_map("durations that fit together", |(lease, renew, retry, request)| {
        let lease = Duration::from_secs(lease);
        let part = |percent: u64| lease * u32::try_from(percent).unwrap() / 100;
        Timing::new(lease, part(renew), part(retry), part(request)).ok()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn there_are_never_two_holders(
        timings in [timing(), timing(), timing()],
        story in prop::collection::vec(happens(), 50..400),
    ) {
        let mut world = world(timings);
        for event in story {
            world.happens(event.clone());
            let holders = world.holders();
            prop_assert!(holders.len() <= 1, "after {event:?} these hold it: {holders:?} {world:#?}");
        }
    }

    /// However long it went wrong: when everything works again, one process leads within one lease duration and two tries.
    #[test]
    fn somebody_leads_soon_when_nothing_goes_wrong_any_more(
        timing in timing(),
        story in prop::collection::vec(happens(), 0..200),
    ) {
        let mut world = world([timing; PROCESSES]);
        for event in story {
            world.happens(event);
        }
        while !world.under_way.is_empty() {
            world.happens(Happens::Arrives(0));
        }
        for process in 0..PROCESSES {
            world.happens(Happens::Answers(process));
            world.happens(Happens::GivesUp(process));
            // Its watch works again.
            world.happens(Happens::Sees(process));
        }
        let tick = Duration::from_millis(10);
        let until = world.now + timing.lease_duration() + timing.retry_period() * 2 + tick * 4;
        while world.now < until && world.holders().is_empty() {
            for process in 0..PROCESSES {
                world.happens(Happens::Turn(process));
            }
            world.now += tick;
        }
        prop_assert_eq!(world.holders().len(), 1, "{:#?}", world);
    }
}

/// The stories would prove nothing if no process were ever elected in them.
#[test]
fn the_stories_contain_elections() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let timing = Timing::new(
        Duration::from_secs(4),
        Duration::from_secs(2),
        Duration::from_millis(500),
        Duration::from_secs(1),
    )
    .unwrap();
    let mut elected = 0;
    for _ in 0..20 {
        let story = prop::collection::vec(happens(), 400).new_tree(&mut runner).unwrap().current();
        let mut world = world([timing; PROCESSES]);
        for event in story {
            world.happens(event);
        }
        elected += world.elected;
    }
    assert!(elected > 150, "{elected} elections and renewals");
}
