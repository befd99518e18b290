//! The runtime's handler of a pod, with the features that the runtime reports. Decides nothing.

use hostlet_pod::AdmittedPod;
use hostlet_runtime::cri::RuntimeHandler;

use super::context::WorkerContext;

/// The pod's handler; one without features if the handler or the pod's runtime class is not known.
pub(super) fn handler_of(context: &WorkerContext, pod: &AdmittedPod) -> RuntimeHandler {
    let name = match pod.spec().runtime_class_name.as_deref().unwrap_or_default() {
        "" => Some(String::new()),
        class => context.runtime.classes.known(class),
    };
    let status = context.runtime.status.borrow();
    let mut handlers = status.iter().flat_map(|status| &status.handlers);
    let own = handlers.find(|handler| name.as_ref() == Some(&handler.name)).cloned();
    own.unwrap_or_else(|| RuntimeHandler { name: name.unwrap_or_default(), ..RuntimeHandler::default() })
}
