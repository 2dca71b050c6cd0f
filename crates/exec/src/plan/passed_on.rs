//! Which results go to a sink, and are not kept.

use framefold_core::{BufferDecl, BufferDtype, BufferKind, BufferUse, Requirements};
use std::sync::Arc;

/// The buffers of a UDF whose rows go to a sink, of those that are `wanted`: see
/// [`crate::PlanOptions::to_sink`].
pub(super) fn of_udf(
    requirements: &Requirements,
    buffers: &[BufferDecl],
    wanted: Option<&Option<Vec<String>>>,
) -> Arc<[String]> {
    let Some(wanted) = wanted else { return Arc::from([]) };
    let is_wanted = |name| wanted.as_ref().is_none_or(|wanted| wanted.contains(name));
    let public = || buffers.iter().filter(|decl| decl.usage == BufferUse::Public);
    let has_rows = |decl: &BufferDecl| {
        decl.kind == BufferKind::Nav && matches!(decl.dtype, BufferDtype::Native(_))
    };
    if !requirements.by_rows || !public().all(has_rows) {
        return Arc::from([]);
    }
    public().map(|decl| &decl.name).filter(|name| is_wanted(name)).cloned().collect()
}
