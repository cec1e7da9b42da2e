//! Handles: numbers that look like pointers, and are never followed.
//!
//! ```text
//!   63      56 55                            16 15        0
//!   +---------+--------------------------------+-----------+
//!   |  kind   |          generation            |   place   |
//!   +---------+--------------------------------+-----------+
//! ```
//!
//! The kind's byte lies in 0x90 to 0x9F: no address that a Linux process can have on a 64-bit machine begins so, so a real pointer is
//! never taken for a handle, and whoever follows a handle faults at once instead of reading something.

use std::fmt;

const PLACE_BITS: u32 = 16;
const GENERATION_BITS: u32 = 40;
const KIND_SHIFT: u32 = PLACE_BITS + GENERATION_BITS;

/// The last generation of a place; a place that has reached it is given out no more.
pub(crate) const LAST_GENERATION: u64 = (1 << GENERATION_BITS) - 1;
/// Places that a handle can name.
pub(crate) const MAX_PLACES: usize = 1 << PLACE_BITS;

/// What a handle stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Library = 0x90,
    Comm = 0x91,
    Settings = 0x92,
    Group = 0x93,
    Context = 0x94,
    Bus = 0x95,
    Barrier = 0x96,
    GlobalComm = 0x97,
    ReportService = 0x98,
}

impl Kind {
    const ALL: [Self; 9] = [
        Self::Library,
        Self::Comm,
        Self::Settings,
        Self::Group,
        Self::Context,
        Self::Bus,
        Self::Barrier,
        Self::GlobalComm,
        Self::ReportService,
    ];

    /// The name of its type in C.
    pub(crate) const fn type_name(self) -> &'static str {
        match self {
            Self::Library => "enc_proxy_library",
            Self::Comm => "enc_proxy_comm",
            Self::Settings => "enc_proxy_settings",
            Self::Group => "enc_proxy_group",
            Self::Context => "encd_context",
            Self::Bus => "bananaphone",
            Self::Barrier => "bp_barrier",
            Self::GlobalComm => "enc_glb_comm",
            Self::ReportService => "enc_proxy_report_service",
        }
    }
}

/// A handle taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handle {
    pub(crate) kind: Kind,
    pub(crate) generation: u64,
    pub(crate) place: usize,
}

/// Why a number is no live handle of the kind that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadHandle {
    Null,
    /// No handle was ever like this.
    Foreign(u64),
    WrongKind(Kind),
    /// It was one; it has been destroyed.
    Freed,
    /// A panic happened in a call on it.
    Poisoned,
    /// More calls at once than are counted.
    Crowded,
}

impl fmt::Display for BadHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("is null"),
            Self::Foreign(bits) => write!(f, "is {bits:#x}, which was never given out"),
            Self::WrongKind(kind) => write!(f, "is of type {}", kind.type_name()),
            Self::Freed => f.write_str("has been destroyed already"),
            Self::Poisoned => {
                f.write_str("can only be destroyed: an earlier call on it has panicked")
            }
            Self::Crowded => f.write_str("is used by too many calls at once"),
        }
    }
}

impl Handle {
    /// The handle as C holds it.
    pub(crate) const fn bits(self) -> u64 {
        (self.kind as u64) << KIND_SHIFT | self.generation << PLACE_BITS | self.place as u64
    }

    /// Takes a number apart; a null pointer, and a number that is no handle of `kind`, are told apart.
    pub(crate) fn parse(bits: u64, kind: Kind) -> Result<Self, BadHandle> {
        if bits == 0 {
            return Err(BadHandle::Null);
        }
        let found = bits >> KIND_SHIFT;
        if found != kind as u64 {
            let other = Kind::ALL
                .into_iter()
                .find(|other| *other as u64 == found)
                .map(BadHandle::WrongKind);
            return Err(other.unwrap_or(BadHandle::Foreign(bits)));
        }
        Ok(Self {
            kind,
            generation: bits >> PLACE_BITS & LAST_GENERATION,
            place: (bits & (MAX_PLACES as u64 - 1)) as usize,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_survives_its_way_through_a_number() {
        for kind in Kind::ALL {
            for (generation, place) in [(1, 0), (LAST_GENERATION, MAX_PLACES - 1)] {
                let handle = Handle {
                    kind,
                    generation,
                    place,
                };
                assert_eq!(Handle::parse(handle.bits(), kind), Ok(handle));
            }
        }
    }

    #[test]
    fn null_addresses_and_other_kinds_are_told_apart() {
        let local = 0_u64;
        let address = (&raw const local).addr() as u64;
        let parse = |bits| Handle::parse(bits, Kind::Group);
        assert_eq!(parse(0), Err(BadHandle::Null));
        assert_eq!(parse(address), Err(BadHandle::Foreign(address)));
        assert_eq!(parse(u64::MAX), Err(BadHandle::Foreign(u64::MAX)));
        let bus = Handle {
            kind: Kind::Bus,
            generation: 7,
            place: 3,
        };
        assert_eq!(parse(bus.bits()), Err(BadHandle::WrongKind(Kind::Bus)));
    }
}
