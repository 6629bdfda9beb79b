// SPDX-License-Identifier: MIT OR Apache-2.0
//! Modules, their functions and variables; libraries, which are a module in each
//! context that uses them.

use std::collections::BTreeMap;
use std::ffi::CString;

use metrale_gpu_sys::cuda::Status;

use crate::ptx::{self, Entry};
use crate::world::World;

#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) context: u64,
    /// In the order of the PTX text.
    pub(crate) functions: Vec<u64>,
    pub(crate) variables: Vec<Variable>,
}

/// A variable of a module, in device memory.
#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) address: u64,
    pub(crate) bytes: usize,
}

#[derive(Debug)]
pub(crate) struct Library {
    text: String,
    /// In the order of the PTX text.
    pub(crate) kernels: Vec<u64>,
    /// Context and module, of each that used it.
    modules: Vec<(u64, u64)>,
}

/// A kernel of a library: one handle for all contexts.
#[derive(Debug)]
pub(crate) struct LibraryKernel {
    pub(crate) library: u64,
    /// Which of the module's functions it is.
    place: usize,
    /// What `cuKernelGetName` lends out, until the library is unloaded.
    pub(crate) c_name: CString,
}

#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) module: u64,
    pub(crate) context: u64,
    pub(crate) entry: Entry,
    /// What `cuFuncGetName` lends out, until the module is unloaded.
    pub(crate) c_name: CString,
    pub(crate) is_loaded: bool,
    /// What was set, by the attribute's number.
    pub(crate) attributes: BTreeMap<u32, i32>,
}

impl World {
    /// Loads a module from PTX text: 218 if it is none.
    pub(crate) fn load(&mut self, context: u64, text: &str) -> Result<u64, Status> {
        let entries = ptx::parse(text).ok_or(Status::ERROR_INVALID_PTX)?;
        let mut variables = Vec::new();
        for (name, bytes) in ptx::variables(text) {
            let address = self.memory.allocate(context, bytes)?;
            variables.push(Variable { name, address, bytes });
        }
        let module = self.modules.insert(Module { context, functions: Vec::new(), variables });
        let mut functions = Vec::with_capacity(entries.len());
        for entry in entries {
            let c_name = CString::new(entry.name.as_str()).unwrap_or_default();
            functions.push(self.functions.insert(Function {
                module,
                context,
                entry,
                c_name,
                is_loaded: !self.config.lazy_loading,
                attributes: BTreeMap::new(),
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
        for variable in gone.variables {
            // The program may have freed it; nothing else can go wrong.
            let _freed = self.memory.free(variable.address);
        }
    }

    /// Loads a library from PTX text: 218 if it is none. No context is asked for.
    pub(crate) fn load_library(&mut self, text: &str) -> Result<u64, Status> {
        let entries = ptx::parse(text).ok_or(Status::ERROR_INVALID_PTX)?;
        let library = self.libraries.insert(Library {
            text: text.to_owned(),
            kernels: Vec::new(),
            modules: Vec::new(),
        });
        let kernels = entries.into_iter().enumerate().map(|(place, entry)| {
            self.kernels.insert(LibraryKernel {
                library,
                place,
                c_name: CString::new(entry.name).unwrap_or_default(),
            })
        });
        let kernels = kernels.collect();
        if let Some(made) = self.libraries.get_mut(library) {
            made.kernels = kernels;
        }
        Ok(library)
    }

    /// Unloads a library, with its modules.
    pub(crate) fn unload_library(&mut self, library: u64) {
        let Some(gone) = self.libraries.remove(library) else {
            return;
        };
        for kernel in gone.kernels.iter().rev() {
            self.kernels.remove(*kernel);
        }
        for (_, module) in gone.modules {
            self.unload(module);
        }
    }

    /// The module of a library in a context, loaded where it was not.
    pub(crate) fn library_module(&mut self, library: u64, context: u64) -> Result<u64, Status> {
        let found = self.library(library)?;
        if let Some((_, module)) = found.modules.iter().find(|(of, _)| *of == context) {
            return Ok(*module);
        }
        let text = found.text.clone();
        let module = self.load(context, &text)?;
        self.library(library)?.modules.push((context, module));
        Ok(module)
    }

    /// A live library: NULL and dead ones give 400.
    pub(crate) fn library(&mut self, library: u64) -> Result<&mut Library, Status> {
        self.ready()?;
        self.libraries.find(library, Status::ERROR_INVALID_HANDLE, &mut self.stale_uses)
    }

    /// The function of a library's kernel in a context.
    pub(crate) fn function_of(&mut self, kernel: u64, context: u64) -> Result<u64, Status> {
        let known = self.kernels.get(kernel);
        let (library, place) =
            known.map(|known| (known.library, known.place)).ok_or(Status::ERROR_INVALID_HANDLE)?;
        let module = self.library_module(library, context)?;
        let functions = self.modules.get(module).map(|module| &module.functions);
        let function = functions.and_then(|functions| functions.get(place));
        function.copied().ok_or(Status::ERROR_INVALID_HANDLE)
    }

    /// A context goes, with the modules of it.
    pub(crate) fn forget_modules(&mut self, context: u64) {
        for (_, library) in self.libraries.iter_mut() {
            library.modules.retain(|(of, _)| *of != context);
        }
    }
}
