// SPDX-License-Identifier: MIT OR Apache-2.0
//! From bytes to a [`Trace`].
//!
//! Invariant: the document is parsed as it is read; what is kept is one small
//! record per piece of GPU work, host call and annotation.

use std::collections::HashMap;
use std::io::BufReader;
use std::num::NonZeroI64;
use std::path::Path;

use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;

use super::event::{Category, EventSeed, Fields};
use super::stamp::unquote;
use super::unpack::{Counts, Source};
use super::{
    Annotation, BadStamp, Call, CallKind, LONGEST_WORK_NS, Limits, Stream, Trace, TraceError, Work,
    WorkKind, parse_us,
};

/// Called now and then with (file bytes read, file size in bytes).
pub(crate) type OnProgress<'p> = &'p mut dyn FnMut(u64, u64);

/// Reads the trace at `path`.
///
/// # Errors
///
/// [`TraceError`] where the file cannot be read, is damaged, or holds no GPU
/// work.
pub fn read(
    path: &Path,
    limits: &Limits,
    on_progress: &mut dyn FnMut(u64, u64),
) -> Result<Trace, TraceError> {
    parse(Source::open(path, limits)?, on_progress)
}

/// Reads a trace that is in memory, packed or not.
///
/// # Errors
///
/// As [`read`].
pub fn read_bytes(bytes: Vec<u8>, limits: &Limits) -> Result<Trace, TraceError> {
    let size = bytes.len() as u64;
    let source = Source::new(std::io::Cursor::new(bytes), size, limits)?;
    parse(source, &mut |_, _| {})
}

fn parse(source: Source, on_progress: OnProgress<'_>) -> Result<Trace, TraceError> {
    let counts = source.counts();
    let (limit, packed) = (source.limit(), source.packed_size);
    let mut sink = Sink {
        trace: Trace::default(),
        fields: Fields::default(),
        streams: HashMap::new(),
        counts: counts.clone(),
        size: packed,
        on_progress,
    };
    let mut json =
        serde_json::Deserializer::from_reader(BufReader::with_capacity(64 << 10, source));
    let parsed = json
        .deserialize_any(Document(&mut sink))
        .and_then(|()| json.end());
    if let Err(error) = parsed {
        let (line, column) = (error.line(), error.column());
        if error.is_io() {
            return Err(Source::explain(&counts, limit, packed, error.into()));
        }
        if counts.unpacked() == 0 {
            return Err(TraceError::Empty);
        }
        // serde_json ends its messages with the place, which stands first here.
        let mut reason = error.to_string();
        if let Some(at) = reason.rfind(" at line ") {
            reason.truncate(at);
        }
        return Err(TraceError::Json {
            line,
            column,
            reason: one_line(&reason),
        });
    }
    let mut trace = sink.trace;
    trace.bytes = counts.unpacked();
    trace.rebase();
    if trace.work.is_empty() {
        let reasons = trace.drops.reasons();
        let dropped = if reasons.is_empty() {
            String::new()
        } else {
            format!("; dropped: {}", reasons.join(", "))
        };
        return Err(TraceError::NoGpuWork {
            events: trace.events,
            dropped,
        });
    }
    Ok(trace)
}

/// An error message quotes input, so it is cut and kept to one line.
fn one_line(text: &str) -> String {
    let cut: String = text.chars().take(160).collect();
    cut.escape_debug()
        .to_string()
        .replace("\\\"", "\"")
        .replace("\\'", "'")
}

/// The whole file: an object with `traceEvents`, or the bare list.
struct Document<'s, 'p>(&'s mut Sink<'p>);

impl<'de> Visitor<'de> for Document<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a trace (an object with \"traceEvents\", or a list of events)")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut found = false;
        while let Some(is_events) = map.next_key_seed(IsEvents)? {
            if !is_events {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            if found {
                return Err(A::Error::custom("a second \"traceEvents\""));
            }
            found = true;
            map.next_value_seed(EventList(self.0))?;
        }
        if found {
            Ok(())
        } else {
            Err(A::Error::custom("no \"traceEvents\" in the object"))
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        EventList(self.0).visit_seq(seq)
    }
}

/// Whether a key is `traceEvents`.
struct IsEvents;

impl<'de> DeserializeSeed<'de> for IsEvents {
    type Value = bool;
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<bool, D::Error> {
        d.deserialize_bytes(self)
    }
}

impl Visitor<'_> for IsEvents {
    type Value = bool;
    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a key")
    }
    fn visit_bytes<E>(self, v: &[u8]) -> Result<bool, E> {
        Ok(v == b"traceEvents")
    }
    fn visit_str<E>(self, v: &str) -> Result<bool, E> {
        Ok(v == "traceEvents")
    }
}

struct EventList<'s, 'p>(&'s mut Sink<'p>);

impl<'de> DeserializeSeed<'de> for EventList<'_, '_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for EventList<'_, '_> {
    type Value = ();
    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of events")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(EventSeed(self.0))?.is_some() {}
        Ok(())
    }
}

/// Why an event is not taken.
enum Refusal {
    Missing,
    Bad,
    Zero,
    Negative,
    Absurd,
}

/// Where events go.
pub(crate) struct Sink<'p> {
    trace: Trace,
    pub(crate) fields: Fields,
    streams: HashMap<Stream, u32>,
    counts: Counts,
    size: u64,
    on_progress: OnProgress<'p>,
}

