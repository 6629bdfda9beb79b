// SPDX-License-Identifier: MIT OR Apache-2.0
//! From bytes to a [`Trace`].
//!
//! Invariant: the document is parsed as it is read; what is kept is one small
//! record per piece of GPU work, host call and annotation.

use std::collections::HashMap;
use std::io::{Cursor, Read};
use std::num::NonZeroI64;
use std::path::Path;

use super::event::{Category, Fields, Key};
use super::json::{Json, JsonError, Result as Parsed, Text, ValueKind};
use super::unpack::TraceBytes;
use super::{
    Annotation, BadStamp, Call, CallKind, DropReason, LONGEST_WORK_NS, LaneRange, Limits, StreamId,
    Trace, TraceError, Work, WorkKind, parse_us,
};

/// Events between two reports of progress.
const REPORT_EVERY: u64 = 4096;
/// How the name of a lane begins in an export of ours.
const LANE: &[u8] = b"lane[";

/// Reads the trace at `path`. `on_progress` is called now and then with the
/// bytes read and the size of the file, where it has one.
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
    parse(TraceBytes::open(path, limits)?, on_progress)
}

/// Reads a trace from a stream, packed or not.
///
/// # Errors
///
/// As [`read`].
pub fn read_stream(reader: impl Read + 'static, limits: &Limits) -> Result<Trace, TraceError> {
    parse(TraceBytes::new(reader, None, None, limits)?, &mut |_, _| {})
}

/// Reads a trace that is in memory, packed or not.
///
/// # Errors
///
/// As [`read`].
pub fn read_bytes(bytes: Vec<u8>, limits: &Limits) -> Result<Trace, TraceError> {
    read_stream(Cursor::new(bytes), limits)
}

fn parse(source: TraceBytes, on_progress: &mut dyn FnMut(u64, u64)) -> Result<Trace, TraceError> {
    let mut json = Json::new(source);
    let mut sink = Sink::default();
    let parsed = document(&mut json, &mut |json| {
        sink.event(json)?;
        let source = json.reader();
        if let (0, Some(size)) = (sink.trace.events % REPORT_EVERY, source.size) {
            on_progress(source.packed(), size);
        }
        Ok(())
    });
    match parsed {
        Ok(()) => {}
        Err(JsonError::Io(error)) => return Err(json.reader().explain(error)),
        Err(JsonError::Syntax(reason)) => {
            let (line, column) = json.place();
            return Err(TraceError::Json { line, column, reason: one_line(&reason) });
        }
    }
    let mut trace = sink.trace;
    trace.bytes = json.reader().unpacked();
    trace.drops.read_over = json.odd;
    trace.rebase();
    if trace.work.is_empty() {
        let reasons = trace.drops.reasons();
        let dropped = if reasons.is_empty() {
            String::new()
        } else {
            format!("; dropped: {}", reasons.join(", "))
        };
        return Err(TraceError::NoGpuWork { events: trace.events, dropped });
    }
    Ok(trace)
}

/// An error message quotes input, so it is cut and kept to one line.
pub(super) fn one_line(text: &str) -> String {
    let cut: String = text.chars().take(160).collect();
    cut.escape_debug().to_string().replace("\\\"", "\"").replace("\\'", "'")
}

/// The whole file: an object with `traceEvents`, or the bare list, which may
/// lack its end, as a recorder that stops early leaves it.
fn document<R: Read>(
    json: &mut Json<R>,
    event: &mut impl FnMut(&mut Json<R>) -> Parsed<()>,
) -> Parsed<()> {
    let wrong = |text: &str| Err(JsonError::Syntax(text.to_owned()));
    match json.next()? {
        Some(b'[') => {
            json.enter();
            let mut first = true;
            while json.last_element(&mut first)? {
                event(json)?;
            }
        }
        Some(b'{') => {
            json.enter();
            let (mut first, mut found) = (true, false);
            while let Some(is_events) = json.key(&mut first, |key| key == b"traceEvents")? {
                if !is_events {
                    json.skip()?;
                    continue;
                }
                if std::mem::replace(&mut found, true) {
                    return wrong("a second \"traceEvents\"");
                }
                if json.next()? != Some(b'[') {
                    return wrong("expected a list of events in \"traceEvents\"");
                }
                json.enter();
                let mut first = true;
                while json.element(&mut first)? {
                    event(json)?;
                }
            }
            if !found {
                return wrong("no \"traceEvents\" in the object");
            }
        }
        Some(_) => {
            return wrong("expected a trace (an object with \"traceEvents\", or a list of events)");
        }
        None => return wrong("EOF where a trace was expected"),
    }
    json.end()
}

