//! The reasons for which a rank cannot join, as numbers that one side can tell the other.

use proxy_core::phone::layout::LayoutError;

use super::error::{Field, JoinError};

/// The errors that one side tells the other, as a code and two numbers: ours and theirs.
pub(super) fn parts(error: &JoinError) -> (u32, u64, u64) {
    match *error {
        JoinError::Layout(LayoutError::VersionMismatch { ours, theirs }) => {
            (1, ours.into(), theirs.into())
        }
        JoinError::Layout(LayoutError::HashMismatch { ours, theirs }) => {
            (2, ours.into(), theirs.into())
        }
        JoinError::Layout(LayoutError::StampMismatch { ours, theirs }) => {
            (3, ours.into(), theirs.into())
        }
        JoinError::Differs {
            field,
            ours,
            theirs,
        } => {
            let code = match field {
                Field::World => 4,
                Field::Barriers => 5,
                Field::Cells => 6,
            };
            (code, ours, theirs)
        }
        JoinError::NoSuchRank { rank, world } => (7, rank, world),
        JoinError::RankTaken { rank } => (8, rank, 0),
        JoinError::Earlier => (9, 0, 0),
        JoinError::WrongUser { ours, theirs } => (10, ours, theirs),
        JoinError::OtherJob => (11, 0, 0),
        JoinError::FdNotDelivered { limit } => (12, limit, 0),
        JoinError::NotSealed => (13, 0, 0),
        JoinError::TooSmall { found, wanted } => (14, found, wanted),
        JoinError::NoSpace { wanted } => (15, wanted, 0),
        JoinError::Unsupported { errno, .. } | JoinError::System { errno, .. } => {
            (16, errno.unsigned_abs().into(), 0)
        }
        _ => (17, 0, 0),
    }
}

/// The error of a code and two numbers, if there is one.
pub(super) fn from_parts((code, ours, theirs): (u32, u64, u64)) -> Option<JoinError> {
    let word = |long: u64| u32::try_from(long).ok();
    let differs = |field| JoinError::Differs {
        field,
        ours,
        theirs,
    };
    Some(match code {
        1 => JoinError::Layout(LayoutError::VersionMismatch {
            ours: word(ours)?,
            theirs: word(theirs)?,
        }),
        2 => JoinError::Layout(LayoutError::HashMismatch {
            ours: word(ours)?,
            theirs: word(theirs)?,
        }),
        3 => JoinError::Layout(LayoutError::StampMismatch {
            ours: word(ours)?,
            theirs: word(theirs)?,
        }),
        4 => differs(Field::World),
        5 => differs(Field::Barriers),
        6 => differs(Field::Cells),
        7 => JoinError::NoSuchRank {
            rank: ours,
            world: theirs,
        },
        8 => JoinError::RankTaken { rank: ours },
        9 => JoinError::Earlier,
        10 => JoinError::WrongUser { ours, theirs },
        11 => JoinError::OtherJob,
        12 => JoinError::FdNotDelivered { limit: ours },
        13 => JoinError::NotSealed,
        14 => JoinError::TooSmall {
            found: ours,
            wanted: theirs,
        },
        15 => JoinError::NoSpace { wanted: ours },
        16 | 17 => JoinError::System {
            call: "joining",
            errno: i32::try_from(ours).ok()?,
        },
        _ => return None,
    })
}

/// The same error as the other side sees it.
pub(super) fn mirrored(error: JoinError) -> JoinError {
    match error {
        JoinError::Layout(LayoutError::VersionMismatch { ours, theirs }) => {
            JoinError::Layout(LayoutError::VersionMismatch {
                ours: theirs,
                theirs: ours,
            })
        }
        JoinError::Layout(LayoutError::HashMismatch { ours, theirs }) => {
            JoinError::Layout(LayoutError::HashMismatch {
                ours: theirs,
                theirs: ours,
            })
        }
        JoinError::Layout(LayoutError::StampMismatch { ours, theirs }) => {
            JoinError::Layout(LayoutError::StampMismatch {
                ours: theirs,
                theirs: ours,
            })
        }
        JoinError::Differs {
            field,
            ours,
            theirs,
        } => JoinError::Differs {
            field,
            ours: theirs,
            theirs: ours,
        },
        JoinError::WrongUser { ours, theirs } => JoinError::WrongUser {
            ours: theirs,
            theirs: ours,
        },
        same => same,
    }
}
