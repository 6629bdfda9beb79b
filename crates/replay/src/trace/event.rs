// SPDX-License-Identifier: MIT OR Apache-2.0
//! One event of a trace, taken from the parser key by key.
//!
//! Invariants: an event of a category that a replay does not use is skipped
//! without allocating; an event of one that it does use is either taken or
//! counted in [`Drops`](super::Drops). Strings are taken as bytes, so a name
//! need not be UTF-8; numbers as their text, so a stamp is never a float.

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::read::Sink;

/// What an event is to a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Category {
    /// Of no use.
    #[default]
    Skip,
    Kernel,
    Copy,
    Set,
    /// A host call into the runtime or the driver.
    Call,
    Annotation,
}

impl Category {
    fn of(text: &[u8]) -> Self {
        match text {
            b"kernel" | b"Kernel" => Category::Kernel,
            b"gpu_memcpy" | b"Memcpy" => Category::Copy,
            b"gpu_memset" | b"Memset" => Category::Set,
            b"cuda_runtime" | b"cuda_driver" | b"hip_runtime" | b"hip_driver" | b"Runtime" => {
                Category::Call
            }
            b"user_annotation" => Category::Annotation,
            _ => Category::Skip,
        }
    }
}

/// The parts of an event that a replay reads; one is reused for all events.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    pub(crate) category: Category,
    pub(crate) name: Vec<u8>,
    pub(crate) named: bool,
    pub(crate) complete: bool,
    pub(crate) duplicate: bool,
    pub(crate) ts: Option<Box<RawValue>>,
    pub(crate) dur: Option<Box<RawValue>>,
    pub(crate) pid: Option<Box<RawValue>>,
    pub(crate) tid: Option<Box<RawValue>>,
    pub(crate) device: Option<Box<RawValue>>,
    pub(crate) stream: Option<Box<RawValue>>,
    pub(crate) correlation: Option<Box<RawValue>>,
}

impl Fields {
    fn clear(&mut self) {
        let mut name = std::mem::take(&mut self.name);
        name.clear();
        *self = Fields {
            name,
            ..Fields::default()
        };
    }
}

/// A string value or key, given to a closure as bytes.
struct Bytes<F>(F);

impl<'de, T, F: FnOnce(&[u8]) -> T> DeserializeSeed<'de> for Bytes<F> {
    type Value = T;
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<T, D::Error> {
        d.deserialize_bytes(self)
    }
}

impl<'de, T, F: FnOnce(&[u8]) -> T> Visitor<'de> for Bytes<F> {
    type Value = T;
    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a string")
    }
    fn visit_bytes<E>(self, v: &[u8]) -> Result<T, E> {
        Ok((self.0)(v))
    }
    fn visit_str<E>(self, v: &str) -> Result<T, E> {
        Ok((self.0)(v.as_bytes()))
    }
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

/// One entry of the event list.
pub(crate) struct EventSeed<'s, 'p>(pub(crate) &'s mut Sink<'p>);

impl<'de> DeserializeSeed<'de> for EventSeed<'_, '_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for EventSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let sink = self.0;
        let mut fields = std::mem::take(&mut sink.fields);
        fields.clear();
        let mut seen = Seen::default();
        let mut known = false;
        while let Some(key) = map.next_key_seed(Bytes(event_key))? {
            // Once the category says that the event is of no use, the rest of
            // it is only scanned over.
            if known && fields.category == Category::Skip {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            fields.duplicate |= seen.again(key);
            match key {
                Key::Phase => fields.complete = map.next_value_seed(Bytes(|v: &[u8]| v == b"X"))?,
                Key::Category => {
                    fields.category = map.next_value_seed(Bytes(Category::of))?;
                    known = true;
                }
                Key::Name => {
                    let name = &mut fields.name;
                    map.next_value_seed(Bytes(|v: &[u8]| {
                        name.clear();
                        name.extend_from_slice(v);
                    }))?;
                    fields.named = true;
                }
                Key::Ts => fields.ts = Some(map.next_value()?),
                Key::Dur => fields.dur = Some(map.next_value()?),
                Key::Pid => fields.pid = Some(map.next_value()?),
                Key::Tid => fields.tid = Some(map.next_value()?),
                Key::Args => map.next_value_seed(ArgsSeed(&mut fields))?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        sink.take(&fields);
        sink.fields = fields;
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        self.0.not_an_event();
        Ok(())
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        self.0.not_an_event();
        Ok(())
    }
    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<(), E> {
        self.visit_unit()
    }
    fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<(), E> {
        self.visit_unit()
    }
    fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<(), E> {
        self.visit_unit()
    }
    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<(), E> {
        self.visit_unit()
    }
    fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<(), E> {
        self.visit_unit()
    }
}

/// An event's `args`; anything but an object there is passed over.
struct ArgsSeed<'f>(&'f mut Fields);

impl<'de> DeserializeSeed<'de> for ArgsSeed<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ArgsSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an event's arguments")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let fields = self.0;
        let mut seen = Seen::default();
        while let Some(key) = map.next_key_seed(Bytes(args_key))? {
            fields.duplicate |= seen.again(key);
            match key {
                Key::Device => fields.device = Some(map.next_value()?),
                Key::Stream => fields.stream = Some(map.next_value()?),
                Key::Correlation => fields.correlation = Some(map.next_value()?),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
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
        _ => Key::Other,
    }
}
