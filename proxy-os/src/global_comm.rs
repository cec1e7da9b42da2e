//! The global communicator's host side: one setup, one free, and nothing left behind between them.
//!
//! ```text
//!   setup   join -> connect -> exchange -> group -> leaders         (enc_setup_global_comm_internal)
//!   free    group <- leaders <- bus: hang up, clean up              (enc_free_global_comm)
//! ```
//!
//! In the specification (section 1) the two functions own both the host bus and the shared proxy queue, and nothing else couples them. So
//! it is here: a rank joins the bus (`bp_create`, `bp_connect`), makes sure that all ranks have the same collectives and gets their unique id,
//! shares or creates the worker of its group, and, on the leader of a machine among several, starts the exchange with the
//! other leaders. When a step fails, those before it are undone in the opposite order, and the error names the step. Free
//! gives the group up first, as its tasks may be at a barrier of the bus, then ends the exchange, then leaves the bus (`bp_hangup`, `bp_cleanup`).

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proxy_core::phone::barrier::RankSet;

use crate::DeviceWord;
use crate::bananaphone::bootstrap::{BootstrapError, BusLink, DIGEST, Link, UNIQUE_ID, bootstrap};
use crate::bananaphone::leaders::{Leaders, LeadersError, Stopped};
use crate::bananaphone::task::{TaskBarrier, TooManySemaphores};
use crate::bananaphone::{Bus, BusError, JoinError, Options, Within};
use crate::config::Settings;
use crate::log;
use crate::queue::{ProxyQueue, Release, ReleaseError};
use crate::registry::{AcquireError, Group, Released};

/// How long a free waits to learn who has just died: a look takes microseconds, and a machine may be busy.
const LOOK: Duration = Duration::from_millis(100);

/// Tag of the exchange's messages; the bus's users have the others.
const TAG: u32 = crate::bananaphone::MAX_TAG;

/// What a rank brings to the exchange of signature and unique id.
pub struct Exchange<'a> {
    /// Digest of the rank's collectives, which must be the same on all ranks.
    pub digest: [u8; DIGEST],
    /// Makes the unique id; called on rank 0 only, when all digests are the same. `None` = it cannot, and all ranks fail.
    pub make_id: &'a mut dyn FnMut() -> Option<[u8; UNIQUE_ID]>,
}

impl fmt::Debug for Exchange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Exchange");
        text.field("digest", &self.digest).finish_non_exhaustive()
    }
}

/// What a global communicator is made of.
#[derive(Debug)]
pub struct Setup<'a> {
    /// The bus of this machine's ranks. Its deadline is that of each step, and its knob is named when one passes; [`Settings::bus_within`]
    /// is the one to use.
    pub bus: Options,
    /// The device of this rank (`nec_dev`), which says what group it is in.
    pub device: u32,
    /// The settings of the group's worker, if this is its first user.
    pub settings: &'a Settings,
    /// The bootstrap exchange of the bus's ranks; `None` = there is none, or the caller runs [`bootstrap`] over a link of all machines.
    pub exchange: Option<Exchange<'a>>,
}

/// A step of the setup, in order.
#[derive(Debug)]
pub enum SetupError {
    /// This rank could not join the bus (`bp_create`).
    Join(JoinError),
    /// Not all ranks came to the bus (`bp_connect`).
    Connect(JoinError),
    /// The ranks have different collectives, or no unique id.
    Exchange(Box<BootstrapError<BusError>>),
    /// The group's worker could not be shared or started.
    Group(AcquireError),
    /// The exchange between machines could not be started.
    Leaders(LeadersError),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("setup of the global communicator, ")?;
        match self {
            Self::Join(error) => write!(f, "joining the bus: {error}"),
            Self::Connect(error) => write!(f, "meeting all ranks on the bus: {error}"),
            Self::Exchange(error) => write!(f, "exchanging signature and unique id: {error}"),
            Self::Group(error) => write!(f, "sharing the group's worker: {error}"),
            Self::Leaders(error) => write!(f, "starting the leaders' exchange: {error}"),
        }
    }
}

impl std::error::Error for SetupError {}

/// Why a barrier task's side could not be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BarrierError {
    /// No such barrier, or this rank is not among its participants.
    Bus(BusError),
    /// More done semaphores than a leader has.
    Semaphores(TooManySemaphores),
    /// The leader's seat is not to be had.
    Seat(String),
}

impl fmt::Display for BarrierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bus(error) => error.fmt(f),
            Self::Semaphores(error) => error.fmt(f),
            Self::Seat(error) => f.write_str(error),
        }
    }
}

impl std::error::Error for BarrierError {}

/// How a global communicator was freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freed {
    /// Whether the group's worker has ended, or how many others share it.
    pub group: Released,
    /// How the exchange between machines was stopped, if there was one. After [`Stopped::Detached`] the communicator under its link must
    /// stay: leave it allocated, do not call `neuronFreeComm` on it.
    pub leaders: Option<Stopped>,
    /// The ranks of the bus that had died by then, without whom it was freed. A process that is being killed closes its connections a
    /// moment before it is dead, so a free at the first sign may not know yet.
    pub dead: RankSet,
}

/// A communicator that could not be freed yet.
#[derive(Debug)]
pub struct NotFreed {
    /// It, as it was.
    pub comm: GlobalComm,
    /// What is left of the group's tasks, or the call of the library that its worker is stuck in.
    pub error: ReleaseError,
}

impl fmt::Display for NotFreed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "free of the global communicator: {}", self.error)
    }
}

impl std::error::Error for NotFreed {}

