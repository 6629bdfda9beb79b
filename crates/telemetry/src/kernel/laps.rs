// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which slot a ticket is of: tickets go round the slots, and each round is a lap.

/// The laps of a ring. Ticket `t` is of slot `t mod slots`,
/// in lap `t / slots + 1`.
#[derive(Clone, Copy)]
pub(super) struct Laps {
    slots: u64,
    /// (2^64 - 1) / slots: what is divided by the slots is multiplied by this,
    /// as a division takes longer than all the rest of a begin.
    reciprocal: u64,
}

impl Laps {
    /// For a ring of `slots` slots, at least one.
    pub(super) fn new(slots: usize) -> Self {
        let slots = slots as u64;
        Self { slots, reciprocal: u64::MAX / slots }
    }

    /// The ticket's slot and lap.
    #[inline]
    pub(super) fn of(self, ticket: u64) -> (usize, u64) {
        let product = u128::from(ticket) * u128::from(self.reciprocal);
        // The quotient, or one less: the reciprocal is less than one slot's
        // worth too small, and the ticket is less than 2^64.
        let rounds = (product >> 64) as u64;
        let index = ticket - rounds * self.slots;
        if index < self.slots {
            (index as usize, rounds + 1)
        } else {
            ((index - self.slots) as usize, rounds + 2)
        }
    }

    /// The ticket of a slot's lap, from 1.
    #[inline]
    pub(super) fn ticket(self, index: usize, lap: u64) -> u64 {
        (lap - 1) * self.slots + index as u64
    }
}

#[cfg(all(test, not(metrale_loom)))]
mod tests {
    use super::Laps;

    #[test]
    fn a_ticket_has_the_slot_and_lap_of_a_division() {
        let sizes = (1..100).chain([4095, 4096, 4097, (1 << 24) - 1, 1 << 24]);
        for slots in sizes {
            let (laps, size) = (Laps::new(slots), slots as u64);
            let last = (1 << 60) / size * size;
            for base in [0, 7 * size, (1 << 40) / size * size, last - size, last] {
                for ticket in [base.saturating_sub(1), base, base.saturating_add(1)] {
                    let (index, lap) = laps.of(ticket);
                    let divided = ((ticket % size) as usize, ticket / size);
                    assert_eq!((index, lap - 1), divided, "{ticket} of {slots}");
                    assert_eq!(laps.ticket(index, lap), ticket);
                }
            }
        }
    }
}