impl Sink<'_> {
    /// Counts an entry that is not an object.
    pub(crate) fn not_an_event(&mut self) {
        self.trace.events += 1;
        self.trace.drops.not_an_event += 1;
    }

    /// Takes an event, or counts why not.
    pub(crate) fn take(&mut self, fields: &Fields) {
        self.trace.events += 1;
        if self.trace.events.is_multiple_of(4096) {
            (self.on_progress)(self.counts.packed(), self.size);
        }
        if fields.category == Category::Skip {
            return;
        }
        if fields.duplicate {
            self.trace.drops.duplicate_keys += 1;
            return;
        }
        if !fields.complete {
            self.trace.drops.not_complete += 1;
            return;
        }
        let taken = match fields.category {
            Category::Skip => Ok(()),
            Category::Kernel | Category::Copy | Category::Set => self.take_work(fields),
            Category::Call => self.take_call(fields),
            Category::Annotation => self.take_annotation(fields),
        };
        let drops = &mut self.trace.drops;
        match taken {
            Ok(()) => {}
            Err(Refusal::Missing) => drops.missing_fields += 1,
            Err(Refusal::Bad) => drops.bad_stamps += 1,
            Err(Refusal::Zero) => drops.zero_stamps += 1,
            Err(Refusal::Negative) => drops.negative_durations += 1,
            Err(Refusal::Absurd) => drops.absurd += 1,
        }
    }

    fn take_work(&mut self, fields: &Fields) -> Result<(), Refusal> {
        let (start_ns, duration_ns) = self.span(fields)?;
        if duration_ns > LONGEST_WORK_NS {
            return Err(Refusal::Absurd);
        }
        let kind = match fields.category {
            Category::Copy => WorkKind::Copy,
            Category::Set => WorkKind::Set,
            _ if !fields.named => return Err(Refusal::Missing),
            _ => WorkKind::Kernel(self.trace.names.intern(&fields.name)),
        };
        let stream = Stream {
            device: self.id(fields.device.as_deref().or(fields.pid.as_deref())),
            stream: self.id(fields.stream.as_deref().or(fields.tid.as_deref())),
        };
        let next = self.trace.streams.len() as u32;
        let index = *self.streams.entry(stream).or_insert(next);
        if index == next {
            self.trace.streams.push(stream);
        }
        self.trace.work.push(Work {
            start_ns,
            duration_ns,
            stream: index,
            correlation: correlation(fields),
            kind,
        });
        Ok(())
    }

    fn take_call(&mut self, fields: &Fields) -> Result<(), Refusal> {
        // A call without an id launched nothing that can be found.
        let Some(correlation) = correlation(fields) else {
            return Ok(());
        };
        let at_ns = self.stamp(fields.ts.as_deref())?;
        let process = self.id(fields.pid.as_deref());
        self.trace.calls.push(Call {
            at_ns,
            correlation,
            process,
            kind: call_kind(&fields.name),
        });
        Ok(())
    }

    fn take_annotation(&mut self, fields: &Fields) -> Result<(), Refusal> {
        if !fields.named {
            return Err(Refusal::Missing);
        }
        let (start_ns, duration_ns) = self.span(fields)?;
        let process = self.id(fields.pid.as_deref());
        let name = self.trace.names.intern(&fields.name);
        self.trace.annotations.push(Annotation {
            start_ns,
            end_ns: start_ns.saturating_add_unsigned(duration_ns),
            process,
            name,
        });
        Ok(())
    }

    fn span(&mut self, fields: &Fields) -> Result<(i64, u64), Refusal> {
        let start_ns = self.stamp(fields.ts.as_deref())?;
        let duration = self.nanos(fields.dur.as_deref())?;
        let duration_ns = u64::try_from(duration).map_err(|_| Refusal::Negative)?;
        // Both ends must be moments that fit.
        start_ns
            .checked_add_unsigned(duration_ns)
            .ok_or(Refusal::Bad)?;
        Ok((start_ns, duration_ns))
    }

    fn stamp(&mut self, text: Option<&RawValue>) -> Result<i64, Refusal> {
        match self.nanos(text)? {
            0 => Err(Refusal::Zero),
            ns => Ok(ns),
        }
    }

    fn nanos(&mut self, text: Option<&RawValue>) -> Result<i64, Refusal> {
        let text = text.ok_or(Refusal::Missing)?.get();
        if text == "null" {
            return Err(Refusal::Missing);
        }
        let nanos = parse_us(text).map_err(|error| match error {
            BadStamp::NotANumber | BadStamp::OutOfRange => Refusal::Bad,
        })?;
        self.trace.drops.rounded += u64::from(!nanos.exact);
        Ok(nanos.ns)
    }

    fn id(&mut self, text: Option<&RawValue>) -> u32 {
        let text = text.map_or("", |raw| unquote(raw.get()));
        self.trace.ids.intern(text.as_bytes())
    }
}

/// The correlation id of an event; 0 is the recorders' word for none.
fn correlation(fields: &Fields) -> Option<NonZeroI64> {
    let text = unquote(fields.correlation.as_ref()?.get());
    text.parse().ok()
}

fn call_kind(name: &[u8]) -> CallKind {
    let has = |word: &[u8]| name.windows(word.len()).any(|part| part == word);
    if has(b"GraphLaunch") {
        CallKind::Graph
    } else if has(b"Launch") || has(b"Memcpy") || has(b"Memset") {
        CallKind::Launch
    } else {
        CallKind::Other
    }
}
