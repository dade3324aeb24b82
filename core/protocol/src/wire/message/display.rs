//! Blocks that an agent offers for display, beside what the model sees.

message! {
    /// One line that says it all.
    BriefDisplayBlock tagged "brief" since "1.0" {
        /// The line.
        text: String,
    }

    /// A change of a file.
    DiffDisplayBlock tagged "diff" since "1.0" {
        /// The file.
        path: String,
        /// The text before.
        old_text: String,
        /// The text after.
        new_text: String,
        /// The line at which `old_text` starts, from 1.
        old_start: Option<i64> = "1.8",
        /// The line at which `new_text` starts, from 1.
        new_start: Option<i64> = "1.8",
        /// Whether the texts only sum up the change.
        is_summary: Option<bool> = "1.8",
    }

    /// A list of things to do.
    TodoDisplayBlock tagged "todo" since "1.0" {
        /// The things.
        items: Vec<TodoDisplayItem>,
    }

    /// A thing to do.
    TodoDisplayItem since "1.0" {
        /// What.
        title: String,
        /// How far it is.
        status: TodoStatus,
    }

    /// A command for a shell.
    ShellDisplayBlock tagged "shell" since "1.1" {
        /// For highlighting: `bash`, `powershell`.
        language: String,
        /// The command.
        command: String,
    }

    /// A task in the background.
    BackgroundTaskDisplayBlock tagged "background_task" since "1.5" {
        /// The task.
        task_id: String,
        /// What kind of task.
        kind: String,
        /// How far it is.
        status: String,
        /// What it does.
        description: String,
    }

    /// A display block of a type that this SDK does not know, or of a known type that it could not read;
    /// its fields are in `extra`.
    UnknownDisplayBlock since "1.0" {
        /// The type that it says it is; empty if it says none.
        kind as "type": String,
    }
}

string_enum! {
    /// How far a thing to do is.
    TodoStatus {
        /// Not begun.
        Pending = "pending",
        /// Under way.
        InProgress = "in_progress",
        /// Done.
        Done = "done",
    }
}

tagged_union! {
    /// A block for display.
    DisplayBlock {
        /// One line.
        Brief(BriefDisplayBlock) = "brief",
        /// A change of a file.
        Diff(DiffDisplayBlock) = "diff",
        /// Things to do.
        Todo(TodoDisplayBlock) = "todo",
        /// A command.
        Shell(ShellDisplayBlock) = "shell",
        /// A task in the background.
        BackgroundTask(BackgroundTaskDisplayBlock) = "background_task",
    } else UnknownDisplayBlock
}
