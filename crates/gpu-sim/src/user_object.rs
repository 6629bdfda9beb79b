// SPDX-License-Identifier: MIT OR Apache-2.0
//! User objects: counted references that graphs, clones and executables hold,
//! and a call to the host once the last is gone.
//!
//! Calls to the host are made behind the driver call that brought them about,
//! by its thread, without the world's lock.

use std::ffi::c_void;
use std::ptr;

use metrale_gpu_sys::cuda::Status;

use crate::thread::Thread;
use crate::world::{Outcome, World};

/// A function of the host and what it is given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Callback {
    pub(crate) function: extern "C" fn(*mut c_void),
    pub(crate) data: usize,
}

impl PartialEq for Callback {
    fn eq(&self, other: &Self) -> bool {
        ptr::fn_addr_eq(self.function, other.function) && self.data == other.data
    }
}

impl Eq for Callback {}

impl Callback {
    /// Meanwhile the thread's driver calls are refused.
    pub(crate) fn run(self) {
        let call = || (self.function)(ptr::with_exposed_provenance_mut(self.data));
        Thread::in_callback(call);
    }
}

#[derive(Debug)]
pub(crate) struct UserObject {
    /// References of all owners together.
    pub(crate) count: u64,
    pub(crate) destroy: Callback,
}

/// What a graph or executable holds: objects with how often.
pub(crate) type Held = Vec<(u64, u64)>;

impl World {
    /// Adds references to an object; 1 for NULL, 400 for a dead one.
    pub(crate) fn retain_object(&mut self, object: u64, count: u64) -> Outcome {
        let found = self.object(object)?;
        found.count += count;
        Ok(())
    }

    /// Gives references back; with the last one the object goes. 1 for more than
    /// there are.
    pub(crate) fn release_object(&mut self, object: u64, count: u64) -> Outcome {
        let found = self.object(object)?;
        let left = found.count.checked_sub(count);
        found.count = left.ok_or(Status::ERROR_INVALID_VALUE)?;
        if found.count == 0
            && let Some(gone) = self.objects.remove(object)
        {
            self.destructors.push(gone.destroy);
        }
        Ok(())
    }

    fn object(&mut self, object: u64) -> Result<&mut UserObject, Status> {
        self.ready()?;
        self.objects.find(object, Status::ERROR_INVALID_VALUE, &mut self.stale_uses)
    }

    /// A second owner of the same references.
    pub(crate) fn share_held(&mut self, held: &Held) {
        for (object, count) in held {
            if let Some(found) = self.objects.get_mut(*object) {
                found.count += count;
            }
        }
    }

    /// An owner is gone.
    pub(crate) fn let_go(&mut self, held: &Held) {
        for (object, count) in held {
            // An owner's references keep the object alive, so this cannot fail.
            let _gone = self.release_object(*object, *count);
        }
    }
}
