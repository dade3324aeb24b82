//! Blocks that an agent offers for display, in addition to the text for the model.

message! {
    /// A summary in one line.
    BriefDisplayBlock tagged "brief" since "1.0" {
        /// The summary.
        text: String,
    }

    /// A change of a file.
    DiffDisplayBlock tagged "diff" since "1.0" {
        /// The path of the file.
        path: String,
        /// The text before the change.
        old_text: String,
        /// The text after the change.
        new_text: String,
        /// The line at which `old_text` starts, from 1.
        old_start: Option<i64> = "1.8",
        /// The line at which `new_text` starts, from 1.
        new_start: Option<i64> = "1.8",
        /// Whether `old_text` and `new_text` only summarise the change.
        is_summary: Option<bool> = "1.8",
    }

    /// A to-do list.
    TodoDisplayBlock tagged "todo" since "1.0" {
        /// The items, in order.
        items or others: Vec<TodoDisplayItem>,
    }

    /// An item of a to-do list.
    TodoDisplayItem since "1.0" {
        /// The text of the item, for example `Write tests`.
        title: String,
        /// The progress of the item.
        status: TodoStatus,
    }

    /// A command for a shell.
    ShellDisplayBlock tagged "shell" since "1.1" {
        /// The language of the command, for highlighting: for example `bash` or `powershell`.
        language: String,
        /// The command.
        command: String,
    }

    /// A task in the background.
    BackgroundTaskDisplayBlock tagged "background_task" since "1.5" {
        /// The id of the task.
        task_id: String,
        /// The kind of task, as the agent names it.
        kind: String,
        /// The status of the task, as the agent names it.
        status: String,
        /// A description of the task.
        description: String,
    }

    /// A display block of a type that this SDK does not know, or of a known type that it could not read.
    /// Its fields are in `extra`.
    UnknownDisplayBlock since "1.0" {
        /// The value of the message's `type` field. Empty if the message has none.
        kind as "type": String,
    }
}

string_enum! {
    /// The progress of an item of a to-do list.
    TodoStatus {
        /// The item is not begun.
        Pending = "pending",
        /// The agent works on the item.
        InProgress = "in_progress",
        /// The item is done.
        Done = "done",
    }
}

tagged_union! {
    /// A block for display.
    DisplayBlock {
        /// A summary in one line.
        Brief(BriefDisplayBlock) = "brief",
        /// A change of a file.
        Diff(DiffDisplayBlock) = "diff",
        /// A to-do list.
        Todo(TodoDisplayBlock) = "todo",
        /// A command for a shell.
        Shell(ShellDisplayBlock) = "shell",
        /// A task in the background.
        BackgroundTask(BackgroundTaskDisplayBlock) = "background_task",
    } else UnknownDisplayBlock
}
