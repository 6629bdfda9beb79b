// SPDX-License-Identifier: MIT OR Apache-2.0
//! Modules and functions.

use std::ffi::CString;

use metrale_gpu_sys::cuda::Status;

use crate::ptx::{self, Entry};
use crate::world::World;

#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) context: u64,
    /// In the order of the PTX text.
    pub(crate) functions: Vec<u64>,
}

#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) module: u64,
    pub(crate) context: u64,
    pub(crate) entry: Entry,
    /// What `cuFuncGetName` lends out, until the module is unloaded.
    pub(crate) c_name: CString,
    pub(crate) is_loaded: bool,
}

impl World {
    /// Loads a module from PTX text: 218 if it is none.
    pub(crate) fn load(&mut self, context: u64, text: &str) -> Result<u64, Status> {
        let entries = ptx::parse(text).ok_or(Status::ERROR_INVALID_PTX)?;
        let module = self.modules.insert(Module {
            context,
            functions: Vec::new(),
        });
        let mut functions = Vec::with_capacity(entries.len());
        for entry in entries {
            let c_name = CString::new(entry.name.as_str()).unwrap_or_default();
            functions.push(self.functions.insert(Function {
                module,
                context,
                entry,
                c_name,
                is_loaded: !self.config.lazy_loading,
            }));
        }
        if let Some(made) = self.modules.get_mut(module) {
            made.functions = functions;
        }
        Ok(module)
    }

    /// Unloads a module; the same module loaded next gets the same handles.
    pub(crate) fn unload(&mut self, module: u64) {
        let Some(gone) = self.modules.remove(module) else {
            return;
        };
        for function in gone.functions.iter().rev() {
            self.functions.remove(*function);
        }
    }
}
