// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much is measured.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How much is measured; each level includes the one before it.
///
/// ```
/// use metrale_telemetry::{Level, global};
///
/// // From a flag or a variable of the server's.
/// global().set_level("basic".parse()?);
/// assert!(global().level() < Level::Kernel);
/// # Ok::<(), metrale_telemetry::UnknownLevel>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Nothing: a hot-path call is one relaxed load. Spans still open can be
    /// ended and harvested.
    Off,
    /// Host-side counts, and wall time of steps and lanes; no driver call.
    Basic,
    /// GPU spans of every lane, and of the kernels of armed steps.
    #[default]
    Kernel,
}

impl Level {
    /// Every level, from the least.
    pub const ALL: [Level; 3] = [Level::Off, Level::Basic, Level::Kernel];

    /// The level's spelling, as [`FromStr`] takes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Level::Off => "off",
            Level::Basic => "basic",
            Level::Kernel => "kernel",
        }
    }

    #[inline]
    pub(crate) const fn from_u8(value: u8) -> Self {
        match value {
            0 => Level::Off,
            1 => Level::Basic,
            _ => Level::Kernel,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The given word is no level.
///
/// ```
/// use metrale_telemetry::Level;
///
/// let error = "full".parse::<Level>().unwrap_err();
/// assert_eq!(error.to_string(), r#""full" is not a level; use off, basic or kernel"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is not a level; use off, basic or kernel")]
pub struct UnknownLevel {
    /// What was found.
    pub found: String,
}

impl FromStr for Level {
    type Err = UnknownLevel;

    fn from_str(word: &str) -> Result<Self, UnknownLevel> {
        let found = Level::ALL.into_iter().find(|level| level.as_str() == word);
        found.ok_or_else(|| UnknownLevel { found: word.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::Level;

    #[test]
    fn only_the_exact_spellings_are_levels() {
        for level in Level::ALL {
            assert_eq!(level.to_string().parse(), Ok(level));
        }
        for word in ["", "Off", "KERNEL", "kernel ", "on", "2"] {
            let error = word.parse::<Level>().unwrap_err();
            assert!(error.to_string().contains("off, basic or kernel"), "{error}");
        }
        assert!(Level::Off < Level::Basic && Level::Basic < Level::Kernel);
    }
}