/// One rank's global communicator, host side. Used by one thread; the worker uses what it was given.
///
/// Dropped without [`Self::free`] it does the same with an abort of the group's tasks if it is the last share.
#[derive(Debug)]
pub struct GlobalComm {
    // Dropped in this order: tasks first, then what they meet by.
    group: Group,
    leaders: Option<Leaders>,
    bus: Bus,
    unique_id: Option<[u8; UNIQUE_ID]>,
}

impl GlobalComm {
    /// Sets up (`enc_setup_global_comm_internal`). Returns when all ranks of the bus are there and the group's worker runs.
    /// Waits for other ranks, up to the bus's deadline in each step; never call it on a worker's thread.
    ///
    /// # Errors
    /// See [`SetupError`]. Everything done before the step that failed is undone.
    pub fn setup(setup: Setup<'_>) -> Result<Self, SetupError> {
        let within = setup.bus.deadline;
        // A bus that is dropped hangs up and cleans up.
        let mut bus = Bus::create(&setup.bus).map_err(SetupError::Join)?;
        bus.connect(within).map_err(SetupError::Connect)?;
        let id = setup.exchange.map(|own| exchange(&mut bus, own, within));
        let unique_id = id
            .transpose()
            .map_err(|error| SetupError::Exchange(Box::new(error)))?;
        let group = Group::for_device(setup.device, setup.settings, within.time);
        let group = group.map_err(SetupError::Group)?;
        // The tag is the specification's (section 1).
        log::info(format_args!(
            "enc_setup_global_comm_bananaphones: bus {}, rank {} of {}, {}",
            setup.bus.job,
            bus.rank(),
            bus.world(),
            group.queue().gid()
        ));
        Ok(Self {
            group,
            leaders: None,
            bus,
            unique_id,
        })
    }

    /// The leader of a machine among several: starts the exchange with the other leaders, for as many channels as the bus has barriers. Call it on the
    /// lowest rank of each machine's barriers only; see [`Leaders::start`] for the arguments.
    ///
    /// # Errors
    /// [`SetupError::Leaders`], and the whole setup is undone.
    pub fn between_machines<L: Link + Send + 'static>(
        mut self,
        link: L,
        peers: &[u32],
        machine: usize,
    ) -> Result<Self, SetupError> {
        let channels = self.bus.barriers();
        let started = Leaders::start(link, peers, machine, channels);
        self.leaders = Some(started.map_err(SetupError::Leaders)?);
        Ok(self)
    }

    /// This rank's side of a barrier task (`setup_local_barrier`): barrier `slot` of the bus, whose `participants` are the ranks of this machine that
    /// take part. `semaphores` = the done semaphores, up to 4, raised by the leader only; `within` = how long one execution may be at the
    /// barrier. On a leader with an exchange the barrier spans machines, by the channel with the slot's number.
    ///
    /// # Errors
    /// See [`BarrierError`].
    pub fn task_barrier(
        &self,
        slot: u16,
        participants: RankSet,
        semaphores: Vec<DeviceWord>,
        within: impl Into<Within>,
    ) -> Result<TaskBarrier, BarrierError> {
        let barrier = self.bus.barrier(slot, participants);
        let barrier = barrier.map_err(BarrierError::Bus)?;
        let leads = barrier.is_leader();
        let task =
            TaskBarrier::new(barrier, semaphores, within).map_err(BarrierError::Semaphores)?;
        match &self.leaders {
            Some(leaders) if leads => {
                let seat = leaders.seat(slot);
                let seat = seat.map_err(|error| BarrierError::Seat(error.to_string()))?;
                Ok(task.between_machines(seat))
            }
            _ => Ok(task),
        }
    }

    /// The worker's queue, shared with the other ranks of the group.
    #[must_use]
    pub fn queue(&self) -> &Arc<ProxyQueue> {
        self.group.queue()
    }

    /// The bus.
    #[must_use]
    pub const fn bus(&mut self) -> &mut Bus {
        &mut self.bus
    }

    /// The unique id of the communicator, if there was an exchange.
    #[must_use]
    pub const fn unique_id(&self) -> Option<&[u8; UNIQUE_ID]> {
        self.unique_id.as_ref()
    }

    /// Frees (`enc_free_global_comm`): gives the share of the group up, stops the exchange, leaves the bus. Waits up to `within` for worker and
    /// exchange together, and for no other rank: the result says which have died. Contexts of this rank must have been retired.
    ///
    /// # Errors
    /// [`NotFreed`], with the communicator: nothing else has been undone, and it can be called again.
    pub fn free(mut self, way: Release, within: Duration) -> Result<Freed, Box<NotFreed>> {
        let since = Instant::now();
        let group = match self.group.release(way, within) {
            Ok(released) => released,
            Err(error) => return Err(Box::new(NotFreed { comm: self, error })),
        };
        let left = within.saturating_sub(since.elapsed());
        let leaders = self.leaders.take().map(|leaders| leaders.stop(left));
        // A bus that cannot be read any more tells of nobody; it is left all the same.
        let dead = self.bus.dead(LOOK).unwrap_or_default();
        self.bus.cleanup();
        Ok(Freed {
            group,
            leaders,
            dead,
        })
    }
}

fn exchange(
    bus: &mut Bus,
    own: Exchange<'_>,
    within: Within,
) -> Result<[u8; UNIQUE_ID], BootstrapError<BusError>> {
    let participants: Vec<u32> = (0..u32::from(bus.world())).collect();
    let rank = usize::from(bus.rank());
    let mut link = BusLink::new(bus, TAG, within);
    bootstrap(&mut link, &participants, rank, &own.digest, own.make_id)
}