/// Where events go.
#[derive(Default)]
struct Sink {
    trace: Trace,
    fields: Fields,
    streams: HashMap<StreamId, u32>,
}

impl Sink {
    /// Takes the next entry of the event list, or counts why not. What is not
    /// JSON in an entry that is dropped is not read over.
    fn event<R: Read>(&mut self, json: &mut Json<R>) -> Parsed<()> {
        self.trace.events += 1;
        let odd = json.odd;
        if json.next()? != Some(b'{') {
            json.skip()?;
            json.odd = odd;
            self.trace.drops.add(DropReason::NotAnEvent, 1);
            return Ok(());
        }
        let mut fields = std::mem::take(&mut self.fields);
        fields.read(json)?;
        if let Err(reason) = self.take(&fields) {
            json.odd = odd;
            self.trace.drops.add(reason, 1);
        }
        self.fields = fields;
        Ok(())
    }

    fn take(&mut self, fields: &Fields) -> Result<(), DropReason> {
        if fields.category == Category::Skip
            || fields.category == Category::Range && !fields[Key::Name].bytes.starts_with(LANE)
        {
            return Ok(());
        }
        if fields.duplicate {
            return Err(DropReason::DuplicateKey);
        }
        if given(&fields[Key::Phase])?.is_none_or(|phase| phase != b"X") {
            return Err(DropReason::NotComplete);
        }
        match fields.category {
            Category::Skip => Ok(()),
            Category::Kernel => {
                let name = self.name(fields)?;
                let kind = match given(&fields[Key::Kind])? {
                    Some(b"graph") => WorkKind::Graph(name),
                    _ => WorkKind::Kernel(name),
                };
                self.take_work(fields, kind)
            }
            Category::Copy => {
                // Some writers give none, or none that can be read.
                let name = given(&fields[Key::Name]).ok().flatten().unwrap_or(b"copy");
                let name = self.trace.names.intern(name);
                self.take_work(fields, WorkKind::Copy(name))
            }
            Category::Call => self.take_call(fields),
            Category::Annotation => self.take_annotation(fields),
            Category::Range => self.take_lane_range(fields),
        }
    }

    fn take_work(&mut self, fields: &Fields, kind: WorkKind) -> Result<(), DropReason> {
        let (start_ns, duration_ns) = self.span(fields)?;
        // The recorder never collected it.
        if start_ns == 0 {
            return Err(DropReason::ZeroStamp);
        }
        if duration_ns > LONGEST_WORK_NS {
            return Err(DropReason::Absurd);
        }
        let correlation = whole(&fields[Key::Correlation])?;
        let stream = self.stream(fields)?;
        self.trace.work.push(Work { start_ns, duration_ns, stream, correlation, kind });
        Ok(())
    }

    /// The number of an event's stream.
    fn stream(&mut self, fields: &Fields) -> Result<u32, DropReason> {
        let stream = StreamId {
            device: self.id(&fields[Key::Device], &fields[Key::Pid])?,
            stream: self.id(&fields[Key::Stream], &fields[Key::Tid])?,
        };
        let next = self.trace.streams.len() as u32;
        let index = *self.streams.entry(stream).or_insert(next);
        if index == next {
            self.trace.streams.push(stream);
        }
        Ok(index)
    }

