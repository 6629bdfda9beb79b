// SPDX-License-Identifier: MIT OR Apache-2.0
//! One event of a trace, taken key by key.
//!
//! Invariants: of an event of a category that a replay does not use nothing is
//! kept once the category is known; names are bytes, so they need not be UTF-8;
//! numbers are text, so a stamp is never a float.

use std::io::Read;

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

/// The parts of an event that a replay reads; one is reused for all events.
#[derive(Debug, Default)]
pub(super) struct Fields {
    pub(super) category: Category,
    pub(super) duplicate: bool,
    cat: Text,
    pub(super) phase: Text,
    pub(super) name: Text,
    pub(super) ts: Text,
    pub(super) dur: Text,
    pub(super) pid: Text,
    pub(super) tid: Text,
    pub(super) device: Text,
    pub(super) stream: Text,
    pub(super) correlation: Text,
    /// Joins an annotation and its range on a stream.
    pub(super) external: Text,
    /// What a row is of, in our own exports.
    pub(super) kind: Text,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    Phase,
    Category,
    Name,
    Ts,
    Dur,
    Pid,
    Tid,
    Args,
    Device,
    Stream,
    Correlation,
    External,
    Kind,
    Other,
}

/// Sets a bit per key and says whether it was set before.
#[derive(Default)]
struct Seen(u16);

impl Seen {
    fn again(&mut self, key: Key) -> bool {
        let bit = 1 << key as u16;
        let again = self.0 & bit != 0 && key != Key::Other;
        self.0 |= bit;
        again
    }
}

impl Fields {
    fn clear(&mut self) {
        self.category = Category::Skip;
        self.duplicate = false;
        for text in [
            &mut self.cat,
            &mut self.phase,
            &mut self.name,
            &mut self.ts,
            &mut self.dur,
            &mut self.pid,
            &mut self.tid,
            &mut self.device,
            &mut self.stream,
            &mut self.correlation,
            &mut self.external,
            &mut self.kind,
        ] {
            text.clear();
        }
    }

    /// Takes the event whose opening bracket is next. A name or a category that
    /// is no string counts among what is not JSON.
    pub(super) fn read<R: Read>(&mut self, json: &mut Json<R>) -> Result<()> {
        self.clear();
        json.enter();
        let (mut first, mut seen, mut known) = (true, Seen::default(), false);
        while let Some(key) = json.key(&mut first, event_key)? {
            if known && self.category == Category::Skip {
                let odd = json.odd;
                let is_string = json.skip()?;
                json.odd += u64::from(key == Key::Name && !is_string && json.odd == odd);
                continue;
            }
            self.duplicate |= seen.again(key);
            match key {
                Key::Phase => json.text(&mut self.phase)?,
                Key::Category => {
                    json.text(&mut self.cat)?;
                    json.odd += self.cat.is_no_string();
                    self.category = Category::of(&self.cat);
                    known = true;
                }
                Key::Name => {
                    json.text(&mut self.name)?;
                    json.odd += self.name.is_no_string();
                }
                Key::Ts => json.text(&mut self.ts)?,
                Key::Dur => json.text(&mut self.dur)?,
                Key::Pid => json.text(&mut self.pid)?,
                Key::Tid => json.text(&mut self.tid)?,
                Key::Args if json.next()? == Some(b'{') => self.read_args(json)?,
                _ => drop(json.skip()?),
            }
        }
        Ok(())
    }

    fn read_args<R: Read>(&mut self, json: &mut Json<R>) -> Result<()> {
        json.enter();
        let (mut first, mut seen) = (true, Seen::default());
        while let Some(key) = json.key(&mut first, args_key)? {
            self.duplicate |= seen.again(key);
            match key {
                Key::Device => json.text(&mut self.device)?,
                Key::Stream => json.text(&mut self.stream)?,
                Key::Correlation => json.text(&mut self.correlation)?,
                Key::External => json.text(&mut self.external)?,
                Key::Kind => json.text(&mut self.kind)?,
                _ => drop(json.skip()?),
            }
        }
        Ok(())
    }
}

fn event_key(key: &[u8]) -> Key {
    match key {
        b"ph" => Key::Phase,
        b"cat" => Key::Category,
        b"name" => Key::Name,
        b"ts" => Key::Ts,
        b"dur" => Key::Dur,
        b"pid" => Key::Pid,
        b"tid" => Key::Tid,
        b"args" => Key::Args,
        _ => Key::Other,
    }
}

fn args_key(key: &[u8]) -> Key {
    match key {
        b"device" => Key::Device,
        b"stream" => Key::Stream,
        b"correlation" => Key::Correlation,
        b"External id" => Key::External,
        b"kind" => Key::Kind,
        _ => Key::Other,
    }
}
