//! What the tests with a plan share: a network, a log that the test extends, and what was granted.

use alloc::sync::Arc;
use alloc::vec::Vec;

use kgate_core::{
    Defects, Directory, Fence, GrantId, Incarnation, Input, LogView, NodeId, Notice, Placement,
    SlotOptions, Time,
};

use crate::harness::{Net, setup};
use crate::home::Home;

/// Processes whose log is at the test's command. Node 0 is not necessarily home.
pub(super) struct Fixture {
    pub(super) net: Net<Home>,
    pub(super) log: Arc<LogView>,
}

impl Fixture {
    pub(super) fn new(nodes: u32, k: u32) -> Self {
        Self::with(nodes, k, SlotOptions { keep: false, ..SlotOptions::default() }, Defects::NONE)
    }

    pub(super) fn with(nodes: u32, k: u32, slots: SlotOptions, defects: Defects) -> Self {
        let mut known = setup(nodes, k, defects);
        let log = Arc::new(LogView::initial(nodes, k));
        (known.slots, known.log) = (slots, Some(log.clone()));
        Self { net: Net::with(known), log }
    }

    pub(super) fn placement(&self) -> Placement {
        self.log.home().expect("there are members")
    }

    /// The home, and all other processes in the order of ids.
    pub(super) fn home_and_others<const N: usize>(&self) -> (u32, [u32; N]) {
        let home = self.placement().node.0;
        let others = (0..).take(self.net.nodes.len()).filter(|&node| node != home);
        let others: Vec<u32> = others.take(N).collect();
        (home, others.try_into().expect("so many processes"))
    }

    /// The log grows by one entry, which nobody has applied.
    pub(super) fn append(&mut self, change: impl FnOnce(&mut LogView)) {
        let log = Arc::make_mut(&mut self.log);
        log.index.0 += 1;
        change(log);
    }

    pub(super) fn change_members(&mut self, change: impl FnOnce(&mut Directory)) {
        self.append(|log| change(Arc::make_mut(&mut log.directory)));
    }

    /// The log finds a member unfit to be home.
    pub(super) fn unfit(&mut self, node: u32) {
        self.change_members(|members| members.set_fit(NodeId(node), Incarnation(0), false));
    }

    pub(super) fn evict(&mut self, node: u32) {
        self.change_members(|members| members.evict(NodeId(node), Incarnation(0)));
    }

    /// These processes apply the whole log.
    pub(super) fn apply(&mut self, at: impl IntoIterator<Item = u32>) {
        for node in at {
            self.net.input(node, Input::Applied(self.log.clone())).unwrap();
        }
    }

    pub(super) fn apply_everywhere(&mut self) {
        self.apply(self.net.live());
    }

    pub(super) fn acquire(&mut self, at: u32, weight: u32) {
        self.net.input(at, Input::Acquire { weight }).unwrap();
    }

    /// Delivers what is due by then, and nothing later.
    pub(super) fn deliver_until(&mut self, end: Time) {
        while let Some((&(due, _), _)) = self.net.flights.first_key_value()
            && due <= end
        {
            self.net.now = due;
            self.net.deliver_nth(0);
        }
        self.net.now = end;
    }

    /// Requests, delivers everything, and returns what was granted.
    pub(super) fn enter(&mut self, at: u32, weight: u32) -> Granted {
        let before = self.granted(at).len();
        self.acquire(at, weight);
        self.net.deliver_all();
        let mut granted = self.granted(at);
        assert_eq!(granted.len(), before + 1, "p{at} is granted one request");
        granted.pop().expect("just seen")
    }

    pub(super) fn release(&mut self, at: u32, granted: &Granted) {
        self.net.input(at, Input::Release { grant: granted.grant }).unwrap();
    }

    /// Everything that clients of this process were granted.
    pub(super) fn granted(&self, at: u32) -> Vec<Granted> {
        let granted = self.net.notices.iter().filter_map(|(_, node, notice)| match notice {
            Notice::Granted { grant, slots: Some(slots), fence: Some(fence) } if node.0 == at => {
                Some(Granted { grant: *grant, slots: slots.to_vec(), fence: *fence })
            }
            Notice::Granted { .. }
            | Notice::Asked
            | Notice::Lost { .. }
            | Notice::Adopted { .. }
            | Notice::AdoptionRefused { .. }
            | Notice::TooLarge { .. }
            | Notice::Suspected { .. } => None,
        });
        granted.collect()
    }

    /// The last adoption at this process: the grant, its fence, and the attempt.
    pub(super) fn adopted(&self, at: u32) -> Option<(GrantId, Fence, u32)> {
        let mut adopted =
            self.net.notices.iter().rev().filter_map(|(_, node, notice)| match notice {
                Notice::Adopted { grant, fence, attempt } if node.0 == at => {
                    Some((*grant, *fence, *attempt))
                }
                Notice::Adopted { .. }
                | Notice::Granted { .. }
                | Notice::Asked
                | Notice::Lost { .. }
                | Notice::AdoptionRefused { .. }
                | Notice::TooLarge { .. }
                | Notice::Suspected { .. } => None,
            });
        adopted.next()
    }

    /// Whether a process was told this.
    pub(super) fn was_told(&self, at: u32, what: &Notice) -> bool {
        self.net.notices.iter().any(|(_, node, notice)| node.0 == at && notice == what)
    }

    /// The number of messages so far.
    pub(super) fn messages(&self) -> usize {
        self.net.sent.len()
    }
}

/// What a client was granted.
#[derive(Clone, Debug)]
pub(super) struct Granted {
    pub(super) grant: GrantId,
    pub(super) slots: Vec<u32>,
    pub(super) fence: Fence,
}
