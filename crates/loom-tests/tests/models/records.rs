// SPDX-License-Identifier: MIT OR Apache-2.0
//! The steps that left no record yet: the fold reads what their threads stated,
//! before a later step takes their place.

use metrale_loom_tests::{Bound, Tracked, beside, model, spawn};
use metrale_telemetry::kernel::StepShape;
use metrale_telemetry::runtime::{OPEN_STEPS, OpenSteps};
use std::sync::Arc;

const NUMBER: u64 = 0;
const NEXT: u64 = OPEN_STEPS as u64;

fn shape() -> StepShape {
    StepShape::new().prompt_tokens(3).requests(2)
}

#[test]
fn a_record_has_what_its_step_stated() {
    model(Bound::Preemptions(3), || {
        let open = Arc::new(OpenSteps::default());
        let serves = beside(&open, |open| {
            assert!(open.begin(NUMBER, false));
            open.shape(NUMBER, shape());
            open.close(NUMBER, Some(5..9));
        });
        let check = || {
            let step = open.standing(NUMBER).filter(|step| step.is_closed());
            step.is_some_and(|step| {
                assert_eq!(open.read(step), (Some(shape()), Some(5..9)));
                true
            })
        };
        check();
        serves();
        assert!(check());
    });
}

/// Who writes fields while another thread does leaves them; a close is not lost.
#[test]
fn a_shape_against_the_close() {
    model(Bound::Preemptions(3), || {
        let open = Arc::new(OpenSteps::default());
        assert!(open.begin(NUMBER, false));
        let states = beside(&open, |open| open.shape(NUMBER, shape()));
        open.close(NUMBER, Some(5..9));
        states();
        let step = open.standing(NUMBER).expect("nobody freed it");
        assert!(step.is_closed(), "it was closed");
        let (stated, wall) = open.read(step);
        assert!(stated.is_none_or(|stated| stated == shape()));
        assert!(wall.is_none_or(|wall| wall == (5..9)));
    });
}

/// A span that a step counted before its close is waited for.
#[test]
fn a_lane_against_the_fold() {
    model(Bound::Preemptions(3), || {
        let open = Arc::new(OpenSteps::default());
        assert!(open.begin(NUMBER, false));
        open.close(NUMBER, None);
        let enters = beside(&open, |open| open.enter(NUMBER));
        let seen = open.standing(NUMBER).expect("it waits");
        let freed = open.free(seen);
        enters();
        let left = open.standing(NUMBER);
        // What came late is either seen or in no step.
        assert_eq!(freed, left.is_none());
        assert!(freed || left.is_some_and(|step| step.is_lost() || seen.is_lost()));
    });
}

#[test]
fn a_record_against_the_next_step_of_its_entry() {
    model(Bound::Preemptions(3), || {
        let open = Arc::new(OpenSteps::default());
        // Of the step that has the entry.
        let fields = Arc::new(Tracked::<u64>::default());
        assert!(open.begin(NUMBER, false));
        open.close(NUMBER, None);
        let serves = {
            let (open, fields) = (Arc::clone(&open), Arc::clone(&fields));
            spawn(move || {
                let begins = open.begin(NEXT, false);
                if begins {
                    fields.touch(|field| *field = NEXT);
                }
                begins
            })
        };
        let seen = open.standing(NUMBER).expect("it waits");
        fields.touch(|field| assert_eq!(*field, NUMBER));
        assert!(open.free(seen));
        let begins = serves();
        assert_eq!(open.standing(NEXT).is_some(), begins);
    });
}
