// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a recorder adds to the snapshots of its telemetry.

use super::recorder::Shared;
use metrale_telemetry::snapshot::{KernelName, RecorderSnapshot, Source};

impl Source for Shared {
    fn recorder(&self) -> RecorderSnapshot {
        RecorderSnapshot {
            label: self.label.clone(),
            gpu: self.gpu.id.clone(),
            lane_ledger: self.lanes.ledger(),
            kernel_ledger: self.kernels.ledger(),
            health: self.watch.health(self.names.lost()).into(),
        }
    }

    fn name(&self, func: u64) -> Option<KernelName> {
        let name = self.names.of_row(func)?;
        Some(KernelName {
            text: name.text,
            is_graph: name.is_graph,
        })
    }
}