    fn take_lane_range(&mut self, fields: &Fields) -> Result<(), DropReason> {
        let id = whole(&fields[Key::External])?.ok_or(DropReason::MissingField)?;
        let (start_ns, duration_ns) = self.span(fields)?;
        if duration_ns > LONGEST_WORK_NS {
            return Err(DropReason::Absurd);
        }
        let stream = self.stream(fields)?;
        self.trace.lane_ranges.push(LaneRange { start_ns, duration_ns, stream, id });
        Ok(())
    }

    fn take_call(&mut self, fields: &Fields) -> Result<(), DropReason> {
        // A call without an id launched nothing that can be found.
        let Some(correlation) = whole(&fields[Key::Correlation])? else {
            return Ok(());
        };
        let at_ns = self.nanos(&fields[Key::Ts])?;
        let process = self.id(&fields[Key::Pid], &fields[Key::Pid])?;
        self.trace.calls.push(Call {
            at_ns,
            correlation,
            process,
            kind: call_kind(given(&fields[Key::Name])?.unwrap_or_default()),
        });
        Ok(())
    }

    fn take_annotation(&mut self, fields: &Fields) -> Result<(), DropReason> {
        let name = self.name(fields)?;
        let (start_ns, duration_ns) = self.span(fields)?;
        let process = self.id(&fields[Key::Pid], &fields[Key::Pid])?;
        self.trace.annotations.push(Annotation {
            start_ns,
            end_ns: start_ns.saturating_add_unsigned(duration_ns),
            process,
            name,
            id: whole(&fields[Key::External])?,
        });
        Ok(())
    }

    fn span(&mut self, fields: &Fields) -> Result<(i64, u64), DropReason> {
        let start_ns = self.nanos(&fields[Key::Ts])?;
        let duration = self.nanos(&fields[Key::Dur])?;
        let duration_ns = u64::try_from(duration).map_err(|_| DropReason::Negative)?;
        // Both ends must be moments that fit.
        start_ns.checked_add_unsigned(duration_ns).ok_or(DropReason::BadStamp)?;
        Ok((start_ns, duration_ns))
    }

    fn nanos(&mut self, text: &Text) -> Result<i64, DropReason> {
        let text = given(text)?.ok_or(DropReason::MissingField)?;
        let text = std::str::from_utf8(text).map_err(|_| DropReason::BadStamp)?;
        let nanos = parse_us(text).map_err(|_: BadStamp| DropReason::BadStamp)?;
        self.trace.drops.rounded += u64::from(!nanos.exact);
        Ok(nanos.ns)
    }

    fn name(&mut self, fields: &Fields) -> Result<u32, DropReason> {
        match (given(&fields[Key::Name])?, fields[Key::Name].kind) {
            (Some(name), ValueKind::String) => Ok(self.trace.names.intern(name)),
            _ => Err(DropReason::MissingField),
        }
    }

    /// The number of an id, taken from `other` where `text` is not given.
    fn id(&mut self, text: &Text, other: &Text) -> Result<u32, DropReason> {
        let text = match given(text)? {
            None => given(other)?,
            given => given,
        };
        Ok(self.trace.ids.intern(text.unwrap_or_default()))
    }
}

/// The text of a field that is used, if there is one.
fn given(text: &Text) -> Result<Option<&[u8]>, DropReason> {
    match text.kind {
        _ if text.odd => Err(DropReason::NotJson),
        ValueKind::Absent | ValueKind::Null => Ok(None),
        ValueKind::String | ValueKind::Scalar | ValueKind::Composite => Ok(Some(&text.bytes)),
    }
}

/// An id that joins events; 0 is the recorders' word for none. Some writers make
/// it a float: 5.0 is 5.
fn whole(text: &Text) -> Result<Option<NonZeroI64>, DropReason> {
    let text = given(text)?.unwrap_or_default();
    let text = std::str::from_utf8(text).unwrap_or_default();
    let whole = || {
        let thousandth = parse_us(text).ok()?;
        let whole = thousandth.exact && thousandth.ns % 1000 == 0;
        whole.then_some(thousandth.ns / 1000)
    };
    let id = text.parse().ok().or_else(whole);
    Ok(id.and_then(NonZeroI64::new))
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
