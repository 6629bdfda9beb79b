// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a driver's status means for a span and for the recorder.

use metrale_gpu_sys::cuda::Status;

/// What to do about a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The call did what was asked.
    Done,
    /// The GPU is not there yet.
    Wait,
    /// The driver does not allow the call now; the span is kept.
    BackOff,
    /// This span can never be read; others can.
    Drop,
    /// Something is wrong that calls of ours could only make worse, or hide.
    Quarantine,
}

/// Codes that this version does not know stop the recorder: a later driver may
/// mean anything by them.
pub(super) fn verdict(status: Status) -> Verdict {
    match status {
        Status::SUCCESS => Verdict::Done,
        Status::ERROR_NOT_READY => Verdict::Wait,
        // A capture is in the way; none of these harms it.
        Status::ERROR_STREAM_CAPTURE_UNSUPPORTED
        | Status::ERROR_STREAM_CAPTURE_INVALIDATED
        | Status::ERROR_STREAM_CAPTURE_MERGE
        | Status::ERROR_STREAM_CAPTURE_UNMATCHED
        | Status::ERROR_STREAM_CAPTURE_UNJOINED
        | Status::ERROR_STREAM_CAPTURE_ISOLATION
        | Status::ERROR_STREAM_CAPTURE_IMPLICIT
        | Status::ERROR_STREAM_CAPTURE_WRONG_THREAD
        // Inside a host function of the application.
        | Status::ERROR_NOT_PERMITTED
        // Memory may be free again later; the context is well.
        | Status::ERROR_OUT_OF_MEMORY
        // No context is current on this thread.
        | Status::ERROR_INVALID_CONTEXT => Verdict::BackOff,
        // This pair, or this stream.
        Status::ERROR_INVALID_VALUE
        | Status::ERROR_INVALID_HANDLE
        | Status::ERROR_CAPTURED_EVENT
        | Status::ERROR_STREAM_DETACHED => Verdict::Drop,
        _ => Verdict::Quarantine,
    }
}

#[cfg(test)]
mod tests {
    use super::{Status, Verdict, verdict};

    #[test]
    fn every_known_code_has_its_verdict() {
        for &status in Status::KNOWN {
            let expected = match status.0 {
                0 => Verdict::Done,
                600 => Verdict::Wait,
                900..=906 | 908 | 800 | 201 | 2 => Verdict::BackOff,
                1 | 400 | 907 | 917 => Verdict::Drop,
                _ => Verdict::Quarantine,
            };
            assert_eq!(verdict(status), expected, "{status}");
        }
        assert_eq!(verdict(Status(123_456)), Verdict::Quarantine);
    }
}
