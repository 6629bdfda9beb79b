// SPDX-License-Identifier: MIT OR Apache-2.0
//! One event of a trace, taken key by key.
//!
//! Invariants: of an event of a category that a replay does not use nothing is
//! kept once the category is known; names are bytes, so they need not be UTF-8;
//! numbers are text, so a stamp is never a float.

use std::io::Read;
use std::ops::Index;

use super::json::{Json, Result, Text, ValueKind};

/// What an event is to a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Category {
    /// Of no use.
    #[default]
    Skip,
    Kernel,
    /// A copy or a set of memory.
    Copy,
    /// A host call into a runtime or a driver, of whatever backend.
    Call,
    Annotation,
    /// A range on a stream: of use where it is a lane's that we exported.
    Range,
}

impl Category {
    fn of(text: &Text) -> Self {
        if text.odd || text.kind != ValueKind::String {
            return Category::Skip;
        }
        match &text.bytes[..] {
            b"kernel" | b"Kernel" => Category::Kernel,
            b"gpu_memcpy" | b"Memcpy" | b"gpu_memset" | b"Memset" => Category::Copy,
            b"user_annotation" => Category::Annotation,
            b"gpu_user_annotation" => Category::Range,
            b"Runtime" => Category::Call,
            other if other.ends_with(b"_runtime") || other.ends_with(b"_driver") => Category::Call,
            _ => Category::Skip,
        }
    }
}

/// A key that a replay reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Category,
    Phase,
    Name,
    Ts,
    Dur,
    Pid,
    Tid,
    Device,
    Stream,
    Correlation,
    /// Joins an annotation and its range on a stream.
    External,
    /// What a row is of, in our own exports.
    Kind,
    /// Holds some of the others: no text.
    Args,
}

/// Those of an event.
const EVENT: [(&[u8], Key); 8] = [
    (b"ph", Key::Phase),
    (b"cat", Key::Category),
    (b"name", Key::Name),
    (b"ts", Key::Ts),
    (b"dur", Key::Dur),
    (b"pid", Key::Pid),
    (b"tid", Key::Tid),
    (b"args", Key::Args),
];
/// Those of its arguments.
const ARGS: [(&[u8], Key); 5] = [
    (b"device", Key::Device),
    (b"stream", Key::Stream),
    (b"correlation", Key::Correlation),
    (b"External id", Key::External),
    (b"kind", Key::Kind),
];

fn find(keys: &[(&[u8], Key)], key: &[u8]) -> Option<Key> {
    let found = keys.iter().find(|(name, _)| *name == key);
    found.map(|(_, key)| *key)
}

/// The parts of an event that a replay reads; one is reused for all events.
#[derive(Debug, Default)]
pub(super) struct Fields {
    pub(super) category: Category,
    /// A key stood twice.
    pub(super) duplicate: bool,
    texts: [Text; Key::Args as usize],
}

impl Index<Key> for Fields {
    type Output = Text;
    fn index(&self, key: Key) -> &Text {
        &self.texts[key as usize]
    }
}

impl Fields {
    fn clear(&mut self) {
        self.category = Category::Skip;
        self.duplicate = false;
        self.texts.iter_mut().for_each(Text::clear);
    }

    fn take<R: Read>(&mut self, key: Key, json: &mut Json<R>) -> Result<()> {
        json.text(&mut self.texts[key as usize])
    }

    /// Takes the event whose opening bracket is next. A name or a category that
    /// is no string counts among what is not JSON.
    pub(super) fn read<R: Read>(&mut self, json: &mut Json<R>) -> Result<()> {
        self.clear();
        json.enter();
        let (mut first, mut seen, mut known) = (true, 0, false);
        while let Some(key) = json.key(&mut first, |key| find(&EVENT, key))? {
            if known && self.category == Category::Skip {
                let odd = json.odd;
                let is_string = json.skip()?;
                json.odd += u64::from(key == Some(Key::Name) && !is_string && json.odd == odd);
                continue;
            }
            self.duplicate |= key.is_some_and(|key| is_again(&mut seen, key));
            match key {
                Some(Key::Args) if json.next()? == Some(b'{') => self.read_args(json)?,
                None | Some(Key::Args) => drop(json.skip()?),
                Some(key) => {
                    self.take(key, json)?;
                    if matches!(key, Key::Category | Key::Name) {
                        json.odd += self[key].is_no_string();
                    }
                    if key == Key::Category {
                        self.category = Category::of(&self[key]);
                        known = true;
                    }
                }
            }
        }
        Ok(())
    }

    fn read_args<R: Read>(&mut self, json: &mut Json<R>) -> Result<()> {
        json.enter();
        let (mut first, mut seen) = (true, 0);
        while let Some(key) = json.key(&mut first, |key| find(&ARGS, key))? {
            match key {
                None => drop(json.skip()?),
                Some(key) => {
                    self.duplicate |= is_again(&mut seen, key);
                    self.take(key, json)?;
                }
            }
        }
        Ok(())
    }
}

/// Sets the key's bit, and says whether it was set before.
fn is_again(seen: &mut u16, key: Key) -> bool {
    let bit = 1 << key as u16;
    let again = *seen & bit != 0;
    *seen |= bit;
    again
}
