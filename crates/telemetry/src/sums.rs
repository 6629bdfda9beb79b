// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of counts, and how they add up.
//!
//! 1. A record's fields are listed once, in its declaration by [`sums!`]; who
//!    adds, compares or exports them iterates.
//! 2. A sum saturates: it neither panics nor wraps. [`Adding`] says that one did.

/// Adds up, and remembers whether a sum was too large for its number.
#[derive(Default)]
pub(crate) struct Adding {
    pub(crate) is_saturated: bool,
}

impl Adding {
    pub(crate) fn add(&mut self, sum: &mut u64, more: u64) {
        *sum = sum.saturating_add(more);
        self.is_saturated |= *sum == u64::MAX;
    }

    /// A sum of finite floats, as a finite one.
    pub(crate) fn float(&mut self, sum: f64) -> f64 {
        self.is_saturated |= sum.is_infinite();
        sum.clamp(f64::MIN, f64::MAX)
    }
}

/// Declares a record of counts. All are 0 in `NONE`, `each` lists them by name
/// in the order of the declaration, and `plus` adds another record.
macro_rules! sums {
    (
        $(#[$of:meta])*
        pub struct $name:ident {
            $($(#[$doc:meta])* pub $field:ident: u64,)+
        }
    ) => {
        $(#[$of])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord,
            serde::Serialize, serde::Deserialize,
        )]
        #[serde(default)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$doc])* pub $field: u64,)+
        }

        #[allow(dead_code, reason = "not every record needs each of these")]
        impl $name {
            const FIELDS: usize = [$(stringify!($field)),+].len();

            pub(crate) const NONE: Self = Self { $($field: 0,)+ };

            /// Each field's name and value.
            pub(crate) fn each(&self) -> [(&'static str, u64); Self::FIELDS] {
                [$((stringify!($field), self.$field)),+]
            }

            pub(crate) fn add_all(&mut self, other: &Self, adding: &mut crate::sums::Adding) {
                $(adding.add(&mut self.$field, other.$field);)+
            }

            /// Adds another. Sums saturate.
            #[must_use]
            pub fn plus(mut self, other: Self) -> Self {
                $(self.$field = self.$field.saturating_add(other.$field);)+
                self
            }
        }
    };
}
pub(crate) use sums;
