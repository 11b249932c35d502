//! What other workloads are told of a VM.

use kite_render::info;

use super::draft::VmDraft;
use crate::stage::{Flow, Stage};

/// The `ConfigMap` for other workloads. Goes by `info`.
pub(super) struct Info;

impl Stage<VmDraft<'_>> for Info {
    fn plan(&self, draft: &mut VmDraft<'_>) -> Flow {
        if draft.is_prepared && draft.is_entitled {
            let stored = draft.seen.info.as_ref();
            draft.wanted(&info::config_map(draft.vm), stored);
        }
        Flow::Next
    }
}
