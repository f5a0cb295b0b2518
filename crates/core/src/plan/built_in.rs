//! The pipelines that pleach brings.

/// The built-in pipeline of a task.
pub const TASK_PIPELINE: &str = include_str!("../../pipelines/task.dot");

/// The built-in pipeline of a phase's tests.
pub const GATE_PIPELINE: &str = include_str!("../../pipelines/gate.dot");

/// The attributes that settings put into the pipelines of tasks: agent, model and timeout of a step.
pub const STEP_ATTRIBUTES: [&str; 3] = ["agent", "llm_model", "timeout"];
